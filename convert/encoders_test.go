package convert

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/testkit"
)

// encoderCase is an encoder of ../shared as its class is published. Names are of tensors in front of .weight and .bias;
// those with %d are of blocks.
type encoderCase struct {
	file, class string
	prefix      string
	names       map[string]string // GGUF's name: the published one
	config      map[string]any    // beside sizes
	sizes       map[string]string // GGUF's key: the published one
	before      int               // rows before the first position's
}

var (
	bertTensors = map[string]string{"token_embd": "embeddings.word_embeddings",
		"token_types": "embeddings.token_type_embeddings", "position_embd": "embeddings.position_embeddings",
		"token_embd_norm": "embeddings.LayerNorm", "blk.%d.attn_q": "encoder.layer.%d.attention.self.query",
		"blk.%d.attn_k": "encoder.layer.%d.attention.self.key", "blk.%d.attn_v": "encoder.layer.%d.attention.self.value",
		"blk.%d.attn_output":      "encoder.layer.%d.attention.output.dense",
		"blk.%d.attn_output_norm": "encoder.layer.%d.attention.output.LayerNorm",
		"blk.%d.ffn_up":           "encoder.layer.%d.intermediate.dense", "blk.%d.ffn_down": "encoder.layer.%d.output.dense",
		"blk.%d.layer_output_norm": "encoder.layer.%d.output.LayerNorm"}
	distilTensors = map[string]string{"token_embd": "embeddings.word_embeddings",
		"position_embd": "embeddings.position_embeddings", "token_embd_norm": "embeddings.LayerNorm",
		"blk.%d.attn_q": "transformer.layer.%d.attention.q_lin", "blk.%d.attn_k": "transformer.layer.%d.attention.k_lin",
		"blk.%d.attn_v":            "transformer.layer.%d.attention.v_lin",
		"blk.%d.attn_output":       "transformer.layer.%d.attention.out_lin",
		"blk.%d.attn_output_norm":  "transformer.layer.%d.sa_layer_norm",
		"blk.%d.ffn_up":            "transformer.layer.%d.ffn.lin1",
		"blk.%d.ffn_down":          "transformer.layer.%d.ffn.lin2",
		"blk.%d.layer_output_norm": "transformer.layer.%d.output_layer_norm"}
	nomicTensors = map[string]string{"token_embd": "embeddings.word_embeddings",
		"token_types": "embeddings.token_type_embeddings", "token_embd_norm": "emb_ln",
		"blk.%d.attn_qkv": "encoder.layers.%d.attn.Wqkv", "blk.%d.attn_output": "encoder.layers.%d.attn.out_proj",
		"blk.%d.attn_output_norm": "encoder.layers.%d.norm1", "blk.%d.layer_output_norm": "encoder.layers.%d.norm2",
		"blk.%d.ffn_up": "encoder.layers.%d.mlp.fc11", "blk.%d.ffn_gate": "encoder.layers.%d.mlp.fc12",
		"blk.%d.ffn_down": "encoder.layers.%d.mlp.fc2"}
	modernTensors = map[string]string{"token_embd": "embeddings.tok_embeddings", "token_embd_norm": "embeddings.norm",
		"blk.%d.attn_norm": "layers.%d.attn_norm", "blk.%d.attn_qkv": "layers.%d.attn.Wqkv",
		"blk.%d.attn_output": "layers.%d.attn.Wo", "blk.%d.ffn_norm": "layers.%d.mlp_norm",
		"blk.%d.ffn_up": "layers.%d.mlp.Wi", "blk.%d.ffn_down": "layers.%d.mlp.Wo", "output_norm": "final_norm"}
	gemmaTensors = map[string]string{"token_embd": "embed_tokens", "output_norm": "norm",
		"blk.%d.attn_norm": "layers.%d.input_layernorm", "blk.%d.attn_q": "layers.%d.self_attn.q_proj",
		"blk.%d.attn_k": "layers.%d.self_attn.k_proj", "blk.%d.attn_v": "layers.%d.self_attn.v_proj",
		"blk.%d.attn_q_norm": "layers.%d.self_attn.q_norm", "blk.%d.attn_k_norm": "layers.%d.self_attn.k_norm",
		"blk.%d.attn_output":         "layers.%d.self_attn.o_proj",
		"blk.%d.post_attention_norm": "layers.%d.post_attention_layernorm",
		"blk.%d.ffn_norm":            "layers.%d.pre_feedforward_layernorm",
		"blk.%d.post_ffw_norm":       "layers.%d.post_feedforward_layernorm",
		"blk.%d.ffn_gate":            "layers.%d.mlp.gate_proj", "blk.%d.ffn_up": "layers.%d.mlp.up_proj",
		"blk.%d.ffn_down": "layers.%d.mlp.down_proj", "dense_2": "2_Dense/linear", "dense_3": "3_Dense/linear"}
	gemmaSizes = map[string]string{"context_length": "max_position_embeddings", "block_count": "num_hidden_layers",
		"embedding_length": "hidden_size", "feed_forward_length": "intermediate_size",
		"attention.head_count": "num_attention_heads", "attention.head_count_kv": "num_key_value_heads",
		"attention.key_length": "head_dim", "attention.layer_norm_rms_epsilon": "rms_norm_eps",
		"rope.freq_base": "rope_theta", "attention.sliding_window": "sliding_window"}
	bertSizes = map[string]string{"context_length": "max_position_embeddings", "block_count": "num_hidden_layers",
		"embedding_length": "hidden_size", "feed_forward_length": "intermediate_size",
		"attention.head_count": "num_attention_heads", "attention.layer_norm_epsilon": "layer_norm_eps"}
	distilSizes = map[string]string{"context_length": "max_position_embeddings", "block_count": "n_layers",
		"embedding_length": "dim", "feed_forward_length": "hidden_dim", "attention.head_count": "n_heads"}
	nomicSizes = map[string]string{"context_length": "max_trained_positions", "block_count": "n_layer",
		"embedding_length": "n_embd", "feed_forward_length": "n_inner", "attention.head_count": "n_head",
		"attention.layer_norm_epsilon": "layer_norm_epsilon", "rope.freq_base": "rotary_emb_base"}
	modernSizes = map[string]string{"context_length": "max_position_embeddings", "block_count": "num_hidden_layers",
		"embedding_length": "hidden_size", "feed_forward_length": "intermediate_size",
		"attention.head_count": "num_attention_heads", "attention.layer_norm_epsilon": "norm_eps",
		"attention.sliding_window": "local_attention", "attention.sliding_window_pattern": "global_attn_every_n_layers",
		"rope.freq_base": "global_rope_theta", "rope.freq_base_swa": "local_rope_theta"}
)

// with is a map with more.
func with[K comparable, V any](m map[K]V, more ...map[K]V) map[K]V {
	out := map[K]V{}
	for _, m := range append([]map[K]V{m}, more...) {
		maps.Copy(out, m)
	}
	return out
}

func encoderCases() []encoderCase {
	head := map[string]string{"cls": "classifier.dense", "cls.output": "classifier.out_proj"}
	gelu, modern := map[string]any{"hidden_act": "gelu"}, map[string]any{"hidden_activation": "gelu",
		"classifier_pooling": "mean", "classifier_activation": "gelu", "attention_bias": false, "norm_bias": false}
	rank := with(bertTensors, nil)
	for name, published := range rank {
		rank[name] = "roberta." + published
	}
	distil := map[string]any{"activation": "gelu", "sinusoidal_pos_embds": false}
	return []encoderCase{
		{"bert", "BertModel", "", bertTensors, gelu, bertSizes, 0},
		{"bert", "BertForMaskedLM", "bert.", bertTensors, gelu, bertSizes, 0},
		{"bert", "DistilBertModel", "distilbert.", distilTensors, distil, distilSizes, 0},
		{"bert-xlmr", "XLMRobertaModel", "", bertTensors, gelu, bertSizes, 2},
		{"bert-rank", "XLMRobertaForSequenceClassification", "", with(rank, head), gelu, bertSizes, 2},
		{"gemma-embedding", "Gemma3TextModel", "", gemmaTensors, map[string]any{"use_bidirectional_attention": true,
			"query_pre_attn_scalar": 24, "hidden_activation": "gelu_pytorch_tanh", "_sliding_window_pattern": 6,
			"rope_local_base_freq": 10000.0}, gemmaSizes, 0},
		{"nomic-bert", "NomicBertModel", "", nomicTensors, map[string]any{"activation_function": "swiglu",
			"n_positions": 8192, "causal": false, "prenorm": false, "rotary_emb_fraction": 1.0}, nomicSizes, 0},
		{"modern-bert", "ModernBertModel", "", modernTensors, modern, modernSizes, 0},
		{"modern-bert-rank", "ModernBertForSequenceClassification", "", with(with(modernTensors, nil), map[string]string{
			"cls": "head.dense", "cls.norm": "head.norm", "cls.output": "classifier"}), modern, modernSizes, 0},
	}
}

func architecture(f *gguf.File) string {
	name, _ := f.String("general.architecture")
	return name
}

// published writes the folder that the file is made of.
func (c encoderCase) published(t *testing.T, f *gguf.File) *source {
	t.Helper()
	s := &source{t: t, dir: t.TempDir(), values: map[string]func(int) float32{}, tensors: map[string][]int{}}
	for _, x := range f.Tensors {
		name, end := x.Name[:strings.LastIndex(x.Name, ".")], x.Name[strings.LastIndex(x.Name, "."):]
		var block int
		pattern := name
		if n, _ := fmt.Sscanf(name, "blk.%d.", &block); n == 1 {
			pattern = strings.Replace(name, fmt.Sprintf("blk.%d.", block), "blk.%d.", 1)
		}
		to, ok := c.names[pattern]
		if !ok && c.class == "DistilBertModel" {
			continue // token types
		}
		if !ok {
			t.Fatalf("%s: no published name", x.Name)
		}
		to = c.prefix + strings.Replace(to, "%d", fmt.Sprint(block), 1) + end
		values, before := floats(t, f, x), 0
		if name == "position_embd" {
			before = c.before * int(x.Dims[0])
		}
		s.values[to] = func(i int) float32 {
			if i < before {
				return 1e9
			}
			if c.class == "Gemma3TextModel" && len(x.Dims) == 1 {
				return values[i] - 1 // of norms
			}
			return values[i-before]
		}
		var shape []int
		for _, d := range slices.Backward(x.Dims) {
			shape = append(shape, int(d))
		}
		if name == "position_embd" {
			shape[0] += c.before
		}
		s.tensors[to] = shape
	}
	tokens, err := f.Strings("tokenizer.ggml.tokens")
	if err != nil {
		t.Fatal(err)
	}
	config := with(c.config, map[string]any{"architectures": []string{c.class}, "vocab_size": len(tokens),
		"pad_token_id": 1, "type_vocab_size": 2})
	for key, name := range c.sizes {
		v, ok := f.Value(architecture(f) + "." + key)
		if !ok {
			t.Fatal("no key", key)
		}
		config[name] = v
		if n, is := v.(uint32); is && key == "context_length" {
			config[name] = int(n) + c.before
		}
	}
	if types, ok := f.Value("tokenizer.ggml.token_type_count"); ok {
		config["type_vocab_size"] = types
	}
	if c.class == "DistilBertModel" || strings.HasPrefix(c.class, "Modern") || strings.HasPrefix(c.class, "Gemma") {
		delete(config, "type_vocab_size")
	}
	s.file("config.json", config)
	var dense []any
	for _, folder := range []string{"2_Dense", "3_Dense"} {
		shape, ok := s.tensors[folder+"/linear.weight"]
		if !ok {
			continue
		}
		one := &source{t: t, dir: s.dir + "/" + folder, tensors: map[string][]int{"linear.weight": shape},
			values: map[string]func(int) float32{"linear.weight": s.values[folder+"/linear.weight"]}}
		if err := os.Mkdir(one.dir, 0o777); err != nil {
			t.Fatal(err)
		}
		one.weights()
		one.file("config.json", map[string]any{"in_features": shape[1], "out_features": shape[0], "bias": false,
			"activation_function": "torch.nn.modules.linear.Identity"})
		delete(s.tensors, folder+"/linear.weight")
		dense = append(dense, map[string]any{"path": folder, "type": "sentence_transformers.models.Dense"})
	}
	s.weights()
	s.publishedTokenizer(f, tokens)
	if pooling, _ := f.Uint32(architecture(f) + ".pooling_type"); pooling < 4 {
		s.file("modules.json", append(modules("1_Pooling", "Normalize"), dense...))
		if err := os.Mkdir(s.dir+"/1_Pooling", 0o777); err != nil {
			t.Fatal(err)
		}
		s.file("1_Pooling/config.json", map[string]any{"pooling_mode": []string{"", "mean", "cls", "lasttoken"}[pooling]})
	}
	return s
}

// idOr is the id of a special token.
func idOr(f *gguf.File, key string, absent int) int {
	if n, err := f.Uint32("tokenizer.ggml." + key + "_token_id"); err == nil {
		return int(n)
	}
	return absent
}

// publishedTokenizer writes tokenizer.json and tokenizer_config.json.
func (s *source) publishedTokenizer(f *gguf.File, tokens []string) {
	s.t.Helper()
	types, err := f.Int32s("tokenizer.ggml.token_type")
	if err != nil {
		s.t.Fatal(err)
	}
	token := func(key string) string {
		return tokens[idOr(f, key, map[string]int{"bos": 101, "eos": 102, "unknown": 100}[key])]
	}
	special := func(text string) any { return map[string]any{"SpecialToken": map[string]any{"id": text}} }
	text := func(id string) any { return map[string]any{"Sequence": map[string]any{"id": id}} }
	bos, eos := special(token("bos")), special(token("eos"))
	pair := []any{bos, text("A"), eos, text("B"), eos}
	if two, _ := f.Bool("tokenizer.ggml.add_sep_token"); two {
		pair = []any{bos, text("A"), eos, eos, text("B"), eos}
	}
	tokenizer := map[string]any{"post_processor": map[string]any{"type": "TemplateProcessing",
		"single": []any{bos, text("A"), eos}, "pair": pair}}
	var added []any
	vocab, pieces := map[string]int{}, []any{}
	scores, _ := f.Float32s("tokenizer.ggml.scores")
	model, _ := f.String("tokenizer.ggml.model")
	for id, text := range tokens {
		if types[id] == typeControl || types[id] == typeUnknown {
			added = append(added, map[string]any{"id": id, "content": text, "special": true})
		} else if inside, begins := strings.CutPrefix(text, "▁"); model == "bert" && begins {
			text = inside
		} else if model == "bert" {
			text = "##" + text
		}
		if vocab[text] = id; scores != nil {
			pieces = append(pieces, []any{text, scores[id]})
		}
	}
	tokenizer["added_tokens"] = added
	switch model {
	case "bert":
		lower, strips := true, any(nil)
		if v, ok := f.Value("tokenizer.ggml.normalizer.lowercase"); ok {
			lower = v.(bool)
		}
		if v, ok := f.Value("tokenizer.ggml.normalizer.strip_accents"); ok {
			strips = v
		}
		tokenizer["normalizer"] = map[string]any{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
			"strip_accents": strips, "lowercase": lower}
		tokenizer["pre_tokenizer"] = map[string]any{"type": "BertPreTokenizer"}
		tokenizer["model"] = map[string]any{"type": "WordPiece", "unk_token": token("unknown"), "vocab": vocab,
			"continuing_subword_prefix": "##", "max_input_chars_per_word": 100}
	case "t5":
		normalizers := []any{map[string]any{"type": "Replace", "pattern": map[string]any{"Regex": " {2,}"}, "content": " "}}
		if v, ok := f.Value("tokenizer.ggml.precompiled_charsmap"); ok {
			normalizers = append([]any{map[string]any{"type": "Precompiled",
				"precompiled_charsmap": base64.StdEncoding.EncodeToString(v.([]byte))}}, normalizers...)
		}
		tokenizer["normalizer"] = map[string]any{"type": "Sequence", "normalizers": normalizers}
		tokenizer["pre_tokenizer"] = map[string]any{"type": "Metaspace", "replacement": "▁", "add_prefix_space": true}
		tokenizer["model"] = map[string]any{"type": "Unigram", "unk_id": idOr(f, "unknown", -1), "vocab": pieces}
	default:
		merges, err := f.Strings("tokenizer.ggml.merges")
		if err != nil {
			s.t.Fatal(err)
		}
		tokenizer["pre_tokenizer"] = map[string]any{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}
		tokenizer["model"] = map[string]any{"type": "BPE", "vocab": vocab, "merges": merges}
	}
	s.file("tokenizer.json", tokenizer)
	settings := map[string]any{"unk_token": token("unknown"), "pad_token": token("padding"), "cls_token": token("bos"),
		"sep_token": token("eos")}
	if f.Has("tokenizer.ggml.mask_token_id") {
		settings["mask_token"] = token("mask")
	}
	s.file("tokenizer_config.json", settings)
}

// TestEncoders converts the published form of encoders and compares tensors, keys and tokenizers with the files of
// ../shared that an independent engine computes, and vectors with those of the file, bit for bit.
func TestEncoders(t *testing.T) {
	for _, c := range encoderCases() {
		t.Run(c.class, func(t *testing.T) {
			want, err := gguf.OpenFile(testkit.Shared(t, "families/encoders", c.file+".gguf"))
			if err != nil {
				t.Fatal(err)
			}
			defer want.Close()
			s := c.published(t, want)
			got, raw := converted(t, s.dir, Options{Type: "f32"})
			if c.class == "DistilBertModel" { // without token types, and so other vectors
				runsEncoder(t, raw, nil)
				return
			}
			sameTensors(t, got, want)
			a, err := engine.ReadTokenizer(got)
			if err != nil {
				t.Fatal(err)
			}
			if b, err := engine.ReadTokenizer(want); err != nil || !a.Equal(b) {
				t.Error("the tokenizers differ:", err)
			}
			for key := range want.Keys() {
				if strings.HasPrefix(key, "general.") || strings.HasSuffix(key, "rope.scaling.type") ||
					strings.Contains("tokens scores token_type merges", key[strings.LastIndex(key, ".")+1:]) {
					continue
				}
				w, _ := want.Value(key)
				if g, _ := got.Value(key); fmt.Sprint(g) != fmt.Sprint(w) {
					t.Errorf("%s: %v, want %v", key, g, w)
				}
			}
			whole, err := os.ReadFile(testkit.Shared(t, "families/encoders", c.file+".gguf"))
			if err != nil {
				t.Fatal(err)
			}
			runsEncoder(t, raw, whole)
		})
	}
}

// TestActivationOfModernBERT: SiLU, as Granite's embedding model of 97M has, is a key; other activations are refused.
func TestActivationOfModernBERT(t *testing.T) {
	i := slices.IndexFunc(encoderCases(), func(c encoderCase) bool { return c.class == "ModernBertModel" })
	c := encoderCases()[i]
	f, err := gguf.OpenFile(testkit.Shared(t, "families/encoders", c.file+".gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := c.published(t, f)
	s.edit("config.json", func(m map[string]any) { m["hidden_activation"] = "silu" })
	got, raw := converted(t, s.dir, Options{Type: "f32"})
	if act, _ := got.Value("modern-bert.hidden_activation"); act != "silu" {
		t.Errorf("hidden_activation %v", act)
	}
	runsEncoder(t, raw, nil)
	s.edit("config.json", func(m map[string]any) { m["hidden_activation"] = "relu" })
	s.refused("relu", []string{"hidden_activation"})
}

// runsEncoder checks that the engine makes vectors with a file, those of another one if there is one.
func runsEncoder(t *testing.T, file, same []byte) {
	t.Helper()
	vector := func(file []byte) []float32 {
		rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer rt.Close()
		m, err := engine.New(context.Background(), rt, bytes.NewReader(file), int64(len(file)), engine.Options{Name: "made"})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		list, err := m.Embed(context.Background(), [][]int32{{2, 9, 17, 40, 3}},
			engine.EmbedOptions{Pooling: engine.PoolDefault})
		if err != nil || list[0].Err != nil {
			t.Fatal(err, list)
		}
		return list[0].Data
	}
	got := vector(file)
	if same != nil && !slices.Equal(got, vector(same)) {
		t.Error("the vectors differ")
	}
}

// TestEncoderVocabularies: the vocabularies of ../shared, of which the ids of 374 texts are known, are those of their
// published form; vocab.txt says the same as tokenizer.json.
func TestEncoderVocabularies(t *testing.T) {
	for _, name := range []string{"bert-bge", "wordpiece-cased", "wordpiece-accents", "wordpiece-strip", "xlmr-small"} {
		want, err := gguf.OpenFile(testkit.Shared(t, "tokenizers", name+".gguf"))
		if err != nil {
			t.Fatal(err)
		}
		defer want.Close()
		tokens, err := want.Strings("tokenizer.ggml.tokens")
		if err != nil {
			t.Fatal(err)
		}
		old := !want.Has("tokenizer.ggml.bos_token_id") // a file without keys for its marks
		raw, err := os.ReadFile(testkit.Shared(t, "tokenizers", name+".inp"))
		if err != nil {
			t.Fatal(err)
		}
		texts := strings.Split(string(raw), "\n__ggml_vocab_test__\n")
		id := func(key string, absent int) int { return idOr(want, key, absent) }
		c := encoderCases()[0]
		tiny, err := gguf.OpenFile(testkit.Shared(t, "families/encoders", "bert.gguf"))
		if err != nil {
			t.Fatal(err)
		}
		defer tiny.Close()
		s := c.published(t, tiny)
		s.publishedTokenizer(want, tokens)
		s.tensors["embeddings.word_embeddings.weight"][0] = len(tokens)
		s.values["embeddings.word_embeddings.weight"] = nil
		s.weights()
		s.edit("config.json", func(m map[string]any) { m["vocab_size"] = len(tokens) })
		b, err := engine.ReadTokenizer(want)
		if err != nil {
			t.Fatal(err)
		}
		same := func(form string) {
			t.Helper()
			got, _ := converted(t, s.dir, Options{Type: "f32"})
			a, err := engine.ReadTokenizer(got)
			if err != nil {
				t.Fatal(err)
			}
			if !old && !a.Equal(b) {
				t.Errorf("%s by %s: the tokenizers differ", name, form)
			}
			for _, text := range texts {
				if got, want := a.Encode(text, bpe.EncodeOptions{}), b.Encode(text, bpe.EncodeOptions{}); !slices.Equal(got, want) {
					t.Errorf("%s by %s: %q: %d, want %d", name, form, text, got, want)
				}
			}
			if front, back := a.Marks(); front != int32(id("bos", 101)) || back != int32(id("eos", 102)) {
				t.Errorf("%s by %s: marks %d and %d", name, form, front, back)
			}
		}
		same("tokenizer.json")
		if name == "xlmr-small" {
			continue
		}
		var list strings.Builder
		types, _ := want.Int32s("tokenizer.ggml.token_type")
		for id, text := range tokens {
			if inside, begins := strings.CutPrefix(text, "▁"); begins {
				text = inside
			} else if types[id] == typeNormal {
				text = "##" + text
			}
			list.WriteString(text + "\n")
		}
		if err := os.Remove(s.dir + "/tokenizer.json"); err != nil {
			t.Fatal(err)
		}
		s.file("vocab.txt", list.String())
		s.edit("tokenizer_config.json", func(m map[string]any) {
			if v, ok := want.Value("tokenizer.ggml.normalizer.lowercase"); ok {
				m["do_lower_case"] = v
			}
			if v, ok := want.Value("tokenizer.ggml.normalizer.strip_accents"); ok {
				m["strip_accents"] = v
			}
		})
		same("vocab.txt")
	}
}

// edit changes a file of JSON.
func (s *source) edit(name string, change func(m map[string]any)) {
	s.t.Helper()
	data, err := os.ReadFile(s.dir + "/" + name)
	if err != nil {
		s.t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(data, &m); err != nil {
		s.t.Fatal(err)
	}
	change(m)
	s.file(name, m)
}

// TestEncodersRefused: what an encoder's folder says and GGUF cannot is an error that names it, or a note.
func TestEncodersRefused(t *testing.T) {
	tiny := func(name string) *gguf.File {
		f, err := gguf.OpenFile(testkit.Shared(t, "families/encoders", name+".gguf"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	cases := encoderCases()
	set := func(file, key string, v any) func(s *source) {
		return func(s *source) { s.edit(file, func(m map[string]any) { m[key] = v }) }
	}
	inside := func(file, object, key string, v any) func(s *source) {
		return func(s *source) { s.edit(file, func(m map[string]any) { m[object].(map[string]any)[key] = v }) }
	}
	classifier := func(labels int) func(s *source) {
		return func(s *source) {
			for name := range maps.Clone(s.tensors) {
				s.tensors["bert."+name], s.values["bert."+name] = s.tensors[name], s.values[name]
				delete(s.tensors, name)
			}
			s.tensors["bert.pooler.dense.weight"], s.tensors["bert.pooler.dense.bias"] = []int{64, 64}, []int{64}
			s.tensors["classifier.weight"], s.tensors["classifier.bias"] = []int{labels, 64}, []int{labels}
			s.weights()
			s.edit("config.json", func(m map[string]any) { m["architectures"] = []string{"BertForSequenceClassification"} })
			for _, f := range []string{"modules.json", "1_Pooling/config.json"} {
				if err := os.Remove(s.dir + "/" + f); err != nil {
					s.t.Fatal(err)
				}
			}
		}
	}
	for name, c := range map[string]struct {
		of     int
		change func(s *source)
		want   string
		note   string
	}{
		"as it is":      {0, func(*source) {}, "", ""},
		"activation":    {0, set("config.json", "hidden_act", "relu"), "hidden_act", ""},
		"positions":     {0, set("config.json", "position_embedding_type", "relative_key"), "position_embedding_type", ""},
		"decoder":       {0, set("config.json", "is_decoder", true), "is_decoder", ""},
		"unknown key":   {0, set("config.json", "num_experts", 4), "num_experts", ""},
		"none pruned":   {0, set("config.json", "pruned_heads", map[string]any{}), "", ""},
		"pruned":        {0, set("config.json", "pruned_heads", map[string]any{"0": []int{1}}), "pruned_heads", ""},
		"heads":         {0, set("config.json", "num_attention_heads", 5), "num_attention_heads", ""},
		"cleaning":      {0, inside("tokenizer.json", "normalizer", "clean_text", false), "clean_text", ""},
		"normalizer":    {0, set("tokenizer.json", "normalizer", map[string]any{"type": "NFC"}), "BertNormalizer", ""},
		"pieces":        {0, inside("tokenizer.json", "model", "continuing_subword_prefix", ""), "continuing_subword", ""},
		"word length":   {0, inside("tokenizer.json", "model", "max_input_chars_per_word", 50), "max_input_chars", ""},
		"unknown token": {0, inside("tokenizer.json", "model", "unk_token", "[NO]"), "[NO]", ""},
		"no marks":      {0, set("tokenizer.json", "post_processor", nil), "post_processor", ""},
		"words":         {0, set("tokenizer_config.json", "do_basic_tokenize", false), "do_basic_tokenize", ""},
		"longest": {0, func(s *source) { s.file("sentence_bert_config.json", `{"max_seq_length": 32}`) }, "",
			"32 tokens"},
		"lower, old name": {3, func(s *source) { s.file("sentence_xlm-roberta_config.json", `{"do_lower_case": true}`) },
			"sentence_xlm-roberta_config.json: do_lower_case", ""},
		"space in front": {7, set("tokenizer_config.json", "add_prefix_space", true), "add_prefix_space", ""},
		"two rotations": {7, func(s *source) {
			s.edit("config.json", func(m map[string]any) {
				m["global_rope_theta"], m["rope_parameters"] = 5e5, map[string]any{"full_attention": map[string]any{
					"rope_type": "default", "rope_theta": 4e5}}
			})
		}, "global_rope_theta", ""},
		"pooled scores": {8, func(s *source) {
			s.file("modules.json", modules("1_Pooling", ""))
			if err := os.Mkdir(s.dir+"/1_Pooling", 0o777); err != nil {
				s.t.Fatal(err)
			}
			s.file("1_Pooling/config.json", map[string]any{"pooling_mode": "cls"})
		}, "the class makes scores", ""},
		"lower of t5": {3, func(s *source) { s.file("sentence_bert_config.json", `{"do_lower_case": true}`) },
			"do_lower_case", ""},
		"no padding":   {3, set("config.json", "pad_token_id", nil), "pad_token_id", ""},
		"no positions": {3, set("config.json", "max_position_embeddings", 2), "max_position_embeddings", ""},
		"gate":         {6, set("config.json", "activation_function", "gelu"), "activation_function", ""},
		"scaled":       {6, set("config.json", "rotary_scaling_factor", 2.0), "rotary_scaling_factor", ""},
		"biases":       {7, set("config.json", "attention_bias", true), "attention_bias", ""},
		"pooled":       {8, set("config.json", "classifier_pooling", "cls"), "classifier_pooling", ""},
		"layers":       {7, set("config.json", "layer_types", []string{"full_attention"}), "layer_types", ""},
		"no columns": {0, func(s *source) {
			classifier(3)(s)
			s.tensors["classifier.weight"] = []int{1 << 20, 0} // of which no label is made
			s.weights()
			set("config.json", "id2label", map[string]any{"0": "no"})(s)
		}, "tensor classifier.weight: shape [1048576 0], [1048576 64] expected", ""},
		"one output":      {0, classifier(1), "type_vocab_size", ""},
		"three outputs":   {0, classifier(3), "", "type 1 in training"},
		"labels":          {4, set("config.json", "id2label", map[string]any{"0": "no", "1": "yes"}), "id2label", ""},
		"attends back":    {5, set("config.json", "use_bidirectional_attention", false), "use_bidirectional_attention", ""},
		"dense bias":      {5, set("2_Dense/config.json", "bias", true), "bias", ""},
		"dense function":  {5, set("3_Dense/config.json", "activation_function", "Tanh"), "activation_function", ""},
		"dense size":      {5, set("3_Dense/config.json", "in_features", 64), "in_features", ""},
		"a class of GGUF": {0, set("config.json", "architectures", []string{"MPNetModel"}), "MPNetModel", ""},
	} {
		s := cases[c.of].published(t, tiny(cases[c.of].file))
		c.change(s)
		if c.want != "" {
			s.refused(name, []string{c.want})
			continue
		}
		m, err := Open(s.dir)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if m.Close(); !strings.Contains(strings.Join(m.Notes, "\n"), c.note) {
			t.Errorf("%s: notes %q", name, m.Notes)
		}
	}
	f, _ := converted(t, func() string {
		s := cases[0].published(t, tiny("bert"))
		classifier(3)(s)
		return s.dir
	}(), Options{})
	labels, _ := f.Strings("bert.classifier.output_labels")
	if !slices.Equal(labels, []string{"LABEL_0", "LABEL_1", "LABEL_2"}) {
		t.Errorf("labels %q", labels)
	}
}

// TestAccentsOfLowerCase: a tokenizer that makes texts lower case drops accents, unless it says something else. Where
// sentence-transformers makes them lower case before it, it does not.
func TestAccentsOfLowerCase(t *testing.T) {
	f, err := gguf.OpenFile(testkit.Shared(t, "families/encoders", "bert.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, c := range map[string]struct {
		lower, before bool
		strips        any // as the tokenizer says
		lowers, drops bool
	}{
		"as it is":               {false, false, nil, false, false},
		"tokenizer":              {true, false, nil, true, true},
		"before":                 {false, true, nil, true, false},
		"both":                   {true, true, nil, true, true},
		"before, accents go":     {false, true, true, true, true},
		"tokenizer, accents are": {true, true, false, true, false},
	} {
		s := encoderCases()[0].published(t, f)
		s.edit("tokenizer.json", func(m map[string]any) {
			n := m["normalizer"].(map[string]any)
			n["lowercase"], n["strip_accents"] = c.lower, c.strips
		})
		s.edit("tokenizer_config.json", func(m map[string]any) { m["do_lower_case"] = c.lower })
		s.file("sentence_bert_config.json", map[string]any{"do_lower_case": c.before})
		got, _ := converted(t, s.dir, Options{Type: "f32"})
		keysAre(t, name, got, map[string]gguf.Value{"tokenizer.ggml.normalizer.lowercase": c.lowers,
			"tokenizer.ggml.normalizer.strip_accents": c.drops})
	}
}
