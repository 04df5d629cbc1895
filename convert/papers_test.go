package convert

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/testkit"
)

// TestPaperGoldens converts the published form of the models of the papers and compares tensors, keys and tokenizer
// with the GGUF files that they were made of, bit for bit, and the engine's logits with the goldens.
func TestPaperGoldens(t *testing.T) {
	for _, name := range []string{"opt", "opt-post", "gptj", "codegen", "t5-v10", "t5-v11"} {
		t.Run(name, func(t *testing.T) {
			dir := testkit.Shared(t, "families/papers/hf", name)
			got, raw := converted(t, dir, Options{Type: "f32"})
			want, err := gguf.OpenFile(testkit.Shared(t, "families/papers/models", name+".gguf"))
			if err != nil {
				t.Fatal(err)
			}
			defer want.Close()
			sameTensors(t, got, want)
			// What the converter writes and the file does not have: a default, or what tokens say too.
			extra := []string{".vocab_size", ".decoder_block_count"}
			for key := range got.Keys() {
				if !want.Has(key) && !slices.ContainsFunc(extra, func(end string) bool { return strings.HasSuffix(key, end) }) {
					t.Errorf("key %s is not in the file", key)
				}
			}
			for key := range want.Keys() {
				a, _ := got.Value(key)
				b, _ := want.Value(key)
				if key == "general.name" || key == "general.alignment" {
					continue
				}
				if fmt.Sprintf("%T %v", a, a) != fmt.Sprintf("%T %v", b, b) {
					t.Errorf("%s is %.100v, want %.100v", key, a, b)
				}
			}
			a, err := engine.ReadTokenizer(got)
			if err != nil {
				t.Fatal(err)
			}
			b, err := engine.ReadTokenizer(want)
			if err != nil || !a.Equal(b) {
				t.Errorf("the tokenizers differ: %v", err)
			}
			compareLogits(t, raw, testkit.Shared(t, "families/papers/models/golden", name+".json"))
			converted(t, dir, Options{Type: "q8_0"})
		})
	}
}

// sameTensors compares all tensors bit for bit.
func sameTensors(t *testing.T, got, want *gguf.File) {
	t.Helper()
	if len(got.Tensors) != len(want.Tensors) {
		t.Errorf("%d tensors, want %d", len(got.Tensors), len(want.Tensors))
	}
	for _, w := range want.Tensors {
		g, ok := got.Tensor(w.Name)
		if !ok || !slices.Equal(g.Dims, w.Dims) {
			t.Errorf("%s: %v, want %v", w.Name, g.Dims, w.Dims)
			continue
		}
		if a, b := floats(t, got, g), floats(t, want, w); !slices.Equal(a, b) {
			t.Errorf("%s differs", w.Name)
		}
	}
}

// runs checks that the engine runs a file: that every key and tensor is there and none too many.
func runs(t *testing.T, file []byte) {
	t.Helper()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	m, err := engine.New(context.Background(), rt, bytes.NewReader(file), int64(len(file)),
		engine.Options{Name: "converted"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession(engine.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if m.Encodes() {
		if err := s.Encode(context.Background(), []int32{3, 4, 1}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Eval(context.Background(), []int32{0, 3, 5}, nil, engine.All); err != nil {
		t.Error(err)
	}
}

// TestSmallPapers: rows, keys, masks and tokenizer of each class, without a file of others.
func TestSmallPapers(t *testing.T) {
	convert := func(s *source, config map[string]any) *gguf.File {
		t.Helper()
		s.file("config.json", config)
		s.weights()
		f, raw := converted(t, s.dir, Options{Type: "f32"})
		runs(t, raw)
		return f
	}
	row := func(f *gguf.File, tensor string, row int) []float32 {
		t.Helper()
		x, ok := f.Tensor(tensor)
		if !ok {
			t.Fatalf("no tensor %s", tensor)
		}
		n := int(x.Dims[0])
		return floats(t, f, x)[row*n : (row+1)*n]
	}
	sourceRow := func(s *source, tensor string, row, cols int) (x []float32) {
		for k := range cols {
			x = append(x, s.values[tensor](row*cols+k))
		}
		return x
	}
	keys := func(f *gguf.File, want map[string]gguf.Value) {
		t.Helper()
		for key, v := range want {
			if got, _ := f.Value(key); got != v {
				t.Errorf("%s: %s is %v, want %v", f.Name, key, got, v)
			}
		}
	}
	tokens := func(f *gguf.File, text, want string) {
		t.Helper()
		tok, err := engine.ReadTokenizer(f)
		if err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, id := range tok.Encode(text, bpe.EncodeOptions{AddSpecial: true}) {
			list = append(list, tok.Token(id))
		}
		if got := strings.Join(list, "|"); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}

	s, config := small(t, "OPTForCausalLM")
	f := convert(s, config)
	keys(f, map[string]gguf.Value{"general.architecture": "opt", "opt.context_length": uint32(16),
		"opt.embedding_length": uint32(8), "opt.word_embedding_length": uint32(6), "opt.block_count": uint32(1),
		"opt.feed_forward_length": uint32(12), "opt.attention.head_count": uint32(4),
		"opt.attention.layer_norm_epsilon": float32(1e-5), "opt.norm_before": nil, "tokenizer.ggml.add_bos_token": true,
		"tokenizer.ggml.bos_token_id": uint32(257)})
	for p := range 16 {
		if got, want := row(f, "position_embd.weight", p),
			sourceRow(s, "model.decoder.embed_positions.weight", p+2, 8); !slices.Equal(got, want) {
			t.Errorf("position %d is %v, want %v", p, got, want)
		}
	}
	for to, from := range map[string]string{"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
		"attn_v": "self_attn.v_proj", "attn_output": "self_attn.out_proj", "ffn_norm": "final_layer_norm",
		"attn_norm": "self_attn_layer_norm"} {
		if got, want := row(f, "blk.0."+to+".bias", 0),
			sourceRow(s, "model.decoder.layers.0."+from+".bias", 0, 8); !slices.Equal(got, want) {
			t.Errorf("%s is %v, want %v", to, got, want)
		}
	}
	tokens(f, "a a", "</s>|a|Ġa")
	config["do_layer_norm_before"] = false
	delete(s.tensors, "model.decoder.final_layer_norm.weight")
	delete(s.tensors, "model.decoder.final_layer_norm.bias")
	f = convert(s, config)
	keys(f, map[string]gguf.Value{"opt.norm_before": false})
	config["do_layer_norm_before"], config["_remove_final_layer_norm"] = true, true
	f = convert(s, config)
	keys(f, map[string]gguf.Value{"opt.norm_before": nil})

	s, config = small(t, "CodeGenForCausalLM")
	f = convert(s, config)
	keys(f, map[string]gguf.Value{"general.architecture": "codegen", "codegen.rope.dimension_count": uint32(2),
		"codegen.feed_forward_length": uint32(32), "codegen.context_length": uint32(16), "tokenizer.ggml.add_bos_token": nil})
	for r := range 8 { // 4 groups of 6 rows: 2 of q, 2 of v, 2 of k
		for part, name := range []string{"q", "v", "k"} {
			got, want := row(f, "blk.0.attn_"+name+".weight", r),
				sourceRow(s, "transformer.h.0.attn.qkv_proj.weight", r/2*6+2*part+r%2, 8)
			if !slices.Equal(got, want) {
				t.Errorf("row %d of %s is %v, want %v", r, name, got, want)
			}
		}
	}
	if got, want := row(f, "output.bias", 0), sourceRow(s, "lm_head.bias", 0, 260); !slices.Equal(got, want) {
		t.Error("output.bias differs")
	}
	tokens(f, "a a  a   a    a", "a|Ġa|  |a|   |a|   |Ġa")

	s, config = small(t, "GPTJForCausalLM")
	config["rotary_dim"] = 2
	f = convert(s, config)
	keys(f, map[string]gguf.Value{"general.architecture": "gptj", "gptj.rope.dimension_count": uint32(2)})
	for r := range 8 {
		for _, name := range []string{"q", "v", "k"} {
			if got, want := row(f, "blk.0.attn_"+name+".weight", r),
				sourceRow(s, "transformer.h.0.attn."+name+"_proj.weight", r, 8); !slices.Equal(got, want) {
				t.Errorf("row %d of %s is %v, want %v", r, name, got, want)
			}
		}
	}

	s, config = small(t, "T5ForConditionalGeneration")
	f = convert(s, config)
	keys(f, map[string]gguf.Value{"general.architecture": "t5", "t5.context_length": uint32(512),
		"t5.block_count": uint32(2), "t5.decoder_block_count": uint32(1), "t5.attention.key_length": uint32(3),
		"t5.attention.value_length":           uint32(3),
		"t5.attention.relative_buckets_count": uint32(4), "t5.attention.layer_norm_rms_epsilon": float32(1e-6),
		"t5.decoder_start_token_id": uint32(0),
		"tokenizer.ggml.model":      "t5", "tokenizer.ggml.add_space_prefix": true,
		"tokenizer.ggml.remove_extra_whitespaces": true, "tokenizer.ggml.add_bos_token": false,
		"tokenizer.ggml.add_eos_token": true,
		"tokenizer.ggml.eos_token_id":  uint32(1), "tokenizer.ggml.unknown_token_id": uint32(2),
		"tokenizer.ggml.padding_token_id": uint32(0)})
	for to, from := range map[string]string{"enc.blk.1.attn_q": "encoder.block.1.layer.0.SelfAttention.q",
		"dec.blk.0.attn_v":       "decoder.block.0.layer.0.SelfAttention.v",
		"dec.blk.0.cross_attn_k": "decoder.block.0.layer.1.EncDecAttention.k",
		"dec.blk.0.ffn_gate":     "decoder.block.0.layer.2.DenseReluDense.wi_0",
		"enc.blk.0.ffn_up":       "encoder.block.0.layer.1.DenseReluDense.wi_1", "token_embd": "shared", "output": "lm_head",
		"dec.blk.0.cross_attn_norm": "decoder.block.0.layer.1.layer_norm",
		"dec.blk.0.ffn_norm":        "decoder.block.0.layer.2.layer_norm", "dec.output_norm": "decoder.final_layer_norm"} {
		if got, want := row(f, to+".weight", 0), sourceRow(s, from+".weight", 0, 8); !slices.Equal(got, want) {
			t.Errorf("%s is %v, want %v", to, got, want)
		}
	}
	if got, want := row(f, "enc.blk.0.attn_rel_b.weight", 3),
		sourceRow(s, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", 3, 2); !slices.Equal(got, want) {
		t.Errorf("position bias %v, want %v", got, want)
	}
	for _, name := range []string{"enc.blk.1.attn_rel_b.weight", "dec.blk.0.cross_attn_rel_b.weight"} {
		if _, ok := f.Tensor(name); ok {
			t.Errorf("%s is in the file", name)
		}
	}
	names, _ := f.Strings("tokenizer.ggml.tokens")
	types, _ := f.Int32s("tokenizer.ggml.token_type")
	scores, _ := f.Float32s("tokenizer.ggml.scores")
	if !slices.Equal(names[7:], []string{"<extra_id_1>", "<extra_id_0>", "[PAD9]", "[PAD10]", "[PAD11]"}) ||
		!slices.Equal(types, []int32{3, 3, 2, 1, 1, 1, 1, 4, 4, 5, 5, 5}) ||
		scores[3] == 0 || scores[7] != -1000 || scores[9] != -10000 {
		t.Errorf("tokens %q of types %v, scores %v", names, types, scores)
	}
	if m, _ := f.Value("tokenizer.ggml.precompiled_charsmap"); !slices.Equal(m.([]uint8), tinyMap()) {
		t.Error("the map differs")
	}
	tokens(f, "A  a<extra_id_0>b", "▁a|▁a|<extra_id_0>|▁|b|</s>")
	fromPieces := f

	// mT5's tokens for bytes.
	s.file("spiece.model", strings.Replace(unigramFile(nil), protobuf(2, []byte{3 << 3, 1}),
		protobuf(1, []byte(protobuf(1, []byte("<0x41>"))+string([]byte{3 << 3, 6})))+protobuf(2, []byte{3 << 3, 1}), 1))
	s.file("config.json", config)
	if m, err := Open(s.dir); err != nil {
		t.Error(err)
	} else if m.Close(); len(m.Notes) != 1 || !strings.Contains(m.Notes[0], "single bytes") {
		t.Errorf("notes %q", m.Notes)
	}

	// The same tokenizer as tokenizer.json.
	if err := os.Remove(s.dir + "/spiece.model"); err != nil {
		t.Fatal(err)
	}
	s.file("tokenizer.json", unigramJSON())
	f = convert(s, config)
	a, err := engine.ReadTokenizer(f)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := engine.ReadTokenizer(fromPieces); err != nil || !a.Equal(b) {
		t.Errorf("tokenizer.json and spiece.model differ: %v", err)
	}

	// v1.0: tied, no gate, and bias in every block, as in UMT5.
	config["feed_forward_proj"], config["tie_word_embeddings"] = nil, true
	for name, shape := range maps.Clone(s.tensors) {
		if to, ok := strings.CutSuffix(name, "wi_0.weight"); ok {
			s.tensors[to+"wi.weight"], s.values[to+"wi.weight"] = shape, s.values[name]
			delete(s.tensors, name)
			delete(s.tensors, to+"wi_1.weight")
		}
	}
	s.tensors["encoder.block.1.layer.0.SelfAttention.relative_attention_bias.weight"] = []int{4, 2}
	f = convert(s, config)
	for name, there := range map[string]bool{
		"output.weight": false, "enc.blk.0.ffn_gate.weight": false, "enc.blk.1.attn_rel_b.weight": true,
		"dec.blk.0.ffn_up.weight": true} {
		if _, ok := f.Tensor(name); ok != there {
			t.Errorf("%s: %v", name, ok)
		}
	}
}

// unigramJSON is unigramFile's tokenizer as tokenizer.json.
func unigramJSON() map[string]any {
	var vocab []any
	scores := []float64{0, 0, 0, -2.75, -3, -3.25, -3.5}
	for i, p := range unigramPieces {
		vocab = append(vocab, []any{p.text, scores[i]})
	}
	return map[string]any{
		"added_tokens": []any{map[string]any{"id": 0, "content": "<pad>", "special": true},
			map[string]any{"id": 1, "content": "</s>", "special": true},
			map[string]any{"id": 2, "content": "<unk>", "special": true}},
		"normalizer": map[string]any{"type": "Precompiled",
			"precompiled_charsmap": base64.StdEncoding.EncodeToString(tinyMap())},
		"pre_tokenizer": map[string]any{"type": "Sequence", "pretokenizers": []any{map[string]any{"type": "WhitespaceSplit"},
			map[string]any{"type": "Metaspace", "replacement": "▁", "add_prefix_space": true}}},
		"model": map[string]any{"type": "Unigram", "unk_id": 2, "vocab": vocab},
	}
}

// TestPapersRefused: each change to a good folder is an error that names the file and the key or tensor.
func TestPapersRefused(t *testing.T) {
	opt, gptj, codegen, t5 := "OPTForCausalLM", "GPTJForCausalLM", "CodeGenForCausalLM", "T5ForConditionalGeneration"
	required := map[string][]string{
		opt: {"hidden_size", "ffn_dim", "num_hidden_layers", "num_attention_heads", "max_position_embeddings",
			"activation_function", "vocab_size"},
		gptj:    {"n_embd", "n_layer", "n_head", "layer_norm_epsilon", "activation_function", "vocab_size"},
		codegen: {"n_embd", "n_layer", "n_head", "layer_norm_epsilon", "activation_function", "vocab_size"},
		t5: {"d_model", "d_kv", "d_ff", "num_layers", "num_heads", "relative_attention_num_buckets",
			"layer_norm_epsilon", "decoder_start_token_id", "vocab_size"},
	}
	type change struct {
		class, name string
		change      func(s *source, c map[string]any)
		want        []string
	}
	set := func(class, key string, v any, want ...string) change {
		return change{class, fmt.Sprintf("%s %v", key, v), func(s *source, c map[string]any) { c[key] = v },
			append(want, "config.json", key)}
	}
	tensor := func(class, name string, shape []int, want ...string) change {
		return change{class, fmt.Sprintf("%s %v", name, shape), func(s *source, c map[string]any) {
			if s.tensors[name] = shape; shape == nil {
				delete(s.tensors, name)
			}
		}, append(want, name)}
	}
	file := func(class, name string, v any, want ...string) change {
		return change{class, fmt.Sprintf("%s %.20v", name, v), func(s *source, c map[string]any) {
			if name == "tokenizer.json" && class == t5 {
				os.Remove(s.dir + "/spiece.model")
			}
			s.file(name, v)
		}, append(want, name)}
	}
	json := func(edit func(m map[string]any)) map[string]any {
		m := unigramJSON()
		edit(m)
		return m
	}
	model := func(m map[string]any) map[string]any { return m["model"].(map[string]any) }
	changes := []change{
		set(opt, "activation_function", "gelu", "gelu", "ReLU"), set(opt, "enable_bias", false),
		set(opt, "layer_norm_elementwise_affine", false), set(opt, "num_attention_heads", 3),
		set(opt, "tie_word_embeddings", false), set(opt, "word_embed_proj_dim", 0), set(opt, "new_key", 1),
		tensor(opt, "model.decoder.embed_positions.weight", []int{16, 8}, "[18 8]"),
		tensor(opt, "model.decoder.project_in.weight", nil), tensor(opt, "model.decoder.final_layer_norm.bias", nil),
		tensor(opt, "model.decoder.layers.0.fc1.bias", nil), tensor(opt, "model.decoder.layers.0.fc3.weight", []int{8}),
		{opt, "a final norm too many", func(s *source, c map[string]any) { c["do_layer_norm_before"] = false },
			[]string{"model.decoder.final_layer_norm"}},
		set(gptj, "activation_function", "relu"), set(gptj, "rotary_dim", 3), set(gptj, "rotary_dim", 4, "4 of a head's 2"),
		set(gptj, "n_head", 3), set(gptj, "tie_word_embeddings", true), set(gptj, "scale_attn_weights", false),
		set(gptj, "rotary", false),
		tensor(gptj, "lm_head.bias", nil), tensor(gptj, "transformer.h.0.attn.q_proj.bias", []int{8}),
		tensor(gptj, "transformer.h.0.mlp.fc_in.weight", []int{8, 32}),
		{codegen, "6 heads", func(s *source, c map[string]any) { c["n_head"], c["n_embd"] = 6, 12 },
			[]string{"n_head", "6 heads", "4 groups"}},
		tensor(codegen, "transformer.h.0.attn.qkv_proj.weight", []int{8, 8}, "[24 8]"),
		tensor(codegen, "transformer.h.0.attn.q_proj.weight", []int{8, 8}),
		file(codegen, "merges.txt", "Ġ a\na b c\n", "line 2"), file(codegen, "vocab.json", `{"a": -1}`),
		file(codegen, "added_tokens.json", `{"x": 99999999}`, "99999999"), file(codegen, "added_tokens.json", `[]`),
		set(t5, "feed_forward_proj", "gated-silu", "gated-silu"), set(t5, "relative_attention_max_distance", 64),
		set(t5, "is_encoder_decoder", false), set(t5, "decoder_start_token_id", 12), set(t5, "decoder_start_token_id", -1),
		set(t5, "dense_act_fn", "gelu"), set(t5, "is_gated_act", false), set(t5, "scale_decoder_outputs", true),
		{t5, "another gate", func(s *source, c map[string]any) { c["feed_forward_proj"] = "relu" },
			[]string{"DenseReluDense.wi.weight is missing"}},
		{t5, "another decoder", func(s *source, c map[string]any) { c["num_decoder_layers"] = 2 },
			[]string{"decoder.block.1", "missing"}},
		{t5, "too many extra ids", func(s *source,
			c map[string]any) {
			s.file("tokenizer_config.json", `{"extra_ids": 2000}`)
		}, []string{"<extra_id_0> has id 2006", "vocab_size"}},
		tensor(t5, "lm_head.weight", nil), tensor(
			t5, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", nil),
		tensor(t5, "decoder.block.0.layer.1.EncDecAttention.q.weight", nil),
		tensor(t5, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias.weight", []int{2, 4}),
		tensor(t5, "shared.bias", []int{8}),
		file(t5, "spiece.model", unigramFile([]byte{3 << 3, 0}), "add_dummy_prefix"),
		file(t5, "spiece.model", unigramFile([]byte{4 << 3, 0}), "remove_extra_whitespaces"),
		file(t5, "spiece.model", unigramFile([]byte{5 << 3, 0}), "marks"),
		file(t5, "spiece.model", strings.Replace(unigramFile(nil), "▁a", "▁\xff", 1)[:40], "SentencePiece"),
		file(t5, "tokenizer.json", json(func(m map[string]any) { model(m)["unk_id"] = nil }), "unk_id"),
		file(t5, "tokenizer.json", json(func(m map[string]any) { model(m)["byte_fallback"] = true }), "byte_fallback"),
		file(t5, "tokenizer.json", json(func(m map[string]any) { model(m)["vocab"] = []any{[]any{"a", "b"}} }), "vocab[0]"),
		file(t5, "tokenizer.json", json(func(m map[string]any) {
			m["pre_tokenizer"] = map[string]any{"type": "Metaspace", "replacement": "▁", "add_prefix_space": true}
		}), "runs of spaces"),
		file(t5, "tokenizer.json", json(func(m map[string]any) {
			m["normalizer"] = map[string]any{
				"type": "Lowercase"}
		}), "Lowercase"),
		file(t5, "tokenizer.json", json(func(m map[string]any) {
			m["normalizer"] = map[string]any{"type": "Precompiled", "precompiled_charsmap": "*"}
		}), "precompiled_charsmap"),
		file(t5, "tokenizer_config.json", `{"extra_ids": -1}`, "extra_ids"),
	}
	for class, list := range required {
		for _, key := range list {
			changes = append(changes, change{class, "without " + key, func(s *source, c map[string]any) { delete(c, key) },
				[]string{"config.json", key, "missing"}})
		}
	}
	for _, c := range changes {
		s, config := small(t, c.class)
		c.change(s, config)
		s.file("config.json", config)
		s.weights()
		s.refused(c.class+", "+c.name, c.want)
	}
}

// refused checks that a folder is not accepted, and what the error names.
func (s *source) refused(name string, want []string) {
	s.t.Helper()
	m, err := Open(s.dir)
	if err == nil {
		m.Close()
		s.t.Errorf("%s: accepted", name)
		return
	}
	for _, want := range want {
		if !strings.Contains(err.Error(), want) {
			s.t.Errorf("%s: %v: does not name %q", name, err, want)
		}
	}
}

// noted checks that a folder is accepted, with a note.
func (s *source) noted(name, note string) {
	s.t.Helper()
	m, err := Open(s.dir)
	if err != nil {
		s.t.Errorf("%s: %v", name, err)
		return
	}
	if m.Close(); !strings.Contains(strings.Join(m.Notes, "\n"), note) {
		s.t.Errorf("%s: notes %q", name, m.Notes)
	}
}

// TestFolders: what is wrong with a folder, and what to do about it.
func TestFolders(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *source)
		want   []string
	}{
		"no weights": {func(s *source) {}, []string{"no weights: none of model.safetensors.index.json, " +
			"model.safetensors, pytorch_model.bin.index.json, pytorch_model.bin is there"}},
		"other weights": {func(s *source) { s.file("tf_model.h5", "") },
			[]string{"tf_model.h5 is, which is not read", "safe_serialization"}},
		"a file of two": {func(s *source) {
			s.file("model.safetensors.index.json", map[string]any{
				"weight_map": map[string]string{"a": "model-2.safetensors", "b": "model-2.safetensors"}})
		}, []string{"model-2.safetensors is not there", "index.json lists 2 tensors"}},
		"no tokenizer": {func(s *source) { s.weights(); os.Remove(s.dir + "/vocab.json") },
			[]string{"no tokenizer: none of tokenizer.model, spiece.model"}},
		"no merges": {func(s *source) { s.weights(); os.Remove(s.dir + "/merges.txt") }, []string{"merges.txt"}},
	} {
		s, config := small(t, "GPTJForCausalLM")
		s.file("config.json", config)
		c.change(s)
		s.refused(name, c.want)
	}
	s, _ := small(t, "GPTJForCausalLM")
	if _, err := Open(s.dir + "/vocab.json"); err == nil || !strings.Contains(err.Error(), "not a folder") {
		t.Errorf("a file: %v", err)
	}
}

// FuzzUnigramJSON: any tokenizer.json is refused or makes a tokenizer.
func FuzzUnigramJSON(f *testing.F) {
	good, err := json.Marshal(unigramJSON())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &source{t: t, dir: t.TempDir()}
		s.file("tokenizer.json", string(data))
		readTokenizerJSON(s.dir+"/tokenizer.json", &builder{unigram: true, vocab: 1000})
	})
}

// TestElements: the types of elements in safetensors files, and one that holds no weights.
func TestElements(t *testing.T) {
	for dtype, raw := range map[string][]byte{
		"F32":  {0, 0, 0xc0, 0x3f, 0, 0, 0, 0x80},
		"F16":  {0, 0x3e, 0, 0x80},
		"BF16": {0xc0, 0x3f, 0, 0x80},
		"F64":  {0, 0, 0, 0, 0, 0, 0xf8, 0x3f, 0, 0, 0, 0, 0, 0, 0, 0x80},
	} {
		x, err := decodeElements(dtype, raw)
		if err != nil || len(x) != 2 || x[0] != 1.5 || math.Float32bits(x[1]) != 1<<31 {
			t.Errorf("%s: %v, %v; want 1.5 and -0", dtype, x, err)
		}
	}
	if _, err := decodeElements("I8", []byte{1}); err == nil || !strings.Contains(err.Error(), `"I8"`) {
		t.Errorf("I8: %v", err)
	}
}

// TestAddedTokensWithoutRows: tokens that were added behind the vocabulary are left out with a word, as Gemma 3's
// <image_soft_token> of the models that read text alone.
func TestAddedTokensWithoutRows(t *testing.T) {
	s, config := small(t, "OPTForCausalLM")
	s.file("config.json", config)
	s.weights()
	s.file("added_tokens.json", map[string]int{"   ": 258, "  ": 259, "<image>": 261})
	added := map[string]addedToken{"261": {Content: "<image>", Special: true}, "262": {Content: "<sound>"}}
	s.file("tokenizer_config.json", map[string]any{"bos_token": "</s>", "eos_token": "</s>",
		"added_tokens_decoder": added})
	m, err := Open(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if notes := strings.Join(m.Notes, "\n"); !strings.Contains(notes, "<image> and all behind it are left out") {
		t.Errorf("notes: %s", notes)
	}
	for _, kv := range m.kvs {
		list, _ := kv.Value.([]string)
		if kv.Key == "tokenizer.ggml.tokens" && (len(list) != 260 || list[259] != "  ") {
			t.Errorf("%d tokens, the last is %q", len(list), list[len(list)-1])
		}
	}
	s.file("tokenizer_config.json", map[string]any{"eos_token": "<image>"})
	if _, err := Open(s.dir); err == nil || !strings.Contains(err.Error(), "<image> is not in the vocabulary") {
		t.Errorf("a text ends with a token that the model has no row for: %v", err)
	}
}
