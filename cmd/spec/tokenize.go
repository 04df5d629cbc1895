package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"

	"github.com/specgo/spec/bpe"
)

var tokenizeCommand = command{
	name:  "tokenize",
	does:  "the token ids of a text",
	usage: "[-m FILE] [-p TEXT | -f FILE] [flags]",
	about: `Prints the tokens of a text as the model is given it: with the beginning-of-text token, if the file asks for one. A file that holds only a vocabulary will do. A text has at most 64 MiB.`,
	new:   func() job { return &tokenize{} },
}

// tokenize is the command's options.
type tokenize struct {
	model                 string
	text                  promptFlags
	noSpecial, parse, ids bool
	json                  bool
}

func (t *tokenize) flags() []group {
	return []group{{"model", []flag{modelRow(&t.model, "the target inside this program")}},
		{"text", t.text.rows("the text", standardInput)}, {"output", []flag{
			switchFlag("--no-special, --no-bos", &t.noSpecial, true, "add no special tokens"),
			switchFlag("--parse-special", &t.parse, true, "read special tokens that are spelled out in the text as such"),
			switchFlag("--ids", &t.ids, true, "write ids only, on one line"),
			jsonRow(&t.json)}},
		withoutEffect(ignored("", "--stdin", "--no-parse-special", "--log-disable"))} // of llama-tokenize: always so here
}

func (t *tokenize) check() error { return t.text.check() }

// encoding is how the text is read.
func (t *tokenize) encoding() bpe.EncodeOptions {
	return bpe.EncodeOptions{AddSpecial: !t.noSpecial, ParseSpecial: t.parse}
}

func (t *tokenize) run(ctx context.Context, p *program) error {
	source, err := t.text.open(ctx, p)
	if err != nil {
		return err
	}
	defer source.close()
	f, err := openGGUF(t.model)
	if err != nil {
		return err
	}
	defer f.Close()
	tok, err := readTokenizer(f)
	if err != nil {
		return err
	}
	text, err := readText(ctx, source)
	if err != nil {
		return err
	}
	tokens := tok.Encode(text, t.encoding())
	if t.json {
		return printJSON(p.stdout, struct {
			Schema   int     `json:"schema"`
			TokenIDs []int32 `json:"token_ids"`
			N        int     `json:"n_tokens"`
		}{1, append([]int32{}, tokens...), len(tokens)})
	}
	w := bufio.NewWriter(p.stdout)
	for i, id := range tokens {
		switch {
		case !t.ids:
			fmt.Fprintf(w, "%7d %q\n", id, tok.Bytes(id))
		case i > 0:
			fmt.Fprintf(w, " %d", id)
		default:
			fmt.Fprint(w, id)
		}
	}
	if t.ids {
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// readText reads the text of a command that has no context to fill.
func readText(ctx context.Context, s *source) (string, error) {
	text, err := s.read(ctx, textLimit)
	if errors.Is(err, errTooLong) {
		return "", fmt.Errorf("the text has more than %d MiB", textLimit>>20)
	}
	return text, err
}
