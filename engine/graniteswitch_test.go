package engine

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// TestSwitchesOfText: a token that stands for an adapter changes its logits and those behind it, not those in front;
// and is embedded as the token that the file says.
func TestSwitchesOfText(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	a := askedModels()["graniteswitch"]
	logits := func(a askedFor, ids []int32) []float32 {
		m, err := openBytes(t, rt, a.file(t, "graniteswitch"), "switch.gguf", Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		return eval(t, newSession(t, m, SessionOptions{}), ids, nil, All)
	}
	const v = randommodel.Vocab
	plain, chosen := []int32{1, 2, 3, 5, 7, 8}, []int32{1, 2, 3, 33, 7, 8} // 33 is embedded as 5
	without, with := logits(a, plain), logits(a, chosen)
	sameBits(t, "in front of it", with[:3*v], without[:3*v])
	for i := 3; i < len(plain); i++ {
		if off := offBy(with[i*v:(i+1)*v], without[i*v:(i+1)*v]); off < 0.1 {
			t.Errorf("position %d: the adapter moves the logits by %.2g only", i, off)
		}
	}
	other := a.and(modelKeys{"adapters.token_ids_substitute": []int32{9, 60, 12}})
	if off := offBy(logits(other, chosen)[3*v:4*v], with[3*v:4*v]); off < 0.1 {
		t.Errorf("another token in its place moves the logits by %.2g only", off)
	}
}

// TestSwitchesRefused: keys and tensors that contradict each other, or that nothing is known of.
func TestSwitchesRefused(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	a := askedModels()["graniteswitch"]
	for name, x := range map[string]struct {
		keys modelKeys
		kind error
		key  string
	}{
		"fewer tokens":      {modelKeys{"adapters.token_ids_activate": []int32{1, 2}}, ErrValue, "adapters.token_ids_"},
		"a token twice":     {modelKeys{"adapters.token_ids_activate": []int32{1, 2, 1}}, ErrValue, "adapters.token_ids_"},
		"a token beyond":    {modelKeys{"adapters.token_ids_activate": []int32{1, 2, 70}}, ErrValue, "adapters.token_ids_"},
		"embedded as none":  {modelKeys{"adapters.token_ids_substitute": []int32{1, 2, -1}}, ErrValue, "adapters.token_ids_"},
		"too many":          {modelKeys{"adapters.count": uint32(256)}, ErrUnsupported, "adapters.count"},
		"a rank of nothing": {modelKeys{"adapters.lora_rank": uint32(0)}, ErrValue, "adapters.lora_rank"},
		"a gain too great":  {modelKeys{"adapters.router_gain": float32(41)}, ErrValue, "adapters.router_gain"},
	} {
		kvs := a.kvs(a.and(x.keys).all())
		_, err := openBytes(t, rt, randommodel.Bytes(t, kvs, a.tensors(t, "graniteswitch")), "switch.gguf", Options{})
		if !errors.Is(err, x.kind) || !strings.Contains(err.Error(), x.key) {
			t.Errorf("%s: %v", name, err)
		}
	}
	all := a.tensors(t, "graniteswitch")
	for i, s := range all {
		if s.Name == "blk.2.ffn_up.lora_b" {
			all = append([]gguf.TensorSource(nil), all...)
			all[i] = randommodel.Tensor(9, s.Name, 0, 1, 12, 96, 4)
		}
	}
	_, err := openBytes(t, rt, randommodel.Bytes(t, a.kvs(a.all()), all), "switch.gguf", Options{})
	if !errors.Is(err, ErrUnsupported) || !strings.Contains(err.Error(), "blk.2.ffn_up.lora_b") {
		t.Errorf("positions without an adapter that have one: %v", err)
	}
}

// TestOwnPassesAllocateNothing: a token costs no memory where a family has a forward pass of its own.
func TestOwnPassesAllocateNothing(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	for _, name := range []string{"graniteswitch", "muse-glimmer", "talkie"} {
		m, err := openBytes(t, rt, askedModels()[name].file(t, name), name+".gguf", Options{})
		if err != nil {
			t.Fatal(err)
		}
		s := newSession(t, m, SessionOptions{})
		ids := []int32{1, 33, 3, 60, 5, 6}
		step := func() {
			for _, some := range [...][]int32{ids, ids[:1]} {
				if _, err := s.Eval(context.Background(), some, nil, All); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Truncate(0); err != nil {
				t.Fatal(err)
			}
		}
		for range 5 {
			step()
		}
		if n := testkit.Allocs(10, step); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		m.Close()
	}
}
