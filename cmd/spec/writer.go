package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/speculative"
)

// result is what "spec generate --json" prints.
type result struct {
	Schema int `json:"schema"`
	*results.Origin
	Text     string            `json:"text"`
	TokenIDs []int32           `json:"token_ids"`
	LogProbs []float32         `json:"logprobs,omitempty"`
	Seed     int64             `json:"seed"`
	Stats    speculative.Stats `json:"stats"`
}

// A writer streams text, or gathers it where JSON is wanted.
type writer struct {
	p        *program
	json     bool
	color    bool
	terminal bool // standard output is one
	sampled  bool // so the seed mattered
	result   result
	text     strings.Builder
	inLine   bool          // the last byte written to standard output does not end a line
	bar      *terminal.Bar // of the prefill; may be nil
	failed   error         // the first error of a trace

	estimate estimate // of the speedup
}

// Terminal colors, by who chose the token.
const (
	colorAccepted = "\x1b[32m" // drafted and accepted: green
	colorPrompt   = "\x1b[2m"  // the user: faint
	colorOff      = "\x1b[0m"
)

func (w *writer) print(text, color string) error {
	if text == "" {
		return nil
	}
	w.bar.Clear()
	w.inLine = !strings.HasSuffix(text, "\n")
	if w.terminal {
		text = terminal.Text(text) // neither a prompt nor a model controls the terminal
	}
	if w.color && color != "" {
		text = color + text + colorOff
	}
	_, err := io.WriteString(w.p.stdout, text)
	return err
}

func (w *writer) prompt(text string) error { return w.print(text, colorPrompt) }

// token takes one more token of the text.
func (w *writer) token(t speculative.Token, logprobs bool) error {
	if t.ID >= 0 {
		w.result.TokenIDs = append(w.result.TokenIDs, t.ID)
		if logprobs {
			w.result.LogProbs = append(w.result.LogProbs, t.LogProb)
		}
	}
	color := ""
	if t.Drafted {
		color = colorAccepted
	}
	return w.add(t.Text, color)
}

func (w *writer) add(text, color string) error {
	if w.json {
		w.text.WriteString(text)
		return nil
	}
	return w.print(text, color)
}

// fail remembers the first error of a trace.
func (w *writer) fail(err error) {
	if w.failed == nil {
		w.failed = err
	}
}

// end prints the JSON, or ends the last line on a terminal.
func (w *writer) end() error {
	if w.json {
		w.result.Text = w.text.String()
		return printJSON(w.p.stdout, w.result)
	}
	if w.inLine && w.terminal {
		w.inLine = false
		_, err := io.WriteString(w.p.stdout, "\n")
		return err
	}
	return nil
}

// notes returns standard error for whole lines: where it shows up behind text that does not end a line, it
// gets a line end first. The text itself stays as it is, unless it is on a terminal.
func (w *writer) notes() io.Writer {
	if w.inLine && (w.terminal && terminal.Is(w.p.stderr) || terminal.SameFile(w.p.stdout, w.p.stderr)) {
		w.inLine = false
		if w.terminal {
			io.WriteString(w.p.stdout, "\n")
		} else {
			io.WriteString(w.p.stderr, "\n")
		}
	}
	return w.p.stderr
}

// figures tells on one line of standard error what the text took.
func (w *writer) figures(took time.Duration) {
	s, n := w.result.Stats, len(w.result.TokenIDs)
	line := fmt.Sprintf("%d tokens in %.2f s (%.1f/s), %d target passes", n, took.Seconds(), float64(n)/took.Seconds(),
		s.TargetPasses)
	if s.Drafted > 0 {
		line += fmt.Sprintf(", %d of %d drafted tokens accepted (%.0f %%)", s.Accepted, s.Drafted,
			100*float64(s.Accepted)/float64(s.Drafted))
	}
	if s.Forced > 0 {
		line += fmt.Sprintf(", %d of %d forced tokens accepted", s.ForcedAccepted, s.Forced)
	}
	if x := w.estimate.speedup(s); !math.IsNaN(x) {
		line += fmt.Sprintf(", estimated speedup %.2fx", x)
	}
	if w.sampled {
		line += fmt.Sprintf(", seed %d", w.result.Seed)
	}
	fmt.Fprintln(w.notes(), line)
}

// printJSON writes v on one line.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}
