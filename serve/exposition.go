package serve

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// exposition is a text in Prometheus' text format, version 0.0.4.
type exposition struct{ strings.Builder }

// family begins a metric; its samples follow.
func (b *exposition) family(name, kind, help string) {
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
}

// one writes a metric without labels.
func (b *exposition) one(name, kind, help string, x float64) {
	b.family(name, kind, help)
	b.sample(name, x)
}

// sample writes a value; labels are names and values in turn.
func (b *exposition) sample(name string, x float64, labels ...string) {
	fmt.Fprintf(b, "%s%s %s\n", name, braces(labels), number(x))
}

// histogram writes the samples of a histogram.
func (b *exposition) histogram(h *histogram, name string, bounds []float64, labels ...string) {
	total := int64(0)
	for i, bound := range append(slices.Clone(bounds), math.Inf(1)) {
		if h.counts != nil {
			total += h.counts[i]
		}
		b.sample(name+"_bucket", float64(total), append(slices.Clone(labels), "le", number(bound))...)
	}
	b.sample(name+"_sum", h.sum, labels...)
	b.sample(name+"_count", float64(h.n), labels...)
}

// braces are the labels of a sample.
func braces(labels []string) string {
	var list []string
	for i := 0; i+1 < len(labels); i += 2 {
		list = append(list, labels[i]+"="+label(labels[i+1]))
	}
	if list == nil {
		return ""
	}
	return "{" + strings.Join(list, ",") + "}"
}

// label quotes a label's value. Prometheus takes nothing of a text that is not UTF-8, which a file's name may be.
func label(v string) string {
	v = strings.ToValidUTF8(v, "\uFFFD")
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(v) + `"`
}

func number(x float64) string {
	if math.IsInf(x, 1) {
		return "+Inf"
	}
	return strconv.FormatFloat(x, 'g', -1, 64)
}
