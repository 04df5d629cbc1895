package main

import (
	"bytes"
	"encoding/json"
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
	"github.com/specgo/spec/internal/modeldir"
	"github.com/specgo/spec/internal/synth"
	"github.com/specgo/spec/internal/testkit"
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
	if s.Kind != engine.KindModel || !s.Runs || s.Architecture != c.Architecture || s.Name != c.Name ||
		s.Parameters != uint64(m.Parameters()) || s.WeightBytes != m.Bytes() {
		t.Errorf("%+v, the engine has %d parameters in %d bytes", s, m.Parameters(), m.Bytes())
	}
	if int(s.Context) != c.Context || int(s.Layers) != c.Layers || int(s.HiddenSize) != c.HiddenSize ||
		int(s.Heads) != c.Heads || int(s.KVHeads) != c.KVHeads || int(s.HeadDim) != c.HeadDim ||
		int(s.FeedForward) != c.FeedForward || s.Vocab != c.Vocab {
		t.Errorf("%+v, the engine has %+v", s, c)
	}
	if want := float64(2 * c.Layers * c.KVHeads * c.HeadDim * 2); s.KVBytes != want {
		t.Errorf("%v bytes of keys and values for a token, want %v", s.KVBytes, want)
	}
	if len(s.Types) != 2 || s.Types[0].Type != "Q8_0" || s.Types[1].Type != "F32" ||
		s.Types[0].Tensors+s.Types[1].Tensors != len(f.Tensors) {
		t.Errorf("types %+v", s.Types)
	}
	text := done(t, "", "inspect")
	for _, part := range []string{"kind            model\n", "tokenizer       gpt2, pre-tokenizer gpt-2, 4096 tokens\n",
		"chat template   none\n", "3.1 MB of keys and values per 1,000", "runs            yes"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	if strings.Contains(text, "blk.0.") {
		t.Error("tensors are listed without --tensors")
	}
}

// The names and the order of a summary's fields in JSON stay as they are, whatever parts it is made of.
func TestSummaryJSON(t *testing.T) {
	const want = `{"kind":"","architecture":"","name":"n","n_parameters":0,"types":null,"n_context":0,"n_layers":0,` +
		`"n_mtp_blocks":1,"n_encoder_layers":1,"hidden_size":0,"n_heads":0,"n_kv_heads":0,"head_size":0,` +
		`"feed_forward_size":0,"n_experts":0,"n_experts_used":0,"n_vocabulary":0,"tokenizer":"t","pre_tokenizer":"p",` +
		`"chat_template_bytes":0,"weight_memory_bytes":0,"kv_bytes_per_token":0,"window_bytes":0,` +
		`"input_kv_bytes_per_token":1,"n_window":1,"mtp_kv_bytes_per_token":1,"state_bytes":0,"state_bytes_most":0,` +
		`"state_bytes_least":0,"n_files":0,"runs":false,"runs_not_reason":"r"}`
	var s summary
	s.Name, s.Tokenizer, s.Pre, s.Reason = "n", "t", "p", "r" // what is left out where there is none
	s.MTPBlocks, s.EncLayers, s.InputBytes, s.Window, s.MTPKVBytes = 1, 1, 1, 1, 1
	if got, err := json.Marshal(s); err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
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
		tensors = append(tensors, gguf.TensorSource{
			Name: "token_embd.weight", Type: typ, Dims: []uint64{256, 2}, Write: func(w io.Writer) error {
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
		"encoder-decoder": {header(t, "x", gguf.F16, arch("t5")), []string{"t5.context_length"}}, // such models run
		"encoder":         {header(t, "x", gguf.F16, arch("nomic-bert")), []string{"nomic-bert.context_length"}},
		"adapter":         {header(t, "x", gguf.F16, arch("llama"), typ("adapter")), []string{"LoRA adapter"}},
		"old adapter": {header(t, "x", gguf.F16, arch("llama"), gguf.KV{Key: "adapter.type", Value: "lora"}),
			[]string{"LoRA adapter"}},
		"projector":       {header(t, "x", gguf.F16, arch("clip")), []string{"mmproj"}},
		"typed projector": {header(t, "x", gguf.F16, arch("x"), typ("mmproj")), []string{"mmproj"}},
		"imatrix":         {header(t, "x", gguf.F32, arch("llama"), typ("imatrix")), []string{"importance matrix"}},
		"draft head":      {header(t, "x", gguf.F16, arch("eagle3")), []string{"EAGLE-3"}},
		"vocabulary":      {header(t, "x", none, arch("llama")), []string{"vocabulary"}},
		"architecture":    {header(t, "x", gguf.F16, arch("rwkv9")), []string{`"rwkv9"`, "rwkv7"}},
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
	path := header(t, "x", gguf.I8, arch("llama"))
	if out := strings.Join(strings.Fields(done(t, "", "inspect", path)), " "); !strings.Contains(
		out, "type I8 is not supported (known: F32, ") || !strings.Contains(out, "not known for these types") {
		t.Errorf("%s", out)
	}
	if names := knownTypes(); !slices.Contains(names, "Q4_K") || !slices.Contains(names, "BF16") ||
		slices.Contains(names, "I8") || !slices.Contains(names, "NVFP4") {
		t.Errorf("known types %v", names)
	}
}

// A part of a split model without the others, and a model whose parts are all there.
func TestSplitModel(t *testing.T) {
	r := testdata.Target()
	f, err := gguf.Open(r, r.Size(), "target")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	const parts = 3
	var first string
	for i := range parts {
		var kvs []gguf.KV
		if i == 0 {
			kvs = append(kvs, f.KVs...)
		}
		kvs = append(kvs, gguf.KV{Key: "split.no", Value: uint16(i)}, gguf.KV{Key: "split.count", Value: uint16(parts)},
			gguf.KV{Key: "split.tensors.count", Value: int32(len(f.Tensors))})
		var tensors []gguf.TensorSource
		for _, x := range f.Tensors[i*len(f.Tensors)/parts : (i+1)*len(f.Tensors)/parts] {
			tensors = append(tensors, sameTensor(f, x))
		}
		var b bytes.Buffer
		if err := gguf.Write(&b, kvs, tensors); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, fmt.Sprintf("m-%05d-of-%05d.gguf", i+1, parts))
		if i == 0 {
			first = path
		}
		if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if i == parts-1 {
			break
		}
		for _, args := range [][]string{{"inspect", first}, {"generate", "-m", first, "-p", "x"}} {
			_, errs, code := spec(t, "", args...)
			if code != exitFailed || strings.Count(errs, "\n") != 1 ||
				!strings.Contains(errs, fmt.Sprintf("part %d of 3, m-%05d-of-00003.gguf", i+2, i+2)) {
				t.Errorf("%s of %d parts: exit %d, %q", args[0], i+1, code, errs)
			}
		}
	}
	// Its other parts are its files too, which no output replaces.
	last := filepath.Join(dir, "m-00003-of-00003.gguf")
	for _, line := range []string{"generate -p x -n 1 --receipt", "imatrix -p x -o", "lookup build FIRST -o",
		"bench --cpuprofile", "compare -p x --html"} {
		args := append(strings.Fields(strings.ReplaceAll(line, "FIRST", first)), last, "-m", first)
		_, errs, code := spec(t, "", args...)
		if code != exitFailed || !strings.Contains(errs, "it would be destroyed") {
			t.Errorf("%s: exit %d, %q", line, code, errs)
		}
	}
	words := strings.Join(strings.Fields(done(t, "", "inspect", first)), " ")
	for _, part := range []string{"files 3", "runs yes", "shape 6 layers"} {
		if !strings.Contains(words, part) {
			t.Errorf("no %q in %q", part, words)
		}
	}
	// A server's folder has it once, with the bytes of all parts.
	if bytes, _, err := modeldir.Size(first); err != nil || bytes < r.Size() || bytes > r.Size()+parts<<10 {
		t.Errorf("%d bytes of %d, %v", bytes, r.Size(), err)
	}
	draft := filepath.Join(dir, "m.draft.gguf")
	if err := os.WriteFile(draft, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := modeldir.New(dir).List(); err != nil || len(list) != 1 || list[0].Name != "m" ||
		list[0].File != first || list[0].Draft != draft {
		t.Errorf("a folder of parts has %v, %v", list, err)
	}
	whole, split := done(t, "", "generate", "-p", "func ", "-n", "20", "--temp", "0"),
		done(t, "", "generate", "-m", first, "-p", "func ", "-n", "20", "--temp", "0")
	if whole != split {
		t.Errorf("the whole model writes %q, the split one %q", whole, split)
	}
}

// The memory of sessions with windows and recurrent layers, against what a session takes.
func TestSessionMemory(t *testing.T) {
	shared := testkit.Shared(t, "families/models")
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for name, says := range map[string]string{
		"gemma3": "at most", "gpt-oss": "at most", "lfm2": "recurrent state", "qwen35": "recurrent state",
		"falcon-h1": "recurrent state", "qwen3": "per 1,000 tokens",
	} {
		path := filepath.Join(shared, name+".gguf")
		f, err := gguf.OpenFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s := summarize(f)
		f.Close()
		if !s.Runs {
			t.Errorf("%s does not run: %s", name, s.Reason)
		}
		m, err := engine.Open(t.Context(), rt, path, engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		d, c := m.Describe(), m.Config()
		session, err := m.NewSession(engine.SessionOptions{})
		if err != nil {
			t.Fatal(err)
		}
		n := min(c.Context, 512)
		for range n {
			if _, err := session.Eval(t.Context(), []int32{7}, nil, engine.None); err != nil {
				t.Fatal(err)
			}
		}
		want := int64(s.KVBytes*float64(n)) + min(s.WindowBytes, int64(n)*s.WindowBytes/max(1, int64(s.Window)))
		if got := session.Bytes() - want; got < d.Recurrent.State || got > s.StateMost {
			t.Errorf("%s: a session of %d tokens takes %d bytes, %d of them beside keys and values; predicted %d to %d", name,
				n, session.Bytes(), got, d.Recurrent.State, s.StateMost)
		}
		if words := strings.Join(strings.Fields(done(t, "", "inspect", path)), " "); !strings.Contains(words, says) {
			t.Errorf("%s: no %q in %q", name, says, words)
		}
		session.Close()
		if s.StateBytes == 0 && s.StateLeast == s.StateMost { // nothing depends on the memory for states
			m.Close()
			continue
		}
		if session, err = m.NewSession(engine.SessionOptions{StateBytes: 1}); err != nil {
			t.Fatal(err)
		}
		for range n {
			if _, err := session.Eval(t.Context(), []int32{7}, nil, engine.None); err != nil {
				t.Fatal(err)
			}
		}
		if got := session.Bytes() - want; got > s.StateLeast || s.StateBytes > 0 && s.StateLeast >= s.StateMost {
			t.Errorf("%s: %d bytes beside keys and values with the least memory for states; predicted at most %d",
				name, got, s.StateLeast)
		}
		session.Close()
		m.Close()
	}
}

// Keys and values by layer, and where the header does not give them.
func TestKVBytes(t *testing.T) {
	base := []gguf.KV{{Key: "general.architecture", Value: "x"}, {Key: "x.block_count", Value: uint32(4)},
		{Key: "x.embedding_length", Value: uint32(64)}, {Key: "x.attention.head_count", Value: uint32(8)}}
	for name, c := range map[string]struct {
		more []gguf.KV
		want float64
	}{
		"all heads": {nil, 4 * 8 * (8 + 8) * 2},
		"grouped":   {[]gguf.KV{{Key: "x.attention.head_count_kv", Value: uint32(2)}}, 4 * 2 * (8 + 8) * 2},
		"by layer":  {[]gguf.KV{{Key: "x.attention.head_count_kv", Value: []int32{0, 2, 0, 4}}}, (2 + 4) * (8 + 8) * 2},
		"other size": {[]gguf.KV{{Key: "x.attention.key_length", Value: uint32(16)},
			{Key: "x.attention.value_length", Value: uint32(24)}}, 4 * 8 * (16 + 24) * 2},
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
	file := filepath.Join(t.TempDir(), "small")
	// rows of whole blocks of every type and others, and matrices whose last panel is not full
	random, err := synth.Random(synth.Shape{Name: "small", Architecture: "llama", Context: 64, Vocab: 100, HiddenSize: 256,
		Layers: 1, Heads: 4, KVHeads: 2, HeadDim: 12, FeedForward: 96, RopeBase: 10000}, "f16")
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, random.Size())
	if _, err := random.ReadAt(data, 0); err != nil {
		t.Fatal(err)
	}
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
	for bound, names := range map[float64]string{1.1: "iq1_s iq1_m iq2_xxs iq2_xs iq2_s tq1_0 tq2_0",
		1.35: "iq3_xxs iq3_s"} {
		for _, name := range strings.Fields(names) {
			typ, err := tensor.ParseType(name)
			if err != nil {
				t.Fatal(err)
			}
			rows := float64(1024 * typ.RowBytes(2048))
			if got := float64(packedBytes(typ, 2048, 1024)); got < rows || got > bound*rows {
				t.Errorf("%s takes %.3f of its bytes in the file, at most %.2f is promised", name, got/rows, bound)
			}
		}
	}
	if got := fmt.Sprint(size(999), size(1500), size(2500000),
		size(math.MaxInt32*2)); got != "999 bytes1.5 kB2.5 MB4.29 GB" {
		t.Errorf("sizes %s", got)
	}
}

// Of an encoder it is said what it makes, how it pools and which marks it adds.
func TestInspectEncoders(t *testing.T) {
	for name, want := range map[string]string{
		"bert":        "vectors of texts, pooling: mean; marks added: [CLS] [SEP]",
		"bert-rank3":  "scores (no, maybe, yes) of texts, pooling: rank; marks added: [CLS] [SEP]",
		"modern-bert": "vectors of texts, pooling: cls; marks added: <|bos|> <|endoftext|>",
	} {
		file := testkit.Shared(t, "families/encoders/"+name+".gguf")
		if text := strings.Join(strings.Fields(done(t, "", "inspect", file)), " "); !strings.Contains(text, want) {
			t.Errorf("%s: no %q in\n%s", name, want, text)
		}
		s := decode[struct{ Summary summary }](t, done(t, "", "inspect", "--json", file)).Summary
		if s.Vectors == nil || len(s.Vectors.Marks) != 2 || s.Vectors.Ranks != (name == "bert-rank3") {
			t.Errorf("%s: %+v", name, s.Vectors)
		}
	}
}
