package bpe

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// A charsmap is a set of rules "these bytes become those", as SentencePiece compiles
// them into its models (precompiled_charsmap): a double-array trie (Yata et al., "A
// compact static double-array keeping character codes", 2007) of the rules' left
// sides, whose values are offsets of the right sides. It makes one spelling of
// characters that Unicode lets be spelled in several ways.
//
// The bytes are: the size of the array in bytes (uint32), the array (uint32), the
// right sides, each ending in a zero byte. Numbers are little-endian. A state of a walk
// is an index into the array. It has an edge with the byte c if units[state^c] has
// that label; the edge leads to state^c^base.
type charsmap struct {
	units []uint32
	root  uint32
	right []byte
}

// Parts of a unit.
const (
	unitLabel = 0x800000ff // the byte of the edge; the highest bit marks a value, which is no edge
	unitValue = 0x7fffffff // in the unit at the state itself, where unitMatch of the edge is set
	unitMatch = 1 << 8     // a rule ends with this edge
)

func unitBase(u uint32) uint32 { return u >> 10 << (u >> 6 & 8) }

// maxReplacement bounds the right side of a rule, so that text cannot grow without
// bound. The longest one of Unicode's compatibility normalization (NFKC) has 33 bytes.
const maxReplacement = 128

// newCharsmap reads a compiled map and checks every rule. There is none in no bytes.
func newCharsmap(b []byte) (*charsmap, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if len(b) < 4 {
		return nil, fmt.Errorf("%d bytes are no map", len(b))
	}
	size := binary.LittleEndian.Uint32(b)
	b = b[4:]
	if size == 0 || size%4 != 0 || uint64(size) > uint64(len(b)) {
		return nil, fmt.Errorf("a trie of %d bytes in the %d that follow its size", size, len(b))
	}
	m := &charsmap{units: make([]uint32, size/4), right: bytes.Clone(b[size:])}
	for i := range m.units {
		m.units[i] = binary.LittleEndian.Uint32(b[4*i:])
	}
	m.root = unitBase(m.units[0])
	return m, m.check()
}

// check follows every edge that a walk can reach, each once. Without a cycle, a walk
// is no longer than the array.
func (m *charsmap) check() error {
	// Edges by the state that they leave: each unit is an edge of one state at most.
	next := make([]int32, len(m.units)) // the next edge of the same state
	first := make([]int32, len(m.units))
	for i := range first {
		first[i] = -1
	}
	for i, u := range m.units {
		if label := u & unitLabel; label != 0 && label <= 0xff {
			if from := uint32(i) ^ label; int(from) < len(first) {
				next[i], first[from] = first[from], int32(i)
			}
		}
	}
	const unseen, open, done = 0, 1, 2
	seen := make([]uint8, len(m.units))
	stack := []uint32{m.root}
	for len(stack) > 0 {
		state := stack[len(stack)-1]
		if int64(state) >= int64(len(m.units)) {
			stack = stack[:len(stack)-1] // no edge leaves it: walks check indices
			continue
		}
		i := first[state]
		if seen[state] == unseen {
			seen[state] = open
		}
		if i < 0 {
			seen[state] = done
			stack = stack[:len(stack)-1]
			continue
		}
		first[state] = next[i]
		to := uint32(i) ^ unitBase(m.units[i])
		if m.units[i]&unitMatch != 0 {
			if err := m.checkRule(to); err != nil {
				return err
			}
		}
		if int64(to) < int64(len(m.units)) {
			switch seen[to] {
			case unseen:
				stack = append(stack, to)
			case open:
				return fmt.Errorf("unit %d leads back to a state before it", i)
			}
		}
	}
	return nil
}

// checkRule checks the right side of a rule that ends in a state.
func (m *charsmap) checkRule(state uint32) error {
	if int64(state) >= int64(len(m.units)) {
		return fmt.Errorf("the value at unit %d is outside the trie of %d units", state, len(m.units))
	}
	at := int64(m.units[state] & unitValue)
	if at >= int64(len(m.right)) {
		return fmt.Errorf("unit %d: a replacement at byte %d of %d", state, at, len(m.right))
	}
	n := bytes.IndexByte(m.right[at:], 0)
	if n < 0 {
		return fmt.Errorf("unit %d: the replacement at byte %d has no end", state, at)
	}
	if n > maxReplacement {
		return fmt.Errorf("unit %d: a replacement of %d bytes, the limit is %d", state, n, maxReplacement)
	}
	for s := m.right[at : at+int64(n)]; len(s) > 0; {
		k := sequenceLen(s)
		if k == 0 {
			return errors.New("a replacement that is not UTF-8: " + quote(string(m.right[at:at+int64(n)])))
		}
		s = s[k:]
	}
	return nil
}

// find returns the right side of the longest rule for the beginning of text and how
// many bytes it replaces, 0 if there is no rule.
func (m *charsmap) find(text string) (replacement []byte, n int) {
	state, end := m.root, uint32(0)
	for i := 0; i < len(text); i++ {
		c := uint32(text[i])
		at := state ^ c
		if c == 0 || int64(at) >= int64(len(m.units)) {
			break
		}
		u := m.units[at]
		if u&unitLabel != c {
			break
		}
		state = at ^ unitBase(u)
		if u&unitMatch != 0 {
			n, end = i+1, state
		}
	}
	if n > 0 {
		at := m.units[end] & unitValue
		replacement = m.right[at:]
		replacement = replacement[:bytes.IndexByte(replacement, 0)]
	}
	return replacement, n
}

// sequenceLen returns the length of the sequence of bytes at the beginning of text
// that has the form of a UTF-8 character, 0 if there is none. Overlong forms and
// surrogates have that form.
func sequenceLen[T string | []byte](text T) int {
	n := 1
	switch c := text[0]; {
	case c < 0x80:
		return 1
	case c < 0xc0 || c >= 0xf8:
		return 0
	case c >= 0xf0:
		n = 4
	case c >= 0xe0:
		n = 3
	default:
		n = 2
	}
	if len(text) < n {
		return 0
	}
	for i := 1; i < n; i++ {
		if text[i]&0xc0 != 0x80 {
			return 0
		}
	}
	return n
}
