package bpe

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/specgo/spec/internal/testkit"
)

// TestReference compares with the encodings that come with the vocabularies.
func TestReference(t *testing.T) {
	for _, name := range []string{"gpt-2", "llama-bpe", "deepseek-coder", "llama-spm"} {
		t.Run(name, func(t *testing.T) {
			tok := open(t, testkit.Shared(t, "tokenizers/"+name+".gguf"))
			texts := strings.Split(read(t, testkit.Shared(t, "tokenizers/"+name+".inp")), "\n__ggml_vocab_test__\n")
			lines := strings.Split(read(t, testkit.Shared(t, "tokenizers/"+name+".out")), "\n")
			if len(texts) != 47 || len(lines) < len(texts) {
				t.Fatalf("%d texts, %d lines of ids; want 47 of each", len(texts), len(lines))
			}
			for i, text := range texts {
				var want []int32
				for _, f := range strings.Fields(lines[i]) {
					id, err := strconv.ParseInt(f, 10, 32)
					if err != nil {
						t.Fatal(err)
					}
					want = append(want, int32(id))
				}
				got := tok.Encode(text, EncodeOptions{})
				if !slices.Equal(got, want) {
					t.Errorf("text %d, %q:\n got %v\nwant %v", i, text, got, want)
				}
				if back := tok.Decode(got); back != text {
					t.Errorf("text %d, %q, comes back as %q", i, text, back)
				}
			}
		})
	}
}

// gemma4 makes a vocabulary of the gemma4 kind from Llama 2's, as converters do: a
// merge for every way to make a token from two others, the best token first.
func gemma4(t testing.TB) *Tokenizer {
	t.Helper()
	if tok, ok := opened.Load("gemma4"); ok {
		return tok.(*Tokenizer)
	}
	from := config(t, testkit.Shared(t, "tokenizers/llama-spm.gguf"))
	c := Defaults("gemma4", "")
	c.Tokens, c.Types, c.BOS, c.EOS, c.UNK = from.Tokens, from.Types, from.BOS, from.EOS, from.UNK
	text := map[string]bool{}
	var order []int
	for i, s := range c.Tokens {
		if c.Types[i] == TypeNormal {
			text[s] = true
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(from.Scores[b], from.Scores[a]) })
	for _, i := range order {
		s := c.Tokens[i]
		for k := range s {
			if k > 0 && text[s[:k]] && text[s[k:]] {
				c.Merges = append(c.Merges, s[:k]+" "+s[k:])
			}
		}
	}
	tok := must(t, c)
	opened.Store("gemma4", tok)
	return tok
}

// TestGemma4 compares the two kinds of merging: by score and by rank, on a book. The
// merges say the same, so the ids are the same.
func TestGemma4(t *testing.T) {
	book := read(t, testkit.Shared(t, "text/war-and-peace.txt"))
	byRank, byScore := gemma4(t), open(t, testkit.Shared(t, "tokenizers/llama-spm.gguf"))
	got, want := byRank.Encode(book, EncodeOptions{}), byScore.Encode(book, EncodeOptions{NoSpacePrefix: true})
	if !slices.Equal(got, want) {
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("id %d: got %q, want %q", i, tokenStrings(byRank, got[i:i+8]), tokenStrings(byScore, want[i:i+8]))
			}
		}
	}
	if byRank.Decode(got) != book {
		t.Error("comes back changed")
	}
}

// TestBook takes a book there and back, whole and as a stream.
func TestBook(t *testing.T) {
	book := read(t, testkit.Shared(t, "text/war-and-peace.txt"))
	for _, name := range []string{"tokenizers/gpt-2", "tokenizers/llama-bpe", "tokenizers/deepseek-coder",
		"tokenizers/llama-spm", "models/go-target.f32", "models/stories260K.f32"} {
		t.Run(name, func(t *testing.T) {
			tok := open(t, testkit.Shared(t, name+".gguf"))
			ids := tok.Encode(book, EncodeOptions{})
			if tok.Decode(ids) != book {
				t.Error("comes back changed")
			}
			var all strings.Builder
			d := tok.NewDecoder()
			for _, id := range ids {
				all.WriteString(d.Next(id))
			}
			all.WriteString(d.Flush())
			if got := all.String(); got != book && got != " "+book {
				t.Error("comes back changed from the stream")
			}
		})
	}
}

// TestRoundTrips takes an eighth of the lines of prose and code there and back by every rule, another by each; every
// seventh with GPT-2's vocabulary, the others with a small one.
func TestRoundTrips(t *testing.T) { testRoundTrips(t, 8) }

// TestLongRoundTrips takes all of them by every rule, with GPT-2's vocabulary.
func TestLongRoundTrips(t *testing.T) {
	testkit.Long(t)
	testRoundTrips(t, 1)
}

func testRoundTrips(t *testing.T, parts int) {
	c := config(t, testkit.Shared(t, "tokenizers/gpt-2.gguf"))
	texts := []string{read(t, testkit.Shared(t, "text/war-and-peace.txt")),
		read(t, testkit.Shared(t, "text/go-heldout.txt"))}
	for at, rule := range slices.Sorted(maps.Keys(rules)) {
		c.Pre = ruleNames[rule][0]
		var tok *Tokenizer
		switch {
		case rule == "lines": // of characters
			tok = gemma4(t)
		case at%7 > 0 && parts > 1:
			tok = must(t, tinyByteLevel(c.Pre))
		default:
			tok = must(t, c)
		}
		for i, text := range texts {
			lines := strings.SplitAfter(text, "\n")
			from, to := at%parts*len(lines)/parts, (at%parts+1)*len(lines)/parts
			if text = strings.Join(lines[from:to], ""); tok.Decode(tok.Encode(text, EncodeOptions{})) != text {
				t.Errorf("%s: text %d comes back changed", rule, i)
			}
		}
	}
}

// largeUnigram makes a vocabulary of T5's size and kind from Llama 2's tokens and the
// normalization that T5 has. Scores are logarithms of Zipf's law for the order of the
// tokens.
func largeUnigram(t testing.TB) *Tokenizer {
	t.Helper()
	from := config(t, testkit.Shared(t, "tokenizers/llama-spm.gguf"))
	c := Defaults("t5", "")
	c.Tokens, c.Types = from.Tokens, from.Types
	c.Charsmap = []byte(read(t, testkit.Shared(t, "families/papers/models/charsmap-nmt_nfkc.bin")))
	c.EOS, c.UNK = from.EOS, from.UNK
	c.AddSpacePrefix, c.RemoveExtraWhitespaces = true, true
	for i := range c.Tokens {
		c.Scores = append(c.Scores, -float32(math.Log(float64(i+10))))
	}
	return must(t, c)
}

// TestGolden compares with the prompts of the models' reference outputs.
func TestGolden(t *testing.T) {
	for _, name := range []string{"go-target", "go-draft", "stories260K"} {
		t.Run(name, func(t *testing.T) {
			tok := open(t, testkit.Shared(t, "models/"+name+".f32.gguf"))
			var golden struct {
				Prompt string  `json:"prompt"`
				IDs    []int32 `json:"token_ids"`
			}
			if err := json.Unmarshal([]byte(read(t, testkit.Shared(t, "models/golden/"+name+".json"))), &golden); err != nil {
				t.Fatal(err)
			}
			if got := tok.Encode(golden.Prompt, EncodeOptions{AddSpecial: true}); !slices.Equal(got, golden.IDs) {
				t.Errorf("%q:\n got %v\nwant %v", golden.Prompt, got, golden.IDs)
			}
			if got := tok.Decode(golden.IDs); got != golden.Prompt {
				t.Errorf("decodes to %q, want %q", got, golden.Prompt)
			}
		})
	}
}

func TestPairShares(t *testing.T) {
	target := open(t, testkit.Shared(t, "models/go-target.f32.gguf"))
	draft := open(t, testkit.Shared(t, "models/go-draft.f32.gguf"))
	if err := target.Compatible(draft); err != nil {
		t.Error(err)
	}
	if !target.Equal(draft) {
		t.Error("the pair's tokenizers are not equal")
	}
	if err := target.Compatible(open(t, testkit.Shared(t, "models/stories260K.f32.gguf"))); err == nil {
		t.Error("stories260K passes as a draft for the Go model")
	}
}

func BenchmarkEncode(b *testing.B) {
	for _, c := range []struct{ vocabulary, text string }{
		{"models/go-target.f32", "text/go-heldout.txt"},
		{"models/go-target.f32", "text/war-and-peace.txt"},
		{"tokenizers/gpt-2", "text/war-and-peace.txt"},
		{"tokenizers/llama-bpe", "text/war-and-peace.txt"},
		{"tokenizers/deepseek-coder", "text/war-and-peace.txt"},
		{"tokenizers/gpt-2", "text/go-heldout.txt"},
		{"tokenizers/llama-bpe", "text/go-heldout.txt"},
		{"tokenizers/deepseek-coder", "text/go-heldout.txt"},
		{"tokenizers/llama-spm", "text/war-and-peace.txt"},
		{"tokenizers/llama-spm", "text/go-heldout.txt"},
		{"gemma4", "text/war-and-peace.txt"},
		{"gemma4", "text/go-heldout.txt"},
		{"t5", "text/war-and-peace.txt"},
		{"t5", "text/go-heldout.txt"},
	} {
		b.Run(c.vocabulary+"/"+c.text, func(b *testing.B) {
			var tok *Tokenizer
			switch c.vocabulary {
			case "gemma4":
				tok = gemma4(b)
			case "t5":
				tok = largeUnigram(b)
			default:
				tok = open(b, testkit.Shared(b, c.vocabulary+".gguf"))
			}
			text := read(b, testkit.Shared(b, c.text))
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				tok.Encode(text, EncodeOptions{})
			}
		})
	}
}

// BenchmarkEncoders measures the tokenizers of encoder models against reading the text character by character: both in
// turn, so that what else the machine does slows both.
func BenchmarkEncoders(b *testing.B) {
	for _, name := range []string{"bert-bge", "wordpiece-cased", "xlmr-small"} {
		for _, file := range []string{"text/war-and-peace.txt", "text/go-heldout.txt"} {
			b.Run(name+"/"+file, func(b *testing.B) {
				tok, text := open(b, testkit.Shared(b, "tokenizers/"+name+".gguf")), read(b, testkit.Shared(b, file))
				b.SetBytes(int64(len(text)))
				b.ReportAllocs()
				var reading, encoding time.Duration
				letters := 0
				for b.Loop() {
					start := time.Now()
					for _, r := range text {
						if unicode.IsLetter(unicode.ToLower(r)) {
							letters++
						}
					}
					read := time.Now()
					tok.Encode(text, EncodeOptions{})
					reading, encoding = reading+read.Sub(start), encoding+time.Since(read)
				}
				b.ReportMetric(float64(encoding)/float64(reading), "x-reading")
				b.ReportMetric(float64(len(text))*float64(b.N)/1e6/encoding.Seconds(), "MB/s-encoding")
			})
		}
	}
}

// BenchmarkSplit measures the pre-tokenizers alone.
func BenchmarkSplit(b *testing.B) {
	for _, name := range []string{"text/war-and-peace.txt", "text/go-heldout.txt"} {
		text := read(b, testkit.Shared(b, name))
		for _, rule := range slices.Sorted(maps.Keys(rules)) {
			b.Run(rule+"/"+name, func(b *testing.B) {
				b.SetBytes(int64(len(text)))
				var s scratch
				for b.Loop() {
					s.split = splitState{}
					for i := 0; i < len(text); {
						i = rules[rule].next(&s, text, i)
					}
				}
			})
		}
	}
}

func BenchmarkDecode(b *testing.B) {
	tok := open(b, testkit.Shared(b, "models/go-target.f32.gguf"))
	text := read(b, testkit.Shared(b, "text/go-heldout.txt"))
	ids := tok.Encode(text, EncodeOptions{})
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		d := tok.NewDecoder()
		for _, id := range ids {
			d.Next(id)
		}
	}
}
