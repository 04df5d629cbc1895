package convert

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/specgo/spec/gguf"
)

// blockKind is what a block of Nemotron-H computes.
type blockKind byte

// The letters of hybrid_override_pattern.
const (
	blockMamba     blockKind = 'M'
	blockAttention blockKind = '*'
	blockPlain     blockKind = '-'
	blockExperts   blockKind = 'E'
)

// blocksByName are the names of layers_block_type.
var blocksByName = map[string]blockKind{"mamba": blockMamba, "linear_attention": blockMamba,
	"attention": blockAttention, "full_attention": blockAttention, "mlp": blockPlain, "moe": blockExperts}

// blockKinds reads which blocks there are.
func (c *config) blockKinds(layers int) (kinds []blockKind) {
	const pattern, list = "hybrid_override_pattern", "layers_block_type"
	key := c.first(pattern, list)
	if key == pattern {
		for _, letter := range []byte(c.text(pattern)) {
			kinds = append(kinds, blockKind(letter))
		}
	} else {
		for _, name := range c.texts(list) {
			kinds = append(kinds, blocksByName[name])
		}
	}
	if len(kinds) != layers {
		c.fail(key, "%d of %d blocks: what do they compute?", len(kinds), layers)
	}
	for i, k := range kinds {
		if k != blockMamba && k != blockAttention && k != blockPlain && k != blockExperts {
			c.fail(key, "block %d is %s, which is not supported", i, gguf.Printable(string(rune(k)), 10))
			break
		}
	}
	return kinds
}

// nemotronH converts Nemotron-H, Nemotron Nano 2 and Nemotron 3: a block has one of Mamba-2, attention without
// positions, a feed-forward without a gate, or experts without gates. Nothing is turned, and yet GGUF's nemotron_h has
// rows of q and k in the order of models that turn pairs: adapters of other converters are for that order.
func nemotronH(b *builder) {
	c := b.config
	if list, ok := c.values["layers_block_type"].([]any); ok && !c.has("num_hidden_layers") {
		c.values["num_hidden_layers"] = json.Number(strconv.Itoa(len(list)))
	}
	layers := c.layers("num_hidden_layers")
	kinds := c.blockKinds(layers)
	width, inner := c.integer("hidden_size"), c.integerOr("intermediate_size", 1)
	s := sizes{width: width, heads: c.integer("num_attention_heads"), layers: layers, feedForward: inner,
		head: c.integer(c.first("head_dim", "attention_head_dim"))}
	s.kvHeads = c.integerOr("num_key_value_heads", s.heads)
	m := mambaSizes{heads: c.integer("mamba_num_heads"), state: c.integer("ssm_state_size"), groups: c.integer("n_groups"),
		taps: c.integer("conv_kernel")}
	m.inner = c.product("mamba_head_dim", c.integer("mamba_head_dim"), m.heads)
	b.nemotronMembers(m, s)
	var e *experts
	if slices.Contains(kinds, blockExperts) {
		e = b.nemotronExperts()
	}
	if *c.err != nil {
		return
	}
	kv, ff := make([]int32, layers), make([]int32, layers)
	for i, k := range kinds {
		switch k {
		case blockAttention:
			kv[i] = int32(s.kvHeads)
		case blockPlain:
			ff[i] = int32(inner)
		case blockExperts:
			ff[i] = int32(e.width)
		}
	}
	b.size("context_length", c.integer("max_position_embeddings"))
	b.size("embedding_length", width)
	b.size("block_count", layers)
	b.set("feed_forward_length", ff)
	b.size("attention.head_count", s.heads)
	b.set("attention.head_count_kv", kv)
	b.size("attention.key_length", s.head)
	b.size("attention.value_length", s.head)
	b.real("attention.layer_norm_rms_epsilon", c.number(c.first("layer_norm_epsilon", "rms_norm_eps", "norm_eps")))
	b.mambaKeys(m, "mamba_num_heads", "n_groups")

	prefix := b.prefix("embeddings.weight", "backbone.", "model.") // or as transformers 5 saves it
	names := modelNames{prefix + "embeddings.weight", prefix + "layers.%d.", prefix + "norm_f", "lm_head.weight"}
	b.model(names, width, layers, b.rmsNorm, func(i int, to, from string) {
		b.rmsNorm(to+"attn_norm", from+"norm", width)
		from += "mixer."
		switch k := kinds[i]; {
		case k == blockMamba:
			b.mamba2(m, width, true, to, from)
		case k == blockAttention:
			b.linear(to+"attn_q", from+"q_proj", s.heads*s.head, width, interleaved(s.head))
			b.linear(to+"attn_k", from+"k_proj", s.kvHeads*s.head, width, interleaved(s.head))
			b.linear(to+"attn_v", from+"v_proj", s.kvHeads*s.head, width, nil)
			b.linear(to+"attn_output", from+"o_proj", width, s.heads*s.head, nil)
		case k == blockPlain:
			b.feedForward(b.biased, s, plainParts, to, from)
		default:
			b.experts(s, e, to, from)
			if e.inputs > 0 {
				b.matrix(to+"ffn_latent_down.weight", from+"fc1_latent_proj.weight", e.inputs, width)
				b.matrix(to+"ffn_latent_up.weight", from+"fc2_latent_proj.weight", width, e.inputs)
			}
		}
	})
	b.leaveOut("mtp.", "blocks for multi-token prediction are")
}

// nemotronExperts reads experts without gates, which sigmoids and a bias choose.
func (b *builder) nemotronExperts() *experts {
	c := b.config
	b.become("nemotron_h_moe")
	e := b.expertsOf("n_routed_experts")
	e.width, e.shared = c.integer("moe_intermediate_size"), c.integer("moe_shared_expert_intermediate_size")
	e.router, e.choice, e.sharedOf = "gate", "gate.e_score_correction_bias", "shared_experts"
	e.of, e.parts = "experts.%d.", plainParts
	b.size("expert_feed_forward_length", e.width)
	b.size("expert_shared_feed_forward_length", e.shared)
	b.size("expert_shared_count", c.integer("n_shared_experts"))
	b.routing(e, true)
	if c.has("moe_latent_size") {
		e.inputs = c.integer("moe_latent_size")
		b.size("moe_latent_size", e.inputs)
	}
	return e
}

// leaveOut leaves out the tensors whose names begin so, with a note.
func (b *builder) leaveOut(prefix, what string) {
	n := 0
	for _, name := range b.weights.names {
		if strings.HasPrefix(name, prefix) {
			b.skip(name)
			n++
		}
	}
	if n > 0 {
		b.note("%s left out (%d tensors)", what, n)
	}
}

// nemotronMembers checks what the class says beside its sizes.
func (b *builder) nemotronMembers(m mambaSizes, s sizes) {
	c := b.config
	c.timeSteps()
	for _, key := range []string{"num_query_groups", "mamba_ssm_cache_dtype", "sliding_window", "rope_theta",
		"partial_rotary_factor", "expand", "attention_bias", "mlp_bias", "use_bias", "layer_norm_epsilon", "rms_norm_eps",
		"norm_eps", "moe_shared_expert_overlap", "rope_scaling", "rope_parameters", "num_nextn_predict_layers",
		"mtp_hybrid_override_pattern", "mtp_layers_block_type"} {
		c.has(key) // nothing is turned; whether there are biases is told by the tensors; of further blocks
	}
	if c.has("sliding_window") {
		c.fail("sliding_window", "GGUF's %s attends to all positions", b.arch)
	}
	c.must("mlp_hidden_act", "GGUF's nemotron_h has the square of ReLU", "relu2")
	c.must("mamba_hidden_act", "GGUF's nemotron_h has SiLU", "silu")
	c.must("use_conv_bias", "GGUF's nemotron_h has a bias in the convolution", true)
	c.must("mamba_proj_bias", "GGUF's nemotron_h has no biases there", false)
	if s.head%2 != 0 {
		c.fail(c.first("head_dim", "attention_head_dim"), "%d numbers are no pairs", s.head)
	}
	if s.heads%s.kvHeads != 0 || int64(s.heads)*int64(s.head) > largest {
		c.fail("num_attention_heads", "%d heads of %d numbers, %d of keys", s.heads, s.head, s.kvHeads)
	}
}
