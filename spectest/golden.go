package spectest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/specgo/spec"
	"github.com/specgo/spec/internal/strictjson"
	"github.com/specgo/spec/internal/wholefile"
	"github.com/specgo/spec/speculative"
)

// goldenSchema is the version of the form of golden files.
const goldenSchema = 1

// asked is what determines an answer.
type asked struct {
	spec.Identity
	Clock   string            `json:"clock"`   // that templates read, RFC 3339
	Options map[string]string `json:"options"` // of the request, by name, those that are set
	Prompt  string            `json:"prompt"`  // the text of its tokens, for people
	IDs     []int32           `json:"prompt_token_ids"`
}

// token is a token of an answer.
type token struct {
	ID      int32   `json:"token_id"`
	Text    string  `json:"text"`    // of the token, whatever the answer's format makes of it
	LogProb float32 `json:"logprob"` // that the model gave it
}

// call is a tool call of an answer.
type call struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// golden is a golden file.
type golden struct {
	Schema    int                  `json:"schema"`
	Asked     asked                `json:"request"`
	Text      string               `json:"text"`
	Reasoning string               `json:"reasoning,omitempty"`
	Calls     []call               `json:"calls,omitempty"`
	Finish    string               `json:"finish_reason"`
	Tokens    []token              `json:"tokens"`
	Receipt   *speculative.Receipt `json:"receipt"` // null: the answer is one under a constraint
	Sum       string               `json:"sha256"`  // of this file where "" stands here
}

// encode is the file's content, with its sum.
func (g golden) encode() ([]byte, error) {
	text, err := g.sum()
	if err != nil {
		return nil, err
	}
	g.Sum = text
	return g.indented()
}

func (g golden) indented() ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(g)
	return b.Bytes(), err
}

func (g golden) sum() (string, error) {
	g.Sum = ""
	text, err := g.indented()
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), err
}

// readGolden reads a golden file. Errors name the file, and the field where there is one.
func readGolden(path string) (*golden, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	g := new(golden)
	if err := strictjson.Decode(f, speculative.ReceiptLimit, g); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if err := g.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return g, nil
}

// check refuses what update does not write.
func (g *golden) check() error {
	sum, err := g.sum()
	switch {
	case err != nil:
		return err
	case g.Schema != goldenSchema:
		return fmt.Errorf("schema: %d, known is %d", g.Schema, goldenSchema)
	case len(g.Asked.IDs) == 0:
		return errors.New("request.prompt_token_ids: missing")
	case g.Sum != sum:
		return errors.New("sha256: not that of the content, which was changed by hand or is damaged")
	}
	if g.Receipt == nil {
		return nil
	}
	text, err := json.Marshal(g.Receipt)
	if err == nil {
		_, err = speculative.ReadReceipt(bytes.NewReader(text))
	}
	if err != nil {
		return fmt.Errorf("receipt: %w", err)
	}
	if len(g.Receipt.Tokens) < len(g.Tokens) {
		return fmt.Errorf("receipt.token_ids: %d, and there are %d tokens", len(g.Receipt.Tokens), len(g.Tokens))
	}
	for i, x := range g.Tokens {
		if x.ID != g.Receipt.Tokens[i] {
			return fmt.Errorf("receipt.token_ids[%d]: %d, and tokens[%d].token_id is %d", i, g.Receipt.Tokens[i], i, x.ID)
		}
	}
	return nil
}

// write puts the file in its place as a whole, or not at all.
func (g *golden) write(path string) error {
	text, err := g.encode()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return wholefile.Write(path, text, 0o644)
}
