package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/specgo/spec/internal/bench"
	"github.com/specgo/spec/internal/compare"
)

// sampling lists the verifiers of sampled text.
var sampling = []string{"match", "rejection", "block"}

// verifiers compares them by the clock.
func (r *report) verifiers() string {
	m := markdown{head: []string{"kernels", "temperature"}}
	for _, s := range sampling {
		m.head = append(m.head, s+": speedup", "tokens in a pass")
	}
	n := 0
	for _, v := range r.with("verifiers") {
		for _, t := range experimentOf("verifiers").temps {
			cells, found := []string{r.name(v), fmt.Sprint(t)}, false
			for _, s := range sampling {
				x, ok := v.row("verifiers", code, t, settingName("model", "auto", s, 0))
				if !ok {
					cells = append(cells, "", "")
					continue
				}
				found, n = true, max(n, x.N)
				cells = append(cells, x.Estimate.String(), fmt.Sprintf("%.2f", x.perPass()))
			}
			if found {
				m.add(cells...)
			}
		}
	}
	return notes(m.String(), prompts(n)+", code, 64 tokens after each, drafts of the draft model, auto.")
}

// verifierAt is the verifier that a setting has at a temperature: at 0 all are greedy.
func verifierAt(verify string, temperature float32) string {
	if temperature == 0 {
		return "greedy"
	}
	return verify
}

// studiedName is the setting of the temperature study: at 0 all are greedy.
func studiedName(how [2]string, t float32) string {
	s := drafted(setting("model", "constant", verifierAt(how[0], t), 5), how[1])
	if t == 0 {
		s.Drafts = ""
	}
	return s.String()
}

// studiedText is how tables and legends call it.
func studiedText(how [2]string) string {
	switch {
	case how[1] == "greedy":
		return how[0] + ", greedy drafts"
	case how[1] == "q":
		return how[0] + ", drafts sampled by themselves"
	case how[0] == "match":
		return how[0] + ", drafts share the noise"
	}
	return how[0]
}

// temperatures are the tokens in a pass by temperature, the same on every machine.
func (r *report) temperatures() string {
	v, ok := r.first("temperatures")
	if !ok {
		return ""
	}
	m := markdown{head: []string{"tokens in a pass, temperature"}}
	for _, t := range sampled {
		m.head = append(m.head, fmt.Sprint(t))
	}
	n := 0
	for _, how := range studied {
		cells, found := []string{studiedText(how)}, false
		for _, t := range sampled {
			x, ok := v.row("temperatures", code, t, studiedName(how, t))
			if cells = append(cells, ""); ok {
				e := x.perPassEstimate()
				n = max(n, e.N)
				cells[len(cells)-1], found = e.String(), found || t > 0
			}
		}
		if found {
			m.add(cells...)
		}
	}
	return notes(m.String(), fmt.Sprintf("%d code prompts, 64 tokens after each, drafts of 5 tokens; the median over "+
		"the prompts with its 95 %% interval. %s", n, r.everywhere("temperatures")))
}

// assisted is the published setup by the clock: seconds for a token by temperature.
func (r *report) assisted() string {
	m := markdown{head: []string{"temperature"}}
	for _, t := range assisted {
		m.head = append(m.head, fmt.Sprint(t))
	}
	n := 0
	for _, v := range r.with("assisted") {
		for _, how := range []string{"greedy", ""} {
			cells := []string{r.name(v) + ": " + studiedText([2]string{"match", how})}
			for _, t := range assisted {
				x, ok := v.row("assisted", code, t, assistedName(how, t))
				if cells = append(cells, ""); ok {
					n = max(n, x.N)
					cells[len(cells)-1] = x.Estimate.String()
				}
			}
			m.add(cells...)
		}
	}
	return notes(m.String(), prompts(n)+", code, 48 tokens after each, heuristic schedule; speedup over plain decoding.")
}

func assistedName(how string, t float32) string {
	s := drafted(setting("model", "heuristic", verifierAt("match", t), 0), how)
	if t == 0 {
		s.Drafts = ""
	}
	return s.String()
}

// heads compares the draft model with the EAGLE-3 head.
func (r *report) heads() string {
	m := markdown{head: []string{"kernels"}}
	for _, d := range heads {
		m.head = append(m.head, d+": speedup", "tokens in a pass", "accepted", "drafting, share of the time")
	}
	n := 0
	for _, v := range r.with("heads") {
		cells := []string{r.name(v)}
		for _, d := range heads {
			x, ok := v.row("heads", code, 0, settingName(d, "auto", "greedy", 0))
			if !ok {
				cells = append(cells, "", "", "", "")
				continue
			}
			n = max(n, x.N)
			cells = append(cells, x.Estimate.String(), fmt.Sprintf("%.2f", x.perPass()),
				fmt.Sprintf("%.0f %%", 100*x.acceptance()),
				fmt.Sprintf("%.0f %%", 100*x.share(func(r run) float64 { return r.Drafting })))
		}
		m.add(cells...)
	}
	return notes(m.String(), prompts(n)+", code, 64 tokens after each, greedy, auto.")
}

// sizes of the draft model.
func (r *report) sizes() string {
	m := markdown{head: []string{"draft model"}}
	for _, size := range sizes() {
		m.head = append(m.head, fmt.Sprintf("%.0f M (1/%.0f)", millions(size), targetMillions/millions(size)))
	}
	n := 0
	for i, v := range r.views {
		for _, s := range experimentOf(usualDraft).at(0) {
			name := s.String()
			cells, found := []string{r.name(v) + ": " + s.Limits()}, false
			for _, size := range sizes() {
				x, ok := r.views[i].row(size, code, 0, name)
				if cells = append(cells, ""); ok {
					found, n = true, max(n, x.N)
					cells[len(cells)-1] = x.Estimate.String()
				}
			}
			if found {
				m.add(cells...)
			}
		}
	}
	if len(m.rows) == 0 {
		return ""
	}
	return notes(m.String(), fmt.Sprintf("%s, code, 48 tokens after each; in parentheses the share of the target's "+
		"%.0f M parameters.", prompts(n), targetMillions))
}

// targetMillions are the enlarged target's parameters in millions.
const targetMillions = 980.0

func millions(size string) float64 {
	var x float64
	fmt.Sscanf(size, "draft-%gm", &x)
	return x
}

// weights compares assistance on 16-bit and on 8-bit weights.
func (r *report) weights() string {
	m := markdown{head: []string{"kernels", "weights", "temperature", "plain, tokens/s", "assisted: speedup over plain",
		"over plain f16", "accepted", "a verification pass, over a plain one", "drafting, share of the time"}}
	n := 0
	for _, v := range r.views {
		for _, t := range experimentOf("weights-f16").temps {
			base := 0.0
			for _, w := range []string{"f16", "q8_0"} {
				x, ok := v.row("weights-"+w, code, t, settingName("model", "heuristic", verifierAt("match", t), 0))
				if !ok {
					continue
				}
				n = max(n, x.N)
				over := ""
				if w == "f16" {
					base = x.plain
				}
				if base > 0 {
					over = fmt.Sprintf("%.2f", x.plain*x.Value/base)
				}
				m.add(r.name(v), w, fmt.Sprint(t), fmt.Sprintf("%.1f", x.plain), x.Estimate.String(), over,
					fmt.Sprintf("%.0f %%", 100*x.acceptance()),
					fmt.Sprintf("%.2f", x.verification()),
					fmt.Sprintf("%.0f %%", 100*x.share(func(r run) float64 { return r.Drafting })))
			}
		}
	}
	if len(m.rows) == 0 {
		return ""
	}
	return notes(m.String(), prompts(n)+", code, 48 tokens after each, heuristic schedule.")
}

// alone compares the drafters that need no second file with plain decoding.
func (r *report) alone() string {
	m := markdown{head: []string{"kernels", "weights", "temperature", "plain, tokens/s"}}
	for _, d := range alone {
		m.head = append(m.head, "`"+d+"`: speedup over plain", "accepted", "tokens in a pass")
	}
	n := 0
	for _, v := range r.views {
		for _, w := range []string{"f16", "q8_0"} {
			for _, t := range experimentOf("self-" + w).temps {
				cells := []string{r.name(v), w, fmt.Sprint(t), ""}
				for _, d := range alone {
					x, ok := v.row("self-"+w, code, t, settingName(d, "auto", verifierAt("match", t), 0))
					if !ok {
						cells = append(cells, "", "", "")
						continue
					}
					n = max(n, x.N)
					cells[3] = fmt.Sprintf("%.1f", x.plain)
					cells = append(cells, x.Estimate.String(), fmt.Sprintf("%.0f %%", 100*x.acceptance()),
						fmt.Sprintf("%.2f", x.perPass()))
				}
				if cells[3] != "" {
					m.add(cells...)
				}
			}
		}
	}
	if len(m.rows) == 0 {
		return ""
	}
	return notes(m.String(), prompts(n)+", code, 64 tokens after each, schedule auto.")
}

// plan compares predictions with measurements on prompts that they were not fitted on.
func (r *report) plan() string {
	m := markdown{head: []string{"tokens in a draft"}}
	for _, k := range lengths {
		m.head = append(m.head, fmt.Sprint(k))
	}
	m.head = append(m.head, "auto")
	set := promptSet(code)
	var fitted []string
	for _, p := range set[len(set)-planPrompts:] {
		fitted = append(fitted, p.ID)
	}
	n := 0
	for _, v := range r.with("plan") {
		for _, c := range v.cells {
			if c.Plan == nil || c.Column != v.column || c.Disturbed != "" {
				continue
			}
			predicted, measured := []string{r.name(v) + ": predicted"}, []string{"measured"}
			for _, k := range append(slices.Clone(lengths), 0) {
				name, value := settingName("model", "constant", "greedy", k), 0.0
				for _, l := range c.Plan.Lengths {
					if l.Length == k {
						value = l.Speedup
					}
				}
				if k == 0 {
					name, value = settingName("model", "auto", "greedy", 0), c.Plan.Auto
				}
				predicted = append(predicted, fmt.Sprintf("%.2f", value))
				x, ok := v.rowOf("length", code, 0, name, fitted)
				if measured = append(measured, ""); ok {
					n = max(n, x.N)
					measured[len(measured)-1] = x.Estimate.String()
				}
			}
			m.add(predicted...)
			m.add(measured...)
		}
	}
	return notes(m.String(), fmt.Sprintf("Predicted from %d seconds of measuring on %d prompts, measured on %d others.",
		planSeconds, planPrompts, n))
}

// passes are the rows of the experiment "costs": medians over its repeats, by kind and tokens.
func (v view) passes() (list []bench.Row) {
	all := map[bench.Row][]bench.Row{}
	var order []bench.Row
	for _, c := range v.cells {
		if c.Experiment != costs || c.Column != v.column || c.Disturbed != "" {
			continue
		}
		for _, row := range c.Rows {
			k := bench.Row{Kind: row.Kind, Tokens: row.Tokens, Context: row.Context}
			if all[k] == nil {
				order = append(order, k)
			}
			all[k] = append(all[k], row)
		}
	}
	for _, k := range order {
		middle := func(f func(bench.Row) float64) float64 {
			var x []float64
			for _, row := range all[k] {
				x = append(x, f(row))
			}
			return compare.Median(x)
		}
		k2 := all[k][0]
		k2.TokensPerSecond = middle(func(r bench.Row) float64 { return r.TokensPerSecond })
		k2.PassSeconds = middle(func(r bench.Row) float64 { return r.PassSeconds })
		k2.RatioToDecode = middle(func(r bench.Row) float64 { return r.RatioToDecode })
		list = append(list, k2)
	}
	return list
}

// gigabytes that a pass of the enlarged target reads: its weights.
const gigabytes = 1.05

// costs of passes, relative to decoding.
func (r *report) costs() string {
	m := markdown{head: []string{"kernels, threads", "memory, GB/s", "decode, tokens/s", "weights read, GB/s"}}
	for _, k := range verified {
		m.head = append(m.head, fmt.Sprint("verify ", k))
	}
	m.head = append(m.head, "prefill of 128, tokens/s", "over decode")
	for _, v := range r.with("costs") {
		cells := []string{r.name(v), v.memoryAtCosts()}
		at := map[int]string{}
		for _, row := range v.passes() {
			if row.Kind == "verify" {
				at[row.Tokens] = fmt.Sprintf("%.2f", row.RatioToDecode)
			}
		}
		for _, row := range v.passes() {
			switch row.Kind {
			case "decode":
				cells = append(cells, fmt.Sprintf("%.1f", row.TokensPerSecond), fmt.Sprintf("%.0f", gigabytes/row.PassSeconds))
				for _, k := range verified {
					cells = append(cells, at[k])
				}
			case "prefill":
				cells = append(cells, fmt.Sprintf("%.0f", row.TokensPerSecond), fmt.Sprintf("%.1f", row.RatioToDecode))
			}
		}
		m.add(cells...)
	}
	return m.String()
}

// memoryAtCosts is the bandwidth that was measured between the passes, by repeat of the experiment.
func (v view) memoryAtCosts() string {
	var list []string
	for _, c := range v.cells {
		if c.Experiment == costs && c.Column == v.column && c.Disturbed == "" && c.GBps > 0 {
			list = append(list, fmt.Sprintf("%.0f", c.GBps))
		}
	}
	return strings.Join(list, ", ")
}

// batches of sequences.
func (r *report) batches() string {
	m := markdown{head: []string{"sequences"}}
	for _, n := range []int{1, 4, 16, 64} {
		m.head = append(m.head, fmt.Sprint(n))
	}
	for _, v := range r.with("costs") {
		cells := []string{r.name(v) + ": tokens/s in total"}
		for _, row := range v.passes() {
			if row.Kind == "batch" {
				cells = append(cells, fmt.Sprintf("%.0f", row.TokensPerSecond))
			}
		}
		m.add(cells...)
	}
	return m.String()
}

// frequency is how often both models choose the same token, by how frequent it is.
func (r *report) frequency() string {
	v, ok := r.first("frequency")
	if !ok {
		return ""
	}
	m := markdown{head: []string{"tokens by frequency", "share of the text", "draft model chooses the same"}}
	for _, c := range v.cells {
		all := 0
		for _, g := range c.Groups {
			all += g.Tokens
		}
		before := 0
		for _, g := range c.Groups {
			name := fmt.Sprintf("the %d most frequent", g.Most)
			switch {
			case g.Most == 0:
				name = "all others"
			case before > 0:
				name = fmt.Sprintf("the next %d", g.Most-before)
			}
			before = g.Most
			m.add(name, fmt.Sprintf("%.0f %%", 100*ratio(g.Tokens, all)), fmt.Sprintf("%.0f %%", 100*ratio(g.Agrees, g.Tokens)))
		}
	}
	return m.String()
}
