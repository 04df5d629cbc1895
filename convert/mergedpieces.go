package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/specgo/spec/gguf"
)

// A SentencePiece vocabulary as tokenizer.json has it (model.byte_fallback): a list of merges in the place of scores.
// It is all that newer versions of transformers save of the tokenizers of Llama 2, Mistral, Phi-3 and Gemma.

// longestPiece bounds the bytes of a token, for each part of which a merge is looked for.
const longestPiece = 1 << 10

// mergedPieces reads such a vocabulary. GGUF's model llama merges by scores: what the merges say must be what scores
// can say. Its model gemma4 merges by merges.
func (t *tokenizerJSON) mergedPieces(file string, vocab map[string]int32) (*words, error) {
	if t.Model.IgnoreMerges {
		return nil, errors.New("model.ignore_merges with model.byte_fallback is not supported")
	}
	w := &words{model: "llama", pre: "default", rows: t.rows}
	if err := w.setVocabulary(vocab); err != nil {
		return nil, fmt.Errorf("model.vocab: %w", err)
	}
	if t.byMerges {
		w.model, w.pre = "gemma4", ""
	} else {
		w.own, w.scores = len(w.tokens), make([]float32, len(w.tokens))
	}
	for id, text := range w.tokens {
		switch {
		case len(text) > longestPiece:
			return nil, fmt.Errorf("model.vocab: a token of %d bytes, %d are the most", len(text), longestPiece)
		case t.Model.Unknown != nil && text == *t.Model.Unknown:
			w.types[id] = typeUnknown
		case isByte(text):
			w.types[id] = typeByte
		}
	}
	if err := w.placeAll(file, t.Added); err != nil {
		return nil, err
	}
	if t.byMerges {
		if err := w.listMerges(t.Model.Merges, vocab); err != nil {
			return nil, err
		}
	} else if err := w.scoreMerges(t.Model.Merges, vocab); err != nil {
		return nil, err
	}
	if err := w.spaces(t.Normalizer, t.PreTokenizer); err != nil {
		return nil, err
	}
	if t.byMerges && *w.addPrefix {
		return nil, errors.New("normalizer or pre_tokenizer: a space in front of a text is not supported with merges")
	}
	return w, nil
}

// listMerges takes the merges as they are.
func (w *words) listMerges(merges []json.RawMessage, vocab map[string]int32) error {
	w.merges = []string{}
	for i, raw := range merges {
		left, right := mergeOf(raw)
		_, isLeft := vocab[left]
		_, isRight := vocab[right]
		if _, known := vocab[left+right]; !known || !isLeft || !isRight || strings.Contains(left+right, " ") {
			return fmt.Errorf("model.merges[%d]: a pair of tokens expected that make a token", i)
		}
		w.merges = append(w.merges, left+" "+right)
	}
	return nil
}

// shownMarks are special tokens of Gemma 4 that stand around thoughts and calls: what reads an answer has to see them.
var shownMarks = []string{"<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>",
	"<tool_response|>", `<|"|>`}

// showMarks makes these marks text, as llama.cpp's files have them.
func (w *words) showMarks() {
	for id, text := range w.tokens {
		if slices.Contains(shownMarks, text) && w.types[id] == typeControl {
			w.types[id] = typeUser
		}
	}
}

// isByte reports whether a token stands for a byte: <0x00> to <0xFF>.
func isByte(text string) bool {
	hex, front := strings.CutPrefix(text, "<0x")
	hex, back := strings.CutSuffix(hex, ">")
	n, err := strconv.ParseUint(hex, 16, 8)
	return front && back && err == nil && text == fmt.Sprintf("<0x%02X>", n)
}

// scoreMerges gives the tokens that merges make scores, the highest to the first. Merges choose as scores do where all
// that make a token follow one another, and none is missing.
func (w *words) scoreMerges(merges []json.RawMessage, vocab map[string]int32) error {
	made := make([]int, len(w.tokens)) // merges that make a token
	last, order := int32(-1), 0
	for i, raw := range merges {
		left, right := mergeOf(raw)
		id, known := vocab[left+right]
		_, isLeft := vocab[left]
		if _, isRight := vocab[right]; !known || !isLeft || !isRight {
			return fmt.Errorf("model.merges[%d]: a pair of tokens expected that make a token", i)
		}
		if w.types[id] != typeNormal {
			continue // it is cut out of a text before anything is merged
		}
		if id != last {
			if made[id] > 0 {
				return fmt.Errorf("model.merges[%d]: the merges that make %s do not follow one another, so that scores cannot "+
					"stand for them; put tokenizer.model beside it", i, gguf.Printable(w.tokens[id], 40))
			}
			last, w.scores[id] = id, -float32(order)
			order++
		}
		made[id]++
	}
	joins := func(text string) bool {
		id, ok := vocab[text]
		return ok && (w.types[id] == typeNormal || w.types[id] == typeUser) || utf8.RuneCountInString(text) == 1
	}
	for id, text := range w.tokens[:w.own] {
		if w.types[id] != typeNormal {
			continue
		}
		possible := 0
		for at := range text {
			if at > 0 && joins(text[:at]) && joins(text[at:]) {
				possible++
			}
		}
		if possible != made[id] {
			return fmt.Errorf("model.merges: %d merges make %s, which %d pairs of tokens spell, so that scores cannot stand "+
				"for them; put tokenizer.model beside it", made[id], gguf.Printable(text, 40), possible)
		}
	}
	return nil
}

// mergeOf is a merge: a text with a space between its parts, or a list of both; empty parts if it is neither.
func mergeOf(raw json.RawMessage) (left, right string) {
	var text string
	var pair []string
	switch {
	case json.Unmarshal(raw, &text) == nil:
		left, right, _ = strings.Cut(text, " ")
	case json.Unmarshal(raw, &pair) == nil && len(pair) == 2:
		left, right = pair[0], pair[1]
	}
	return left, right
}

// spaces reads how spaces become marks, and whether a text begins with one.
func (w *words) spaces(normalizer json.RawMessage, cut *step) error {
	prefix, marked, err := markingSpaces(normalizer)
	if err != nil {
		return err
	}
	switch {
	case cut == nil, cut.Type == "Split" && cut.Pattern.String != nil && *cut.Pattern.String == " ":
		if !marked { // else no space is left to be cut at
			return errors.New("neither normalizer nor pre_tokenizer makes marks of spaces")
		}
	case cut.Type == "Metaspace" && cut.Replacement == "▁":
		if cut.PrependScheme == "always" || cut.PrependScheme == "first" || cut.PrependScheme == "" && cut.AddPrefixSpace {
			prefix = true
			w.note = "each text, also behind a special token, gets a space in front, also where it begins with one: GGUF's " +
				"llama knows no other prefix"
		}
		if cut.Split == nil || *cut.Split {
			for _, text := range w.tokens {
				if strings.Contains(strings.TrimLeft(text, "▁"), "▁") {
					return fmt.Errorf("pre_tokenizer: words are cut at spaces, and token %s has one inside",
						gguf.Printable(text, 40))
				}
			}
		}
	default:
		return fmt.Errorf("pre_tokenizer %s is not known", gguf.Printable(cut.signature(), 200))
	}
	w.addPrefix = &prefix
	return nil
}

// markingSpaces reads a normalizer that puts a mark in front of a text (prefix) and makes marks of its spaces.
func markingSpaces(raw json.RawMessage) (prefix, marked bool, err error) {
	list, err := normalizerSteps(raw)
	for _, n := range list {
		switch {
		case n.Type == "Prepend" && n.Prepend == "▁":
			prefix = true
		case n.Type == "Replace" && n.Pattern.String == " " && n.Content == "▁":
			marked = true
		default:
			return false, false, n.unsupported()
		}
	}
	return prefix, marked, err
}
