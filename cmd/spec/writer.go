package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/speculative"
)

// result is what "spec generate --json" prints.
type result struct {
	Schema   int               `json:"schema"`
	Text     string            `json:"text"`
	TokenIDs []int32           `json:"token_ids"`
	LogProbs []float32         `json:"logprobs,omitempty"`
	Seed     int64             `json:"seed"`
	Stats    speculative.Stats `json:"stats"`
}

// A writer streams text, or gathers it where JSON is wanted.
type writer struct {
	p       *program
	json    bool
	color   bool
	sampled bool // so the seed mattered
	result  result
	text    strings.Builder
	ends    bool // the last byte written ends a line

	estimate estimate // of the speed-up
}

// Terminal colours, by who chose the token.
const (
	colorAccepted = "\x1b[32m" // drafted and accepted: green
	colorPrompt   = "\x1b[2m"  // the user: faint
	colorOff      = "\x1b[0m"
)

func (w *writer) print(text, color string) error {
	if text == "" {
		return nil
	}
	w.ends = strings.HasSuffix(text, "\n")
	if w.color && color != "" {
		text = color + text + colorOff
	}
	_, err := io.WriteString(w.p.stdout, text)
	return err
}

func (w *writer) prompt(text string) error { return w.print(text, colorPrompt) }

// token takes one more token of the text.
func (w *writer) token(t speculative.Token, logprobs bool) error {
	w.result.TokenIDs = append(w.result.TokenIDs, t.ID)
	if logprobs {
		w.result.LogProbs = append(w.result.LogProbs, t.LogProb)
	}
	color := ""
	if t.Drafted {
		color = colorAccepted
	}
	return w.add(t.Text, color)
}

// rest takes text that belongs to tokens taken before.
func (w *writer) rest(text string) error { return w.add(text, "") }

func (w *writer) add(text, color string) error {
	if w.json {
		w.text.WriteString(text)
		return nil
	}
	return w.print(text, color)
}

// end prints the JSON, or ends the last line, and tells the figures on standard error.
func (w *writer) end(took time.Duration) error {
	var err error
	if w.json {
		w.result.Text = w.text.String()
		err = printJSON(w.p.stdout, w.result)
	} else if !w.ends && isTerminal(w.p.stdout) {
		err = w.print("\n", "")
	}
	s, n := w.result.Stats, len(w.result.TokenIDs)
	fmt.Fprintf(w.p.stderr, "%d tokens in %.2f s (%.1f/s), %d target passes", n, took.Seconds(), float64(n)/took.Seconds(), s.TargetPasses)
	if s.Drafted > 0 {
		fmt.Fprintf(w.p.stderr, ", %d of %d drafted tokens accepted (%.0f %%)", s.Accepted, s.Drafted, 100*float64(s.Accepted)/float64(s.Drafted))
	}
	if x := w.estimate.speedup(s); !math.IsNaN(x) {
		fmt.Fprintf(w.p.stderr, ", estimated %.2f times as fast as without", x)
	}
	if w.sampled {
		fmt.Fprintf(w.p.stderr, ", seed %d", w.result.Seed)
	}
	fmt.Fprintln(w.p.stderr)
	return err
}

// printJSON writes v on one line.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// traceRound tells what one round of speculation did.
func traceRound(w io.Writer, tok *bpe.Tokenizer, r *speculative.Round) {
	accepted := make([]int32, len(r.Path))
	for i, node := range r.Path {
		accepted[i] = r.Draft.Tokens[node]
	}
	fmt.Fprintf(w, "at %d drafted %d %q in %.2f ms, accepted %d %q, then %q, verified in %.2f ms\n",
		r.Position, r.Drafted(), tok.Decode(r.Draft.Tokens), 1e3*r.Drafting.Seconds(),
		r.Accepted(), tok.Decode(accepted), tok.Decode([]int32{r.Next}), 1e3*r.Verifying.Seconds())
}
