package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
	"github.com/specgo/spec/testdata"
)

// The memory that inspect predicts is what the engine takes.
func TestSummary(t *testing.T) {
	f, err := openGGUF("")
	if err != nil {
		t.Fatal(err)
	}
	s := summarize(f)
	m := target(t)
	c := m.Config()
	if s.Kind != kindModel || !s.Runs || s.Architecture != c.Architecture || s.Name != c.Name || s.Parameters != uint64(m.Parameters()) || s.WeightBytes != m.Bytes() {
		t.Errorf("%+v, the engine has %d parameters in %d bytes", s, m.Parameters(), m.Bytes())
	}
	if int(s.Context) != c.Context || int(s.Layers) != c.Layers || int(s.HiddenSize) != c.HiddenSize || int(s.Heads) != c.Heads || int(s.KVHeads) != c.KVHeads || int(s.HeadDim) != c.HeadDim || int(s.FeedForward) != c.FeedForward || s.Vocab != c.Vocab {
		t.Errorf("%+v, the engine has %+v", s, c)
	}
	if want := float64(2 * c.Layers * c.KVHeads * c.HeadDim * 2); s.KVBytes != want {
		t.Errorf("%v bytes of keys and values for a token, want %v", s.KVBytes, want)
	}
	if len(s.Types) != 2 || s.Types[0].Type != "Q8_0" || s.Types[1].Type != "F32" || s.Types[0].Tensors+s.Types[1].Tensors != len(f.Tensors) {
		t.Errorf("types %+v", s.Types)
	}
	text := done(t, "", "inspect")
	for _, part := range []string{"kind            model\n", "tokenizer       gpt2, pre-tokenizer gpt-2, 4096 tokens\n", "chat template   none\n", "3.1 MB of keys and values per 1,000", "runs            yes"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	if strings.Contains(text, "blk.0.") {
		t.Error("tensors are listed without --tensors")
	}
}

// header writes a file of these keys, with one small tensor unless its type is none of GGUF's.
func header(t *testing.T, name string, typ gguf.Type, kvs ...gguf.KV) string {
	t.Helper()
	var tensors []gguf.TensorSource
	if typ.BlockWeights() > 0 {
		size, err := typ.Size(256, 2)
		if err != nil {
			t.Fatal(err)
		}
		tensors = append(tensors, gguf.TensorSource{Name: "token_embd.weight", Type: typ, Dims: []uint64{256, 2}, Write: func(w io.Writer) error {
			_, err := w.Write(make([]byte, size))
			return err
		}})
	}
	var b bytes.Buffer
	if err := gguf.Write(&b, kvs, tensors); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is no language model is named, by inspect and by the commands that run models.
func TestKinds(t *testing.T) {
	const none = gguf.Type(31) // removed from the format
	arch := func(name string) gguf.KV { return gguf.KV{Key: "general.architecture", Value: name} }
	typ := func(name string) gguf.KV { return gguf.KV{Key: "general.type", Value: name} }
	for name, c := range map[string]struct {
		path string
		says []string
	}{
		"encoder-decoder": {header(t, "x", gguf.F16, arch("t5")), []string{"encoder-decoder model"}},
		"encoder":         {header(t, "x", gguf.F16, arch("nomic-bert")), []string{"encoder"}},
		"adapter":         {header(t, "x", gguf.F16, arch("llama"), typ("adapter")), []string{"LoRA adapter"}},
		"old adapter":     {header(t, "x", gguf.F16, arch("llama"), gguf.KV{Key: "adapter.type", Value: "lora"}), []string{"LoRA adapter"}},
		"projector":       {header(t, "x", gguf.F16, arch("clip")), []string{"mmproj"}},
		"typed projector": {header(t, "x", gguf.F16, arch("x"), typ("mmproj")), []string{"mmproj"}},
		"imatrix":         {header(t, "x", gguf.F32, arch("llama"), typ("imatrix")), []string{"importance matrix"}},
		"draft head":      {header(t, "x", gguf.F16, arch("eagle3")), []string{"EAGLE-3"}},
		"split":           {header(t, "x", gguf.F16, arch("llama"), gguf.KV{Key: "split.count", Value: uint16(3)}), []string{"3 parts"}},
		"vocabulary":      {header(t, "x", none, arch("llama")), []string{"vocabulary"}},
		"architecture":    {header(t, "x", gguf.F16, arch("rwkv9")), []string{`"rwkv9"`, "known: ", "llama", "gpt2"}},
	} {
		out := done(t, "", "inspect", c.path)
		_, errs, code := spec(t, "", "generate", "-m", c.path, "-p", "x")
		if code != exitFailed || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, %q", name, code, errs)
		}
		words := strings.Join(strings.Fields(out), " ")
		if !strings.Contains(words, " runs no: ") {
			t.Errorf("%s: it runs:\n%s", name, out)
		}
		for _, part := range c.says {
			if !strings.Contains(words, part) || !strings.Contains(errs, part) {
				t.Errorf("%s: no %q in %q or %q", name, part, words, errs)
			}
		}
	}
	// A type that the engine does not compute with.
	path := header(t, "x", gguf.IQ1_S, arch("llama"))
	if out := strings.Join(strings.Fields(done(t, "", "inspect", path)), " "); !strings.Contains(out, "type IQ1_S is not supported (known: F32, ") || !strings.Contains(out, "not known for these types") {
		t.Errorf("%s", out)
	}
	if names := knownTypes(); !slices.Contains(names, "Q4_K") || !slices.Contains(names, "BF16") || slices.Contains(names, "I8") || slices.Contains(names, "IQ1_S") {
		t.Errorf("known types %v", names)
	}
}

// Keys and values by layer, and where the header does not give them.
func TestKVBytes(t *testing.T) {
	base := []gguf.KV{{Key: "general.architecture", Value: "x"}, {Key: "x.block_count", Value: uint32(4)}, {Key: "x.embedding_length", Value: uint32(64)}, {Key: "x.attention.head_count", Value: uint32(8)}}
	for name, c := range map[string]struct {
		more []gguf.KV
		want float64
	}{
		"all heads":  {nil, 4 * 8 * (8 + 8) * 2},
		"grouped":    {[]gguf.KV{{Key: "x.attention.head_count_kv", Value: uint32(2)}}, 4 * 2 * (8 + 8) * 2},
		"by layer":   {[]gguf.KV{{Key: "x.attention.head_count_kv", Value: []int32{0, 2, 0, 4}}}, (2 + 4) * (8 + 8) * 2},
		"other size": {[]gguf.KV{{Key: "x.attention.key_length", Value: uint32(16)}, {Key: "x.attention.value_length", Value: uint32(24)}}, 4 * 8 * (16 + 24) * 2},
		"recurrent":  {[]gguf.KV{{Key: "x.ssm.state_size", Value: uint32(16)}}, 0},
		"compressed": {[]gguf.KV{{Key: "x.attention.kv_lora_rank", Value: uint32(16)}}, 0},
	} {
		f, err := gguf.OpenFile(header(t, "x", gguf.F32, append(slices.Clone(base), c.more...)...))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if got := summarize(f).KVBytes; got != c.want {
			t.Errorf("%s: %v bytes, want %v", name, got, c.want)
		}
	}
}

// The memory of weights in every type that can be made, against the engine.
func TestMemoryOfWeights(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	file := filepath.Join(t.TempDir(), "draft")
	data, _ := io.ReadAll(testdata.Draft())
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, typ := range engine.WeightNames() {
		out := file + "." + typ
		done(t, "", "quantize", "--pure", file, out, typ)
		m, err := engine.Open(t.Context(), rt, out, engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		f, err := gguf.OpenFile(out)
		if err != nil {
			t.Fatal(err)
		}
		if got := memoryOfWeights(f); got != m.Bytes() {
			t.Errorf("%s: %d bytes predicted, the engine takes %d", typ, got, m.Bytes())
		}
		f.Close()
		m.Close()
	}
	if q8, err := tensor.ParseType("q8_0"); err != nil || packedBytes(q8, 64, 17) != 2*packedBytes(q8, 64, 16) {
		t.Error("a panel that is not full takes less than a full one")
	}
	if got := fmt.Sprint(size(999), size(1500), size(2500000), size(math.MaxInt32*2)); got != "1.0 kB1.5 kB2.5 MB4.29 GB" {
		t.Errorf("sizes %s", got)
	}
}
