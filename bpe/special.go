package bpe

import (
	"cmp"
	"slices"
	"strings"
)

// specials finds the tokens that are cut out of a text before it is encoded:
// user-defined ones everywhere, control and unknown ones where they are parsed.
type specials struct {
	list  []specialToken
	first [256][]int32 // indices into list by first byte
}

type specialToken struct {
	text    string
	id      int32
	control bool // found only where special tokens are parsed
}

// fragment is text[start:end], or a special token when id is not negative.
type fragment struct {
	start, end int
	id         int32
}

func newSpecials(tokens []string, types []uint8) specials {
	var s specials
	for i, text := range tokens {
		switch types[i] {
		case TypeControl, TypeUnknown, TypeUserDefined:
			if text != "" {
				s.list = append(s.list, specialToken{text, int32(i), types[i] != TypeUserDefined})
			}
		}
	}
	// The longest go first, wherever they are in the text: <|end|> is not lost
	// to a vocabulary that has <| as well.
	slices.SortStableFunc(s.list, func(a, b specialToken) int { return cmp.Compare(len(b.text), len(a.text)) })
	for i, tok := range s.list {
		c := tok.text[0]
		s.first[c] = append(s.first[c], int32(i))
	}
	return s
}

// cut divides text, the concatenation of parts, at its special tokens. The
// result is valid until the next cut with the same scratch.
func (sp *specials) cut(s *scratch, text string, parts []Part) []fragment {
	s.fragments = s.fragments[:0]
	if text == "" {
		return nil
	}
	out := append(s.fragments, fragment{0, len(text), -1})
	for _, i := range sp.present(text, parts) {
		tok := &sp.list[i]
		in := out
		out = s.spare[:0]
		for _, f := range in {
			if f.id >= 0 {
				out = append(out, f)
				continue
			}
			for from := f.start; ; {
				at := strings.Index(text[from:f.end], tok.text)
				if at < 0 {
					break
				}
				start := from + at
				end := start + len(tok.text)
				if tok.control && !parsed(parts, start, end) {
					from = start + 1
					continue
				}
				if start > f.start {
					out = append(out, fragment{f.start, start, -1})
				}
				out = append(out, fragment{start, end, tok.id})
				f.start, from = end, end
			}
			if f.start < f.end {
				out = append(out, f)
			}
		}
		s.spare = in
	}
	s.fragments = out
	return out
}

// present returns the indices, ascending, of the special tokens to look for:
// one pass spares a search of the text for each token of a long list.
func (sp *specials) present(text string, parts []Part) []int32 {
	if len(sp.list) == 0 {
		return nil
	}
	anyParsed := slices.ContainsFunc(parts, func(p Part) bool { return p.ParseSpecial })
	var found []int32
	var seen map[int32]bool
	for i := range len(text) {
		for _, k := range sp.first[text[i]] {
			tok := &sp.list[k]
			if tok.control && !anyParsed || !strings.HasPrefix(text[i:], tok.text) || seen[k] {
				continue
			}
			if seen == nil {
				seen = make(map[int32]bool)
			}
			seen[k] = true
			found = append(found, k)
		}
	}
	slices.Sort(found)
	return found
}

// parsed says whether [start, end) lies inside one part that parses special tokens.
func parsed(parts []Part, start, end int) bool {
	for _, p := range parts {
		if start < len(p.Text) {
			return p.ParseSpecial && end <= len(p.Text)
		}
		start -= len(p.Text)
		end -= len(p.Text)
	}
	return false
}
