// Package vocabulary reads tokenizers from the metadata of files.
package vocabulary

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/gguf"
)

// Read makes the tokenizer that a file describes (keys tokenizer.ggml.*), nil if it describes none.
func Read(f *gguf.File) (*bpe.Tokenizer, error) {
	const prefix = "tokenizer.ggml."
	if !f.Has(prefix + "model") {
		return nil, nil
	}
	model, err := f.String(prefix + "model")
	if err != nil {
		return nil, err
	}
	if model == "no_vocab" || model == "none" {
		return nil, nil
	}
	pre := ""
	read(f, prefix+"pre", f.String, &pre, &err)
	if err != nil {
		return nil, err
	}
	c := bpe.Defaults(model, pre)
	gemma4 := c.Model == "gemma4" && c.AddBOS
	if c.Tokens, err = f.Strings(prefix + "tokens"); err != nil {
		return nil, err
	}
	id := func(key string) (int32, error) { // -1: the file says that there is none
		n, err := f.Int64(key)
		if err != nil {
			return -1, err
		}
		if n < -1 || n >= int64(len(c.Tokens)) || n > math.MaxInt32 {
			return -1, fmt.Errorf("%s: key %q: %d is outside the vocabulary of %d tokens", f.Name, key, n, len(c.Tokens))
		}
		return int32(n), nil
	}
	readID := func(key string, v *int32) {
		if n, _ := f.Uint32(prefix + key); n == math.MaxUint32 { // -1 as converters of llama2.c's models write it
			return
		}
		read(f, prefix+key, id, v, &err)
	}
	for _, d := range []*int32{&c.BOS, &c.EOS, &c.UNK, &c.SEP} { // a default that the vocabulary lacks is none
		if int(*d) >= len(c.Tokens) {
			*d = -1
		}
	}
	read(f, prefix+"token_type", f.Int32s, &c.Types, &err)
	read(f, prefix+"scores", f.Float32s, &c.Scores, &err)
	switch model {
	case "gpt2", "gemma4", "whitespace":
		if err == nil { // without merges every text would fall into bytes
			c.Merges, err = f.Strings(prefix + "merges")
		}
	}
	readID("bos_token_id", &c.BOS)
	readID("eos_token_id", &c.EOS)
	readID("unknown_token_id", &c.UNK)
	readID("seperator_token_id", &c.SEP)
	read(f, prefix+"add_bos_token", f.Bool, &c.AddBOS, &err)
	read(f, prefix+"add_eos_token", f.Bool, &c.AddEOS, &err)
	if c.SEP < 0 { // no default adds what is not there
		c.AddSEP = false
	}
	read(f, prefix+"add_sep_token", f.Bool, &c.AddSEP, &err)
	read(f, prefix+"add_space_prefix", f.Bool, &c.AddSpacePrefix, &err)
	read(f, prefix+"remove_extra_whitespaces", f.Bool, &c.RemoveExtraWhitespaces, &err)
	if model == "t5" {
		read(f, prefix+"precompiled_charsmap", func(key string) ([]byte, error) { return byteArray(f, key) }, &c.Charsmap,
			&err)
	}
	if model == "bert" || model == "whitespace" {
		const normalizer = prefix + "normalizer."
		read(f, normalizer+"lowercase", f.Bool, &c.Lowercase, &err)
		c.StripAccents = c.Lowercase && model == "bert"
		read(f, normalizer+"strip_accents", f.Bool, &c.StripAccents, &err)
	}
	if gemma4 { // the first files say false, which is wrong, and the reference engine ignores it
		c.AddBOS = true
	}
	read(f, prefix+"suppress_tokens", f.Int32s, &c.Suppressed, &err)
	read(f, prefix+"eos_token_ids", f.Int32s, &c.EOG, &err) // of Ollama's converter
	for _, key := range []string{"eot_token_id", "eom_token_id"} {
		end := int32(-1)
		readID(key, &end)
		if end >= 0 {
			c.EOG = append(c.EOG, end)
		}
	}
	for _, mark := range []struct{ part, key, old string }{ // old: of the first files
		{"pre", "fim_pre_token_id", "prefix_token_id"}, {"suf", "fim_suf_token_id", "suffix_token_id"},
		{"mid", "fim_mid_token_id", "middle_token_id"}, {"sep", "fim_sep_token_id", ""},
		{"rep", "fim_rep_token_id", ""}, {"pad", "fim_pad_token_id", ""},
	} {
		is := int32(-1)
		if readID(mark.key, &is); is < 0 && mark.old != "" {
			readID(mark.old, &is)
		}
		if is >= 0 {
			if c.Infill == nil {
				c.Infill = map[string]int32{}
			}
			c.Infill[mark.part] = is
		}
	}
	if err != nil {
		return nil, err
	}
	c.StripAfter, c.StripBefore = stripAfter(f, &c), stripBefore(f, &c)
	t, err := bpe.New(c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return t, nil
}

// stripAfter returns the special tokens of Phi-3's vocabulary that take the white space behind them.
// No key says which: the reference engine goes by the model's name, and so does this.
func stripAfter(f *gguf.File, c *bpe.Config) (ids []int32) {
	name, _ := f.String("general.name")
	name = strings.ToLower(name)
	if !strings.Contains(name, "phi-3") && !strings.Contains(name, "phi3") {
		return nil
	}
	for i, token := range c.Tokens {
		special := i < len(c.Types) && (c.Types[i] == bpe.TypeControl || c.Types[i] == bpe.TypeUserDefined ||
			c.Types[i] == bpe.TypeUnknown)
		switch token {
		case "<unk>", "<s>", "<|endoftext|>":
			special = false
		case "</s>":
			special = true
		}
		if special {
			ids = append(ids, int32(i))
		}
	}
	return ids
}

// stripBefore returns the token of these vocabularies that takes the white space in front of it, by which a text has a
// gap. As of stripAfter's the reference engine goes by names.
func stripBefore(f *gguf.File, c *bpe.Config) []int32 {
	arch, _ := f.String("general.architecture")
	name, _ := f.String("general.name")
	has := func(s string) func(part string) bool {
		return func(part string) bool { return strings.Contains(s, part) }
	}
	gap := ""
	switch {
	case slices.ContainsFunc([]string{"jina-v2-de", "jina-v2-es", "jina-v2-code"}, has(c.Pre)),
		slices.ContainsFunc([]string{"nomic-bert-moe", "jina-bert-v3"}, has(arch)):
		gap = "<mask>"
	case strings.Contains(strings.ToLower(name), "modern-bert"):
		gap = "[MASK]"
	}
	if id := slices.Index(c.Tokens, gap); gap != "" && id >= 0 {
		return []int32{int32(id)}
	}
	return nil
}

// byteArray returns an array of bytes, which files have as unsigned or as signed ones.
func byteArray(f *gguf.File, key string) ([]byte, error) {
	switch v, _ := f.Value(key); v := v.(type) {
	case []uint8:
		return v, nil
	case []int8:
		b := make([]byte, len(v))
		for i, x := range v {
			b[i] = byte(x)
		}
		return b, nil
	default:
		return nil, fmt.Errorf("%s: key %q: %w: %T where an array of bytes is needed", f.Name, key, gguf.ErrType, v)
	}
}

// read sets *v to the value of a key, if the file has it and nothing has failed before.
func read[T any](f *gguf.File, key string, get func(string) (T, error), v *T, err *error) {
	if *err == nil && f.Has(key) {
		*v, *err = get(key)
	}
}
