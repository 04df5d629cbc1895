package compare

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/specgo/spec/cmd/spec/internal/charts"
)

// Page writes the report as one HTML file with charts. Which charts there are follows from what was
// run: a chart needs at least two things to compare.
func (r *Report) Page(w io.Writer) error {
	p := charts.Page{Title: r.headline(), Lead: r.lead(), Tiles: r.tiles(), Table: r.pageTable(), Command: r.Command}
	add := func(s charts.Section) {
		if len(s.Figures) > 0 {
			p.Sections = append(p.Sections, s)
		}
	}
	add(r.bySchedule())
	add(r.byLength())
	add(r.byTemperature())
	add(r.draftLengths())
	add(r.passes())
	add(r.distributions())
	p.Notes = []string{
		"Speed-up is plain decoding's time per token over the setting's, the prompt left out. Each run is set against the mean of the runs of plain decoding around it; " +
			"a prompt's figure is the median of its repeats; whiskers and bands are the quartiles over the prompts.",
		"The oracle ends every draft at its first wrong token, which no schedule can know: it shows how few passes a drafter allows. " +
			"The formula's speed-up takes a pass that verifies to last as long as one that decodes a token.",
	}
	return p.Write(w)
}

// color of a schedule, the same in all charts.
func color(name string) int {
	switch name {
	case "constant", "rejection":
		return 1
	case "heuristic", "block":
		return 2
	case "dynamic":
		return 3
	case "auto", "match", "greedy":
		return 4
	case "adaptive", "stairs", "stairs-faithful":
		return 5
	case oracle:
		return 6
	}
	return 0
}

// best is the fastest row that could be used: not the oracle.
func (r *Report) best() *Row {
	var best *Row
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Drafter != Plain && row.Schedule != oracle && (best == nil || row.Speedup > best.Speedup) {
			best = row
		}
	}
	return best
}

func (r *Report) headline() string {
	best := r.best()
	switch {
	case best == nil:
		return "Nothing was compared"
	case best.Speedup < 1:
		return fmt.Sprintf("Here speculation does not pay: %.2fx at best", best.Speedup)
	case best.Promised && len(r.Broken) == 0:
		return fmt.Sprintf("The same text, %.1fx sooner", best.Speedup)
	}
	return fmt.Sprintf("%.1fx sooner", best.Speedup)
}

func (r *Report) lead() string {
	s := "Written by " + r.Model
	if len(r.Drafts) > 0 {
		s += ", drafted by " + strings.Join(r.Drafts, " and ")
	}
	s += fmt.Sprintf(". Threads: %d; kernels: %s; tokens after each prompt: at most %d; timed runs of each: %d.", r.Threads, r.SIMD, r.Tokens, r.Repeats)
	if !r.Complete {
		s += " The comparison was interrupted: some runs are missing."
	}
	if len(r.Broken) > 0 {
		s += fmt.Sprintf(" %d texts are not plain decoding's although they had to be: %s.", len(r.Broken), r.Broken[0])
	}
	return s
}

func (r *Report) tiles() (list []charts.Tile) {
	best := r.best()
	if best == nil {
		return nil
	}
	list = append(list,
		charts.Tile{Figure: fmt.Sprintf("%.2fx", best.Speedup), Label: fmt.Sprintf("best: %s, %s", best.name(), best.Prompts)},
		charts.Tile{Figure: fmt.Sprintf("%.0f tok/s", best.TokensPerSecond), Label: fmt.Sprintf("plain decoding: %.0f", best.TokensPerSecond/best.Speedup)},
		charts.Tile{Figure: fmt.Sprintf("%.2f", best.TokensPerPass), Label: fmt.Sprintf("tokens per pass of the target, %.0f %% of drafts accepted", 100*best.Acceptance)},
	)
	same, promised := 0, 0
	for _, row := range r.Rows {
		if row.Promised && row.Drafter != Plain {
			promised += len(row.ByPrompt)
			for _, p := range row.ByPrompt {
				if p.Same {
					same++
				}
			}
		}
	}
	if promised > 0 {
		list = append(list, charts.Tile{Figure: fmt.Sprintf("%d of %d", same, promised), Label: "texts that had to equal plain decoding's, and do"})
	}
	return list
}

func (row *Row) name() string {
	return row.Drafter + ", " + row.setting.Limits()
}

// group is what is common to the rows of one chart.
type group struct {
	prompts, weights string
	temperature      float32
}

// groups lists them in order; only the first temperature of each set and weights, unless all is set.
func (r *Report) groups(all bool) (list []group) {
	for _, row := range r.Rows {
		g := group{row.Prompts, row.Weights, row.Temperature}
		known := slices.ContainsFunc(list, func(x group) bool {
			return x == g || !all && x.prompts == g.prompts && x.weights == g.weights
		})
		if !known {
			list = append(list, g)
		}
	}
	return list
}

func (g group) caption() string {
	s := g.prompts + ", " + temperatureName(g.temperature)
	if g.weights != "" {
		s += ", " + g.weights + " weights"
	}
	return s
}

// rows of a group without plain decoding.
func (r *Report) rows(g group) (list []*Row) {
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Drafter != Plain && row.Prompts == g.prompts && row.Weights == g.weights && row.Temperature == g.temperature {
			list = append(list, row)
		}
	}
	return list
}

// swept reports whether the row is one of several that differ in draft length only.
func (r *Report) isSwept(row *Row) bool { return len(r.sweep(row)) > 2 }

// sweep lists the rows that differ from this one in draft length only, it included.
func (r *Report) sweep(row *Row) (list []*Row) {
	for _, x := range r.rows(group{row.Prompts, row.Weights, row.Temperature}) {
		if x.Drafter == row.Drafter && x.Schedule == row.Schedule && x.Verify == row.Verify && x.Confidence == row.Confidence {
			list = append(list, x)
		}
	}
	return list
}

func (r *Report) bySchedule() charts.Section {
	s := charts.Section{
		Title: "Speed-up by drafter and schedule",
		Text:  "How much sooner the same prompts are continued than by plain decoding, the dashed line. The oracle cannot be had: it knows which tokens will be accepted.",
	}
	for _, g := range r.groups(false) {
		b := charts.Bars{Unit: "x", Base: 1, Label: "Speed-up by drafter and schedule, " + g.caption()}
		rows := r.rows(g)
		rules := map[string]bool{}
		for _, row := range rows {
			rules[row.Verify] = true
		}
		for _, row := range rows {
			if r.isSwept(row) {
				continue
			}
			name := row.setting.Limits()
			if len(rules) > 1 {
				name += " " + row.Verify
			}
			last := len(b.Groups) - 1
			if last < 0 || b.Groups[last].Name != row.Drafter {
				b.Groups = append(b.Groups, charts.Group{Name: row.Drafter})
				last++
			}
			b.Groups[last].Bars = append(b.Groups[last].Bars, charts.Bar{
				Name: name, Value: row.Speedup, Low: row.SpeedupLow, High: row.SpeedupHigh, Color: color(row.Schedule),
				Tip: fmt.Sprintf("%s, %s: %.2fx, quartiles %.2f to %.2f; %.0f %% accepted, %.2f tokens per pass", row.name(), row.Verify, row.Speedup, row.SpeedupLow, row.SpeedupHigh, 100*row.Acceptance, row.TokensPerPass),
			})
		}
		if len(b.Groups) > 0 && (len(b.Groups) > 1 || len(b.Groups[0].Bars) > 1) {
			s.Figures = append(s.Figures, charts.Figure{Caption: g.caption(), SVG: b.SVG()})
		}
	}
	return s
}

// byLength draws sweeps of the draft length; for stairs that is the batch size less one.
func (r *Report) byLength() charts.Section {
	s := charts.Section{
		Title: "Speed-up by length of the drafts",
		Text:  "Measured, with the quartiles over prompts, and dotted what the formula gives for the tokens that were accepted. For stairs the batch has one row more than a draft has tokens.",
	}
	for _, g := range r.groups(true) {
		var done []*Row
		for _, row := range r.rows(g) {
			sweep := r.sweep(row)
			if len(sweep) < 3 || slices.Contains(done, sweep[0]) {
				continue
			}
			done = append(done, sweep[0])
			stairs := 0.0
			l := charts.Lines{X: "tokens in a draft", Y: "speed-up", YUnit: "x", Base: 1}
			if strings.HasPrefix(row.Verify, "stairs") {
				stairs, l.X = 1, "batch size"
			}
			caption := row.Drafter + ", " + g.caption()
			if row.Verify != defaultVerifier(row.Temperature) {
				caption = fmt.Sprintf("%s, %s, %s", row.Drafter, row.Verify, g.caption())
			}
			l.Label = "Speed-up by " + l.X + ": " + caption
			measured := charts.Curve{Name: "measured", Color: color(row.Verify)}
			formula := charts.Curve{Name: "formula", Color: 0, Dashed: true}
			slices.SortFunc(sweep, func(a, b *Row) int { return a.DraftMax - b.DraftMax })
			for _, x := range sweep {
				at := float64(x.DraftMax) + stairs
				low, high := x.spread()
				measured.Points = append(measured.Points, charts.Point{X: at, Y: x.Speedup, Low: low, High: high})
				formula.Points = append(formula.Points, charts.Point{X: at, Y: x.Formula})
			}
			l.Curves = []charts.Curve{measured, formula}
			s.Figures = append(s.Figures, charts.Figure{Caption: caption, SVG: l.SVG()})
		}
	}
	return s
}

// spread is the quartiles over prompts, or, of a single prompt, over its runs.
func (row *Row) spread() (low, high float64) {
	if row.NPrompts != 1 || len(row.RunSeconds) < 3 {
		return row.SpeedupLow, row.SpeedupHigh
	}
	slow, mid, quick := quartiles(row.RunSeconds)
	return row.Speedup * mid / quick, row.Speedup * mid / slow
}

func (r *Report) byTemperature() charts.Section {
	s := charts.Section{
		Title: "Speed-up by temperature",
		Text:  "The hotter, the less a draft can know. At 0 all rules are greedy; match writes plain decoding's very text at every temperature, rejection and block one of the same distribution.",
	}
	for _, g := range r.groups(false) {
		var temperatures []float32
		type line struct{ drafter, schedule, verify string }
		var lines []line
		for i := range r.Rows {
			row := &r.Rows[i]
			if row.Prompts != g.prompts || row.Weights != g.weights || row.Drafter == Plain || row.Schedule == oracle || r.isSwept(row) {
				continue
			}
			if !slices.Contains(temperatures, row.Temperature) {
				temperatures = append(temperatures, row.Temperature)
			}
			if n := (line{row.Drafter, row.Schedule, row.Verify}); row.Temperature > 0 && !slices.Contains(lines, n) {
				lines = append(lines, n)
			}
		}
		if len(temperatures) < 3 {
			continue
		}
		byDrafter := map[string]*charts.Lines{}
		var drafters []string
		rules := map[string]bool{}
		for _, n := range lines {
			rules[n.verify] = true
		}
		for _, n := range lines {
			l := byDrafter[n.drafter]
			if l == nil {
				l = &charts.Lines{X: "temperature", Y: "speed-up", YUnit: "x", Base: 1, Wide: true, Label: "Speed-up by temperature with drafter " + n.drafter}
				byDrafter[n.drafter] = l
				drafters = append(drafters, n.drafter)
			}
			c := charts.Curve{Name: n.verify + ", " + n.schedule, Color: color(n.verify)}
			if len(rules) == 1 {
				c = charts.Curve{Name: n.schedule, Color: color(n.schedule)}
			}
			for i := range r.Rows {
				row := &r.Rows[i]
				fits := row.Prompts == g.prompts && row.Weights == g.weights && row.Drafter == n.drafter && row.Schedule == n.schedule && row.DraftMax == 0 && row.Confidence == 0
				if fits && (row.Verify == n.verify || row.Temperature == 0 && row.Verify == "greedy") {
					c.Points = append(c.Points, charts.Point{X: float64(row.Temperature), Y: row.Speedup, Low: row.SpeedupLow, High: row.SpeedupHigh})
				}
			}
			slices.SortFunc(c.Points, func(a, b charts.Point) int {
				if a.X < b.X {
					return -1
				}
				return 1
			})
			l.Curves = append(l.Curves, c)
		}
		for _, d := range drafters {
			caption := d + ", " + g.prompts
			if g.weights != "" {
				caption += ", " + g.weights + " weights"
			}
			s.Figures = append(s.Figures, charts.Figure{Caption: caption, SVG: roundTemperatures(byDrafter[d]).SVG()})
		}
	}
	return s
}

// roundTemperatures undoes the widening of 0.2 to 0.20000000298.
func roundTemperatures(l *charts.Lines) *charts.Lines {
	for _, c := range l.Curves {
		for i := range c.Points {
			c.Points[i].X = float64(int(c.Points[i].X*1000+0.5)) / 1000
		}
	}
	return l
}

// draftLengths shows how the lengths of drafts went, round by round, beside the oracle's.
func (r *Report) draftLengths() charts.Section {
	s := charts.Section{
		Title: "Tokens drafted, round by round",
		Text:  "The mean over the prompts that had such a round; the band is the middle half of the oracle's drafts. A good schedule follows the oracle, which drafts what will be accepted and one token more.",
	}
	for _, g := range r.groups(false) {
		rows := r.rows(g)
		var drafters []string
		for _, row := range rows {
			if row.Schedule == oracle && !slices.Contains(drafters, row.Drafter) && strings.HasPrefix(row.Drafter, "model") {
				drafters = append(drafters, row.Drafter)
			}
		}
		for _, d := range drafters {
			l := charts.Lines{X: "round", Y: "tokens drafted", Label: "Tokens drafted by round, " + g.caption()}
			for _, row := range rows {
				if row.Drafter != d || r.isSwept(row) || row.NPrompts < 2 {
					continue
				}
				c := charts.Curve{Name: row.setting.Limits(), Color: color(row.Schedule), Dashed: row.Schedule == oracle}
				for _, at := range row.Lengths {
					if at.Texts < max(2, row.NPrompts/3) {
						break
					}
					p := charts.Point{X: float64(at.Round), Y: at.Mean, Tip: fmt.Sprintf("%s, round %d: %.1f tokens over %d prompts, quartiles %.1f to %.1f", row.Schedule, at.Round, at.Mean, at.Texts, at.Low, at.High)}
					if row.Schedule == oracle {
						p.Low, p.High = at.Low, at.High
					}
					c.Points = append(c.Points, p)
				}
				if len(c.Points) > 0 {
					l.Curves = append(l.Curves, c)
				}
			}
			if len(l.Curves) > 1 {
				s.Figures = append(s.Figures, charts.Figure{Caption: d + ", " + g.caption(), SVG: l.SVG()})
			}
		}
	}
	return s
}

// passes sets passes of the draft against passes of the target.
func (r *Report) passes() charts.Section {
	s := charts.Section{
		Title: "Passes, against the oracle's",
		Text:  "Each pass of the target that is saved is time won, each pass of the draft time spent: the nearer to the lower left corner, the better.",
	}
	for _, g := range r.groups(false) {
		l := charts.Lines{X: "passes of the draft model", Y: "passes of the target", Label: "Passes of target and draft, " + g.caption()}
		for _, row := range r.rows(g) {
			if row.Drafter != "model" || r.isSwept(row) || row.DraftPasses == 0 || strings.HasPrefix(row.Verify, "stairs") {
				continue
			}
			name := row.setting.Limits()
			if row.Verify != "greedy" && row.Verify != "match" {
				name += " " + row.Verify
			}
			l.Curves = append(l.Curves, charts.Curve{Name: name, Color: color(row.Schedule), Spots: true, Points: []charts.Point{{
				X: float64(row.DraftPasses), Y: float64(row.TargetPasses), Tip: fmt.Sprintf("%s: %d passes of the target, %d of the draft", name, row.TargetPasses, row.DraftPasses),
			}}})
		}
		if len(l.Curves) > 2 {
			s.Figures = append(s.Figures, charts.Figure{Caption: "model, " + g.caption(), SVG: l.SVG()})
		}
	}
	return s
}

// distributions shows every run where one prompt was run often.
func (r *Report) distributions() charts.Section {
	s := charts.Section{Title: "Every run", Text: "The time of each run on one prompt; boxes hold the middle half, the line is the median."}
	for _, g := range r.groups(false) {
		b := charts.Boxes{X: "milliseconds", Label: "Times of all runs, " + g.caption()}
		add := func(row *Row, name string, color int) {
			x := charts.Box{Name: name, Color: color}
			for _, t := range row.RunSeconds {
				x.Values = append(x.Values, 1000*t)
			}
			b.Boxes = append(b.Boxes, x)
		}
		for i := range r.Rows {
			row := &r.Rows[i]
			if row.Prompts != g.prompts || row.Weights != g.weights || row.Temperature != g.temperature || row.NPrompts != 1 || row.NRuns < 10 || row.Schedule == oracle {
				continue
			}
			switch stairs := strings.HasPrefix(row.Verify, "stairs"); {
			case row.Drafter == Plain:
				add(row, "plain", 0)
			case stairs && row.DraftMax == 6:
				add(row, "stairs, batch 7", color(row.Verify))
			case !stairs && !r.isSwept(row):
				add(row, row.Drafter+" "+row.Schedule, color(row.Schedule))
			}
		}
		if len(b.Boxes) > 1 {
			s.Figures = append(s.Figures, charts.Figure{Caption: g.caption(), SVG: b.SVG()})
		}
	}
	return s
}

func (r *Report) pageTable() charts.Table {
	t := charts.Table{Title: "All figures", Left: 4, Head: []string{"prompts", "drafter", "schedule", "rule", "speed-up", "quartiles", "formula", "tok/s", "accepted", "tok/pass", "passes", "draft", "oracle", "draft", "BLEU", "same text"}}
	for i := range r.Rows {
		row := &r.Rows[i]
		name := row.Prompts + ", " + temperatureName(row.Temperature)
		if row.Weights != "" {
			name += ", " + row.Weights
		}
		t.Rows = append(t.Rows, append([]string{name}, row.cells()...))
	}
	return t
}
