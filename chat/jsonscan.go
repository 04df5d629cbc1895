package chat

// jsonScan checks JSON byte by byte. It stops at the end of one value.
type jsonScan struct {
	stack []byte // open brackets
	state scanState
	word  string // what is left of true, false, null
	hex   int    // digits that are left of \uXXXX
	key   bool   // the string being read is a key
}

type scanState uint8

const (
	scanValue     scanState = iota // a value begins
	scanFirstItem                  // a value or ]
	scanFirstKey                   // a key or }
	scanKey                        // a key
	scanColon
	scanAfter // comma or closing bracket, or the end
	scanString
	scanEscape
	scanHex
	scanWord
	scanMinus // states of a number, RFC 8259 section 6
	scanZero
	scanInt
	scanPoint
	scanFraction
	scanE
	scanESign
	scanExponent
)

// maxScanDepth bounds how deeply arguments may nest.
const maxScanDepth = 128

func isJSONSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// done says whether the value is complete. A number on its own never is.
func (j *jsonScan) done() bool { return j.state == scanAfter && len(j.stack) == 0 }

// inString says whether the next byte is one of a string's, or ends it.
func (j *jsonScan) inString() bool {
	return j.state == scanString || j.state == scanEscape || j.state == scanHex
}

// valueScan follows a text that is to be one JSON value. What is none has no strings.
type valueScan struct {
	scan jsonScan
	none bool
}

// inString says whether the next byte is one of a string's, or ends it.
func (v *valueScan) inString() bool { return !v.none && v.scan.inString() }

func (v *valueScan) next(c byte) { v.none = v.none || !v.scan.next(c) }

// next takes a byte; it returns false if the text is no JSON.
func (j *jsonScan) next(c byte) bool {
	switch j.state {
	case scanMinus:
		return j.digit(c, scanInt, scanZero)
	case scanPoint:
		return j.digit(c, scanFraction, scanFraction)
	case scanE:
		if c == '+' || c == '-' {
			j.state = scanESign
			return true
		}
		return j.digit(c, scanExponent, scanExponent)
	case scanESign:
		return j.digit(c, scanExponent, scanExponent)
	case scanZero, scanInt, scanFraction, scanExponent:
		switch {
		case c >= '0' && c <= '9' && j.state != scanZero:
			return true
		case c == '.' && (j.state == scanZero || j.state == scanInt):
			j.state = scanPoint
			return true
		case c|0x20 == 'e' && j.state != scanExponent:
			j.state = scanE
			return true
		}
		j.state = scanAfter // the number has ended in front of c
	case scanString:
		switch {
		case c == '"':
			if j.state = scanAfter; j.key {
				j.state = scanColon
			}
		case c == '\\':
			j.state = scanEscape
		case c < 0x20:
			return false
		}
		return true
	case scanEscape:
		switch c {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			j.state = scanString
		case 'u':
			j.state, j.hex = scanHex, 4
		default:
			return false
		}
		return true
	case scanHex:
		if !(c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f') {
			return false
		}
		if j.hex--; j.hex == 0 {
			j.state = scanString
		}
		return true
	case scanWord:
		if c != j.word[0] {
			return false
		}
		if j.word = j.word[1:]; j.word == "" {
			j.state = scanAfter
		}
		return true
	}
	if isJSONSpace(c) {
		return true
	}
	switch j.state {
	case scanColon:
		j.state = scanValue
		return c == ':'
	case scanKey, scanFirstKey:
		if c == '}' && j.state == scanFirstKey {
			return j.pop('{')
		}
		j.state, j.key = scanString, true
		return c == '"'
	case scanAfter:
		if len(j.stack) == 0 {
			return false
		}
		top := j.stack[len(j.stack)-1]
		switch {
		case c == ',' && top == '{':
			j.state = scanKey
		case c == ',':
			j.state = scanValue
		case c == '}':
			return j.pop('{')
		case c == ']':
			return j.pop('[')
		default:
			return false
		}
		return true
	}
	// A value begins.
	switch {
	case c == ']' && j.state == scanFirstItem:
		return j.pop('[')
	case c == '{' || c == '[':
		if len(j.stack) >= maxScanDepth {
			return false
		}
		j.stack = append(j.stack, c)
		if j.state = scanFirstItem; c == '{' {
			j.state = scanFirstKey
		}
	case c == '"':
		j.state, j.key = scanString, false
	case c == '-':
		j.state = scanMinus
	case c >= '0' && c <= '9':
		return j.digit(c, scanInt, scanZero)
	case c == 't':
		j.state, j.word = scanWord, "rue"
	case c == 'f':
		j.state, j.word = scanWord, "alse"
	case c == 'n':
		j.state, j.word = scanWord, "ull"
	default:
		return false
	}
	return true
}

func (j *jsonScan) digit(c byte, state, zero scanState) bool {
	if j.state = state; c == '0' {
		j.state = zero
	}
	return c >= '0' && c <= '9'
}

func (j *jsonScan) pop(open byte) bool {
	n := len(j.stack) - 1
	if n < 0 || j.stack[n] != open {
		return false
	}
	j.stack = j.stack[:n]
	j.state = scanAfter
	return true
}
