package lineedit

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"
)

// An event is a key by its name (left, ctrl-a, alt-b, enter), or text, or a paste, which have their text.
type event struct {
	key  string
	text string
}

// Keys with a text.
const (
	keyText  = "text"
	keyPaste = "paste"
	keyLong  = "long paste" // more than may be pasted; its text is lost
)

// A decoder makes events of what a terminal sends.
type decoder struct {
	most    int // bytes of a paste
	rest    []byte
	paste   []byte
	pasting bool
	long    bool
}

const (
	pasteBegins = "\x1b[200~"
	pasteEnds   = "\x1b[201~"
)

// longestSequence is the most bytes of a key's sequence: a longer one is none.
const longestSequence = 32

// feed takes what was read and returns the events that are complete.
func (d *decoder) feed(data []byte) (events []event) {
	d.rest = append(d.rest, data...)
	for len(d.rest) > 0 {
		if d.pasting {
			e, done := d.pasted()
			if !done {
				break
			}
			events = append(events, e)
			continue
		}
		e, n := next(d.rest)
		if n == 0 {
			break
		}
		d.rest = d.rest[n:]
		switch {
		case e.key == "paste-begins":
			d.pasting, d.long, d.paste = true, false, nil
		case e.key != "":
			events = append(events, e)
		}
	}
	if len(d.rest) == 0 {
		d.rest = nil // give a large array back
	}
	return events
}

// pasted moves what was read to the paste, up to its end.
func (d *decoder) pasted() (e event, done bool) {
	at := bytes.Index(d.rest, []byte(pasteEnds))
	n := at
	if at < 0 {
		n = len(d.rest) - begun(d.rest, pasteEnds)
	}
	if d.paste = append(d.paste, d.rest[:n]...); len(d.paste) > d.most {
		d.paste, d.long = nil, true
	}
	if at < 0 {
		d.rest = append([]byte(nil), d.rest[n:]...)
		return e, false
	}
	d.rest = d.rest[n+len(pasteEnds):]
	d.pasting = false
	if e = (event{keyPaste, lineEnds.Replace(string(d.paste))}); d.long {
		e = event{key: keyLong}
	}
	d.paste = nil
	return e, true
}

// begun returns how many bytes at the end of b are the beginning of a mark.
func begun(b []byte, mark string) int {
	n := min(len(b), len(mark)-1)
	for n > 0 && !bytes.HasSuffix(b, []byte(mark[:n])) {
		n--
	}
	return n
}

// lineEnds makes what terminals send for line ends one character.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// next reads one event; 0 bytes: it is not complete. An event without a key means nothing.
func next(b []byte) (event, int) {
	switch c := b[0]; {
	case c == 0x1b:
		return escaped(b)
	case c < ' ' || c == 0x7f:
		return event{key: control(c)}, 1
	}
	n := 0
	for n < len(b) && b[n] >= ' ' && b[n] != 0x7f {
		if b[n] >= utf8.RuneSelf && !utf8.FullRune(b[n:]) {
			break
		}
		_, size := utf8.DecodeRune(b[n:])
		n += size
	}
	return event{keyText, string(b[:n])}, n
}

// control names a control character.
func control(c byte) string {
	switch c {
	case '\r', '\n':
		return "enter"
	case '\t':
		return "tab"
	case 0x7f, 0x08:
		return "backspace"
	case 0:
		return "ctrl-space"
	}
	if c |= 0x60; c > 'z' {
		return "ctrl-" + string(c&^0x20)
	}
	return "ctrl-" + string(c)
}

// escaped reads what begins with an escape character: a sequence, or a key with Alt.
func escaped(b []byte) (event, int) {
	if len(b) == 1 {
		return event{}, 0
	}
	switch c := b[1]; {
	case c == '[':
		return sequence(b)
	case c == 'O':
		if len(b) < 3 {
			return event{}, 0
		}
		return event{key: finals[b[2]]}, 3
	case c == 0x1b:
		return event{}, 1
	case c < ' ' || c == 0x7f:
		return event{key: "alt-" + control(c)}, 2
	case c >= utf8.RuneSelf && !utf8.FullRune(b[1:]):
		return event{}, 0
	}
	r, n := utf8.DecodeRune(b[1:])
	return event{key: "alt-" + strings.ToLower(string(r))}, 1 + n
}

// finals are keys by the last byte of their sequence.
var finals = map[byte]string{'A': "up", 'B': "down", 'C': "right", 'D': "left", 'H': "home", 'F': "end", 'M': "enter",
	'Z': "shift-tab"}

// numbers are keys by the number in their sequence, which ends with ~.
var numbers = map[int]string{1: "home", 3: "delete", 4: "end", 7: "home", 8: "end", 200: "paste-begins"}

// sequence reads ESC [ parameters final.
func sequence(b []byte) (event, int) {
	n := 2
	for n < len(b) && b[n] >= 0x20 && b[n] < 0x40 {
		n++
	}
	switch {
	case n > longestSequence:
		return event{}, n
	case n == len(b):
		return event{}, 0
	}
	parameters := strings.Split(string(b[2:n]), ";")
	number, _ := strconv.Atoi(parameters[0])
	key := finals[b[n]]
	if b[n] == '~' {
		key = numbers[number]
	}
	if b[n] == '[' && n == 2 { // the Linux console's function keys
		return event{}, min(len(b), n+2)
	}
	if len(parameters) > 1 && key != "" {
		modifiers, _ := strconv.Atoi(parameters[1])
		switch m := modifiers - 1; {
		case m&4 != 0:
			key = "ctrl-" + key
		case m&2 != 0:
			key = "alt-" + key
		}
	}
	return event{key: key}, n + 1
}
