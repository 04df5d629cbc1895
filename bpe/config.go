package bpe

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Token types, as tokenizer.ggml.token_type numbers them.
const (
	TypeUndefined   = 0 // treated as normal
	TypeNormal      = 1
	TypeUnknown     = 2 // stands for text that the vocabulary cannot express
	TypeControl     = 3 // marks structure and has no text
	TypeUserDefined = 4 // text that is always this token, found before any merge
	TypeUnused      = 5 // padding
	TypeByte        = 6 // one byte, spelled <0x00> to <0xFF>
)

// ErrUnsupported is wrapped by the error of [New] if the tokenizer model or the
// pre-tokenizer is not implemented.
var ErrUnsupported = errors.New("not supported")

// Config is a vocabulary and its rules. The fields correspond to the keys
// tokenizer.ggml.* of a GGUF file. An id of -1 means that there is no such token.
type Config struct {
	// "gpt2" (byte-level BPE), "llama" (SentencePiece-style BPE), "gemma4" (BPE by merges on characters), "t5"
	// (unigram), "bert" (WordPiece) or "whitespace" (BPE on the characters of words)
	Model  string
	Pre    string   // pre-tokenizer of a gpt2 model; "" is "default"; "gemma4" and its like make it a gemma4 model
	Tokens []string // of each id; an empty one is never found in text
	Types  []int32  // of each id, TypeNormal and so on; nil: all normal
	// of each id; a llama model merges the pair that makes the highest first, a t5 model takes the highest sum
	Scores []float32
	Merges []string // of a gpt2 or gemma4 model, "left right", in the order of rank

	BOS, EOS, UNK int32
	SEP           int32   // separates the texts of a pair; ends a bert model's text (seperator_token_id)
	EOG           []int32 // more ids that end a generation, beside EOS and the well-known tokens
	Suppressed    []int32 // ids that a generation never chooses (suppress_tokens)
	// Infill are ids of marks around a gap that is to be filled, by the middle of their keys: pre, suf and mid, sep
	// in front of a file, rep of a repository, and pad (fim_pre_token_id and so on). One that is left out has no key.
	Infill map[string]int32

	// AddBOS and AddEOS are what AddSpecial adds, and what EncodePair puts in front of the first text and behind
	// each; AddSEP is what it puts between them. AddSpecial puts BOS and SEP around a bert model's text in any case.
	AddBOS, AddEOS, AddSEP bool
	AddSpacePrefix         bool // a llama or t5 model's text begins with a space, after a special token too

	// StripAfter are special tokens that take the white space behind them (ASCII's)
	// with them where they are found in a text, StripBefore those that take the white space in front of them.
	StripAfter, StripBefore []int32

	// RemoveExtraWhitespaces makes one space of each run of spaces in a llama or t5
	// model's text, and none of those at its ends. In a t5 model's text a space then
	// begins every word, the first one too.
	RemoveExtraWhitespaces bool

	// Charsmap is the normalization of a t5 model's text, as SentencePiece compiles it
	// (precompiled_charsmap); nil: none.
	Charsmap []byte

	// Lowercase and StripAccents are the normalization of a bert model's text, Lowercase of a whitespace model's too
	// (normalizer.lowercase, normalizer.strip_accents).
	Lowercase, StripAccents bool
}

// Defaults returns the ids and flags that a tokenizer model and pre-tokenizer have
// where the file does not give them. The vocabulary is empty.
func Defaults(model, pre string) Config {
	c := Config{Model: model, Pre: pre, BOS: -1, EOS: -1, UNK: -1, SEP: -1}
	switch model {
	case "llama":
		c.BOS, c.EOS, c.UNK = 1, 2, 0
		c.AddBOS, c.AddSpacePrefix = true, true
	case "gpt2":
		p, _ := findPretokenizer(pre)
		c.AddBOS, c.AddSEP = p.addBOS, p.addSEP
		if isGemma4(model, pre) {
			c.Model = "gemma4"
		}
	case "gemma4":
		c.AddBOS = true
	case "t5":
		c.EOS, c.UNK = 1, 2
		c.AddEOS = true
	case "bert":
		c.BOS, c.UNK, c.SEP = 101, 100, 102
		c.AddBOS, c.AddSEP = true, true
		c.Lowercase, c.StripAccents = true, true
	}
	return c
}

// isGemma4 says whether a file has a vocabulary of the gemma4 kind, which its model
// or its pre-tokenizer may say.
func isGemma4(model, pre string) bool {
	return model == "gemma4" || model == "gpt2" && slices.Contains(ruleNames["lines"], pre)
}

// unsupportedModels are kinds of tokenizers that other engines know.
var unsupportedModels = map[string]string{
	"rwkv": "RWKV", "plamo2": "PLaMo-2", "plamo3": "PLaMo-3",
	"hybriddna": "DNA k-mers",
}

// checkModel checks the kind of the tokenizer.
func checkModel(c *Config) error {
	if isGemma4(c.Model, c.Pre) {
		c.Model = "gemma4"
	}
	switch c.Model {
	case "gpt2", "llama", "gemma4", "t5", "bert", "whitespace":
		return nil
	}
	kind := ""
	if name, ok := unsupportedModels[c.Model]; ok {
		kind = " (" + name + ")"
	}
	return fmt.Errorf("tokenizer.ggml.model: %s%s is %w (known: bert, gemma4, gpt2, llama, t5, whitespace)",
		quote(c.Model), kind, ErrUnsupported)
}

// New returns the tokenizer that c describes. Errors name the metadata key and the
// index that is wrong. New does not keep c's slices.
func New(c Config) (*Tokenizer, error) {
	t, err := newTokenizer(c)
	if err != nil {
		return nil, fmt.Errorf("bpe: %w", err)
	}
	return t, nil
}

func newTokenizer(c Config) (*Tokenizer, error) {
	if err := checkModel(&c); err != nil {
		return nil, err
	}
	if err := checkIDs(&c); err != nil {
		return nil, err
	}
	types, err := checkTypes(&c)
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{
		model: c.Model, tokens: slices.Clone(c.Tokens), types: types,
		ids: make(map[string]int32, len(c.Tokens)),
		bos: c.BOS, eos: c.EOS, unk: c.UNK, sep: c.SEP,
		addBOS: c.AddBOS, addEOS: c.AddEOS, addSEP: c.AddSEP,
		suppressed: slices.Compact(slices.Sorted(slices.Values(c.Suppressed))),
		infill:     maps.Clone(c.Infill),
	}
	for i, s := range t.tokens {
		if s == "" {
			continue
		}
		if first, ok := t.ids[s]; ok {
			return nil, fmt.Errorf("tokenizer.ggml.tokens[%d]: %s is token %d already", i, quote(s), first)
		}
		t.ids[s] = int32(i)
	}
	t.findEnds(c.EOG)
	t.stripAfter, t.stripBefore = setOf(c.StripAfter), setOf(c.StripBefore)
	if t.bytes, err = t.makeTokenBytes(); err != nil {
		return nil, err
	}
	t.special = newSpecials(t.tokens, t.types)
	switch c.Model {
	case "llama":
		t.spacePrefix = c.AddSpacePrefix
		t.encoder, err = newSentencePiece(t, c.Scores, c.RemoveExtraWhitespaces)
	case "gemma4":
		t.encoder, err = newCharLevel(t, c.Pre, c.Merges)
	case "t5":
		t.spacePrefix = c.AddSpacePrefix
		t.encoder, err = newUnigram(t, &c)
	case "bert":
		t.encoder, err = newWordPiece(t, &c)
	case "whitespace":
		t.encoder, err = newWordLevel(t, &c)
	default:
		t.encoder, err = newByteLevel(t, c.Pre, c.Merges)
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// setOf is ids as a set, nil for none.
func setOf(ids []int32) map[int32]bool {
	if len(ids) == 0 {
		return nil
	}
	set := make(map[int32]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set
}

// checkIDs checks every id that the configuration names.
func checkIDs(c *Config) error {
	n := len(c.Tokens)
	if n == 0 {
		return errors.New("tokenizer.ggml.tokens: empty")
	}
	if n > math.MaxInt32 {
		return fmt.Errorf("tokenizer.ggml.tokens: %d tokens, more than ids can number", n)
	}
	for _, s := range []struct {
		key string
		id  int32
	}{{"bos_token_id", c.BOS}, {"eos_token_id", c.EOS}, {"unknown_token_id", c.UNK},
		{"seperator_token_id", c.SEP}} { // so it is spelled in the format
		if s.id < -1 || int(s.id) >= n {
			return fmt.Errorf("tokenizer.ggml.%s: %d is outside the vocabulary of %d tokens", s.key, s.id, n)
		}
	}
	for i, id := range c.EOG {
		if id < 0 || int(id) >= n {
			return fmt.Errorf("end-of-generation token %d of %d: %d is outside the vocabulary of %d tokens", i, len(c.EOG), id,
				n)
		}
	}
	for i, id := range c.Suppressed {
		if id < 0 || int(id) >= n {
			return fmt.Errorf("tokenizer.ggml.suppress_tokens[%d]: %d is outside the vocabulary of %d tokens", i, id, n)
		}
	}
	for _, part := range slices.Sorted(maps.Keys(c.Infill)) {
		if id := c.Infill[part]; id < 0 || int(id) >= n {
			return fmt.Errorf("tokenizer.ggml.fim_%s_token_id: %d is outside the vocabulary of %d tokens", part, id, n)
		}
	}
	for _, strip := range [][]int32{c.StripAfter, c.StripBefore} {
		for i, id := range strip {
			if id < 0 || int(id) >= n {
				return fmt.Errorf("token %d of %d that strip white space: %d is outside the vocabulary of %d tokens", i,
					len(strip), id, n)
			}
		}
	}
	if c.AddBOS && c.BOS < 0 {
		return errors.New("tokenizer.ggml.add_bos_token: true, but there is no tokenizer.ggml.bos_token_id")
	}
	if c.AddEOS && c.EOS < 0 && !(c.Model == "bert" && c.SEP >= 0) {
		return errors.New("tokenizer.ggml.add_eos_token: true, but there is no tokenizer.ggml.eos_token_id")
	}
	if c.AddSEP && c.SEP < 0 {
		return errors.New("tokenizer.ggml.add_sep_token: true, but there is no tokenizer.ggml.seperator_token_id")
	}
	return nil
}

// checkTypes checks types and scores and returns the types as bytes.
func checkTypes(c *Config) ([]uint8, error) {
	n := len(c.Tokens)
	if c.Types != nil && len(c.Types) != n {
		return nil, fmt.Errorf("tokenizer.ggml.token_type: %d entries for %d tokens", len(c.Types), n)
	}
	if (c.Scores != nil || c.Model == "llama" || c.Model == "t5") && len(c.Scores) != n {
		return nil, fmt.Errorf("tokenizer.ggml.scores: %d entries for %d tokens", len(c.Scores), n)
	}
	for i, s := range c.Scores {
		if s != s {
			return nil, fmt.Errorf("tokenizer.ggml.scores[%d]: not a number", i)
		}
	}
	types := make([]uint8, n)
	for i := range types {
		types[i] = TypeNormal
		if c.Types == nil {
			continue
		}
		switch ty := c.Types[i]; {
		case ty < 0 || ty > TypeByte:
			return nil, fmt.Errorf("tokenizer.ggml.token_type[%d]: %d is no token type", i, ty)
		case ty != TypeUndefined:
			types[i] = uint8(ty)
		}
	}
	return types, nil
}

// maxQuoted bounds the characters of text from a file in a message.
const maxQuoted = 60

// quote quotes text from a file for a message, and cuts it where it is long.
func quote(s string) string {
	if utf8.RuneCountInString(s) > maxQuoted {
		return fmt.Sprintf("%.*q...", maxQuoted, s)
	}
	return strconv.Quote(s)
}
