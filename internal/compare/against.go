package compare

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/internal/endpoint"
	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/internal/terminal"
)

// Against is the outcome of a comparison with servers, and what --json prints. Everyone continues the same prompts by
// as many tokens, in turn; who begins changes from prompt to prompt.
type Against struct {
	Schema int `json:"schema"` // 1
	results.Origin
	Model    string       `json:"model"`
	Tokens   int          `json:"n_tokens" csv:"n_tokens_most"`
	Repeats  int          `json:"n_repeats"`
	Warmup   int          `json:"n_warmup"`
	Seed     uint64       `json:"seed"`
	Fields   string       `json:"added_fields"` // of the requests to servers, as JSON
	Complete bool         `json:"complete"`     // false: interrupted
	Rows     []AgainstRow `json:"rows" csv:"-"`
}

// AgainstRow is one who writes, on one set of prompts. Values are medians over the prompts, each the median of its
// repeats, with their 95 % intervals.
type AgainstRow struct {
	Prompts string `json:"prompts"`
	Who     string `json:"who"`    // a setting of this program, or a URL
	Model   string `json:"asked"`  // the model that a server was asked for
	Server  string `json:"server"` // what it calls itself
	// how long until the first token (a server's first piece of text), in seconds, prompt and way included, of texts that
	// have one; FirstCold of the first run of each prompt, when no cache has it from a run before: without the prompt that
	// a warm-up wrote
	First     Estimate `json:"first_token_seconds"`
	FirstCold Estimate `json:"first_token_first_run_seconds"`
	Rate      Estimate `json:"tokens_per_second"` // after the first token
	Ratio     Estimate `json:"rate_ratio"`        // to this program's plain decoding beside it, prompt by prompt
	NPrompts  int      `json:"n_prompts"`
	NRuns     int      `json:"n_runs"`
	NTokens   int      `json:"n_tokens"` // of the first runs
	Counted   bool     `json:"counted"`  // false: the server counts no tokens, and pieces of text count as such
	NSame     int      `json:"n_same"`   // prompts of which every run gave plain decoding's text
	Differs   *int     `json:"differs"`  // the least character (from 0) at which a text differs; null: none does
	Texts     []Text   `json:"by_prompt" csv:"-"`
}

// Text is what was written after one prompt.
type Text struct {
	ID        string  `json:"id"`
	Same      bool    `json:"identical"`
	Character *int    `json:"differs_at_character"` // from 0; null: nowhere
	Token     *int    `json:"differs_at_token"`     // of plain decoding's tokens: the first that is not whole before it
	Got       string  `json:"got,omitempty"`        // 40 characters from there
	Want      string  `json:"want,omitempty"`
	First     float64 `json:"first_token_seconds"`
	Rate      float64 `json:"tokens_per_second"`
	End       string  `json:"finish_reason"`
}

// writer is one who continues prompts.
type writer struct {
	name  string
	write func(context.Context, Prompt) (endpoint.Answer, []int32, error)
	peer  *endpoint.Endpoint   // nil: this program
	runs  map[[2]int][]written // by set and prompt
	warm  bool                 // a warm-up wrote the first prompt
}

// written is a run. Rates are of this run and of plain decoding in the same turn.
type written struct {
	endpoint.Answer
	plain float64
}

// RunAgainst runs plain decoding, the plan's settings and the servers on all prompts in turn. The settings have the
// same weights and temperature. When it fails it returns the error with what was measured by then, nil if nothing.
func RunAgainst(ctx context.Context, lab Lab, plan Plan, peers []*endpoint.Endpoint) (*Against, error) {
	pair, err := lab.Open(ctx, plan.Settings[0].Weights, plan.Settings[0].Kernels)
	if err != nil {
		return nil, err
	}
	defer pair.Close()
	base := plan.Settings[0].plain()
	var all []*writer
	for _, s := range slices.Concat([]Setting{base}, plan.Settings) {
		if s.plain() != base {
			return nil, fmt.Errorf("%s: other weights or another temperature than %s", s, plan.Settings[0])
		}
		x, err := newSubject(pair, s, plan)
		if err != nil {
			return nil, err
		}
		all = append(all, &writer{name: s.String(), write: x.streamed, runs: map[[2]int][]written{}, warm: plan.Warmup > 0})
	}
	for _, p := range peers {
		all = append(all, &writer{name: p.URL(), peer: p, runs: map[[2]int][]written{}, warm: plan.Warmup > 0,
			write: func(ctx context.Context, prompt Prompt) (endpoint.Answer, []int32, error) {
				o := plan.Sampling
				a, err := p.Complete(ctx, endpoint.Request{Prompt: prompt.Text, Tokens: plan.Tokens,
					Temperature: base.Temperature, Seed: o.Seed, TopK: o.TopK, TopP: o.TopP, MinP: o.MinP})
				return a, nil, err
			}})
	}
	plain := map[[2]int][]int32{} // the texts that the others are compared with
	total, done, turn := 0, 0, 0
	for _, set := range plan.Sets {
		total += len(set.Prompts) * len(all) * plan.Repeats
	}
	var failed error
repeats:
	for i := range plan.Warmup + plan.Repeats {
		for s, set := range plan.Sets {
			for j, prompt := range set.Prompts {
				if i < plan.Warmup && (s > 0 || j > 0) {
					continue
				}
				round := make([]endpoint.Answer, len(all))
				for k := range all {
					w := (k + turn) % len(all)
					if lab.Progress != nil {
						lab.Progress(done, total, fmt.Sprintf("%s, %s", prompt.ID, all[w].name))
					}
					a, ids, err := all[w].write(ctx, prompt)
					if err != nil {
						failed = fmt.Errorf("prompt %s: %w", prompt.ID, err)
						break repeats
					}
					if round[w] = a; w == 0 {
						plain[[2]int{s, j}] = ids
					}
					done++
				}
				if turn++; i < plan.Warmup {
					done -= len(all)
					continue
				}
				for w := range all {
					at := [2]int{s, j}
					all[w].runs[at] = append(all[w].runs[at], written{round[w], round[0].Rate()})
				}
			}
		}
	}
	r := &Against{Schema: 1, Tokens: plan.Tokens, Repeats: plan.Repeats, Warmup: plan.Warmup, Seed: plan.Sampling.Seed,
		Complete: failed == nil, Rows: []AgainstRow{}}
	for s, set := range plan.Sets {
		for _, w := range all {
			if row, ok := w.row(s, set, all[0], plain, pair.Tokenizer); ok {
				r.Rows = append(r.Rows, row)
			}
		}
	}
	if len(r.Rows) == 0 {
		return nil, failed
	}
	return r, failed
}

// streamed continues a prompt, with the times that a client would see. The prompt is computed anew, also where another
// setting had it just before.
func (x *subject) streamed(ctx context.Context, prompt Prompt) (a endpoint.Answer, ids []int32, err error) {
	if err := x.pair.Target.Truncate(0); err != nil {
		return a, nil, err
	}
	begin := time.Now()
	x.each = func(text string) {
		if a.Last = time.Since(begin).Seconds(); a.Tokens == 0 {
			a.First = a.Last
		}
		a.Tokens++
	}
	defer func() { x.each = nil }()
	input, ids := x.pair.encode(prompt.Text)
	r, err := x.run(ctx, input, ids, nil)
	if err != nil {
		return a, nil, err
	}
	a.Text, a.Counted, a.End = r.Text, true, "length"
	if len(r.IDs) < x.plan.Tokens {
		a.End = "stop"
	}
	return a, r.IDs, nil
}

// row summarizes what one wrote after a set's prompts.
func (w *writer) row(set int, s Set, plain *writer, ids map[[2]int][]int32, tok *bpe.Tokenizer) (AgainstRow, bool) {
	row := AgainstRow{Prompts: s.Name, Who: w.name, Counted: true, Texts: []Text{}}
	if w.peer != nil {
		row.Model, row.Server = w.peer.Model, w.peer.Server
	}
	var firsts, colds, rates, ratios []float64
	for j, prompt := range s.Prompts {
		at := [2]int{set, j}
		runs, want := w.runs[at], plain.runs[at]
		if len(runs) == 0 {
			continue
		}
		x := Text{ID: prompt.ID, Same: true, End: runs[0].End}
		var first, rate, ratio []float64
		for i := range runs {
			r := &runs[i]
			if r.First > 0 { // an empty text has no first token
				first = append(first, r.First)
			}
			if v := r.Rate(); v > 0 && r.plain > 0 {
				rate, ratio = append(rate, v), append(ratio, v/r.plain)
			}
			row.Counted = row.Counted && r.Counted
			if x.Same && r.Text != want[0].Text {
				x.differ(r.Text, want[0].Text, ids[at], tok)
			}
		}
		if x.Same {
			row.NSame++
		} else if row.Differs == nil || *x.Character < *row.Differs {
			row.Differs = x.Character
		}
		row.NPrompts, row.NRuns, row.NTokens = row.NPrompts+1, row.NRuns+len(runs), row.NTokens+runs[0].Tokens
		x.First, x.Rate = Median(first), Median(rate)
		if len(first) > 0 {
			firsts = append(firsts, x.First)
		}
		if runs[0].First > 0 && !(w.warm && set == 0 && j == 0) {
			colds = append(colds, runs[0].First)
		}
		if len(rate) > 0 {
			rates, ratios = append(rates, x.Rate), append(ratios, Median(ratio))
		}
		row.Texts = append(row.Texts, x)
	}
	row.First, row.FirstCold, row.Rate, row.Ratio = EstimateOf(firsts), EstimateOf(colds), EstimateOf(rates),
		EstimateOf(ratios)
	return row, row.NPrompts > 0
}

// differ notes where two texts part.
func (x *Text) differ(got, want string, ids []int32, tok *bpe.Tokenizer) {
	n := 0
	for n < min(len(got), len(want)) && got[n] == want[n] {
		n++
	}
	for n > 0 && (n < len(got) && !utf8.RuneStart(got[n]) || n < len(want) && !utf8.RuneStart(want[n])) {
		n-- // the beginning of the character that differs
	}
	character, token := utf8.RuneCountInString(want[:n]), 0
	for token < len(ids) && len(tok.Decode(ids[:token+1])) <= n {
		token++
	}
	x.Same, x.Character, x.Token = false, &character, &token
	x.Got, x.Want = excerpt(got[n:]), excerpt(want[n:])
}

// excerpt is the beginning of a text.
func excerpt(s string) string {
	const shown = 40
	for i := range s {
		if utf8.RuneCountInString(s[:i]) == shown {
			return s[:i]
		}
	}
	return s
}

var againstColumns = []terminal.Column{
	{Head: "who", Left: true}, {Head: "tok/s"}, {Head: "95 %", Drop: 2}, {Head: "to plain"}, {Head: "95 %", Drop: 3},
	{Head: "first token, ms"}, {Head: "first run, ms", Drop: 1}, {Head: "tokens", Drop: 4},
	{Head: "same text", Left: true},
}

// parts are the tables: one for each set.
func (r *Against) parts() (list []part) {
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Who == r.Rows[0].Who { // plain decoding, with its kernels where they were chosen
			list = append(list, part{fmt.Sprintf("%s: %d prompts, at most %d tokens each, in turn", terminal.Line(row.Prompts,
				40), row.NPrompts, r.Tokens), terminal.Table{Columns: againstColumns}})
		}
		t := &list[len(list)-1].table
		same := fmt.Sprintf("%d of %d", row.NSame, row.NPrompts)
		if row.Differs != nil {
			same += fmt.Sprintf(", differs from character %d", *row.Differs)
		}
		tokens := fmt.Sprint(row.NTokens)
		if !row.Counted {
			tokens += " pieces"
		}
		t.Rows = append(t.Rows, []string{terminal.Line(row.Who, 60),
			measured(row.Rate, "%.1f", row.Rate.Value), measured(row.Rate, "%.1f-%.1f", row.Rate.Low, row.Rate.High),
			measured(row.Ratio, "%.2f%s", row.Ratio.Value, row.Ratio.Flag()),
			measured(row.Ratio, "%.2f-%.2f", row.Ratio.Low, row.Ratio.High),
			measured(row.First, "%.1f", 1e3*row.First.Value), measured(row.FirstCold, "%.1f", 1e3*row.FirstCold.Value),
			tokens, same})
	}
	return list
}

// measured writes figures of an estimate; "-" where nothing was measured.
func measured(e Estimate, format string, figures ...any) string {
	if e.N == 0 {
		return "-"
	}
	return fmt.Sprintf(format, figures...)
}

// notes are the remarks after the tables.
func (r *Against) notes() []string {
	return []string{"Medians over the prompts, with their 95 % intervals. tok/s: after the first token, as a client " +
		"sees them; of a server with what HTTP takes. First token: this program computes each prompt anew; a server may " +
		"have it from a run before, but in the first run, of which the prompt of a warm-up is left out. † fewer than 5 " +
		"prompts; ‡ the interval is wider than a quarter of the value."}
}

// CSV writes a line for each row, with what is common to them.
func (r *Against) CSV(w io.Writer) error { return results.CSV(w, *r, r.Rows) }

// Table prints the rows for people, at most width characters wide.
func (r *Against) Table(w io.Writer, width int) error {
	return writeTables(w, r.parts(), r.notes(), width)
}

// Markdown prints them as tables of Markdown.
func (r *Against) Markdown(w io.Writer) error {
	return writeMarkdown(w, r.Origin, "spec compare --against", r.parts(), r.notes())
}
