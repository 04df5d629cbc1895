package convert

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
)

// splitBy makes words by regular expressions, one after the other.
func splitBy(rules ...string) map[string]any {
	var steps []any
	for _, rule := range rules {
		if rule == "digits" {
			steps = append(steps, map[string]any{"type": "Digits", "individual_digits": true})
			continue
		}
		steps = append(steps, map[string]any{"type": "Split", "pattern": map[string]any{"Regex": rule},
			"behavior": "Isolated", "invert": false})
	}
	return map[string]any{"type": "Sequence", "pretokenizers": append(steps, map[string]any{"type": "ByteLevel",
		"add_prefix_space": false, "trim_offsets": true, "use_regex": false})}
}

// deepSeekCased are the letters with case that DeepSeek LLM's rule lists.
const deepSeekCased = "A-Za-z\u00b5\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u01ba\u01bc-\u01bf" +
	"\u01c4-\u0293\u0295-\u02af\u0370-\u0373" +
	"\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1\u03a3-\u03f5\u03f7-\u0481" +
	"\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b" +
	"\u1d6b-\u1d77\u1d79-\u1d9a\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b" +
	"\u1f5d\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3\u1fd6-\u1fdb" +
	"\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115\u2119-\u211d\u2124\u2126\u2128" +
	"\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4" +
	"\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf" +
	"\ufb00-\ufb06\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3" +
	"\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df" +
	"\U0001e900-\U0001e943"

// TestRulesOfSeveral: rules of several, one after the other, and of Ling 2 have the names under which the engine splits
// so. The line breaks of DeepSeek's are characters.
func TestRulesOfSeveral(t *testing.T) {
	const asian = "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"
	for pre, rules := range map[string][]string{
		"deepseek-v3": {`\p{N}{1,3}`, "[一-龥\u3040-\u309f\u30a0-\u30ff]+",
			"[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+|" +
				" ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"},
		"bailingmoe2": {`'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|` +
			`\s*[\r\n]|\s+(?!\S)|\s+`},
		"deepseek-coder": {"[\r\n]", `\s?\p{L}+`, `\s?\p{P}+`, asian, "digits"},
		"deepseek-llm": {"[\r\n]", `\s?[` + deepSeekCased + "]+",
			"\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+", `\s+$`, asian, "digits"},
		"tiny_aya": {`\d{1,3}(?=(?:\d{3})*\b)`, gpt4oRule},
		"minicpm5": {`\p{N}{1,3}`, `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}+|` +
			` ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`},
	} {
		s, config := llamaSource(t, "LlamaForCausalLM")
		s.file("config.json", config)
		s.weights()
		s.edit("tokenizer.json", func(m map[string]any) {
			m["pre_tokenizer"] = splitBy(rules...)
			m["model"].(map[string]any)["ignore_merges"] = pre == "minicpm5"
		})
		f, file := converted(t, s.dir, Options{Type: "f32"})
		if got, _ := f.String("tokenizer.ggml.pre"); got != pre {
			t.Errorf("%s, want %s", got, pre)
		}
		switch runs(t, file); pre {
		case "minicpm5": // whose name says that words that are tokens are not merged
			s.edit("tokenizer.json", func(m map[string]any) { m["model"].(map[string]any)["ignore_merges"] = false })
			s.refused(pre, []string{"ignore_merges false"})
		case "deepseek-llm": // GGUF's does not cut digits, which the merges must not join
			s.edit("tokenizer.json", func(m map[string]any) {
				m["model"].(map[string]any)["vocab"].(map[string]any)["10"] = 256
				delete(m["model"].(map[string]any)["vocab"].(map[string]any), "\u0120a")
				m["model"].(map[string]any)["merges"] = []any{[]string{"1", "0"}}
			})
			s.refused(pre, []string{"token 10"})
		}
	}
}

// TestWholeWords: vocabularies whose words are not merged, those of Llama 3 and of Mistral Nemo and Small, are written
// under names that say so, and with a beginning of a text where tokenizer.json has one.
func TestWholeWords(t *testing.T) {
	front := map[string]any{"type": "TemplateProcessing", "single": []any{
		map[string]any{"SpecialToken": map[string]any{"id": "<turn>"}},
		map[string]any{"Sequence": map[string]any{"id": "A"}}}}
	for _, c := range []struct {
		rule   string
		whole  bool
		post   any
		pre    string
		addBOS any
	}{
		{llama3Rule, true, front, "llama-bpe", true},
		{llama3Rule, true, nil, "llama-bpe", false},
		{llama3Rule, true, map[string]any{"type": "ByteLevel"}, "llama-bpe", false},
		{llama3Rule, false, nil, "dbrx", nil},
		{tekkenRule, true, front, "tekken", true},
		{tekkenRule, false, nil, "tekken", false},
		{qwen2Rule, false, nil, "qwen2", nil},
		{gpt4oRule, true, nil, "granite-embed-multi-97m", nil},
		{gpt4oRule, false, nil, "gpt-4o", nil},
	} {
		s, config := llamaSource(t, "LlamaForCausalLM")
		s.file("config.json", config)
		s.weights()
		s.edit("tokenizer.json", func(m map[string]any) {
			m["pre_tokenizer"], m["post_processor"] = splitBy(c.rule), c.post
			m["model"].(map[string]any)["ignore_merges"] = c.whole
		})
		f, _ := converted(t, s.dir, Options{Type: "f32"})
		pre, _ := f.Value("tokenizer.ggml.pre")
		if add, _ := f.Value("tokenizer.ggml.add_bos_token"); pre != c.pre || add != c.addBOS {
			t.Errorf("%s, %v: pre-tokenizer %v, add_bos_token %v", c.pre, c.post, pre, add)
		}
		tok, err := engine.ReadTokenizer(f)
		if err != nil {
			t.Fatal(err)
		}
		want := []int32{tokenOf(t, tok, "a"), tokenOf(t, tok, "Ġa")}
		if c.addBOS == true {
			want = append([]int32{tokenOf(t, tok, "<turn>")}, want...)
		}
		if got := tok.Encode("a a", bpe.EncodeOptions{AddSpecial: true}); !slices.Equal(got, want) {
			t.Errorf("%s: ids %v, want %v", c.pre, got, want)
		}
	}
}

func tokenOf(t *testing.T, tok *bpe.Tokenizer, text string) int32 {
	t.Helper()
	id, ok := tok.ID(text)
	if !ok {
		t.Fatalf("no token %q", text)
	}
	return id
}

// TestTokenizerRefused: parts of tokenizer.json that a GGUF file has no words for are refused, or told.
func TestTokenizerRefused(t *testing.T) {
	nfc, lower := map[string]any{"type": "NFC"}, map[string]any{"type": "Lowercase"}
	for name, c := range map[string]struct {
		change func(m map[string]any)
		want   string // of an error
		note   string
	}{
		"composed": {func(m map[string]any) { m["normalizer"] = nfc }, "", "NFC"},
		"composed in a row": {func(m map[string]any) {
			m["normalizer"] = map[string]any{"type": "Sequence", "normalizers": []any{nfc}}
		}, "", "NFC"},
		"composed and more": {func(m map[string]any) {
			m["normalizer"] = map[string]any{"type": "Sequence", "normalizers": []any{nfc, lower}}
		}, "Lowercase", ""},
		"no object": {func(m map[string]any) { m["normalizer"] = "NFC" }, "normalizer", ""},
		"roberta": {func(m map[string]any) {
			m["post_processor"] = map[string]any{"type": "RobertaProcessing", "sep": []any{"</s>", 2}}
		}, "RobertaProcessing without", ""},
		"whole words of Qwen": {func(m map[string]any) {
			m["pre_tokenizer"] = splitBy(qwen2Rule)
			m["model"].(map[string]any)["ignore_merges"] = true
		}, "ignore_merges", ""},
	} {
		s, config := llamaSource(t, "LlamaForCausalLM")
		s.file("config.json", config)
		s.weights()
		s.edit("tokenizer.json", c.change)
		if c.want != "" {
			s.refused(name, []string{"tokenizer.json", c.want})
			continue
		}
		s.noted(name, c.note)
	}
	// Files of words and merges do not say how a text is cut into words, which differs but for GPT-2 and its like.
	s, config := llamaSource(t, "Qwen2ForCausalLM")
	s.file("config.json", config)
	s.weights()
	if err := os.Remove(filepath.Join(s.dir, "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	s.bytes260()
	s.refused("vocab.json alone", []string{"no tokenizer.json", "qwen2"})
}

// TestWhatStandsBeside: tokens that take the white space beside them are told of, but for Phi-3's, which the model's
// name tells.
func TestWhatStandsBeside(t *testing.T) {
	for name, told := range map[string]bool{"model": true, "Phi-3-mini": false} {
		s, config := llamaSource(t, "LlamaForCausalLM")
		to := filepath.Join(t.TempDir(), name)
		if err := os.Rename(s.dir, to); err != nil {
			t.Fatal(err)
		}
		s.dir = to
		s.file("config.json", config)
		s.weights()
		s.edit("tokenizer.json", func(m map[string]any) { m["added_tokens"].([]any)[1].(map[string]any)["rstrip"] = true })
		m, err := Open(s.dir)
		if err != nil {
			t.Fatal(err)
		}
		if m.Close(); strings.Contains(strings.Join(m.Notes, "\n"), "<turn> for one, stays") != told {
			t.Errorf("%s: notes %q", name, m.Notes)
		}
	}
}

// TestPublishedRules: how published tokenizer.json files of these models cut a text.
func TestPublishedRules(t *testing.T) {
	split := func(rule string) string {
		quoted, _ := json.Marshal(rule)
		return `{"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":` + string(quoted) +
			`},"behavior":"Isolated","invert":false},{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,` +
			`"use_regex":false}]}`
	}
	const bytes = `{"type":"ByteLevel","add_prefix_space":false,"trim_offsets":true,"use_regex":true}`
	for _, c := range []struct{ rule, want string }{
		{`{"type":"Sequence","pretokenizers":[{"type":"Punctuation","behavior":"Contiguous"},` + bytes +
			`,{"type":"Digits","individual_digits":false},{"type":"Split","pattern":{"Regex":"[0-9][0-9][0-9]"},` +
			`"behavior":"Isolated","invert":false}]}`, "falcon"},
		{`{"type":"Sequence","pretokenizers":[{"type":"Digits","individual_digits":true},` + bytes + `]}`, "smollm"},
		{bytes, "gpt-2"},
		{split(`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+` +
			`|\s+(?!\S)|\s+`), "seed-coder"},
		{split(`[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
			`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?` +
			`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`), "gpt-4o"},
		{`{"type":"Sequence","pretokenizers":[{"type":"Punctuation","behavior":"Isolated"},` + bytes + `]}`, ""},
	} {
		s := &source{t: t, dir: t.TempDir()}
		s.file("tokenizer.json", `{"pre_tokenizer":`+c.rule+`,"model":{"type":"BPE","vocab":{"a":0},"merges":[]}}`)
		w, err := readTokenizerJSON(s.dir+"/tokenizer.json", &builder{vocab: 9})
		if c.want == "" {
			if err == nil || !strings.Contains(err.Error(), "Punctuation Isolated") {
				t.Errorf("%s: %v", c.rule, err)
			}
			continue
		}
		if err != nil || w.pre != c.want {
			t.Errorf("%s: %v, %v", c.want, w, err)
		}
	}
}
