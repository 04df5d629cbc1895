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
