package spectest

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/specgo/spec/engine/sampling"
)

// differences says what of model, template, clock, options and prompt differs, each in a line.
func (was *asked) differences(now *asked) (list []string) {
	add := func(what, field string, a, b any) {
		if x, y := fmt.Sprint(a), fmt.Sprint(b); x != y {
			list = append(list, fmt.Sprintf("%s: %s %s then, %s now", what, field, orNone(x), orNone(y)))
		}
	}
	a, b := &was.Model, &now.Model
	add("model", "numeric_rules", was.Rules, now.Rules)
	add("model", "model_sha256", a.Model, b.Model)
	add("model", "tokenizer_sha256", a.Tokenizer, b.Tokenizer)
	add("model", "weights", a.Weights, b.Weights)
	add("model", "weight_types", a.Types, b.Types)
	add("model", "kv_type", a.KV, b.KV)
	add("model", "rope_factors", a.Rope, b.Rope)
	add("model", "adapters", a.Adapters, b.Adapters)
	add("model", "n_context", was.Context, now.Context)
	add("template", "template_sha256", was.Template, now.Template)
	add("clock", "clock", was.Clock, now.Clock)
	names := maps.Clone(was.Options)
	maps.Copy(names, now.Options)
	for _, name := range slices.Sorted(maps.Keys(names)) {
		add("option", name, was.Options[name], now.Options[name])
	}
	if !slices.Equal(was.IDs, now.IDs) {
		list = append(list, fmt.Sprintf("prompt: from token %d on\n%s", same(was.IDs, now.IDs),
			excerpts(was.Prompt, now.Prompt)))
	}
	return list
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// changes says how an answer differs from the one of the file.
func (j *job) changes(was, now *golden) (list []string) {
	i := same(was.ids(), now.ids())
	if i < max(len(was.Tokens), len(now.Tokens)) {
		line := fmt.Sprintf("token %d: %s then, %s now", i, was.described(i), now.described(i))
		if i < len(was.Tokens) && i < len(now.Tokens) {
			line += fmt.Sprintf("; %q now has the probability %s", was.Tokens[i].Text,
				probability(j.top[i], was.Tokens[i].ID))
		}
		list = append(list, line)
	}
	for _, x := range [][3]string{
		{"text", was.Text, now.Text}, {"reasoning", was.Reasoning, now.Reasoning},
		{"calls", fmt.Sprintf("%q", was.Calls), fmt.Sprintf("%q", now.Calls)}, {"finish_reason", was.Finish, now.Finish},
	} {
		if x[1] != x[2] {
			list = append(list, x[0]+":\n"+excerpts(x[1], x[2]))
		}
	}
	if len(list) > 0 {
		return list
	}
	for i, x := range was.Tokens {
		if y := now.Tokens[i]; x != y {
			return []string{fmt.Sprintf("token %d: %s then, %s now", i, was.described(i), now.described(i))}
		}
	}
	return nil
}

func (g *golden) ids() (list []int32) {
	for _, x := range g.Tokens {
		list = append(list, x.ID)
	}
	return list
}

// described is a token with its probability.
func (g *golden) described(i int) string {
	if i >= len(g.Tokens) {
		return "the end (" + g.Finish + ")"
	}
	x := g.Tokens[i]
	return fmt.Sprintf("%q (id %d, probability %.6g)", x.Text, x.ID, math.Exp(float64(x.LogProb)))
}

// probability is that of a token among the most likely ones.
func probability(top []sampling.Prob, id int32) string {
	for _, p := range top {
		if p.ID == id {
			return fmt.Sprintf("%.6g", math.Exp(float64(p.P)))
		}
	}
	if len(top) == 0 {
		return "0"
	}
	return fmt.Sprintf("of at most %.6g", math.Exp(float64(top[len(top)-1].P)))
}

// same is the length of what two lists begin with.
func same[T comparable](a, b []T) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// excerpts shows two texts from before their first difference.
func excerpts(was, now string) string {
	const before, behind = 24, 72
	a, b := []rune(was), []rune(now)
	i := same(a, b)
	cut := func(text []rune) string {
		return fmt.Sprintf("%q", string(text[max(0, i-before):min(len(text), i+behind)]))
	}
	return "      - " + cut(a) + "\n      + " + cut(b)
}

// report is the message of a difference.
func report(path string, reasons, changes []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: ", path)
	switch kinds := kindsOf(reasons); {
	case len(changes) == 0:
		fmt.Fprintf(&b, "the answer is the same, but this differs: %s", kinds)
	case len(reasons) == 0:
		b.WriteString("the answer differs, and nothing that it depends on does")
	default:
		fmt.Fprintf(&b, "the answer differs, because this differs: %s", kinds)
	}
	for _, line := range slices.Concat(reasons, changes) {
		b.WriteString("\n    " + line)
	}
	b.WriteString("\n    -spectest.update writes the file anew")
	return b.String()
}

// kindsOf names what reasons are about.
func kindsOf(reasons []string) string {
	var kinds []string
	for _, r := range reasons {
		if kind, _, _ := strings.Cut(r, ":"); !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
	}
	return strings.Join(kinds, ", ")
}
