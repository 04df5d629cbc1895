package synth

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/specgo/spec/convert"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// Shape is the hyperparameters of a model.
type Shape struct {
	Name         string // lower case
	Architecture string // one that Random has a case for
	Context      int    // tokens
	Vocab        int    // tokens
	HiddenSize   int    // of the residual stream
	Layers       int
	Heads        int // of queries
	KVHeads      int // heads of keys and values; as many as Heads in gpt2 and encoders
	FeedForward  int // width of the feed-forward's inside; of one expert's, where there are experts
	Tied         bool
	RopeBase     float32
	HeadDim      int // numbers of a head; 0: HiddenSize/Heads
	RopeDims     int // numbers of a head that are rotated; 0: all
	Experts      int // in each layer; 0: one feed-forward
	ExpertsUsed  int // for each token
	MTP          int // blocks after the layers that only draft
	Dense        int // width of a feed-forward in layers without experts; 0: as wide as FeedForward
}

// head is the numbers of a head.
func (s Shape) head() int {
	if s.HeadDim > 0 {
		return s.HeadDim
	}
	return s.HiddenSize / s.Heads
}

// dense is the width of a feed-forward without experts.
func (s Shape) dense() int { return cmp.Or(s.Dense, s.FeedForward) }

// shapes are published models.
var shapes = []Shape{
	// Llama 3.2 1B (config.json of meta-llama/Llama-3.2-1B)
	{"llama-1b", "llama", 131072, 128256, 2048, 16, 32, 8, 8192, true, 500000, 0, 0, 0, 0, 0, 0},
	// Llama 3.2 3B (meta-llama/Llama-3.2-3B)
	{"llama-3.2-3b", "llama", 131072, 128256, 3072, 28, 24, 8, 8192, true, 500000, 0, 0, 0, 0, 0, 0},
	// SmolLM2 135M (HuggingFaceTB/SmolLM2-135M)
	{"smollm2-135m", "llama", 8192, 49152, 576, 30, 9, 3, 1536, true, 100000, 0, 0, 0, 0, 0, 0},
	// SmolLM2 360M (HuggingFaceTB/SmolLM2-360M)
	{"smollm2-360m", "llama", 8192, 49152, 960, 32, 15, 5, 2560, true, 100000, 0, 0, 0, 0, 0, 0},
	// SmolLM2 1.7B (HuggingFaceTB/SmolLM2-1.7B)
	{"smollm2-1.7b", "llama", 8192, 49152, 2048, 24, 32, 32, 8192, true, 130000, 0, 0, 0, 0, 0, 0},
	// TinyLlama 1.1B (TinyLlama/TinyLlama-1.1B-Chat-v1.0)
	{"tinyllama-1.1b", "llama", 2048, 32000, 2048, 22, 32, 4, 5632, false, 10000, 0, 0, 0, 0, 0, 0},
	// Mistral 7B v0.3 (mistralai/Mistral-7B-v0.3)
	{"mistral-7b", "llama", 32768, 32768, 4096, 32, 32, 8, 14336, false, 1000000, 0, 0, 0, 0, 0, 0},
	// Llama 3.1 8B (meta-llama/Llama-3.1-8B)
	{"llama-8b", "llama", 131072, 128256, 4096, 32, 32, 8, 14336, false, 500000, 0, 0, 0, 0, 0, 0},
	// Qwen 3 (Qwen/Qwen3-0.6B, -1.7B, -4B)
	{"qwen3-0.6b", "qwen3", 40960, 151936, 1024, 28, 16, 8, 3072, true, 1000000, 128, 0, 0, 0, 0, 0},
	{"qwen3-1.7b", "qwen3", 40960, 151936, 2048, 28, 16, 8, 6144, true, 1000000, 128, 0, 0, 0, 0, 0},
	{"qwen3-4b", "qwen3", 40960, 151936, 2560, 36, 32, 8, 9728, true, 1000000, 128, 0, 0, 0, 0, 0},
	// Qwen 3 30B, 128 experts (Qwen/Qwen3-30B-A3B)
	{"qwen3-30b-a3b", "qwen3moe", 40960, 151936, 2048, 48, 32, 4, 768, false, 1000000, 128, 0, 128, 8, 0, 0},
	// Gemma 3 1B (google/gemma-3-1b-it)
	{"gemma-3-1b", "gemma3", 32768, 262144, 1152, 26, 4, 1, 6912, true, 1000000, 256, 0, 0, 0, 0, 0},
	// Phi-4-mini (microsoft/Phi-4-mini-instruct), without its factors for long texts
	{"phi-4-mini", "phi3", 4096, 200064, 3072, 32, 24, 8, 8192, true, 10000, 0, 96, 0, 0, 0, 0},
	// Granite 4.0 1B, dense (ibm-granite/granite-4.0-1b)
	{"granite-4-1b", "granite", 131072, 100352, 2048, 40, 16, 4, 4096, true, 10000000, 0, 0, 0, 0, 0, 0},
	// Qwen 3.5 0.8B, its text model without the MTP block (text_config of Qwen/Qwen3.5-0.8B)
	{"qwen3.5-0.8b", "qwen35", 262144, 248320, 1024, 24, 8, 2, 3584, true, 10000000, 256, 64, 0, 0, 0, 0},
	// The same with its MTP block
	{"qwen3.5-0.8b-mtp", "qwen35", 262144, 248320, 1024, 24, 8, 2, 3584, true, 10000000, 256, 64, 0, 0, 1, 0},
	// Qwen3-Next (Qwen/Qwen3-Next-80B-A3B-Instruct) with half its width, 12 of its 48 layers and 64 of its 512 experts
	{"qwen3-next-small", "qwen3next", 262144, 151936, 1024, 12, 16, 2, 512, false, 10000000, 256, 64, 64, 10, 0, 0},
	// DeepSeek V2 Lite, 64 experts, latent attention (deepseek-ai/DeepSeek-V2-Lite)
	{"deepseek-v2-lite", "deepseek2", 163840, 102400, 2048, 27, 16, 1, 1408, false, 10000, 576, 64, 64, 6, 0, 10944},
	// GPT-2 (openai-community/gpt2)
	{"gpt2-124m", "gpt2", 1024, 50257, 768, 12, 12, 12, 3072, true, 0, 0, 0, 0, 0, 0, 0},
	// T5 1.0 (google-t5/t5-small, t5-large), as many layers in encoder and decoder
	{"t5-small", "t5", 512, 32128, 512, 6, 8, 8, 2048, true, 0, 64, 0, 0, 0, 0, 0},
	{"t5-large", "t5", 512, 32128, 1024, 24, 16, 16, 4096, true, 0, 64, 0, 0, 0, 0, 0},
	// Flan-T5 (google/flan-t5-small, -large)
	{"flan-t5-small", "t5", 512, 32128, 512, 8, 6, 6, 1024, false, 0, 64, 0, 0, 0, 0, 0},
	{"flan-t5-large", "t5", 512, 32128, 1024, 24, 16, 16, 2816, false, 0, 64, 0, 0, 0, 0, 0},
	// Encoders (sentence-transformers/all-MiniLM-L6-v2, BAAI/bge-base-en-v1.5, BAAI/bge-m3, answerdotai/ModernBERT-base)
	// without the dense layer after them, which makes no vectors
	{"minilm-l6", "bert", 512, 30522, 384, 6, 12, 12, 1536, true, 0, 0, 0, 0, 0, 0, 0},
	{"bge-base", "bert", 512, 30522, 768, 12, 12, 12, 3072, true, 0, 0, 0, 0, 0, 0, 0},
	{"bge-m3", "bert", 8192, 250002, 1024, 24, 16, 16, 4096, true, 0, 0, 0, 0, 0, 0, 0},
	{"modernbert-base", "modern-bert", 8192, 50368, 768, 22, 12, 12, 1152, true, 160000, 0, 0, 0, 0, 0, 0},
}

// Shapes lists the names of the known shapes.
func Shapes() (names []string) {
	for _, s := range shapes {
		names = append(names, s.Name)
	}
	return append(names, slices.Sorted(maps.Keys(aliases))...)
}

// Types lists the types that the matrices of [Random] can be stored in: those that the engine runs, and the mixtures
// of them that llama.cpp's quantizer makes.
func Types() (names []string) {
	for t := tensor.Type(0); t.Valid(); t++ {
		names = append(names, t.String())
	}
	for _, name := range convert.Mixtures() {
		if _, err := tensor.ParseType(strings.ToLower(name)); err != nil {
			names = append(names, strings.ToLower(name))
		}
	}
	return names
}

// mixtureOf is the mixture of that name, or the one that has nothing but the type of that name.
func mixtureOf(name string) (convert.Mixture, error) {
	if !slices.Contains(Types(), name) {
		return convert.Mixture{}, fmt.Errorf("no random weights of type %q (there are %s)", name,
			strings.Join(Types(), ", "))
	}
	if t, err := tensor.ParseType(name); err == nil {
		return convert.UniformMixture(t), nil
	}
	return convert.FindMixture(name)
}

// aliases are other names of shapes.
var aliases = map[string]string{"llama-3.2-1b": "llama-1b", "llama-3.1-8b": "llama-8b"}

// FindShape finds a shape by its name.
func FindShape(name string) (Shape, error) {
	if known, ok := aliases[name]; ok {
		name = known
	}
	i := slices.IndexFunc(shapes, func(s Shape) bool { return s.Name == name })
	if i < 0 {
		return Shape{}, fmt.Errorf("no shape %q (there are %s)", name, strings.Join(Shapes(), ", "))
	}
	return shapes[i], nil
}

// Random is a model of random weights, stored in one of [Types]; where rows are not whole blocks another type stands
// in, as when a model is quantized. Norms are 1, biases 0. It has no tokenizer.
func Random(s Shape, typ string) (*File, error) {
	mixture, err := mixtureOf(typ)
	if err != nil {
		return nil, err
	}
	if s.Heads < 1 || s.KVHeads < 1 || s.HeadDim == 0 && s.HiddenSize%s.Heads != 0 || s.Heads%s.KVHeads != 0 ||
		s.ExpertsUsed > s.Experts {
		return nil, fmt.Errorf("a width of %d and %d heads, %d of keys, make no model", s.HiddenSize, s.Heads, s.KVHeads)
	}
	facts := convert.Facts{Architecture: s.Architecture, Layers: s.Layers, Heads: s.Heads, KVHeads: s.KVHeads,
		Tied: s.Tied}
	kvs := []gguf.KV{
		{Key: "general.architecture", Value: s.Architecture},
		{Key: "general.name", Value: s.Name + ", random weights"},
		{Key: "general.file_type", Value: mixture.FileType},
		{Key: "tokenizer.ggml.model", Value: "no_vocab"},
		{Key: s.Architecture + ".context_length", Value: uint32(s.Context)},
		{Key: s.Architecture + ".vocab_size", Value: uint32(s.Vocab)},
	}
	kvs = append(kvs, s.sizes()...)
	known := map[gguf.Type]*pattern{}
	weights := func(name string, dims ...int) source {
		size := make([]uint64, len(dims))
		for i, d := range dims {
			size[i] = uint64(d)
		}
		typ := mixture.Type(name, size, facts)
		if known[typ] == nil {
			known[typ] = patternOf(typ)
		}
		return known[typ].tensor(name, typ, dims...)
	}
	matrix := func(name string, rows, cols int) source { return weights(name, cols, rows) }
	norm := func(name string) source { return ones.tensor(name, gguf.F32, s.HiddenSize) }
	stack := func(name string, n, rows, cols int) source { return weights(name, cols, rows, n) }
	experts := func(name string, rows, cols int) source { return stack(name, s.Experts, rows, cols) }
	bias := func(name string, n int) source { return zeros.tensor(name, gguf.F32, n) }

	list := []source{matrix("token_embd.weight", s.Vocab, s.HiddenSize)}
	if s.Architecture != "t5" && !s.encoder() {
		list = append(list, norm("output_norm.weight"))
	}
	if !s.Tied {
		list = append(list, matrix("output.weight", s.Vocab, s.HiddenSize))
	}
	switch s.Architecture {
	case "llama", "qwen3", "qwen3moe", "gemma3", "phi3", "granite":
		kvs = append(kvs, s.rmsKeys()...)
		head := s.head()
		heads, kv := s.Heads*head, s.KVHeads*head
		headNorm := func(name string) source { return ones.tensor(name, gguf.F32, head) }
		for l := range s.Layers {
			b := fmt.Sprintf("blk.%d.", l)
			list = append(list, norm(b+"attn_norm.weight"))
			if s.Architecture == "phi3" {
				list = append(list,
					matrix(b+"attn_qkv.weight", heads+2*kv, s.HiddenSize),
					matrix(b+"ffn_up.weight", 2*s.FeedForward, s.HiddenSize))
			} else {
				list = append(list,
					matrix(b+"attn_q.weight", heads, s.HiddenSize),
					matrix(b+"attn_k.weight", kv, s.HiddenSize),
					matrix(b+"attn_v.weight", kv, s.HiddenSize))
			}
			if s.Architecture == "qwen3" || s.Architecture == "qwen3moe" || s.Architecture == "gemma3" {
				list = append(list, headNorm(b+"attn_q_norm.weight"), headNorm(b+"attn_k_norm.weight"))
			}
			if s.Architecture == "gemma3" {
				list = append(list, norm(b+"post_attention_norm.weight"), norm(b+"post_ffw_norm.weight"))
			}
			list = append(list,
				matrix(b+"attn_output.weight", s.HiddenSize, heads),
				norm(b+"ffn_norm.weight"))
			if s.Experts > 0 {
				list = append(list, patternOf(gguf.F32).tensor(b+"ffn_gate_inp.weight", gguf.F32, s.HiddenSize, s.Experts),
					experts(b+"ffn_gate_exps.weight", s.FeedForward, s.HiddenSize),
					experts(b+"ffn_up_exps.weight", s.FeedForward, s.HiddenSize),
					experts(b+"ffn_down_exps.weight", s.HiddenSize, s.FeedForward))
				continue
			}
			if s.Architecture != "phi3" {
				list = append(list, matrix(b+"ffn_gate.weight", s.FeedForward, s.HiddenSize),
					matrix(b+"ffn_up.weight", s.FeedForward, s.HiddenSize))
			}
			list = append(list, matrix(b+"ffn_down.weight", s.HiddenSize, s.FeedForward))
		}
	case "qwen35", "qwen3next":
		kvs = append(kvs, s.rmsKeys()...)
		kvs = append(kvs, s.deltaKeys()...)
		for l := range s.Layers + s.MTP {
			list = append(list, s.qwen35Block(l, matrix, stack)...)
		}
	case "deepseek2":
		kvs = append(kvs, s.rmsKeys()...)
		kvs = append(kvs, latentKeys()...)
		for l := range s.Layers {
			list = append(list, s.deepseek2Block(l, matrix, stack)...)
		}
	case "gpt2":
		kvs = append(kvs, gguf.KV{Key: "gpt2.attention.layer_norm_epsilon", Value: float32(1e-5)})
		list = append(list, bias("output_norm.bias", s.HiddenSize),
			patternOf(gguf.F32).tensor("position_embd.weight", gguf.F32, s.HiddenSize, s.Context))
		for l := range s.Layers {
			b := fmt.Sprintf("blk.%d.", l)
			list = append(list,
				norm(b+"attn_norm.weight"), bias(b+"attn_norm.bias", s.HiddenSize),
				matrix(b+"attn_qkv.weight", 3*s.HiddenSize, s.HiddenSize), bias(b+"attn_qkv.bias", 3*s.HiddenSize),
				matrix(b+"attn_output.weight", s.HiddenSize, s.HiddenSize), bias(b+"attn_output.bias", s.HiddenSize),
				norm(b+"ffn_norm.weight"), bias(b+"ffn_norm.bias", s.HiddenSize),
				matrix(b+"ffn_up.weight", s.FeedForward, s.HiddenSize), bias(b+"ffn_up.bias", s.FeedForward),
				matrix(b+"ffn_down.weight", s.HiddenSize, s.FeedForward), bias(b+"ffn_down.bias", s.HiddenSize))
		}
	case "bert", "modern-bert":
		kvs = append(kvs, s.encoderKeys()...)
		list = append(list, s.encoderTensors(matrix)...)
	case "t5":
		kvs = append(kvs, s.t5Keys()...)
		list = append(list, s.t5Tensors(matrix, norm)...)
	default:
		return nil, fmt.Errorf("no models of architecture %q", s.Architecture)
	}
	return newFile(kvs, list)
}

// rmsKeys are the metadata of the architectures with RMSNorm and RoPE.
func (s Shape) rmsKeys() []gguf.KV {
	prefix := s.Architecture + "."
	dims := s.RopeDims
	if dims == 0 {
		dims = s.head()
	}
	kvs := []gguf.KV{
		{Key: prefix + "attention.layer_norm_rms_epsilon", Value: float32(1e-5)},
		{Key: prefix + "rope.freq_base", Value: s.RopeBase},
		{Key: prefix + "rope.dimension_count", Value: uint32(dims)},
	}
	if s.HeadDim > 0 {
		values := s.HeadDim
		if s.Architecture == "deepseek2" {
			values = latentRank
		}
		kvs = append(kvs, gguf.KV{Key: prefix + "attention.key_length", Value: uint32(s.HeadDim)},
			gguf.KV{Key: prefix + "attention.value_length", Value: uint32(values)})
	}
	switch s.Architecture {
	case "gemma3":
		kvs = append(kvs, gguf.KV{Key: prefix + "attention.sliding_window", Value: uint32(512)})
	case "granite":
		kvs = append(kvs,
			gguf.KV{Key: prefix + "embedding_scale", Value: float32(12)},
			gguf.KV{Key: prefix + "residual_scale", Value: float32(0.22)},
			gguf.KV{Key: prefix + "attention.scale", Value: float32(1) / 128},
			gguf.KV{Key: prefix + "logit_scale", Value: float32(8)})
	}
	return kvs
}

// sizes are the metadata that differ between a small and an enlarged model.
func (s Shape) sizes() []gguf.KV {
	key := func(name string, n int) gguf.KV {
		return gguf.KV{Key: s.Architecture + "." + name, Value: uint32(n)}
	}
	kvs := []gguf.KV{
		key("embedding_length", s.HiddenSize),
		key("block_count", s.Layers+s.MTP),
		key("feed_forward_length", s.dense()),
		key("attention.head_count", s.Heads),
	}
	if s.MTP > 0 {
		kvs = append(kvs, key("nextn_predict_layers", s.MTP))
	}
	if s.Architecture != "gpt2" && s.Architecture != "t5" && !s.encoder() {
		kvs = append(kvs, key("attention.head_count_kv", s.KVHeads))
	}
	if s.Experts > 0 {
		kvs = append(kvs, key("expert_count", s.Experts), key("expert_used_count", s.ExpertsUsed),
			key("expert_feed_forward_length", s.FeedForward))
	}
	return kvs
}
