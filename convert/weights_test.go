package convert

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestPartsWithoutIndex: a model in several files whose index was not fetched is read where all files are there.
func TestPartsWithoutIndex(t *testing.T) {
	s, config := llamaSource(t, "LlamaForCausalLM")
	s.file("config.json", config)
	part := func(i int) string { return filepath.Join(s.dir, fmt.Sprintf("model-%05d-of-00003.safetensors", i+1)) }
	all := s.tensors
	for i := range 3 {
		s.tensors = map[string][]int{}
		for k, name := range slices.Sorted(maps.Keys(all)) {
			if k%3 == i {
				s.tensors[name] = all[name]
			}
		}
		s.weights()
		if err := os.Rename(filepath.Join(s.dir, "model.safetensors"), part(i)); err != nil {
			t.Fatal(err)
		}
	}
	s.file("model-00001-of-00003.safetensors.index.json", "{}") // not one of them
	m, err := Open(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	if m.Close(); m.From != "model-00001-of-00003.safetensors (files: 3)" || len(m.targets) != len(all) {
		t.Errorf("%d tensors from %s", len(m.targets), m.From)
	}
	for i, want := range []string{"model-00001-of-00003.safetensors is not there",
		"model-00002-of-00003.safetensors is not there",
		"the last part behind model-00002-of-00003.safetensors is not there"} {
		aside := filepath.Join(t.TempDir(), "x")
		if err := os.Rename(part(i), aside); err != nil {
			t.Fatal(err)
		}
		s.refused(want, []string{want})
		if err := os.Rename(aside, part(i)); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTensorsWithoutElements: a tensor of which a dimension is 0, as the format allows, is refused by its name where
// the model needs it, and nothing depends on it where not.
func TestTensorsWithoutElements(t *testing.T) {
	for name, c := range map[string]struct {
		tensor string
		shape  []int
		want   string
	}{
		"nobody's":           {"model.layers.0.extra.weight", []int{0}, ""},
		"nobody's of two":    {"model.layers.0.extra.weight", []int{1 << 30, 0}, ""},
		"one that is needed": {"model.norm.weight", []int{0}, "model.norm.weight: shape [0], [1 8] expected"},
		"a needed matrix":    {"lm_head.weight", []int{0, 8}, "lm_head.weight: shape [0 8]"},
		"less than nothing":  {"model.layers.0.extra.weight", []int{0, -1}, "model.layers.0.extra.weight: shape [0 -1]"},
	} {
		s, config := llamaSource(t, "LlamaForCausalLM")
		s.tensors[c.tensor] = c.shape
		s.file("config.json", config)
		s.weights()
		if c.want != "" {
			s.refused(name, []string{c.want})
			continue
		}
		converted(t, s.dir, Options{})
	}
}
