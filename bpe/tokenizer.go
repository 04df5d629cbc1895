package bpe

import (
	"slices"
	"strings"
	"sync"
)

// Tokenizer encodes text as token ids and decodes ids. It is immutable and safe for
// concurrent use.
type Tokenizer struct {
	model   string
	tokens  []string // [id] as the vocabulary spells them
	types   []uint8  // [id]
	bytes   []string // [id] the bytes of text that they stand for
	ids     map[string]int32
	special specials
	encoder encoder

	bos, eos, unk, sep     int32
	eog, suppressed        []int32 // ascending
	addBOS, addEOS, addSEP bool
	spacePrefix            bool
	stripAfter             map[int32]bool // special tokens that take the white space behind them
	stripBefore            map[int32]bool // and those that take what is in front
	infill                 map[string]int32

	scratch sync.Pool // of *scratch
}

// encoder appends the ids of text without special tokens to s.ids.
type encoder interface {
	encode(s *scratch, text string)
	equal(other encoder) bool
}

// scratch is the working memory of one call of Encode. It is reused.
type scratch struct {
	ids       []int32        // the result
	symbols   []symbol       // the word being merged
	queue     []uint64       // its candidate merges, a heap
	paths     []path         // the best ways to cut it, of a t5 model
	text      []byte         // of the kinds that mark spaces: the text with marks,
	word      []byte         // and the word being merged
	fragments []fragment     // the text cut at special tokens
	found     []fragment     // special tokens of a cluster, and
	taken     []uint64       // the bytes that they cover, a bit each
	ends      []int          // where each part of the text ends
	barred    map[int32]bool // tokens that the fragment must not become, nil for none
	begins    bool           // the fragment begins a text or follows a special token
	split     splitState
	words     *wordCache // nil until a text is long
	read      int        // characters that splitters, and bytes that tries, have looked at, roughly: for tests
}

// EncodeOptions says how [Tokenizer.Encode] treats special tokens and the
// beginning of the text. The zero value is right for a whole text from a user.
type EncodeOptions struct {
	ParseSpecial bool // control tokens spelled out in the text become their ids
	AddSpecial   bool // adds the tokens that the vocabulary asks for, see [Tokenizer.Marks]
	Plain        bool // the text is text and nothing else, see [Part].Plain

	// NoSpacePrefix says that the text continues a sequence that ends in
	// ordinary text: its first token gets no space prefix, whatever
	// [Config].AddSpacePrefix asks for. Text after a special token that is found
	// inside it gets the prefix as always. Without effect on a gpt2 or bert model.
	NoSpacePrefix bool
}

// Part is a section of a text whose sections have different origins, such as a chat
// template and the messages that it is filled with.
type Part struct {
	Text         string
	ParseSpecial bool // control tokens that lie inside the part become their ids

	// Plain says that the part is text and nothing else: no user-defined token that
	// overlaps it is found, and no merge in a stretch of text that overlaps it makes
	// one. User-defined tokens of white space, or of one character, are found as always.
	Plain bool
}

// Encode returns the ids of text. It takes O(n log n) time for text of n bytes. A
// word of more than 1 MiB is encoded as several. Invalid UTF-8 is encoded byte for
// byte.
func (t *Tokenizer) Encode(text string, o EncodeOptions) []int32 {
	return t.encode(text, []Part{{Text: text, ParseSpecial: o.ParseSpecial, Plain: o.Plain}}, o)
}

// EncodeParts returns the ids of the concatenation of parts. Words continue from one
// part to the next, as in the filled-in template, but control and user-defined tokens
// are found only in the parts that allow them. addSpecial is
// [EncodeOptions].AddSpecial.
func (t *Tokenizer) EncodeParts(parts []Part, addSpecial bool) []int32 {
	var all strings.Builder
	for _, p := range parts {
		all.WriteString(p.Text)
	}
	return t.encode(all.String(), parts, EncodeOptions{AddSpecial: addSpecial})
}

// encode is Encode with o.ParseSpecial decided by each part.
func (t *Tokenizer) encode(text string, parts []Part, o EncodeOptions) []int32 {
	s, _ := t.scratch.Get().(*scratch)
	if s == nil {
		s = new(scratch)
	}
	s.ids = s.ids[:0]
	if s.words == nil && len(text) >= cachedText {
		s.words = newWordCache(cachedWords)
	}
	front, back := t.Marks()
	if o.AddSpecial && front >= 0 {
		s.ids = append(s.ids, front)
	}
	s.begins = !o.NoSpacePrefix
	strip := false
	fragments := t.special.cut(s, text, parts)
	for i, f := range fragments {
		if f.id >= 0 {
			s.ids = append(s.ids, f.id)
			s.begins = true
			strip = t.stripAfter[f.id]
			continue
		}
		if strip {
			for f.start < f.end && asciiSpace(text[f.start]) {
				f.start++
			}
		}
		if i+1 < len(fragments) && t.stripBefore[fragments[i+1].id] {
			for f.start < f.end && asciiSpace(text[f.end-1]) {
				f.end--
			}
		}
		if f.start == f.end {
			continue
		}
		s.barred = nil
		if t.special.barred != nil {
			if i, _ := slices.BinarySearch(s.ends, f.start+1); s.plain(parts, i, f.end) {
				s.barred = t.special.barred
			}
		}
		s.text = s.text[:0]
		if s.begins && t.spacePrefix {
			s.text = append(s.text, spaceMark...)
		}
		t.encoder.encode(s, text[f.start:f.end])
		s.begins = false
	}
	if o.AddSpecial && back >= 0 {
		s.ids = append(s.ids, back)
	}
	ids := slices.Clone(s.ids)
	t.scratch.Put(s)
	return ids
}

func asciiSpace(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' }

// Size returns the number of tokens in the vocabulary. Their ids are 0 to Size-1.
func (t *Tokenizer) Size() int { return len(t.tokens) }

// ID returns the id of a token, given as the vocabulary spells it.
func (t *Tokenizer) ID(token string) (int32, bool) {
	id, ok := t.ids[token]
	return id, ok
}

// Token returns the token of an id as the vocabulary spells it (a byte-level one
// writes a space as Ġ, a SentencePiece one as ▁), or "" outside the vocabulary. It
// is the inverse of ID. For the text that an id stands for see Bytes.
func (t *Tokenizer) Token(id int32) string {
	if !t.has(id) {
		return ""
	}
	return t.tokens[id]
}

// BOS returns the id of the token that begins a text, -1 if there is none.
func (t *Tokenizer) BOS() int32 { return t.bos }

// EOS returns the id of the token that ends a text, -1 if there is none.
func (t *Tokenizer) EOS() int32 { return t.eos }

// AddsBOS reports whether [EncodeOptions].AddSpecial puts BOS in front of a text.
func (t *Tokenizer) AddsBOS() bool {
	front, _ := t.Marks()
	return front >= 0
}

// Marks returns the tokens that [EncodeOptions].AddSpecial puts in front of and behind a
// text, -1 for none: BOS and EOS where the vocabulary asks for them, BOS and the
// separator of a bert model whatever it asks for.
func (t *Tokenizer) Marks() (front, back int32) {
	front, back = -1, -1
	if t.addBOS || t.model == "bert" {
		front = t.bos
	}
	switch {
	case t.model == "bert":
		back = t.sep
	case t.addEOS:
		back = t.eos
	}
	return front, back
}

// IsEOG reports whether id ends a generation: EOS, [Config].EOG, and the well-known
// tokens that end a turn of a chat, such as <|im_end|>.
func (t *Tokenizer) IsEOG(id int32) bool {
	_, ok := slices.BinarySearch(t.eog, id)
	return ok
}

// Suppressed are the ids that the vocabulary's file says are never to be chosen, such as those of pictures,
// ascending. It is for whoever chooses: Decode and Encode know them as other tokens.
func (t *Tokenizer) Suppressed() []int32 { return slices.Clone(t.suppressed) }

// InfillMark is the id that the vocabulary's file gives one of the marks of [Config].Infill; not ok: it gives none.
func (t *Tokenizer) InfillMark(part string) (id int32, ok bool) {
	id, ok = t.infill[part]
	return id, ok
}

// IsControl reports whether id is a control token: it marks structure and has no text.
func (t *Tokenizer) IsControl(id int32) bool { return t.has(id) && t.types[id] == TypeControl }

// IsUserDefined reports whether id is a token that was added to the vocabulary, such as the mark of a tool call.
func (t *Tokenizer) IsUserDefined(id int32) bool { return t.has(id) && t.types[id] == TypeUserDefined }

// IsPadding reports whether id makes the vocabulary no more than longer: it stands for nothing.
func (t *Tokenizer) IsPadding(id int32) bool { return !t.has(id) || t.padding(id) }

func (t *Tokenizer) has(id int32) bool { return id >= 0 && int(id) < len(t.tokens) }

// isText reports whether text without special tokens may become the token.
func (t *Tokenizer) isText(id int32) bool {
	switch t.types[id] {
	case TypeControl, TypeUnknown, TypeByte:
		return false
	}
	return t.tokens[id] != ""
}
