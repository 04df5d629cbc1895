package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/specgo/spec/internal/bench"
	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/tensor"
)

// limitContexts are the tokens before the one whose attention is measured.
var limitContexts = []int{4096}

// quickTypes are the weight types that --limits --quick measures.
var quickTypes = []tensor.Type{tensor.F16, tensor.Q8_0, tensor.Q6_K, tensor.Q4_K, tensor.Q4_0}

// limitsReport is what "spec bench --limits --json" prints.
type limitsReport struct {
	Schema int `json:"schema"`
	results.Origin
	bench.Bounds
	Rows []bench.Reach `json:"rows" csv:"-"`
}

// checkLimits refuses what belongs to a model, and says what is measured of a machine.
func (b *benchmark) checkLimits() (l bench.Limits, err error) {
	l = bench.Limits{Tokens: []int{1, 8, 16, 128}, Contexts: limitContexts, Repeats: b.o.Repeats, Types: allTypes()}
	for _, of := range []struct{ flag, value string }{{"-m", b.model}, {"--shape", b.shape}, {"-md", b.draft},
		{"-f", b.text}, {"--weights", b.weights}, {"--cpuprofile", b.profile}} {
		if of.value != "" {
			return l, usagef("%s and --limits exclude each other: that measures the machine without a model", of.flag)
		}
	}
	for _, name := range b.own {
		if name != "-r" {
			return l, usagef("%s and --limits exclude each other: that measures the machine without a model", name)
		}
	}
	switch {
	case len(b.kernels) > 0:
		return l, usagef("--kernels and --limits exclude each other: SPEC_SIMD chooses the kernels whose work is measured")
	case b.o.DraftVocab > 0:
		return l, usagef("--draft-vocab and --limits exclude each other: that measures the machine without a model")
	}
	if b.quick {
		l.Types = quickTypes
	}
	if b.typ != "" {
		t, err := tensor.ParseType(b.typ)
		if err != nil {
			return l, usagef("--type %s: --limits measures single types, as q4_k: not mixtures", b.typ)
		}
		l.Types = []tensor.Type{t}
	}
	if b.deep {
		l.Contexts = slices.DeleteFunc(slices.Clone(b.o.Contexts), func(n int) bool { return n == 0 })
	}
	kvs := kvTypes
	if b.o.KV != "" {
		kvs = []string{b.o.KV}
	}
	for _, name := range kvs {
		kv, err := tensor.ParseKVType(name)
		if err != nil {
			return l, err
		}
		l.KV = append(l.KV, kv)
	}
	return l, nil
}

// allTypes lists the weight types.
func allTypes() (list []tensor.Type) {
	for t := tensor.Type(0); t.Valid(); t++ {
		list = append(list, t)
	}
	return list
}

// runLimits measures the machine.
func (b *benchmark) runLimits(ctx context.Context, p *program) error {
	rt, err := tensor.NewRuntime(tensor.Options{Threads: max(b.threads, 0), SIMD: p.env("SPEC_SIMD"), NUMA: b.numa})
	if err != nil {
		return err // names the kernels
	}
	defer rt.Close()
	l := b.limits
	l.Caches = tensor.CacheSizes()
	if l.Memory = p.measured; l.Memory == 0 {
		l.Memory = bench.LimitMemory(l.Caches)
	}
	say := func(bench.Reach) {}
	if terminal.Styles(p.stderr) {
		say = func(r bench.Reach) {
			fmt.Fprintf(p.stderr, "\r\x1b[K%s %s of %d: %.2f ms", r.Kind, r.Type, r.Tokens, 1e3*r.Seconds)
		}
		defer fmt.Fprint(p.stderr, "\r\x1b[K")
	}
	o := results.Here()
	o.SIMD, o.Threads = rt.SIMD(), rt.Threads()
	bounds, rows, err := bench.MeasureLimits(ctx, rt, l, say)
	if err != nil {
		return err
	}
	out := limitsReport{1, o, bounds, rows}
	if done, err := writeForPrograms(&b.results, p.stdout, out, rows); done {
		return err
	}
	return out.write(p.stdout, b.results.format == "md", terminal.Width(p.stdout))
}

// lines say the bounds, one a line.
func (r *limitsReport) lines() []string {
	list := []string{fmt.Sprintf("%s, %s kernels, %d threads", r.CPU, r.SIMD, r.Threads)}
	var memory []string
	for i, n := range r.MemoryThreads {
		memory = append(memory, fmt.Sprintf("%d: %.1f", n, r.MemoryGBPS[i]))
	}
	list = append(list, "memory, GB/s read by so many threads: "+strings.Join(memory, ", "))
	if r.L1GBPS > 0 && r.L2GBPS > 0 {
		list = append(list, fmt.Sprintf("caches, GB/s read by all threads: L1 %.0f, L2 %.0f", r.L1GBPS, r.L2GBPS))
	}
	if r.IntegerBy != "" {
		list = append(list, fmt.Sprintf("products per second of all threads, 10^9: %.0f of integers (%s), "+
			"%.0f of floats (%s)", r.IntegerGPS, r.IntegerBy, r.FloatGPS, r.FloatBy))
	}
	return list
}

// table lists the rows.
func (r *limitsReport) table() *terminal.Table {
	t := &terminal.Table{Columns: []terminal.Column{
		{Head: "work", Left: true}, {Head: "type", Left: true}, {Head: "tokens"}, {Head: "context", Drop: 3}, {Head: "ms"},
		{Head: "GB/s", Drop: 2}, {Head: "10^9 products/s", Drop: 1}, {Head: "bound by", Left: true},
		{Head: "its ms", Drop: 4}, {Head: "reached"},
	}}
	for _, row := range r.Rows {
		by, bound, reached := "-", "-", "-"
		if row.BoundBy != "" {
			by, bound, reached = row.BoundBy, fmt.Sprintf("%.3f", 1e3*row.BoundSeconds), fmt.Sprintf("%.0f %%", 100*row.Reached)
		}
		t.Rows = append(t.Rows, []string{row.Kind, row.Type, fmt.Sprint(row.Tokens), fmt.Sprint(row.Context),
			fmt.Sprintf("%.3f", 1e3*row.Seconds), fmt.Sprintf("%.1f", row.Bytes/row.Seconds/1e9),
			fmt.Sprintf("%.0f", row.Products/row.Seconds/1e9), by, bound, reached})
	}
	return t
}

// write writes the report for people, or as Markdown.
func (r *limitsReport) write(out io.Writer, markdown bool, width int) error {
	var b strings.Builder
	for _, line := range r.lines() {
		if markdown {
			b.WriteString(terminal.EscapeCell(line) + "\n\n")
		} else {
			b.WriteString(terminal.Wrap(line, width))
		}
	}
	if markdown {
		b.WriteString(r.table().Markdown())
	} else {
		table, _ := r.table().String(width)
		b.WriteString("\n" + table)
	}
	_, err := io.WriteString(out, b.String())
	return err
}
