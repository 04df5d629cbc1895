package convert

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/testkit"
)

// converted converts the model in dir.
func converted(t testing.TB, dir string, o Options) (*gguf.File, []byte) {
	t.Helper()
	m, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	return inMemory(t, m, o)
}

// inMemory is the file of a model.
func inMemory(t testing.TB, m *Model, o Options) (*gguf.File, []byte) {
	t.Helper()
	var b bytes.Buffer
	if err := m.Write(context.Background(), &b, o); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(bytes.NewReader(b.Bytes()), int64(b.Len()), "converted")
	if err != nil {
		t.Fatal(err)
	}
	return f, b.Bytes()
}

// TestGoldens converts the published form of three models and compares tensors and tokenizer, bit for bit, with what
// the reference's converter made of them, and the engine's logits with the golden. That of gptneox is of another form
// of GELU than the published one; engine's tests compare it with that form put in.
func TestGoldens(t *testing.T) {
	for _, name := range []string{"llama", "qwen2", "gptneox"} {
		t.Run(name, func(t *testing.T) {
			dir := testkit.Shared(t, "families/papers/hf", name)
			data, err := os.ReadFile(dir + "/golden.json")
			if err != nil {
				t.Fatal(err)
			}
			var names struct{ Golden, GGUF string }
			if err := json.Unmarshal(data, &names); err != nil {
				t.Fatal(err)
			}
			got, raw := converted(t, dir, Options{Type: "f32"})
			want, err := gguf.OpenFile(testkit.Shared(t, "families/models", names.GGUF))
			if err != nil {
				t.Fatal(err)
			}
			defer want.Close()
			sameTensors(t, got, want)
			tokens, err := got.Strings("tokenizer.ggml.tokens")
			if wantTokens, _ := want.Strings("tokenizer.ggml.tokens"); err != nil || !slices.Equal(tokens, wantTokens) {
				t.Errorf("the tokens differ: %v", err)
			}
			a, err := engine.ReadTokenizer(got)
			if err != nil {
				t.Fatal(err)
			}
			b, err := engine.ReadTokenizer(want)
			if err != nil {
				t.Fatal(err)
			}
			if !a.Equal(b) {
				t.Error("the tokenizers differ")
			}
			if name != "gptneox" {
				compareLogits(t, raw, testkit.Shared(t, "families/models/golden", names.Golden))
			}
			converted(t, dir, Options{Type: "Q8_0"})
			// Rows of 64 are no super-blocks: the fallback is the one of quantize.
			if f, _ := converted(t, dir, Options{Type: "q4_k"}); f != nil {
				if w, _ := f.Tensor("blk.0.ffn_up.weight"); w.Type != gguf.Q5_0 {
					t.Errorf("rows of %d in Q4_K are %v, want Q5_0", w.Dims[0], w.Type)
				}
			}
			converted(t, dir, Options{})
		})
	}
}

// rawBytes reads a tensor's bytes.
func rawBytes(t testing.TB, f *gguf.File, tensor gguf.Tensor) []byte {
	t.Helper()
	raw := make([]byte, tensor.Size)
	if _, err := f.Reader().ReadAt(raw, tensor.Offset); err != nil {
		t.Fatal(err)
	}
	return raw
}

// floats reads a tensor of float32 or float16.
func floats(t testing.TB, f *gguf.File, tensor gguf.Tensor) []float32 {
	t.Helper()
	x, err := decodeElements(tensor.Type.String(), rawBytes(t, f, tensor))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// goldenCase is what an independent engine computed of ids.
type goldenCase struct {
	EncoderIDs []int32 `json:"encoder_ids"`
	IDs        []int32 `json:"ids"`
	Logits     map[string][]float64
	RMS        float64 `json:"rms"`
}

// compareLogits compares the engine's logits with a golden, which may hold several cases.
func compareLogits(t *testing.T, file []byte, golden string) {
	t.Helper()
	data, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	var g struct {
		goldenCase
		Cases []goldenCase
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	m, err := engine.New(context.Background(), rt, bytes.NewReader(file), int64(len(file)), engine.Options{Name: golden})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if g.Cases == nil {
		g.Cases = []goldenCase{g.goldenCase}
	}
	compared := 0
	for _, c := range g.Cases {
		s, err := m.NewSession(engine.SessionOptions{KV: "f32"})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if c.EncoderIDs != nil {
			if err := s.Encode(context.Background(), c.EncoderIDs); err != nil {
				t.Fatal(err)
			}
		}
		out, err := s.Eval(context.Background(), c.IDs, nil, engine.All)
		if err != nil {
			t.Fatal(err)
		}
		for at, row := range c.Logits {
			var i int
			fmt.Sscan(at, &i)
			for id, want := range row {
				compared++
				if d := math.Abs(float64(out.Row(i)[id]) - want); !(d < 1e-4*max(c.RMS, g.RMS)) {
					t.Fatalf("position %d, token %d: off by %v of an rms of %v", i, id, d, max(c.RMS, g.RMS))
				}
			}
		}
	}
	if compared == 0 {
		t.Fatal("no logits compared")
	}
}

// source writes a folder in Hugging Face's layout.
type source struct {
	t       testing.TB
	dir     string
	tensors map[string][]int // shapes
	values  map[string]func(i int) float32
	ids     map[string][]int64 // vectors of I64
	raw     map[string]rawTensor
}

func (s *source) file(name string, v any) {
	s.t.Helper()
	data, ok := v.(string)
	if !ok {
		b, err := json.Marshal(v)
		if err != nil {
			s.t.Fatal(err)
		}
		data = string(b)
	}
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(data), 0o666); err != nil {
		s.t.Fatal(err)
	}
}

// weights writes model.safetensors in float32: element i of a tensor is i, or what values says; and the vectors of ids
// and the tensors of bytes.
func (s *source) weights() {
	header := map[string]any{"__metadata__": map[string]string{"format": "pt"}}
	var data []byte
	for name, list := range s.ids {
		from := len(data)
		for _, id := range list {
			data = binary.LittleEndian.AppendUint64(data, uint64(id))
		}
		header[name] = map[string]any{"dtype": "I64", "shape": []int{len(list)}, "data_offsets": []int{from, len(data)}}
	}
	for name, x := range s.raw {
		header[name] = map[string]any{"dtype": x.dtype, "shape": x.shape,
			"data_offsets": []int{len(data), len(data) + len(x.raw)}}
		data = append(data, x.raw...)
	}
	for name, shape := range s.tensors {
		n := 1
		for _, d := range shape {
			n *= d
		}
		from := len(data)
		for i := range n {
			x := float32(i)
			if f := s.values[name]; f != nil {
				x = f(i)
			}
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(x))
		}
		header[name] = map[string]any{"dtype": "F32", "shape": shape, "data_offsets": []int{from, len(data)}}
	}
	h, _ := json.Marshal(header)
	s.file("model.safetensors", string(binary.LittleEndian.AppendUint64(nil, uint64(len(h))))+string(h)+string(data))
}

// llamaSource is a Llama of one block with 2 heads of 4, one of keys.
func llamaSource(t testing.TB, class string) (*source, map[string]any) {
	s := &source{t: t, dir: t.TempDir(), values: map[string]func(int) float32{}, tensors: map[string][]int{
		"model.embed_tokens.weight": {260, 8}, "model.norm.weight": {8}, "lm_head.weight": {260, 8},
		"model.layers.0.input_layernorm.weight": {8}, "model.layers.0.post_attention_layernorm.weight": {8},
		"model.layers.0.self_attn.q_proj.weight": {8, 8}, "model.layers.0.self_attn.k_proj.weight": {4, 8},
		"model.layers.0.self_attn.v_proj.weight": {4, 8},
		"model.layers.0.self_attn.o_proj.weight": {8, 8},
		"model.layers.0.mlp.gate_proj.weight":    {6, 8}, "model.layers.0.mlp.up_proj.weight": {6, 8},
		"model.layers.0.mlp.down_proj.weight": {8, 6}}}
	config := map[string]any{"architectures": []string{class}, "hidden_size": 8, "num_attention_heads": 2,
		"num_key_value_heads": 1, "num_hidden_layers": 1,
		"intermediate_size": 6, "max_position_embeddings": 32, "rms_norm_eps": 1e-5, "vocab_size": 260, "hidden_act": "silu",
		"rope_theta": 5000.0, "tie_word_embeddings": false, "eos_token_id": []int{257, 258}}
	vocab := map[string]int{}
	for b := range 256 {
		vocab[string(byteCharacter(b))] = b
	}
	vocab["Ġa"] = 256
	s.file("tokenizer.json", map[string]any{
		"added_tokens": []any{map[string]any{"id": 257, "content": "<end>", "special": true},
			map[string]any{"id": 258, "content": "<turn>", "special": true},
			map[string]any{"id": 259, "content": "<tool>", "special": false}},
		"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
		"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": []any{[]string{"Ġ", "a"}}},
	})
	s.file("tokenizer_config.json", map[string]any{
		"eos_token": map[string]string{"content": "<end>"}, "chat_template": []any{
			map[string]string{"name": "default", "template": "{{ messages }}"},
			map[string]string{"name": "tool_use", "template": "{{ tools }}"}}})
	return s, config
}

// byteCharacter is GPT-2's character for a byte.
func byteCharacter(b int) rune {
	if b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE {
		return rune(b)
	}
	n := rune(0)
	for i := range b {
		if !(i >= '!' && i <= '~' || i >= 0xA1 && i <= 0xAC || i >= 0xAE) {
			n++
		}
	}
	return 256 + n
}

func TestLlama(t *testing.T) {
	s, config := llamaSource(t, "LlamaForCausalLM")
	config["rope_scaling"] = map[string]any{"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0,
		"high_freq_factor": 4.0, "original_max_position_embeddings": 8}
	s.file("config.json", config)
	s.weights()
	f, _ := converted(t, s.dir, Options{Type: "f32"})
	for key, want := range map[string]any{"general.architecture": "llama", "llama.embedding_length": uint32(8),
		"llama.attention.head_count": uint32(2), "llama.attention.head_count_kv": uint32(1),
		"llama.rope.freq_base": float32(5000), "llama.rope.dimension_count": uint32(4), "llama.context_length": uint32(32),
		"llama.feed_forward_length": uint32(6), "llama.block_count": uint32(1),
		"tokenizer.ggml.eos_token_id": uint32(257), "tokenizer.ggml.eot_token_id": uint32(258),
		"tokenizer.chat_template": "{{ messages }}", "tokenizer.chat_template.tool_use": "{{ tools }}",
		"tokenizer.ggml.pre": "gpt-2", "general.file_type": uint32(0)} {
		if got, _ := f.Value(key); got != want {
			t.Errorf("%s = %v, want %v", key, got, want)
		}
	}
	types, _ := f.Int32s("tokenizer.ggml.token_type")
	if types[257] != typeControl || types[259] != typeUser || types[0] != typeNormal {
		t.Errorf("token types %v", types[250:])
	}
	q, _ := f.Tensor("blk.0.attn_q.weight")
	x := floats(t, f, q)
	for row, from := range []int{0, 2, 1, 3, 4, 6, 5, 7} { // pairs (i, i+2) side by side
		if x[row*8] != float32(from*8) {
			t.Errorf("row %d of q is row %v of the source, want %d", row, x[row*8]/8, from)
		}
	}
	v, _ := f.Tensor("blk.0.attn_v.weight")
	if x := floats(t, f, v); x[8] != 8 {
		t.Error("the rows of v moved")
	}
	// Waves of 2 pi and 2 pi sqrt(5000): the first of 6.28 lies between 8/4 and 8/1, the second above.
	freqs, ok := f.Tensor("rope_freqs.weight")
	smooth := (8/(2*math.Pi) - 1) / 3
	if x := floats(t, f, freqs); !ok || math.Abs(float64(x[0])-1/((1-smooth)/8+smooth)) > 1e-6 || x[1] != 8 {
		t.Errorf("factors %v", x)
	}
	if _, err := engine.ReadTokenizer(f); err != nil {
		t.Error(err)
	}
}

// TestTemplateMarks: what a post-processor puts around a text is added by the GGUF's tokenizer too, or refused.
func TestTemplateMarks(t *testing.T) {
	s, config := llamaSource(t, "LlamaForCausalLM")
	s.file("config.json", config)
	s.weights()
	data, err := os.ReadFile(filepath.Join(s.dir, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	const text = `{"Sequence": {"id": "A", "type_id": 0}}`
	token := func(id string) string { return `{"SpecialToken": {"id": "` + id + `", "type_id": 0}}` }
	for _, c := range []struct {
		single   []string
		bos, eos any
		err      string
	}{
		{[]string{text}, false, nil, ""},
		{[]string{token("<turn>"), text}, true, nil, ""},
		{[]string{text, token("<end>")}, false, true, ""},
		{[]string{token("<turn>"), text, token("<end>")}, true, true, ""},
		{[]string{text, token("<turn>")}, false, true, ""},
		{[]string{token("<turn>"), token("<end>"), text}, nil, nil, "post_processor: more than"},
		{[]string{text, text}, nil, nil, "post_processor: more than"},
	} {
		s.file("tokenizer.json", strings.Replace(string(data), "{", `{"post_processor": {"type": "Sequence", "processors": [`+
			`{"type": "ByteLevel"}, {"type": "TemplateProcessing", "single": [`+strings.Join(c.single, ", ")+`]}]}, `, 1))
		if c.err != "" {
			if _, err := Open(s.dir); err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", c.single, err)
			}
			continue
		}
		f, _ := converted(t, s.dir, Options{Type: "f32"})
		bos, _ := f.Value("tokenizer.ggml.add_bos_token")
		eos, _ := f.Value("tokenizer.ggml.add_eos_token")
		if bos != c.bos || eos != c.eos {
			t.Errorf("%s: add_bos_token %v, add_eos_token %v", c.single, bos, eos)
		}
	}
}

func TestGemmaNorms(t *testing.T) {
	s, config := llamaSource(t, "Gemma2ForCausalLM")
	delete(s.tensors, "lm_head.weight")
	s.tensors["model.layers.0.pre_feedforward_layernorm.weight"] = []int{8}
	s.tensors["model.layers.0.post_feedforward_layernorm.weight"] = []int{8}
	delete(config, "hidden_act")
	for k, v := range map[string]any{"hidden_activation": "gelu_pytorch_tanh", "attn_logit_softcapping": 50.0,
		"final_logit_softcapping": 30.0, "sliding_window": 16, "head_dim": 4, "query_pre_attn_scalar": 4,
		"tie_word_embeddings": true} {
		config[k] = v
	}
	s.file("config.json", config)
	s.weights()
	f, _ := converted(t, s.dir, Options{Type: "f32"})
	n, _ := f.Tensor("blk.0.post_ffw_norm.weight")
	if x := floats(t, f, n); x[0] != 1 || x[7] != 8 {
		t.Errorf("Gemma's norms hold w-1: %v", x)
	}
	if v, _ := f.Value("gemma2.attn_logit_softcapping"); v != float32(50) {
		t.Errorf("softcapping %v", v)
	}
	if _, ok := f.Tensor("output.weight"); ok {
		t.Error("a tied output")
	}
	config["query_pre_attn_scalar"] = 5
	s.file("config.json", config)
	if _, err := Open(s.dir); err == nil || !strings.Contains(err.Error(), "query_pre_attn_scalar") {
		t.Errorf("another scale: %v", err)
	}
}

// Each change to a good folder is an error that names the file and the key or tensor.
func TestRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(s *source, config map[string]any)
		want   []string
	}{
		"class": {func(s *source, c map[string]any) { c["architectures"] = []string{"FooForCausalLM"} },
			[]string{"config.json", "FooForCausalLM", "LlamaForCausalLM"}},
		"unknown key": {func(s *source, c map[string]any) { c["attention_sinks"] = 3 },
			[]string{"config.json", "attention_sinks"}},
		"missing key": {func(s *source, c map[string]any) { delete(c, "rms_norm_eps") },
			[]string{"config.json", "rms_norm_eps"}},
		"an encoder": {func(s *source, c map[string]any) { c["is_encoder_decoder"] = true },
			[]string{"config.json", "is_encoder_decoder"}},
		"negative":   {func(s *source, c map[string]any) { c["num_hidden_layers"] = -1 }, []string{"num_hidden_layers"}},
		"huge":       {func(s *source, c map[string]any) { c["num_hidden_layers"] = 1e15 }, []string{"num_hidden_layers"}},
		"activation": {func(s *source, c map[string]any) { c["hidden_act"] = "relu" }, []string{"hidden_act", "relu"}},
		"rope": {func(s *source, c map[string]any) {
			c["rope_scaling"] = map[string]any{"type": "dynamic", "factor": 2.0}
		}, []string{"rope_scaling", "dynamic"}},
		"rope key": {func(s *source, c map[string]any) {
			c["rope_scaling"] = map[string]any{"type": "linear", "factor": 2.0, "mscale": 1.0}
		}, []string{"rope_scaling.mscale"}},
		"heads": {func(s *source, c map[string]any) { c["num_attention_heads"] = 3 }, []string{"num_attention_heads"}},
		"extra tensor": {func(s *source, c map[string]any) { s.tensors["model.layers.0.extra.weight"] = []int{2} },
			[]string{"model.safetensors", "model.layers.0.extra.weight"}},
		"no tensor": {func(s *source, c map[string]any) { delete(s.tensors, "model.norm.weight") },
			[]string{"model.norm.weight"}},
		"shape": {func(s *source, c map[string]any) { s.tensors["model.norm.weight"] = []int{9} },
			[]string{"model.norm.weight", "[9]"}},
		"vocabulary": {func(s *source, c map[string]any) {
			c["vocab_size"] = 10
			s.tensors["model.embed_tokens.weight"] = []int{10, 8}
			s.tensors["lm_head.weight"] = []int{10, 8}
		}, []string{"tokenizer.json", "vocab_size"}},
		"pre-tokenizer": {func(s *source, c map[string]any) {
			s.file("tokenizer.json", map[string]any{
				"pre_tokenizer": map[string]any{"type": "Split", "pattern": map[string]any{"Regex": "x+"}, "behavior": "Isolated"},
				"model":         map[string]any{"type": "BPE", "vocab": map[string]int{"a": 0}}})
		}, []string{"tokenizer.json", "x+"}},
		"wordpiece": {func(s *source, c map[string]any) {
			s.file("tokenizer.json", map[string]any{"model": map[string]any{"type": "WordPiece", "vocab": map[string]int{}}})
		}, []string{"tokenizer.json", "WordPiece"}},
		"token": {func(s *source, c map[string]any) {
			s.file("tokenizer_config.json", map[string]any{"eos_token": "<none>"})
		}, []string{"tokenizer_config.json", "eos_token", "<none>"}},
		"json": {func(s *source, c map[string]any) { s.file("tokenizer_config.json", "{") },
			[]string{"tokenizer_config.json"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, config := llamaSource(t, "LlamaForCausalLM")
			test.change(s, config)
			s.file("config.json", config)
			s.weights()
			m, err := Open(s.dir)
			if err == nil {
				m.Close()
				t.Fatal("accepted")
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v: does not name %q", err, want)
				}
			}
		})
	}
	// A weight that is not a number is found while it is written.
	s, config := llamaSource(t, "LlamaForCausalLM")
	s.values["model.layers.0.mlp.up_proj.weight"] = func(i int) float32 { return float32(math.NaN()) }
	s.file("config.json", config)
	s.weights()
	m, err := Open(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var b bytes.Buffer
	if err := m.Write(context.Background(), &b, Options{Type: "q8_0"}); err == nil ||
		!strings.Contains(err.Error(), "up_proj") {
		t.Errorf("NaN: %v", err)
	}
	if err := m.Write(context.Background(), &b, Options{Type: "q3_9"}); err == nil {
		t.Error("type q3_9")
	}
}

// TestHostileShapes: sizes that no weights have are refused before memory is taken for them, and heads whose rows would
// not be found.
func TestHostileShapes(t *testing.T) {
	for name, c := range map[string]struct {
		class string
		set   map[string]any
		want  []string
	}{
		"blocks": {"LlamaForCausalLM", map[string]any{"num_hidden_layers": 1 << 20},
			[]string{"num_hidden_layers", "1048576"}},
		"heads": {"LlamaForCausalLM", map[string]any{"num_attention_heads": largest, "num_key_value_heads": largest,
			"head_dim": largest}, []string{"num_attention_heads", "16777216 heads of 16777216"}},
		"odd heads": {"LlamaForCausalLM", map[string]any{"head_dim": 3}, []string{"head_dim", "heads of 3 numbers"}},
		"three of 8": {"GPTNeoXForCausalLM", map[string]any{"num_attention_heads": 3},
			[]string{"num_attention_heads", "3 heads"}},
	} {
		s, config := llamaSource(t, c.class)
		maps.Copy(config, c.set)
		if c.set["head_dim"] == 3 {
			for matrix, shape := range map[string][]int{"q": {6, 8}, "k": {3, 8}, "v": {3, 8}, "o": {8, 6}} {
				s.tensors["model.layers.0.self_attn."+matrix+"_proj.weight"] = shape
			}
		}
		s.file("config.json", config)
		s.weights()
		s.refused(name, c.want)
	}
}

// endsLate is a context that has ended when it has been asked some times.
type endsLate struct {
	context.Context
	left int
}

func (c *endsLate) Err() error {
	if c.left--; c.left < 0 {
		return context.Canceled
	}
	return nil
}

// TestWriteEnds: a conversion ends within a tensor, however large it is.
func TestWriteEnds(t *testing.T) {
	s, config := llamaSource(t, "LlamaForCausalLM")
	s.file("config.json", config)
	s.weights()
	m, err := Open(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	tensors := 0
	err = m.Write(&endsLate{t.Context(), 3}, io.Discard, Options{Progress: func(done, total int64) { tensors++ }})
	if !errors.Is(err, context.Canceled) || tensors > 0 {
		t.Errorf("%v, after %d tensors: the first has 260 rows", err, tensors)
	}
}

// TestMembersThatChangeNothing: of published models' config.json, SmolLM2's and DistilGPT2's among them.
func TestMembersThatChangeNothing(t *testing.T) {
	s, config := llamaSource(t, "LlamaForCausalLM")
	s.file("config.json", config)
	s.weights()
	_, want := converted(t, s.dir, Options{})
	maps.Copy(config, map[string]any{"transformers.js_config": map[string]any{"kv_cache_dtype": "fp16"}, "_num_labels": 1,
		"max_length": 20, "do_sample": true, "temperature": 0.6, "_attn_implementation_autoset": true,
		"is_decoder": true, "is_encoder_decoder": false})
	s.file("config.json", config)
	if _, got := converted(t, s.dir, Options{}); !bytes.Equal(got, want) {
		t.Error("they change the file")
	}
}

// A vocabulary whose merges are damaged is refused: with it the model would read other tokens, or none.
func TestDamagedMergesAreRefused(t *testing.T) {
	vocab := map[string]int{}
	for b := range 256 {
		vocab[string(byteCharacter(b))] = b
	}
	var merges []string
	for c := 'a'; c < 'u'; c++ { // 20 words of two letters, and of three
		merges = append(merges, "Ġ "+string(c), "Ġ"+string(c)+" "+string(c))
		vocab["Ġ"+string(c)], vocab["Ġ"+string(c)+string(c)] = len(vocab), len(vocab)+1
	}
	for name, c := range map[string]struct {
		merges []string
		want   string
	}{
		"whole":             {merges, ""},
		"none":              {nil, "40 tokens, Ġtt for one, are the result of none of the 0 merges"},
		"cut":               {merges[:20], "are the result of none of the 20 merges"},
		"one twice":         {append(slices.Clone(merges), merges[3]), "merge 40, Ġb b, stands there twice"},
		"an unknown part":   {append(slices.Clone(merges), "a ÿÿ"), "needs the token"},
		"an unknown result": {append(slices.Clone(merges), "a z"), "needs the token"},
		"no space":          {append(slices.Clone(merges), "Ġa"), "not two tokens"},
		"nothing":           {append(slices.Clone(merges), ""), "not two tokens"},
		"three parts":       {append(slices.Clone(merges), "Ġ a a"), "needs the token"},
	} {
		s, config := llamaSource(t, "LlamaForCausalLM")
		s.file("tokenizer.json", map[string]any{
			"added_tokens":  []any{map[string]any{"id": 296, "content": "<end>", "special": true}},
			"pre_tokenizer": map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
			"model":         map[string]any{"type": "BPE", "vocab": vocab, "merges": c.merges},
		})
		config["vocab_size"] = 297
		config["eos_token_id"] = 296
		s.tensors["model.embed_tokens.weight"] = []int{297, 8}
		s.tensors["lm_head.weight"] = []int{297, 8}
		s.file("config.json", config)
		s.weights()
		m, err := Open(s.dir)
		if err == nil {
			m.Close()
		}
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), "tokenizer.json")) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// A header whose ranges hold more or less than the shapes say is damaged.
func TestRangesAreAsLongAsTheShapes(t *testing.T) {
	for size, good := range map[int]bool{0: false, 4: false, 12: false, 16: true, 20: false, 24: false, 32: false} {
		dir := t.TempDir()
		h, _ := json.Marshal(map[string]any{"x": map[string]any{
			"dtype": "F32", "shape": []int{4}, "data_offsets": []int{0, size}}})
		data := append(binary.LittleEndian.AppendUint64(nil, uint64(len(h))), h...)
		data = append(data, make([]byte, max(16, size))...)
		name := filepath.Join(dir, "model.safetensors")
		if err := os.WriteFile(name, data, 0o666); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		err = (&weights{tensors: map[string]stored{}}).safetensors(file, int64(len(data)))
		file.Close()
		if good != (err == nil) {
			t.Errorf("%d bytes for 4 numbers: %v", size, err)
		}
	}
}

// An added token that is not special makes text of what is text, and never of a control token or a byte: a user could
// write it then.
func TestAddedTokensOverOthers(t *testing.T) {
	for _, c := range []struct {
		was     int32
		special bool
		want    int32
	}{
		{typeNormal, false, typeUser}, {typeNormal, true, typeControl},
		{typeControl, false, typeControl}, {typeControl, true, typeControl},
		{typeByte, false, typeByte}, {typeUnused, false, typeUser}, {typeUnused, true, typeControl},
		{typeUser, false, typeUser}, {typeUser, true, typeControl}, {typeUnknown, true, typeUnknown},
	} {
		w := &words{tokens: []string{"x"}, types: []int32{c.was}, rows: 1}
		if err := w.place("tokenizer.json", 0, addedToken{Content: "<x>", Special: c.special}); err != nil {
			t.Fatal(err)
		}
		if w.types[0] != c.want || w.tokens[0] != "<x>" {
			t.Errorf("type %d, special %v: type %d, want %d", c.was, c.special, w.types[0], c.want)
		}
	}
}

// Of several chat templates the one named default is taken, wherever it stands, and tool_use for conversations with
// tools; a file of its own counts more.
func TestTheDefaultTemplateIsTaken(t *testing.T) {
	named := func(name, text string) map[string]string { return map[string]string{"name": name, "template": text} }
	for _, c := range []struct {
		list  any
		file  string
		want  string
		tools string
	}{
		{"one", "", "one", ""},
		{[]any{named("default", "one"), named("tool_use", "two")}, "", "one", "two"},
		{[]any{named("tool_use", "two"), named("default", "one"), named("rag", "three")}, "", "one", "two"},
		{[]any{named("tool_use", "two")}, "", "", "two"},
		{[]any{named("default", "one")}, "file", "file", ""},
		{nil, "file", "file", ""},
	} {
		s := &source{t: t, dir: t.TempDir()}
		s.file("tokenizer_config.json", map[string]any{"chat_template": c.list})
		if c.file != "" {
			s.file("chat_template.jinja", c.file)
		}
		got, err := readSettings(s.dir)
		if err != nil || got.template != c.want || got.named["tool_use"] != c.tools {
			t.Errorf("%v, %q: %q and %q, want %q and %q: %v", c.list, c.file, got.template, got.named["tool_use"], c.want,
				c.tools, err)
		}
	}
}

// sentencePieceFile is a model of a few pieces, written by hand.
func sentencePieceFile(kind byte, pieces ...string) []byte {
	field := func(number int, text []byte) []byte {
		return append(binary.AppendUvarint([]byte{byte(number<<3 | 2)}, uint64(len(text))), text...)
	}
	var file []byte
	for i, p := range pieces {
		piece := append(field(1, []byte(p)), 2<<3|5)
		piece = binary.LittleEndian.AppendUint32(piece, math.Float32bits(-float32(i)))
		piece = append(piece, 3<<3, byte(min(1+i, 6)))
		file = append(file, field(1, piece)...)
	}
	file = append(file, field(2, []byte{3 << 3, kind})...)
	return append(file, field(3, []byte{3 << 3, 0})...)
}

func TestSentencePiece(t *testing.T) {
	w, err := parseSentencePiece(sentencePieceFile(2, "a", "<unk>", "<s>", "u", "x", "<0x41>"), true)
	if err != nil || !slices.Equal(w.tokens, []string{"a", "<unk>", "<s>", "u", "x", "<0x41>"}) ||
		!slices.Equal(w.types, []int32{1, 2, 3, 4, 5, 6}) ||
		w.scores[3] != -3 || *w.addPrefix {
		t.Errorf("%+v, %v", w, err)
	}
	if _, err := parseSentencePiece(sentencePieceFile(1, "a"), false); err == nil ||
		!strings.Contains(err.Error(), "model_type 1") {
		t.Errorf("unigram: %v", err)
	}
	// Fields of normalizer_spec (3) and trainer_spec (2): spaces that stay, a map of characters, spaces that are not
	// marked, marks behind words.
	spaces := append(sentencePieceFile(2, "a"), 3<<3|2, 2, 4<<3, 0)
	for name, c := range map[string]struct {
		more      []byte
		note, err string
	}{
		"as Llama's": {nil, "", ""}, "runs of spaces": {[]byte{3<<3 | 2, 2, 4 << 3, 1}, "one of several spaces", ""},
		"characters": {[]byte{3<<3 | 2, 3, 2<<3 | 2, 1, 'x'}, "maps characters", ""},
		"spaces":     {[]byte{3<<3 | 2, 2, 5 << 3, 0}, "", "not marks in front of words"},
		"suffixes":   {[]byte{2<<3 | 2, 3, 24<<3&0x7f | 0x80, 24 >> 4, 1}, "", "not marks in front of words"},
	} {
		w, err := parseSentencePiece(slices.Concat(spaces, c.more), false)
		if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) ||
			err == nil && ((w.note == "") != (c.note == "") || !strings.Contains(w.note, c.note)) {
			t.Errorf("%s: %+v, %v", name, w, err)
		}
	}
	good := sentencePieceFile(2, "a", "b")
	for n := range len(good) {
		parseSentencePiece(good[:n], true) // no panic
	}
}

// TestSpacesOfUserDefinedTokens: Gemma's vocabulary has tokens for runs of spaces, which its files spell with marks.
// They are spaces in a text.
func TestSpacesOfUserDefinedTokens(t *testing.T) {
	s, config := llamaSource(t, "LlamaForCausalLM")
	if err := os.Remove(filepath.Join(s.dir, "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	s.file("tokenizer.model", string(sentencePieceFile(2, "▁", "<unk>", "<s>", "▁▁", "x", "<0x41>")))
	s.file("tokenizer_config.json", map[string]any{"bos_token": "<s>", "added_tokens_decoder": map[string]addedToken{
		"259": {Content: "▁▁▁"}}})
	config["eos_token_id"] = 2
	s.file("config.json", config)
	s.weights()
	f, _ := converted(t, s.dir, Options{Type: "f32"})
	tok, err := engine.ReadTokenizer(f)
	if err != nil {
		t.Fatal(err)
	}
	ids := tok.Encode("x  x   x", bpe.EncodeOptions{})
	if !slices.Equal(ids, []int32{4, 3, 4, 259, 4}) {
		t.Errorf("ids %v", ids)
	}
	if got := tok.Decode(ids); got != "x  x   x" {
		t.Errorf("%q", got)
	}
}

func FuzzSentencePiece(f *testing.F) {
	f.Add(sentencePieceFile(2, "a", "<unk>", "<s>"))
	f.Fuzz(func(t *testing.T, data []byte) { parseSentencePiece(data, true) })
}

// FuzzFolder reads damaged files of each kind.
func FuzzFolder(f *testing.F) {
	s, config := llamaSource(f, "LlamaForCausalLM")
	s.file("config.json", config)
	s.weights()
	for i, name := range []string{"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"} {
		data, err := os.ReadFile(filepath.Join(s.dir, name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(i), data)
	}
	f.Fuzz(func(t *testing.T, which uint8, data []byte) {
		name := []string{"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"}[which%4]
		d := &source{t: t, dir: t.TempDir()}
		for _, other := range []string{"config.json", "tokenizer.json", "tokenizer_config.json", "model.safetensors"} {
			if other != name {
				if err := os.Link(filepath.Join(s.dir, other), filepath.Join(d.dir, other)); err != nil {
					t.Fatal(err)
				}
			}
		}
		d.file(name, string(data))
		m, err := Open(d.dir)
		if err != nil {
			return
		}
		defer m.Close()
		m.Write(context.Background(), &bytes.Buffer{}, Options{})
	})
}
