package speculative

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// nameTable is a table of what may be chosen by name, as documents have it.
func nameTable[T any](field string, list []Named[T]) string {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s | |\n|---|---|\n", field)
	for _, n := range list {
		if !n.Study {
			fmt.Fprintf(&b, "| `%s` | %s |\n", n.Name, n.About)
		}
	}
	return b.String()
}

// TestNamesAreDocumented: the tables of drafters, schedules and verifiers in the documents are the lists'.
// SPEC_UPDATE=1 writes them.
func TestNamesAreDocumented(t *testing.T) {
	for file, fields := range map[string][3]string{
		"docs/SPECULATION.md": {"`--drafter`", "`--schedule`", "`--verify`"},
		"docs/SERVER.md":      {"`drafter`", "`schedule`", "`verify`"},
	} {
		testkit.Printed(t, file, "names", strings.Join([]string{
			nameTable(fields[0], Drafters()), nameTable(fields[1], Schedules()), nameTable(fields[2], Verifiers()),
		}, "\n"))
	}
}

// TestChoiceMakesWhatItNames: names and numbers give the schedules and verifiers of the papers, with a bound on the
// length, not another beginning; what nobody chose goes with what somebody did.
func TestChoiceMakesWhatItNames(t *testing.T) {
	for c, want := range map[Choice]Schedule{
		{}:                                             Auto(AutoOptions{}),
		{Schedule: "constant"}:                         Constant(ConstantOptions{Length: 5}),
		{Schedule: "constant", Max: 9}:                 Constant(ConstantOptions{Length: 9}),
		{Schedule: "constant", Confidence: 0.5}:        Constant(ConstantOptions{Length: 5, MinConfidence: 0.5}),
		{Schedule: "constant", Confidence: -1}:         Constant(ConstantOptions{Length: 5}),
		{Schedule: "heuristic"}:                        Heuristic(HeuristicOptions{Length: 5}),
		{Schedule: "heuristic", Max: 8}:                Heuristic(HeuristicOptions{Length: 5}),
		{Schedule: "heuristic", Max: 3}:                Heuristic(HeuristicOptions{Length: 3}),
		{Schedule: "dynamic"}:                          Dynamic(DynamicOptions{Length: 20, MinConfidence: 0.4}),
		{Schedule: "dynamic", Confidence: -1}:          Dynamic(DynamicOptions{Length: 20, MinConfidence: -1}),
		{Schedule: "dynamic", Max: 8, Confidence: 0.7}: Dynamic(DynamicOptions{Length: 8, MinConfidence: 0.7}),
		{Verify: "stairs"}:                             Constant(ConstantOptions{Length: 5}),
		{Verify: "stairs", Schedule: "dynamic"}:        Dynamic(DynamicOptions{}),
	} {
		o, err := c.Options(Parts{})
		if _, learns := want.(*auto); err != nil || reflect.TypeOf(o.Schedule) != reflect.TypeOf(want) || !learns &&
			!reflect.DeepEqual(o.Schedule, want) {
			t.Errorf("%+v: %+v, %v, want %+v", c, o.Schedule, err, want)
		}
		if o.DraftMax != c.Max {
			t.Errorf("%+v: at most %d", c, o.DraftMax)
		}
	}
	for name, want := range map[string]Verifier{
		"greedy": Greedy(), "match": Match(), "rejection": Rejection(), "block": Block(),
		"stairs": Stairs(StairsOptions{}), "": nil,
	} {
		if o, err := (Choice{Verify: name}).Options(Parts{}); err != nil || !reflect.DeepEqual(o.Verifier, want) {
			t.Errorf("%q: %+v, %v", name, o.Verifier, err)
		}
	}
	for name, want := range map[string]Drafter{"ngram": NGram(NGramOptions{}), "suffix": Suffix(SuffixOptions{}),
		"none": nil} {
		of, err := Find(Drafters(), name)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := of.New(Parts{}); err != nil || reflect.TypeOf(got) != reflect.TypeOf(want) {
			t.Errorf("%q: %T, %v", name, got, err)
		}
	}
	late := Choice{Drafter: "early-exit", ExitLayer: 3, Schedule: "heuristic", Max: 7}
	for _, x := range []struct{ first, second, want Choice }{
		{Choice{}, late, late},
		{Choice{Drafter: "ngram"}, late, Choice{Drafter: "ngram", Schedule: "heuristic", Max: 7}},
		{Choice{Verify: "stairs"}, late, Choice{
			Drafter: "early-exit", ExitLayer: 3, Verify: "stairs", Schedule: "constant", Max: 7}},
		{Choice{Max: 4}, Choice{Min: 9}, Choice{Max: 4, Min: 4}},
		{Choice{Max: 4, Min: 6}, Choice{Min: 9}, Choice{Max: 4, Min: 6}},
		{Choice{Min: -1}, Choice{Min: 9}, Choice{Min: -1}},               // none
		{Choice{Min: 6}, Choice{Max: 4, Min: 3}, Choice{Max: 4, Min: 6}}, // Check refuses both
	} {
		if got := x.first.Or(x.second); got != x.want {
			t.Errorf("%+v or %+v: %+v, want %+v", x.first, x.second, got, x.want)
		}
	}
	for _, c := range []struct {
		Choice
		field string
	}{
		{Choice{Drafter: "mind"}, "drafter"}, {Choice{Schedule: "oracle"}, "schedule"},
		{Choice{Verify: "stairs-batch"}, "verify"},
		{Choice{Verify: "greedy"}, "verify"}, {Choice{Max: 3, Min: 4}, "min"}, {Choice{Max: MaxDraft + 1}, "max"},
		{Choice{Min: -2}, "min"},
		{Choice{Drafter: "tree", ExitLayer: 1}, "exit_layer"}, {Choice{ExitLayer: -1}, "exit_layer"},
		{Choice{Confidence: 1.5}, "confidence"}, {Choice{Confidence: float32(math.NaN())}, "confidence"},
		{Choice{Sampling: -1}, "sampling"}, {Choice{Sampling: DraftFromQ + 1}, "sampling"},
	} {
		if e := (*ChoiceError)(nil); !errors.As(c.Check(0.5), &e) || e.Field != c.field {
			t.Errorf("%+v: %v", c.Choice, c.Check(0.5))
		}
	}
	if o, err := (Choice{Min: -1}).Options(Parts{}); err != nil || o.DraftMin != 0 {
		t.Errorf("a draft has at least %d tokens, %v", o.DraftMin, err)
	}
	if err := (Choice{Verify: "greedy", Drafter: "early-exit", ExitLayer: 1, Max: 4, Min: 4, Confidence: -1,
		Sampling: DraftFromQ}).Check(0); err != nil {
		t.Error(err)
	}
	if err := (Choice{Drafter: "tree"}).Fits(nil, nil, nil); err == nil {
		t.Error("a tree without a draft model")
	}
}
