package convert

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// bytes260 writes a byte-level tokenizer of 260 tokens, with runs of spaces.
func (s *source) bytes260() {
	vocab := map[string]int{}
	for b := range 256 {
		vocab[string(byteCharacter(b))] = b
	}
	vocab["Ġa"], vocab["</s>"] = 256, 257
	s.file("vocab.json", vocab)
	s.file("merges.txt", "#version: 0.2\nĠ a\n")
	s.file("added_tokens.json", map[string]int{"   ": 258, "  ": 259})
	s.file("tokenizer_config.json", map[string]any{"bos_token": "</s>", "eos_token": "</s>"})
}

// small is a model of one block with random-looking weights, in Hugging Face's layout: width 8, 4 heads.
func small(t testing.TB, class string) (*source, map[string]any) {
	s := &source{t: t, dir: t.TempDir(), values: map[string]func(int) float32{}, tensors: map[string][]int{}}
	s.bytes260()
	var config map[string]any
	switch class {
	case "OPTForCausalLM":
		config = map[string]any{"hidden_size": 8, "word_embed_proj_dim": 6, "ffn_dim": 12, "num_hidden_layers": 1,
			"num_attention_heads": 4, "max_position_embeddings": 16, "activation_function": "relu",
			"do_layer_norm_before": true, "prefix": "</s>", "init_std": 0.02, "layerdrop": 0.0}
		const p, b = "model.decoder.", "model.decoder.layers.0."
		maps.Copy(s.tensors, map[string][]int{p + "embed_tokens.weight": {260, 6}, p + "embed_positions.weight": {18, 8},
			p + "project_in.weight": {8, 6}, p + "project_out.weight": {6, 8}, "lm_head.weight": {260, 6}})
		for _, m := range []string{"q_proj", "k_proj", "v_proj", "out_proj"} {
			s.linear(b+"self_attn."+m, 8, 8)
		}
		s.linear(b+"fc1", 12, 8)
		s.linear(b+"fc2", 8, 12)
		for _, n := range []string{b + "self_attn_layer_norm", b + "final_layer_norm", p + "final_layer_norm"} {
			s.norm(n)
		}
	case "GPTJForCausalLM", "CodeGenForCausalLM":
		config = map[string]any{"n_embd": 8, "n_inner": nil, "n_layer": 1, "n_head": 4, "n_positions": 16, "n_ctx": 16,
			"rotary_dim": nil, "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": false,
			"tokenizer_class": "GPT2Tokenizer"}
		const b = "transformer.h.0."
		s.tensors["transformer.wte.weight"] = []int{260, 8}
		if class == "GPTJForCausalLM" {
			for _, m := range []string{"q", "k", "v"} {
				s.tensors[b+"attn."+m+"_proj.weight"] = []int{8, 8}
			}
			s.tensors[b+"attn.bias"], s.tensors[b+"attn.masked_bias"] = []int{1, 1, 16, 16}, []int{1}
		} else {
			s.tensors[b+"attn.qkv_proj.weight"] = []int{24, 8}
			s.tensors[b+"attn.causal_mask"] = []int{1, 1, 16, 16}
		}
		s.tensors[b+"attn.out_proj.weight"] = []int{8, 8}
		s.linear(b+"mlp.fc_in", 32, 8)
		s.linear(b+"mlp.fc_out", 8, 32)
		s.linear("lm_head", 260, 8)
		s.norm(b + "ln_1")
		s.norm("transformer.ln_f")
	case "T5ForConditionalGeneration":
		config = map[string]any{"d_model": 8, "d_kv": 3, "d_ff": 10, "num_layers": 2, "num_decoder_layers": 1,
			"num_heads": 2, "relative_attention_num_buckets": 4, "layer_norm_epsilon": 1e-6,
			"feed_forward_proj": "gated-gelu", "tie_word_embeddings": false, "is_encoder_decoder": true,
			"decoder_start_token_id": 0, "dropout_rate": 0.1, "initializer_factor": 1.0}
		s.tensors["shared.weight"], s.tensors["encoder.embed_tokens.weight"], s.tensors["lm_head.weight"] = []int{12, 8},
			[]int{12, 8}, []int{12, 8}
		stack := func(stack string, layers int, kinds ...string) {
			for i := range layers {
				for k, kind := range kinds {
					b := fmt.Sprintf("%s.block.%d.layer.%d.", stack, i, k)
					s.tensors[b+"layer_norm.weight"] = []int{8}
					if kind == "DenseReluDense" {
						s.tensors[b+kind+".wi_0.weight"], s.tensors[b+kind+".wi_1.weight"], s.tensors[b+kind+".wo.weight"] = []int{
							10, 8}, []int{10, 8}, []int{8, 10}
						continue
					}
					for _, m := range []string{"q", "k", "v"} {
						s.tensors[b+kind+"."+m+".weight"] = []int{6, 8}
					}
					s.tensors[b+kind+".o.weight"] = []int{8, 6}
					if i == 0 {
						s.tensors[b+kind+".relative_attention_bias.weight"] = []int{4, 2}
					}
				}
			}
			s.tensors[stack+".final_layer_norm.weight"] = []int{8}
		}
		stack("encoder", 2, "SelfAttention", "DenseReluDense")
		stack("decoder", 1, "SelfAttention", "EncDecAttention", "DenseReluDense")
		for _, name := range []string{"vocab.json", "merges.txt", "added_tokens.json"} {
			if err := os.Remove(s.dir + "/" + name); err != nil {
				t.Fatal(err)
			}
		}
		s.file("tokenizer_config.json", map[string]any{
			"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>", "extra_ids": 2})
		s.file("spiece.model", unigramFile(nil))
		config["vocab_size"] = 12
	}
	config["architectures"] = []string{class}
	if config["vocab_size"] == nil {
		config["vocab_size"] = 260
	}
	for i, name := range slices.Sorted(maps.Keys(s.tensors)) {
		// exact in every type but the quantized ones
		s.values[name] = func(k int) float32 { return float32((k*37+i*11)%64-32) / 64 }
	}
	return s, config
}

func (s *source) linear(name string, rows, cols int) {
	s.tensors[name+".weight"], s.tensors[name+".bias"] = []int{rows, cols}, []int{rows}
}

func (s *source) norm(name string) {
	s.tensors[name+".weight"], s.tensors[name+".bias"] = []int{8}, []int{8}
}

// protobuf writes a field of bytes.
func protobuf(number int, text []byte) string {
	size := []byte{byte(len(text))}
	if len(text) > 127 {
		size = []byte{byte(len(text)&127) | 128, byte(len(text) >> 7)}
	}
	return string(byte(number<<3|2)) + string(size) + string(text)
}

// unigramPieces are a vocabulary, with types.
var unigramPieces = []struct {
	text string
	typ  byte
}{{"<pad>", 3}, {"</s>", 3}, {"<unk>", 2}, {"▁", 1}, {"a", 1}, {"▁a", 1}, {"b", 1}}

// unigramFile is a SentencePiece file of unigramPieces; settings are more fields of its normalizer_spec.
func unigramFile(settings []byte) string {
	var file strings.Builder
	for i, p := range unigramPieces {
		score := []byte{2<<3 | 5, 0, 0, 0, 0}
		if p.typ == 1 {
			score = []byte{2<<3 | 5, 0, 0, byte(i) << 4, 0xc0} // -2 …
		}
		file.WriteString(protobuf(1, []byte(protobuf(1, []byte(p.text))+string(score)+string([]byte{3 << 3, p.typ}))))
	}
	file.WriteString(protobuf(2, []byte{3 << 3, 1}))
	file.WriteString(protobuf(3, []byte(protobuf(1, []byte("nmt_nfkc"))+protobuf(2, tinyMap())+string(settings))))
	return file.String()
}

// tinyMap is a map of characters with one rule: A becomes a. Its trie has 256 units: state 128 with an edge to 1.
func tinyMap() []byte {
	units := make([]uint32, 256)
	edge := uint32(128 ^ 'A')
	units[0], units[edge], units[1] = 128<<10, 'A'|1<<8|(edge^1)<<10, 1<<31
	b := []byte{0, 4, 0, 0}
	for _, u := range units {
		b = append(b, byte(u), byte(u>>8), byte(u>>16), byte(u>>24))
	}
	return append(b, "a\x00"...)
}
