package convert

import (
	"context"
	"encoding/base64"
	"encoding/json"
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

// bertTensors are what BERT's classes call their tensors, behind prefix.
func bertTensors(prefix string) []string {
	return []string{"token_embd.", prefix + "embeddings.word_embeddings.",
		"token_types.", prefix + "embeddings.token_type_embeddings.",
		"position_embd.", prefix + "embeddings.position_embeddings.",
		"token_embd_norm.", prefix + "embeddings.LayerNorm.", "blk.", prefix + "encoder.layer.",
		"attn_q.", "attention.self.query.", "attn_k.", "attention.self.key.", "attn_v.", "attention.self.value.",
		"attn_output.", "attention.output.dense.", "attn_output_norm.", "attention.output.LayerNorm.",
		"ffn_up.", "intermediate.dense.", "ffn_down.", "output.dense.", "layer_output_norm.", "output.LayerNorm."}
}

// What other encoders call their tensors, and their members.
var (
	distilTensors = []string{"token_embd.", "distilbert.embeddings.word_embeddings.",
		"position_embd.", "distilbert.embeddings.position_embeddings.",
		"token_embd_norm.", "distilbert.embeddings.LayerNorm.", "blk.", "distilbert.transformer.layer.",
		"attn_q.", "attention.q_lin.", "attn_k.", "attention.k_lin.", "attn_v.", "attention.v_lin.",
		"attn_output.", "attention.out_lin.", "attn_output_norm.", "sa_layer_norm.",
		"ffn_up.", "ffn.lin1.", "ffn_down.", "ffn.lin2.", "layer_output_norm.", "output_layer_norm."}
	distilMembers = members{"context_length": "max_position_embeddings", "block_count": "n_layers",
		"embedding_length": "dim", "feed_forward_length": "hidden_dim", "attention.head_count": "n_heads"}
	nomicTensors = []string{"token_embd.", "embeddings.word_embeddings.",
		"token_types.", "embeddings.token_type_embeddings.", "token_embd_norm.", "emb_ln.", "blk.", "encoder.layers.",
		"attn_qkv.", "attn.Wqkv.", "attn_output.", "attn.out_proj.", "attn_output_norm.", "norm1.",
		"layer_output_norm.", "norm2.", "ffn_up.", "mlp.fc11.", "ffn_gate.", "mlp.fc12.", "ffn_down.", "mlp.fc2."}
	nomicMembers = members{"context_length": "max_trained_positions", "block_count": "n_layer",
		"embedding_length": "n_embd", "feed_forward_length": "n_inner", "attention.head_count": "n_head",
		"attention.layer_norm_epsilon": "layer_norm_epsilon", "rope.freq_base": "rotary_emb_base"}
	modernTensors = []string{"token_embd.", "embeddings.tok_embeddings.", "token_embd_norm.", "embeddings.norm.",
		"output_norm.", "final_norm.", "blk.", "layers.", "attn_norm.", "attn_norm.", "attn_qkv.", "attn.Wqkv.",
		"attn_output.", "attn.Wo.", "ffn_norm.", "mlp_norm.", "ffn_up.", "mlp.Wi.", "ffn_down.", "mlp.Wo.",
		"cls.output.", "classifier.", "cls.norm.", "head.norm.", "cls.", "head.dense."}
	modernMembers = with(llamaMembers, members{"attention.layer_norm_epsilon": "norm_eps",
		"attention.sliding_window": "local_attention", "attention.sliding_window_pattern": "global_attn_every_n_layers",
		"rope.freq_base": "global_rope_theta", "rope.freq_base_swa": "local_rope_theta"})
)

// encoderLayouts are encoders, with files of ../shared of which an independent engine computed vectors.
func encoderLayouts() []layoutCase {
	types := object{"hidden_act": "gelu", "type_vocab_size": 2}
	padded := object{"hidden_act": "gelu", "type_vocab_size": 1, "pad_token_id": 1}
	modern := object{"hidden_activation": "gelu", "classifier_pooling": "mean", "classifier_activation": "gelu",
		"attention_bias": false, "norm_bias": false}
	untold := []string{"rope.scaling.type"} // that there is none
	return []layoutCase{
		{class: "BertModel", shared: "encoders/bert", names: bertTensors(""), config: types},
		{class: "BertForMaskedLM", shared: "encoders/bert", names: bertTensors("bert."), config: types},
		{class: "DistilBertModel", shared: "encoders/bert", file: withoutTypes, names: distilTensors,
			members: distilMembers, config: object{"activation": "gelu", "sinusoidal_pos_embds": false},
			apart: []string{"tokenizer.ggml.token_type_count"}},
		{class: "XLMRobertaModel", shared: "encoders/bert-xlmr", names: bertTensors(""), lay: layPositions,
			config: with(padded, object{"max_position_embeddings": 50})},
		{class: "XLMRobertaForSequenceClassification", shared: "encoders/bert-rank", lay: layPositions,
			config: with(padded, object{"max_position_embeddings": 66}),
			names: append([]string{"cls.output.", "classifier.out_proj.", "cls.", "classifier.dense."},
				bertTensors("roberta.")...)},
		{class: "Gemma3TextModel", shared: "encoders/gemma-embedding", lessOne: true, lay: layDense,
			names: append([]string{"token_embd.", "embed_tokens.", "output_norm.", "norm.", "blk.", "layers."},
				sandwichNames...),
			config: object{"use_bidirectional_attention": true, "query_pre_attn_scalar": 24,
				"hidden_activation": "gelu_pytorch_tanh", "_sliding_window_pattern": 6}},
		{class: "NomicBertModel", shared: "encoders/nomic-bert", names: nomicTensors, members: nomicMembers,
			config: object{"activation_function": "swiglu", "n_positions": 8192, "causal": false, "prenorm": false,
				"rotary_emb_fraction": 1.0, "type_vocab_size": 2}},
		{class: "ModernBertModel", shared: "encoders/modern-bert", names: modernTensors, members: modernMembers,
			config: modern, apart: untold},
		{class: "ModernBertForSequenceClassification", shared: "encoders/modern-bert-rank", names: modernTensors,
			members: modernMembers, config: modern, apart: untold},
	}
}

// withoutTypes is BERT's file without types of tokens.
func withoutTypes(t *testing.T, f *gguf.File) *gguf.File {
	return rewritten(t, f, gguf.TensorSource{Name: "token_types.weight"})
}

// layPositions puts two rows in front of the embeddings of positions.
func layPositions(l *laid, x gguf.Tensor) bool {
	if x.Name != "position_embd.weight" {
		return false
	}
	cols, rows, _ := dimsOf(x)
	values := slices.Concat(slices.Repeat([]float32{1e9}, 2*cols), l.of(x.Name))
	l.put(l.name(x.Name), []int{rows + 2, cols}, func(i int) float32 { return values[i] })
	return true
}

// layDense writes the matrix of a module behind pooling, which has a folder of its own.
func layDense(l *laid, x gguf.Tensor) bool {
	number, is := strings.CutPrefix(x.Name, "dense_")
	if !is {
		return false
	}
	cols, rows, _ := dimsOf(x)
	values := l.of(x.Name)
	s := &source{t: l.t, dir: l.dir + "/" + strings.TrimSuffix(number, ".weight") + "_Dense",
		tensors: map[string][]int{"linear.weight": {rows, cols}},
		values:  map[string]func(int) float32{"linear.weight": func(i int) float32 { return values[i] }}}
	if err := os.Mkdir(s.dir, 0o777); err != nil {
		l.t.Fatal(err)
	}
	s.weights()
	s.file("config.json", object{"in_features": cols, "out_features": rows, "bias": false,
		"activation_function": "torch.nn.modules.linear.Identity"})
	return true
}

func architecture(f *gguf.File) string {
	name, _ := f.String("general.architecture")
	return name
}

// encoderFiles writes the tokenizer of a file, and what is done to its vectors.
func (s *source) encoderFiles(f *gguf.File) {
	s.t.Helper()
	tokens, err := f.Strings("tokenizer.ggml.tokens")
	if err != nil {
		s.t.Fatal(err)
	}
	s.publishedTokenizer(f, tokens)
	pooling, _ := f.Uint32(architecture(f) + ".pooling_type")
	if pooling == rankPool {
		return
	}
	list := modules("1_Pooling", "Normalize")
	for _, folder := range []string{"2_Dense", "3_Dense"} {
		if _, err := os.Stat(s.dir + "/" + folder); err == nil {
			list = append(list, object{"path": folder, "type": "sentence_transformers.models.Dense"})
		}
	}
	s.file("modules.json", list)
	if err := os.Mkdir(s.dir+"/1_Pooling", 0o777); err != nil {
		s.t.Fatal(err)
	}
	s.file("1_Pooling/config.json", object{"pooling_mode": []string{"", "mean", "cls", "lasttoken"}[pooling]})
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

// TestActivationOfModernBERT: SiLU, as Granite's embedding model of 97M has, is a key; other activations are refused.
func TestActivationOfModernBERT(t *testing.T) {
	s, _, _ := layoutOf(t, "ModernBertModel").folder(t)
	s.edit("config.json", func(m map[string]any) { m["hidden_activation"] = "silu" })
	got, _ := converted(t, s.dir, Options{Type: "f32"})
	if act, _ := got.Value("modern-bert.hidden_activation"); act != "silu" {
		t.Errorf("hidden_activation %v", act)
	}
	sameVectors(t, got, got)
	s.edit("config.json", func(m map[string]any) { m["hidden_activation"] = "relu" })
	s.refused("relu", []string{"hidden_activation"})
}

// sameVectors compares the tokenizers of encoders, and vectors, bit for bit.
func sameVectors(t *testing.T, got, want *gguf.File) {
	t.Helper()
	a, err := engine.ReadTokenizer(got)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := engine.ReadTokenizer(want); err != nil || !a.Equal(b) {
		t.Error("the tokenizers differ:", err)
	}
	vector := func(f *gguf.File) []float32 {
		rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer rt.Close()
		m, err := engine.New(context.Background(), rt, f.Reader(), f.Size(), engine.Options{Name: "made"})
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
	if !slices.Equal(vector(got), vector(want)) {
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
		s, _, _ := layoutOf(t, "BertModel").folder(t)
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
	const bert, xlmr, xlmrRank, gemma, nomic, modern, modernRank = "BertModel", "XLMRobertaModel",
		"XLMRobertaForSequenceClassification", "Gemma3TextModel", "NomicBertModel", "ModernBertModel",
		"ModernBertForSequenceClassification"
	encoder := func(class string) *source {
		s, _, _ := layoutOf(t, class).folder(t)
		return s
	}
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
		of     string
		change func(s *source)
		want   string
		note   string
	}{
		"as it is":      {bert, func(*source) {}, "", ""},
		"activation":    {bert, set("config.json", "hidden_act", "relu"), "hidden_act", ""},
		"positions":     {bert, set("config.json", "position_embedding_type", "relative_key"), "position_embedding_type", ""},
		"decoder":       {bert, set("config.json", "is_decoder", true), "is_decoder", ""},
		"unknown key":   {bert, set("config.json", "num_experts", 4), "num_experts", ""},
		"none pruned":   {bert, set("config.json", "pruned_heads", map[string]any{}), "", ""},
		"pruned":        {bert, set("config.json", "pruned_heads", map[string]any{"0": []int{1}}), "pruned_heads", ""},
		"heads":         {bert, set("config.json", "num_attention_heads", 5), "num_attention_heads", ""},
		"cleaning":      {bert, inside("tokenizer.json", "normalizer", "clean_text", false), "clean_text", ""},
		"normalizer":    {bert, set("tokenizer.json", "normalizer", map[string]any{"type": "NFC"}), "BertNormalizer", ""},
		"pieces":        {bert, inside("tokenizer.json", "model", "continuing_subword_prefix", ""), "continuing_subword", ""},
		"word length":   {bert, inside("tokenizer.json", "model", "max_input_chars_per_word", 50), "max_input_chars", ""},
		"unknown token": {bert, inside("tokenizer.json", "model", "unk_token", "[NO]"), "[NO]", ""},
		"no marks":      {bert, set("tokenizer.json", "post_processor", nil), "post_processor", ""},
		"words":         {bert, set("tokenizer_config.json", "do_basic_tokenize", false), "do_basic_tokenize", ""},
		"longest": {bert, func(s *source) { s.file("sentence_bert_config.json", `{"max_seq_length": 32}`) }, "",
			"32 tokens"},
		"lower, old name": {xlmr, func(s *source) { s.file("sentence_xlm-roberta_config.json", `{"do_lower_case": true}`) },
			"sentence_xlm-roberta_config.json: do_lower_case", ""},
		"space in front": {modern, set("tokenizer_config.json", "add_prefix_space", true), "add_prefix_space", ""},
		"two rotations": {modern, func(s *source) {
			s.edit("config.json", func(m map[string]any) {
				m["global_rope_theta"], m["rope_parameters"] = 5e5, map[string]any{"full_attention": map[string]any{
					"rope_type": "default", "rope_theta": 4e5}}
			})
		}, "global_rope_theta", ""},
		"pooled scores": {modernRank, func(s *source) {
			s.file("modules.json", modules("1_Pooling", ""))
			if err := os.Mkdir(s.dir+"/1_Pooling", 0o777); err != nil {
				s.t.Fatal(err)
			}
			s.file("1_Pooling/config.json", map[string]any{"pooling_mode": "cls"})
		}, "the class makes scores", ""},
		"lower of t5": {xlmr, func(s *source) { s.file("sentence_bert_config.json", `{"do_lower_case": true}`) },
			"do_lower_case", ""},
		"no padding":   {xlmr, set("config.json", "pad_token_id", nil), "pad_token_id", ""},
		"no positions": {xlmr, set("config.json", "max_position_embeddings", 2), "max_position_embeddings", ""},
		"gate":         {nomic, set("config.json", "activation_function", "gelu"), "activation_function", ""},
		"scaled":       {nomic, set("config.json", "rotary_scaling_factor", 2.0), "rotary_scaling_factor", ""},
		"biases":       {modern, set("config.json", "attention_bias", true), "attention_bias", ""},
		"pooled":       {modernRank, set("config.json", "classifier_pooling", "cls"), "classifier_pooling", ""},
		"layers":       {modern, set("config.json", "layer_types", []string{"full_attention"}), "layer_types", ""},
		"no columns": {bert, func(s *source) {
			classifier(3)(s)
			s.tensors["classifier.weight"] = []int{1 << 20, 0} // of which no label is made
			s.weights()
			set("config.json", "id2label", map[string]any{"0": "no"})(s)
		}, "tensor classifier.weight: shape [1048576 0], [1048576 64] expected", ""},
		"one output":      {bert, classifier(1), "type_vocab_size", ""},
		"three outputs":   {bert, classifier(3), "", "type 1 in training"},
		"labels":          {xlmrRank, set("config.json", "id2label", map[string]any{"0": "no", "1": "yes"}), "id2label", ""},
		"attends back":    {gemma, set("config.json", "use_bidirectional_attention", false), "use_bidirectional", ""},
		"dense bias":      {gemma, set("2_Dense/config.json", "bias", true), "bias", ""},
		"dense function":  {gemma, set("3_Dense/config.json", "activation_function", "Tanh"), "activation_function", ""},
		"dense size":      {gemma, set("3_Dense/config.json", "in_features", 64), "in_features", ""},
		"a class of GGUF": {bert, set("config.json", "architectures", []string{"MPNetModel"}), "MPNetModel", ""},
	} {
		s := encoder(c.of)
		c.change(s)
		if c.want != "" {
			s.refused(name, []string{c.want})
			continue
		}
		s.noted(name, c.note)
	}
	f, _ := converted(t, func() string {
		s := encoder(bert)
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
		s, _, _ := layoutOf(t, "BertModel").folder(t)
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
