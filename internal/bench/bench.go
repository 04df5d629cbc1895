// Package bench measures what a model's passes cost on this machine: prefill, decoding, verification of several
// tokens at once, and batches of sequences, or of an encoder the vectors of texts, each beside the time that reading
// the weights alone would take.
package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/specgo/spec/engine"
)

// Options say what to measure. An empty list leaves its rows out.
type Options struct {
	Prefill  []int // tokens of a prompt
	Contexts []int // tokens before those that are decoded
	Verify   []int // tokens of a verification pass, at an empty context
	Batches  []int // sequences decoded together

	Decode  int           // tokens that a repeat decodes
	Sampled int           // tokens that a sequence of a batch samples
	Repeats int           // of every row but the batches, whose passes are repeats of each other
	Budget  time.Duration // a row that has taken this long is not repeated; 0 is no limit

	// Memory measures the memory's bandwidth in bytes per second. It is called in every repeat, between the passes,
	// because on a shared machine it changes from second to second. nil leaves it out.
	Memory func() (float64, error)

	Draft      *engine.Model // the draft model or head whose steps are measured too; nil: none
	DraftVocab int           // tokens whose logits they are, the first ones; 0: all
	DraftText  int           // tokens of its own text beside them, at most

	Text []int32 // tokens of prompts, from its beginning to its end and again; nil: random ones

	Weights int64  // bytes of weights that a pass reads; of an encoder-decoder model, one of the decoder
	Encoder int64  // that an encoder reads for its input; 0 without one
	KV      string // storage of the cache, as in engine.SessionOptions
}

// Row is one measurement.
type Row struct {
	// prefill, encode (of an encoder-decoder model, instead of prefill), decode, verify, draft or batch; of an encoder
	// alone, text (one by itself) or texts (several together)
	Kind string `json:"kind"`
	// in a pass: of the prompt or the encoder's input, 1, those verified, or one of each sequence; of all texts
	Tokens  int `json:"n_tokens"`
	Context int `json:"context"` // tokens before them
	Repeats int `json:"repeats"` // passes timed

	TokensPerSecond float64 `json:"tokens_per_second"` // Tokens / PassSeconds
	PassSeconds     float64 `json:"pass_seconds"`      // the median; of a batch with the sampling
	StdDev          float64 `json:"stddev"`            // of the passes' seconds

	// BandwidthFraction is Bytes / PassSeconds over the memory's bandwidth.
	BandwidthFraction float64 `json:"bandwidth_fraction"`

	// RatioToDecode compares with decoding at an empty context: for decode, draft and verify the time of a pass over
	// that of a decoding pass (the cost of verification), for prefill and batch the tokens per second over those of
	// decoding.
	RatioToDecode float64 `json:"ratio_to_decode"`

	// Bytes is what a pass must read at least: the weights once, and the keys and values of all positions before its
	// tokens.
	Bytes float64 `json:"-"`
}

// runner is the state of a measurement.
type runner struct {
	ctx    context.Context
	m      *engine.Model
	o      Options
	rng    *rand.Rand
	taken  int       // tokens of Options.Text
	decode float64   // seconds of a decoding pass at an empty context
	memory []float64 // results of Options.Memory
}

// Run measures all rows, and the memory's bandwidth in bytes per second, the median. Each row is handed to report as
// soon as it is complete.
func Run(ctx context.Context, m *engine.Model, o Options, report func(Row)) (rows []Row, bandwidth float64, err error) {
	o.Repeats = max(o.Repeats, 1)
	r := &runner{ctx: ctx, m: m, o: o, rng: rand.New(rand.NewPCG(1, 2))}
	add := func(more []Row, err error) error {
		if len(r.memory) > 0 {
			bandwidth = median(r.memory)
		}
		for _, row := range more { // what it is compared with may come behind a row
			if row.Kind == "decode" && row.Context == 0 {
				r.decode = row.PassSeconds
			}
		}
		for _, row := range more {
			r.finish(&row, bandwidth)
			rows = append(rows, row)
			report(row)
		}
		return err
	}
	if Vectors(m) {
		err := r.vectors(add)
		return rows, bandwidth, err
	}
	// Decoding comes first: the others are compared with it.
	if err := add(r.passes()); err != nil {
		return rows, bandwidth, err
	}
	if o.Draft != nil {
		if err := add(r.draft()); err != nil {
			return rows, bandwidth, err
		}
	}
	prompts := r.prefill
	if m.Encodes() {
		prompts = r.encode
	}
	for _, n := range o.Prefill {
		if err := add(prompts(n)); err != nil {
			return rows, bandwidth, err
		}
	}
	for _, n := range o.Batches {
		if err := add(r.batch(n)); err != nil {
			return rows, bandwidth, err
		}
	}
	return rows, bandwidth, nil
}

// finish computes what follows from the times.
func (r *runner) finish(row *Row, bandwidth float64) {
	row.TokensPerSecond = float64(row.Tokens) / row.PassSeconds
	switch {
	case r.decode == 0:
	case row.Kind == "decode" || row.Kind == "verify" || row.Kind == "draft":
		row.RatioToDecode = row.PassSeconds / r.decode
	default:
		row.RatioToDecode = row.TokensPerSecond * r.decode
	}
	if bandwidth > 0 {
		row.BandwidthFraction = row.Bytes / row.PassSeconds / bandwidth
	}
}

// PositionBytes is what a session of the model keeps of a position that all layers look at. kv is as
// engine.SessionOptions has it.
func PositionBytes(m *engine.Model, kv string) (n int64) {
	for _, c := range m.Caches(0) {
		one, err := c.Bytes(kv)
		if err != nil {
			one, _ = c.Bytes("f16") // a session refuses the name
		}
		n += one
	}
	return n
}

// tokens returns random tokens, or the next ones of the text: the speed depends on it only where experts are chosen.
func (r *runner) tokens(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		if len(r.o.Text) > 0 {
			ids[i] = r.o.Text[r.taken%len(r.o.Text)]
			r.taken++
			continue
		}
		ids[i] = r.rng.Int32N(int32(r.m.Config().Vocab))
	}
	return ids
}

// encoderInput is the tokens of the encoder's input that an encoder-decoder model's decoder is measured with: those
// of a sentence.
const encoderInput = 32

// session returns a session for n tokens, or an error that names what does not fit.
func (r *runner) session(what string, n int) (*engine.Session, error) {
	if most := r.m.Config().Context; n > most {
		return nil, fmt.Errorf("%s needs a context of %d tokens, the model has %d", what, n, most)
	}
	s, err := r.m.NewSession(engine.SessionOptions{Context: n, KV: r.o.KV})
	if err == nil && r.m.Encodes() {
		if err = s.Encode(r.ctx, r.tokens(encoderInput)); err != nil {
			s.Close()
		}
	}
	return s, err
}

// timed runs a pass and returns its seconds.
func timed(pass func() error) (float64, error) {
	start := time.Now()
	err := pass()
	return time.Since(start).Seconds(), err
}

// summary makes a row of the times of its passes. positions is how many positions' keys and values a pass reads.
func (r *runner) summary(kind string, tokens, context, positions int, seconds []float64) Row {
	sum, squares := 0.0, 0.0
	for _, s := range seconds {
		sum += s
	}
	mean := sum / float64(len(seconds))
	for _, s := range seconds {
		squares += (s - mean) * (s - mean)
	}
	row := Row{Kind: kind, Tokens: tokens, Context: context, Repeats: len(seconds), PassSeconds: median(seconds),
		Bytes: float64(r.o.Weights) + float64(positions)*float64(PositionBytes(r.m, r.o.KV))}
	if len(seconds) > 1 {
		row.StdDev = math.Sqrt(squares / float64(len(seconds)-1))
	}
	return row
}

func median(x []float64) float64 {
	x = slices.Sorted(slices.Values(x))
	if n := len(x); n%2 == 0 {
		return (x[n/2-1] + x[n/2]) / 2
	}
	return x[len(x)/2]
}
