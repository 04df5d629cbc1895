package convert

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/specgo/spec/gguf"
)

// readWords reads the first tokenizer file that is in dir, and returns its name.
func readWords(dir string, b *builder) (w *words, file string, err error) {
	for _, f := range []struct {
		name string
		read func(file string) (*words, error)
	}{
		{"tokenizer.model", func(file string) (*words, error) { return readSentencePiece(file, b.unigram) }},
		{"spiece.model", func(file string) (*words, error) { return readSentencePiece(file, b.unigram) }},
		{"tokenizer.json", func(file string) (*words, error) { return readTokenizerJSON(file, b) }},
		{"tekken.json", func(file string) (*words, error) { return readTekken(file, b.vocab) }},
		{"vocab.json", func(file string) (*words, error) {
			if !b.plainWords {
				return nil, fmt.Errorf("%s: no tokenizer.json: vocab.json does not say how a %s model cuts a text into words",
					dir, b.arch)
			}
			return readVocabulary(file, b.vocab)
		}},
		{"vocab.txt", func(file string) (*words, error) {
			if !b.encodes {
				return nil, fmt.Errorf("%s: no tokenizer.json: vocab.txt is of BERT's tokenizer", dir)
			}
			return readPieces(file)
		}},
	} {
		file = filepath.Join(dir, f.name)
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			continue
		}
		if w, err = f.read(file); err == nil {
			w.rows = b.vocab
		}
		return w, file, err
	}
	return nil, "", fmt.Errorf("%s: no tokenizer: none of tokenizer.model, spiece.model, tokenizer.json, tekken.json, "+
		"vocab.json and vocab.txt is there", dir)
}

// readVocabulary reads vocab.json and the merges.txt beside it: GPT-2's own files, which OPT has too.
func readVocabulary(file string, rows int) (*words, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var vocab map[string]int32
	if err := json.Unmarshal(data, &vocab); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	w := &words{model: "gpt2", pre: "gpt-2", rows: rows, merges: []string{}}
	if err := w.setVocabulary(vocab); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	list := filepath.Join(filepath.Dir(file), "merges.txt")
	if data, err = os.ReadFile(list); err != nil {
		return nil, err
	}
	for i, line := range strings.Split(string(data), "\n") {
		line = strings.TrimSuffix(line, "\r")
		if i == 0 && strings.HasPrefix(line, "#version") || line == "" {
			continue
		}
		if strings.Count(line, " ") != 1 {
			return nil, fmt.Errorf("%s: line %d: a pair of tokens expected, not %s", list, i+1, gguf.Printable(line, 40))
		}
		w.merges = append(w.merges, line)
	}
	return w, nil
}

// addFile adds the tokens of added_tokens.json, {token: id}, which are text with an id of its own, where the
// vocabulary has none.
func (w *words) addFile(file string) error {
	var added map[string]int32
	if _, err := optionalJSON(file, &added); err != nil {
		return err
	}
	for text, id := range added {
		if id >= 0 && int(id) < len(w.tokens) && w.tokens[id] != "" {
			continue
		}
		if err := w.place(file, id, addedToken{ID: id, Content: text}); err != nil {
			return err
		}
	}
	return nil
}

// addJSON adds the tokens of the tokenizer.json beside a SentencePiece vocabulary, read from the file pieces: newer
// versions of transformers list them nowhere else. They read texts by tokenizer.json: where it has another vocabulary,
// as that of a model whose tokenizer.model is its ancestor's, it is an error.
func (w *words) addJSON(file, pieces string) error {
	var list struct {
		Added []addedToken `json:"added_tokens"`
		Model struct {
			Vocab json.RawMessage `json:"vocab"`
		} `json:"model"`
	}
	if there, err := optionalJSON(file, &list); !there || err != nil {
		return err
	}
	var vocab map[string]int32
	if json.Unmarshal(list.Model.Vocab, &vocab) == nil && vocab != nil { // of a kind that may be the same
		if n, one := w.others(vocab); n > marks+len(w.tokens)/100 {
			return fmt.Errorf("%s: model.vocab: %d tokens, %s for one, are others than in %s: delete the file that is not the "+
				"model's", file, n, gguf.Printable(one, 40), filepath.Base(pieces))
		}
	}
	return w.placeAll(file, list.Added)
}

// others counts the tokens that are not the same in another vocabulary, of which one is returned; marks, bytes and
// tokens that were added may be.
func (w *words) others(vocab map[string]int32) (n int, one string) {
	for id, text := range w.tokens {
		if other, ok := vocab[text]; w.types[id] == typeNormal && (!ok || other != int32(id)) {
			n, one = n+1, text
		}
	}
	for text, id := range vocab {
		if id < 0 || int(id) >= len(w.tokens) {
			n, one = n+1, max(one, text) // of several the same one in each run
		}
	}
	return n, one
}
