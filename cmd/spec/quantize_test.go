package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/synth"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/tensor"
)

// TestQuantizeMixture: a model with rows of 288, no multiple of 256 as the 576 of SmolLM2-135M, in Q4_K_M has the types
// that llama.cpp gives it, and runs.
func TestQuantizeMixture(t *testing.T) {
	dir := t.TempDir()
	r, err := synth.Random(synth.Shape{Name: "small", Architecture: "llama", Context: 64, Vocab: 96, HiddenSize: 288,
		Layers: 3, Heads: 9, KVHeads: 3,
		FeedForward: 512, Tied: true, RopeBase: 10000}, "f16")
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, r.Size())
	if _, err := r.ReadAt(data, 0); err != nil {
		t.Fatal(err)
	}
	in, out := filepath.Join(dir, "f16.gguf"), filepath.Join(dir, "Q4_K_M.gguf")
	if err := os.WriteFile(in, data, 0o600); err != nil {
		t.Fatal(err)
	}
	_, stderr, code := spec(t, "", "quantize", in, out, "q4_k_m")
	// 3 layers: all of attn_v (rows of 288) and ffn_down (of 512) in layer 2 have more bits, the others fewer.
	if code != 0 || !strings.Contains(stderr, "7 in f32, 2 in q8_0, 1 in q6_k, 17 in q5_0, 2 in q4_k") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	text := done(t, "", "inspect", "--tensors", out)
	for _, line := range []string{"blk.0.attn_q.weight Q5_0 288 x 288", "blk.2.attn_v.weight Q8_0 288 x 96",
		"blk.0.ffn_down.weight Q4_K 512 x 288",
		"blk.2.ffn_down.weight Q6_K 512 x 288", "token_embd.weight Q8_0 288 x 96", "165.9 kB in 2 of type Q4_K",
		"general.file_type uint32 15"} {
		if !strings.Contains(strings.Join(strings.Fields(text), " "), line) {
			t.Errorf("no %q in\n%s", line, text)
		}
	}
	m := openModel(t, out)
	s, err := m.NewSession(engine.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Eval(context.Background(), []int32{3, 1, 4, 1, 5}, nil, engine.All); err != nil {
		t.Error(err)
	}
	if got := m.WeightTypes(); got != "q5_0, q4_k, q6_k, q8_0" {
		t.Errorf("the weights are in %s", got)
	}
	if _, stderr, code := spec(t, "", "quantize", "--pure", in, out, "q4_k_m"); code != exitUsage ||
		!strings.Contains(stderr, "--pure") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	_, stderr, code = spec(t, "", "quantize", "--pure", in, out, "q4_k")
	if code != 0 || !strings.Contains(stderr, "7 in f32, 19 in q5_0, 3 in q4_k") {
		t.Errorf("exit %d: %s", code, stderr)
	}
}

func openModel(t *testing.T, path string) *engine.Model {
	t.Helper()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(rt.Close)
	m, err := engine.Open(context.Background(), rt, path, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// TestPureIsWeights: quantize --pure T writes the model that --weights T makes while loading, of every architecture,
// where a few matrices have a type already and rows are no whole blocks.
func TestPureIsWeights(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	llama, t5 := randommodel.Llama(), randommodel.SmallT5()
	llama.FF, t5.Heads = 100, 32
	files := map[string][]byte{"rows of 100": llama.File(t), "t5": t5.File(t),
		"a router in q8_0": recoded(t, randommodel.Recipes()["qwen2moe"].File(t), "ffn_gate_inp", gguf.Q8_0),
		"norms in f16":     recoded(t, llama.File(t), "norm", gguf.F16)}
	for _, recipes := range []map[string]randommodel.Recipe{randommodel.Recipes(), randommodel.HybridRecipes()} {
		for name, r := range recipes {
			files[name] = r.File(t)
		}
	}
	logits := func(name, path, weights string) ([]float32, string) {
		m, err := engine.Open(ctx, rt, path, engine.Options{Weights: weights})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer m.Close()
		shape := fmt.Sprint(m.WeightTypes(), ", bytes ", m.Bytes())
		s, err := m.NewSession(engine.SessionOptions{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer s.Close()
		if m.Encodes() {
			if err := s.Encode(ctx, []int32{5, 6, 7, 1}); err != nil {
				t.Fatal(err)
			}
		}
		out, err := s.Eval(ctx, []int32{3, 1, 4, 1, 5}, nil, engine.Last)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return slices.Clone(out.Row(0)), shape
	}
	in, out := filepath.Join(dir, "in.gguf"), filepath.Join(dir, "out.gguf")
	for i, name := range slices.Sorted(maps.Keys(files)) {
		if err := os.WriteFile(in, files[name], 0o600); err != nil {
			t.Fatal(err)
		}
		for j, typ := range []string{"q8_0", "q4_k"} {
			if !testkit.IsLong(t) && (i%4 == 0) != (j == 1) { // q4_k takes its time
				continue
			}
			done(t, "", "quantize", "--pure", in, out, typ)
			want, shape := logits(name, in, typ)
			if got, other := logits(name, out, ""); !slices.Equal(got, want) || shape != other {
				t.Errorf("%s: quantize --pure makes %s, --weights %s; the same logits: %v", name, other, shape,
					slices.Equal(got, want))
			}
		}
	}
}

// TestLongPureIsWeights: every architecture in both types.
func TestLongPureIsWeights(t *testing.T) {
	testkit.Long(t)
	TestPureIsWeights(t)
}

// recoded is a file with the tensors whose names have a part in another type.
func recoded(t *testing.T, data []byte, part string, typ gguf.Type) []byte {
	t.Helper()
	f, err := gguf.Open(bytes.NewReader(data), int64(len(data)), "recoded")
	if err != nil {
		t.Fatal(err)
	}
	var list []gguf.TensorSource
	for _, x := range f.Tensors {
		to := x.Type
		if strings.Contains(x.Name, part) {
			to = typ
		}
		list = append(list, gguf.TensorSource{Name: x.Name, Type: to, Dims: x.Dims, Write: func(w io.Writer) error {
			raw := make([]byte, x.Size)
			if _, err := f.Reader().ReadAt(raw, x.Offset); err != nil || to == x.Type {
				_, written := w.Write(raw)
				return errors.Join(err, written)
			}
			from, err := tensorType(x.Type)
			if err != nil {
				return err
			}
			into, err := tensorType(to)
			if err != nil {
				return err
			}
			values := make([]float32, x.Elements())
			encoded := make([]byte, into.RowBytes(len(values)))
			if err := errors.Join(tensor.Decode(from, values, raw), tensor.Encode(into, encoded, values)); err != nil {
				return err
			}
			_, err = w.Write(encoded)
			return err
		}})
	}
	kvs := []gguf.KV{}
	for key := range f.Keys() {
		v, _ := f.Value(key)
		kvs = append(kvs, gguf.KV{Key: key, Value: v})
	}
	return randommodel.Bytes(t, kvs, list)
}

// A pattern of --tensor-type is a regular expression in letters of either case: its classes mean what they say.
func TestPatternsOfTensors(t *testing.T) {
	for text, want := range map[string]map[string]bool{
		`blk\.1\D=q8_0`:   {"blk.1.ffn_up.weight": true, "blk.11.ffn_up.weight": false},
		`blk\.1\d=q8_0`:   {"blk.1.ffn_up.weight": false, "blk.11.ffn_up.weight": true},
		`FFN_Up|q.w=Q8_0`: {"blk.1.ffn_up.weight": true, "blk.1.attn_q.weight": true, "blk.1.ffn_down.weight": false},
	} {
		var q quantize
		if err := q.chooseTensors(text); err != nil {
			t.Fatal(err)
		}
		for name, matches := range want {
			if c := q.tensors[0]; c.Pattern.MatchString(name) != matches || c.Type != "q8_0" {
				t.Errorf("%s: %s, %t", text, name, !matches)
			}
		}
	}
}

// A file keeps its permissions, and nothing is left beside it.
func TestQuantizeKeepsMode(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "x.gguf")
	if err := os.WriteFile(out, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	done(t, "", "quantize", draftFile, out, "f16")
	if info, err := os.Stat(out); err != nil || runtime.GOOS != "windows" &&
		info.Mode().Perm() != 0o600 || info.Size() < 1e6 {
		t.Errorf("%v, %v", info, err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("left behind: %v", list)
	}
	// A failure leaves the old file as it is.
	if _, _, code := spec(t, "", "quantize", "badinput_test.go", out, "f16"); code != exitFailed {
		t.Errorf("exit %d", code)
	}
	if _, err := gguf.OpenFile(out); err != nil {
		t.Error(err)
	}
}

// Standard output, a named pipe and the null device get the same bytes as a file, and stay what they are.
func TestQuantizeToStreams(t *testing.T) {
	dir := t.TempDir()
	file, fifo := filepath.Join(dir, "x"), filepath.Join(dir, "fifo")
	done(t, "", "quantize", draftFile, file, "q4_0")
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cmd, stdout, stderr := start(t, nil, "quantize", draftFile, "-", "q4_0")
	launch(t, cmd)
	if code := finish(t, cmd, stderr); code != exitDone || !bytes.Equal(stdout.Bytes(), want) {
		t.Errorf("-o -: exit %d, %d bytes, want %d; %s", code, stdout.Len(), len(want), stderr)
	}
	if _, err := os.Stat("-"); err == nil {
		t.Error("there is a file named -")
	}
	done(t, "", "quantize", draftFile, os.DevNull, "q4_0")
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Fatalf("%s is %v, %v", os.DevNull, info, err)
	}
	if mkfifo(fifo) != nil {
		return
	}
	read := make(chan []byte, 1)
	go func() {
		b, _ := os.ReadFile(fifo)
		read <- b
	}()
	done(t, "", "quantize", draftFile, fifo, "q4_0")
	if got := <-read; !bytes.Equal(got, want) {
		t.Errorf("through a pipe %d bytes, want %d", len(got), len(want))
	}
	if info, err := os.Stat(fifo); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is %v now, %v", info, err)
	}
}

// SIGTERM leaves no part of a file, and the old one. The signal comes while the file is written: its part is
// there.
func TestQuantizeTerminated(t *testing.T) {
	needSignals(t)
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	large(t, in)
	write(t, out, "old")
	cmd, _, stderr := start(t, nil, "quantize", in, out, "q4_k")
	launch(t, cmd)
	for range 3000 {
		if parts, _ := filepath.Glob(filepath.Join(dir, "*.part")); len(parts) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	interrupt(t, cmd, syscall.SIGTERM, stderr)
	if left, _ := filepath.Glob(filepath.Join(dir, "*.part")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if old, _ := os.ReadFile(out); string(old) != "old" || stderr.Len() > 0 {
		t.Errorf("the old file is %.20q; %s", old, stderr)
	}
}

// large writes a file of zeros that takes long to convert; where the system knows holes it is small.
func large(t *testing.T, path string) {
	t.Helper()
	const cols = 1 << 12
	// the first bytes of the file: its header is as long for any number of rows
	file := func(rows uint64, data int) []byte {
		var b bytes.Buffer
		gguf.Write(&b, []gguf.KV{{Key: "general.architecture", Value: "none"}}, []gguf.TensorSource{{
			Name: "x.weight", Type: gguf.F16, Dims: []uint64{cols, rows},
			Write: func(w io.Writer) error {
				_, err := w.Write(make([]byte, data))
				return err
			},
		}})
		return b.Bytes()
	}
	const rows = 1 << 17
	header := len(file(1, 2*cols)) - 2*cols
	// 1 MiB is more than any buffer: the header comes out
	if err := os.WriteFile(path, file(rows, 1<<20)[:header], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(header)+2*cols*rows); err != nil {
		t.Fatal(err)
	}
}
