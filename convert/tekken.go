package convert

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/gguf"
)

// tekken is tekken.json, Mistral's own file of a byte-level vocabulary: special tokens, which have the first ids, and
// sequences of bytes by rank. Any two tokens that make a third one merge, those that make the lowest rank first.
type tekken struct {
	Config struct {
		Pattern  string `json:"pattern"`
		Size     int    `json:"default_vocab_size"`
		Specials int    `json:"default_num_special_tokens"`
	} `json:"config"`
	Vocab []struct {
		Rank  int    `json:"rank"`
		Bytes []byte `json:"token_bytes"` // base64
	} `json:"vocab"`
	Specials []struct {
		Rank    int    `json:"rank"`
		Text    string `json:"token_str"`
		Control bool   `json:"is_control"`
	} `json:"special_tokens"`
}

// tekkenBOS, tekkenEOS and tekkenUnknown are the special tokens that the format gives these roles.
const tekkenBOS, tekkenEOS, tekkenUnknown = "<s>", "</s>", "<unk>"

// readTekken reads tekken.json for a model of so many rows.
func readTekken(file string, rows int) (*words, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	fail := func(format string, args ...any) (*words, error) {
		return nil, fmt.Errorf("%s: %s", file, fmt.Sprintf(format, args...))
	}
	var t tekken
	if err := json.Unmarshal(data, &t); err != nil {
		return fail("%v", err)
	}
	c := t.Config
	if preTokenizers[c.Pattern] != "tekken" {
		return fail("config.pattern %s is not known", gguf.Printable(c.Pattern, 200))
	}
	if c.Specials < 1 || c.Size < c.Specials || c.Size > rows {
		return fail("config: %d tokens, %d of them special, for vocab_size %d", c.Size, c.Specials, rows)
	}
	w := &words{model: "gpt2", pre: "tekken", rows: rows, whole: true, merges: []string{}, unknown: tekkenUnknown,
		around: [2]string{tekkenBOS, tekkenEOS}, addBOS: new(bool), addEOS: new(bool)}
	*w.addBOS = true
	w.tokens, w.types = make([]string, c.Size), make([]int32, c.Size)
	for i := range c.Specials {
		w.tokens[i], w.types[i] = fmt.Sprintf("<SPECIAL_%d>", i), typeControl
	}
	if len(t.Specials) == 0 {
		return fail("special_tokens: missing")
	}
	for _, s := range t.Specials {
		if s.Rank < 0 || s.Rank >= c.Specials {
			return fail("special_tokens: %s has rank %d of %d", gguf.Printable(s.Text, 40), s.Rank, c.Specials)
		}
		if w.tokens[s.Rank] = s.Text; !s.Control {
			w.types[s.Rank] = typeUser
		}
	}
	ranks, used := map[string]int{}, c.Size-c.Specials
	for _, v := range t.Vocab {
		if v.Rank < 0 || v.Rank >= used {
			continue // the vocabulary may be cut
		}
		text := string(v.Bytes)
		if _, twice := ranks[text]; twice || text == "" || len(text) > longestPiece || w.tokens[c.Specials+v.Rank] != "" {
			return fail("vocab: rank %d stands there twice, or its %d bytes do", v.Rank, len(text))
		}
		ranks[text] = v.Rank
		w.tokens[c.Specials+v.Rank], w.types[c.Specials+v.Rank] = bpe.SpellBytes(text), typeNormal
	}
	if len(ranks) != used {
		return fail("vocab: %d of %d tokens are there", len(ranks), used)
	}
	byRank := make([]string, used)
	for text, r := range ranks {
		byRank[r] = text
	}
	for _, text := range byRank {
		w.merges = append(w.merges, splitsOf(text, ranks)...)
	}
	return w, nil
}

// splitsOf are the pairs of tokens that make a token, the one whose parts have the lowest ranks first.
func splitsOf(text string, ranks map[string]int) (merges []string) {
	type pair struct{ left, right, at int }
	var list []pair
	for at := 1; at < len(text); at++ {
		left, ok := ranks[text[:at]]
		right, both := ranks[text[at:]]
		if ok && both {
			list = append(list, pair{left, right, at})
		}
	}
	slices.SortFunc(list, func(a, b pair) int {
		return cmp.Or(cmp.Compare(a.left, b.left), cmp.Compare(a.right, b.right))
	})
	for _, p := range list {
		merges = append(merges, bpe.SpellBytes(text[:p.at])+" "+bpe.SpellBytes(text[p.at:]))
	}
	return merges
}
