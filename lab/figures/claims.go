package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/specgo/spec/internal/compare"
	"github.com/specgo/spec/speculative"
)

// A claim is one that a publication makes. The result is the measured part; whether it is reproduced is a judgment of
// the results in the repository, to be read again when they are measured anew.
type claim struct {
	id, text, run string // the id as in shared/papers.md: its letter is the publication's
	result        func(*report) string
	verdict, why  string
}

// sources are the publications by the letter of their claims.
var sources = map[byte]string{'A': "Gante 2023", 'B': "Mamou et al. 2024", 'C': "Grigaliunas, Lukosevicius 2024",
	'D': "Leviathan et al., Chen et al. 2023"}

// claims of the publications, with what was run here.
func (r *report) claims() string {
	m := markdown{head: []string{"claim", "source", "run here", "result", "reproduced", "why"}}
	for _, c := range claimList {
		result := ""
		if c.result != nil {
			if result = c.result(r); result == "" {
				result = "not in these results"
			}
		}
		m.add("**"+c.id+"** "+c.text, sources[c.id[0]], c.run, result, c.verdict, c.why)
	}
	return m.String()
}

// onEach is a figure on each column that has one, with the column's name.
func onEach(f func(view) string) func(*report) string {
	return func(r *report) string {
		var list []string
		for _, v := range r.views {
			if s := f(v); s != "" {
				list = append(list, r.name(v)+": "+s)
			}
		}
		return strings.Join(list, "; ")
	}
}

// speedup of a setting on each column.
func speedup(experiment, set string, temperature float32, names ...string) func(*report) string {
	return onEach(func(v view) string {
		var list []string
		for _, name := range names {
			x, ok := v.row(experiment, set, temperature, name)
			if !ok {
				return ""
			}
			list = append(list, x.Estimate.String())
		}
		return strings.Join(list, " / ")
	})
}

// passCost is the cost of a pass on each column.
func passCost(kind string, tokens int, format string, f func(v view, ratio, seconds, perSecond float64) float64) func(
	*report) string {
	return onEach(func(v view) string {
		for _, row := range v.passes() {
			if row.Kind == kind && row.Tokens == tokens {
				return fmt.Sprintf(format, f(v, row.RatioToDecode, row.PassSeconds, row.TokensPerSecond))
			}
		}
		return ""
	})
}

// totals are passes of the target and the draft model over all code prompts.
func totals(names ...string) func(*report) string {
	return func(r *report) string {
		v, ok := r.first("counts")
		if !ok {
			return ""
		}
		var list []string
		for _, s := range names {
			if x, ok := v.row("counts", code, 0, settingName("model", s, "greedy", 0)); ok {
				list = append(list, fmt.Sprintf("%d / %d", x.sum(func(r run) int { return r.Target }),
					x.sum(func(r run) int { return r.Draft })))
			}
		}
		return strings.Join(list, ", ")
	}
}

// perPassAt are tokens in a pass at temperatures, with greedy drafts and with drafts that share the noise.
func perPassAt(temperatures ...float32) func(*report) string {
	return func(r *report) string {
		v, ok := r.first("temperatures")
		if !ok {
			return ""
		}
		s := "tokens in a pass by temperature"
		for _, how := range studied[:2] {
			var list []string
			for _, t := range temperatures {
				if x, ok := v.row("temperatures", code, t, studiedName(how, t)); ok {
					list = append(list, fmt.Sprintf("%v: %s", t, x.perPassEstimate()))
				}
			}
			if len(list) > 1 { // at 0 all are the same
				s += "; " + studiedText(how) + ": " + strings.Join(list, ", ")
			}
		}
		return s
	}
}

// confirmed is how a receipt was checked.
func confirmed(r *report) string {
	return onEach(func(v view) string {
		for _, c := range v.cells {
			if x := c.Receipt; x != nil && c.Column == v.column && c.Disturbed == "" && x.Confirm > 0 {
				return fmt.Sprintf("%d sampled tokens in %d passes, %.1f times as fast as writing; %d of %d changed texts refused",
					x.Tokens, x.Passes, x.Writing/x.Confirm, x.Refused, x.Tampered)
			}
		}
		return ""
	})(r)
}

// stairsGain are the changes of the time to plain decoding with the heuristic schedule and with stairs in its forms.
func stairsGain(r *report) string {
	return onEach(func(v view) string {
		plain := compare.Median(v.timesOf("stairs-times", "plain").seconds)
		var list []string
		for i, text := range []string{"", "heuristic ", "stairs, prefixes once ", "rows as one batch ", "every row anew "} {
			experiment := "stairs-times"
			if i == 4 {
				experiment = "stairs-paper"
			}
			if e := compare.EstimateOf(v.timesOf(experiment, stairsTimed[i]).seconds); i > 0 && e.N > 0 && plain > 0 {
				list = append(list, fmt.Sprintf("%s%+.0f %% (%+.0f to %+.0f)", text, 100*(e.Value/plain-1), 100*(e.Low/plain-1),
					100*(e.High/plain-1)))
			}
		}
		return strings.Join(list, ", ")
	})(r)
}

// identical counts the texts that had to be plain decoding's.
func identical(r *report) string {
	same, all := 0, 0
	for _, f := range r.files {
		for _, c := range f.cells {
			for _, x := range c.Runs {
				name, _, _ := strings.Cut(x.Setting, " drafts ")
				verify := name[strings.LastIndexByte(name, ' ')+1:]
				if x.Setting == "plain" || !speculative.SameText(verify) {
					continue
				}
				all++
				if !x.Differs {
					same++
				}
			}
			for _, x := range c.Series {
				if x.Setting != "plain" {
					all += len(x.Seconds)
					if !x.Differs {
						same += len(x.Seconds)
					}
				}
			}
		}
	}
	return fmt.Sprintf("%d of %d texts", same, all)
}

// bestBatch is the number of rows with the greatest speedup.
func bestBatch(r *report) string {
	return onEach(func(v view) string {
		var list []string
		for i, form := range stairsForms {
			best, most, least := 0, 0.0, 0.0
			for _, b := range batches {
				if x, ok := v.row("stairs", code, 0, settingName("model", "constant", form, b-1)); ok {
					if x.Value > most {
						best, most = b, x.Value
					}
					if least == 0 || x.Value < least {
						least = x.Value
					}
				}
			}
			if best > 0 {
				list = append(list, fmt.Sprintf("%s: best %d rows (%.2f), least %.2f", stairsTexts[i], best, most, least))
			}
		}
		return strings.Join(list, "; ")
	})(r)
}

// overF16 is plain decoding's speed with 8-bit weights over 16-bit ones.
func overF16(r *report) string {
	return onEach(func(v view) string {
		name := settingName("model", "heuristic", "greedy", 0)
		a, ok := v.row("weights-q8_0", code, 0, name)
		b, ok2 := v.row("weights-f16", code, 0, name)
		if !ok || !ok2 || b.plain == 0 {
			return ""
		}
		return fmt.Sprintf("plain decoding %.2f times as fast; assistance gains %s with 8 bits, %s with 16", a.plain/b.plain,
			a.Estimate, b.Estimate)
	})(r)
}

// bySize are the speedups of the smallest, the usual and the largest draft model.
func bySize(r *report) string {
	return onEach(func(v view) string {
		var list []string
		for _, size := range sizes() {
			if x, ok := v.row(size, code, 0, settingName("model", "auto", "greedy", 0)); ok {
				list = append(list, fmt.Sprintf("1/%.0f: %s", targetMillions/millions(size), x.Estimate))
			}
		}
		return strings.Join(list, ", ")
	})(r)
}

// bySet are the speedups of tree on the kinds of prompts.
func bySet(r *report) string {
	return onEach(func(v view) string {
		var list []string
		for _, set := range allSets {
			if x, ok := v.row("drafters", set, 0, settingName("tree", "auto", "greedy", 0)); ok {
				list = append(list, setNames[set]+" "+x.Estimate.String())
			}
		}
		return strings.Join(list, ", ")
	})(r)
}

// lengthsOfOracle says how its draft lengths vary.
func lengthsOfOracle(r *report) string {
	v, ok := r.first("counts")
	if !ok {
		return ""
	}
	x, ok := v.row("counts", code, 0, settingName("model", "oracle", "greedy", 0))
	if !ok {
		return ""
	}
	var all []int
	for _, r := range x.runs {
		all = append(all, r.Lengths...)
	}
	slices.Sort(all)
	if len(all) == 0 {
		return ""
	}
	return fmt.Sprintf("quartiles %d, %d and %d tokens, longest %d", all[len(all)/4], all[len(all)/2], all[3*len(all)/4],
		all[len(all)-1])
}

func twoDigits(x float64) string { return fmt.Sprintf("%.2g", x) }

func percent(a, b int) string { return fmt.Sprintf("%.0f %%", 100*ratio(a, b)) }
