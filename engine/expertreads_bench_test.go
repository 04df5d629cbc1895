package engine

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/specgo/spec/internal/synth"
)

// BenchmarkExpertsOfTrees counts what verifying drafts reads of experts, by the engine's own count: of a drawn model
// (8 of 128 experts in 12 layers), 60 drafts of texts that it writes itself at temperature 1, as a chain of the tokens
// that it gives the most, and as a tree of as many tokens: that chain, half as long, with the second token beside each.
// Figures are multiples of what one row reads: of all that a pass reads, and of experts alone.
//
//	go test ./engine -run '^$' -bench ExpertsOfTrees -benchtime 1x
func BenchmarkExpertsOfTrees(b *testing.B) {
	file, err := synth.Random(synth.Shape{Name: "drawn", Architecture: "qwen3moe", Context: 2048, Vocab: 4096,
		HiddenSize: 512, Layers: 12, Heads: 8, KVHeads: 2, FeedForward: 128, RopeBase: 1e6, HeadDim: 64, Experts: 128,
		ExpertsUsed: 8}, "q8_0")
	if err != nil {
		b.Fatal(err)
	}
	m, err := New(b.Context(), newRuntime(b, RuntimeOptions{}), file, file.Size(), Options{})
	if err != nil {
		b.Fatal(err)
	}
	const texts, drafts, prompt = 6, 10, 24
	for _, k := range []int{4, 8} {
		b.Run(fmt.Sprintf("drafted=%d", k), func(b *testing.B) {
			var chain, tree treeReads
			for range b.N {
				chain, tree = treeReads{}, treeReads{}
				for text := range texts {
					w := &treeWriter{b: b, m: m, s: newSession(b, m, SessionOptions{}), rng: rand.New(rand.NewPCG(uint64(text), 1))}
					tokens := make([]int32, prompt)
					for i := range tokens {
						tokens[i] = int32(w.rng.IntN(m.Config().Vocab))
					}
					w.feed(tokens)
					for range drafts {
						w.draft(k)
						chain.add(w, w.first, w.chainParents)
						tree.add(w, w.both, w.bothParents)
						w.feed([]int32{w.sampled})
					}
				}
			}
			b.ReportMetric(chain.all/float64(chain.n), "chain-reads")
			b.ReportMetric(tree.all/float64(tree.n), "tree-reads")
			b.ReportMetric(chain.experts/float64(chain.n), "chain-experts")
			b.ReportMetric(tree.experts/float64(tree.n), "tree-experts")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// treeReads sums what passes read, as multiples of what their first row does.
type treeReads struct {
	all, experts float64
	n            int
}

func (r *treeReads) add(w *treeWriter, tokens, parents []int32) {
	n := w.s.Len()
	if _, err := w.s.Eval(w.b.Context(), tokens, parents, None); err != nil {
		w.b.Fatal(err)
	}
	read := &w.m.rt.pass.routing.read
	if read.rows != len(tokens) {
		w.b.Fatalf("%d of %d rows are counted", read.rows, len(tokens))
	}
	last, one := float64(read.bytes[read.rows-1]), float64(read.bytes[0])
	r.all += (float64(w.m.dense) + last) / (float64(w.m.dense) + one)
	r.experts += last / one
	r.n++
	if err := w.s.Truncate(n); err != nil {
		w.b.Fatal(err)
	}
}

// treeWriter is a text and its drafts: each begins with the text's next token.
type treeWriter struct {
	b                                      *testing.B
	m                                      *Model
	s                                      *Session
	rng                                    *rand.Rand
	logits                                 []float32
	sampled                                int32
	first, chainParents, both, bothParents []int32
}

// feed adds tokens to the text and draws the next one.
func (w *treeWriter) feed(tokens []int32) {
	out, err := w.s.Eval(w.b.Context(), tokens, nil, Last)
	if err != nil {
		w.b.Fatal(err)
	}
	w.logits = append(w.logits[:0], out.Row(0)...)
	w.sampled = sampleOf(w.logits, w.rng)
}

// draft makes a chain of k tokens behind the text's next one, and a tree of as many.
func (w *treeWriter) draft(k int) {
	w.first, w.chainParents = []int32{w.sampled}, []int32{-1}
	w.both, w.bothParents = []int32{w.sampled}, []int32{-1}
	n, at := w.s.Len(), int32(0)
	for i := range k {
		out, err := w.s.Eval(w.b.Context(), w.first[i:], nil, Last)
		if err != nil {
			w.b.Fatal(err)
		}
		x, y := twoBest(out.Row(0))
		w.first, w.chainParents = append(w.first, x), append(w.chainParents, int32(i))
		if i < k/2 {
			w.both, w.bothParents = append(w.both, x, y), append(w.bothParents, at, at)
			at = int32(len(w.both) - 2)
		}
	}
	if err := w.s.Truncate(n); err != nil {
		w.b.Fatal(err)
	}
}

// twoBest are the tokens of the two largest logits.
func twoBest(logits []float32) (x, y int32) {
	x, y = 0, 1
	if logits[1] > logits[0] {
		x, y = 1, 0
	}
	for i := int32(2); int(i) < len(logits); i++ {
		switch {
		case logits[i] > logits[x]:
			x, y = i, x
		case logits[i] > logits[y]:
			y = i
		}
	}
	return x, y
}

// sampleOf draws a token at temperature 1.
func sampleOf(logits []float32, rng *rand.Rand) (best int32) {
	most := float32(0)
	for i, x := range logits {
		if x += float32(-math.Log(rng.ExpFloat64())); i == 0 || x > most {
			best, most = int32(i), x
		}
	}
	return best
}
