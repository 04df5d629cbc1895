package convert

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
)

// experts says where the experts of a block are in the source.
type experts struct {
	count, width int       // of experts, and of what each has between gate and down
	shared       int       // the same of the expert that all tokens go through; 0: there is none
	inputs       int       // of an expert; 0: the hidden size
	router       string    // behind the block's name
	of           string    // likewise, the matrices of an expert by its number
	parts        [3]string // gate, up and down
	sharedOf     string    // behind the block's name, the expert that all tokens go through; "": Qwen's, with a gate
	choice       string    // likewise, what is added to choose experts; "": nothing
	fused        [2]string // likewise, tensors of all experts: gates with ups, and downs
	flipped      bool      // these have inputs first, then outputs
}

// manyInOne are the names of fused tensors in most classes.
var manyInOne = [2]string{"mlp.experts.gate_up_proj", "mlp.experts.down_proj"}

// mostExperts bounds the experts of all blocks together: there is a list of their tensors before one is looked at.
const mostExperts = 1 << 16

// expertsOf reads how many experts there are, and writes their keys. key is the member for their number.
func (b *builder) expertsOf(key string) *experts {
	c := b.config
	for _, key := range []string{"output_router_logits", "router_aux_loss_coef", "router_jitter_noise"} {
		c.has(key) // how they were trained
	}
	e := &experts{count: c.integer(key), router: "mlp.gate", of: "mlp.experts.%d.", parts: llamaParts, fused: manyInOne}
	if n := c.layers("num_hidden_layers"); e.count > mostExperts/n {
		c.fail(key, "%d experts in %d blocks, %d are the most in all", e.count, n, mostExperts)
		e.count = 1
	}
	perToken := c.first("num_experts_per_tok", "moe_k", "moe_topk")
	used := c.integer(perToken)
	if used > e.count {
		c.fail(perToken, "%d of %d experts", used, e.count)
	}
	b.size("expert_count", e.count)
	b.size("expert_used_count", used)
	return e
}

// experts adds the tensors of a block's experts.
func (b *builder) experts(s sizes, e *experts, to, from string) {
	b.matrix(to+"ffn_gate_inp.weight", from+e.router+".weight", e.count, s.width)
	if e.choice != "" {
		b.vector(to+"exp_probs_b.bias", from+e.choice, e.count, 0)
	}
	b.fits(e.count, 2*e.width)
	b.fits(e.count, s.width)
	const qwens = "mlp.shared_expert"
	shared := cmp.Or(e.sharedOf, qwens)
	for i, part := range []string{"gate", "up", "down"} {
		if e.parts[i] == "" {
			continue // experts without gates
		}
		shape := func(rows, cols int) (int, int) {
			if part == "down" {
				return cols, rows
			}
			return rows, cols
		}
		t := target{name: to + "ffn_" + part + "_exps.weight"}
		if t.rows, t.cols = shape(e.width, cmp.Or(e.inputs, s.width)); b.holds(from + e.fused[0]) {
			t.from, t.stack = from+e.fused[i/2], e.count
			outputs, first := t.rows, 0
			if i < 2 {
				outputs, first = 2*e.width, i*e.width
				t.order, t.sourceRows = partOfEach(outputs, first, e.width), outputs*e.count
			}
			if e.flipped {
				t.sourceRows, t.sourceCols = t.cols*e.count, outputs
				t.place = func(row, col int) int { return col*outputs + first + row }
			}
			t.rows *= e.count
		} else {
			for k := range e.count {
				t.experts = append(t.experts, from+fmt.Sprintf(e.of, k)+e.parts[i]+".weight")
			}
		}
		b.add(t)
		if e.shared > 0 {
			rows, cols := shape(e.shared, s.width)
			b.matrix(to+"ffn_"+part+"_shexp.weight", from+shared+"."+e.parts[i]+".weight", rows, cols)
		}
	}
	if e.shared > 0 && e.sharedOf == "" {
		b.vector(to+"ffn_gate_inp_shexp.weight", from+qwens+"_gate.weight", s.width, 0)
	}
}

// fits checks that the rows of a tensor of all experts can be counted, each of which has so many.
func (b *builder) fits(count, rows int) {
	if int64(count)*int64(rows) > math.MaxInt32 {
		b.config.fail("hidden_size", "%d experts of %d rows each", count, rows)
	}
}

// qwenMoE is Qwen 2 or 3 with experts, whose weights are normalized or not.
func (b *builder) qwenMoE(o options, normalized bool) {
	o.experts = b.qwenExperts(normalized, !o.headNorms) // Qwen 2 has one that all tokens go through
	b.llamaLike(o)
}

// qwenExperts reads Qwen's experts.
func (b *builder) qwenExperts(normalized, shared bool) *experts {
	c := b.config
	c.must("norm_topk_prob", fmt.Sprintf("GGUF's %s has %v", b.arch, normalized), normalized)
	c.must("decoder_sparse_step", "every block has experts here", 1.0)
	if len(c.numbers("mlp_only_layers")) > 0 {
		c.fail("mlp_only_layers", "every block has experts here")
	}
	e := b.expertsOf("num_experts")
	e.width = c.integer("moe_intermediate_size")
	b.size("expert_feed_forward_length", e.width)
	if shared {
		e.shared = c.integer("shared_expert_intermediate_size")
		b.size("expert_shared_feed_forward_length", e.shared)
	}
	return e
}

func mixtral(b *builder) {
	if c := b.config; c.values["rope_theta"] == nil {
		c.values["rope_theta"] = json.Number("1e6") // as the class has it
	}
	e := b.expertsOf("num_local_experts")
	e.width, e.router = b.config.integer("intermediate_size"), "block_sparse_moe.gate"
	e.of, e.parts = "block_sparse_moe.experts.%d.", numberedParts
	b.llamaLike(options{interleave: true, experts: e})
}

func olmoe(b *builder) {
	c := b.config
	c.must("norm_topk_prob", "GGUF's olmoe does not normalize the experts' weights", false)
	c.must("clip_qkv", "GGUF's olmoe does not clip") // at any value
	e := b.expertsOf("num_experts")
	e.width = c.integer("intermediate_size")
	b.llamaLike(options{wideNorms: true, experts: e})
}

// ernie: the source turns pairs (2i, 2i+1), as GGUF's does.
func ernie(b *builder) {
	b.config.has("use_bias") // whether there are biases is told by the tensors
	b.llamaLike(options{})
}
