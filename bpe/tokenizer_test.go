package bpe

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

func TestByteLevel(t *testing.T) {
	tok := must(t, tinyByteLevel("gpt-2"))
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"hello world", "hello Ġworld"},
		{"hello  world", "hello Ġ Ġworld"},
		{"the other", "the Ġ o th er"},
		{"日本", "æĹ¥æľ¬"},
		{"aaaaaaa", "aaaa aa a"},
		{"abcab", "abc ab"},
		{"\xff\x00", "ÿ Ā"},
		{"</s>", "< / s >"},
		{"a<tool>b", "a <tool> b"},
	} {
		if got := strings.Join(tokenStrings(tok, tok.Encode(c.text, EncodeOptions{})), " "); got != c.want {
			t.Errorf("%q: got %s, want %s", c.text, got, c.want)
		}
	}
}

func TestSentencePiece(t *testing.T) {
	c := tinySentencePiece()
	tok := must(t, c)
	c.AddSpacePrefix = false
	bare := must(t, c)
	for _, c := range []struct {
		tok        *Tokenizer
		text, want string
	}{
		{tok, "", ""},
		{tok, " ", "▁▁"},
		{tok, "the", "▁the"},
		{bare, "the", "the"},
		{tok, " the  the", "▁ ▁the ▁ ▁the"},
		{tok, "日x€", "▁ 日 x <0xE2> <0x82> <0xAC>"},
		{bare, "\xff\n", "<0xFF> <0x0A>"},
		{bare, "</s><unk><0x41>", "< / s > < u n k > < 0 x <0x34> <0x31> >"},
		{tok, "the<tool>the", "▁the <tool> ▁the"},
		{bare, "the<tool>the", "the <tool> the"},
	} {
		if got := strings.Join(tokenStrings(c.tok, c.tok.Encode(c.text, EncodeOptions{})), " "); got != c.want {
			t.Errorf("%q: got %s, want %s", c.text, got, c.want)
		}
	}
}

// TestNoSpacePrefix: text in the middle of a sequence gets no space prefix,
// text after a special token inside it does.
func TestNoSpacePrefix(t *testing.T) {
	tok := must(t, tinySentencePiece())
	for _, c := range []struct {
		text string
		o    EncodeOptions
		want string
	}{
		{"", EncodeOptions{NoSpacePrefix: true}, ""},
		{"the", EncodeOptions{NoSpacePrefix: true}, "the"},
		{" the", EncodeOptions{NoSpacePrefix: true}, "▁the"},
		{"the", EncodeOptions{NoSpacePrefix: true, AddSpecial: true}, "<s> the"},
		{"the", EncodeOptions{AddSpecial: true}, "<s> ▁the"},
		{"the<tool>the", EncodeOptions{NoSpacePrefix: true}, "the <tool> ▁the"},
		{"<tool>the", EncodeOptions{NoSpacePrefix: true}, "<tool> ▁the"},
		{"the<s>the</s>the", EncodeOptions{NoSpacePrefix: true, ParseSpecial: true}, "the <s> ▁the </s> ▁the"},
		{"the<s>the", EncodeOptions{NoSpacePrefix: true}, "the < s > the"},
	} {
		if got := strings.Join(tokenStrings(tok, tok.Encode(c.text, c.o)), " "); got != c.want {
			t.Errorf("%q %+v: got %s, want %s", c.text, c.o, got, c.want)
		}
	}
	gpt := must(t, tinyByteLevel("gpt-2"))
	for _, text := range []string{"the", " the", "a<tool>b"} {
		if got, want := gpt.Encode(text, EncodeOptions{NoSpacePrefix: true}),
			gpt.Encode(text, EncodeOptions{}); !slices.Equal(got, want) {
			t.Errorf("gpt2 %q: got %v, want %v", text, got, want)
		}
	}
}

func TestUnknown(t *testing.T) {
	c := Config{Model: "llama", Tokens: []string{"<unk>", "a", "▁"},
		Types: []int32{TypeUnknown, TypeNormal, TypeNormal}, Scores: make([]float32, 3), BOS: -1, EOS: -1}
	tok := must(t, c)
	if got, want := tok.Encode("a€b", EncodeOptions{}), []int32{1, 0, 0}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: one unknown for each character", got, want)
	}
	// A vocabulary with some of a character's bytes: none of them is used.
	some := c
	some.Tokens, some.Types = []string{"<unk>", "a", "<0xE2>"}, []int32{TypeUnknown, TypeNormal, TypeByte}
	if got, want := must(t, some).Encode("a€a", EncodeOptions{}), []int32{1, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v: bytes of half a character", got, want)
	}
	c.UNK = -1
	if got, want := must(t, c).Encode("a€b", EncodeOptions{}), []int32{1}; !slices.Equal(got, want) {
		t.Errorf("without an unknown token: got %v, want %v", got, want)
	}
	few := Config{Model: "gpt2", Tokens: []string{"<unk>", "a"}, BOS: -1, EOS: -1}
	if got, want := must(t, few).Encode("aba", EncodeOptions{}), []int32{1, 0, 1}; !slices.Equal(got, want) {
		t.Errorf("gpt2: got %v, want %v", got, want)
	}
}

func TestSpecial(t *testing.T) {
	tok := must(t, tinyByteLevel("gpt-2"))
	for _, c := range []struct {
		text string
		o    EncodeOptions
		want string
	}{
		{"", EncodeOptions{AddSpecial: true}, "<s> </s>"},
		{"ab", EncodeOptions{AddSpecial: true}, "<s> ab </s>"},
		{"<s>ab", EncodeOptions{ParseSpecial: true}, "<s> ab"},
		{"<|im_end|><|im|>", EncodeOptions{ParseSpecial: true}, "<|im_end|> <|im|>"},
		{"a<|im_end<|im_start|>", EncodeOptions{ParseSpecial: true}, "a < | i m _ e n d <|im_start|>"},
		{"<|im_end|>", EncodeOptions{}, "< | i m _ e n d | >"},
		{"<s><tool><s>", EncodeOptions{}, "< s > <tool> < s >"},
	} {
		if got := strings.Join(tokenStrings(tok, tok.Encode(c.text, c.o)), " "); got != c.want {
			t.Errorf("%q %+v: got %s, want %s", c.text, c.o, got, c.want)
		}
	}
}

// TestSpecialsGoByLength: of special tokens that begin alike the longest is found,
// whatever their order in the vocabulary.
func TestSpecialsGoByLength(t *testing.T) {
	for _, marks := range [][]string{{"<|", "<|fin|>"}, {"<|fin|>", "<|"}} {
		c := tinyByteLevel("gpt-2")
		for _, s := range marks {
			c.Tokens, c.Types = append(c.Tokens, s), append(c.Types, TypeUserDefined)
		}
		tok := must(t, c)
		if got := strings.Join(tokenStrings(tok, tok.Encode("a<|fin|><|", EncodeOptions{})), " "); got != "a <|fin|> <|" {
			t.Errorf("%q: got %s", marks, got)
		}
	}
}

// TestMergesTwice: of a merge listed twice, the first counts.
func TestMergesTwice(t *testing.T) {
	c := tinyByteLevel("gpt-2")
	c.Merges = append(c.Merges, c.Merges[0])
	tok := must(t, c)
	if got := strings.Join(tokenStrings(tok, tok.Encode("thin", EncodeOptions{})), " "); got != "th in" {
		t.Errorf("got %s, want th in", got)
	}
	if !tok.Equal(must(t, tinyByteLevel("gpt-2"))) {
		t.Error("a repeated merge makes a different tokenizer")
	}
}

// TestMarkInsideToken: where a token has a space mark behind another character,
// a merge may cross the front of a word.
func TestMarkInsideToken(t *testing.T) {
	c := Config{Model: "llama", Tokens: []string{"<unk>", "a", "▁", "a▁", "▁a"},
		Types: []int32{TypeUnknown, 1, 1, 1, 1}, Scores: []float32{0, -9, -9, -1, -2}, BOS: -1, EOS: -1}
	tok := must(t, c)
	if got := strings.Join(tokenStrings(tok, tok.Encode("a a", EncodeOptions{})), " "); got != "a▁ a" {
		t.Errorf("got %s, want a▁ a", got)
	}
}

// TestParts: a user cannot write a control token, not even half of one, while
// words run across the edges of parts.
func TestParts(t *testing.T) {
	tok := must(t, tinyByteLevel("gpt-2"))
	for _, c := range []struct {
		parts []Part
		want  string
	}{
		{[]Part{{Text: "<s>he", ParseSpecial: true}, {Text: "llo<s>", ParseSpecial: false},
			{Text: "<s>", ParseSpecial: true}}, "<s> hello < s > <s>"},
		{[]Part{{Text: "<s", ParseSpecial: true}, {Text: ">", ParseSpecial: false}}, "< s >"},
		{[]Part{{Text: "<s", ParseSpecial: true}, {Text: ">", ParseSpecial: true}}, "< s >"},
		{[]Part{{Text: "<|im_sta", ParseSpecial: false}, {Text: "rt|><s>", ParseSpecial: true}},
			"< | i m _ s t a r t | > <s>"},
		{[]Part{{Text: "", ParseSpecial: true}, {Text: "<s>", ParseSpecial: false}, {Text: "", ParseSpecial: true},
			{Text: "<s>", ParseSpecial: true}}, "< s > <s>"},
		{[]Part{{Text: "<to", ParseSpecial: false}, {Text: "ol>", ParseSpecial: true}}, "<tool>"},
		{nil, ""},
	} {
		if got := strings.Join(tokenStrings(tok, tok.EncodeParts(c.parts, false)), " "); got != c.want {
			t.Errorf("%v: got %s, want %s", c.parts, got, c.want)
		}
	}
}

// TestMergesMakeNoControl: a merge list that spells out a control token does
// not let text make one.
func TestMergesMakeNoControl(t *testing.T) {
	c := tinyByteLevel("gpt-2")
	c.Tokens = append(c.Tokens, "|>", "|>|>")
	c.Types = append(c.Types, TypeNormal, TypeControl)
	c.Merges = append(c.Merges, "| >", "|> |>")
	tok := must(t, c)
	if got := strings.Join(tokenStrings(tok, tok.Encode("|>|>", EncodeOptions{})), " "); got != "|> |>" {
		t.Errorf("got %s", got)
	}
}

// TestBytesMakeNoControl: a control token that is spelled like a byte token is
// not what plain text falls back to.
func TestBytesMakeNoControl(t *testing.T) {
	for _, kind := range []int32{TypeControl, TypeUnknown} {
		c := Config{Model: "llama", Tokens: []string{"<unk>", "a", "<0x23>", "<0x24>"},
			Types: []int32{TypeUnknown, TypeNormal, kind, TypeByte}, Scores: make([]float32, 4), BOS: -1, EOS: -1}
		tok := must(t, c)
		if got := tok.Encode("a#$", EncodeOptions{}); !slices.Equal(got, []int32{1, 0, 3}) {
			t.Errorf("type %d: got %v, want [1 0 3]", kind, got)
		}
	}
}

// TestBytesThatAreNormalTokens: plain text falls back to tokens that are spelled like bytes, whether the file gives
// them the type of bytes or that of text.
func TestBytesThatAreNormalTokens(t *testing.T) {
	for _, kind := range []int32{TypeNormal, TypeByte} {
		c := Config{Model: "llama", Tokens: []string{"<unk>", "a", "<0x0A>"}, Types: []int32{TypeUnknown, TypeNormal, kind},
			Scores: make([]float32, 3),
			BOS:    -1, EOS: -1}
		tok := must(t, c)
		if got := tok.Encode("a\na", EncodeOptions{}); !slices.Equal(got, []int32{1, 2, 1}) {
			t.Errorf("type %d: got %v, want [1 2 1]", kind, got)
		}
	}
}

// TestDefinition compares with BPE done slowly, by its definition.
func TestDefinition(t *testing.T) {
	c := tinyByteLevel("gpt-2")
	ranks := map[string]float64{}
	for i, m := range c.Merges {
		if _, ok := ranks[m]; !ok {
			ranks[m] = float64(i)
		}
	}
	scores := map[string]float64{}
	sp := tinySentencePiece()
	for i, s := range sp.Tokens {
		if sp.Types[i] == TypeNormal {
			scores[s] = -float64(sp.Scores[i])
		}
	}
	sp.AddSpacePrefix = false
	byteLevel, pieces := must(t, c), must(t, sp)
	whole := must(t, sp)
	whole.encoder.(*sentencePiece).wordByWord = false

	rng := rand.New(rand.NewPCG(1, 2))
	alphabet := []rune("aabbcchelloworldthing日本é  ▁1233!!")
	for range 3000 {
		runes := make([]rune, 1+rng.IntN(24))
		for i := range runes {
			runes[i] = alphabet[rng.IntN(len(alphabet))]
		}
		text := string(runes)

		var want []string
		for _, w := range words(rules["gpt-2"], text) {
			want = append(want, naiveMerge(strings.Split(spell(w), ""), func(l, r string) (float64, bool) {
				p, ok := ranks[l+" "+r]
				return p, ok
			})...)
		}
		if got := tokenStrings(byteLevel, byteLevel.Encode(text, EncodeOptions{})); !slices.Equal(got, want) {
			t.Fatalf("gpt2 %q: got %q, want %q", text, got, want)
		}

		want = nil
		for _, s := range naiveMerge(strings.Split(strings.ReplaceAll(text, " ", spaceMark), ""),
			func(l, r string) (float64, bool) {
				p, ok := scores[l+r]
				return p, ok
			}) {
			if _, ok := scores[s]; ok {
				want = append(want, s)
				continue
			}
			for i := range len(s) {
				want = append(want, fmt.Sprintf("<0x%02X>", s[i]))
			}
		}
		for _, tok := range []*Tokenizer{pieces, whole} {
			if got := tokenStrings(tok, tok.Encode(text, EncodeOptions{})); !slices.Equal(got, want) {
				t.Fatalf("llama %q: got %q, want %q", text, got, want)
			}
		}
	}
}

// TestLongWordsOfManyBytes: every tokenizer with every word.
func TestLongWordsOfManyBytes(t *testing.T) {
	testkit.Long(t)
	TestWordsOfManyBytes(t)
}

// TestWordsOfManyBytes would take days if merging a word took quadratic time.
func TestWordsOfManyBytes(t *testing.T) {
	n := maxWord + 5
	for i, tok := range []*Tokenizer{must(t, tinyByteLevel("gpt-2")), must(t, tinyByteLevel("llama-bpe")),
		must(t, tinyByteLevel("superbpe")), must(t, tinySentencePiece())} {
		for j, unit := range []string{"abc", "日本", "the world ", " "} {
			if i != j && !testkit.IsLong(t) { // one that each of them takes for a single word
				continue
			}
			text := strings.Repeat(unit, n/len(unit)+1)
			ids := tok.Encode(text, EncodeOptions{})
			if got, want := tok.Decode(ids), valid(text); got != want {
				t.Errorf("%s: %q times %d comes back changed", tok.model, unit, n/len(unit)+1)
			}
		}
	}
}

func TestConcurrent(t *testing.T) {
	text := strings.Repeat("hello the world, <tool>日本 123", 50)
	for _, tok := range []*Tokenizer{must(t, tinyByteLevel("llama-bpe")), must(t, tinySentencePiece())} {
		want := tok.Encode(text, EncodeOptions{AddSpecial: true})
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 20 {
					if !slices.Equal(tok.Encode(text, EncodeOptions{AddSpecial: true}), want) {
						t.Error("differs between goroutines")
						return
					}
				}
			})
		}
		wg.Wait()
	}
}

func TestLookups(t *testing.T) {
	tok := must(t, tinyByteLevel("gpt-2"))
	id, ok := tok.ID("Ġthe")
	if !ok || tok.Token(id) != "Ġthe" || string(tok.Bytes(id)) != " the" {
		t.Errorf("Ġthe: %d %v %q %q", id, ok, tok.Token(id), tok.Bytes(id))
	}
	if _, ok := tok.ID("no such token"); ok {
		t.Error("found a token that is not there")
	}
	end, _ := tok.ID("<|im_end|>")
	if !tok.IsEOG(tok.EOS()) || !tok.IsEOG(end) || tok.IsEOG(tok.BOS()) || tok.IsEOG(-1) {
		t.Error("wrong ends of generation")
	}
	if !tok.IsControl(end) || tok.IsControl(id) || !tok.AddsBOS() {
		t.Error("wrong kinds")
	}
	for _, id := range []int32{-1, math.MinInt32, int32(tok.Size()), math.MaxInt32} {
		if tok.Token(id) != "" || len(tok.Bytes(id)) != 0 || tok.IsEOG(id) || tok.IsControl(id) ||
			tok.Decode([]int32{id}) != "" {
			t.Errorf("%d is not outside the vocabulary", id)
		}
	}
}

// TestEndMarks: some files call the end of a turn a normal token.
func TestEndMarks(t *testing.T) {
	c := Config{Model: "gpt2", Tokens: []string{"<|im_end|>", "x"}, BOS: -1, EOS: -1, UNK: -1, EOG: []int32{1}}
	tok := must(t, c)
	if !tok.IsEOG(0) || !tok.IsEOG(1) || !tok.IsControl(0) || tok.Decode([]int32{0, 1}) != "x" {
		t.Error("the end of a turn is not one")
	}
}

func TestCompatible(t *testing.T) {
	base := tinyByteLevel("gpt-2")
	with := func(change func(*Config)) *Tokenizer {
		c := tinyByteLevel("gpt-2")
		change(&c)
		return must(t, c)
	}
	tok := must(t, base)
	padded := with(func(c *Config) {
		c.Tokens, c.Types = append(c.Tokens, "[PAD0]", "fill", ""), append(c.Types, TypeNormal, TypeUnused, TypeNormal)
	})
	longer := with(func(c *Config) { c.Tokens, c.Types = append(c.Tokens, "more"), append(c.Types, TypeNormal) })
	changed := with(func(c *Config) { c.Tokens[len(c.Tokens)-1] = "<tooth>" })
	if !tok.Equal(must(t, base)) || tok.Compatible(must(t, base)) != nil || tok.Compatible(tok) != nil {
		t.Error("not equal to itself")
	}
	if tok.Equal(padded) || tok.Compatible(padded) != nil || padded.Compatible(tok) != nil {
		t.Error("padding matters")
	}
	for _, pair := range [][2]*Tokenizer{{tok, longer}, {longer, tok}, {tok, changed},
		{tok, must(t, tinySentencePiece())}} {
		err := pair[0].Compatible(pair[1])
		if err == nil || pair[0].Equal(pair[1]) {
			t.Error("different vocabularies pass")
		}
		t.Log(err)
	}
	if tok.Equal(with(func(c *Config) { c.Merges[0], c.Merges[1] = c.Merges[1], c.Merges[0] })) {
		t.Error("the order of merges does not matter")
	}
	if tok.Equal(with(func(c *Config) { c.Pre = "qwen2" })) {
		t.Error("the pre-tokenizer does not matter")
	}
	c := tinySentencePiece()
	pieces := must(t, c)
	if !pieces.Equal(must(t, tinySentencePiece())) {
		t.Error("llama: not equal to itself")
	}
	c.Scores[270], c.Scores[271] = c.Scores[271], c.Scores[270]
	if pieces.Equal(must(t, c)) {
		t.Error("scores do not matter")
	}
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*Config)
	}{
		{`tokenizer.ggml.model: "rwkv" (RWKV) is not supported (known: bert, gemma4, gpt2, llama, t5, whitespace)`,
			func(c *Config) { c.Model = "rwkv" }},
		{`tokenizer.ggml.model: "wordy" is not supported (known`, func(c *Config) { c.Model = "wordy" }},
		{`tokenizer.ggml.pre: pre-tokenizer "tekkan" is not supported (known: a.x-4.0, `,
			func(c *Config) { c.Pre = "tekkan" }},
		{`tokenizer.ggml.pre: pre-tokenizer "` + strings.Repeat("\\x1b", 60) + `"... is not`,
			func(c *Config) { c.Pre = strings.Repeat("\x1b", 1<<20) }},
		{"tokenizer.ggml.tokens: empty", func(c *Config) { c.Tokens, c.Types = nil, nil }},
		{`tokenizer.ggml.tokens[66]: "A"`, func(c *Config) { c.Tokens[66] = "A" }},
		{"tokenizer.ggml.token_type: 3 entries", func(c *Config) { c.Types = c.Types[:3] }},
		{"tokenizer.ggml.token_type[5]: 7", func(c *Config) { c.Types[5] = 7 }},
		{"tokenizer.ggml.token_type[5]: -1", func(c *Config) { c.Types[5] = -1 }},
		{`tokenizer.ggml.tokens[5]: "ą" is not <0x00>`, func(c *Config) { c.Types[5] = TypeByte }},
		{"tokenizer.ggml.scores: 1 entries", func(c *Config) { c.Scores = []float32{1} }},
		{"tokenizer.ggml.scores: 0 entries", func(c *Config) { c.Model = "llama" }},
		{"tokenizer.ggml.scores[2]: not a number", func(c *Config) {
			c.Scores = make([]float32, len(c.Tokens))
			c.Scores[2] = float32(math.NaN())
		}},
		{`tokenizer.ggml.merges[1]: "ab"`, func(c *Config) { c.Merges[1] = "ab" }},
		{`tokenizer.ggml.merges[1]: ""`, func(c *Config) { c.Merges[1] = "" }},
		{`tokenizer.ggml.merges[1]: " "`, func(c *Config) { c.Merges[1] = " " }},
		{`tokenizer.ggml.merges[1]: "qq a" needs the token "qq"`, func(c *Config) { c.Merges[1] = "qq a" }},
		{`tokenizer.ggml.merges[1]: "a qq" needs the token "qq"`, func(c *Config) { c.Merges[1] = "a qq" }},
		{`tokenizer.ggml.merges[1]: "a x" needs the token "ax"`, func(c *Config) { c.Merges[1] = "a x" }},
		{"tokenizer.ggml.bos_token_id: 999", func(c *Config) { c.BOS = 999 }},
		{"tokenizer.ggml.eos_token_id: -2", func(c *Config) { c.EOS = -2 }},
		{"tokenizer.ggml.unknown_token_id: 999", func(c *Config) { c.UNK = 999 }},
		{"end-of-generation token 1 of 2: -1", func(c *Config) { c.EOG = []int32{3, -1} }},
		{"tokenizer.ggml.add_bos_token: true", func(c *Config) { c.BOS = -1 }},
		{"tokenizer.ggml.add_eos_token: true", func(c *Config) { c.EOS = -1 }},
	} {
		config := tinyByteLevel("gpt-2")
		c.change(&config)
		tok, err := New(config)
		if tok != nil || err == nil || !strings.HasPrefix(err.Error(), "bpe: "+c.want) {
			t.Errorf("got %v, want bpe: %s…", err, c.want)
		}
	}
	c := tinyByteLevel("nonsense")
	if _, err := New(c); !errors.Is(err, ErrUnsupported) {
		t.Errorf("%v is not ErrUnsupported", err)
	}
}
