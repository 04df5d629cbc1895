package compare

import (
	"strings"
	"testing"
)

func TestPrompts(t *testing.T) {
	list, err := ReadPrompts(strings.NewReader(
		"{\"id\":\"a\",\"prompt\":\"x\",\"source\":\"ignored\"}\n\n{\"prompt\":\"y\"}\n{\"id\":7,\"prompt\":\"z\"}"), "F")
	if err != nil || len(list) != 3 || list[0] != (Prompt{ID: "a", Text: "x"}) ||
		list[1] != (Prompt{ID: "3", Text: "y"}) ||
		list[2] != (Prompt{ID: "7", Text: "z"}) {
		t.Errorf("prompts %v, %v", list, err)
	}
	for _, text := range []string{"", "\n", "{", "[]", `{"id":"a"}`, `{"prompt":""}`, `{"prompt":7}`} {
		if _, err := ReadPrompts(strings.NewReader(text), "F.jsonl"); err == nil ||
			!strings.Contains(err.Error(), "F.jsonl") {
			t.Errorf("%q: error %v", text, err)
		}
	}
}

func TestBuiltinSets(t *testing.T) {
	for _, name := range []string{"code", "copy", "open"} {
		if set, ok := Builtin(name); !ok || set.Name != name || len(set.Prompts) != 12 {
			t.Errorf("set %s: %d prompts", name, len(set.Prompts))
		}
	}
	if _, ok := Builtin("../prompts/code"); ok {
		t.Error("a set outside the folder")
	}
}

// The product leaves out what cannot be, names the usual rule, and has nothing twice.
func TestSettings(t *testing.T) {
	m := Matrix{
		Weights: []string{""}, Temperatures: []float32{0, 1}, Drafters: []string{"model"},
		Schedules: []string{"constant", "auto", oracle},
		Verifiers: []string{"", "greedy", "match", "rejection"}, DraftMax: []int{3, 5}, Confidence: []float32{0},
	}
	seen := map[Setting]bool{}
	for _, s := range m.Settings() {
		if seen[s] {
			t.Errorf("%v twice", s)
		}
		seen[s] = true
		if !s.valid() {
			t.Errorf("%v is not valid", s)
		}
		if _, err := s.options(nil); err != nil {
			t.Error(err)
		}
	}
	// At 0: greedy, match, rejection: constant 3 and 5, auto; oracle for two. At 1: match, rejection: likewise, oracle
	// for one.
	if len(seen) != 3*3+2+2*3+1 {
		t.Errorf("%d settings", len(seen))
	}
	if seen[Setting{"", 1, "model", "constant", "greedy", 3, 0, "", ""}] ||
		!seen[Setting{"", 1, "model", "auto", "match", 0, 0, "", ""}] {
		t.Error("wrong settings")
	}
}

func TestPresets(t *testing.T) {
	for _, p := range Presets {
		settings := p.Matrix.Settings()
		if p.Also != nil {
			settings = append(settings, p.Also.Settings()...)
		}
		if len(settings) == 0 || p.Tokens == 0 || p.Repeats == 0 {
			t.Errorf("preset %s is not complete", p.Name)
		}
		for _, name := range p.Sets {
			if _, ok := Builtin(name); !ok {
				t.Errorf("preset %s: no set %s", p.Name, name)
			}
		}
		if q, ok := PresetOf(p.Name); !ok || q.Name != p.Name {
			t.Errorf("preset %s is not found", p.Name)
		}
	}
}

// A report tells a broken promise and where the texts part.
func TestBrokenPromise(t *testing.T) {
	s := Setting{Drafter: "model", Schedule: "auto", Verify: "greedy"}
	x := &experiment{
		plan:  Plan{Sets: []Set{{Name: "code", Prompts: []Prompt{{ID: "p1", Text: "x"}}}}, Settings: []Setting{s}},
		cells: map[key]*cell{},
	}
	x.record(key{s.plain(), 0, 0, 0}, 0, &Timed{IDs: []int32{1, 2, 3}, Seconds: 3, Before: 1, After: 1})
	x.record(key{s, 0, 0, 0}, 0, &Timed{IDs: []int32{1, 5, 3}, Seconds: 1, Before: 1, After: 1})
	r := x.report()
	err := r.Err()
	if err == nil || len(r.Broken) != 1 || !strings.Contains(
		err.Error(), "prompt p1, model auto greedy at temperature 0: token 2 is 5, plain decoding has 2") {
		t.Errorf("error %v", err)
	}
	for _, row := range r.Rows {
		if row.Drafter == "model" && (row.Same || !row.Promised || row.Speedup != 3) {
			t.Errorf("row %+v", row)
		}
	}
}
