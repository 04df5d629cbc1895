package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/specgo/spec/internal/bench"
	"github.com/specgo/spec/internal/terminal"
)

// seedExperiment is the batched generation of the experiment that this project grew out of, from 1 to 64 sequences.
const seedExperiment = "the experiment that this grew out of: 418 to 16,266 tokens/s, 39x"

// cachedFraction is the share of the memory's bandwidth above which the caches must hold much of the model: less may be
// a busy moment while the memory was measured.
const cachedFraction = 1.25

// machine is the line about the machine.
func (r *report) machine() string {
	return fmt.Sprintf("%s, %s kernels, %d threads; memory %.1f GB/s", r.CPU, r.SIMD, r.Threads, r.Bandwidth)
}

// table lists the rows.
func (r *report) table() *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{
		{Head: "pass", Left: true}, {Head: "tokens"}, {Head: "context"}, {Head: "tokens/s"}, {Head: "ms/pass"},
		{Head: "+-", Drop: 3}, {Head: "of memory", Drop: 1}, {Head: "vs decode", Drop: 2},
	}}
	for _, row := range r.Rows {
		ratio := "-"
		if row.RatioToDecode > 0 {
			ratio = fmt.Sprintf("%.2f", row.RatioToDecode)
		}
		t.Rows = append(t.Rows, []string{row.Kind, fmt.Sprint(row.Tokens), fmt.Sprint(row.Context),
			fmt.Sprintf("%.1f", row.TokensPerSecond),
			fmt.Sprintf("%.2f", 1e3*row.PassSeconds), fmt.Sprintf("%.2f", 1e3*row.StdDev),
			fmt.Sprintf("%.0f %%", 100*row.BandwidthFraction), ratio})
	}
	return t
}

// notes are the remarks after the table.
func (r *report) notes() (list []string) {
	var one, most bench.Row
	cached := false
	for _, row := range r.Rows {
		cached = cached || row.BandwidthFraction > cachedFraction
		if row.Kind == "batch" {
			if one.Tokens == 0 || row.Tokens < one.Tokens {
				one = row
			}
			if row.Tokens > most.Tokens {
				most = row
			}
		}
	}
	if cached {
		list = append(list, "More than 100 % of memory: the caches hold much of this model.")
	}
	if most.Tokens > one.Tokens {
		list = append(list, fmt.Sprintf("%d to %d sequences: %.0f to %.0f tokens/s, %.1fx (%s from 1 to 64)", one.Tokens,
			most.Tokens,
			one.TokensPerSecond, most.TokensPerSecond, most.TokensPerSecond/one.TokensPerSecond, seedExperiment))
	}
	return list
}

// text writes the report for people.
func (r *report) text(out io.Writer, title string, width int) error {
	var b strings.Builder
	b.WriteString(terminal.Wrap(r.machine(), width) + terminal.Wrap(title, width) + "\n")
	table, _ := r.table().String(width)
	b.WriteString(table)
	for _, note := range r.notes() {
		b.WriteString("\n" + terminal.Wrap(note, width))
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// markdown writes the report as a table of Markdown.
func (r *report) markdown(out io.Writer, title string) error {
	var b strings.Builder
	b.WriteString(terminal.EscapeCell(r.machine()) + "\n\n" + terminal.EscapeCell(title) + "\n\n" + r.table().Markdown())
	for _, note := range r.notes() {
		b.WriteString("\n" + note + "\n")
	}
	_, err := io.WriteString(out, b.String())
	return err
}
