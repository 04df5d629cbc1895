package engine

import (
	"errors"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// TestLing3Refused: keys that say another arithmetic than that of Ling 3, and tensors of another form, are refused by
// name.
func TestLing3Refused(t *testing.T) {
	const name = "bailingmoe3"
	a := askedModels()[name]
	tensors := a.tensors(t, name)
	one, two := "blk.2.attn_kv_b.weight", "blk.4.layer_output_norm.weight"
	for _, x := range []struct {
		keys      modelKeys
		add, drop string
		mtp       bool
		want      error
		says      string
	}{
		{keys: modelKeys{"kda.safe_gate": false}, want: ErrUnsupported, says: "kda.safe_gate"},
		{keys: modelKeys{"kda.gate_lower_bound": float32(0)}, want: ErrValue, says: "kda.gate_lower_bound"},
		{keys: modelKeys{"kda.gate_lower_bound": float32(5)}, want: ErrValue, says: "kda.gate_lower_bound"},
		{keys: modelKeys{"kda.gate_lower_bound": float32(math.Inf(-1))}, want: ErrValue, says: "kda.gate_lower_bound"},
		{keys: modelKeys{"kda.gate_lower_bound": float32(math.NaN())}, want: ErrValue, says: "kda.gate_lower_bound"},
		{keys: modelKeys{"kda.gate_lower_bound": nil}, want: gguf.ErrMissing, says: "kda.gate_lower_bound"},
		{keys: modelKeys{"kda.mystery": float32(1)}, want: ErrUnsupported, says: "kda.mystery"},
		{keys: modelKeys{"expert_count": uint32(0)}, want: ErrValue, says: "expert_count"},
		{keys: modelKeys{"expert_gating_func": nil}, want: gguf.ErrMissing, says: "expert_gating_func"},
		{add: one, want: ErrUnsupported, says: one},
		{drop: two, mtp: true, want: ErrMissing, says: two},
		{keys: modelKeys{"nextn_predict_layers": uint32(2)}, mtp: true, want: ErrUnsupported, says: "2 MTP blocks"},
	} {
		keys := a.all()
		maps.Copy(keys, x.keys)
		maps.DeleteFunc(keys, func(_ string, v gguf.Value) bool { return v == nil })
		var list []gguf.TensorSource
		for _, s := range tensors {
			if s.Name != x.drop {
				list = append(list, s)
			}
		}
		if x.add != "" {
			list = append(list, randommodel.Tensor(1, x.add, 0, 1, 24, 4*(16+20)))
		}
		file := headerOf(t, a.kvs(keys), list, name)
		m, err := header(file, Options{})
		if x.mtp && err == nil {
			_, err = header(file, Options{MTP: true, Target: m})
		}
		if !errors.Is(err, x.want) || !strings.Contains(err.Error(), x.says) || !strings.Contains(err.Error(), name) {
			t.Errorf("%v %s %s: %v", x.keys, x.add, x.drop, err)
		}
	}
}
