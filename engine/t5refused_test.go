package engine

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/tensor"
)

// TestT5Refused: what a file lacks, has too much of, or says that cannot be, is an error that names it.
func TestT5Refused(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	key := func(k string, v gguf.Value) func(*randommodel.T5) {
		return func(s *randommodel.T5) { s.KVs = append(s.KVs, gguf.KV{Key: "t5." + k, Value: v}) }
	}
	drop := func(name string) func(*randommodel.T5) { return func(s *randommodel.T5) { s.Drop = name } }
	dims := func(name string, d ...int) func(*randommodel.T5) {
		return func(s *randommodel.T5) { s.Dims = map[string][]int{name: d} }
	}
	more := func(name string, d ...int) func(*randommodel.T5) {
		return func(s *randommodel.T5) { s.More = map[string][]int{name: d} }
	}
	for name, c := range map[string]struct {
		change func(*randommodel.T5)
		names  string // in the message; "": the file opens
		kind   error
	}{
		"as it is":                  {func(*randommodel.T5) {}, "", nil},
		"fewer decoder blocks":      {func(s *randommodel.T5) { s.Decoders = 1 }, "", nil},
		"more decoder blocks":       {func(s *randommodel.T5) { s.Decoders = 3 }, "", nil},
		"cross bias":                {more("dec.blk.0.cross_attn_rel_b.weight", 3, 32), "", nil},
		"untied":                    {func(s *randommodel.T5) { s.Untied = true }, "", nil},
		"decoder_block_count above": {key("decoder_block_count", uint32(3)), "t5.decoder_block_count", ErrValue},
		"decoder_block_count below": {key("decoder_block_count", uint32(1)), "t5.decoder_block_count", ErrValue},
		"no decoder":                {key("decoder_block_count", uint32(0)), "t5.decoder_block_count", ErrValue},
		"absent decoder_block_count": {func(s *randommodel.T5) { s.Decoders = 3; key("decoder_block_count", nil)(s) },
			"t5.decoder_block_count", ErrValue},
		"block_count above": {key("block_count", uint32(3)), "t5.block_count", ErrValue},
		"block_count below": {key("block_count", uint32(1)), "t5.block_count", ErrValue},
		"no buckets": {key("attention.relative_buckets_count", nil),
			"t5.attention.relative_buckets_count", nil},
		"few buckets": {key("attention.relative_buckets_count", uint32(2)),
			"t5.attention.relative_buckets_count", ErrUnsupported},
		"odd buckets": {key("attention.relative_buckets_count", uint32(31)),
			"t5.attention.relative_buckets_count", ErrUnsupported},
		"many buckets": {key("attention.relative_buckets_count", uint32(256)),
			"t5.attention.relative_buckets_count", ErrUnsupported},
		"other buckets": {key("attention.relative_buckets_count", uint32(16)),
			"enc.blk.0.attn_rel_b.weight", ErrShape},
		"no epsilon": {key("attention.layer_norm_rms_epsilon", nil),
			"t5.attention.layer_norm_rms_epsilon", nil},
		"start": {key("decoder_start_token_id", uint32(70)), "t5.decoder_start_token_id", ErrValue},
		"KV heads": {key("attention.head_count_kv", uint32(1)),
			"t5.attention.head_count_kv", ErrUnsupported},
		"values": {key("attention.value_length", uint32(8)),
			"t5.attention.value_length", ErrUnsupported},
		"no key_length":      {key("attention.key_length", nil), "attention.head_count", ErrValue},
		"scale":              {key("attention.scale", float32(0.125)), "t5.attention.scale", ErrUnsupported},
		"rope":               {key("rope.freq_base", float32(10000)), "t5.rope.freq_base", ErrUnsupported},
		"no bias":            {drop("enc.blk.0.attn_rel_b.weight"), "enc.blk.0.attn_rel_b.weight", ErrMissing},
		"no decoder bias":    {drop("dec.blk.0.attn_rel_b.weight"), "dec.blk.0.attn_rel_b.weight", ErrMissing},
		"no cross-attention": {drop("dec.blk.1.cross_attn_k.weight"), "dec.blk.1.cross_attn_k.weight", ErrMissing},
		"no encoder norm":    {drop("enc.output_norm.weight"), "enc.output_norm.weight", ErrMissing},
		"no up":              {drop("enc.blk.1.ffn_up.weight"), "enc.blk.1.ffn_up.weight", ErrMissing},
		"bias of q":          {more("dec.blk.0.attn_q.bias.weight", 48), "dec.blk.0.attn_q.bias", ErrUnsupported},
		"a tensor too many": {more("enc.blk.0.attn_sinks.weight", 3),
			"enc.blk.0.attn_sinks.weight", ErrUnsupported},
		"cross-attention in encoder": {more("enc.blk.0.cross_attn_norm.weight", 64),
			"enc.blk.0.cross_attn_norm.weight", ErrUnsupported},
		"a decoder-only model's norm": {more("output_norm.weight", 64), "output_norm.weight", ErrUnsupported},
		"another shape": {dims("dec.blk.0.cross_attn_o.weight", 64, 64),
			"dec.blk.0.cross_attn_o.weight", ErrShape},
		"bias turned": {dims("enc.blk.0.attn_rel_b.weight", 32, 3), "enc.blk.0.attn_rel_b.weight", ErrShape},
		"not finite": {func(s *randommodel.T5) {
			s.Edit = func(name string, x []float32) {
				if name == "dec.blk.1.cross_attn_v.weight" {
					x[5] = float32(math.NaN())
				}
			}
		}, "dec.blk.1.cross_attn_v.weight", ErrDamaged},
	} {
		v := randommodel.SmallT5()
		c.change(&v)
		m, err := openBytes(t, rt, v.File(t), "random.gguf", Options{})
		switch {
		case c.names == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.names != "" && (err == nil || !strings.Contains(err.Error(), c.names) ||
			!strings.Contains(err.Error(), "random.gguf") || c.kind != nil && !errors.Is(err, c.kind)):
			t.Errorf("%s: %v, expected %v that names %s", name, err, c.kind, c.names)
		}
		m.Close()
	}
}

// TestLongT5HostileKeys: every key with every value.
func TestLongT5HostileKeys(t *testing.T) {
	testkit.Long(t)
	TestT5HostileKeys(t)
}

// TestT5HostileKeys: whatever a hyperparameter says, the model opens and answers with numbers, or there is an error
// that names the file.
func TestT5HostileKeys(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	step := 2 // every second value of a key
	switch {
	case testkit.IsLong(t):
		step = 1
	case testing.Short():
		step = 5
	}
	opened, refused := 0, 0
	for i, key := range []string{"context_length", "embedding_length", "block_count", "decoder_block_count",
		"feed_forward_length", "attention.head_count", "attention.head_count_kv",
		"attention.key_length", "attention.value_length", "attention.relative_buckets_count",
		"attention.layer_norm_rms_epsilon", "decoder_start_token_id", "vocab_size", "nextn_predict_layers"} {
		for k, v := range []gguf.Value{uint32(0), uint32(1), uint32(3), uint32(48), uint32(1 << 24), uint32(math.MaxUint32),
			int32(-1), uint64(math.MaxUint64), float32(-1), float32(1e-38),
			float32(3e38), float32(math.NaN()), "x", true, []uint32{}, []uint32{3, 3}, []int32{-1, 1}, []bool{true}} {
			if (i+k)%step != 0 {
				continue
			}
			s := randommodel.SmallT5()
			s.KVs = []gguf.KV{{Key: "t5." + key, Value: v}}
			m, err := openBytes(t, rt, s.File(t), "random.gguf", Options{})
			if err != nil {
				refused++
				if !strings.Contains(err.Error(), "random.gguf") {
					t.Errorf("%s = %v: the message does not name the file: %v", key, v, err)
				}
				continue
			}
			opened++
			session := newSession(t, m, SessionOptions{Context: 1})
			err = session.Encode(context.Background(), []int32{1, 2})
			if err == nil {
				var out Logits
				if out, err = session.Eval(context.Background(), []int32{1}, nil, All); err == nil && !tensor.Finite(out.Data) {
					t.Errorf("%s = %v: logits that are not finite", key, v)
				}
			}
			if err != nil && !errors.Is(err, ErrNotFinite) {
				t.Errorf("%s = %v: %v", key, v, err)
			}
			m.Close()
		}
	}
	if opened < 5 || refused < 30 {
		t.Errorf("%d opened, %d refused: this shows little", opened, refused)
	}
}

// TestT5Describe: what a file says of memory, without its weights.
func TestT5Describe(t *testing.T) {
	f := readHeader(t, randommodel.FlanT5().File(t), "random.gguf")
	d, err := Describe(f)
	if err != nil {
		t.Fatal(err)
	}
	want := CacheShape{Layers: 3, Heads: 2, HeadDim: 48}
	if d.Input != want || len(d.Caches) != 1 || d.Caches[0] != want ||
		d.Config.EncoderLayers != 2 || d.Config.Layers != 3 {
		t.Errorf("%+v", d)
	}
	if !slices.Contains(Architectures(), "t5") || !slices.Contains(Architectures(), "t5encoder") {
		t.Errorf("%v", Architectures())
	}
}
