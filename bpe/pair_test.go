package bpe

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// TestPairs compares with the pairs that an independent engine makes, and with its texts with marks. Where its
// pieces differ from the published program's, only the marks are compared.
func TestPairs(t *testing.T) {
	var files []struct {
		Vocabulary string
		Pairs      []struct {
			Query, Document string
			IDs             []int32
		}
		Special []struct {
			Text string
			IDs  []int32
		}
	}
	if err := json.Unmarshal([]byte(read(t, testkit.Shared(t, "tokenizers/encoder-pairs.json"))), &files); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, file := range files {
		tok := open(t, testkit.Shared(t, "tokenizers/"+file.Vocabulary+".gguf"))
		for _, p := range file.Pairs {
			want := p.IDs
			if tok.model == "bert" && (len(p.Query) > 100 || file.Vocabulary == "bert-bge" && p.Query == "한국어") {
				want = slices.Concat([]int32{tok.bos}, tok.Encode(p.Query, EncodeOptions{}), []int32{tok.sep},
					tok.Encode(p.Document, EncodeOptions{}))
				if tok.addEOS {
					want = append(want, tok.eos)
				}
			} else {
				compared++
			}
			if got := tok.EncodePair(p.Query, p.Document, PairOptions{}); !slices.Equal(got, want) {
				t.Errorf("%s: %q, %q:\n got %v\nwant %v", file.Vocabulary, p.Query, p.Document, got, want)
			}
		}
		for _, s := range file.Special {
			if got := tok.Encode(s.Text, EncodeOptions{AddSpecial: true, ParseSpecial: true}); !slices.Equal(got, s.IDs) {
				t.Errorf("%s: %q:\n got %v\nwant %v", file.Vocabulary, s.Text, got, s.IDs)
			}
		}
	}
	if compared != 45 {
		t.Errorf("%d pairs compared, want 45 of 48", compared)
	}
}

// TestPairMarks: which flags put which marks, and what a limit cuts off.
func TestPairMarks(t *testing.T) {
	base := readPublished(t).config(true, true)
	for _, c := range []struct {
		change func(*Config)
		limit  int
		want   string
	}{
		{func(*Config) {}, 0, "[CLS] ▁the ▁house [SEP] ▁dog ▁was"},
		{func(c *Config) { c.AddEOS, c.AddSEP, c.EOS = true, false, 3 }, 0, "[CLS] ▁the ▁house [SEP] ▁dog ▁was [SEP]"},
		{func(c *Config) { c.AddEOS, c.EOS = true, 4 }, 0, "[CLS] ▁the ▁house [MASK] [SEP] ▁dog ▁was [MASK]"},
		{func(c *Config) { c.AddEOS = true }, 0, "[CLS] ▁the ▁house [SEP] [SEP] ▁dog ▁was [SEP]"},
		{func(c *Config) { c.AddBOS, c.AddSEP = false, false }, 0, "▁the ▁house ▁dog ▁was"},
		{func(c *Config) { c.AddEOS = true }, 8, "[CLS] ▁the ▁house [SEP] [SEP] ▁dog ▁was [SEP]"},
		{func(c *Config) { c.AddEOS = true }, 7, "[CLS] ▁the ▁house [SEP] [SEP] ▁dog [SEP]"},
		{func(c *Config) { c.AddEOS = true }, 5, "[CLS] ▁the [SEP] [SEP] [SEP]"},
		{func(c *Config) { c.AddEOS = true }, 1, "[CLS] [SEP] [SEP] [SEP]"},
	} {
		config := base
		c.change(&config)
		tok := must(t, config)
		var want []int32
		for _, s := range strings.Fields(c.want) {
			id, ok := tok.ID(s)
			if !ok {
				t.Fatal(s)
			}
			want = append(want, id)
		}
		if got := tok.EncodePair("The house", "DOG was", PairOptions{Limit: c.limit}); !slices.Equal(got, want) {
			t.Errorf("limit %d: got %q, want %s", c.limit, tokenStrings(tok, got), c.want)
		}
	}
}
