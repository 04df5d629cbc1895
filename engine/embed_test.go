package engine

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// encoderGolden is what an independent engine computed of an encoder of ../shared/families/encoders.
type encoderGolden struct {
	Pooling                 string
	Labels                  []string
	RMS                     float64
	Sequences, Texts, Pairs []encoderText
}

type encoderText struct {
	IDs                                 []int32
	Text, Query, Document               string
	Pooled, Normalized, Mean, CLS, Last []float64
	States                              map[string][]float64
}

func readEncoderGolden(tb testing.TB, name string) (g encoderGolden) {
	tb.Helper()
	data, err := os.ReadFile(testkit.Shared(tb, "families/encoders/golden/"+name+".json"))
	if err == nil {
		err = json.Unmarshal(data, &g)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

// encoderNames are those of the models of ../shared/families/encoders.
func encoderNames(tb testing.TB) (names []string) {
	tb.Helper()
	files, err := filepath.Glob(testkit.Shared(tb, "families/encoders/golden") + "/*.json")
	if err != nil || len(files) < 17 {
		tb.Fatal(len(files), "goldens", err)
	}
	for _, file := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(file), ".json"))
	}
	return names
}

func openEncoder(tb testing.TB, rt *Runtime, name string, o Options) *Model {
	tb.Helper()
	m, err := Open(context.Background(), rt, testkit.Shared(tb, "families/encoders/"+name+".gguf"), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(m.Close)
	return m
}

// embed is Embed of texts that do not fail.
func embed(tb testing.TB, m *Model, o EmbedOptions, texts ...[]int32) (vectors [][]float32) {
	tb.Helper()
	list, err := m.Embed(context.Background(), texts, o)
	if err != nil {
		tb.Fatal(err)
	}
	for _, e := range list {
		if e.Err != nil {
			tb.Fatal(e.Err)
		}
		vectors = append(vectors, e.Data)
	}
	return vectors
}

// Tiny encoders of every family against vectors and scores of an independent engine, which has the tanh form of GELU
// everywhere. Leaving out a part of one moves its vectors by a tenth and more of their root mean square.
func TestEncoders(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	seen := map[string]bool{"t5encoder": true, "llama-embed": true} // TestT5, TestLlamaEmbed
	for _, name := range encoderNames(t) {
		t.Run(name, func(t *testing.T) {
			g := readEncoderGolden(t, name)
			m := openEncoder(t, rt, name, Options{tanhGELU: true})
			seen[m.Config().Architecture] = true
			if p, said := m.Pooling(); !said || p.String() != g.Pooling {
				t.Errorf("pooling %v, %v; expected %v", p, said, g.Pooling)
			}
			if got := strings.Join(m.Labels(), " "); got != strings.Join(g.Labels, " ") {
				t.Errorf("labels %q, expected %q", got, g.Labels)
			}
			worst, unit := 0.0, 0.0
			near := func(worst *float64, got []float32, want []float64) {
				t.Helper()
				if len(want) == 0 {
					return
				}
				if len(got) != len(want) {
					t.Fatalf("%d numbers, expected %d", len(got), len(want))
				}
				for i, w := range want {
					*worst = max(*worst, math.Abs(float64(got[i])-w))
				}
			}
			for _, s := range append(append(g.Sequences, g.Texts...), g.Pairs...) {
				of := func(p Pooling) []float32 { return embed(t, m, EmbedOptions{Pooling: p}, s.IDs)[0] }
				near(&worst, of(PoolDefault), s.Pooled)
				near(&worst, of(PoolMean), s.Mean)
				near(&worst, of(PoolCLS), s.CLS)
				near(&worst, of(PoolLast), s.Last)
				near(&unit, embed(t, m, EmbedOptions{Pooling: PoolDefault, Normalize: true}, s.IDs)[0], s.Normalized)
				for position, want := range s.States {
					i, err := strconv.Atoi(position)
					if err != nil {
						t.Fatal(err)
					}
					d := m.Config().HiddenSize
					near(&worst, of(PoolNone)[i*d:(i+1)*d], want)
				}
			}
			t.Logf("greatest difference %.2g of the root mean square, %.2g of vectors of length 1", worst/g.RMS, unit)
			if !(worst <= 2e-5*g.RMS) || !(unit <= 1e-5) {
				t.Errorf("off by %.2g of the root mean square, and by %.2g in vectors of length 1", worst/g.RMS, unit)
			}
		})
	}
	for name, k := range kinds {
		if k.is == KindEncoder && !seen[name] {
			t.Errorf("%s: no vectors of an independent engine", name)
		}
	}
}

// TestLlamaEmbed: the states that an independent engine computed of a model drawn here.
func TestLlamaEmbed(t *testing.T) {
	file := askedFor{arch: "llama-embed", keys: modelKeys{"attention.causal": false, "pooling_type": uint32(PoolMean)},
		also: []string{"rope_freqs.weight"}}.file(t, "llama-embed")
	m, err := openBytes(t, newRuntime(t, RuntimeOptions{Threads: 1}), file, "llama-embed", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	golden, width := readDrawn(t), m.Config().HiddenSize
	states := embed(t, m, EmbedOptions{Pooling: PoolNone}, golden.IDs)[0]
	want := drawnNumbers(t, "llama-embed.f32")
	if off := offBy(rowsOf(states, golden.Rows, width), want); !(off <= 2e-5) {
		t.Errorf("the states are off by %.2g of their root mean square", off)
	}
}

// A text's vector is the same bits alone and in any company, in a pass by itself and behind others, with one thread and
// two, with scalar kernels and the machine's; also with integer weights. Texts longer than a page of positions are
// tensor's to test.
func TestEncodersOneAnswer(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	scalar := newRuntime(t, RuntimeOptions{Threads: 1, SIMD: "scalar"})
	for i, name := range encoderNames(t) {
		t.Run(name, func(t *testing.T) {
			weights := Options{Weights: []string{"", "q8_0"}[i%2]}
			m, n := openEncoder(t, rt, name, weights), 6
			if testkit.IsLong(t) {
				n = 12
			}
			var texts [][]int32
			for j := range n {
				texts = append(texts, randomTokens(1+(7*j)%m.Config().Context, m.Config().Vocab, uint64(j)))
			}
			if testkit.IsLong(t) || i%4 == 0 {
				texts = append(texts, randomTokens(m.Config().Context, m.Config().Vocab, 99))
			}
			o := EmbedOptions{Pooling: PoolNone}
			want := embed(t, m, o, texts...)
			other := embed(t, openEncoder(t, scalar, name, weights), o, texts[3:]...)
			for j, text := range texts {
				sameBits(t, "alone", embed(t, m, o, text)[0], want[j])
				if j >= 3 {
					sameBits(t, "scalar kernels, one thread, other company", other[j-3], want[j])
				}
			}
			if m.Outputs() > 0 {
				o.Pooling = PoolRank
			} else {
				o = EmbedOptions{Pooling: PoolMean, Normalize: true}
			}
			want = embed(t, m, o, texts...)
			sameBits(t, "pooled, alone", embed(t, m, o, texts[5])[0], want[5])
		})
	}
}

// TestLongEncodersOneAnswer: with more texts.
func TestLongEncodersOneAnswer(t *testing.T) {
	testkit.Long(t)
	TestEncodersOneAnswer(t)
}

// What a text cannot be fails it alone, and says so.
func TestEmbedRefuses(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	m := openEncoder(t, rt, "bert-xlmr", Options{})
	long := make([]int32, m.Config().Context+1)
	texts := [][]int32{{1, 2}, {}, {3, int32(m.Config().Vocab)}, long, {1, 2}, {-1}}
	list, err := m.Embed(t.Context(), texts, EmbedOptions{Pooling: PoolDefault})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []error{nil, ErrInput, ErrVocabulary, ErrContextFull, nil, ErrVocabulary} {
		if !errors.Is(list[i].Err, want) || (list[i].Data == nil) != (want != nil) {
			t.Errorf("text %d: %v, %d numbers; expected %v", i, list[i].Err, len(list[i].Data), want)
		}
	}
	sameBits(t, "beside bad texts", list[4].Data, list[0].Data)
	if _, err := m.Embed(t.Context(), texts, EmbedOptions{Pooling: PoolRank}); !errors.Is(err, ErrUsage) {
		t.Errorf("scores of a model without a head: %v", err)
	}
	if _, err := m.NewSession(SessionOptions{}); !errors.Is(err, ErrUsage) {
		t.Errorf("a session of an encoder: %v", err)
	}
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := m.Embed(cancelled, texts, EmbedOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled pass: %v", err)
	}
	m.Close()
	if _, err := m.Embed(t.Context(), texts, EmbedOptions{}); !errors.Is(err, ErrClosed) {
		t.Errorf("a closed model: %v", err)
	}
}

// What a text of more tokens than a pass has otherwise takes is given back behind it.
func TestLongTextsLeaveNoScratch(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	m := openDrawn(t, rt, randommodel.Llama(), Options{})
	o, short := EmbedOptions{Pooling: PoolMean}, randomTokens(20, m.config.Vocab, 1)
	kept := func() int {
		rt.t.Lock() // until the pass is over
		defer rt.t.Unlock()
		return cap(rt.pass.x) + cap(rt.pass.gate) + cap(rt.pass.q)
	}
	want := embed(t, m, o, short)[0]
	if kept() == 0 {
		t.Error("no scratch memory is kept")
	}
	embed(t, m, o, randomTokens(passRows+40, m.config.Vocab, 2))
	if n := kept(); n > 0 {
		t.Errorf("%d numbers are kept", n)
	}
	sameBits(t, "a short text behind a long one", embed(t, m, o, short)[0], want)
}
