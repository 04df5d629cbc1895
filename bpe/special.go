package bpe

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// specials finds the tokens that are cut out of a text before it is encoded:
// user-defined ones outside of plain parts, control and unknown ones where
// they are parsed.
type specials struct {
	list   []specialToken
	first  [256][]int32   // indices into list by first byte
	barred map[int32]bool // user-defined tokens that plain text never becomes
}

type specialToken struct {
	text    string
	id      int32
	control bool // found only where special tokens are parsed
	marks   bool // may mark structure: not found in plain parts
}

// mayMark says whether a user-defined token could mark structure. White space
// and single characters cannot; vocabularies have them for text.
func mayMark(text string) bool {
	return utf8.RuneCountInString(text) > 1 && strings.TrimSpace(strings.ReplaceAll(text, spaceMark, " ")) != ""
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
				control := types[i] != TypeUserDefined
				tok := specialToken{text, int32(i), control, control || mayMark(text)}
				s.list = append(s.list, tok)
				if tok.marks && !control {
					if s.barred == nil {
						s.barred = make(map[int32]bool)
					}
					s.barred[tok.id] = true
				}
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
	s.ends = s.ends[:0]
	end := 0
	for _, p := range parts {
		end += len(p.Text)
		s.ends = append(s.ends, end)
	}
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
				if !s.allowed(tok, parts, start, end) {
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

// allowed says whether a token that stands at [start, end) may be found there:
// a control token inside one part that parses special tokens, a user-defined
// one that could mark structure where no part is plain.
func (s *scratch) allowed(tok *specialToken, parts []Part, start, end int) bool {
	if !tok.marks {
		return true
	}
	i, _ := slices.BinarySearch(s.ends, start+1)
	if tok.control {
		return parts[i].ParseSpecial && end <= s.ends[i]
	}
	return !s.plain(parts, i, end)
}

// plain says whether a plain part has bytes between part i and end.
func (s *scratch) plain(parts []Part, i, end int) bool {
	for ; i < len(parts); i++ {
		if parts[i].Plain && parts[i].Text != "" {
			return true
		}
		if s.ends[i] >= end {
			break
		}
	}
	return false
}
