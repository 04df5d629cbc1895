package bpe

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzSplit: the splitters agree with the regular expressions, in linear time.
func FuzzSplit(f *testing.F) {
	for _, s := range awkward {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1000 {
			return // for the sake of the regular expressions, which are quadratic here
		}
		for name := range expressions() {
			checkSplitter(t, name, text)
		}
	})
}

// FuzzByteLevel: every byte comes back.
func FuzzByteLevel(f *testing.F) {
	for _, s := range awkward {
		f.Add(s, false)
	}
	f.Add("<s>hello</s><tool><|im_start|>", true)
	toks := map[string]*Tokenizer{}
	for name := range expressions() {
		if name != "gemma4" { // of characters, not bytes
			toks[name] = must(f, tinyByteLevel(name))
		}
	}
	f.Fuzz(func(t *testing.T, text string, special bool) {
		for name, tok := range toks {
			ids := tok.Encode(text, EncodeOptions{ParseSpecial: special, AddSpecial: special})
			var b strings.Builder
			for _, id := range ids {
				if !special && tok.IsControl(id) {
					t.Fatalf("%s %q: control token %q", name, text, tok.Token(id))
				}
				if special && tok.IsControl(id) {
					b.WriteString(tok.Token(id))
				}
				b.Write(tok.Bytes(id))
			}
			want := text
			if special {
				want = "<s>" + text + "</s>"
			}
			if b.String() != want {
				t.Fatalf("%s: %q comes back as %q", name, want, b.String())
			}
			if special {
				continue
			}
			if got, want := tok.Decode(ids), string([]rune(text)); got != want || stream(t, tok, ids) != want {
				t.Fatalf("%s: %q decodes to %q", name, text, got)
			}
		}
	})
}

// FuzzSentencePiece: valid text comes back, and words may go one by one.
func FuzzSentencePiece(f *testing.F) {
	for _, s := range awkward {
		f.Add(s)
	}
	f.Add("the<tool> the▁x ▁▁")
	tok, whole := must(f, tinySentencePiece()), must(f, tinySentencePiece())
	whole.encoder.(*sentencePiece).wordByWord = false
	f.Fuzz(func(t *testing.T, text string) {
		ids := tok.Encode(text, EncodeOptions{})
		want := string([]rune(strings.ReplaceAll(text, spaceMark, " ")))
		if got := tok.Decode(ids); got != want {
			t.Fatalf("%q decodes to %q", text, got)
		}
		other := whole.Encode(text, EncodeOptions{})
		if a, b := strings.Join(tokenStrings(tok, ids), " "), strings.Join(tokenStrings(whole, other), " "); a != b {
			t.Fatalf("%q: %s by words, %s as a whole", text, a, b)
		}
	})
}

// FuzzCharLevel: valid text comes back, and merges are those of the definition.
func FuzzCharLevel(f *testing.F) {
	for _, s := range awkward {
		f.Add(s)
	}
	f.Add("the<tool> the▁x ▁▁\n\n\n\n")
	tok, whole := must(f, tinyCharLevel()), must(f, tinyCharLevel())
	whole.encoder.(*charLevel).wordByWord = false
	f.Fuzz(func(t *testing.T, text string) {
		ids := tok.Encode(text, EncodeOptions{})
		want := string([]rune(strings.ReplaceAll(text, spaceMark, " ")))
		if got := tok.Decode(ids); got != want || stream(t, tok, ids) != want {
			t.Fatalf("%q decodes to %q", text, got)
		}
		if other := whole.Encode(text, EncodeOptions{}); !slices.Equal(ids, other) {
			t.Fatalf("%q: %q by words, %q as a whole", text, tokenStrings(tok, ids), tokenStrings(whole, other))
		}
		if len(text) < 200 && !strings.Contains(text, "<tool>") {
			if got, want := tokenStrings(tok, ids), charLevelByDefinition(tok, text); !slices.Equal(got, want) {
				t.Fatalf("%q: got %q, want %q", text, got, want)
			}
		}
	})
}

// FuzzDecode: any ids stream to the text that they decode to.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{0xe6, 0, 0x97, 0, 0xa5, 0})
	f.Add([]byte{0xff, 0xff, 0x20, 0x01, 0xf0, 0})
	tok := must(f, tinyByteLevel("gpt-2"))
	f.Fuzz(func(t *testing.T, data []byte) {
		var ids []int32
		for ; len(data) >= 2; data = data[2:] {
			ids = append(ids, int32(int16(binary.LittleEndian.Uint16(data))))
		}
		want := tok.Decode(ids)
		if !utf8.ValidString(want) {
			t.Fatalf("%v decodes to %q", ids, want)
		}
		if got := stream(t, tok, ids); got != want {
			t.Fatalf("%v streams to %q, decodes to %q", ids, got, want)
		}
	})
}

// FuzzNew: any configuration is refused or works.
func FuzzNew(f *testing.F) {
	f.Add("gpt2", "gpt-2", "a\nb\nab\n<s>", "\x01\x01\x01\x03", "a b", int32(3), "aab<s>")
	f.Add("llama", "", "<unk>\n<0x41>\na\nb\nab\n▁", "\x02\x06\x01\x01\x01\x01", "", int32(0), "Aab ab")
	f.Add("gemma4", "", "<unk>\n<0x41>\na\nb\nab\n▁\n▁ab", "\x02\x06\x01\x01\x01\x01\x01",
		"a b\n▁ ab", int32(0), "Aab ab")
	f.Add("t5", "", "<unk>\n▁\na\nb\nab\n▁a", "\x02\x01\x01\x01\x01\x05", "", int32(0), "Aab ab")
	f.Add("bert", "", "[UNK]\n▁a\na\nb\nab\n▁b", "\x02\x01\x01\x01\x01\x05", "", int32(0), "Aab ab")
	f.Add("llama", "", "<unk>\n<0x23>\na", "\x02\x03\x01", "", int32(0), "a#")
	f.Fuzz(func(t *testing.T, model, pre, tokens, types, merges string, id int32, text string) {
		c := Config{Model: model, Pre: pre, Tokens: strings.Split(tokens, "\n"), BOS: id, EOS: id, UNK: id, SEP: id,
			EOG:    []int32{id},
			AddBOS: true, AddSEP: true, Lowercase: id != 1, StripAccents: id < 2, AddSpacePrefix: true,
			RemoveExtraWhitespaces: id == 0}
		for i := range len(types) {
			c.Types = append(c.Types, int32(int8(types[i])))
		}
		if merges != "" {
			c.Merges = strings.Split(merges, "\n")
		}
		if model == "llama" || model == "t5" {
			for i := range c.Tokens {
				c.Scores = append(c.Scores, float32(i%5))
			}
		}
		tok, err := New(c)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "bpe: ") {
				t.Fatal(err)
			}
			return
		}
		for _, special := range []bool{false, true} {
			for _, id := range tok.Encode(text, EncodeOptions{ParseSpecial: special}) {
				if !tok.has(id) || !special && id != tok.unk && (tok.IsControl(id) || tok.types[id] == TypeUnknown) {
					t.Fatalf("%q gives id %d", text, id)
				}
			}
		}
		tok.EncodePair(text, text, PairOptions{Limit: 5})
		tok.Decode([]int32{0, id, 1})
	})
}
