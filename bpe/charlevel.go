package bpe

import (
	"bytes"
	"maps"
	"unicode/utf8"
)

// charLevel is the gemma4 kind of BPE: the text with spaces as marks is cut into runs
// of line breaks and of anything else (splitLines); each starts as its characters and
// is merged by rank. A run of line breaks that is a token is not merged, except in
// sarvam-moe's files.
type charLevel struct {
	tokens     map[string]int32 // characters and runs of line breaks
	ascii      [utf8.RuneSelf]int32
	merges     *mergeTable
	bytes      byteFallback
	wordByWord bool // no merge makes a token with a space mark after another character

	mergeBreaks bool // runs of line breaks are merged, whether they are tokens or not
}

func newCharLevel(t *Tokenizer, pre string, merges []string) (*charLevel, error) {
	c := &charLevel{tokens: make(map[string]int32), bytes: t.byteFallback(), wordByWord: true,
		mergeBreaks: pre == "sarvam-moe"}
	var err error
	if c.merges, err = newMergeTable(t, merges); err != nil {
		return nil, err
	}
	for m := range c.merges.all() {
		c.wordByWord = c.wordByWord && !markInside(t.tokens[m.id])
	}
	for i := range c.ascii {
		c.ascii[i] = -1
	}
	for i, text := range t.tokens {
		id := int32(i)
		if !t.isText(id) {
			continue
		}
		if _, n := utf8.DecodeRuneInString(text); n == len(text) || lineBreaks(text) == len(text) {
			c.tokens[text] = id
			if n == 1 && n == len(text) && text[0] < utf8.RuneSelf {
				c.ascii[text[0]] = id
			}
		}
	}
	return c, nil
}

// lineBreaks returns the length of the run of line breaks at the beginning of text.
func lineBreaks[T string | []byte](text T) int {
	n := 0
	for n < len(text) && text[n] == '\n' {
		n++
	}
	return n
}

func (c *charLevel) encode(s *scratch, text string) {
	s.text = appendMarked(s.text, text)
	for all := s.text; len(all) > 0; {
		n := lineBreaks(all)
		if n > 0 {
			c.lineBreaks(s, all[:n])
		} else {
			if n = bytes.IndexByte(all, '\n'); n < 0 {
				n = len(all)
			}
			for line := all[:n]; len(line) > 0; {
				k := wordEnd(line, c.wordByWord)
				c.word(s, line[:k])
				line = line[k:]
			}
		}
		all = all[n:]
	}
}

func (c *charLevel) lineBreaks(s *scratch, run []byte) {
	if id, ok := c.tokens[string(run)]; ok && !s.barred[id] && !c.mergeBreaks {
		s.ids = append(s.ids, id)
		return
	}
	for len(run) > 0 {
		n := min(len(run), maxWord)
		c.word(s, run[:n])
		run = run[n:]
	}
}

func (c *charLevel) word(s *scratch, word []byte) {
	s.symbols = s.symbols[:0]
	for i := 0; i < len(word); {
		sym := symbol{start: int32(i), prev: int32(len(s.symbols)) - 1, next: int32(len(s.symbols)) + 1, id: -1,
			priority: never}
		if b := word[i]; b < utf8.RuneSelf {
			sym.id = c.ascii[b]
			i++
		} else {
			_, n := utf8.DecodeRune(word[i:])
			if id, ok := c.tokens[string(word[i:i+n])]; ok && !s.barred[id] {
				sym.id = id
			}
			i += n
		}
		sym.end = int32(i)
		s.symbols = append(s.symbols, sym)
	}
	s.symbols[len(s.symbols)-1].next = -1
	s.merge(c.merges, never)
	for i := int32(0); i >= 0; i = s.symbols[i].next {
		if sym := &s.symbols[i]; sym.id >= 0 {
			s.ids = append(s.ids, sym.id)
		} else {
			c.bytes.encode(s, word[sym.start:sym.end])
		}
	}
}

func (c *charLevel) equal(other encoder) bool {
	o, ok := other.(*charLevel)
	return ok && c.mergeBreaks == o.mergeBreaks && c.bytes == o.bytes &&
		c.merges.equal(o.merges) && maps.Equal(c.tokens, o.tokens)
}
