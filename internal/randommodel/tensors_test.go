package randommodel

import (
	"bytes"
	"testing"

	"github.com/specgo/spec/gguf"
)

// TestKeptTensors: a tensor that was drawn before has the same numbers again, and one that differs in anything that
// determines them has its own.
func TestKeptTensors(t *testing.T) {
	numbers := func(s gguf.TensorSource) string {
		var b bytes.Buffer
		if err := s.Write(&b); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	const seed = 901 // of no other test
	first := numbers(Tensor(seed, "kept", 0, 1, 4, 2))
	if again := numbers(Tensor(seed, "kept", 0, 1, 4, 2)); again != first || len(first) != 32 {
		t.Errorf("%d bytes, then %d others", len(first), len(again))
	}
	for name, other := range map[string]gguf.TensorSource{
		"seed": Tensor(seed+1, "kept", 0, 1, 4, 2), "name": Tensor(seed, "other", 0, 1, 4, 2),
		"mean": Tensor(seed, "kept", 1, 1, 4, 2), "spread": Tensor(seed, "kept", 0, 2, 4, 2),
	} {
		if numbers(other) == first {
			t.Errorf("another %s: the same numbers", name)
		}
	}
	if dims := Tensor(seed, "kept", 0, 1, 2, 4).Dims; dims[0] != 2 || dims[1] != 4 {
		t.Errorf("dims %v", dims)
	}
}
