package engine

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/tensor"
)

// TestWeightTypes: every type of the format either runs, with the sizes that the format gives it, or is refused by name
// with the tensor's.
func TestWeightTypes(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	refused := map[string]bool{}
	for _, name := range strings.Fields("Q8_1 Q8_K I8 I16 I32 I64 F64") {
		refused[name] = true
	}
	runs := 0
	for typ := gguf.Type(0); typ < 64; typ++ {
		if typ.BlockWeights() == 0 {
			continue
		}
		s := randommodel.Llama()
		s.FF = 256
		const name = "blk.1.ffn_down.weight"
		s.Types = map[string]gguf.Type{name: typ}
		to, err := tensor.ParseType(strings.ToLower(typ.String()))
		if refused[typ.String()] {
			file := s.File(t)
			_, openErr := New(context.Background(), rt, bytes.NewReader(file), int64(len(file)), Options{Name: "bad.gguf"})
			if err == nil || !errors.Is(openErr, ErrWeightType) || !strings.Contains(openErr.Error(), typ.String()) ||
				!strings.Contains(openErr.Error(), name) {
				t.Errorf("%v: %v", typ, openErr)
			}
			continue
		}
		runs++
		if err != nil || to.BlockWeights() != typ.BlockWeights() || to.BlockBytes() != typ.BlockBytes() {
			t.Errorf("%v: %v, blocks of %d weights in %d bytes, the format says %d in %d", typ, err, to.BlockWeights(),
				to.BlockBytes(), typ.BlockWeights(), typ.BlockBytes())
		}
	}
	for to := tensor.Type(0); to.Valid(); to++ {
		runs--
	}
	if runs != 0 {
		t.Errorf("%d more types of files than of tensors", runs)
	}
}
