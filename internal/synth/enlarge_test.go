package synth

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/testdata"
)

// The embedded pair in shapes that add layers, heads of both kinds, units and width.
var enlargements = []struct {
	name  string
	model func() *strings.Reader
	shape Shape
}{
	{"llama", testdata.Target, Shape{HiddenSize: 512, Layers: 8, Heads: 8, KVHeads: 2, FeedForward: 1024}},
	{"llama/more keys", testdata.Target, Shape{HiddenSize: 768, Layers: 6, Heads: 12, KVHeads: 6, FeedForward: 768}},
	{"llama/same width", testdata.Target, Shape{HiddenSize: 256, Layers: 7, Heads: 4, KVHeads: 2, FeedForward: 800}},
	{"gpt2", testdata.Draft, Shape{HiddenSize: 384, Layers: 5, Heads: 6, FeedForward: 1536}},
	{"gpt2/same width", testdata.Draft, Shape{HiddenSize: 128, Layers: 3, Heads: 2, FeedForward: 640}},
}

// An enlarged model says what the small one says.
func TestEnlarge(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for _, c := range enlargements {
		t.Run(c.name, func(t *testing.T) {
			small, err := gguf.Open(c.model(), c.model().Size(), c.name)
			if err != nil {
				t.Fatal(err)
			}
			big, err := Enlarge(small, c.shape)
			if err != nil {
				t.Fatal(err)
			}
			testPieces(t, big)
			// With float activations only the norms' sums are rounded otherwise. Where activations are quantized too, a last
			// bit may tip one of them to its neighbour of 127.
			for weights, tolerance := range map[string]float64{"f32": 1e-3, "": 0.1} {
				want, wantText := runSmall(t, rt, c.model(), weights)
				got, gotText := run(t, rt, big, weights)
				if !slices.Equal(gotText, wantText) {
					t.Errorf("weights %q: greedy text %v, want %v", weights, gotText, wantText)
				}
				d := difference(got, want)
				t.Logf("weights %q: logits differ by at most %.2g", weights, d)
				if d > tolerance {
					t.Errorf("weights %q: logits differ by %v", weights, d)
				}
			}
		})
	}
}

// session is one of the model that a reader gives.
func session(t *testing.T, rt *engine.Runtime, r file, weights string) *engine.Session {
	t.Helper()
	m, err := engine.New(context.Background(), rt, r, r.Size(), engine.Options{Name: t.Name(), Weights: weights})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	s, err := m.NewSession(engine.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

type file interface {
	ReadAt([]byte, int64) (int, error)
	Size() int64
}

// run gives the logits of a prompt and of the text that greedy decoding adds.
func run(t *testing.T, rt *engine.Runtime, r file, weights string) (all []float32, text []int32) {
	t.Helper()
	s := session(t, rt, r, weights)
	next := s.Model().Tokenizer().Encode("// Copy returns a copy of the slice.\nfunc Copy(",
		bpe.EncodeOptions{AddSpecial: true})
	for range 9 {
		out, err := s.Eval(t.Context(), next, nil, engine.All)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, out.Data...)
		last := out.Row(out.Rows() - 1)
		next = []int32{int32(slices.Index(last, slices.Max(last)))}
		text = append(text, next[0])
	}
	return all, text
}

// said is what a model says of the prompt.
type said struct {
	logits []float32
	text   []int32
}

// smalls is what the embedded models say, by the file's size and the type of weights.
var smalls = map[string]said{}

// runSmall is run of an embedded model, once.
func runSmall(t *testing.T, rt *engine.Runtime, r file, weights string) ([]float32, []int32) {
	t.Helper()
	key := fmt.Sprint(r.Size(), weights)
	known, ok := smalls[key]
	if !ok {
		known.logits, known.text = run(t, rt, r, weights)
		smalls[key] = known
	}
	return known.logits, known.text
}

func difference(a, b []float32) (most float64) {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	for i := range a {
		most = max(most, math.Abs(float64(a[i]-b[i])))
	}
	return most
}

func TestEnlargeRefuses(t *testing.T) {
	small, err := gguf.Open(testdata.Target(), testdata.Target().Size(), "target")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Shape{
		{},
		{HiddenSize: 500, Layers: 8, Heads: 8, KVHeads: 4, FeedForward: 1024},
		{HiddenSize: 512, Layers: 8, Heads: 4, KVHeads: 2, FeedForward: 1024},
		{HiddenSize: 512, Layers: 4, Heads: 8, KVHeads: 4, FeedForward: 1024},
		{HiddenSize: 512, Layers: 8, Heads: 8, KVHeads: 1, FeedForward: 1024},
		{HiddenSize: 512, Layers: 8, Heads: 8, KVHeads: 8, FeedForward: 1024},
		{HiddenSize: 512, Layers: 8, Heads: 8, KVHeads: 4, FeedForward: 512},
		{HiddenSize: 512, Layers: 8, Heads: 8, KVHeads: 4, FeedForward: 1000},
	} {
		if _, err := Enlarge(small, s); err == nil || !strings.HasPrefix(err.Error(), "target: ") {
			t.Errorf("%+v: %v", s, err)
		}
	}
	tokenizer, err := Random(tiny("llama"), "q4_0")
	if err != nil {
		t.Fatal(err)
	}
	odd, err := gguf.Open(tokenizer, tokenizer.Size(), "tiny")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Enlarge(odd, Shape{HiddenSize: 192, Layers: 2, Heads: 6, KVHeads: 2, FeedForward: 256}); err != nil {
		t.Errorf("Q4_0: %v", err)
	}
}

// withTensors is the embedded target with more tensors in float32.
func withTensors(t *testing.T, more map[string][]float32) *bytes.Reader {
	t.Helper()
	f, err := gguf.Open(testdata.Target(), testdata.Target().Size(), "target")
	if err != nil {
		t.Fatal(err)
	}
	var list []gguf.TensorSource
	for _, x := range f.Tensors {
		list = append(list, gguf.TensorSource{Name: x.Name, Type: x.Type, Dims: x.Dims, Write: func(w io.Writer) error {
			_, err := io.Copy(w, io.NewSectionReader(f.Reader(), x.Offset, x.Size))
			return err
		}})
	}
	for name, x := range more {
		list = append(list, gguf.TensorSource{Name: name, Type: gguf.F32, Dims: []uint64{uint64(len(x))},
			Write: func(w io.Writer) error { return binary.Write(w, binary.LittleEndian, x) }})
	}
	var out bytes.Buffer
	if err := gguf.Write(&out, f.KVs, list); err != nil {
		t.Fatal(err)
	}
	return bytes.NewReader(out.Bytes())
}

// The factors of the angles go into the large model: it says what the small one says. Tensors that it would have
// nothing of are refused, and those that lack a part.
func TestEnlargeHasEveryTensor(t *testing.T) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	enlarge := func(small file) (*File, error) {
		f, err := gguf.Open(small, small.Size(), "small")
		if err != nil {
			t.Fatal(err)
		}
		return Enlarge(f, enlargements[0].shape)
	}
	plain, _ := runSmall(t, rt, testdata.Target(), "f32")
	factors := make([]float32, 32)
	for i := range factors {
		factors[i] = 1 + float32(i)
	}
	small := withTensors(t, map[string][]float32{"rope_freqs.weight": factors})
	want, wantText := run(t, rt, small, "f32")
	if difference(want, plain) < 0.1 {
		t.Fatal("the factors change nothing")
	}
	big, err := enlarge(small)
	if err != nil {
		t.Fatal(err)
	}
	got, gotText := run(t, rt, big, "f32")
	if d := difference(got, want); d > 1e-3 || !slices.Equal(gotText, wantText) {
		t.Errorf("logits differ by %v, greedy text %v, want %v", d, gotText, wantText)
	}
	for name, n := range map[string]int{"blk.2.attn_mystery.weight": 8, "blk.1.attn_q.bias": 256, "blk.0.attn_q.bias": 8} {
		_, err := enlarge(withTensors(t, map[string][]float32{name: make([]float32, n)}))
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s of %d numbers: %v", name, n, err)
		}
	}
}
