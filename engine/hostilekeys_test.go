package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/tensor"
)

// hostile is a model whose keys are to be changed.
type hostile struct {
	keys modelKeys // without the prefix
	file func(keys modelKeys) []byte
}

// TestHostileKeys: whatever a hyperparameter says, the model opens and answers with numbers, or there is an error;
// nothing panics and nothing is allocated by a number that the file does not back.
func TestHostileKeys(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	all := map[string]hostile{}
	for name, r := range randommodel.Recipes() {
		r.Layers = 2
		all[name] = hostile{r.Keys, func(keys modelKeys) []byte {
			changed := r
			changed.Keys, changed.Widths = keys, r.Keys
			return changed.File(t)
		}}
	}
	for name, a := range askedModels() {
		all["asked "+name] = hostile{a.all(), func(keys modelKeys) []byte {
			return randommodel.Bytes(t, a.kvs(keys),
				a.tensors(t, name))
		}}
	}
	names := slices.Sorted(maps.Keys(all))
	var opened, refused int
	every := 61 // combination of a recipe, a key and a value: each key has a value of each kind somewhere
	if testkit.IsLong(t) {
		every = 1
	}
	for i, name := range names {
		r := all[name]
		keys := modelKeys{}
		for _, key := range []string{"context_length", "embedding_length", "block_count", "feed_forward_length",
			"attention.head_count", "attention.head_count_kv",
			"attention.key_length", "attention.value_length", "vocab_size", "rope.dimension_count",
			"rope.freq_base", "rope.freq_base_swa", "rope.scaling.factor",
			"rope.scaling.original_context_length", "rope.scaling.attn_factor", "nextn_predict_layers",
			"attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"} {
			keys[key] = uint32(0)
		}
		maps.Copy(keys, r.keys)
		for j, key := range slices.Sorted(maps.Keys(keys)) {
			for k, v := range []gguf.Value{
				uint32(0), uint32(1), uint32(3), uint32(1 << 24), uint32(math.MaxUint32), int32(-1),
				uint64(math.MaxUint64),
				float32(0), float32(-1), float32(1e-38), float32(3e38), nan, inf,
				"x", true, []uint32{}, []bool{}, []bool{true},
			} {
				if (i+3*j+k)%every != 0 {
					continue
				}
				changed := modelKeys{}
				maps.Copy(changed, r.keys)
				changed[key] = v
				file := r.file(changed)
				m, err := New(context.Background(), rt, bytes.NewReader(file), int64(len(file)),
					Options{Name: "hostile.gguf"})
				if err != nil {
					refused++
					if !strings.Contains(err.Error(), "hostile.gguf") {
						t.Errorf("%s, %s = %v: the message does not name the file: %v", name, key, v, err)
					}
					continue
				}
				opened++
				s, err := m.NewSession(SessionOptions{Context: min(8, m.config.Context)})
				if err != nil {
					t.Errorf("%s, %s = %v: %v", name, key, v, err)
					continue
				}
				out, err := s.Eval(context.Background(), []int32{1}, nil, All)
				if err != nil && !errors.Is(err, ErrNotFinite) {
					t.Errorf("%s, %s = %v: %v", name, key, v, err)
				}
				if !tensor.Finite(out.Data) {
					t.Errorf("%s, %s = %v: logits that are not finite", name, key, v)
				}
				s.Close()
				m.Close()
			}
		}
	}
	t.Logf("%d opened, %d refused", opened, refused)
	if opened < 100 || refused < 300 {
		t.Error("the values are not of both kinds: this shows little")
	}
}

// TestLongHostileKeys: every value for every key of every recipe.
func TestLongHostileKeys(t *testing.T) {
	testkit.Long(t)
	TestHostileKeys(t)
}

// TestManyBlocks: a file that names a block of a great number does not have memory taken for as many.
func TestManyBlocks(t *testing.T) {
	const blocks = 1 << 24
	for _, arch := range []string{"llama", "t5", "bert"} {
		prefix := map[string]string{"t5": "enc."}[arch]
		f := headerOf(t, []gguf.KV{
			{Key: "general.architecture", Value: arch}, {Key: arch + ".block_count", Value: uint32(blocks)},
			{Key: arch + ".context_length", Value: uint32(8)}, {Key: arch + ".embedding_length", Value: uint32(8)},
		}, []gguf.TensorSource{{Name: fmt.Sprintf("%sblk.%d.attn_norm.weight", prefix, blocks-1), Type: gguf.F32,
			Dims: []uint64{8}}}, "many.gguf")
		if _, err := Describe(f); !errors.Is(err, ErrValue) || !strings.Contains(err.Error(), `"`+arch+`.block_count"`) {
			t.Errorf("%s: %v", arch, err)
		}
	}
}

// TestManyHeads: nor for as many heads, or numbers of a head, as a key says before tensors show them.
func TestManyHeads(t *testing.T) {
	const many = 1 << 24
	for _, arch := range []string{"llama", "deepseek2", "bloom"} {
		for _, c := range []struct {
			about           string
			heads, kv, size uint32
		}{{"head_count", many, 1, 16}, {"head_count_kv", 4, many, 16}, {"key_length", 4, 4, many}} {
			kvs := []gguf.KV{{Key: "general.architecture", Value: arch}}
			for key, n := range map[string]uint32{"block_count": 1, "context_length": 8, "embedding_length": many,
				"feed_forward_length": 8, "attention.head_count": c.heads, "attention.head_count_kv": c.kv,
				"attention.key_length": c.size, "attention.value_length": c.size} {
				kvs = append(kvs, gguf.KV{Key: arch + "." + key, Value: n})
			}
			f := headerOf(t, kvs, []gguf.TensorSource{{Name: "blk.0.attn_norm.weight", Type: gguf.F32, Dims: []uint64{8}}},
				"many.gguf")
			_, err := Describe(f)
			key := `"` + arch + ".attention." + c.about + `"`
			if !errors.Is(err, ErrValue) || !strings.Contains(err.Error(), key) {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
}
