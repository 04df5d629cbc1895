package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/specgo/spec/internal/charts"
	"github.com/specgo/spec/internal/compare"
)

// picture is an SVG file.
type picture struct{ name, svg string }

// fewest prompts that a point of a chart rests on: behind them a curve is cut.
const fewest = 5

// viewHues are those of the columns: with their markers, the same in all charts.
var viewHues = []int{1, 2, 4, 5, 3, 6}

// pictures draws all charts for which there are results.
func (r *report) pictures() (list []picture) {
	add := func(name, heading string, chart string, notes ...string) {
		if chart == "" {
			return
		}
		notes = append(notes, r.origin())
		svg, err := charts.Standalone(chart, heading, notes...)
		if err == nil {
			list = append(list, picture{name, svg})
		}
	}
	pair := "A target of 0.98 B parameters and a draft model of 14 M, enlarged from a small pair that was trained on " +
		"Go; Q8_0."
	chart, _ := r.lengthChart()
	add("length", "Speedup by draft length", chart, pair, "Greedy, code, 64 tokens after each prompt, prompt not "+
		"counted. Median over the prompts; band: its 95 % interval. Curves of different prompts are not to be compared "+
		"point by point. Dotted: the formula, if every verification pass took as long as decoding a token.")
	add("time", "Where the time of a token goes", r.timeChart(), pair, "Code prompts, greedy, schedule auto. Reading "+
		"the weights: the time of plain decoding's pass, shared by the tokens that a pass yields. More tokens in a pass: "+
		"what verification takes beyond that. 100 %: plain decoding with the same kernels, measured around each run: "+
		"the milliseconds of two kernel sets depend on what the memory gave meanwhile.")
	chart, n := r.acceptanceChart()
	add("acceptance", "Accepted drafts by position", chart, "Share of the rounds in which the draft "+
		"model's 1st, 2nd, ... token was accepted, of those that drafted it; greedy, drafts of 10 tokens, "+prompts(n)+" of "+
		"each kind. Median over the prompts; band: its 95 % interval.", r.everywhere("counts"))
	chart, n = r.draftersChart()
	add("drafters", "Speedup by drafter and kind of prompt", chart, pair, fmt.Sprintf("Greedy, schedule auto, up to %s "+
		"of each kind, 64 tokens after each. Median over the prompts; whiskers: its 95 %% interval.", prompts(n)))
	chart, n = r.schedulesChart()
	add("schedules", "Speedup by schedule", chart, pair, fmt.Sprintf("Greedy, draft model, %s of code, 64 tokens after "+
		"each. The oracle knows which token will be rejected and ends the draft before it.", prompts(n)))
	chart, n = r.lookaheadChart()
	add("lookahead", "Tokens that an oracle drafts, round by round", chart,
		"Greedy, "+prompts(n)+" of each kind, 96 tokens after each. Mean over the prompts that have such a round, at "+
			"least 5.", r.everywhere("counts"))
	chart, n = r.temperaturesChart()
	add("temperatures", "Tokens in a pass of the target by temperature", chart,
		fmt.Sprintf("Drafts of 5 tokens, %d code prompts, 64 tokens after each. Median over the prompts; band: its 95 %% "+
			"interval.", n), r.everywhere("temperatures"))
	add("stairs", "Stairs: speedup by batch size", r.stairsChart(), "One code prompt, 32 tokens, greedy. Median over "+
		"the runs; band: its 95 % interval. A batch of B rows verifies drafts of B - 1 tokens.")
	add("sizes", "Speedup by size of the draft model", r.sizesChart(), "Code prompts, greedy, schedule auto. All "+
		"drafts compute the same function, so only their cost differs. Median over the prompts; band: its 95 % interval.")
	add("costs", "Time of a pass by the tokens in it", r.costsChart(),
		"A target of 0.98 B parameters in Q8_0. 1: the time of decoding a token.")
	add("redistribution", "Speculative sampling: what is drafted, accepted and redistributed", r.redistributionChart(),
		"One position of a code prompt, temperature 1. A drafted token is accepted with probability min(1, p/q); after a "+
			"rejection the token is drawn from the positive part of p - q, divided by its sum.")
	return list
}

// origin says where the results are from, and of which commits.
func (r *report) origin() string {
	var list []string
	for _, f := range r.files {
		list = append(list, fmt.Sprintf("%s: commit %s, %s.", f.Machine, f.Commit, f.Date))
	}
	return strings.Join(list, " ")
}

// lengthChart has a curve for each column, and the formula of the first.
func (r *report) lengthChart() (svg string, n int) {
	l := charts.Lines{X: "tokens in a draft", Y: "speedup", YUnit: "x", Base: 1, Label: "Speedup by draft length"}
	formula := charts.Curve{Name: "formula", Dashed: true}
	for i, v := range r.with("length") {
		curve := charts.Curve{Name: r.name(v), Color: viewHues[i%len(viewHues)]}
		own := 0
		for _, k := range lengths {
			x, ok := v.row("length", code, 0, settingName("model", "constant", "greedy", k))
			if !ok || x.N < 1 {
				continue
			}
			own = max(own, x.N)
			curve.Points = append(curve.Points, point(float64(k), x.Estimate))
			if i == 0 {
				formula.Points = append(formula.Points, charts.Point{X: float64(k), Y: x.formula})
			}
		}
		curve.Name += " (" + prompts(own) + ")"
		n = max(n, own)
		l.Curves = append(l.Curves, curve)
	}
	l.Curves = append(l.Curves, formula)
	if n == 0 {
		return "", 0
	}
	return l.SVG(), n
}

func point(x float64, e compare.Estimate) charts.Point {
	return charts.Point{X: x, Y: e.Value, Low: e.Low, High: e.High}
}

// timeChart splits the time of a token, in percent of plain decoding's with the same kernels, which was measured
// around each run: the milliseconds of kernel sets depend on what the memory gives meanwhile.
func (r *report) timeChart() string {
	s := charts.Stacks{Label: "Where the time of a token goes", Unit: " %",
		X:     "time of a token, plain decoding with the same kernels: 100 %",
		Parts: []string{"reading the weights", "more tokens in a pass", "drafting", "other"}}
	for _, v := range r.with("drafters") {
		begun := false
		for _, d := range drafting {
			x, ok := v.row("drafters", code, 0, settingName(d, "auto", "greedy", 0))
			if !ok {
				continue
			}
			var plain, reading, drafting, verifying, seconds float64
			for _, r := range x.runs {
				if !r.steady() {
					continue
				}
				one := (r.Before + r.After) / 2
				plain += one * float64(r.Tokens)
				reading += one * float64(r.Target)
				drafting, verifying, seconds = drafting+r.Drafting, verifying+r.Verifying, seconds+r.Seconds
			}
			if plain == 0 { // no run counts
				continue
			}
			if !begun {
				begun = true
				s.Bars = append(s.Bars, charts.Stack{Name: "plain, " + shortName(v), Values: []float64{100}})
			}
			reading = min(reading, verifying)
			of := func(part float64) float64 { return 100 * part / plain }
			s.Bars = append(s.Bars, charts.Stack{Name: d, Note: fmt.Sprintf(" (%.1fx)", plain/seconds),
				Values: []float64{of(reading), of(verifying - reading), of(drafting), of(max(0, seconds-drafting-verifying))}})
		}
	}
	if len(s.Bars) == 0 {
		return ""
	}
	return s.SVG()
}

func shortName(v view) string {
	simd, _, _ := strings.Cut(v.column, "/")
	return kernelName(simd)
}

// acceptanceChart has a curve for each kind of prompt.
func (r *report) acceptanceChart() (svg string, n int) {
	v, ok := r.first("counts")
	if !ok {
		return "", 0
	}
	l := charts.Lines{X: "position in the draft", Y: "accepted", YUnit: " %", Label: "Acceptance by position in the draft"}
	for i, set := range allSets {
		x, ok := v.row("counts", set, 0, settingName("model", "constant", "greedy", byPosition))
		if !ok {
			continue
		}
		n = max(n, len(x.runs))
		curve := charts.Curve{Name: setNames[set], Color: viewHues[i]}
		for at := range byPosition {
			var shares []float64
			for _, r := range x.runs {
				if at < len(r.DraftedAt) && r.DraftedAt[at] > 0 {
					shares = append(shares, 100*ratio(r.AcceptedAt[at], r.DraftedAt[at]))
				}
			}
			if len(shares) < fewest {
				break
			}
			curve.Points = append(curve.Points, point(float64(at+1), compare.EstimateOf(shares)))
		}
		l.Curves = append(l.Curves, curve)
	}
	return l.SVG(), n
}

// draftersChart are bars in groups of kinds of prompts.
func (r *report) draftersChart() (svg string, n int) {
	b := charts.Bars{Unit: "x", Base: 1, Label: "Speedup by drafter and kind of prompt"}
	for i, v := range r.with("drafters") {
		for _, set := range allSets {
			g := charts.Group{Name: setNames[set] + " prompts, " + r.name(v)}
			for _, d := range drafting {
				if x, ok := v.row("drafters", set, 0, settingName(d, "auto", "greedy", 0)); ok {
					n = max(n, x.N)
					g.Bars = append(g.Bars, charts.Bar{Name: d, Value: x.Value, Low: x.Low, High: x.High,
						Color: viewHues[i%len(viewHues)], Tip: x.Estimate.String()})
				}
			}
			if len(g.Bars) > 0 {
				b.Groups = append(b.Groups, g)
			}
		}
	}
	if n == 0 {
		return "", 0
	}
	return b.SVG(), n
}

// schedulesChart are bars in groups of columns.
func (r *report) schedulesChart() (svg string, n int) {
	b := charts.Bars{Unit: "x", Base: 1, Label: "Speedup by schedule"}
	for _, v := range r.with("schedules") {
		g := charts.Group{Name: r.name(v)}
		for i, s := range []string{"constant", "heuristic", "dynamic", "oracle"} {
			if x, ok := v.row("schedules", code, 0, settingName("model", s, "greedy", 0)); ok {
				n = max(n, x.N)
				g.Bars = append(g.Bars, charts.Bar{Name: []string{"static 5", "heuristic", "dynamic", "oracle"}[i], Value: x.Value,
					Low: x.Low, High: x.High, Color: []int{1, 2, 3, 6}[i], Tip: x.Estimate.String()})
			}
		}
		b.Groups = append(b.Groups, g)
	}
	if n == 0 {
		return "", 0
	}
	return b.SVG(), n
}

// lookaheadChart is the oracle's draft length by round.
func (r *report) lookaheadChart() (svg string, n int) {
	v, ok := r.first("counts")
	if !ok {
		return "", 0
	}
	l := charts.Lines{X: "round", Y: "tokens drafted", Label: "The oracle's draft lengths by round"}
	for i, set := range allSets {
		x, ok := v.row("counts", set, 0, settingName("model", "oracle", "greedy", 0))
		if !ok {
			continue
		}
		n = max(n, len(x.runs))
		curve := charts.Curve{Name: setNames[set], Color: viewHues[i]}
		for at := 0; ; at++ {
			sum, texts := 0.0, 0
			for _, r := range x.runs {
				if at < len(r.Lengths) {
					sum, texts = sum+float64(r.Lengths[at]), texts+1
				}
			}
			if texts < fewest {
				break
			}
			curve.Points = append(curve.Points, charts.Point{X: float64(at + 1), Y: sum / float64(texts)})
		}
		l.Curves = append(l.Curves, curve)
	}
	return l.SVG(), n
}

// temperaturesChart has a curve for each verifier.
func (r *report) temperaturesChart() (svg string, n int) {
	v, ok := r.first("temperatures")
	if !ok {
		return "", 0
	}
	l := charts.Lines{X: "temperature", Y: "tokens in a pass", Wide: true, Label: "Tokens in a pass by temperature"}
	for i, how := range studied {
		curve := charts.Curve{Name: studiedText(how), Color: viewHues[i]}
		for _, t := range sampled {
			if x, ok := v.row("temperatures", code, t, studiedName(how, t)); ok {
				n = max(n, len(x.runs))
				p := point(float64(t), x.perPassEstimate())
				p.X = digits(p.X) // 0.2, not 0.20000000298
				curve.Points = append(curve.Points, p)
			}
		}
		if len(curve.Points) > 1 {
			l.Curves = append(l.Curves, curve)
		}
	}
	return l.SVG(), n
}

// stairsChart has a curve for each column, and the heuristic's level as another.
func (r *report) stairsChart() string {
	l := charts.Lines{X: "rows of the batch", Y: "speedup", YUnit: "x", Base: 1, Label: "Stairs: speedup by batch size"}
	for i, v := range r.with("stairs") {
		heuristic := charts.Curve{Name: "heuristic, " + r.name(v), Dashed: true}
		h, ok := v.row("stairs", code, 0, settingName("model", "heuristic", "greedy", 0))
		for j, form := range stairsForms {
			curve := charts.Curve{Name: stairsTexts[j] + ", " + r.name(v), Color: viewHues[(2*i+j)%len(viewHues)]}
			for _, b := range batches {
				if x, found := v.row("stairs", code, 0, settingName("model", "constant", form, b-1)); found {
					curve.Points = append(curve.Points, point(float64(b), x.Estimate))
					if ok && j == 0 {
						heuristic.Points = append(heuristic.Points, charts.Point{X: float64(b), Y: h.Value})
					}
				}
			}
			if len(curve.Points) > 0 {
				l.Curves = append(l.Curves, curve)
			}
		}
		l.Curves = append(l.Curves, heuristic)
	}
	if len(l.Curves) == 0 {
		return ""
	}
	return l.SVG()
}

// sizesChart has a curve for each column.
func (r *report) sizesChart() string {
	l := charts.Lines{X: "parameters of the draft model, millions", Y: "speedup", YUnit: "x", Base: 1, Wide: true,
		Label: "Speedup by size of the draft model"}
	for i, v := range r.views {
		curve := charts.Curve{Name: r.name(v), Color: viewHues[i%len(viewHues)]}
		for _, size := range sizes() {
			if x, ok := v.row(size, code, 0, settingName("model", "auto", "greedy", 0)); ok {
				curve.Points = append(curve.Points, point(millions(size), x.Estimate))
			}
		}
		if len(curve.Points) > 0 {
			l.Curves = append(l.Curves, curve)
		}
	}
	if len(l.Curves) == 0 {
		return ""
	}
	return l.SVG()
}

// costsChart has a curve for each column.
func (r *report) costsChart() string {
	l := charts.Lines{X: "tokens in a pass", Y: "time, relative to one token", Base: 1,
		Label: "Time of a pass by the tokens in it"}
	for i, v := range r.with("costs") {
		curve := charts.Curve{Name: r.name(v), Color: viewHues[i%len(viewHues)]}
		for _, row := range v.passes() {
			if row.Kind == "verify" || row.Kind == "decode" {
				curve.Points = append(curve.Points, charts.Point{X: float64(row.Tokens), Y: row.RatioToDecode})
			}
		}
		l.Curves = append(l.Curves, curve)
	}
	if len(l.Curves) == 0 {
		return ""
	}
	return l.SVG()
}

// redistributionChart shows p, q and the residual of one position.
func (r *report) redistributionChart() string {
	v, ok := r.first("redistribution")
	if !ok {
		return ""
	}
	i := slices.IndexFunc(v.cells, func(c cell) bool { return len(c.Chances) > 0 })
	if i < 0 {
		return ""
	}
	b := charts.Bars{Unit: " %", Label: "Target, draft and residual distributions at one position"}
	for j, c := range v.cells[i].Chances {
		name := fmt.Sprintf("token %q", c.Text)
		if j == len(v.cells[i].Chances)-1 {
			name = c.Text
		}
		b.Groups = append(b.Groups, charts.Group{Name: name, Bars: []charts.Bar{
			{Name: "target p", Value: 100 * c.P, Color: 4},
			{Name: "draft q", Value: 100 * c.Q, Color: 1},
			{Name: "residual", Value: 100 * c.Residual, Color: 2},
		}})
	}
	return b.SVG()
}
