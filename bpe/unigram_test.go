package bpe

import (
	"encoding/hex"
	"encoding/json"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// tinyUnigram is a vocabulary of the t5 kind in which many ways to cut a text have the
// same score.
func tinyUnigram(t testing.TB) Config {
	c := Defaults("t5", "")
	add := func(text string, kind int32, score float32) {
		c.Tokens, c.Types, c.Scores = append(c.Tokens, text), append(c.Types, kind), append(c.Scores, score)
	}
	add("<pad>", TypeControl, 0)
	add("</s>", TypeControl, 0)
	add("<unk>", TypeUnknown, 0)
	for i, w := range []string{
		"▁", "▁the", "▁a", "▁t", "▁to", "t", "h", "e", "th", "he", "the", "r", "er", "o", "s", "n", "i", "ing",
		"in", "g", "▁▁", "l", "ll", "hel", "lo", "▁hello", "hello", "▁hell",
		".", "...", "!", "1", "/", "2", "A", "é", "fi", "日", "日本", "😀",
	} {
		add(w, TypeNormal, -2-float32(i)/16)
	}
	for _, p := range []struct {
		text  string
		score float32
	}{
		// a+b+c.. ab+cd, abc+d
		{"a", -3}, {"b", -4.5}, {"c", -4.25}, {"d", -4}, {"ab", -5}, {"bc", -5.25}, {"cd", -5}, {"abc", -9.25},
		{"bcd", -9}, {"abcd", -20},
		{"z", -4}, {"zz", -8}, {"zzz", -12}, {"zzzz", -16}, // all the same
	} {
		add(p.text, TypeNormal, p.score)
	}
	add("<x1>", TypeUserDefined, -1000)
	add("<x 2>", TypeUserDefined, -1000)
	add("y", TypeUserDefined, -1000)
	add("[PAD70]", TypeUnused, -10000)
	add("", TypeUnused, -10000)
	c.AddSpacePrefix, c.RemoveExtraWhitespaces = true, true
	c.Charsmap = compileCharsmap(t, tinyRules, false)
	return c
}

// TestUnigram compares with ids that another program, written from the same
// specification, gives for the same vocabulary.
func TestUnigram(t *testing.T) {
	plain, keep, bare := tinyUnigram(t), tinyUnigram(t), tinyUnigram(t)
	plain.Charsmap = nil
	keep.RemoveExtraWhitespaces = false
	bare.RemoveExtraWhitespaces, bare.AddSpacePrefix = false, false
	toks := []*Tokenizer{must(t, tinyUnigram(t)), must(t, plain), must(t, keep), must(t, bare)}
	for _, c := range []struct {
		text    string
		want    [4]string // by each of toks
		special string    // by the first, with special tokens
	}{
		{"", [4]string{"", "", "", ""}, "</s>"},
		{"hello the", [4]string{"▁hello ▁the", "▁hello ▁the", "▁hello ▁the",
			"hello ▁the"}, "▁hello ▁the </s>"},
		{"  the  hello ", [4]string{"▁the ▁hello", "▁the ▁hello", "▁▁ ▁the ▁ ▁hello ▁",
			"▁ ▁the ▁ ▁hello ▁"}, "▁the ▁hello </s>"},
		{"abcd abc bcd", [4]string{"▁a bcd ▁a bc ▁ bcd", "▁a bcd ▁a bc ▁ bcd", "▁a bcd ▁a bc ▁ bcd",
			"ab cd ▁a bc ▁ bcd"}, "▁a bcd ▁a bc ▁ bcd </s>"},
		{"zzzzzz", [4]string{"▁ zz zzzz", "▁ zz zzzz", "▁ zz zzzz", "zz zzzz"}, "▁ zz zzzz </s>"},
		{"X日本X 日X", [4]string{"▁ <unk> 日本 <unk> ▁ 日 <unk>", "▁ <unk> 日本 <unk> ▁ 日 <unk>",
			"▁ <unk> 日本 <unk> ▁ 日 <unk>", "<unk> 日本 <unk> ▁ 日 <unk>"},
			"▁ <unk> 日本 <unk> ▁ 日 <unk> </s>"},
		{"a\tb\u00a0\u200bc", [4]string{"▁a ▁ b ▁ c", "▁a <unk> b <unk> c", "▁a ▁ b ▁ c",
			"a ▁ b ▁ c"}, "▁a ▁ b ▁ c </s>"},
		{"e\u0301e\u0301\u0323 \ufb01\u00bd\u2026",
			[4]string{"▁ é <unk> ▁ fi 1 / 2 ...", "▁ e <unk> e <unk> ▁ <unk>", "▁ é <unk> ▁ fi 1 / 2 ...",
				"é <unk> ▁ fi 1 / 2 ..."}, "▁ é <unk> ▁ fi 1 / 2 ... </s>"},
		{"qqqqqqq", [4]string{"▁ ! ▁ <unk> ▁ <unk> ▁ <unk>", "▁ <unk>", "▁ ! ▁ <unk> ▁ <unk> ▁ <unk>",
			"! ▁ <unk> ▁ <unk> ▁ <unk>"}, "▁ ! ▁ <unk> ▁ <unk> ▁ <unk> </s>"},
		{"the<x1> the <x 2>y", [4]string{"▁the <x1> ▁the <x 2> y", "▁the <x1> ▁the <x 2> y",
			"▁the <x1> ▁ ▁the ▁ <x 2> y", "the <x1> ▁the ▁ <x 2> y"}, "▁the <x1> ▁the <x 2> y </s>"},
		{"</s> a", [4]string{"▁ <unk> / s <unk> ▁a", "▁ <unk> / s <unk> ▁a", "▁ <unk> / s <unk> ▁a",
			"<unk> / s <unk> ▁a"}, "</s> ▁a </s>"},
		{"▁the▁▁a", [4]string{"▁ ▁the ▁ ▁a", "▁ ▁the ▁ ▁a", "▁ ▁the ▁ ▁a",
			"▁the ▁ ▁a"}, "▁ ▁the ▁ ▁a </s>"},
		{"\xff\xc3\x41", [4]string{"▁ <unk> A", "▁ <unk> A", "▁ <unk> A", "<unk> A"}, "▁ <unk> A </s>"},
		{"yay ay", [4]string{"y ▁a y ▁a y", "y ▁a y ▁a y", "y ▁a y ▁ ▁a y",
			"y a y ▁a y"}, "y ▁a y ▁a y </s>"},
		{"[PAD70] Ａ", [4]string{"▁ <unk> A <unk> ▁ A", "▁ <unk> A <unk> ▁ <unk>", "▁ <unk> A <unk> ▁ A",
			"<unk> A <unk> ▁ A"}, "▁ <unk> A <unk> ▁ A </s>"},
		{" 😀", [4]string{"▁ 😀", "▁ 😀", "▁▁ 😀", "▁ 😀"}, "▁ 😀 </s>"},
		{"①a②", [4]string{"▁ <x1> a a y", "▁ <unk> a <unk>", "▁ <x1> a a y", "<x1> a a y"}, "▁ <x1> a a y </s>"},
	} {
		for i, tok := range toks {
			if got := strings.Join(tokenStrings(tok, tok.Encode(c.text, EncodeOptions{})), " "); got != c.want[i] {
				t.Errorf("%d: %q: got %s, want %s", i, c.text, got, c.want[i])
			}
		}
		ids := toks[0].Encode(c.text, EncodeOptions{ParseSpecial: true, AddSpecial: true})
		if got := strings.Join(tokenStrings(toks[0], ids), " "); got != c.special {
			t.Errorf("%q with special tokens: got %s, want %s", c.text, got, c.special)
		}
	}
}

// unigramByDefinition encodes a text without special tokens: the definition, step by step.
func unigramByDefinition(c Config, text string, begins bool) (list []int32) {
	type best struct {
		score float64
		id    int32
		from  int
	}
	ids, unkScore, longest := map[string]int32{}, math.Inf(1), 0
	for i, s := range c.Tokens {
		if c.Types[i] == TypeNormal {
			unkScore = min(unkScore, float64(c.Scores[i])-10)
		}
		if s != "" && (c.Types[i] == TypeNormal || c.Types[i] == TypeUserDefined || c.Types[i] == TypeUnused) {
			ids[s] = int32(i)
			longest = max(longest, len(s))
		}
	}
	var normal strings.Builder
	inWord, prefixed := !begins, !begins
	for i := 0; i < len(text); {
		from, to := "", ""
		for left, right := range tinyRules {
			if c.Charsmap != nil && len(left) > len(from) && strings.HasPrefix(text[i:], left) {
				from, to = left, right
			}
		}
		if from == "" {
			if n := sequenceLen(text[i:]); n > 0 {
				from, to = text[i:i+n], text[i:i+n]
			} else {
				from, to = text[i:i+1], "\ufffd"
			}
		}
		i += len(from)
		for k := range len(to) {
			switch {
			case to[k] == ' ':
				inWord = false
				if !c.RemoveExtraWhitespaces {
					normal.WriteString(spaceMark)
				}
				continue
			case !inWord && (c.RemoveExtraWhitespaces || c.AddSpacePrefix && !prefixed):
				normal.WriteString(spaceMark)
				prefixed = true
			}
			inWord = true
			normal.WriteByte(to[k])
		}
	}
	s := normal.String()
	paths := make([]best, len(s)+1)
	for i := range paths[1:] {
		paths[i+1].score = math.Inf(-1)
	}
	for p := 0; p < len(s); {
		step := min([]int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 3, 4}[s[p]>>4], len(s)-p)
		single := false
		for e := p + 1; e <= min(len(s), p+longest); e++ {
			id, ok := ids[s[p:e]]
			if !ok {
				continue
			}
			single = single || e == p+step
			score := paths[p].score
			if c.Types[id] != TypeUserDefined {
				score += float64(c.Scores[id])
			}
			if score > paths[e].score {
				paths[e] = best{score, id, p}
			}
		}
		if score := paths[p].score + unkScore; !single && score > paths[p+step].score {
			paths[p+step] = best{score, c.UNK, p}
		}
		p += step
	}
	for e := len(s); e > 0; e = paths[e].from {
		if id := paths[e].id; id >= 0 && (id != c.UNK || len(list) == 0 || list[len(list)-1] != c.UNK) {
			list = append(list, id)
		}
	}
	slices.Reverse(list)
	return list
}

// TestUnigramDefinition compares random texts in random vocabularies, with equal
// scores, marks inside tokens and broken characters, with the definition.
func TestUnigramDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	alphabet := []string{"a", "b", "c", "z", "zz", "the", "hello", "q", "qq", " ", "  ", "▁", "日本", "日", "é",
		"\xff", "\xe2\x96", "\xc3", "X", "\u3000", "e\u0301", "\t", "本", "\u00ad", "①", "②"}
	words := 0
	vocabularies := 150
	if testkit.IsLong(t) {
		vocabularies = 4000
	}
	for range vocabularies {
		c := tinyUnigram(t)
		if rng.IntN(2) == 0 {
			c.Charsmap = nil
		}
		c.RemoveExtraWhitespaces, c.AddSpacePrefix = rng.IntN(2) == 0, rng.IntN(2) == 0
		for i := range c.Scores {
			switch rng.IntN(8) {
			case 0:
				c.Scores[i] = -float32(rng.IntN(20))
			case 1:
				if c.Types[i] == TypeNormal {
					c.Types[i] = TypeUnused
				}
			case 2:
				if c.Types[i] == TypeNormal && rng.IntN(2) == 0 {
					c.Tokens[i] = ""
				}
			}
		}
		for _, more := range []string{"a▁", "e▁t", "zzzzz", "Xa", "▁X", "\xe2", "z\xe6\x97"} {
			if rng.IntN(6) == 0 {
				c.Tokens, c.Types, c.Scores = append(c.Tokens, more), append(c.Types, TypeNormal),
					append(c.Scores, -float32(rng.IntN(20)))
			}
		}
		for _, more := range []string{"ay", "Xb", "本c"} { // against the scores of user-defined and unknown tokens
			c.Tokens, c.Types, c.Scores = append(c.Tokens, more), append(c.Types, TypeUnused),
				append(c.Scores, -float32(rng.IntN(50)))
		}
		c.UNK = int32(rng.IntN(4)) - 1
		tok := must(t, c)
		if tok.encoder.(*unigram).wordByWord {
			words++
		}
		for range 4 {
			var text string
			for range rng.IntN(12) {
				text += alphabet[rng.IntN(len(alphabet))]
			}
			continues := rng.IntN(3) == 0
			got := tok.Encode(text, EncodeOptions{NoSpacePrefix: continues})
			if want := unigramByDefinition(c, text, !continues); !slices.Equal(got, want) {
				t.Fatalf("%q, continues %v: got %q, want %q", text, continues, tokenStrings(tok, got), tokenStrings(tok, want))
			}
			if got, want := stream(t, tok, got), tok.Decode(got); got != want {
				t.Fatalf("%q: streams to %q, decodes to %q", text, got, want)
			}
		}
	}
	if words < vocabularies/6 || words > 5*vocabularies/6 {
		t.Errorf("%d of %d vocabularies go word by word", words, vocabularies)
	}
}

// TestLongUnigramDefinition: with many more vocabularies.
func TestLongUnigramDefinition(t *testing.T) {
	testkit.Long(t)
	TestUnigramDefinition(t)
}

// TestUnigramSpecial: what is cut out of a text, and what plain parts keep.
func TestUnigramSpecial(t *testing.T) {
	tok := must(t, tinyUnigram(t))
	for _, c := range []struct {
		parts   []Part
		special bool
		want    string
	}{
		{[]Part{{Text: "the<x1>the <x 2> the"}}, true, "▁the <x1> ▁the <x 2> ▁the </s>"},
		{[]Part{{Text: "</s>the"}}, false, "▁ <unk> / s <unk> the"},
		{[]Part{{Text: "</s>the<pad>", ParseSpecial: true}}, true, "</s> ▁the <pad> </s>"},
		{[]Part{{Text: "the<x1>the", Plain: true}}, false, "▁the <unk> 1 <unk> the"},
		{[]Part{{Text: "the<x 2>", Plain: true}}, false, "▁the <unk> ▁ 2 <unk>"},
		{[]Part{{Text: "①②"}}, false, "▁ <x1> a y"}, // normalization may make them
		{[]Part{{Text: "①②", Plain: true}}, false, "▁ <unk> 1 <unk> a y"},
		{[]Part{{Text: "ay", Plain: true}}, false, "▁a y"},
		{[]Part{{Text: "", Plain: true}}, true, "</s>"},
		{[]Part{{Text: "<x1>"}, {Text: " the<x1>", Plain: true}}, false, "<x1> ▁the <unk> 1 <unk>"},
	} {
		if got := strings.Join(tokenStrings(tok, tok.EncodeParts(c.parts, c.special)), " "); got != c.want {
			t.Errorf("%+v: got %s, want %s", c.parts, got, c.want)
		}
	}
}

// TestUnigramDecode: what has no text, and the space in front.
func TestUnigramDecode(t *testing.T) {
	c := tinyUnigram(t)
	tok := must(t, c)
	c.AddSpacePrefix = false
	bare := must(t, c)
	id := func(s string) int32 {
		id, ok := tok.ID(s)
		if !ok {
			t.Fatal(s)
		}
		return id
	}
	for _, c := range []struct {
		tok  *Tokenizer
		ids  []int32
		want string
	}{
		{tok, []int32{id("▁the"), id("▁▁"), id("a")}, "the  a"},
		{bare, []int32{id("▁the"), id("▁the")}, " the the"},
		{tok, []int32{id("<x 2>"), id("▁the")}, "<x 2> the"},
		{tok, []int32{id("<pad>"), id("▁the")}, " the"},
		{tok, []int32{id("▁the"), 2, 0, 1, id("[PAD70]"), id("a"), 9999, -1}, "thea"},
		{tok, []int32{id("▁▁"), id("a")}, " a"},
	} {
		if got := c.tok.Decode(c.ids); got != c.want {
			t.Errorf("%v decodes to %q, want %q", c.ids, got, c.want)
		}
		if got := stream(t, c.tok, c.ids); got != c.want {
			t.Errorf("%v streams to %q, want %q", c.ids, got, c.want)
		}
	}
}

// TestUnigramLong: long words and long texts, in a time that does not grow faster than they do.
func TestUnigramLong(t *testing.T) {
	tok := must(t, tinyUnigram(t))
	count := func(ids []int32) map[string]int {
		n := map[string]int{}
		for _, id := range ids {
			n[tok.Token(id)]++
		}
		return n
	}
	const n = 1 << 18
	if got := count(tok.Encode(strings.Repeat("z", n), EncodeOptions{})); got["zzzz"] < n/4-3 || len(got) > 4 {
		t.Errorf("%v", got)
	}
	if got := tok.Encode(strings.Repeat("X", n), EncodeOptions{}); !slices.Equal(got, []int32{3, 2}) {
		t.Errorf("unknown characters: %d ids", len(got))
	}
	if got := count(tok.Encode(strings.Repeat("the ", n/4), EncodeOptions{})); got["▁the"] != n/4 || len(got) != 1 {
		t.Errorf("%v", got)
	}
	if got := tok.Encode(strings.Repeat(" ", n), EncodeOptions{}); len(got) != 0 {
		t.Errorf("spaces: %d ids", len(got))
	}
	// A token that every position might begin: each is walked to the token's end and no further.
	c := tinyUnigram(t)
	c.Tokens, c.Types, c.Scores = append(c.Tokens, strings.Repeat("z", maxPiece-1)+"h"), append(c.Types, TypeNormal),
		append(c.Scores, -1)
	tok = must(t, c)
	var s scratch
	const short = 1 << 15
	tok.encoder.encode(&s, strings.Repeat("z", short))
	if s.read < short || s.read > (maxPiece+1)*short {
		t.Errorf("%d steps for %d bytes", s.read, short)
	}
	if cap(s.paths) > 2*(short+16) {
		t.Errorf("%d paths for %d bytes", cap(s.paths), short)
	}
}

func TestUnigramErrors(t *testing.T) {
	for _, c := range []struct {
		want   string
		change func(*Config)
	}{
		{"tokenizer.ggml.scores: 0 entries", func(c *Config) { c.Scores = nil }},
		{"tokenizer.ggml.scores[7]: -Inf", func(c *Config) { c.Scores[7] = float32(math.Inf(-1)) }},
		{"tokenizer.ggml.scores[7]: not a number", func(c *Config) { c.Scores[7] = float32(math.NaN()) }},
		{"tokenizer.ggml.token_type: no normal token", func(c *Config) {
			for i := range c.Types {
				c.Types[i] = TypeControl
			}
		}},
		{"tokenizer.ggml.tokens[4]: 1025 bytes, the limit is 1024",
			func(c *Config) { c.Tokens[4] = strings.Repeat("x", maxPiece+1) }},
		{"tokenizer.ggml.precompiled_charsmap: 3 bytes are no map", func(c *Config) { c.Charsmap = c.Charsmap[:3] }},
		{"tokenizer.ggml.add_eos_token: true", func(c *Config) { c.EOS = -1 }},
	} {
		config := tinyUnigram(t)
		c.change(&config)
		if tok, err := New(config); tok != nil || err == nil || !strings.HasPrefix(err.Error(), "bpe: "+c.want) {
			t.Errorf("got %v, want bpe: %s…", err, c.want)
		}
	}
}

// TestUnigramEqual: everything that changes ids counts.
func TestUnigramEqual(t *testing.T) {
	tok := must(t, tinyUnigram(t))
	if !tok.Equal(must(t, tinyUnigram(t))) {
		t.Error("not equal to itself")
	}
	for i, change := range []func(*Config){
		func(c *Config) { c.Scores[5]++ },
		func(c *Config) { c.Charsmap = nil },
		func(c *Config) { c.AddSpacePrefix = false },
		func(c *Config) { c.RemoveExtraWhitespaces = false },
		func(c *Config) { c.AddEOS = false },
	} {
		c := tinyUnigram(t)
		change(&c)
		if tok.Equal(must(t, c)) {
			t.Errorf("change %d does not count", i)
		}
	}
}

// FuzzUnigram: ids are those of the definition, and stream to the text that they decode to.
func FuzzUnigram(f *testing.F) {
	for _, s := range awkward {
		f.Add(s, false)
	}
	f.Add("the zzzzz  qqqq", true)
	var configs []Config
	var toks []*Tokenizer
	for i := range 8 {
		c := tinyUnigram(f)
		c.RemoveExtraWhitespaces, c.AddSpacePrefix = i&1 != 0, i&2 != 0
		if i&4 != 0 {
			c.Charsmap = nil
		}
		configs, toks = append(configs, c), append(toks, must(f, c))
	}
	f.Fuzz(func(t *testing.T, text string, continues bool) {
		for i, tok := range toks {
			ids := tok.Encode(text, EncodeOptions{NoSpacePrefix: continues})
			if len(text) < 1000 && !strings.Contains(text, "<x") && !strings.Contains(text, "y") {
				if want := unigramByDefinition(configs[i], text, !continues); !slices.Equal(ids, want) {
					t.Fatalf("%d: %q: got %v, want %v", i, text, ids, want)
				}
			}
			if got, want := stream(t, tok, ids), tok.Decode(ids); got != want {
				t.Fatalf("%q: streams to %q, decodes to %q", text, got, want)
			}
		}
	})
}

// TestUnigramReference compares with the encodings of an independent engine.
func TestUnigramReference(t *testing.T) {
	for _, name := range []string{"t5-v10", "t5-v11", "t5-vocab-plain", "t5-vocab-keep", "t5-vocab-noprefix"} {
		t.Run(name, func(t *testing.T) {
			var golden struct {
				Texts []struct {
					Bytes       string
					IDs         []int32
					Special     []int32 `json:"ids_special"`
					Detokenized string
				}
			}
			if err := json.Unmarshal([]byte(read(t,
				testkit.Shared(t, "families/papers/models/golden/tok-"+name+".json"))), &golden); err != nil {
				t.Fatal(err)
			}
			if len(golden.Texts) != 46 {
				t.Fatalf("%d texts, want 46", len(golden.Texts))
			}
			tok := open(t, testkit.Shared(t, "families/papers/models/"+name+".gguf"))
			for _, g := range golden.Texts {
				text := unhex(t, g.Bytes)
				if got := tok.Encode(text, EncodeOptions{}); !slices.Equal(got, g.IDs) {
					t.Errorf("%q:\n got %v\nwant %v", text, got, g.IDs)
				}
				if got := tok.Encode(text, EncodeOptions{ParseSpecial: true, AddSpecial: true}); !slices.Equal(got, g.Special) {
					t.Errorf("%q with special tokens:\n got %v\nwant %v", text, got, g.Special)
				}
				want := valid(unhex(t, g.Detokenized))
				if got := tok.Decode(g.IDs); got != want {
					t.Errorf("%v decodes to %q, want %q", g.IDs, got, want)
				}
				if got := stream(t, tok, g.IDs); got != want {
					t.Errorf("%v streams to %q, want %q", g.IDs, got, want)
				}
			}
		})
	}
}

// TestUnigramXLMR compares with the encodings that an independent engine gives a vocabulary in XLM-R's order.
func TestUnigramXLMR(t *testing.T) {
	tok := open(t, testkit.Shared(t, "tokenizers/xlmr-small.gguf"))
	texts, want := references(t, "xlmr-small")
	for i, text := range texts {
		if got := tok.Encode(text, EncodeOptions{}); !slices.Equal(got, want[i]) {
			t.Errorf("text %d, %q:\n got %v\nwant %v", i, text, got, want[i])
		}
	}
}

// publishedUnigram is a vocabulary in XLM-R's order made for these tests, with the ids that the published program
// (Hugging Face's tokenizers) gives texts.
func publishedUnigram(t testing.TB) (c Config, texts []string, ids [][]int32) {
	t.Helper()
	var p struct {
		Tokens, Texts []string
		Types         []int32
		Scores        []float32
		IDs           [][]int32
	}
	if err := json.Unmarshal([]byte(read(t, "testdata/unigram.json")), &p); err != nil {
		t.Fatal(err)
	}
	c = Defaults("t5", "")
	c.Tokens, c.Types, c.Scores = p.Tokens, p.Types, p.Scores
	c.BOS, c.EOS, c.SEP, c.UNK = 0, 2, 2, 3
	c.AddBOS, c.AddEOS, c.AddSEP, c.AddSpacePrefix, c.RemoveExtraWhitespaces = true, true, true, true, true
	return c, p.Texts, p.IDs
}

// TestUnigramPublished compares with the published program, and takes texts back from behind the marks.
func TestUnigramPublished(t *testing.T) {
	c, texts, want := publishedUnigram(t)
	tok := must(t, c)
	if len(texts) < 20 {
		t.Fatalf("%d texts", len(texts))
	}
	for i, text := range texts {
		got := tok.Encode(text, EncodeOptions{})
		if !slices.Equal(got, want[i]) {
			t.Errorf("%q:\n got %q\nwant %q", text, tokenStrings(tok, got), tokenStrings(tok, want[i]))
		}
		back := strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '▁' }), " ")
		if marked := tok.Encode(text, EncodeOptions{AddSpecial: true}); slices.Contains(got, c.UNK) ||
			strings.Contains(text, "▁") {
			continue
		} else if s := tok.Decode(marked); s != back || stream(t, tok, marked) != back {
			t.Errorf("%q decodes to %q", text, s)
		}
	}
	got := tokenStrings(tok, tok.EncodePair("the dog", "The house", PairOptions{}))
	if want := "<s> ▁the ▁dog </s> </s> ▁ T he ▁house </s>"; strings.Join(got, " ") != want {
		t.Errorf("a pair: %q, want %s", got, want)
	}
}

func unhex(t testing.TB, s string) string {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
