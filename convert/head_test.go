package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// headTarget is the target of drawn heads, with a vocabulary of single bytes, as a file.
func headTarget(t *testing.T, layers int, more ...gguf.KV) string {
	x := randommodel.Llama()
	x.Layers = layers
	var tokens []string
	var types []int32
	for b := range x.Vocab {
		tokens, types = append(tokens, string(byteCharacter(b))), append(types, typeNormal)
	}
	x.KVs = []gguf.KV{{Key: "tokenizer.ggml.model", Value: "gpt2"}, {Key: "tokenizer.ggml.pre", Value: "gpt-2"},
		{Key: "tokenizer.ggml.tokens", Value: tokens}, {Key: "tokenizer.ggml.token_type", Value: types},
		{Key: "tokenizer.ggml.merges", Value: []string{}}, {Key: "tokenizer.chat_template", Value: "{{ messages }}"}}
	x.KVs = append(x.KVs, more...)
	name := filepath.Join(t.TempDir(), "target.gguf")
	if err := os.WriteFile(name, x.File(t), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// publishedNames are what checkpoints call the tensors of heads, the longer names first.
var publishedNames = strings.NewReplacer("token_embd.", "embed_tokens.", "enc.output_norm.", "hidden_norm.",
	"output_norm.", "norm.", "attn_output.", "self_attn.o_proj.", "output.", "lm_head.", "blk.", "layers.",
	"attn_norm_2.", "hidden_norm.", "attn_norm.", "input_layernorm.", "ffn_norm.", "post_attention_layernorm.",
	"attn_q_norm.", "self_attn.q_norm.", "attn_k_norm.", "self_attn.k_norm.", "attn_q.", "self_attn.q_proj.",
	"attn_k.", "self_attn.k_proj.", "attn_v.", "self_attn.v_proj.", "ffn_gate.", "mlp.gate_proj.",
	"ffn_up.", "mlp.up_proj.", "ffn_down.", "mlp.down_proj.", "markov_w", "markov_head.markov_w",
	"conf_proj.", "confidence_head.proj.")

// publishedHead writes a head's file as checkpoints are published: EAGLE-3's halves of a head's rows turn with each
// other, and d2t is how much ids are above their rows.
func publishedHead(t *testing.T, file []byte, block string) (*source, *gguf.File) {
	f, err := gguf.Open(bytes.NewReader(file), int64(len(file)), "head.gguf")
	if err != nil {
		t.Fatal(err)
	}
	s := &source{t: t, dir: t.TempDir(), tensors: map[string][]int{}, values: map[string]func(int) float32{},
		ids: map[string][]int64{}}
	eagle := architecture(f) == "eagle3"
	for _, x := range f.Tensors {
		if x.Name == "d2t" {
			raw := make([]byte, x.Size)
			if _, err := f.Reader().ReadAt(raw, x.Offset); err != nil {
				t.Fatal(err)
			}
			var list []int64
			for i := range int64(x.Size / 8) {
				list = append(list, int64(binary.LittleEndian.Uint64(raw[8*i:]))-i)
			}
			s.ids[x.Name] = list
			continue
		}
		values, cols := floats(t, f, x), int(x.Dims[0])
		shape := []int{cols}
		if len(x.Dims) == 2 {
			shape = []int{int(x.Dims[1]), cols}
		}
		name := publishedNames.Replace(x.Name)
		if eagle {
			name = strings.Replace(name, "layers.0.", block, 1)
			if x.Name == "enc.output_norm.weight" {
				name = "input_norm.weight"
			}
		}
		s.tensors[name], s.values[name] = shape, func(i int) float32 { return values[i] }
		if eagle && (strings.Contains(x.Name, "attn_q.") || strings.Contains(x.Name, "attn_k.")) {
			const d = 16 // numbers of a head
			s.values[name] = func(i int) float32 {
				row, col := i/cols, i%cols
				head, j := row/d, row%d
				return values[(head*d+j%(d/2)*2+j/(d/2))*cols+col]
			}
		}
	}
	return s, f
}

// eagleConfig is the config.json of a randommodel.Eagle.
func eagleConfig(more map[string]any) map[string]any {
	return with(map[string]any{"architectures": []string{"LlamaForCausalLMEagle3"}, "model_type": "llama",
		"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 1,
		"intermediate_size": 96, "max_position_embeddings": 512, "rms_norm_eps": 1e-5, "vocab_size": 70,
		"hidden_act": "silu", "tie_word_embeddings": false}, more)
}

// dflashConfig is the config.json of a randommodel.DFlash.
func dflashConfig(more map[string]any) map[string]any {
	return with(map[string]any{"architectures": []string{"DFlashDraftModel"}, "model_type": "qwen3", "head_dim": 24,
		"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 2,
		"intermediate_size": 96, "max_position_embeddings": 2000, "rms_norm_eps": 1e-5, "vocab_size": 70,
		"rope_theta": 5000, "hidden_act": "silu", "block_size": randommodel.DFlashBlock, "num_target_layers": 3,
		"dflash_config": map[string]any{"target_layer_ids": []int{0, 1}, "mask_token_id": 68}}, more)
}

// TestHeads: a head as it is published becomes the file that it was, of which the engine's tests compare what is
// computed with a float64 reference and with an independent engine.
func TestHeads(t *testing.T) {
	layers := []int32{1, 2}
	list := func(add int) []int { return []int{0 - add, 2 - add, 1 - add} }
	own := eagleConfig(nil)
	delete(own, "architectures")
	for name, x := range map[string]struct {
		file   []byte
		block  string
		config map[string]any
	}{
		"EAGLE-3": {randommodel.Eagle{}.File(t), "midlayer.",
			eagleConfig(map[string]any{"eagle_aux_hidden_state_layer_ids": list(0)})},
		"EAGLE-3 of 40 tokens, by its draft_vocab_size": {randommodel.Eagle{Own: true}.File(t), "midlayer.",
			eagleConfig(map[string]any{"eagle_aux_hidden_state_layer_ids": list(0), "draft_vocab_size": 40,
				"architectures": []string{"LlamaForCausalLM"}})},
		"EAGLE-3 of speculators": {randommodel.Eagle{Own: true, Norms: true}.File(t), "layers.0.", map[string]any{
			"architectures": []string{"Eagle3Speculator"}, "speculators_model_type": "eagle3", "draft_vocab_size": 40,
			"norm_before_residual": true, "norm_before_fc": true, "target_hidden_size": nil, "speculators_version": "0.3",
			"speculators_config": map[string]any{"algorithm": "eagle3"}, "transformer_layer_config": own,
			"eagle_aux_hidden_state_layer_ids": list(0), "embed_requires_grad": false}},
		"EAGLE-3 of ModelOpt": {randommodel.Eagle{Keys: map[string]gguf.Value{"target_layers": []int32{1, 3, 2}}}.File(t),
			"midlayer.", eagleConfig(map[string]any{"eagle_config": map[string]any{"use_aux_hidden_state": true,
				"eagle_aux_hidden_state_layer_ids": []int{0, 2, 1}, "use_last_layernorm": true, "next_layer_regular": true,
				"use_input_layernorm_in_first_layer": true, "use_mtp_layernorm": false, "parallel_draft_step": 1}})},
		"EAGLE-3.1": {randommodel.Eagle{Each: true, Keys: map[string]gguf.Value{"norm_output": true}}.File(t), "midlayer.",
			eagleConfig(map[string]any{"eagle_aux_hidden_state_layer_ids": list(0), "norm_output": true})},
		"DFlash": {randommodel.DFlash{Layers: layers}.File(t), "", dflashConfig(nil)},
		"DFlash with a window": {randommodel.DFlash{Layers: layers, Window: 9, Windows: []bool{true, false}}.File(t), "",
			dflashConfig(map[string]any{"use_sliding_window": true, "sliding_window": 9, "max_window_layers": 2,
				"layer_types": []string{"sliding_attention", "full_attention"}})},
		"DSpark": {randommodel.DFlash{Layers: layers, Rank: 32}.File(t), "", dflashConfig(map[string]any{
			"architectures": []string{"Qwen3DSparkModel"}, "dflash_config": nil, "target_layer_ids": []int{0, 1},
			"mask_token_id": 68, "markov_rank": 32, "markov_head_type": "vanilla", "num_anchors": 512,
			"enable_confidence_head": true, "confidence_head_with_markov": true})},
		"Muse Glimmer's": {randommodel.DFlash{Layers: layers, Window: 9, Windows: []bool{true, false}}.File(t), "",
			dflashConfig(map[string]any{"architectures": []string{"MuseGlimmerAssistantModel"}, "sliding_window": 9,
				"layer_types": []string{"sliding_attention", "full_attention"}, "vocab_size": nil, "dflash_config": nil,
				"model_type": "muse_glimmer_assistant", "target_layer_ids": []int{0, 1}, "mask_token_id": 68,
				"num_target_layers": nil, "rope_theta": nil,
				"rope_parameters": map[string]any{"rope_type": "default", "rope_theta": 5000}})},
	} {
		t.Run(name, func(t *testing.T) {
			s, want := publishedHead(t, x.file, x.block)
			if strings.HasPrefix(name, "DSpark") { // copies of the target's
				s.tensors["embed_tokens.weight"], s.tensors["lm_head.weight"] = []int{70, 64}, []int{70, 64}
			}
			if name == "Muse Glimmer's" {
				for ours, theirs := range map[string]string{"fc.weight": "encoder.fc.weight",
					"hidden_norm.weight": "encoder.output_norm_enc.weight"} {
					s.tensors[theirs], s.values[theirs] = s.tensors[ours], s.values[ours]
					delete(s.tensors, ours)
				}
			}
			s.file("config.json", x.config)
			s.weights()
			target := headTarget(t, 3)
			m, err := OpenHead(s.dir, target)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			got, raw := inMemory(t, m, Options{Type: "f32"})
			sameHead(t, got, want)
			for key := range got.Keys() {
				if strings.Contains(key, "template") {
					t.Errorf("%s is in the file", key)
				}
			}
			if tokens, err := got.Strings("tokenizer.ggml.tokens"); err != nil || len(tokens) != 70 {
				t.Errorf("%d tokens, %v", len(tokens), err)
			}
			rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer rt.Close()
			of, err := engine.Open(context.Background(), rt, target, engine.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer of.Close()
			s.file("head.gguf", string(raw))
			head, err := engine.Open(context.Background(), rt, filepath.Join(s.dir, "head.gguf"), engine.Options{Target: of})
			if err != nil {
				t.Fatal(err)
			}
			head.Close()
			if _, err := Open(s.dir); !errors.Is(err, ErrHead) {
				t.Errorf("without its target: %v", err)
			}
		})
	}
}

// sameHead compares tensors by their bytes, and the keys that the wanted file has of its architecture.
func sameHead(t *testing.T, got, want *gguf.File) {
	t.Helper()
	read := func(f *gguf.File, x gguf.Tensor) []byte {
		raw := make([]byte, x.Size)
		if _, err := f.Reader().ReadAt(raw, x.Offset); err != nil {
			t.Fatal(err)
		}
		return raw
	}
	if len(got.Tensors) != len(want.Tensors) {
		t.Errorf("%d tensors, want %d", len(got.Tensors), len(want.Tensors))
	}
	for _, w := range want.Tensors {
		g, ok := got.Tensor(w.Name)
		if !ok || g.Type != w.Type || !slices.Equal(g.Dims, w.Dims) || !bytes.Equal(read(got, g), read(want, w)) {
			t.Errorf("%s: %v %v, want %v %v, or it differs", w.Name, g.Type, g.Dims, w.Type, w.Dims)
		}
	}
	for _, kv := range want.KVs {
		g, _ := got.Value(kv.Key)
		if kv.Key != "tokenizer.ggml.model" && fmt.Sprint(g) != fmt.Sprint(kv.Value) {
			t.Errorf("%s = %v, want %v", kv.Key, g, kv.Value)
		}
	}
}

// TestHeadOfFolder: the target may be a folder, and the layers that are read are by default those of EAGLE-3's authors.
func TestHeadOfFolder(t *testing.T) {
	s, config := llamaSource(t, "LlamaForCausalLM")
	config["num_hidden_layers"] = 12
	s.file("config.json", config)
	words, _ := llamaSource(t, "LlamaForCausalLM")
	words.file("config.json", with(config, map[string]any{"num_hidden_layers": 1}))
	words.weights()
	target, _ := converted(t, words.dir, Options{})
	head, _ := publishedHead(t, randommodel.Eagle{TargetWidth: 8, Without: "fc.weight"}.File(t), "layers.0.")
	head.tensors["fc.weight"], head.tensors["embed_tokens.weight"] = []int{64, 24}, []int{260, 64}
	head.file("config.json", eagleConfig(map[string]any{"vocab_size": 260, "rope_theta": 5e5,
		"rope_scaling": map[string]any{"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4,
			"original_max_position_embeddings": 256}}))
	head.weights()
	m, err := OpenHead(head.dir, s.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	f, _ := inMemory(t, m, Options{Type: "f16"})
	keysAre(t, "eagle3", f, map[string]gguf.Value{"eagle3.target_hidden_size": uint32(8),
		"eagle3.rope.freq_base": float32(5e5), "eagle3.norm_before_residual": false, "eagle3.block_count": uint32(1)})
	if layers, err := f.Int32s("eagle3.target_layers"); err != nil || !slices.Equal(layers, []int32{2, 6, 9}) {
		t.Errorf("layers %d, %v", layers, err)
	}
	if x, ok := f.Tensor("rope_freqs.weight"); !ok || x.Elements() != 8 {
		t.Errorf("factors of frequencies: %v", x)
	}
	if _, ok := f.Tensor("output.weight"); ok {
		t.Error("an output matrix from nowhere")
	}
	a, err := engine.ReadTokenizer(f)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := engine.ReadTokenizer(target); err != nil || !a.Equal(b) {
		t.Errorf("another tokenizer than the target's: %v", err)
	}
}

// TestLayersOfTarget: blocks for multi-token prediction are no layers that a head reads.
func TestLayersOfTarget(t *testing.T) {
	s, _ := publishedHead(t, randommodel.Eagle{}.File(t), "midlayer.")
	s.file("config.json", eagleConfig(nil))
	s.weights()
	m, err := OpenHead(s.dir, headTarget(t, 7, gguf.KV{Key: "llama.nextn_predict_layers", Value: uint32(1)}))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for _, kv := range m.kvs {
		if kv.Key == "eagle3.target_layers" && !slices.Equal(kv.Value.([]int32), []int32{2, 3, 3}) {
			t.Errorf("%v of a target of 6 layers", kv.Value)
		}
	}
}

func TestHeadsRefused(t *testing.T) {
	target := headTarget(t, 3)
	read := func(layers ...float64) map[string]any {
		return map[string]any{"eagle_aux_hidden_state_layer_ids": layers}
	}
	eagle := read(0, 2, 1)
	small := with(eagle, map[string]any{"draft_vocab_size": 40})
	spark := map[string]any{"architectures": []string{"Qwen3DSparkModel"}, "dflash_config": nil,
		"target_layer_ids": []int{0, 1}, "mask_token_id": 68, "markov_rank": 32}
	inner := func(more map[string]any) map[string]any {
		usual := map[string]any{"target_layer_ids": []int{0, 1}, "mask_token_id": 68}
		return map[string]any{"dflash_config": with(usual, more)}
	}
	ids := func(change func(list []int64)) func(*source) {
		return func(s *source) { change(s.ids["d2t"]) }
	}
	for name, x := range map[string]struct {
		dflash bool
		more   map[string]any
		change func(s *source)
		want   string
	}{
		"another class":       {more: map[string]any{"architectures": []string{"EagleModel"}}, want: "no draft head"},
		"two blocks":          {more: with(eagle, map[string]any{"num_hidden_layers": 2}), want: "num_hidden_layers: 2"},
		"two layers":          {more: read(0, 1), want: "reads three"},
		"a layer too far":     {more: read(0, 2, 4), want: "0 to 3 can be"},
		"a layer before":      {more: read(-1, 2, 1), want: "layer -1"},
		"half a layer":        {more: read(0.5, 2, 1), want: "layer 0.5"},
		"the default layers":  {more: map[string]any{}, want: ""},
		"two lists of layers": {more: with(eagle, map[string]any{"eagle_config": read(0, 1, 2)}), want: "counts otherwise"},
		"another norm": {more: with(eagle, map[string]any{"eagle_config": map[string]any{"use_mtp_layernorm": true}}),
			want: "eagle_config.use_mtp_layernorm"},
		"an unknown member": {more: with(eagle, map[string]any{"gate_scale": 2}), want: "gate_scale: not known here"},
		"one inside": {more: with(eagle, map[string]any{"eagle_config": map[string]any{"tree": 2}}),
			want: "eagle_config.tree"},
		"another width":    {more: with(eagle, map[string]any{"target_hidden_size": 32}), want: "target_hidden_size: 32"},
		"more tokens":      {more: with(eagle, map[string]any{"vocab_size": 71}), want: "vocab_size: 71, the target has 70"},
		"too many of them": {more: with(eagle, map[string]any{"draft_vocab_size": 71}), want: "draft_vocab_size: 71"},
		"no norm's place": {more: map[string]any{"architectures": []string{"Eagle3Speculator"},
			"transformer_layer_config": eagleConfig(nil)}, want: "norm_before_residual: missing"},
		"a row twice":    {more: small, change: ids(func(l []int64) { l[1] = l[0] - 1 }), want: "d2t: row 1 is of token 3"},
		"a token beyond": {more: small, change: ids(func(l []int64) { l[39] = 70 }), want: "d2t: row 39 is of token 109"},
		"no list":        {more: small, change: func(s *source) { delete(s.ids, "d2t") }, want: "no tensor d2t says which"},
		"a short list":   {more: small, change: func(s *source) { s.ids["d2t"] = s.ids["d2t"][:39] }, want: "I64 of 40"},
		"no matrix": {more: small, change: func(s *source) { delete(s.tensors, "lm_head.weight") },
			want: "lm_head.weight is missing"},
		"a tensor more": {more: small, change: func(s *source) { s.tensors["midlayer.more.weight"] = []int{64} },
			want: "midlayer.more.weight is not part"},
		"no layers":      {dflash: true, more: inner(map[string]any{"target_layer_ids": nil}), want: "target_layer_ids:"},
		"the last layer": {dflash: true, more: inner(map[string]any{"target_layer_ids": []int{0, 2}}), want: "0 to 1 can be"},
		"no mask":        {dflash: true, more: inner(map[string]any{"mask_token_id": nil}), want: "mask_token_id: missing"},
		"a mask beyond":  {dflash: true, more: inner(map[string]any{"mask_token_id": 70}), want: "mask_token_id: 70"},
		"convolutions":   {dflash: true, more: inner(map[string]any{"conv_kernel_size": 2}), want: "conv_kernel_size"},
		"other targets":  {dflash: true, more: map[string]any{"num_target_layers": 4}, want: "num_target_layers"},
		"no object":      {dflash: true, more: map[string]any{"dflash_config": nil}, want: "dflash_config: missing"},
		"causal":         {dflash: true, more: map[string]any{"is_causal": true}, want: "is_causal"},
		"another size":   {dflash: true, more: map[string]any{"hidden_size": 32}, want: "hidden_size: 32, the target"},
		"windows of some": {dflash: true, more: map[string]any{"use_sliding_window": true, "sliding_window": 9},
			want: "layer_types"},
		"other layers": {dflash: true, more: map[string]any{"use_sliding_window": true, "sliding_window": 9,
			"layer_types": []string{"full_attention", "linear"}}, want: `"linear"`},
		"another Markov head": {dflash: true, more: with(spark, map[string]any{"markov_head_type": "rnn"}),
			want: "markov_head_type"},
		"no Markov head": {dflash: true, more: with(spark, map[string]any{"markov_rank": 0}), want: "markov_rank"},
	} {
		t.Run(name, func(t *testing.T) {
			config, file := eagleConfig(x.more), randommodel.Eagle{Own: x.more["draft_vocab_size"] != nil}.File(t)
			if x.dflash {
				config, file = dflashConfig(x.more), randommodel.DFlash{Layers: []int32{1, 2}}.File(t)
			}
			s, _ := publishedHead(t, file, "midlayer.")
			if x.change != nil {
				x.change(s)
			}
			s.file("config.json", config)
			s.weights()
			m, err := OpenHead(s.dir, target)
			if err == nil {
				m.Close()
			}
			if got := fmt.Sprint(err); (x.want == "") != (err == nil) || x.want != "" && !strings.Contains(got, x.want) {
				t.Errorf("%v, want %q", err, x.want)
			}
		})
	}
	s, _ := publishedHead(t, randommodel.Eagle{}.File(t), "midlayer.")
	s.file("config.json", eagleConfig(nil))
	s.weights()
	other := t.TempDir()
	(&source{t: t, dir: other}).file("config.json", `{"architectures":["NewForCausalLM"]}`)
	for target, want := range map[string]string{filepath.Join(other, "nothing"): "the target: ",
		other: "a GGUF file of it", filepath.Join(s.dir, "config.json"): "the target: "} {
		if _, err := OpenHead(s.dir, target); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", target, err)
		}
	}
}
