package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/specgo/spec/internal/bench"
	"github.com/specgo/spec/internal/compare"
	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/internal/terminal"
)

// kernelReport is what "spec bench --kernels --json" prints.
type kernelReport struct {
	Schema int `json:"schema"`
	results.Origin
	Model     string      `json:"model"`
	Bytes     int64       `json:"bytes"`
	Bandwidth float64     `json:"bandwidth_gbps"`
	Rows      []kernelRow `json:"kernel_rows" csv:"-"`
}

// kernelRow is a row of one kernel set.
type kernelRow struct {
	Kernels string `json:"kernels"`
	Kind    string `json:"kind"`
	Tokens  int    `json:"n_tokens"`
	Context int    `json:"context"`

	TokensPerSecond   float64          `json:"tokens_per_second"` // Tokens / the median pass
	Pass              compare.Estimate `json:"pass_seconds"`      // of the rounds
	Over              compare.Estimate `json:"speedup_over_first_kernels"`
	BandwidthFraction float64          `json:"bandwidth_fraction"` // of the median pass
}

// inTurn measures several kernel sets in turn.
func (b *benchmark) inTurn(ctx context.Context, p *program) error {
	runtimes, err := runtimesOf(b.kernels, b.threads, b.numa)
	if err != nil {
		return err
	}
	for _, rt := range runtimes {
		defer rt.Close()
	}
	var sets []bench.Set
	var origin results.Origin
	for i, k := range b.kernels {
		m, file, draft, err := b.open(ctx, p, runtimes[k])
		if err != nil {
			return err
		}
		defer m.Close()
		defer draft.Close()
		sets = append(sets, bench.Set{Kernels: k, Model: m, Draft: draft})
		if i > 0 {
			continue
		}
		var stop func()
		if origin, stop, err = b.prepare(ctx, p, runtimes[k], m, file); err != nil {
			return err
		}
		defer stop()
	}
	origin.SIMD = strings.Join(b.kernels, ",")
	say, done := b.progress(p)
	defer done()
	var list []bench.Turns
	bandwidth := 0.0
	err = b.profiled(ctx, func() (err error) {
		list, bandwidth, err = bench.InTurn(ctx, sets, b.o, func(k string, r bench.Row) { say(k+", ", r) })
		return err
	})
	if err != nil {
		return err
	}
	done()
	m := sets[0].Model
	out := kernelReport{1, origin, m.Config().Name, m.Bytes(), bandwidth / 1e9, kernelRows(list, len(sets), bandwidth)}
	if done, err := writeForPrograms(&b.results, p.stdout, out, out.Rows); done {
		return err
	}
	return out.write(p.stdout, benchTitle(m), b.results.format == "md", terminal.Width(p.stdout))
}

// kernelRows are the rows of so many sets: medians with their intervals, beside the same round of the first set.
func kernelRows(list []bench.Turns, sets int, bandwidth float64) (rows []kernelRow) {
	for i, t := range list {
		first := list[i/sets*sets]
		over := make([]float64, len(t.Seconds))
		for j, s := range t.Seconds {
			over[j] = first.Seconds[j] / s
		}
		row := kernelRow{Kernels: t.Kernels, Kind: t.Kind, Tokens: t.Tokens, Context: t.Context,
			Pass: compare.EstimateOf(t.Seconds), Over: compare.EstimateOf(over)}
		row.TokensPerSecond = float64(row.Tokens) / row.Pass.Value
		if bandwidth > 0 {
			row.BandwidthFraction = t.Bytes / row.Pass.Value / bandwidth
		}
		rows = append(rows, row)
	}
	return rows
}

// write writes the report for people, or as Markdown.
func (r *kernelReport) write(out io.Writer, title string, markdown bool, width int) error {
	t := &terminal.Table{Columns: []terminal.Column{
		{Head: "pass", Left: true}, {Head: "tokens"}, {Head: "context", Drop: 4}, {Head: "kernels", Left: true},
		{Head: "ms/pass"}, {Head: "interval", Drop: 1}, {Head: "tokens/s", Drop: 3}, {Head: "of memory", Drop: 5},
		{Head: "to first"}, {Head: "interval", Drop: 2},
	}}
	for _, x := range r.Rows {
		t.Rows = append(t.Rows, []string{x.Kind, fmt.Sprint(x.Tokens), fmt.Sprint(x.Context), x.Kernels,
			fmt.Sprintf("%.2f", 1e3*x.Pass.Value), fmt.Sprintf("%.2f to %.2f", 1e3*x.Pass.Low, 1e3*x.Pass.High),
			fmt.Sprintf("%.1f", x.TokensPerSecond), fmt.Sprintf("%.0f %%", 100*x.BandwidthFraction),
			fmt.Sprintf("%.2f", x.Over.Value), fmt.Sprintf("%.2f to %.2f", x.Over.Low, x.Over.High)})
	}
	n := 0
	if len(r.Rows) > 0 {
		n = r.Rows[0].Pass.N
	}
	about := fmt.Sprintf("%s, %d threads; memory %.1f GB/s; kernel sets in turn, medians of %d rounds with intervals",
		r.CPU, r.Threads, r.Bandwidth, n)
	var s strings.Builder
	if markdown {
		s.WriteString(terminal.EscapeCell(about) + "\n\n" + terminal.EscapeCell(title) + "\n\n" + t.Markdown())
	} else {
		table, _ := t.String(width)
		s.WriteString(terminal.Wrap(about, width) + terminal.Wrap(title, width) + "\n" + table)
	}
	_, err := io.WriteString(out, s.String())
	return err
}
