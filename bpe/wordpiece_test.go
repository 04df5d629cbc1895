package bpe

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/specgo/spec/internal/testkit"
)

// published is a vocabulary made for these tests, with the ids that the published program gives texts.
type published struct {
	Tokens, Texts []string
	IDs           map[string][][]int32 // by "lowercase strip_accents"
}

func readPublished(t testing.TB) (p published) {
	t.Helper()
	if err := json.Unmarshal([]byte(read(t, "testdata/wordpiece.json")), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// config makes the vocabulary's configuration. Its marks are its first tokens.
func (p published) config(lowercase, stripAccents bool) Config {
	c := Defaults("bert", "")
	c.Tokens, c.Lowercase, c.StripAccents = p.Tokens, lowercase, stripAccents
	c.Types = make([]int32, len(c.Tokens))
	for i := range 5 {
		c.Types[i] = TypeControl
	}
	c.UNK, c.BOS, c.SEP = 1, 2, 3
	return c
}

// TestWordPiecePublished compares with the published program on the project's own vocabulary.
func TestWordPiecePublished(t *testing.T) {
	p := readPublished(t)
	if len(p.Texts) < 50 || len(p.IDs) != 4 {
		t.Fatalf("%d texts, %d normalizations", len(p.Texts), len(p.IDs))
	}
	for key, want := range p.IDs {
		lowercase, strip, _ := strings.Cut(key, " ")
		tok := must(t, p.config(lowercase == "true", strip == "true"))
		for i, text := range p.Texts {
			if got := tok.Encode(text, EncodeOptions{}); !slices.Equal(got, want[i]) {
				t.Errorf("lowercase, strip %s: %q:\n got %q\nwant %q", key, text, tokenStrings(tok, got),
					tokenStrings(tok, want[i]))
			}
		}
	}
}

// references reads the texts of a vocabulary and the ids that an independent engine gives them.
func references(t testing.TB, name string) (texts []string, ids [][]int32) {
	t.Helper()
	texts = strings.Split(read(t, testkit.Shared(t, "tokenizers/"+name+".inp")), "\n__ggml_vocab_test__\n")
	for line := range strings.Lines(read(t, testkit.Shared(t, "tokenizers/"+name+".out"))) {
		var list []int32
		for _, f := range strings.Fields(line) {
			id, err := strconv.ParseInt(f, 10, 32)
			if err != nil {
				t.Fatal(err)
			}
			list = append(list, int32(id))
		}
		ids = append(ids, list)
	}
	if len(ids) != 374 || len(texts) != len(ids)+1 {
		t.Fatalf("%s: %d texts, %d lines of ids; want 374 of each", name, len(texts), len(ids))
	}
	return texts[:len(ids)], ids
}

// TestWordPieceReference compares with an independent engine, and where the published program differs from
// it (Hangul, marks, controls, words over 100 characters) with that.
func TestWordPieceReference(t *testing.T) {
	var published map[string]map[int][]int32
	if err := json.Unmarshal([]byte(read(t, "testdata/wordpiece-published.json")), &published); err != nil {
		t.Fatal(err)
	}
	for name, differ := range published {
		t.Run(name, func(t *testing.T) {
			tok := open(t, testkit.Shared(t, "tokenizers/"+name+".gguf"))
			texts, ids := references(t, name)
			for i, text := range texts {
				want := ids[i]
				if other, ok := differ[i]; ok {
					want = other
				}
				if got := tok.Encode(text, EncodeOptions{}); !slices.Equal(got, want) {
					t.Errorf("text %d, %q:\n got %v\nwant %v", i, text, got, want)
				}
			}
		})
	}
	if len(published) != 4 || len(published["bert-bge"]) != 25 {
		t.Errorf("%d vocabularies, %d texts of bert-bge differ", len(published), len(published["bert-bge"]))
	}
}

// wordPieceByDefinition encodes text without special tokens as the published program does, step by step.
func wordPieceByDefinition(c Config, text string) (ids []int32) {
	var clean, parts strings.Builder
	for i := 0; i < len(text); {
		r, n := looseRune(text[i:])
		i += n
		control := unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Cs) && !strings.ContainsRune("\t\n\r", r)
		switch {
		case r == 0 || r == utf8.RuneError || control:
		case unicode.IsSpace(r) || unicode.In(r, unicode.Z):
			clean.WriteByte(' ')
		case ideograph(r):
			clean.WriteString(" " + string(r) + " ")
		default:
			clean.WriteRune(r)
		}
	}
	text = clean.String()
	if c.StripAccents {
		var left strings.Builder
		decompositions := readDecompositions()
		for _, r := range text {
			if at := r - 0xac00; at >= 0 && at < 19*21*28 {
				left.WriteString(string([]rune{0x1100 + at/(21*28), 0x1161 + at/28%21}))
				if at%28 > 0 {
					left.WriteRune(0x11a7 + at%28)
				}
			} else if d, ok := decompositions[r]; ok {
				left.WriteString(d)
			} else if !unicode.Is(unicode.Mn, r) {
				left.WriteRune(r)
			}
		}
		text = left.String()
	}
	if c.Lowercase {
		text = strings.Map(unicode.ToLower, strings.ReplaceAll(text, "İ", "i\u0307"))
	}
	for _, r := range text {
		if unicode.IsPunct(r) || r < 0x7f && unicode.IsSymbol(r) {
			parts.WriteString(" " + string(r) + " ")
		} else {
			parts.WriteRune(r)
		}
	}
	vocabulary := map[string]int32{}
	for i, s := range c.Tokens {
		if c.Types[i] == TypeNormal || c.Types[i] == TypeUndefined {
			if word, ok := strings.CutPrefix(s, spaceMark); ok && word != "" {
				vocabulary[word] = int32(i)
			} else {
				vocabulary["##"+s] = int32(i)
			}
		}
	}
next:
	for _, word := range strings.Split(parts.String(), " ") {
		if utf8.RuneCountInString(word) > maxWordPiece {
			ids = append(ids, c.UNK)
			continue
		}
		var pieces []int32
		for start := 0; start < len(word); {
			end := len(word)
			for ; end > start; end-- {
				key := word[start:end]
				if start > 0 {
					key = "##" + key
				}
				if id, ok := vocabulary[key]; ok {
					pieces = append(pieces, id)
					break
				}
			}
			if end == start {
				ids = append(ids, c.UNK)
				continue next
			}
			start = end
		}
		ids = append(ids, pieces...)
	}
	return ids
}

// FuzzWordPiece: ids are those of the definition, whether special tokens are parsed or not, and stream to the text
// that they decode to.
func FuzzWordPiece(f *testing.F) {
	p := readPublished(f)
	for _, s := range append(p.Texts, awkward...) {
		f.Add(s)
	}
	var configs []Config
	var toks []*Tokenizer
	for i := range 4 {
		c := p.config(i&1 != 0, i&2 != 0)
		configs, toks = append(configs, c), append(toks, must(f, c))
	}
	f.Fuzz(func(t *testing.T, text string) {
		for i, tok := range toks {
			ids := tok.Encode(text, EncodeOptions{})
			if len(text) < 1000 {
				if want := wordPieceByDefinition(configs[i], text); !slices.Equal(ids, want) {
					t.Fatalf("%d: %q: got %q, want %q", i, text, tokenStrings(tok, ids), tokenStrings(tok, want))
				}
			}
			if marked := tok.Encode(text, EncodeOptions{AddSpecial: true}); !slices.Equal(marked, slices.Concat([]int32{2}, ids,
				[]int32{3})) {
				t.Fatalf("%q: with marks %v, without %v", text, marked, ids)
			}
			if got, want := stream(t, tok, ids), tok.Decode(ids); got != want {
				t.Fatalf("%q: streams to %q, decodes to %q", text, got, want)
			}
		}
	})
}

// TestWordPieceBounds: long words and vocabularies that tempt to walk far cost a bounded number of steps a byte, and
// a long word no memory.
func TestWordPieceBounds(t *testing.T) {
	c := readPublished(t).config(true, true)
	c.Tokens = append(slices.Clone(c.Tokens), strings.Repeat("a", 98)+"b", strings.Repeat("a", 5000)+"b")
	c.Types = append(slices.Clone(c.Types), TypeNormal, TypeNormal)
	tok := must(t, c)
	w := tok.encoder.(*wordPiece)
	const n = 1 << 17
	for _, text := range []string{
		strings.Repeat("a", n), strings.Repeat(strings.Repeat("a", 100)+" ", n/101), strings.Repeat("한", n/3),
		strings.Repeat("\u0301", n/2), strings.Repeat(" ", n), strings.Repeat("-", n), strings.Repeat("日", n/3),
		strings.Repeat("\xff", n), strings.Repeat("\x00", n), strings.Repeat("q", n) + " the",
	} {
		var s scratch
		w.encode(&s, text)
		if s.read > (maxWordPiece+1)*len(text) {
			t.Errorf("%.40q…: %d bytes looked at in %d", text, s.read, len(text))
		}
		if cap(s.word) > 16*maxWordPiece {
			t.Errorf("%.40q…: %d bytes of memory for a word", text, cap(s.word))
		}
		if len(s.ids) > len(text) {
			t.Errorf("%.40q…: %d ids of %d bytes", text, len(s.ids), len(text))
		}
	}
	if got := tok.Encode(strings.Repeat("a", n)+" the", EncodeOptions{}); len(got) != 2 || got[0] != c.UNK {
		t.Errorf("a long word and a short one: %q", tokenStrings(tok, got[:min(len(got), 9)]))
	}
}

// TestWordPieceSpecial: what is parsed, and what plain parts keep.
func TestWordPieceSpecial(t *testing.T) {
	c := readPublished(t).config(true, true)
	c.Tokens = append(slices.Clone(c.Tokens), "<x>", "ee")
	c.Types = append(slices.Clone(c.Types), TypeUserDefined, TypeUserDefined)
	tok := must(t, c)
	for _, c := range []struct {
		parts   []Part
		special bool
		want    string
	}{
		{[]Part{{Text: "the[SEP]dog", ParseSpecial: true}}, true, "[CLS] ▁the [SEP] ▁dog [SEP]"},
		{[]Part{{Text: "the[SEP]dog"}}, false, "▁the ▁[ ▁s e p ▁] ▁dog"},
		{[]Part{{Text: "[sep] [SEP] ", ParseSpecial: true}}, false, "▁[ ▁s e p ▁] [SEP]"},
		{[]Part{{Text: "the<x>the"}}, false, "▁the <x> ▁the"},
		{[]Part{{Text: "the<x>the ee", Plain: true}}, false, "▁the ▁< ▁x ▁> ▁the ▁e e"},
		{[]Part{{Text: "te", Plain: true}, {Text: "e", Plain: true}}, false, "▁t e e"},
		{[]Part{{Text: ""}}, true, "[CLS] [SEP]"},
	} {
		if got := strings.Join(tokenStrings(tok, tok.EncodeParts(c.parts, c.special)), " "); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.parts, got, c.want)
		}
	}
}

// TestWordPieceDecode: words with a space between, none at the beginning.
func TestWordPieceDecode(t *testing.T) {
	tok := must(t, readPublished(t).config(true, true))
	for text, want := range map[string]string{
		"The dog,was PLAYING.": "the dog , was playing .",
		"  Café\n\nÜber ":      "cafe uber",
		"":                     "",
		"한글":                   "",
		"日本":                   "日 本",
	} {
		for _, o := range []EncodeOptions{{}, {AddSpecial: true}} {
			ids := tok.Encode(text, o)
			if got := tok.Decode(ids); got != want {
				t.Errorf("%q, %+v: %q decodes to %q, want %q", text, o, tokenStrings(tok, ids), got, want)
			}
			if got := stream(t, tok, ids); got != want {
				t.Errorf("%q, %+v: streams to %q, want %q", text, o, got, want)
			}
		}
	}
}

func TestWordPieceErrors(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*Config)
	}{
		{"tokenizer.ggml.unknown_token_id: none", func(c *Config) { c.UNK = -1 }},
		{"tokenizer.ggml.seperator_token_id: 99999 is outside", func(c *Config) { c.SEP = 99999 }},
		{"tokenizer.ggml.add_sep_token: true, but", func(c *Config) { c.SEP = -1 }},
		{"tokenizer.ggml.add_eos_token: true, but", func(c *Config) { c.SEP, c.AddSEP, c.AddEOS = -1, false, true }},
		{"tokenizer.ggml.tokens: none begins a word", func(c *Config) { // as it was published
			c.Tokens = []string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "##s"}
			c.Types = nil
		}},
	} {
		config := readPublished(t).config(true, true)
		c.change(&config)
		if tok, err := New(config); tok != nil || err == nil || !strings.HasPrefix(err.Error(), "bpe: "+c.want) {
			t.Errorf("got %v, want bpe: %s…", err, c.want)
		}
	}
}

// TestWordPieceEqual: everything that changes ids counts.
func TestWordPieceEqual(t *testing.T) {
	p := readPublished(t)
	tok := must(t, p.config(true, true))
	if !tok.Equal(must(t, p.config(true, true))) {
		t.Error("not equal to itself")
	}
	for i, change := range []func(*Config){
		func(c *Config) { c.Lowercase = false }, func(c *Config) { c.StripAccents = false }, func(c *Config) { c.SEP = 4 },
		func(c *Config) { c.AddSEP = false }, func(c *Config) { c.AddBOS = false },
	} {
		c := p.config(true, true)
		change(&c)
		if tok.Equal(must(t, c)) {
			t.Errorf("change %d does not count", i)
		}
	}
}

// TestDecompositions: the table is in order, and nothing in it can be taken apart further.
func TestDecompositions(t *testing.T) {
	table := readDecompositions()
	if len(table) != strings.Count(decompositionsText, "\n")-1 || len(table) < 2000 {
		t.Errorf("%d characters of %d lines", len(table), strings.Count(decompositionsText, "\n"))
	}
	for r, left := range table {
		for _, l := range left {
			if _, ok := table[l]; ok || unicode.Is(unicode.Mn, l) {
				t.Errorf("%U leaves %U", r, l)
			}
		}
	}
	for r, want := range map[rune]string{'é': "e", 'Å': "A", '\u212b': "A", 'ǖ': "u", '\u0344': "", 'ৌ': "\u09c7\u09d7",
		'\uf900': "豈"} {
		if got, ok := table[r]; !ok || got != want {
			t.Errorf("%U leaves %q, want %q", r, got, want)
		}
	}
}
