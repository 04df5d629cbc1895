package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// writeAssistant writes a random draft head of Gemma 4 for a gemma4 model's file, whose tokenizer it takes; without a
// tensor, and with other keys.
func writeAssistant(t *testing.T, from, to, without string, other map[string]gguf.Value) {
	t.Helper()
	f, err := gguf.OpenFile(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d, err := engine.Describe(f)
	if err != nil {
		t.Fatal(err)
	}
	const arch, width, heads, ff, blocks = "gemma4-assistant", 48, 4, 96, 2
	c, kv, window, dims := d.Config, []uint32{0, 0}, uint32(0), []int{0, 0} // a block with a window, and one without
	for _, shape := range d.Caches {
		i := 1
		if shape.Window > 0 {
			i, window = 0, uint32(shape.Window)
		}
		kv[i], dims[i] = uint32(shape.Heads), shape.HeadDim
	}
	keys := map[string]gguf.Value{
		"context_length": uint32(c.Context), "embedding_length": uint32(width), "embedding_length_out": uint32(c.HiddenSize),
		"block_count": uint32(blocks), "nextn_predict_layers": uint32(blocks),
		"feed_forward_length": uint32(ff), "attention.head_count": uint32(heads), "attention.head_count_kv": kv,
		"attention.layer_norm_rms_epsilon": float32(1e-6),
		"attention.key_length":             uint32(dims[1]), "attention.value_length": uint32(dims[1]),
		"attention.key_length_swa": uint32(dims[0]), "attention.value_length_swa": uint32(dims[0]),
		"attention.sliding_window": window, "attention.sliding_window_pattern": []bool{true, false},
		"attention.shared_kv_layers": uint32(blocks), "rope.dimension_count_swa": uint32(dims[0]),
	}
	for k, v := range other {
		keys[k] = v
	}
	kvs := []gguf.KV{{Key: "general.architecture", Value: arch}}
	for k, v := range keys {
		kvs = append(kvs, gguf.KV{Key: arch + "." + k, Value: v})
	}
	for _, k := range f.KVs {
		if strings.HasPrefix(k.Key, "tokenizer.") {
			kvs = append(kvs, k)
		}
	}
	var tensors []gguf.TensorSource
	add := func(name string, mean, spread float64, dims ...int) { // columns first
		tensors = append(tensors, randommodel.Tensor(3, name, mean, spread, dims...))
	}
	matrix := func(name string, rows, cols int) { add(name+".weight", 0, 1/math.Sqrt(float64(cols)), cols, rows) }
	add("token_embd.weight", 0, 0.7, width, c.Vocab)
	add("output_norm.weight", 1, 0.2, width)
	add("rope_freqs.weight", 2, 0.4, dims[1]/2)
	matrix("nextn.pre_projection", width, 2*c.HiddenSize)
	matrix("nextn.post_projection", c.HiddenSize, width)
	for i := range blocks {
		b := fmt.Sprintf("blk.%d.", i)
		for _, name := range []string{"attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"} {
			add(b+name+".weight", 1, 0.2, width)
		}
		add(b+"attn_q_norm.weight", 1, 0.2, dims[i])
		add(b+"layer_output_scale.weight", 1, 0.1, 1)
		matrix(b+"attn_q", heads*dims[i], width)
		matrix(b+"attn_output", width, heads*dims[i])
		matrix(b+"ffn_gate", ff, width)
		matrix(b+"ffn_up", ff, width)
		matrix(b+"ffn_down", width, ff)
	}
	tensors = slices.DeleteFunc(tensors, func(x gguf.TensorSource) bool { return x.Name == without })
	file, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(gguf.Write(file, kvs, tensors), file.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestAssistant: a draft head of Gemma 4, in a file of its own, is recognized by -md and writes plain decoding's
// text; commands that cannot draft with it, and files that do not fit, say so in one line.
func TestAssistant(t *testing.T) {
	models := testkit.Shared(t, "families/models")
	target := filepath.Join(models, "gemma4.gguf")
	dir := t.TempDir()
	head, narrow, lacking := filepath.Join(dir, "head.gguf"), filepath.Join(dir, "narrow.gguf"),
		filepath.Join(dir, "lacking.gguf")
	writeAssistant(t, target, head, "", nil)
	writeAssistant(t, target, narrow, "", map[string]gguf.Value{"embedding_length_out": uint32(32)})
	writeAssistant(t, target, lacking, "nextn.post_projection.weight", nil)
	for i, temperature := range []string{"0", "0.8"} {
		base := []string{"generate", "-m", target, "-p", "func main", "-n", "40", "--seed", "4", "--temp",
			temperature, "--ignore-eos"}
		plain := done(t, "", append(base, "--drafter", "none")...)
		for j, args := range [][]string{nil, {"--drafter", "mtp"}, {"--drafter", "model"}, {"--drafter", "splice"},
			{"--drafter", "tree"}, {"-md", head}, {"-c", "60", "-ctk", "q8_0", "-ctv", "q8_0"}} {
			if (i+j)%2 > 0 { // each with one way to sample
				continue
			}
			with := append(append(slices.Clone(base), "-md", head, "--schedule", "constant"), args...)
			want := plain
			if len(args) > 2 && args[0] == "-c" {
				want = done(t, "", append(append(slices.Clone(base), "--drafter", "none"), args...)...)
			}
			got, errs, code := spec(t, "", with...)
			if code != 0 || got != want || !strings.Contains(errs, "drafted") {
				t.Errorf("--temp %s %s: exit code %d, %q, plain %q, %s", temperature, args, code, got, want, errs)
			}
		}
	}
	for name, c := range map[string]struct {
		args []string
		says string
	}{
		"no cache": {[]string{"generate", "-p", "x", "-m", target, "-md", head, "--no-kv-cache"}, "cache"},
		"eagle": {[]string{"generate", "-p", "x", "-m", target, "-md", head, "--drafter", "eagle"},
			"needs a draft head of EAGLE-3"},
		"across": {[]string{"generate", "-p", "x", "-m", target, "-md", head, "--drafter",
			"reencode"}, "not a draft head"},
		"another model": {[]string{"generate", "-p", "x", "-m", filepath.Join(models, "qwen3.gguf"), "-md", head},
			"the target is qwen3"},
		"as a model":       {[]string{"generate", "-p", "x", "-m", head}, "a draft head of Gemma 4"},
		"another width":    {[]string{"generate", "-p", "x", "-m", target, "-md", narrow}, "embedding_length_out"},
		"a missing tensor": {[]string{"generate", "-p", "x", "-m", target, "-md", lacking}, "nextn.post_projection.weight"},
		"plan":             {[]string{"plan", "-m", target, "-md", head, "--seconds", "0.1"}, "target's cache"},
		"selftest":         {[]string{"selftest", "-m", target, "-md", head, "--quick"}, "target's cache"},
		"a model, no block": {[]string{"generate", "-p", "x", "-m", target, "-md", target, "--drafter", "mtp"},
			"needs a multi-token-prediction block"},
	} {
		out, errs, code := spec(t, "", c.args...)
		if code == 0 || !strings.Contains(errs, c.says) || strings.Count(strings.TrimSpace(errs), "\n") > 0 {
			t.Errorf("%s: exit code %d, %s%s", name, code, out, errs)
		}
	}
	for _, c := range []struct {
		says []string
		args []string
	}{
		{[]string{"draft head of Gemma 4", "gemma4-assistant.embedding_length_out", "runs"}, []string{"inspect", head}},
		{[]string{"draft  "}, []string{"bench", "-m", target, "-md", head, "--quick", "-p", "0", "--verify", "2", "--batch",
			"0", "-d", "0", "-n", "4"}},
		{[]string{"mtp"}, []string{"compare", "-m", target, "-md", head, "--drafter", "mtp", "--schedule", "constant",
			"--draft-max", "3", "-n", "16", "--max-prompts", "1", "-r", "1", "--warmup", "0"}},
		{[]string{"tree", "auto", "model"}, []string{"compare", "-m", target, "-md", head, "-n", "12", "--max-prompts", "1",
			"-r", "1", "--warmup", "0"}},
	} {
		out := done(t, "", c.args...)
		for _, says := range c.says {
			if !strings.Contains(out, says) {
				t.Errorf("%s: no %q in\n%s", c.args, says, out)
			}
		}
	}
	requests, answers := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
	var lines []string
	for i, drafter := range []string{"mtp", "tree", "model", "none"} {
		lines = append(lines,
			fmt.Sprintf(`{"custom_id":"%d","method":"POST","url":"/v1/completions","body":{"prompt":"func main","max_tokens":30,"temperature":0,"ignore_eos":true,"speculation":{"drafter":"%s","schedule":"constant"}}}`, i, drafter))
	}
	if err := os.WriteFile(requests, []byte(strings.Join(lines, "\n")), 0o666); err != nil {
		t.Fatal(err)
	}
	if out := done(t, "", "batch", "-m", target, "-md", head, "-i", requests, "-o", answers); !strings.Contains(
		out, "tokens drafted") {
		t.Errorf("batch drafts nothing:\n%s", out)
	}
	data, err := os.ReadFile(answers)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]bool{}
	for _, m := range regexp.MustCompile(`"text":"(.*?)"[,}]`).FindAllStringSubmatch(string(data), -1) {
		texts[m[1]] = true
	}
	if len(texts) != 1 || texts[""] {
		t.Errorf("batch: %d texts with and without drafts: %v", len(texts), texts)
	}
	var question = "/exit\n"
	if _, errs, code := spec(t, "Hello\n"+question, "chat", "-m", target, "-md", head, "--chat-template",
		"chatml", "-n", "8", "--temp", "0"); code != 0 {
		t.Errorf("chat: %d, %s", code, errs)
	}
}
