package bpe

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestReference compares with the encodings that come with the vocabularies.
func TestReference(t *testing.T) {
	for _, name := range []string{"gpt-2", "llama-bpe", "deepseek-coder", "llama-spm"} {
		t.Run(name, func(t *testing.T) {
			tok := open(t, shared(t, "tokenizers/"+name+".gguf"))
			texts := strings.Split(read(t, shared(t, "tokenizers/"+name+".inp")), "\n__ggml_vocab_test__\n")
			lines := strings.Split(read(t, shared(t, "tokenizers/"+name+".out")), "\n")
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

// TestBook takes a book there and back, whole and as a stream.
func TestBook(t *testing.T) {
	book := read(t, shared(t, "text/war-and-peace.txt"))
	for _, name := range []string{"tokenizers/gpt-2", "tokenizers/llama-bpe", "tokenizers/deepseek-coder", "tokenizers/llama-spm", "models/go-target.f32", "models/stories260K.f32"} {
		t.Run(name, func(t *testing.T) {
			tok := open(t, shared(t, name+".gguf"))
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

// TestGolden compares with the prompts of the models' reference outputs.
func TestGolden(t *testing.T) {
	for _, name := range []string{"go-target", "go-draft", "stories260K"} {
		t.Run(name, func(t *testing.T) {
			tok := open(t, shared(t, "models/"+name+".f32.gguf"))
			var golden struct {
				Prompt string  `json:"prompt"`
				IDs    []int32 `json:"token_ids"`
			}
			if err := json.Unmarshal([]byte(read(t, shared(t, "models/golden/"+name+".json"))), &golden); err != nil {
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
	target := open(t, shared(t, "models/go-target.f32.gguf"))
	draft := open(t, shared(t, "models/go-draft.f32.gguf"))
	if err := target.Compatible(draft); err != nil {
		t.Error(err)
	}
	if !target.Equal(draft) {
		t.Error("the pair's tokenizers are not equal")
	}
	if err := target.Compatible(open(t, shared(t, "models/stories260K.f32.gguf"))); err == nil {
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
		{"tokenizers/llama-spm", "text/war-and-peace.txt"},
	} {
		b.Run(c.vocabulary+"/"+c.text, func(b *testing.B) {
			tok := open(b, shared(b, c.vocabulary+".gguf"))
			text := read(b, shared(b, c.text))
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				tok.Encode(text, EncodeOptions{})
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	tok := open(b, shared(b, "models/go-target.f32.gguf"))
	text := read(b, shared(b, "text/go-heldout.txt"))
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
