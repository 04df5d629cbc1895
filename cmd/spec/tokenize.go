package main

import (
	"bufio"
	"context"
	"fmt"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
)

var tokenizeCommand = command{
	name:  "tokenize",
	does:  "the token ids of a text",
	usage: "[-m FILE] [-p TEXT | -f FILE] [flags]",
	about: `Prints the tokens of a text as the model is given it: with the beginning-of-text token, if the file asks for one.
A file that holds only a vocabulary will do.`,
	setup: func() ([]flag, func(context.Context, *program) error) {
		var (
			file                  string
			text                  promptFlags
			noSpecial, parse, ids bool
			json                  bool
		)
		flags := append([]flag{textFlag("-m, --model", &file, "FILE", "the model (default: the target inside this program)")},
			text.flags("the text")...)
		flags = append(flags,
			switchFlag("--no-special", &noSpecial, true, "add no special tokens"),
			switchFlag("--parse-special", &parse, true, "read special tokens that are spelled out in the text as such"),
			switchFlag("--ids", &ids, true, "write ids only, on one line"),
			switchFlag("--json", &json, true, "write JSON"))
		return flags, func(_ context.Context, p *program) error {
			s, err := text.read(p)
			if err != nil {
				return err
			}
			f, err := openGGUF(file)
			if err != nil {
				return err
			}
			defer f.Close()
			tok, err := engine.ReadTokenizer(f)
			if err != nil {
				return err
			}
			if tok == nil {
				return fmt.Errorf("%s: no tokenizer in the file", f.Name)
			}
			tokens := tok.Encode(s, bpe.EncodeOptions{AddSpecial: !noSpecial, ParseSpecial: parse})
			if json {
				return printJSON(p.stdout, struct {
					Schema   int     `json:"schema"`
					TokenIDs []int32 `json:"token_ids"`
					N        int     `json:"n_tokens"`
				}{1, append([]int32{}, tokens...), len(tokens)})
			}
			w := bufio.NewWriter(p.stdout)
			for i, id := range tokens {
				switch {
				case !ids:
					fmt.Fprintf(w, "%7d %q\n", id, tok.Bytes(id))
				case i > 0:
					fmt.Fprintf(w, " %d", id)
				default:
					fmt.Fprint(w, id)
				}
			}
			if ids {
				fmt.Fprintln(w)
			}
			return w.Flush()
		}
	},
}
