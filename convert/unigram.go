package convert

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/specgo/spec/gguf"
)

// The tokenizer of T5 and XLM-R.

// Scores of tokens that SentencePiece's model does not have.
const (
	addedScore  = -1000
	unusedScore = -10000
)

// makeUnigram checks the pieces of a unigram model, whose text is words with a mark in front of each, and sets its
// flags.
func (w *words) makeUnigram() error {
	for i, x := range w.scores {
		if math.IsInf(float64(x), 0) {
			return fmt.Errorf("piece %d: %q, score %v", i, w.tokens[i], x)
		}
	}
	if slices.Contains(w.types, typeByte) {
		w.note = "the tokens for single bytes are left unused: GGUF's t5 has one unknown token for characters that the " +
			"vocabulary lacks"
	}
	if n := slices.Index(w.types, typeUnknown); n < 0 || slices.Contains(w.types[n+1:], typeUnknown) {
		return errors.New("not one unknown piece")
	}
	no, yes := false, true
	w.model, w.addPrefix, w.squeeze = "t5", &yes, &yes
	if w.pieces == 0 {
		w.pieces = len(w.tokens)
	}
	w.addBOS, w.addEOS = &no, &yes
	return nil
}

// extraIDs adds the tokens <extra_id_N> that the class of T5's tokenizer counts (extra_ids) and no file lists: they
// follow the pieces, the last one first.
func (w *words) extraIDs(s *settings) error {
	n, _ := s.values["extra_ids"].(float64)
	if n < 0 || n > largest || n != math.Trunc(n) {
		return fmt.Errorf("%s: extra_ids: %v", s.file, n)
	}
	pieces := w.pieces
	for i := range int(n) {
		id, text := pieces+int(n)-1-i, fmt.Sprintf("<extra_id_%d>", i)
		if slices.Contains(w.tokens, text) || id < len(w.tokens) && w.tokens[id] != "" {
			continue
		}
		if id >= w.rows {
			return fmt.Errorf("%s: extra_ids: %s has id %d, vocab_size in config.json is %d", s.file, text, id, w.rows)
		}
		if err := w.place(s.file, int32(id), addedToken{Content: text}); err != nil {
			return err
		}
	}
	return nil
}

// unigram reads a unigram model: model.vocab is a list of [piece, score].
func (t *tokenizerJSON) unigram(file string) (*words, error) {
	var list [][2]any
	d := json.NewDecoder(strings.NewReader(string(t.Model.Vocab)))
	d.UseNumber()
	if err := d.Decode(&list); err != nil {
		return nil, fmt.Errorf("model.vocab: %w", err)
	}
	if t.Model.ByteFallback {
		return nil, errors.New("model.byte_fallback: which tokens stand for bytes is not read from here; put spiece.model " +
			"beside it")
	}
	w := &words{pre: "default", rows: t.rows, scores: []float32{}}
	for i, pair := range list {
		text, isText := pair[0].(string)
		number, isNumber := pair[1].(json.Number)
		score, err := strconv.ParseFloat(number.String(), 32)
		if !isText || !isNumber || err != nil {
			return nil, fmt.Errorf("model.vocab[%d]: a piece and its score expected", i)
		}
		w.tokens, w.scores, w.types = append(w.tokens, text), append(w.scores, float32(score)), append(w.types, typeNormal)
	}
	if len(w.tokens) == 0 || len(w.tokens) > largest {
		return nil, fmt.Errorf("model.vocab: %d pieces", len(w.tokens))
	}
	if id := t.Model.UnkID; id == nil || *id < 0 || int(*id) >= len(w.tokens) {
		return nil, errors.New("model.unk_id: no piece of model.vocab")
	}
	w.types[*t.Model.UnkID] = typeUnknown
	w.model, w.pieces = "t5", len(w.tokens)
	for _, a := range t.Added {
		if a.ID >= 0 && int(a.ID) < len(w.tokens) && strings.HasPrefix(a.Content, "<extra_id_") {
			w.types[a.ID], w.scores[a.ID] = typeUser, addedScore
			continue
		}
		if err := w.place(file, a.ID, a); err != nil {
			return nil, err
		}
	}
	squeeze, err := w.normalizers(t.Normalizer)
	if err != nil {
		return nil, err
	}
	if err := t.PreTokenizer.metaspace(squeeze); err != nil {
		return nil, err
	}
	if err := w.makeUnigram(); err != nil {
		return nil, err
	}
	return w, w.setMarks(t.PostProcessor)
}

// normalizers reads the map of characters; squeeze says that runs of spaces become one.
func (w *words) normalizers(raw json.RawMessage) (squeeze bool, err error) {
	list, err := normalizerSteps(raw)
	for _, n := range list {
		switch {
		case n.Type == "Precompiled" && w.charsmap == nil:
			if w.charsmap, err = base64.StdEncoding.DecodeString(n.Charsmap); err != nil {
				return false, fmt.Errorf("normalizer.precompiled_charsmap: %w", err)
			}
		case n.Type == "Replace" && n.Pattern.Regex == " {2,}":
			squeeze = true
		case n.Type == "Strip": // spaces at the ends, which go with the runs
		default:
			return false, fmt.Errorf("normalizer %s is not supported", gguf.Printable(n.Type, 40))
		}
	}
	return squeeze, err
}

// metaspace checks that each word gets a mark in front: the text is cut at spaces and each word marked, or its runs
// of spaces are single ones (squeeze) and become the marks.
func (s *step) metaspace(squeeze bool) error {
	if s == nil {
		return errors.New("no pre_tokenizer")
	}
	steps := []step{*s}
	if s.Type == "Sequence" {
		steps = s.Steps
	}
	cut := len(steps) == 2 && steps[0].Type == "WhitespaceSplit"
	if cut {
		steps = steps[1:]
	}
	if len(steps) != 1 || steps[0].Type != "Metaspace" || steps[0].Replacement != "▁" {
		return fmt.Errorf("pre_tokenizer %s is not known", gguf.Printable(s.signature(), 200))
	}
	m := steps[0]
	marked := m.AddPrefixSpace && m.PrependScheme == "" || m.PrependScheme == "always" || m.PrependScheme == "first" &&
		!cut
	if !marked || !cut && !squeeze {
		return errors.New("pre_tokenizer: words without a mark in front, or runs of spaces that are kept, are not supported")
	}
	return nil
}
