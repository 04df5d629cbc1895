package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// layoutCase is a class of config.json, a drawn GGUF file of its architecture, and how models of the class are
// published: what they call their tensors, how they store them, and what their config.json says.
type layoutCase struct {
	class  string
	kind   string                                      // which of several cases of the class
	shared string                                      // the file, of ../shared/families/models, or encoders/NAME; or
	recipe string                                      // one of randommodel.Recipes
	edit   func(r *randommodel.Recipe)                 // makes of the recipe one that the class can say; may be nil
	file   func(t *testing.T, f *gguf.File) *gguf.File // makes of its file one; may be nil
	lay    func(l *laid, x gguf.Tensor) (is bool)      // writes a tensor that is stored otherwise, or none; may be nil

	names   []string          // what is called otherwise, in front of llamaNames
	after   *strings.Replacer // of what these give; nil: nothing
	turned  bool              // rows of q and k are halves that turn with each other
	lessOne bool              // the weights of norms are stored less 1
	members map[string]string // of config.json, by the keys that they are; nil: llamaMembers
	config  object            // further ones, and those that differ from the keys
	apart   []string          // keys and tensors that config.json does not say so
	refuses object            // values of members ("object.member" of one inside) that are refused by the member's name
}

// object is one of JSON.
type object = map[string]any

// members are the names of config.json's members, by the keys that they are.
type members = map[string]string

// with is a map with more.
func with[K comparable, V any](m map[K]V, more ...map[K]V) map[K]V {
	out := map[K]V{}
	for _, m := range append([]map[K]V{m}, more...) {
		maps.Copy(out, m)
	}
	return out
}

// naming is a value that is refused by another name than its member's.
type naming struct {
	value any
	name  string
}

// layoutCases are all.
func layoutCases() []layoutCase {
	return slices.Concat(denseLayouts(), gemmaLayouts(), expertLayouts(), gptOSSLayouts(), recurrentLayouts(),
		encoderLayouts())
}

// layoutOf is the case of that name.
func layoutOf(t *testing.T, name string) layoutCase {
	t.Helper()
	list := layoutCases()
	i := slices.IndexFunc(list, func(c layoutCase) bool { return c.name() == name })
	if i < 0 {
		t.Fatalf("no case %s", name)
	}
	return list[i]
}

// name is the class, and which of its cases.
func (c layoutCase) name() string {
	return strings.TrimSuffix(c.class+", "+c.kind, ", ")
}

// readsPictures: texts are a part of what the class reads.
func (c layoutCase) readsPictures() bool {
	return strings.HasSuffix(c.class, "ForConditionalGeneration")
}

// encodes: the case is one of an encoder.
func (c layoutCase) encodes() bool { return strings.HasPrefix(c.shared, "encoders/") }

// llamaNames are what Llama's class, and some with more parts, call their tensors, the longer names first.
var llamaNames = []string{"token_embd.", "model.embed_tokens.", "output_norm.", "model.norm.",
	"attn_output.", "self_attn.o_proj.", "output.", "lm_head.", "blk.", "model.layers.",
	"attn_norm.", "input_layernorm.", "ffn_norm.", "post_attention_layernorm.",
	"attn_q_norm.", "self_attn.q_norm.", "attn_k_norm.", "self_attn.k_norm.", "attn_q.", "self_attn.q_proj.",
	"attn_k.", "self_attn.k_proj.", "attn_v.", "self_attn.v_proj.", "ffn_gate.", "mlp.gate_proj.",
	"ffn_up.", "mlp.up_proj.", "ffn_down.", "mlp.down_proj.", "ffn_gate_inp.", "mlp.gate.",
	"ffn_gate_inp_shexp.", "mlp.shared_expert_gate.", "ffn_gate_shexp.", "mlp.shared_expert.gate_proj.",
	"ffn_up_shexp.", "mlp.shared_expert.up_proj.", "ffn_down_shexp.", "mlp.shared_expert.down_proj.",
	"ffn_gate_exps.", "mlp.experts.%d.gate_proj.", "ffn_up_exps.", "mlp.experts.%d.up_proj.",
	"ffn_down_exps.", "mlp.experts.%d.down_proj."}

// What many classes say.
var (
	commonMembers = members{"embedding_length": "hidden_size", "block_count": "num_hidden_layers",
		"attention.layer_norm_rms_epsilon": "rms_norm_eps"}
	llamaMembers = with(commonMembers, members{"attention.head_count": "num_attention_heads",
		"attention.head_count_kv": "num_key_value_heads", "feed_forward_length": "intermediate_size",
		"context_length": "max_position_embeddings", "rope.freq_base": "rope_theta", "attention.key_length": "head_dim",
		"attention.layer_norm_epsilon": "layer_norm_eps", "rope.freq_base_swa": "rope_local_base_freq",
		"attention.sliding_window": "sliding_window"})
	plain = object{"hidden_act": "silu", "tie_word_embeddings": false}
	tied  = object{"hidden_act": "silu", "tie_word_embeddings": true}
)

// windows are layer_types: s is a layer with a window, f one without.
func windows(pattern string) (types []string) {
	for _, c := range pattern {
		types = append(types, map[rune]string{'s': "sliding_attention", 'f': "full_attention"}[c])
	}
	return types
}

// yarnOf are rope_parameters of YaRN with more members.
func yarnOf(more object) object {
	return with(object{"rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 20, "rope_theta": 50}, more)
}

// laid is a drawn file that becomes a folder.
type laid struct {
	*source
	f    *gguf.File
	name func(string) string // of the class
}

// of are a tensor's elements.
func (l *laid) of(name string) []float32 { return floats(l.t, l.f, tensorOf(l.t, l.f, name)) }

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

// block is what the class calls the block of a tensor.
func (l *laid) block(x gguf.Tensor) string {
	parts := strings.SplitAfterN(x.Name, ".", 3)
	return l.name(parts[0] + parts[1])
}

// inPair is the tensor of gates and ups of an expert or of several: of each the gate's rows, then those of up.
func (l *laid) inPair(gate, up, name string, shape ...int) {
	cols, rows, _ := dimsOf(tensorOf(l.t, l.f, gate))
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
	values, name := l.of(x.Name), l.name(x.Name)
	cols, rows, n := dimsOf(x)
	same := func(i int) float32 { return values[i] }
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
		l.put(name, []int{n, rows, cols}, same)
	case strings.HasSuffix(x.Name, "ffn_gate_inp_shexp.weight"):
		l.put(name, []int{1, cols}, same)
	case strings.HasSuffix(x.Name, "shortconv.conv.weight"), strings.HasSuffix(x.Name, "ssm_conv1d.weight"):
		l.put(name, []int{rows, 1, cols}, same)
	case strings.HasSuffix(x.Name, ".ssm_a"):
		shape := []int{rows, cols} // of Mamba; else one of the two is 1
		if rows == 1 || cols == 1 {
			shape = []int{rows * cols}
		}
		l.put(name, shape, func(i int) float32 { return float32(math.Log(-float64(values[i]))) })
	case strings.HasSuffix(x.Name, ".ssm_d"), strings.HasSuffix(x.Name, "ssm_norm.weight"):
		l.put(name, []int{rows * cols}, same)
	case c.lessOne && strings.HasSuffix(x.Name, "norm.weight"):
		l.put(name, []int{cols}, func(i int) float32 { return values[i] - 1 })
	case len(x.Dims) == 1:
		l.put(name, []int{cols}, same)
	case c.turned && (strings.HasSuffix(x.Name, "attn_q.weight") || strings.HasSuffix(x.Name, "attn_k.weight")):
		l.put(name, []int{rows, cols}, func(i int) float32 {
			row := i / cols
			return values[(row/d*d+row%d%(d/2)*2+row%d/(d/2))*cols+i%cols]
		})
	default:
		l.put(name, []int{rows, cols}, same)
	}
}

// layWithoutFactors leaves out the factors of frequencies, which config.json says.
func layWithoutFactors(_ *laid, x gguf.Tensor) bool { return x.Name == "rope_freqs.weight" }

// open opens the drawn file.
func (c layoutCase) open(t *testing.T) *gguf.File {
	t.Helper()
	f := c.drawn(t)
	if c.file != nil {
		f = c.file(t, f)
	}
	return f
}

// drawn is the file that file makes another of.
func (c layoutCase) drawn(t *testing.T) *gguf.File {
	t.Helper()
	if c.shared != "" {
		name := "models/" + c.shared
		if c.encodes() {
			name = c.shared
		}
		f, err := gguf.OpenFile(testkit.Shared(t, "families/"+name+".gguf"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	r := randommodel.Recipes()[c.recipe]
	if c.edit != nil {
		c.edit(&r)
	}
	return openedFile(t, r.File(t))
}

// openedFile is a GGUF file that is in memory.
func openedFile(t *testing.T, file []byte) *gguf.File {
	t.Helper()
	f, err := gguf.Open(bytes.NewReader(file), int64(len(file)), "drawn")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// rewritten is f with other tensors in the place of those of their names, or without one whose Write is nil.
func rewritten(t *testing.T, f *gguf.File, others ...gguf.TensorSource) *gguf.File {
	t.Helper()
	var list []gguf.TensorSource
	for _, x := range f.Tensors {
		if i := slices.IndexFunc(others, func(o gguf.TensorSource) bool { return o.Name == x.Name }); i >= 0 {
			if others[i].Write != nil {
				list = append(list, others[i])
			}
			continue
		}
		list = append(list, tensorOfBytes(x.Name, x.Type, x.Dims, rawBytes(t, f, x)))
	}
	return openedFile(t, randommodel.Bytes(t, f.KVs, list))
}

// tensorOfBytes is a tensor to write.
func tensorOfBytes(name string, typ gguf.Type, dims []uint64, raw []byte) gguf.TensorSource {
	return gguf.TensorSource{Name: name, Type: typ, Dims: dims, Write: func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	}}
}

// tensorOf is a tensor of a file that is there.
func tensorOf(t testing.TB, f *gguf.File, name string) gguf.Tensor {
	t.Helper()
	x, ok := f.Tensor(name)
	if !ok {
		t.Fatalf("no tensor %s", name)
	}
	return x
}

// folder writes the drawn file in the layout of the class, with its config.json and a tokenizer of single bytes.
func (c layoutCase) folder(t *testing.T) (s *source, config object, want *gguf.File) {
	t.Helper()
	want = c.open(t)
	s = &source{t: t, dir: t.TempDir(), tensors: map[string][]int{}, values: map[string]func(int) float32{},
		raw: map[string]rawTensor{}}
	names := strings.NewReplacer(slices.Concat(c.names, llamaNames)...)
	l := &laid{source: s, f: want, name: func(name string) string {
		if name = names.Replace(name); c.after != nil {
			name = c.after.Replace(name)
		}
		return name
	}}
	for _, x := range want.Tensors {
		if c.lay == nil || !c.lay(l, x) {
			c.ordinary(l, x)
		}
	}
	vocab := s.tensors[l.name("token_embd.weight")][0]
	if c.encodes() {
		s.encoderFiles(want)
	} else {
		s.bytesOnly(min(vocab, 256))
	}
	config = object{"vocab_size": vocab, "architectures": []string{c.class}}
	if c.members == nil {
		c.members = llamaMembers
	}
	for key, member := range c.members {
		v, ok := want.Value(architecture(want) + "." + key)
		if n, whole := v.(uint32); whole && key == "block_count" {
			further, _ := want.Uint32(architecture(want) + ".nextn_predict_layers")
			v = n - further
		}
		if ok && member != "" {
			config[member] = v
		}
	}
	if config = with(config, c.config); c.readsPictures() {
		config = s.withPictures(c.class, config)
	}
	s.writeConfig(config)
	s.weights()
	return s, config, want
}

// withPictures makes a model one that reads pictures too, with such tensors and the object for texts in config.json.
func (s *source) withPictures(class string, config object) object {
	from, to, more := "model.", "model.language_model.", "model.visual.patch.weight"
	if class == "Mistral3ForConditionalGeneration" || class == "Gemma3ForConditionalGeneration" {
		from, to, more = "", "language_model.", "vision_tower.patch.weight"
	}
	for name, shape := range maps.Clone(s.tensors) {
		if !strings.HasPrefix(name, from) {
			continue // the output matrix
		}
		delete(s.tensors, name)
		renamed := to + strings.TrimPrefix(name, from)
		s.tensors[renamed], s.values[renamed] = shape, s.values[name]
	}
	s.tensors[more] = []int{3, 4, 5}
	return object{"architectures": []string{class}, "text_config": config, "image_token_index": 9,
		"image_token_id": 9, "eos_token_id": 65, "vision_config": object{"hidden_size": 3}}
}

// bytesOnly writes a tokenizer of n single bytes.
func (s *source) bytesOnly(n int) {
	vocab := map[string]int{}
	for b := range n {
		vocab[string(byteCharacter(b))] = b
	}
	s.file("tokenizer.json", object{
		"pre_tokenizer": object{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
		"model":         object{"type": "BPE", "vocab": vocab, "merges": []any{}}})
}

// writeConfig writes config.json.
func (s *source) writeConfig(config object) { s.file("config.json", s.written(config)) }

// written is config.json as Python writes it, which has a word for infinity.
func (s *source) written(config object) string {
	s.t.Helper()
	text, err := json.Marshal(config)
	if err != nil {
		s.t.Fatal(err)
	}
	return strings.ReplaceAll(string(text), `"Infinity"`, "Infinity")
}

// inside is a copy of a config.json with another value of a member, of an object inside where its name has a dot.
func inside(config object, key string, v any) object {
	config = maps.Clone(config)
	if outer, member, is := strings.Cut(key, "."); is {
		in, _ := config[outer].(object)
		config[outer] = inside(in, member, v)
	} else {
		config[key] = v
	}
	return config
}

// TestPublishedLayouts: models in the layout of their class become the drawn files that they were, of which the
// engine's tests compare what is computed with other computations; here the logits of those in ../shared are compared
// too. They are the bases of adapters.
func TestPublishedLayouts(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range layoutCases() {
		if seen[c.name()] {
			t.Errorf("two cases are %s", c.name())
		}
		seen[c.name()] = true
		t.Run(c.name(), func(t *testing.T) {
			s, _, want := c.folder(t)
			c.becomes(t, s, want)
		})
	}
}

// becomes converts a model in the layout of its class, and compares the file with the drawn one.
func (c layoutCase) becomes(t *testing.T, s *source, want *gguf.File) {
	t.Helper()
	got, file := converted(t, s.dir, Options{Type: "f32"})
	c.sameAs(t, got, want)
	if eos, err := got.Uint32("tokenizer.ggml.eos_token_id"); c.readsPictures() && (err != nil || eos != 65) {
		t.Errorf("eos_token_id of both parts: %d, %v", eos, err)
	}
	if b, err := baseOf(s.dir); err != nil || len(b.targets) == 0 {
		t.Errorf("as the base of an adapter: %v", err)
	}
	if c.encodes() {
		sameVectors(t, got, want)
	} else if runs(t, file); c.shared != "" && !slices.Contains(c.apart, "rope_freqs.weight") {
		compareLogits(t, file, testkit.Shared(t, "families/models/golden/"+c.shared+".json"))
	}
}

// vocabularyKeys are told by comparing tokenizers.
var vocabularyKeys = []string{"tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type",
	"tokenizer.ggml.merges"}

// sameAs compares tensors, byte for byte where the layout does not round, and all keys but general ones and those of
// the tokenizer of single bytes.
func (c layoutCase) sameAs(t *testing.T, got, want *gguf.File) {
	t.Helper()
	if len(got.Tensors) != len(want.Tensors) {
		t.Errorf("%d tensors, want %d", len(got.Tensors), len(want.Tensors))
	}
	for _, w := range want.Tensors {
		g, ok := got.Tensor(w.Name)
		if !ok || g.Type != w.Type || !slices.Equal(g.Dims, w.Dims) {
			t.Errorf("%s: %v %v, want %v %v", w.Name, g.Type, g.Dims, w.Type, w.Dims)
			continue
		}
		if slices.Contains(c.apart, w.Name) || bytes.Equal(rawBytes(t, got, g), rawBytes(t, want, w)) {
			continue
		}
		if w.Type != gguf.F32 {
			t.Errorf("%s: other bytes", w.Name)
			continue
		}
		rounded := strings.HasSuffix(w.Name, ".ssm_a") ||
			c.lessOne && c.shared == "" && strings.HasSuffix(w.Name, "norm.weight")
		a, b := floats(t, got, g), floats(t, want, w)
		for i := range a {
			if a[i] != b[i] && !(rounded && math.Abs(float64(a[i]-b[i])) < 1e-6) {
				t.Errorf("%s: element %d is %v, want %v", w.Name, i, a[i], b[i])
				break
			}
		}
	}
	for _, kv := range want.KVs {
		own := strings.TrimPrefix(kv.Key, architecture(want)+".")
		if slices.Contains(c.apart, own) || strings.HasPrefix(own, "general.") && own != "general.architecture" {
			continue
		}
		if is := strings.HasPrefix(own, "tokenizer."); is && (!c.encodes() || slices.Contains(vocabularyKeys, own)) {
			continue
		}
		if g, _ := got.Value(kv.Key); fmt.Sprint(g) != fmt.Sprint(kv.Value) {
			t.Errorf("%s = %v, want %v", kv.Key, g, kv.Value)
		}
	}
}

// TestLayoutsRefused: members that change what a model computes, those that are not known, and tensors that nobody
// reads are refused by name.
func TestLayoutsRefused(t *testing.T) {
	for _, c := range layoutCases() {
		s, config, _ := c.folder(t)
		for key, v := range c.refuses {
			named := key[strings.LastIndexByte(key, '.')+1:]
			if n, is := v.(naming); is {
				v, named = n.value, n.name
			}
			s.writeConfig(inside(config, key, v))
			s.refused(fmt.Sprint(c.name(), ", ", key, " ", v), []string{"config.json", named})
		}
		if c.readsPictures() {
			continue
		}
		s.writeConfig(inside(config, "new_member", 1))
		s.refused(c.name(), []string{"new_member", "not known here"})
		s.tensors["model.layers.0.mlp.new.weight"] = []int{1}
		s.weights()
		s.writeConfig(config)
		s.refused(c.name(), []string{"model.layers.0.mlp.new.weight"})
	}
}

// TestLongHostileMembers: whatever stands in a member of config.json is refused or read, without a panic and without
// memory for sizes that the tensors do not have. The quick tests put a few values into a few members.
func TestLongHostileMembers(t *testing.T) {
	testkit.Long(t)
	values := []any{0, -1, 1, 3, 0.5, largest, largest + 1, 1e300, "x", "auto", true, []any{},
		[]any{1, "x"}, []string{"x"}, object{}, object{"rope_type": "yarn", "mscale_all_dim": 0}, nil}
	for _, c := range layoutCases() {
		s, said, _ := c.folder(t)
		keys := slices.Collect(maps.Keys(said))
		if texts, is := said["text_config"].(object); is {
			for key := range texts {
				keys = append(keys, "text_config."+key)
			}
		}
		w, err := openWeights(s.dir) // once, as what it reads is the same in all cases
		if err != nil {
			t.Fatal(err)
		}
		defer w.close()
		before := allocated()
		for _, key := range keys {
			for _, v := range values {
				text := []byte(s.written(inside(said, key, v)))
				read := func() (*config, family, error) {
					c, err := parseConfig("config.json", text)
					if err != nil {
						t.Fatal(err)
					}
					return textFamily(c)
				}
				if c, f, err := read(); err == nil {
					modelOf(s.dir, c, f, w)
				}
				if c, f, err := read(); err == nil { // as the base of an adapter
					build(s.dir, c, f, new(weights))
				}
			}
		}
		if all := (allocated() - before) / uint64(len(keys)*len(values)); all > 8<<20 {
			t.Errorf("%s: %d bytes were allocated each time", c.name(), all)
		}
	}
}
