// Package compare runs settings of speculative decoding on the same prompts and reports for each its
// speedup over plain decoding, what it drafted, what was accepted, and the passes of an oracle for
// comparison. It knows nothing of flags and files: cmd/spec opens the models.
//
// plan.go defines what is run, run.go runs it, row.go computes the figures, table.go and page.go
// show them.
package compare

import (
	"fmt"
	"slices"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

// A Setting is one way to decode.
type Setting struct {
	Weights     string  `json:"weights"`     // "": as in the file
	Temperature float32 `json:"temperature"` // 0: greedy
	Drafter     string  `json:"drafter"`     // Plain for plain decoding; then the three below are empty
	Schedule    string  `json:"schedule"`
	Verify      string  `json:"verify"`
	DraftMax    int     `json:"draft_max"` // 0: the schedule's own
	// below which constant, heuristic and dynamic end a draft; 0: the schedule's own
	Confidence float32 `json:"draft_p_min"`
	// how drafts are sampled at a temperature above 0: "greedy", "shared", "q"; "": as suits the verifier
	Drafts string `json:"-"`
	// the kernel set that computes it, "" for the machine's best one
	Kernels string `json:"kernels"`
}

// Names with a special meaning.
const (
	Plain  = "none"   // the drafter of plain decoding
	oracle = "oracle" // the schedule that knows plain decoding's text
)

// Plan is what to run: every setting on every prompt of every set.
type Plan struct {
	Sets     []Set
	Settings []Setting
	Sampling engine.Sampling // its temperature is the setting's
	Tokens   int             // most tokens to generate after a prompt
	Repeats  int             // timed runs of each setting on each prompt
	Warmup   int             // runs on the first prompt before them, not timed

	// Seeds is how many seeds each prompt is continued with at a temperature above 0, from Sampling.Seed on; 0 is 1.
	Seeds int
	Mode  Mode
}

// Mode says what is the same in all texts of a prompt.
type Mode int

const (
	Free        Mode = iota // nothing: a text ends where the model ends it, after Plan.Tokens at most
	FixedLength             // the length: end-of-text tokens are never chosen
	// the text: every setting writes the same tokens, the prompt's own continuation or else plain decoding's with the
	// first weights. Drafts are accepted where they agree with it, whatever the target would have chosen
	FixedText
)

func (m Mode) String() string { return []string{"free", "fixed length", "fixed text"}[m] }

// Matrix lists choices that are combined, each with each. Verifiers that do not go with a
// temperature, or with the oracle, are left out of the product.
type Matrix struct {
	Weights      []string
	Temperatures []float32
	Drafters     []string
	Schedules    []string
	Verifiers    []string // "": greedy at temperature 0, match above
	DraftMax     []int
	Confidence   []float32
	Kernels      []string // measured in turn, run by run; nil: the machine's best
}

// Settings is the product, without plain decoding.
func (m Matrix) Settings() (list []Setting) {
	kernels := m.Kernels
	if len(kernels) == 0 {
		kernels = []string{""}
	}
	for _, k := range kernels {
		for _, s := range m.onOne() {
			s.Kernels = k
			list = append(list, s)
		}
	}
	return list
}

// onOne is the product without the kernels.
func (m Matrix) onOne() (list []Setting) {
	for _, w := range m.Weights {
		for _, t := range m.Temperatures {
			for _, d := range m.Drafters {
				for _, v := range m.Verifiers {
					for _, s := range m.Schedules {
						for _, k := range m.DraftMax {
							for _, c := range m.Confidence {
								x := Setting{Weights: w, Temperature: t, Drafter: d, Schedule: s, Verify: v, DraftMax: k, Confidence: c}
								if x.Verify == "" {
									x.Verify = defaultVerifier(t)
								}
								if s == oracle || s == "auto" {
									x.DraftMax, x.Confidence = 0, 0
								}
								if x.valid() && !slices.Contains(list, x) {
									list = append(list, x)
								}
							}
						}
					}
				}
			}
		}
	}
	return list
}

// defaultVerifier is the decoder's own verifier at a temperature.
func defaultVerifier(temperature float32) string {
	if temperature > 0 {
		return "match"
	}
	return "greedy"
}

// valid reports whether the setting can be run: the greedy verifier refuses a temperature, and an oracle
// knows the text only where it is plain decoding's.
func (s Setting) valid() bool {
	switch {
	case s.Verify == "greedy" && s.Temperature > 0:
		return false
	case s.Schedule == oracle:
		return speculative.SameText(s.Verify)
	}
	return true
}

// plain is what the setting is compared with.
func (s Setting) plain() Setting {
	return Setting{Weights: s.Weights, Temperature: s.Temperature, Drafter: Plain, Kernels: s.Kernels}
}

// oracle is the oracle for the setting's drafter.
func (s Setting) oracle() Setting {
	return Setting{Weights: s.Weights, Temperature: s.Temperature, Drafter: s.Drafter, Schedule: oracle,
		Verify: defaultVerifier(s.Temperature), Drafts: s.Drafts, Kernels: s.Kernels}
}

// String is a short name of the setting.
func (s Setting) String() string {
	if s.Drafter == Plain {
		return "plain" + s.on()
	}
	name := s.Drafter + " " + s.Limits() + " " + s.Verify
	if s.Drafts != "" {
		name += " drafts " + s.Drafts
	}
	return name + s.on()
}

// on names the kernels, where they were chosen.
func (s Setting) on() string {
	if s.Kernels == "" {
		return ""
	}
	return " on " + s.Kernels
}

// Limits is the schedule's name with its draft length and confidence, where they are not its own.
func (s Setting) Limits() string {
	name := s.Schedule
	if s.DraftMax > 0 {
		name += fmt.Sprint(" ", s.DraftMax)
	}
	if s.Confidence > 0 {
		name += fmt.Sprint(" p", s.Confidence)
	}
	return name
}

// DraftLongest bounds drafts where the schedule does not.
const DraftLongest = 32

// options are a decoder's; text is prompt and plain continuation, for the oracle.
func (s Setting) options(text []int32) (o speculative.Options, err error) {
	drafts, err := speculative.ParseDraftSampling(s.Drafts)
	if err != nil {
		return o, err
	}
	c := speculative.Choice{
		Schedule: s.Schedule, Verify: s.Verify, Max: s.DraftMax, Confidence: s.Confidence, Sampling: drafts,
	}
	return c.Options(speculative.Parts{Text: text})
}
