package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/specgo/spec/gguf"
)

// BERT's tokenizer. GGUF marks the pieces that begin a word, as SentencePiece does, and the source those inside one.

const (
	beginsWord = "▁"  // in front of a piece, in GGUF
	insideWord = "##" // likewise, in the source
)

// longestWord is how many characters a word may have, here and in the published tokenizers.
const longestWord = 100

// normalizer is BertNormalizer of tokenizer.json. Accents go where lower case is made, unless it says something else.
type normalizer struct {
	Type    string `json:"type"`
	Clean   *bool  `json:"clean_text"`
	Chinese *bool  `json:"handle_chinese_chars"`
	Accents *bool  `json:"strip_accents"`
	Lower   *bool  `json:"lowercase"`
}

// wordPieces reads tokenizer.json.
func (t *tokenizerJSON) wordPieces(file string) (*words, error) {
	var vocab map[string]int32
	if err := json.Unmarshal(t.Model.Vocab, &vocab); err != nil {
		return nil, fmt.Errorf("model.vocab: %w", err)
	}
	if p := t.Model.Prefix; p == nil || *p != insideWord {
		return nil, fmt.Errorf("model.continuing_subword_prefix: %s expected", insideWord)
	}
	if n := t.Model.LongestWord; n != nil && *n != longestWord {
		return nil, fmt.Errorf("model.max_input_chars_per_word: %d, GGUF's tokenizer has %d", *n, longestWord)
	}
	if t.Model.Unknown == nil {
		return nil, errors.New("model.unk_token: missing")
	}
	if t.PreTokenizer == nil || t.PreTokenizer.Type != "BertPreTokenizer" {
		return nil, errors.New("pre_tokenizer: BertPreTokenizer expected")
	}
	var n *normalizer
	if len(t.Normalizer) > 0 {
		if err := json.Unmarshal(t.Normalizer, &n); err != nil {
			return nil, fmt.Errorf("normalizer: %w", err)
		}
	}
	switch off := func(b *bool) bool { return b != nil && !*b }; {
	case n == nil || n.Type != "BertNormalizer":
		return nil, errors.New("normalizer: BertNormalizer expected")
	case off(n.Clean) || off(n.Chinese):
		return nil, errors.New("normalizer: clean_text and handle_chinese_chars are always on in GGUF's tokenizer")
	}
	no := false
	w := &words{model: "bert", pre: "default", rows: t.rows, unknown: *t.Model.Unknown, lower: n.Lower == nil || *n.Lower,
		stripsAccents: n.Accents, addSEP: &no}
	if err := w.setVocabulary(vocab); err != nil {
		return nil, fmt.Errorf("model.vocab: %w", err)
	}
	w.markPieces()
	if err := w.placeAll(file, t.Added); err != nil {
		return nil, err
	}
	if err := w.setMarks(t.PostProcessor); err != nil {
		return nil, err
	}
	if w.around[0] == "" || w.around[1] == "" {
		return nil, errors.New("post_processor: a token in front of a text and one behind it expected, which GGUF's " +
			"tokenizer always puts there")
	}
	return w, nil
}

// readPieces reads vocab.txt, which has a piece in each line. What is said nowhere is as in the published tokenizer.
func readPieces(file string) (*words, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	w := &words{model: "bert", pre: "default", unknown: "[UNK]", lower: true, around: [2]string{"[CLS]", "[SEP]"}}
	for line := range strings.Lines(string(data)) {
		w.tokens, w.types = append(w.tokens, strings.TrimRight(line, "\r\n")), append(w.types, typeNormal)
	}
	if len(w.tokens) > largest {
		return nil, fmt.Errorf("%s: %d lines", file, len(w.tokens))
	}
	w.markPieces()
	for id, text := range w.tokens {
		if slices.Contains([]string{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"}, text) {
			w.types[id] = typeControl
		}
	}
	yes, no := true, false
	w.addBOS, w.addEOS, w.addSEP = &yes, &yes, &no
	return w, nil
}

// markPieces writes pieces as GGUF has them. Texts in brackets are marks: no word of a text is one.
func (w *words) markPieces() {
	for id, text := range w.tokens {
		inside, is := strings.CutPrefix(text, insideWord)
		switch {
		case text == "" || strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]"):
		case is && inside != "":
			w.tokens[id] = inside
		default:
			w.tokens[id] = beginsWord + text
		}
	}
}

// normalizes takes what tokenizer_config.json says of a text's normalization, which counts more than tokenizer.json,
// and whether sentence-transformers makes lower case of it before (lowers).
func (w *words) normalizes(s *settings, lowers bool) error {
	w.lower = *s.flag("do_lower_case", &w.lower)
	if w.stripsAccents = s.flag("strip_accents", w.stripsAccents); w.stripsAccents == nil && lowers {
		own := w.lower // lower case that is made before it is no reason for the tokenizer to drop accents
		w.stripsAccents = &own
	}
	w.lower = w.lower || lowers
	yes := true
	if !*s.flag("tokenize_chinese_chars", &yes) || !*s.flag("do_basic_tokenize", &yes) {
		return fmt.Errorf("%s: tokenize_chinese_chars and do_basic_tokenize are always on in GGUF's tokenizer", s.file)
	}
	if list, _ := s.values["never_split"].([]any); len(list) > 0 {
		return fmt.Errorf("%s: never_split %s is not supported", s.file, gguf.Printable(fmt.Sprint(list), 80))
	}
	return nil
}

// normalizerKeys are those of a WordPiece tokenizer's normalization.
func (w *words) normalizerKeys() []gguf.KV {
	strips := w.lower
	if w.stripsAccents != nil {
		strips = *w.stripsAccents
	}
	const key = "tokenizer.ggml.normalizer."
	return []gguf.KV{{Key: key + "lowercase", Value: w.lower}, {Key: key + "strip_accents", Value: strips}}
}
