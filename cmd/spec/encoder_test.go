package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/synth"
	"github.com/specgo/spec/internal/testkit"
)

// t5File writes a small encoder-decoder model of random weights with a vocabulary of letters, and returns its path.
// Pairs of the same architecture and other sizes have the same vocabulary.
func t5File(t *testing.T, change func(s *synth.Shape, kvs *[]gguf.KV)) string {
	t.Helper()
	tokens, types, scores := []string{"<pad>", "</s>", "<unk>", "▁"}, []int32{3, 3, 2, 1}, []float32{0, 0, 0, -2}
	for c := 'a'; c <= 'z'; c++ {
		tokens, types, scores = append(tokens, string(c), "▁"+string(c)), append(types, 1, 1), append(scores, -3, -4)
	}
	s := synth.Shape{Name: "t5 of letters", Architecture: "t5", Context: 64, Vocab: len(tokens), HiddenSize: 64,
		Layers: 2, Heads: 4, KVHeads: 4, FeedForward: 96, HeadDim: 8}
	kvs := []gguf.KV{
		{Key: "tokenizer.ggml.model", Value: "t5"}, {Key: "tokenizer.ggml.tokens", Value: tokens},
		{Key: "tokenizer.ggml.token_type", Value: types},
		{Key: "tokenizer.ggml.scores", Value: scores}, {Key: "tokenizer.ggml.add_space_prefix", Value: true},
		{Key: "tokenizer.ggml.remove_extra_whitespaces", Value: true},
	}
	if change != nil {
		change(&s, &kvs)
	}
	r, err := synth.Random(s, "f32")
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Open(r, r.Size(), "random")
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range f.KVs {
		if !slices.ContainsFunc(kvs, func(k gguf.KV) bool { return k.Key == kv.Key }) {
			kvs = append(kvs, kv)
		}
	}
	kvs = slices.DeleteFunc(kvs, func(kv gguf.KV) bool { return kv.Value == nil })
	var tensors []gguf.TensorSource
	for _, x := range f.Tensors {
		tensors = append(tensors, sameTensor(f, x))
	}
	var b bytes.Buffer
	if err := gguf.Write(&b, kvs, tensors); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "t5.gguf")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLongEncoderDecoder: every drafter with every prompt at both temperatures.
func TestLongEncoderDecoder(t *testing.T) {
	testkit.Long(t)
	TestEncoderDecoder(t)
}

// TestEncoderDecoder: a prompt is the encoder's input, the text is the decoder's, the same with every drafter, and a
// receipt confirms it.
func TestEncoderDecoder(t *testing.T) {
	model := t5File(t, nil)
	draft := t5File(t, func(s *synth.Shape, _ *[]gguf.KV) { s.Layers, s.Name = 1, "draft" })
	generate := func(prompt string, args ...string) (text string, ids []int32, stats map[string]any) {
		t.Helper()
		var r struct {
			Text  string         `json:"text"`
			IDs   []int32        `json:"token_ids"`
			Stats map[string]any `json:"stats"`
		}
		out := done(t, "", append([]string{"generate", "-m", model, "-p", prompt, "-n", "20", "--ignore-eos", "--json",
			"-s", "4"}, args...)...)
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		return r.Text, r.IDs, r.Stats
	}
	_, other, _ := generate("something else", "--drafter", "none")
	long := strings.Repeat("a long input of many words ", 10) // the context is the decoder's
	for i, prompt := range []string{"a word", "", long} {
		for j, temp := range []string{"0", "0.9"} {
			_, want, stats := generate(prompt, "--drafter", "none", "--temp", temp)
			if stats["n_prompt"] != []float64{6, 1, 211}[i] || len(want) != 20 {
				t.Errorf("%.20q: %d tokens after %v", prompt, len(want), stats["n_prompt"])
			}
			if slices.Equal(want, other) {
				t.Errorf("%q: the input changes nothing", prompt)
			}
			for k, how := range [][]string{nil, {"--drafter", "early-exit", "--exit-layer", "1"}, {"-md", draft},
				{"-md", draft, "--drafter", "model", "--schedule", "constant"},
				{"-md", draft, "--drafter", "splice", "--verify", "stairs"}, {"-md", draft, "-md", model},
				{"--no-kv-cache", "--drafter", "suffix"}, {"--drafter", "self"}} {
				if (i+j+k)%2 > 0 && !testkit.IsLong(t) { // each way meets every prompt
					continue
				}
				if _, got, _ := generate(prompt, append([]string{"--temp", temp}, how...)...); !slices.Equal(got, want) {
					t.Errorf("%q at %s, %v: %d, expected %d", prompt, temp, how, got, want)
				}
			}
		}
	}
	receipt := filepath.Join(t.TempDir(), "receipt.json")
	generate("a word", "-md", draft, "--receipt", receipt)
	if out := done(t, "", "verify", "-m", model, receipt); !strings.Contains(out, "20 tokens") {
		t.Error(out)
	}
	text, err := os.ReadFile(receipt)
	if err != nil || !bytes.Contains(text, []byte(`"encoder_token_ids"`)) {
		t.Errorf("%s, %v", text, err)
	}
	if out := done(t, "", "inspect", model); !strings.Contains(out, "2 layers of an encoder and 2 of a decoder") {
		t.Error(out)
	}
}

// TestEncoderDecoderElsewhere: compare and bench run them; what cannot says why.
func TestEncoderDecoderElsewhere(t *testing.T) {
	model := t5File(t, nil)
	for preset, word := range map[string]string{"stairs": "constant 10", "dynamic": "dynamic"} {
		out := done(t, "", "compare", "-m", model, "-md", model, "--preset", preset, "-r", "1", "--warmup", "0", "-n", "6")
		if !strings.Contains(out, "translation: ") || !strings.Contains(out, word) {
			t.Errorf("%s:\n%s", preset, out)
		}
	}
	out := done(t, "", "bench", "-m", model, "-p", "100", "-n", "4", "-d", "0", "--verify", "2", "--batch", "2",
		"--sample", "4", "-r", "1", "-o", "csv")
	for _, row := range []string{"encode,100", "decode,1", "verify,2", "batch,2"} {
		if !strings.Contains(out, row) {
			t.Errorf("no row %s:\n%s", row, out)
		}
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"chat", "-m", model}, "--chat-template says how"},
		{[]string{"perplexity", "-m", model, "-p", "a"}, "encoder-decoder"},
		{[]string{"plan", "-m", model, "-md", model}, "encoder-decoder"},
		{[]string{"selftest", "-m", model}, "encoder-decoder"},
		{[]string{"generate", "-md", model, "-p", "a"}, "-md"},
		{[]string{"generate", "-m", t5File(t, func(_ *synth.Shape, kvs *[]gguf.KV) {
			*kvs = append(*kvs, gguf.KV{Key: "t5.decoder_start_token_id", Value: nil})
		}), "-p", "a"}, "decoder_start_token_id"},
		{[]string{"generate", "-m", model, "-md", t5File(t, func(s *synth.Shape, kvs *[]gguf.KV) {
			(*kvs)[1].Value = append(slices.Clone((*kvs)[1].Value.([]string)[:55]), "ä")
		}), "--drafter", "reencode", "-p", "a"}, "encoder-decoder model of another vocabulary"},
	} {
		_, errs, code := spec(t, "", c.args...)
		if code != exitFailed || !strings.Contains(errs, c.says) {
			t.Errorf("%q: exit %d, %q, expected %q", c.args, code, errs, c.says)
		}
	}
}

// TestEncoderDecoderServed: what a batch of requests writes is what spec generate writes of each prompt alone, and a
// chat under a template gives the encoder what the template makes of the conversation.
func TestEncoderDecoderServed(t *testing.T) {
	model := t5File(t, nil)
	prompts := []string{"a word", "something else", "a word", strings.Repeat("a long input ", 20)}
	var lines, want []string
	for i, p := range prompts {
		lines = append(lines, fmt.Sprintf(`{"custom_id":"%d","method":"POST","url":"/v1/completions","body":{"prompt":%q,`+
			`"max_tokens":9,"temperature":0,"ignore_eos":true}}`, i, p))
		var r struct{ Text string }
		out := done(t, "", "generate", "-m", model, "-p", p, "-n", "9", "--ignore-eos", "--json", "--temp", "0")
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		want = append(want, r.Text)
	}
	input := filepath.Join(t.TempDir(), "in.jsonl")
	if err := os.WriteFile(input, []byte(strings.Join(lines, "\n")), 0o600); err != nil {
		t.Fatal(err)
	}
	done(t, "", "batch", "-m", model, "-i", input, "-o", input+".out")
	data, err := os.ReadFile(input + ".out")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for line := range strings.Lines(string(data)) {
		var x struct {
			CustomID string `json:"custom_id"`
			Response struct {
				Body struct{ Choices []struct{ Text string } }
			}
		}
		if err := json.Unmarshal([]byte(line), &x); err != nil || len(x.Response.Body.Choices) != 1 {
			t.Fatal(err, line)
		}
		got[x.CustomID] = x.Response.Body.Choices[0].Text
	}
	for i := range prompts {
		if id := strconv.Itoa(i); got[id] != want[i] || want[i] == "" {
			t.Errorf("%.20q: %q, expected %q", prompts[i], got[id], want[i])
		}
	}
	template := filepath.Join(t.TempDir(), "last.jinja")
	if err := os.WriteFile(template, []byte(`{{ messages[-1].content }}`), 0o600); err != nil {
		t.Fatal(err)
	}
	out := done(t, "a word\n", "chat", "-m", model, "--chat-template-file", template, "-n", "9", "--temp", "0",
		"--ignore-eos")
	if !strings.Contains(out, strings.TrimSpace(want[0])) {
		t.Errorf("%q, expected %q", out, want[0])
	}
}
