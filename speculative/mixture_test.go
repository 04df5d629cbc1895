package speculative

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"github.com/specgo/spec/convert"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/tensor"
)

// wideHybrid is a random qwen35 model with an MTP block whose matrices have columns for every type's blocks, and the
// names of those matrices.
func wideHybrid() (kvs []gguf.KV, tensors []gguf.TensorSource, matrices []string) {
	const d, heads, dim, groups, values, state = 256, 2, 128, 2, 4, 64
	const layers, inner, vocab = 4, values * state, 70
	for key, n := range map[string]uint32{"context_length": 512, "embedding_length": d, "block_count": layers + 1,
		"nextn_predict_layers": 1, "feed_forward_length": d, "attention.head_count": heads,
		"attention.head_count_kv": 1, "attention.key_length": dim, "attention.value_length": dim,
		"rope.dimension_count": dim / 2, "ssm.conv_kernel": 4, "ssm.state_size": state, "ssm.group_count": groups,
		"ssm.time_step_rank": values, "ssm.inner_size": inner, "full_attention_interval": layers, "vocab_size": vocab,
	} {
		kvs = append(kvs, gguf.KV{Key: "qwen35." + key, Value: n})
	}
	kvs = append(kvs, gguf.KV{Key: "general.architecture", Value: "qwen35"},
		gguf.KV{Key: "qwen35.attention.layer_norm_rms_epsilon", Value: float32(1e-6)})
	add := func(name string, mean, spread float64, dims ...int) {
		tensors = append(tensors, randommodel.Tensor(7, name, mean, spread, dims...))
	}
	matrix := func(name string, rows, cols int) {
		matrices = append(matrices, name)
		add(name, 0, 1/float64(16), cols, rows)
	}
	ones := func(name string, n int) { add(name, 1, 0.1, n) }
	add("token_embd.weight", 0, 0.7, d, vocab)
	ones("output_norm.weight", d)
	matrix("output.weight", vocab, d)
	for i := range layers + 1 {
		b := fmt.Sprintf("blk.%d.", i)
		ones(b+"attn_norm.weight", d)
		ones(b+"post_attention_norm.weight", d)
		if i < layers-1 {
			matrix(b+"attn_qkv.weight", 2*groups*state+inner, d)
			matrix(b+"attn_gate.weight", inner, d)
			matrix(b+"ssm_alpha.weight", values, d)
			matrix(b+"ssm_beta.weight", values, d)
			matrix(b+"ssm_out.weight", d, inner)
			add(b+"ssm_dt.bias", 0, 0.3, values)
			add(b+"ssm_a", -0.5, 0.1, values)
			add(b+"ssm_conv1d.weight", 0, 0.5, 4, 2*groups*state+inner)
			ones(b+"ssm_norm.weight", state)
		} else {
			matrix(b+"attn_q.weight", 2*heads*dim, d)
			matrix(b+"attn_k.weight", dim, d)
			matrix(b+"attn_v.weight", dim, d)
			matrix(b+"attn_output.weight", d, heads*dim)
			ones(b+"attn_q_norm.weight", dim)
			ones(b+"attn_k_norm.weight", dim)
		}
		matrix(b+"ffn_gate.weight", d, d)
		matrix(b+"ffn_up.weight", d, d)
		matrix(b+"ffn_down.weight", d, d)
	}
	b := fmt.Sprintf("blk.%d.nextn.", layers)
	matrix(b+"eh_proj.weight", d, 2*d)
	for _, name := range []string{"enorm", "hnorm", "shared_head_norm"} {
		ones(b+name+".weight", d)
	}
	return kvs, tensors, matrices
}

// TestMixtureOfAllTypesDrafts: a hybrid model whose matrices our quantizer wrote in every type that it writes, chosen
// matrix by matrix, has the same text when its MTP block drafts, and when its weights are read from disk.
func TestMixtureOfAllTypesDrafts(t *testing.T) {
	kvs, tensors, matrices := wideHybrid()
	float := randommodel.Bytes(t, kvs, tensors)
	f, err := gguf.Open(bytes.NewReader(float), int64(len(float)), "float.gguf")
	if err != nil {
		t.Fatal(err)
	}
	types := tensor.Encodable()
	var o convert.Quantizing
	for i, typ := range types { // the other matrices are Q8_0
		pattern := regexp.MustCompile("^" + regexp.QuoteMeta(matrices[i]) + "$")
		o.Tensors = append(o.Tensors, convert.TensorChoice{Pattern: pattern, Type: typ.String()})
	}
	q, err := convert.QuantizeBy(f, convert.UniformMixture(tensor.Q8_0), o)
	if err != nil {
		t.Fatal(err)
	}
	var mixed bytes.Buffer
	if err := q.Write(t.Context(), &mixed, nil); err != nil {
		t.Fatal(err)
	}
	for _, typ := range types {
		if q.Counts[typ.String()] == 0 {
			t.Errorf("no tensor is %v", typ)
		}
	}
	path := filepath.Join(t.TempDir(), "mixed.gguf")
	if err := os.WriteFile(path, mixed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := gguf.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	plan, err := engine.PlanMemory(file, engine.Options{}, engine.Sessions{})
	if err != nil {
		t.Fatal(err)
	}
	rt := newRuntime(t, engine.RuntimeOptions{Threads: 1})
	open := func(o engine.Options) *engine.Model {
		m, err := engine.Open(context.Background(), rt, path, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Close)
		return m
	}
	prompt := randommodel.Tokens(20, 70, 3)
	var want []int32
	for _, memory := range []int64{0, plan.Least} {
		target := open(engine.Options{Memory: memory, Cache: t.TempDir()})
		head := open(engine.Options{MTP: true, Target: target})
		plain, _ := collect(t, New(session(t, target, 0), nil, Options{MaxTokens: 24}), prompt, engine.Sampling{})
		if want == nil {
			want = plain
		}
		d := New(session(t, target, 0), headed(session(t, head, 0), headOptions{}),
			Options{Schedule: Constant(ConstantOptions{Length: 1}), MaxTokens: 24})
		got, _ := collect(t, d, prompt, engine.Sampling{})
		if !slices.Equal(plain, want) || !slices.Equal(got, want) || d.Stats().Drafted == 0 {
			t.Errorf("%d bytes of memory:\n got %v,\n and %v with %d drafted,\nwant %v", memory, plain, got,
				d.Stats().Drafted, want)
		}
		if memory > 0 && !target.Memory().Streams() {
			t.Error("all weights are in memory")
		}
	}
	if len(slices.Compact(slices.Sorted(slices.Values(want)))) < 4 {
		t.Errorf("the text says little: %v", want)
	}
}
