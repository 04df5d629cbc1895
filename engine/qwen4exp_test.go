package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// qwen4expFile is a model with an MTP block.
func qwen4expFile(tb testing.TB) []byte {
	tb.Helper()
	return randommodel.Qwen4exp{MTP: true}.File(tb)
}

// qwen4expKeys are those of the same model without it, beside which askedFor has none of its own.
func qwen4expKeys() modelKeys {
	keys := randommodel.Qwen4exp{}.Keys()
	keys["feed_forward_length"] = nil
	return keys
}

// TestQwen4expAsksForItsFile: the tensors that the family asks the loader for are those of the drawn file.
func TestQwen4expAsksForItsFile(t *testing.T) {
	if !bytes.Equal(askedModels()["qwen4exp"].file(t, "qwen4exp"), randommodel.Qwen4exp{}.File(t)) {
		t.Error("another file")
	}
}

// qwen4expGolden is what the authors' own code computes of that file in float64: transformers' modeling_qwen4_exp.py,
// commit 009e78d6, and for the MTP block what vLLM's Qwen4ExpMultiTokenPredictor does with transformers' layer.
type qwen4expGolden struct {
	draftGolden
	Texts []struct {
		IDs    []int32
		Logits map[string][]float64
	}
}

func readQwen4exp(t *testing.T) (g qwen4expGolden) {
	t.Helper()
	text, err := os.ReadFile("testdata/qwen4exp.json")
	if err == nil {
		err = json.Unmarshal(text, &g)
	}
	if err != nil || len(g.Texts) != 2 {
		t.Fatal(len(g.Texts), "texts:", err)
	}
	return g
}

// TestQwen4exp: the logits of a short text, with an end token among its tokens, and of one of 300 tokens. An index
// chooses 2 blocks of 4 positions.
func TestQwen4exp(t *testing.T) {
	m, err := openBytes(t, newRuntime(t, RuntimeOptions{Threads: 2}), qwen4expFile(t), "qwen4exp.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range readQwen4exp(t).Texts {
		got := eval(t, newSession(t, m, SessionOptions{KV: "f32"}), text.IDs, nil, All)
		if v := m.config.Vocab; len(text.Logits) < 2 || len(got) != len(text.IDs)*v {
			t.Fatal(len(text.Logits), len(got))
		} else {
			for key, want := range text.Logits {
				i, _ := strconv.Atoi(key)
				if worst := difference(t, got[i*v:(i+1)*v], want); !(worst < 1e-4) {
					t.Errorf("%d tokens, position %s: the logits are off by %g", len(text.IDs), key, worst)
				}
			}
		}
	}
}

// TestQwen4expParameters: of the table a token reads the rows that it chooses, of the experts three.
func TestQwen4expParameters(t *testing.T) {
	m, err := openBytes(t, newRuntime(t, RuntimeOptions{Threads: 1}), qwen4expFile(t), "qwen4exp.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	const table, experts = (420 - 4) * 16, 5 * (8 - 3) * 3 * 32 * 64
	if got, want := m.ActiveParameters(), m.Parameters()-table-experts; got != want {
		t.Errorf("%d, expected %d", got, want)
	}
}

// TestRootSigmoid: numbers near 0 count as 10^-6, with their sign.
func TestRootSigmoid(t *testing.T) {
	for x, root := range map[float32]float64{0: 0, 1e-12: 1e-3, -1e-12: -1e-3, 4: 2, -9: -3} {
		if got, want := float64(rootSigmoid(x)), 1/(1+math.Exp(-root)); math.Abs(got-want) > 1e-7 {
			t.Errorf("%v: %v, expected %v", x, got, want)
		}
	}
}

// TestQwen4expMTP: the MTP block step by step.
func TestQwen4expMTP(t *testing.T) {
	draftsLike(t, written(t, qwen4expFile(t)), readQwen4exp(t).draftGolden)
}

// TestQwen4expRefused: files that are not computed as they say are refused by an error that names the key or the
// tensor.
func TestQwen4expRefused(t *testing.T) {
	a := askedModels()["qwen4exp"]
	tensors := a.tensors(t, "qwen4exp")
	for i, c := range []struct {
		key   string
		value gguf.Value
		says  string
	}{
		{"hyper_connection.count", uint32(1), ""}, {"hyper_connection.count", uint32(1 << 20), ""},
		{"hyper_connection.low_rank", uint32(0), ""}, {"hyper_connection.what", uint32(1), ""},
		{"attention.compress_ratios", []uint32{0, 4}, ""}, {"attention.compress_ratios", []uint32{0, 3, 0, 3, 0}, ""},
		{"attention.compress_ratios", nil, ""}, {"attention.indexer.top_k", uint32(9), ""},
		{"attention.indexer.key_length", uint32(4), ""}, {"attention.indexer.head_count", nil, ""},
		{"expert_count", uint32(0), ""},
		{"ple.layers", []uint32{1, 2}, ""}, {"ple.layers", []uint32{5}, ""}, {"ple.layers", nil, "ple_"},
		{"ple.ngram_size", uint32(1), ""}, {"ple.ngram_size", uint32(4), "ple."}, {"ple.heads_per_ngram", uint32(1000), ""},
		{"ple.conv_kernel", uint32(1000), ""}, {"ple.eos_token_id", nil, ""},
		{"ple.layer_multipliers", []uint64{1, 2}, ""}, {"ple.head_offsets", []uint64{1, 2}, ""},
		{"ple.head_offsets", []uint64{0, 1 << 40, 0, 0}, "ple.head_vocab_sizes"},
		{"ple.head_vocab_sizes", []uint64{1, 0, 1, 1}, ""},
		{"ple.head_vocab_sizes", []uint64{101, 103, 107, 110}, "per_layer_token_embd.weight"}, {"ple.what", uint32(1), ""},
		{"embedding_length_per_layer_input", uint32(8), "per_layer_token_embd.weight"},
	} {
		keys := a.all()
		if keys[c.key] = c.value; c.value == nil {
			delete(keys, c.key)
		}
		if c.says == "" {
			c.says = c.key
		}
		_, err := Describe(headerOf(t, a.kvs(keys), tensors, "x.gguf"))
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%d: %s %v: %v", i, c.key, c.value, err)
		}
	}
}

// TestQwen4expStates: a segment gives all streams of a layer's state, or the one state after the final norm, and not
// both; drafts are made for it by no head that reads states of another size.
func TestQwen4expStates(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	file := qwen4expFile(t)
	m, err := openBytes(t, rt, file, "qwen4exp.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	ids, s := randomTokens(9, m.config.Vocab, 5), newSession(t, m, SessionOptions{})
	var states [2][]float32
	for i, layers := range [][]int{{0, 5}, {FinalNorm}} {
		r := evalHidden(t, newSession(t, m, SessionOptions{}), Segment{Tokens: ids, Hidden: All, Layers: layers})
		states[i] = r
		if want := len(ids) * []int{2 * 192, 64}[i]; len(r) != want || m.StateSize(layers) != []int{192, 64}[i] {
			t.Errorf("layers %d: %d numbers, expected %d", layers, len(r), want)
		}
	}
	sameBits(t, "the streams begin alike", states[0][:64], states[0][128:192])
	if _, err := s.EvalSegment(t.Context(), Segment{Tokens: ids, Hidden: All, Layers: []int{FinalNorm, 1}}); err == nil {
		t.Error("states of two sizes in a segment")
	}
	head, err := openBytes(t, rt, file, "qwen4exp.gguf", Options{MTP: true, Target: m})
	if err != nil {
		t.Fatal(err)
	}
	if n := head.Head().TargetStates(); n != 192 {
		t.Errorf("the MTP block takes states of %d numbers", n)
	}
	if _, err := newSession(t, head, SessionOptions{}).EvalSegment(t.Context(), Segment{Tokens: ids[:1],
		States: make([]float32, 192), FromTarget: true, Hidden: All, Layers: []int{FinalNorm}}); err == nil {
		t.Error("states after the final norm of an MTP block")
	}
	if _, err := openBytes(t, rt, randommodel.Eagle{Keys: map[string]gguf.Value{"target_hidden_size": uint32(64)}}.File(t),
		"head.gguf", Options{Target: m}); err == nil || !strings.Contains(err.Error(), "192") {
		t.Errorf("a head that reads single streams: %v", err)
	}
}

// TestQwen4expAlone: a file with the MTP block alone drafts as the one in the model's file does, also where it has no
// embeddings and no output matrix of its own.
func TestQwen4expAlone(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	file := qwen4expFile(t)
	target, err := openBytes(t, rt, file, "qwen4exp.gguf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	f := readHeader(t, file, "x")
	if k := KindOf(f); k != KindModel {
		t.Errorf("the model's file is a %s", k)
	}
	ids := randomTokens(8, target.config.Vocab, 3)
	var want []float32
	for i, borrows := range []bool{false, false, true} {
		data, o := file, Options{Target: target, MTP: true}
		if i > 0 {
			var kvs []gguf.KV
			var tensors []gguf.TensorSource
			for _, kv := range f.KVs {
				if !strings.Contains(kv.Key, ".ple.") {
					kvs = append(kvs, kv)
				}
			}
			for _, x := range f.Tensors {
				if strings.HasPrefix(x.Name, "blk.5.") || !borrows && (x.Name == "token_embd.weight" || x.Name == "output.weight") {
					tensors = append(tensors, fileTensor(x.Name, x, file))
				}
			}
			data, o.MTP = randommodel.Bytes(t, kvs, tensors), false
			if k := KindOf(readHeader(t, data, "x")); k != KindMTP {
				t.Errorf("the block's file is a %s", k)
			}
		}
		head, err := openBytes(t, rt, data, "mtp.gguf", o)
		if err != nil {
			t.Fatal(err)
		}
		states := append(make([]float32, 192), statesFor(t, target, head, ids[:7])...)
		r, err := newSession(t, head, SessionOptions{}).EvalSegment(t.Context(),
			Segment{Tokens: ids, States: states, FromTarget: true, Logits: All})
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = slices.Clone(r.Logits.Data)
		}
		sameBits(t, fmt.Sprint("file ", i), r.Logits.Data, want)
	}
}
