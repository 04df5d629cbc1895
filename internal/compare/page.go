package compare

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/specgo/spec/internal/charts"
	"github.com/specgo/spec/speculative"
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
	add(r.byKernels())
	add(r.byLength())
	add(r.byTemperature())
	add(r.acceptance())
	add(r.draftLengths())
	add(r.passes())
	add(r.distributions())
	p.Notes = []string{
		"Speedup is plain decoding's time per token over the setting's, prefill left out. Each run is compared with the " +
			"mean of the runs of plain decoding around it; " +
			"a prompt's figure is the median of its repeats, and the speedup the median over the prompts; whiskers and bands " +
			"are its 95 % interval (bootstrap over the prompts; of a single prompt over its runs).",
		boundNote + " † fewer than 5 prompts; ‡ an interval wider than a quarter of the value.",
		oracleNote,
		"Tokens per second are the runs' own, by the clock: where the machine's speed changed while it was measured, their " +
			"ratio to plain decoding's differs from the speedup, which compares each run with its neighbors.",
	}
	return p.Write(w)
}

// What each bound assumes.
const (
	boundNote = "The formula's speedup is that of the same rounds and the same time of drafting if every verification " +
		"pass took as long as decoding a token. A verification pass takes at least that, on a machine of constant " +
		"speed; a ratio above it means that the machine became faster in between, and counts as the formula's " +
		"(n_capped in the JSON counts such runs). Both are medians of the same runs, so no speedup is above its formula; " +
		"its interval may be above the formula's median, because other prompts have other formulas."
	oracleNote = "The oracle drafts the tokens that will be accepted and no others, which no schedule can know: none " +
		"takes fewer passes of the target with the same drafter. It assumes that drafting is free, as it drafts in every " +
		"round: it is no bound on the speed, and a schedule that drafts less, such as auto, may be faster."
)

// The hues of schedules and of verifiers, the same in all charts. A chart tells apart the one or the other.
var (
	scheduleHues = huesOf(speculative.Names(speculative.Schedules(), true))
	verifierHues = huesOf(speculative.Names(speculative.Verifiers(), true))
)

func huesOf(names []string) map[string]int {
	hues := map[string]int{}
	for i, n := range names {
		hues[n] = 1 + i
	}
	return hues
}

// hues says how the rows of a chart are colored: by verifier where they differ in that, else by schedule.
func hues(rows []*Row) func(*Row) int {
	byVerifier := map[string]bool{}
	for _, row := range rows {
		byVerifier[row.Verify] = true
	}
	if len(byVerifier) > 1 {
		return func(row *Row) int { return verifierHues[row.Verify] }
	}
	return func(row *Row) int { return scheduleHues[row.Schedule] }
}

// mostTiles is how many settings the page shows as tiles.
const mostTiles = 3

// shown are the settings of the tiles, of the first set, weights and temperature. They are chosen by name, before
// anything is measured: for each drafter the schedule auto, which is what decoders have without a choice, or else the
// first that was asked for. The greatest of many medians would be the luckiest one.
func (r *Report) shown() (list []*Row) {
	groups := r.groups(false)
	if len(groups) == 0 {
		return nil
	}
	for _, row := range r.rows(groups[0]) {
		i := slices.IndexFunc(list, func(x *Row) bool { return x.Drafter == row.Drafter })
		switch {
		case row.Schedule == oracle:
		case i < 0:
			list = append(list, row)
		case row.Schedule == "auto" && list[i].Schedule != "auto":
			list[i] = row
		}
	}
	return list[:min(len(list), mostTiles)]
}

// headline names what was compared and on what, not its largest figure.
func (r *Report) headline() string {
	var drafters, prompts, temperatures []string
	add := func(list *[]string, name string) {
		if !slices.Contains(*list, name) {
			*list = append(*list, name)
		}
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Drafter != Plain {
			add(&drafters, row.Drafter)
		}
		add(&prompts, row.Prompts)
		add(&temperatures, temperatureName(row.Temperature))
	}
	if len(drafters) == 0 {
		return "Speculative decoding: nothing was compared"
	}
	if len(temperatures) > 2 {
		temperatures = []string{fmt.Sprintf("%d temperatures", len(temperatures))}
	}
	return fmt.Sprintf("Speculative decoding: drafter %s; %s prompts; %s", enumerate(drafters), enumerate(prompts),
		enumerate(temperatures))
}

// enumerate writes "a", "a and b", "a, b and c".
func enumerate(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " and " + list[len(list)-1]
}

func (r *Report) lead() string {
	s := "Generated by " + r.Model
	if len(r.Drafts) > 0 {
		s += ", drafted by " + strings.Join(r.Drafts, " and ")
	}
	s += fmt.Sprintf(". Threads: %d; kernels: %s; tokens after each prompt: at most %d; timed runs of each: %d.",
		r.Threads, r.SIMD, r.Tokens, r.Repeats)
	if r.Seeds > 1 {
		s += fmt.Sprintf(" Seeds at temperatures above 0: %d.", r.Seeds)
	}
	switch r.Mode {
	case FixedLength.String():
		s += " Every text has that length: end-of-text tokens are never chosen."
	case FixedText.String():
		s += " Every setting writes the same text, whatever the model would have chosen; drafts are accepted where they " +
			"agree with it."
	}
	if !r.Complete {
		s += " The comparison was interrupted: some runs are missing."
	}
	if len(r.Broken) > 0 {
		s += fmt.Sprintf(" %d texts differ from plain decoding's where identity is promised: %s.", len(r.Broken), r.Broken[0])
	}
	return s
}

func (r *Report) tiles() (list []charts.Tile) {
	shown := r.shown()
	if len(shown) == 0 {
		return nil
	}
	for _, row := range shown {
		list = append(list, charts.Tile{Figure: fmt.Sprintf("%.2fx%s", row.Estimate.Value, row.Estimate.Flag()),
			Label: fmt.Sprintf("%s, %s: median speedup over %d prompts; 95 %% interval %.2f to %.2f; %.2f tokens per pass, "+
				"%.0f %% of drafts accepted", row.name(), row.Prompts, row.NPrompts, row.Estimate.Low, row.Estimate.High,
				row.TokensPerPass, 100*row.Acceptance)})
	}
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
		list = append(list, charts.Tile{Figure: fmt.Sprintf("%d of %d", same, promised),
			Label: "texts identical to plain decoding's where that is promised"})
	}
	return list
}

func (row *Row) name() string {
	return row.Drafter + ", " + row.Limits()
}

// group is what is common to the rows of one chart.
type group struct {
	prompts, weights string
	temperature      float32
	kernels          string
}

// groups lists them in order; only the first temperature of each set and weights, unless all is set.
func (r *Report) groups(all bool) (list []group) {
	for _, row := range r.Rows {
		g := group{row.Prompts, row.Weights, row.Temperature, row.Kernels}
		known := slices.ContainsFunc(list, func(x group) bool {
			return x == g || !all && x.prompts == g.prompts && x.weights == g.weights && x.kernels == g.kernels
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
	if g.kernels != "" {
		s += ", " + g.kernels
	}
	return s
}

// of is the row's group.
func (row *Row) of() group { return group{row.Prompts, row.Weights, row.Temperature, row.Kernels} }

// rows of a group without plain decoding.
func (r *Report) rows(g group) (list []*Row) {
	for i := range r.Rows {
		row := &r.Rows[i]
		if row.Drafter != Plain && row.of() == g {
			list = append(list, row)
		}
	}
	return list
}

// swept reports whether the row is one of several that differ in draft length only.
func (r *Report) isSwept(row *Row) bool { return len(r.sweep(row)) > 2 }

// sweep lists the rows that differ from this one in draft length only, this one included. The schedule's own length is
// none of them: it has no place on an axis of lengths.
func (r *Report) sweep(row *Row) (list []*Row) {
	for _, x := range r.rows(row.of()) {
		if x.Drafter == row.Drafter && x.Schedule == row.Schedule && x.Verify == row.Verify &&
			x.Confidence == row.Confidence && (x.DraftMax > 0) == (row.DraftMax > 0) {
			list = append(list, x)
		}
	}
	return list
}

func (r *Report) bySchedule() charts.Section {
	s := charts.Section{
		Title: "Speedup by drafter and schedule",
		Text: "Speedup over plain decoding, the dashed line, on the same prompts. The oracle is no usable schedule: it " +
			"knows which tokens will be accepted. It takes the fewest passes of the target, which need not be the least time.",
	}
	for _, g := range r.groups(false) {
		b := charts.Bars{Unit: "x", Base: 1, Label: "Speedup by drafter and schedule, " + g.caption()}
		rows := slices.DeleteFunc(r.rows(g), r.isSwept)
		kinds := map[string]bool{}
		for _, row := range rows {
			kinds[row.Verify] = true
		}
		color := hues(rows)
		for _, row := range rows {
			name := row.Limits()
			if len(kinds) > 1 {
				name += " " + row.Verify
			}
			last := len(b.Groups) - 1
			if last < 0 || b.Groups[last].Name != row.Drafter {
				b.Groups = append(b.Groups, charts.Group{Name: row.Drafter})
				last++
			}
			b.Groups[last].Bars = append(b.Groups[last].Bars, charts.Bar{
				Name: name, Value: row.Estimate.Value, Low: row.Estimate.Low, High: row.Estimate.High, Color: color(row),
				Tip: fmt.Sprintf("%s, %s: %s; %d prompts; %.0f %% accepted, %.2f tokens per pass", row.name(), row.Verify,
					row.Estimate, row.NPrompts, 100*row.Acceptance, row.TokensPerPass),
			})
		}
		if len(b.Groups) > 0 && (len(b.Groups) > 1 || len(b.Groups[0].Bars) > 1) {
			s.Figures = append(s.Figures, charts.Figure{Caption: g.caption(), SVG: b.SVG()})
		}
	}
	return s
}

// byKernels draws each setting's speed on every kernel set over its speed on the first one.
func (r *Report) byKernels() charts.Section {
	s := charts.Section{
		Title: "Kernel sets, measured in turn",
		Text: "Tokens per second over those of the same setting on the first kernel set, the dashed line. Every run has " +
			"its neighbor on the other kernel sets, and who begins changes: what the machine does meanwhile meets all alike. " +
			"The median over the prompts with its 95 % interval.",
	}
	for _, g := range r.groups(false) {
		if g.kernels != r.Rows[0].Kernels {
			continue // the first set's group draws all
		}
		b := charts.Bars{Unit: "x", Base: 1, Label: "Speed by kernel set, " + g.caption()}
		for i := range r.Rows {
			first := &r.Rows[i]
			if first.of() != g || first.Schedule == oracle {
				continue
			}
			x := charts.Group{Name: "plain decoding"}
			if first.Drafter != Plain {
				x.Name = first.name()
			}
			for j := range r.Rows {
				row, same := &r.Rows[j], first.Setting
				same.Kernels = row.Kernels
				switch {
				case row.Prompts != first.Prompts || row.Setting != same:
				case row == first:
					x.Bars = append(x.Bars, charts.Bar{Name: row.Kernels, Value: 1})
				case row.OverKernels.N > 0:
					x.Bars = append(x.Bars, charts.Bar{Name: row.Kernels, Value: row.OverKernels.Value,
						Low: row.OverKernels.Low, High: row.OverKernels.High, Color: len(x.Bars), Tip: row.OverKernels.String()})
				}
			}
			if len(x.Bars) > 1 {
				b.Groups = append(b.Groups, x)
			}
		}
		if len(b.Groups) > 0 {
			s.Figures = append(s.Figures, charts.Figure{Caption: g.prompts + ", " + temperatureName(g.temperature),
				SVG: b.SVG()})
		}
	}
	return s
}

// byLength draws sweeps of the draft length; for stairs that is the batch size less one.
func (r *Report) byLength() charts.Section {
	s := charts.Section{
		Title: "Speedup by draft length",
		Text: "Measured: the median over the prompts with its 95 % interval; dotted: the formula's value for the " +
			"measured acceptance. For stairs the batch has one row more than a draft has tokens.",
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
			l := charts.Lines{X: "tokens in a draft", Y: "speedup", YUnit: "x", Base: 1}
			if strings.HasPrefix(row.Verify, "stairs") {
				stairs, l.X = 1, "batch size"
			}
			caption := row.Drafter + ", " + g.caption()
			if row.Verify != defaultVerifier(row.Temperature) {
				caption = fmt.Sprintf("%s, %s, %s", row.Drafter, row.Verify, g.caption())
			}
			l.Label = "Speedup by " + l.X + ": " + caption
			measured := charts.Curve{Name: "measured, median and 95 % interval", Color: verifierHues[row.Verify]}
			formula := charts.Curve{Name: "formula", Color: 0, Dashed: true}
			slices.SortFunc(sweep, func(a, b *Row) int { return a.DraftMax - b.DraftMax })
			for _, x := range sweep {
				at := float64(x.DraftMax) + stairs
				measured.Points = append(measured.Points,
					charts.Point{X: at, Y: x.Estimate.Value, Low: x.Estimate.Low, High: x.Estimate.High})
				formula.Points = append(formula.Points, charts.Point{X: at, Y: x.Formula})
			}
			l.Curves = []charts.Curve{measured, formula}
			s.Figures = append(s.Figures, charts.Figure{Caption: caption, SVG: l.SVG()})
		}
	}
	return s
}

func (r *Report) byTemperature() charts.Section {
	s := charts.Section{
		Title: "Speedup by temperature",
		Text: "The higher the temperature, the fewer drafts are accepted. At 0 all verifiers are greedy; match gives " +
			"plain decoding's text at every temperature, rejection and block one of the same distribution.",
	}
	for _, g := range r.groups(false) {
		var temperatures []float32
		type line struct{ drafter, schedule, verify string }
		var lines []line
		drawn := map[line]*Row{} // the first row of each: its curve is of that draft length and confidence
		for i := range r.Rows {
			row := &r.Rows[i]
			if row.Prompts != g.prompts || row.Weights != g.weights || row.Kernels != g.kernels || row.Drafter == Plain ||
				row.Schedule == oracle || r.isSwept(row) {
				continue
			}
			if !slices.Contains(temperatures, row.Temperature) {
				temperatures = append(temperatures, row.Temperature)
			}
			if n := (line{row.Drafter, row.Schedule, row.Verify}); row.Temperature > 0 && drawn[n] == nil {
				lines, drawn[n] = append(lines, n), row
			}
		}
		if len(temperatures) < 3 {
			continue
		}
		byDrafter := map[string]*charts.Lines{}
		var drafters []string
		kinds := map[string]bool{}
		for _, n := range lines {
			kinds[n.verify] = true
		}
		for _, n := range lines {
			name, own := n.drafter, drawn[n]
			if len(kinds) > 1 { // hues tell verifiers apart, so each schedule has a chart of its own
				name += ", " + own.Limits()
			}
			l := byDrafter[name]
			if l == nil {
				l = &charts.Lines{X: "temperature", Y: "speedup", YUnit: "x", Base: 1, Wide: true,
					Label: "Speedup by temperature with " + name}
				byDrafter[name] = l
				drafters = append(drafters, name)
			}
			c := charts.Curve{Name: n.verify, Color: verifierHues[n.verify]}
			if len(kinds) == 1 {
				c = charts.Curve{Name: own.Limits(), Color: scheduleHues[n.schedule]}
			}
			fits := func(row *Row, verify string) bool {
				return row.Prompts == g.prompts && row.Weights == g.weights && row.Kernels == g.kernels &&
					row.Drafter == n.drafter && row.Schedule == n.schedule && row.DraftMax == own.DraftMax &&
					row.Confidence == own.Confidence && row.Verify == verify
			}
			atZero := false // this verifier was run at 0 itself
			for i := range r.Rows {
				atZero = atZero || r.Rows[i].Temperature == 0 && fits(&r.Rows[i], n.verify)
			}
			for i := range r.Rows {
				row := &r.Rows[i]
				if fits(row, n.verify) || !atZero && row.Temperature == 0 && fits(row, "greedy") {
					c.Points = append(c.Points, charts.Point{
						X: float64(row.Temperature), Y: row.Estimate.Value, Low: row.Estimate.Low, High: row.Estimate.High})
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
			if g.kernels != "" {
				caption += ", " + g.kernels
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

// acceptance plots the accepted share by the place in the draft.
func (r *Report) acceptance() charts.Section {
	s := charts.Section{
		Title: "Accepted by position",
		Text: "Share of the rounds that accepted a draft's 1st, 2nd, ... token, of those that drafted it; places that " +
			"fewer than 5 rounds drafted are left out. A later token can be accepted only where all before it are.",
	}
	for _, g := range r.groups(false) {
		l := charts.Lines{X: "position in the draft", Y: "accepted", YUnit: " %",
			Label: "Acceptance by position in the draft, " + g.caption()}
		for _, row := range r.rows(g) {
			if row.Schedule == oracle || r.isSwept(row) || row.Verify != defaultVerifier(row.Temperature) ||
				len(l.Curves) == charts.Colors {
				continue
			}
			c := charts.Curve{Name: row.name(), Color: len(l.Curves)}
			for i, x := range row.shares() {
				c.Points = append(c.Points, charts.Point{X: float64(i + 1), Y: 100 * x})
			}
			if len(c.Points) > 1 {
				l.Curves = append(l.Curves, c)
			}
		}
		if len(l.Curves) > 0 {
			s.Figures = append(s.Figures, charts.Figure{Caption: g.caption(), SVG: l.SVG()})
		}
	}
	return s
}

// draftLengths plots the draft lengths by round, beside the oracle's.
func (r *Report) draftLengths() charts.Section {
	s := charts.Section{
		Title: "Tokens drafted, round by round",
		Text: "The mean over the texts that had such a round, where there are at least 5; the band is between the " +
			"quartiles of the oracle's drafts. A good schedule follows the oracle, which drafts what will be accepted, " +
			"as far as drafting costs little.",
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
				if row.Drafter != d || r.isSwept(row) || row.Verify != defaultVerifier(row.Temperature) {
					continue
				}
				c := charts.Curve{Name: row.Limits(), Color: scheduleHues[row.Schedule], Dashed: row.Schedule == oracle}
				for _, at := range row.Lengths {
					if at.Texts < fewPrompts { // the rest is of a few long texts
						break
					}
					p := charts.Point{X: float64(at.Round), Y: at.Mean, Tip: fmt.Sprintf("%s, round %d: %.1f tokens over %d "+
						"texts, quartiles %.1f to %.1f", row.Schedule, at.Round, at.Mean, at.Texts, at.Low, at.High)}
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

// passes plots passes of the target over passes of the draft model.
func (r *Report) passes() charts.Section {
	s := charts.Section{
		Title: "Passes, compared with the oracle's",
		Text:  "Fewer passes of target and draft are better: towards the lower left corner.",
	}
	for _, g := range r.groups(false) {
		l := charts.Lines{X: "passes of the draft model", Y: "passes of the target",
			Label: "Passes of target and draft, " + g.caption()}
		rows := r.rows(g)
		color := hues(rows)
		for _, row := range rows {
			if row.Drafter != "model" || r.isSwept(row) || row.DraftPasses == 0 || strings.HasPrefix(row.Verify, "stairs") {
				continue
			}
			name := row.Limits()
			if row.Verify != "greedy" && row.Verify != "match" {
				name += " " + row.Verify
			}
			l.Curves = append(l.Curves, charts.Curve{Name: name, Color: color(row), Spots: true, Points: []charts.Point{{
				X: float64(row.DraftPasses), Y: float64(row.TargetPasses),
				Tip: fmt.Sprintf("%s: %d passes of the target, %d of the draft", name, row.TargetPasses, row.DraftPasses),
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
	s := charts.Section{Title: "Every run", Text: "The time of each run on one prompt; boxes are between the " +
		"quartiles, the line is the median."}
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
			if row.of() != g || row.NPrompts != 1 || row.NRuns < 10 || row.Schedule == oracle {
				continue
			}
			switch stairs := strings.HasPrefix(row.Verify, "stairs"); {
			case row.Drafter == Plain:
				add(row, "plain", 0)
			case stairs && row.DraftMax == 6:
				add(row, row.Verify+", batch 7", verifierHues[row.Verify])
			case !stairs && !r.isSwept(row):
				add(row, row.Drafter+" "+row.Schedule, scheduleHues[row.Schedule])
			}
		}
		if len(b.Boxes) > 1 {
			s.Figures = append(s.Figures, charts.Figure{Caption: g.caption(), SVG: b.SVG()})
		}
	}
	return s
}

func (r *Report) pageTable() charts.Table {
	t := charts.Table{Title: "All figures", Left: 4, Head: []string{"prompts"}}
	for _, c := range columns {
		t.Head = append(t.Head, c.Head)
	}
	for i := range r.Rows {
		row := &r.Rows[i]
		name := row.Prompts + ", " + strings.Replace(temperatureName(row.Temperature), "temperature", "T", 1)
		if row.Weights != "" {
			name += ", " + row.Weights
		}
		if row.Kernels != "" {
			name += ", " + row.Kernels
		}
		t.Rows = append(t.Rows, append([]string{name}, row.cells()...))
	}
	return t
}
