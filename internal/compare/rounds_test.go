package compare

import (
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

// testPair opens the embedded target on some kernels.
func testPair(t *testing.T, kernels string) *Pair {
	t.Helper()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1, SIMD: kernels})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rt.Close() })
	file := testdata.Target()
	m, err := engine.New(t.Context(), rt, file, file.Size(), engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	s, err := m.NewSession(engine.SessionOptions{Context: 128})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return &Pair{Target: s, Tokenizer: m.Tokenizer(), Close: func() {},
		Drafter: func(name string) (speculative.Drafter, error) {
			return speculative.Choice{Drafter: name}.NewDrafter(speculative.Parts{})
		}}
}

func settingsOn(kernels string) (list []Setting) {
	for _, schedule := range []string{"constant", "dynamic", "heuristic"} {
		list = append(list, Setting{Drafter: "ngram", Schedule: schedule, Verify: "greedy", Kernels: kernels})
	}
	return list
}

// Kernel sets take turns part by part, and who begins changes with every part: no set is always first, or alone in a
// stretch of time.
func TestKernelSetsTakeTurns(t *testing.T) {
	var benches []*Bench
	for _, k := range []string{"", "scalar"} {
		b, err := NewBench(testPair(t, k), settingsOn(k), Plan{Tokens: 2})
		if err != nil {
			t.Fatal(err)
		}
		benches = append(benches, b)
	}
	for first, want := range []string{
		"best plain, scalar plain; plain, constant, dynamic, best plain, constant, dynamic; " +
			"plain, heuristic, scalar plain, heuristic",
		"scalar plain, best plain; plain, constant, dynamic, scalar plain, constant, dynamic; " +
			"plain, heuristic, best plain, heuristic",
	} {
		var order []string
		last := "?" // the kernel set of the run before, which is not written again
		err := rounds(t.Context(), benches, round{prompt: "x :=", first: first, record: func(s Setting, r *Timed) {
			name := s.Schedule
			if s.Drafter == Plain {
				name = "plain"
			}
			kernels := "best"
			if s.Kernels != "" {
				kernels = s.Kernels
			}
			if kernels != last {
				name = kernels + " " + name
			}
			last = kernels
			order = append(order, name)
			if len(r.IDs) != 2 || r.Before <= 0 || r.After <= 0 {
				t.Errorf("%s: %+v", s, r)
			}
		}})
		if got := strings.Join(order, ", "); err != nil || got != strings.ReplaceAll(want, ";", ",") {
			t.Errorf("%v\n%s\nwant\n%s", err, got, want)
		}
	}
}

// A fixed text is written by every setting, whatever the model would have chosen, and drafts are accepted where they
// agree with it: of a text that repeats itself, an n-gram's.
func TestFixedText(t *testing.T) {
	pair := testPair(t, "")
	const then = " a b c d a b c d a b c d a b c d a b c d"
	b, err := NewBench(pair, settingsOn(""), Plan{Tokens: 64, Mode: FixedText})
	if err != nil {
		t.Fatal(err)
	}
	ids, err := pair.continuation(t.Context(), Prompt{Text: "x :=", Then: then}, b.base, b.plain.plan)
	if err != nil || pair.Tokenizer.Decode(ids) != then {
		t.Fatalf("%v: %q", err, pair.Tokenizer.Decode(ids))
	}
	n := 0
	err = rounds(t.Context(), []*Bench{b}, round{prompt: "x :=", then: ids, record: func(s Setting, r *Timed) {
		n++
		if !slices.Equal(r.IDs, ids) || r.Text != then {
			t.Errorf("%s wrote %q", s, r.Text)
		}
		switch {
		case s.Drafter == Plain && (r.Stats.TargetPasses != len(ids) || r.Stats.Drafted > 0):
			t.Errorf("plain: %+v", r.Stats)
		case s.Drafter != Plain && (r.Stats.Accepted < len(ids)/3 || r.Stats.Accepted > r.Stats.Drafted ||
			r.Stats.TargetPasses*2 >= len(ids)): // drafts of several tokens are kept whole
			t.Errorf("%s: %d of %d accepted in %d passes", s, r.Stats.Accepted, r.Stats.Drafted, r.Stats.TargetPasses)
		}
	}})
	if err != nil || n != 3+3 {
		t.Errorf("%d runs, %v", n, err)
	}
	// Without one it is plain decoding's.
	free, err := NewBench(pair, nil, Plan{Tokens: 8})
	if err != nil {
		t.Fatal(err)
	}
	var plain []int32
	if err := free.Round(t.Context(), "x :=", nil, func(_ Setting, r *Timed) { plain = r.IDs }); err != nil {
		t.Fatal(err)
	}
	if ids, err := pair.continuation(t.Context(), Prompt{Text: "x :="}, b.base,
		Plan{Tokens: 8, Mode: FixedText}); err != nil ||
		!slices.Equal(ids, plain) || len(ids) != 8 {
		t.Errorf("%v: %v, plain decoding's is %v", err, ids, plain)
	}
}

// Drafts end where a fixed text does: what would come behind it is neither right nor wrong.
func TestFixedTextBoundsDrafts(t *testing.T) {
	pair := testPair(t, "")
	b, err := NewBench(pair, settingsOn(""), Plan{Tokens: 64, Mode: FixedText})
	if err != nil {
		t.Fatal(err)
	}
	const prompt = "a b c d a b c d a b c d a b c d"
	ids, err := pair.continuation(t.Context(), Prompt{Text: prompt, Then: " a b c d a b c d"}, b.base, b.plain.plan)
	if err != nil || len(ids) < 3 {
		t.Fatalf("%v: %v", err, ids)
	}
	drafted := 0
	err = rounds(t.Context(), []*Bench{b}, round{prompt: prompt, then: ids[:3], record: func(s Setting, r *Timed) {
		drafted += r.Stats.Drafted
		if !slices.Equal(r.IDs, ids[:3]) || r.Rejected > 0 || r.Stats.Accepted != r.Stats.Drafted {
			t.Errorf("%s wrote %v, %d of %d accepted, %d rejected", s, r.IDs, r.Stats.Accepted, r.Stats.Drafted, r.Rejected)
		}
	}})
	if err != nil || drafted == 0 {
		t.Errorf("%d tokens drafted, %v", drafted, err)
	}
}

// A length that was chosen bounds the drafts of every schedule that has one, also of those that grow.
func TestDraftMaxBoundsDrafts(t *testing.T) {
	const most = 2
	var settings []Setting
	for _, s := range settingsOn("") {
		s.DraftMax = most
		settings = append(settings, s)
	}
	pair := testPair(t, "")
	b, err := NewBench(pair, settings, Plan{Tokens: 64, Mode: FixedText})
	if err != nil {
		t.Fatal(err)
	}
	const prompt = "a b c d a b c d"
	ids, err := pair.continuation(t.Context(), Prompt{Text: prompt, Then: strings.Repeat(" a b c d", 4)}, b.base, Plan{})
	if err != nil {
		t.Fatal(err)
	}
	err = rounds(t.Context(), []*Bench{b}, round{prompt: prompt, then: ids, record: func(s Setting, r *Timed) {
		if s.Drafter != Plain && slices.Max(r.Lengths) != most {
			t.Errorf("%s drafted %v tokens", s, r.Lengths)
		}
	}})
	if err != nil {
		t.Error(err)
	}
}
