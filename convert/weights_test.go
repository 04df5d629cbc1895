package convert

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// TestEachByteIsOfOneTensor: as the format says, no two tensors share bytes, and there are none that no tensor has.
func TestEachByteIsOfOneTensor(t *testing.T) {
	for name, c := range map[string]struct {
		from [3]int // of tensors x, y and z of 4 numbers, 0 and 2
		data int
		want string
	}{
		"all":       {[3]int{0, 16, 16}, 24, ""},
		"any order": {[3]int{8, 8, 0}, 24, ""},
		"the same":  {[3]int{0, 0, 0}, 16, "tensor x: data_offsets [0 16], which tensor z has in part, at [0 8]"},
		"in part":   {[3]int{0, 0, 8}, 16, "tensor z: data_offsets [8 16], which tensor x has in part, at [0 16]"},
		"a hole":    {[3]int{0, 16, 20}, 28, "bytes 16 to 20 of the data are of no tensor"},
		"in front":  {[3]int{8, 8, 24}, 32, "bytes 0 to 8 of the data are of no tensor"},
		"behind":    {[3]int{0, 16, 16}, 25, "bytes 24 to 25 of the data are of no tensor"},
	} {
		entries := map[string]any{}
		for i, size := range []int{4, 0, 2} {
			entries[string(rune('x'+i))] = map[string]any{"dtype": "F32", "shape": []int{size},
				"data_offsets": []int{c.from[i], c.from[i] + 4*size}}
		}
		h, _ := json.Marshal(entries)
		err := readHeader(t, h, c.data)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// TestHeaderSaysEachThingOnce: of two entries of one name, or two types of one tensor, there is none that counts.
func TestHeaderSaysEachThingOnce(t *testing.T) {
	for h, want := range map[string]string{
		`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}   `: "",
		`{"x":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"x":{"dtype":"F16","shape":[2],"data_offsets":[0,4]}}`: "" +
			`"x" stands twice`,
		`{"x":{"dtype":"F16","dtype":"BF16","shape":[2],"data_offsets":[0,4]}}`: `tensor x: at byte 22: "dtype" stands twice`,
	} {
		if err := readHeader(t, []byte(h), 4); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(),
			want) {
			t.Errorf("%s: %v, want %q", h, err, want)
		}
	}
}

// readHeader reads a safetensors file of a header and some bytes of data.
func readHeader(t *testing.T, header []byte, data int) error {
	file, err := os.Create(filepath.Join(t.TempDir(), "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	all := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	all = append(all, make([]byte, data)...)
	if _, err := file.Write(all); err != nil {
		t.Fatal(err)
	}
	return (&weights{tensors: map[string]stored{}}).safetensors(file, int64(len(all)))
}
