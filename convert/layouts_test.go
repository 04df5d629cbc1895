package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// layoutCase is a class whose models have other tensors than Llama's, and a drawn file of its architecture.
type layoutCase struct {
	class   string
	file    string             // of ../shared/families/models, or a recipe's name behind "drawn "
	names   []string           // what is called otherwise, in front of drawnNames
	after   *strings.Replacer  // of what these give; nil: nothing
	turned  bool               // rows of q and k are halves that turn with each other
	lessOne bool               // the weights of norms are stored less 1
	members map[string]string  // of config.json, by the keys that they are
	config  map[string]any     // further ones, and those of keys that the file lacks
	recipe  randommodel.Recipe // if it is not one of randommodel.Recipes
	apart   []string           // keys that config.json does not say so

	lay func(l *laid, x gguf.Tensor) bool // writes a tensor that is stored otherwise; false: this is not one; may be nil
}

const drawnRecipe = "drawn "

// laid is a drawn file that becomes a folder.
type laid struct {
	*source
	f    *gguf.File
	name func(string) string // of the class
}

// of are a tensor's elements.
func (l *laid) of(name string) []float32 {
	x, ok := l.f.Tensor(name)
	if !ok {
		l.t.Fatal(name, "is not in the file")
	}
	return floats(l.t, l.f, x)
}

// put adds a tensor.
func (l *laid) put(name string, shape []int, value func(i int) float32) {
	l.tensors[name], l.values[name] = shape, value
}

// dimsOf are a tensor's columns, rows and matrices.
func dimsOf(x gguf.Tensor) (cols, rows, n int) {
	all := []int{1, 1, 1}
	for i, d := range x.Dims {
		all[i] = int(d)
	}
	return all[0], all[1], all[2]
}

// inPair is the tensor of gates and ups of an expert or of several: of each the gate's rows, then those of up.
func (l *laid) inPair(gate, up, name string, shape ...int) {
	x, _ := l.f.Tensor(gate)
	cols, rows, _ := dimsOf(x)
	a, b := l.of(gate), l.of(up)
	l.put(name, shape, func(i int) float32 {
		row, matrix := i/cols%(2*rows), i/cols/(2*rows)
		if row < rows {
			return a[(matrix*rows+row)*cols+i%cols]
		}
		return b[(matrix*rows+row-rows)*cols+i%cols]
	})
}

// ordinary writes a tensor that is stored as most are.
func (c layoutCase) ordinary(l *laid, x gguf.Tensor) {
	values, name := floats(l.t, l.f, x), l.name(x.Name)
	cols, rows, n := dimsOf(x)
	plain := func(i int) float32 { return values[i] }
	width, _ := l.f.Uint32(architecture(l.f) + ".embedding_length")
	heads, _ := l.f.Uint32(architecture(l.f) + ".attention.head_count")
	d := int(width / max(heads, 1))
	if own, err := l.f.Uint32(architecture(l.f) + ".attention.key_length"); err == nil {
		d = int(own)
	}
	switch {
	case len(x.Dims) == 3 && strings.Contains(name, "%d"):
		for k := range n {
			l.put(fmt.Sprintf(name, k), []int{rows, cols}, func(i int) float32 { return values[k*rows*cols+i] })
		}
	case len(x.Dims) == 3:
		l.put(name, []int{n, rows, cols}, plain)
	case strings.HasSuffix(x.Name, "ffn_gate_inp_shexp.weight"):
		l.put(name, []int{1, cols}, plain)
	case strings.HasSuffix(x.Name, "shortconv.conv.weight"), strings.HasSuffix(x.Name, "ssm_conv1d.weight"):
		l.put(name, []int{rows, 1, cols}, plain)
	case strings.HasSuffix(x.Name, ".ssm_a"):
		shape := []int{rows, cols} // of Mamba; else one of the two is 1
		if rows == 1 || cols == 1 {
			shape = []int{rows * cols}
		}
		l.put(name, shape, func(i int) float32 { return float32(math.Log(-float64(values[i]))) })
	case strings.HasSuffix(x.Name, ".ssm_d"), strings.HasSuffix(x.Name, "ssm_norm.weight"):
		l.put(name, []int{rows * cols}, plain)
	case c.lessOne && strings.HasSuffix(x.Name, "norm.weight"):
		l.put(name, []int{cols}, func(i int) float32 { return values[i] - 1 })
	case len(x.Dims) == 1:
		l.put(name, []int{cols}, plain)
	case c.turned && (strings.HasSuffix(x.Name, "attn_q.weight") || strings.HasSuffix(x.Name, "attn_k.weight")):
		l.put(name, []int{rows, cols}, func(i int) float32 {
			row := i / cols
			return values[(row/d*d+row%d%(d/2)*2+row%d/(d/2))*cols+i%cols]
		})
	default:
		l.put(name, []int{rows, cols}, plain)
	}
}

// open opens the drawn file; its golden is "" for a recipe.
func (c layoutCase) open(t *testing.T) (f *gguf.File, golden string) {
	t.Helper()
	if recipe, ok := strings.CutPrefix(c.file, drawnRecipe); ok {
		if c.recipe.Arch == "" {
			c.recipe = randommodel.Recipes()[recipe]
		}
		file := c.recipe.File(t)
		f, err := gguf.Open(bytes.NewReader(file), int64(len(file)), recipe)
		if err != nil {
			t.Fatal(err)
		}
		return f, ""
	}
	f, err := gguf.OpenFile(testkit.Shared(t, "families/models/"+c.file+".gguf"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f, testkit.Shared(t, "families/models/golden/"+c.file+".json")
}

// folder writes the drawn file in the layout of the class.
func (c layoutCase) folder(t *testing.T, f *gguf.File) (*source, map[string]any) {
	t.Helper()
	s := &source{t: t, dir: t.TempDir(), tensors: map[string][]int{}, values: map[string]func(int) float32{}}
	names := strings.NewReplacer(slices.Concat(c.names, drawnNames)...)
	l := &laid{source: s, f: f, name: func(name string) string {
		if name = names.Replace(name); c.after != nil {
			name = c.after.Replace(name)
		}
		return name
	}}
	for _, x := range f.Tensors {
		if c.lay == nil || !c.lay(l, x) {
			c.ordinary(l, x)
		}
	}
	s.bytesOnly(min(s.tensors[l.name("token_embd.weight")][0], 256))
	config := maps.Clone(c.config)
	config["vocab_size"] = s.tensors[l.name("token_embd.weight")][0]
	for key, member := range c.members {
		v, ok := f.Value(architecture(f) + "." + key)
		if n, whole := v.(uint32); whole && key == "block_count" {
			further, _ := f.Uint32(architecture(f) + ".nextn_predict_layers")
			v = n - further
		}
		if ok && member != "" {
			config[member] = v
		}
	}
	config["architectures"] = []string{c.class}
	return s, config
}

// writeConfig writes config.json as Python does, which has a word for infinity.
func (s *source) writeConfig(config map[string]any) {
	text, err := json.Marshal(config)
	if err != nil {
		s.t.Fatal(err)
	}
	s.file("config.json", strings.ReplaceAll(string(text), `"Infinity"`, "Infinity"))
}

// TestPublishedLayouts: models in the layout of their class become the drawn files that they were, of which the
// engine's tests compare what is computed with other programs; here the logits of those in ../shared are compared too.
func TestPublishedLayouts(t *testing.T) {
	for _, c := range layoutCases() {
		t.Run(c.class+" "+c.file, func(t *testing.T) {
			want, golden := c.open(t)
			s, config := c.folder(t, want)
			if strings.HasSuffix(c.class, "ForConditionalGeneration") {
				config = s.withPictures(c.class, config)
			}
			s.writeConfig(config)
			s.weights()
			got, file := converted(t, s.dir, Options{Type: "f32"})
			c.sameAs(t, got, want)
			if b, err := baseOf(s.dir); err != nil || len(b.targets) == 0 {
				t.Errorf("as the base of an adapter: %v", err)
			}
			if runs(t, file); golden != "" && c.class != "ApertusForCausalLM" { // whose factors are no class's

				compareLogits(t, file, golden)
			}
		})
	}
}

// sameAs compares tensors and the architecture's keys.
func (c layoutCase) sameAs(t *testing.T, got, want *gguf.File) {
	t.Helper()
	own := func(x gguf.Tensor) bool { return c.class == "ApertusForCausalLM" && x.Name == "rope_freqs.weight" }
	tensors := slices.DeleteFunc(slices.Clone(want.Tensors), own)
	if len(got.Tensors) != len(want.Tensors) {
		t.Errorf("%d tensors, want %d", len(got.Tensors), len(want.Tensors))
	}
	for _, w := range tensors {
		g, ok := got.Tensor(w.Name)
		if !ok || g.Type != w.Type || !slices.Equal(g.Dims, w.Dims) {
			t.Errorf("%s: %v %v, want %v", w.Name, g.Type, g.Dims, w.Dims)
			continue
		}
		a, b := floats(t, got, g), floats(t, want, w)
		rounded := strings.HasSuffix(w.Name, ".ssm_a") || c.lessOne && strings.HasPrefix(c.file, drawnRecipe)
		for i := range a {
			if a[i] != b[i] && !(rounded && math.Abs(float64(a[i]-b[i])) < 1e-6) {
				t.Errorf("%s: element %d is %v, want %v", w.Name, i, a[i], b[i])
				break
			}
		}
	}
	if architecture(got) != architecture(want) {
		t.Errorf("architecture %s, want %s", architecture(got), architecture(want))
	}
	for _, kv := range want.KVs {
		name, ok := strings.CutPrefix(kv.Key, architecture(want)+".")
		if ok = ok || strings.HasPrefix(kv.Key, "xielu."); !ok || slices.Contains(c.apart, name) {
			continue
		}
		if g, _ := got.Value(kv.Key); fmt.Sprint(g) != fmt.Sprint(kv.Value) {
			t.Errorf("%s = %v, want %v", kv.Key, g, kv.Value)
		}
	}
}

// TestLayoutsRefused: members that change what a model computes are refused by name.
func TestLayoutsRefused(t *testing.T) {
	changes := map[string]map[string]any{
		"Qwen3_5MoeForCausalLM": {"decoder_sparse_step": 2, "mlp_only_layers": []int{1}, "mtp_num_hidden_layers": 2,
			"linear_num_value_heads": 3, "num_experts_per_tok": 9},
		"Qwen3NextForCausalLM": {"norm_topk_prob": false, "linear_value_head_dim": 8, "attn_output_gate": false},
		"Glm4MoeForCausalLM": {"num_nextn_predict_layers": 2, "n_group": 3, "first_k_dense_replace": 1.5,
			"hidden_act": "gelu"},
		"DeepseekV3ForCausalLM": {"scoring_func": "softmax", "topk_method": "greedy", "topk_group": 5, "moe_layer_freq": 2,
			"attention_bias": true, "qk_head_dim": 5, "num_key_value_heads": 2},
		"DeepseekV2ForCausalLM": {"topk_method": "group_limited_greedy", "scoring_func": "sigmoid", "norm_topk_prob": true},
		"GraniteMoeHybridForCausalLM": {"layer_types": []string{"mamba"}, "mamba_conv_bias": false, "mamba_proj_bias": true,
			"mamba_expand": 3, "mamba_d_head": 8, "normalization_function": "layernorm", "time_step_limit": []float64{0, 1},
			"position_embedding_type": "alibi"},
		"NemotronForCausalLM": {"hidden_act": "silu", "tie_word_embeddings": true},
		"NemotronHForCausalLM": {"hybrid_override_pattern": "M-MX-", "mlp_hidden_act": "silu", "sliding_window": 4,
			"n_groups": 5, "num_attention_heads": 5},
		"FalconH1ForCausalLM": {"attn_layer_indices": []int{1}, "mlp_multipliers": []float64{1},
			"attention_bias": true, "mamba_use_mlp": false,
			"ssm_multipliers": []float64{1, 2}},
		"MambaForCausalLM":          {"d_inner": 5, "expand": 3, "use_bias": true, "hidden_act": "gelu", "d_model": 5},
		"Mamba2ForCausalLM":         {"n_groups": 3, "expand": 3, "rms_norm": false},
		"HunYuanDenseV1ForCausalLM": {"num_experts": 2, "use_cla": true, "use_qk_norm": false},
		"HunYuanMoEV1ForCausalLM": {"norm_topk_prob": false, "routed_scaling_factor": 2, "group_limited_greedy": true,
			"moe_topk": []int{3, 2}, "moe_intermediate_size": []int{24, 24},
			"moe_layer_num_skipped": 1},
		"InternLM2ForCausalLM": {"rope_scaling": map[string]any{"type": "ntk"}},
		"MiniCPMForCausalLM":   {"num_experts": 8, "dim_model_base": 0},
		"ApertusForCausalLM":   {"hidden_act": "gelu", "qk_norm": false, "post_norm": true},
		"ArceeForCausalLM":     {"hidden_act": "silu"},
		"BailingMoeV2ForCausalLM": {"score_function": "softmax", "use_qk_norm": false,
			"moe_router_enable_expert_bias": false},
		"Ernie4_5_MoeForCausalLM": {"moe_gate": "hash", "compression_ratio": 0.5, "moe_layer_interval": 2,
			"moe_layer_end_index": 1, "moe_use_aux_free": false},
		"Lfm2MoeForCausalLM": {"norm_topk_prob": false, "conv_bias": true, "num_dense_layers": -1},
	}
	seen := map[string]bool{}
	for _, c := range layoutCases() {
		if seen[c.class] {
			continue
		}
		seen[c.class] = true
		want, _ := c.open(t)
		s, config := c.folder(t, want)
		s.weights()
		for key, v := range changes[c.class] {
			s.writeConfig(with(config, map[string]any{key: v}))
			s.refused(fmt.Sprint(c.class, ", ", key), []string{key})
		}
		if strings.HasSuffix(c.class, "ForCausalLM") {
			s.writeConfig(with(config, map[string]any{"new_member": 1}))
			s.refused(c.class, []string{"new_member", "not known here"})
			s.tensors["model.layers.0.mlp.new.weight"] = []int{1}
			s.weights()
			s.writeConfig(config)
			s.refused(c.class, []string{"model.layers.0.mlp.new.weight"})
		}
	}
	for class := range changes {
		if !seen[class] {
			t.Errorf("%s: no such case", class)
		}
	}
}

// TestAdapterOfFactors: an adapter of a matrix that GGUF has multiplied is multiplied too.
func TestAdapterOfFactors(t *testing.T) {
	c := layoutOf(t, "FalconH1ForCausalLM", "")
	f, _ := c.open(t)
	base, config := c.folder(t, f)
	base.writeConfig(config)
	const rank, name = 2, "base_model.model.model.layers.1.mamba.in_proj"
	rows := randommodel.MambaInner*2 + 2*randommodel.Groups*randommodel.State + randommodel.MambaHeads
	s := &source{t: t, dir: t.TempDir(), tensors: map[string][]int{name + ".lora_A.weight": {rank, randommodel.Width},
		name + ".lora_B.weight": {rows, rank}}, values: map[string]func(int) float32{
		name + ".lora_B.weight": func(int) float32 { return 1 }}}
	s.file(AdapterConfig, map[string]any{"peft_type": "LORA", "r": rank, "lora_alpha": 4, "bias": "none"})
	s.weights()
	s.adapterWeights()
	m, err := OpenAdapter(s.dir, base.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var b bytes.Buffer
	if err := m.Write(t.Context(), &b, Options{Type: "f32"}); err != nil {
		t.Fatal(err)
	}
	got, err := gguf.Open(bytes.NewReader(b.Bytes()), int64(b.Len()), "adapter")
	if err != nil {
		t.Fatal(err)
	}
	x, _ := got.Tensor("blk.1.ssm_in.weight.lora_b")
	values := floats(t, got, x)
	for row, want := range map[int]float32{0: 8, randommodel.MambaInner: 16, rows - 1: 128} {
		if values[row*rank] != want {
			t.Errorf("row %d: %v, want %v", row, values[row*rank], want)
		}
	}
}

// layoutOf is the case of a class and a file.
func layoutOf(t *testing.T, class, file string) layoutCase {
	for _, c := range layoutCases() {
		if c.class == class && (file == "" || c.file == file) {
			return c
		}
	}
	t.Fatal("no case of", class, file)
	return layoutCase{}
}

// TestBlocksLeftOut: blocks for multi-token prediction that GGUF has no place for are left out, and that is told.
func TestBlocksLeftOut(t *testing.T) {
	for class, name := range map[string]string{"NemotronHForCausalLM": "mtp.layers.0.mixer.in_proj.weight",
		"Ernie4_5_MoeForCausalLM": "model.mtp_block.0.mlp.up_proj.weight"} {
		c := layoutOf(t, class, "")
		want, _ := c.open(t)
		s, config := c.folder(t, want)
		s.tensors[name] = []int{3, 4}
		s.weights()
		s.writeConfig(config)
		m, err := Open(s.dir)
		if err != nil {
			t.Fatal(class, err)
		}
		m.Close()
		if notes := fmt.Sprint(m.Notes); !strings.Contains(notes, "multi-token prediction are left out (1 tensors)") ||
			m.Tensors() != len(want.Tensors) {
			t.Errorf("%s: %s, %d tensors, want %d", class, notes, m.Tensors(), len(want.Tensors))
		}
	}
}

// TestGraniteWithoutPositions: attention alone without positions is no model that GGUF has.
func TestGraniteWithoutPositions(t *testing.T) {
	c := layoutOf(t, "GraniteMoeHybridForCausalLM", "drawn granite")
	want, _ := c.open(t)
	s, config := c.folder(t, want)
	s.weights()
	for _, kind := range []any{"nope", nil} {
		config["position_embedding_type"] = kind
		s.writeConfig(config)
		s.refused(fmt.Sprint(kind), []string{"position_embedding_type"})
	}
}

// TestLongHostileMembers: whatever stands in a member of config.json is refused or read, without a panic and without
// memory for sizes that the tensors do not have. The quick tests put a few values into a few members.
func TestLongHostileMembers(t *testing.T) {
	testkit.Long(t)
	values := []any{0, -1, 1, 3, 1.5, largest, largest + 1, 1e300, "x", "auto", true, []any{}, []any{1, "x"},
		map[string]any{}, map[string]any{"rope_type": "yarn", "mscale_all_dim": 0}, nil}
	for _, c := range layoutCases() {
		want, _ := c.open(t)
		s, config := c.folder(t, want)
		s.weights()
		before := allocated()
		for key := range config {
			for _, v := range values {
				changed := with(config, map[string]any{key: v})
				changed["architectures"] = []string{c.class}
				if strings.HasSuffix(c.class, "ForConditionalGeneration") {
					changed = map[string]any{"architectures": []string{c.class}, "text_config": changed}
				}
				s.writeConfig(changed)
				if m, err := Open(s.dir); err == nil {
					m.Close()
				}
				baseOf(s.dir)
			}
		}
		if all := (allocated() - before) / uint64(len(config)*len(values)); all > 8<<20 {
			t.Errorf("%s: %d bytes were allocated each time", c.class, all)
		}
	}
}

// TestInfinity: the word that Python writes in the place of a number is read where a value stands, and not in texts.
func TestInfinity(t *testing.T) {
	s := &source{t: t, dir: t.TempDir()}
	s.file("config.json", `{"Infinity \\\" Infinity": "Infinity \" Infinity", "list": [0.0, Infinity], "at": Infinity}`)
	c, err := readConfig(s.dir + "/config.json")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(c.values), fmt.Sprint(map[string]any{`Infinity \" Infinity`: `Infinity " Infinity`,
		"list": []any{"0.0", infinity}, "at": infinity}); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if c.number("at"); *c.err == nil || !strings.Contains((*c.err).Error(), "at: a number expected") {
		t.Errorf("no number: %v", *c.err)
	}
	s.file("config.json", `{"at": -Infinity}`)
	if _, err := readConfig(s.dir + "/config.json"); err == nil {
		t.Error("-Infinity was read")
	}
}
