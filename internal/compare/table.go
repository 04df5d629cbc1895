package compare

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/internal/terminal"
)

// columns of the table. Those left out first, where there is no room, have the greatest Drop.
var columns = []terminal.Column{
	{Head: "drafter", Left: true}, {Head: "schedule", Left: true}, {Head: "verify", Left: true, Drop: 1},
	{Head: "speedup"}, {Head: "95 %", Drop: 4}, {Head: "formula", Drop: 7}, {Head: "tok/s", Drop: 3},
	{Head: "accepted", Drop: 2}, {Head: "by position, %", Drop: 12},
	{Head: "tok/pass", Drop: 5}, {Head: "passes", Drop: 6}, {Head: "draft passes", Drop: 9}, {Head: "oracle", Drop: 10},
	{Head: "oracle draft", Drop: 11},
	{Head: "BLEU", Drop: 8}, {Head: "to 1st kernels", Drop: 13}, {Head: "same text", Left: true},
}

// part is what is shown together: the rows of one set, weights and temperature, plain decoding first.
type part struct {
	title string
	table terminal.Table
}

func (r *Report) parts() (list []part) {
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Drafter == Plain {
			list = append(list, part{r.title(row), terminal.Table{Columns: columns}})
		}
		t := &list[len(list)-1].table
		t.Rows = append(t.Rows, row.cells())
	}
	return list
}

// notes are the remarks after the tables.
func (r *Report) notes() (list []string) {
	few, noisy := r.flags()
	var marks []string
	if few {
		marks = append(marks, "† fewer than 5 prompts.")
	}
	if noisy {
		marks = append(marks, "‡ the interval is wider than a quarter of the value.")
	}
	if len(marks) > 0 {
		list = append(list, strings.Join(marks, " "))
	}
	for _, text := range r.Broken {
		list = append(list, "BROKEN PROMISE: "+terminal.Line(text, 0))
	}
	return list
}

// Table prints the rows for people, at most width characters wide: plain decoding first in each group of
// one set, weights and temperature, then the others as they were asked for.
func (r *Report) Table(w io.Writer, width int) error {
	return writeTables(w, r.parts(), r.notes(), width)
}

// Markdown prints the same with all columns, as tables of Markdown.
func (r *Report) Markdown(w io.Writer) error {
	return writeMarkdown(w, r.Origin, r.Command, r.parts(), r.notes())
}

func writeTables(w io.Writer, parts []part, notes []string, width int) error {
	var b strings.Builder
	var dropped []string
	for i, p := range parts {
		if i > 0 {
			b.WriteString("\n")
		}
		b.WriteString(terminal.Wrap(p.title, width))
		text, heads := p.table.String(width)
		b.WriteString(text)
		for _, h := range heads {
			if !slices.Contains(dropped, h) {
				dropped = append(dropped, h)
			}
		}
	}
	if len(dropped) > 0 {
		b.WriteString("\n" + terminal.Wrap("Columns left out at this width: "+strings.Join(dropped, ", ")+".", width))
	}
	for _, note := range notes {
		b.WriteString("\n" + terminal.Wrap(note, width))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func writeMarkdown(w io.Writer, o results.Origin, command string, parts []part, notes []string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s kernels, %d threads; %s; %s\n", o.CPU, o.SIMD, o.Threads, o.Date, command)
	for _, p := range parts {
		b.WriteString("\n" + p.title + "\n\n" + p.table.Markdown())
	}
	for _, note := range notes {
		b.WriteString("\n" + note + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// flags reports whether a speedup carries the mark of few prompts, or of a wide interval.
func (r *Report) flags() (few, noisy bool) {
	for i := range r.Rows {
		if row := &r.Rows[i]; row.Drafter != Plain {
			few, noisy = few || row.Estimate.Few(), noisy || row.Estimate.Noisy()
		}
	}
	return few, noisy
}

// title describes a group of rows.
func (r *Report) title(row *Row) string {
	prompts := "prompts"
	if row.NPrompts == 1 {
		prompts = "prompt"
	}
	s := fmt.Sprintf("%s: %d %s, at most %d tokens each, %s", terminal.Line(row.Prompts, 40), row.NPrompts, prompts,
		r.Tokens, temperatureName(row.Temperature))
	if row.Weights != "" {
		s += ", weights " + row.Weights
	}
	if r.Mode == FixedLength.String() || r.Mode == FixedText.String() {
		s += ", " + r.Mode
	}
	if row.Kernels != "" {
		s += ", " + row.Kernels + " kernels"
	}
	if row.OverKernels.N > 0 {
		s += fmt.Sprintf(" (plain decoding %s of the first kernels', in turn)", row.OverKernels)
	}
	if row.AgainstFirst != row.Speedup {
		s += fmt.Sprintf(" (plain decoding %.2fx of the first weights', BLEU %.0f against it)", row.AgainstFirst,
			row.BLEUFirst)
	}
	return s
}

func temperatureName(t float32) string {
	if t == 0 {
		return "greedy"
	}
	return "temperature " + strconv.FormatFloat(float64(t), 'g', -1, 32)
}

func (row *Row) cells() []string {
	rate := fmt.Sprintf("%.1f", row.TokensPerSecond)
	if row.Drafter == Plain {
		return []string{"plain", "", "", "1.00", "", "", rate, "", "", "1.00", fmt.Sprint(row.TargetPasses), "", "", "",
			"", row.OverKernels.String(), ""}
	}
	oracle, drafts := "", ""
	if row.OracleTarget != nil {
		oracle, drafts = fmt.Sprint(*row.OracleTarget), fmt.Sprint(*row.OracleDraft)
	}
	same := "-" // not promised
	switch {
	case row.Promised && row.Same:
		same = "yes"
	case row.Promised:
		same = "NO"
	}
	return []string{
		row.Drafter, row.Limits(), row.Verify,
		fmt.Sprintf("%.2f%s", row.Estimate.Value, row.Estimate.Flag()),
		fmt.Sprintf("%.2f-%.2f", row.Estimate.Low, row.Estimate.High), fmt.Sprintf("%.2f", row.Formula), rate,
		fmt.Sprintf("%.0f %%", 100*row.Acceptance), row.byPosition(),
		fmt.Sprintf("%.2f", row.TokensPerPass),
		fmt.Sprint(row.TargetPasses), fmt.Sprint(row.DraftPasses), oracle, drafts,
		fmt.Sprintf("%.0f", row.BLEU), row.OverKernels.String(), same,
	}
}
