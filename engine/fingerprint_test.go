package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/testdata"
)

// fingerprintOf writes a file and reads its fingerprint.
func fingerprintOf(t *testing.T, kvs []gguf.KV, tensors []gguf.TensorSource) Fingerprint {
	t.Helper()
	f := readHeader(t, randommodel.Bytes(t, kvs, tensors), "file")
	x, err := ReadFingerprint(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func TestFingerprint(t *testing.T) {
	kvs := []gguf.KV{
		{Key: "general.architecture", Value: "llama"}, {Key: "general.name", Value: "a"},
		{Key: "llama.rope.freq_base", Value: float32(10000)},
		{Key: "tokenizer.ggml.model", Value: "gpt2"}, {Key: "tokenizer.ggml.tokens", Value: []string{"a", "b"}},
		{Key: "tokenizer.chat_template", Value: "x"},
	}
	tensor := func(name string, typ gguf.Type, dims []uint64, b ...byte) gguf.TensorSource {
		return gguf.TensorSource{Name: name, Type: typ, Dims: dims,
			Write: func(w io.Writer) error { _, err := w.Write(b); return err }}
	}
	tensors := []gguf.TensorSource{
		tensor("a", gguf.F32, []uint64{2, 1}, 1, 2, 3, 4, 5, 6, 7, 8), tensor("b", gguf.F16, []uint64{2}, 1, 2, 3, 4),
	}
	base := fingerprintOf(t, kvs, tensors)
	with := func(key string, value gguf.Value) []gguf.KV {
		other := slices.DeleteFunc(slices.Clone(kvs), func(kv gguf.KV) bool { return kv.Key == key })
		return append(other, gguf.KV{Key: key, Value: value})
	}
	swapped := []gguf.TensorSource{tensors[1], tensors[0]}
	for name, same := range map[string]Fingerprint{
		"other name":          fingerprintOf(t, with("general.name", "b"), tensors),
		"other template":      fingerprintOf(t, with("tokenizer.chat_template", "y"), tensors),
		"other order":         fingerprintOf(t, with("llama.rope.freq_base", float32(10000)), swapped),
		"another alignment":   fingerprintOf(t, with("general.alignment", uint32(64)), tensors),
		"of no meaning to it": fingerprintOf(t, with("gpt2.rope.freq_base", float32(1)), tensors),
	} {
		if same != base {
			t.Errorf("%s: %v, was %v", name, same, base)
		}
	}
	for name, other := range map[string]Fingerprint{
		"hyperparameter": fingerprintOf(t, with("llama.rope.freq_base", float32(10001)), tensors),
		"one more":       fingerprintOf(t, with("llama.rope.scaling.factor", float32(2)), tensors),
		"a byte of a tensor": fingerprintOf(t, kvs,
			[]gguf.TensorSource{tensors[0], tensor("b", gguf.F16, []uint64{2}, 1, 2, 3, 5)}),
		"a tensor's name": fingerprintOf(t, kvs,
			[]gguf.TensorSource{tensors[0], tensor("c", gguf.F16, []uint64{2}, 1, 2, 3, 4)}),
		"a tensor's type": fingerprintOf(t, kvs,
			[]gguf.TensorSource{tensors[0], tensor("b", gguf.BF16, []uint64{2}, 1, 2, 3, 4)}),
		"a tensor's shape": fingerprintOf(t, kvs,
			[]gguf.TensorSource{tensor("a", gguf.F32, []uint64{1, 2}, 1, 2, 3, 4, 5, 6, 7, 8), tensors[1]}),
		"one tensor fewer": fingerprintOf(t, kvs, tensors[:1]),
	} {
		if other.Model == base.Model || other.Tokenizer != base.Tokenizer {
			t.Errorf("%s: not noticed, or as a change of the tokenizer", name)
		}
	}
	if other := fingerprintOf(t, with("tokenizer.ggml.tokens",
		[]string{"a", "c"}), tensors); other.Tokenizer == base.Tokenizer || other.Model != base.Model {
		t.Error("a token: not noticed, or as a change of the model")
	}
}

// What decides whether and how a file is read is in its fingerprint, whatever its name begins with: without a key that
// is not there, and not one of the tokenizer's, every model is read as before. So is every number of Apertus'
// activation.
func TestFingerprintHasWhatIsRead(t *testing.T) {
	for name, a := range askedModels() {
		kvs, tensors := a.kvs(a.all()), a.tensors(t, name)
		k := kinds[a.arch]
		for i, kv := range kvs {
			if kv.Key == "general.architecture" || k.key(a.arch, kv.Key) || strings.HasPrefix(kv.Key, "tokenizer.ggml.") {
				continue
			}
			if _, err := Describe(headerOf(t, slices.Delete(slices.Clone(kvs), i, i+1), tensors, name)); err != nil {
				t.Errorf("%s: the fingerprint does not have %q, and without it: %v", name, kv.Key, err)
			}
		}
	}
	a := askedModels()["apertus"]
	kvs := a.kvs(a.all())
	seen := map[Fingerprint]string{fingerprintOf(t, kvs, nil): "as it is"}
	for i, kv := range kvs {
		numbers, ok := kv.Value.([]float32)
		if !ok {
			continue
		}
		for j := range numbers {
			other := slices.Clone(numbers)
			other[j] += 0.25
			changed := slices.Clone(kvs)
			changed[i].Value = other
			x := fingerprintOf(t, changed, nil)
			if was, twice := seen[x]; twice {
				t.Errorf("another %s[%d] has the fingerprint of a file %s", kv.Key, j, was)
			}
			seen[x] = fmt.Sprintf("with another %s[%d]", kv.Key, j)
		}
	}
	if len(seen) != 1+4*4 {
		t.Errorf("%d files", len(seen))
	}
	changed := append(slices.Clone(kvs), gguf.KV{Key: "xielu.mystery", Value: float32(1)})
	if _, err := Describe(headerOf(t, changed, a.tensors(t, "apertus"), "more.gguf")); !errors.Is(err, ErrUnsupported) ||
		!strings.Contains(err.Error(), "xielu.mystery") {
		t.Errorf("an unknown number of the activation: %v", err)
	}
}

// The fingerprint of the embedded target, as receipts name it: it must not change with the program.
func TestFingerprintGolden(t *testing.T) {
	r := testdata.Target()
	f, err := gguf.Open(r, r.Size(), "target")
	if err != nil {
		t.Fatal(err)
	}
	want := Fingerprint{
		Model:     "2b9adbcfd913542fa4c883ff7c5dfb2b56ccdf30e6bdb2b4fb27550f1960eb34",
		Tokenizer: "4f5fb18d826a5f4ff25ca590281f8df831b524bb4e42733d130103a6e9724966",
	}
	if got, err := ReadFingerprint(t.Context(), f); err != nil || got != want {
		t.Errorf("%v, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := ReadFingerprint(ctx, f); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	cut, err := gguf.Open(&short{r, r.Size() - 1000}, r.Size(), "cut")
	if err == nil {
		_, err = ReadFingerprint(t.Context(), cut)
	}
	if err == nil {
		t.Error("a file that ends early has a fingerprint")
	}
}

// short is a file that ends early.
type short struct {
	io.ReaderAt
	size int64
}

func (s *short) ReadAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) > s.size {
		return 0, io.EOF
	}
	return s.ReaderAt.ReadAt(b, at)
}

// A longrope model says which of its tables it was loaded with.
func TestRopeFactorsInUse(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for context, want := range map[int]string{1: "rope_factors_short.weight", 1 << 30: "rope_factors_long.weight"} {
		m, err := Open(t.Context(), rt, testkit.Shared(t, "families/models/phi3-short.gguf"),
			Options{RopeContext: context, Weights: "q8_0"})
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Config().RopeFactors; got != want || m.Weights() != "q8_0" {
			t.Errorf("for a context of %d: factors %q, weights %q", context, got, m.Weights())
		}
		m.Close()
	}
}
