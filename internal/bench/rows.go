package bench

import (
	"fmt"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
)

// passRow is a row of short passes: decoding, or verification of several tokens.
type passRow struct {
	kind    string
	tokens  int // of a pass
	context int
	passes  int // of a repeat
	session *engine.Session
	ids     []int32
	seconds []float64
	spent   float64
}

// passes measures decoding and verification. A repeat does some passes of every row in turn: what else happens on
// the machine then hits all of them alike, and their ratios can be trusted.
func (r *runner) passes() ([]Row, error) {
	var rows []*passRow
	if r.o.Decode > 0 {
		for _, c := range r.o.Contexts {
			rows = append(rows, &passRow{kind: "decode", tokens: 1, context: c, passes: r.o.Decode})
		}
	}
	for _, k := range r.o.Verify {
		rows = append(rows, &passRow{kind: "verify", tokens: k, passes: max(4, r.o.Decode/4)})
	}
	for _, row := range rows {
		s, err := r.session(fmt.Sprintf("%s of %d at %d", row.kind, row.tokens, row.context),
			row.context+max(row.tokens, row.passes))
		if err != nil {
			return nil, err
		}
		defer s.Close()
		row.session, row.ids = s, r.tokens(max(row.tokens, row.passes))
		if row.context > 0 {
			if _, err := s.Eval(r.ctx, r.tokens(row.context), nil, engine.None); err != nil {
				return nil, err
			}
		}
		if err := r.repeat(row); err != nil { // untimed: memory and caches settle
			return nil, err
		}
		row.seconds, row.spent = nil, 0
	}
	for range r.o.Repeats {
		if r.o.Memory != nil {
			speed, err := r.o.Memory()
			if err != nil {
				return nil, err
			}
			r.memory = append(r.memory, speed)
		}
		for _, row := range rows {
			if r.o.Budget > 0 && row.spent > r.o.Budget.Seconds() {
				continue
			}
			if err := r.repeat(row); err != nil {
				return nil, err
			}
		}
	}
	var out []Row
	for _, row := range rows {
		out = append(out, r.summary(row.kind, row.tokens, row.context, row.context, row.seconds))
	}
	return out, nil
}

// repeat times row.passes passes: of one token after the other, or of the same tokens again and again.
func (r *runner) repeat(row *passRow) error {
	for i := range row.passes {
		ids := row.ids[:row.tokens]
		if row.kind == "decode" {
			ids = row.ids[i : i+1]
		}
		if row.kind == "verify" || i == 0 {
			if err := row.session.Truncate(row.context); err != nil {
				return err
			}
		}
		t, err := timed(func() error {
			_, err := row.session.Eval(r.ctx, ids, nil, engine.All)
			return err
		})
		if err != nil {
			return err
		}
		row.seconds = append(row.seconds, t)
		row.spent += t
	}
	return nil
}

// prefill measures a prompt of n tokens, of whose last one the logits are wanted.
func (r *runner) prefill(n int) ([]Row, error) {
	s, err := r.session(fmt.Sprintf("prefill of %d", n), n)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	ids := r.tokens(n)
	seconds, err := r.repeated(func() error {
		if err := s.Truncate(0); err != nil {
			return err
		}
		_, err := s.Eval(r.ctx, ids, nil, engine.Last)
		return err
	})
	if err != nil {
		return nil, err
	}
	return []Row{r.summary("prefill", n, 0, 0, seconds)}, nil
}

// repeated times a pass as often as the options say, after one that is not timed because it allocates.
func (r *runner) repeated(pass func() error) (seconds []float64, err error) {
	spent := 0.0
	for i := range r.o.Repeats + 1 {
		t, err := timed(pass)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			seconds = append(seconds, t)
		}
		if spent += t; r.o.Budget > 0 && spent > r.o.Budget.Seconds() && i > 0 {
			break
		}
	}
	return seconds, nil
}

// encode measures an encoder's input of n tokens, with the keys and values that the decoder looks at.
func (r *runner) encode(n int) ([]Row, error) {
	s, err := r.session(fmt.Sprintf("an input of %d", n), 1)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	ids := r.tokens(n)
	seconds, err := r.repeated(func() error { return s.Encode(r.ctx, ids) })
	if err != nil {
		return nil, err
	}
	row := r.summary("encode", n, 0, 0, seconds)
	row.Bytes = float64(r.o.Encoder)
	return []Row{row}, nil
}

// BatchPrompt is how many tokens a sequence of a batch begins with.
const BatchPrompt = 8

// batch measures n sequences, of different beginnings and seeds, that each sample one token in every pass.
func (r *runner) batch(n int) ([]Row, error) {
	var (
		batch    = make(engine.Batch, n)
		samplers = make([]*sampling.Sampler, n)
		tokens   = make([]int32, n)
		seconds  []float64
	)
	for i := range batch {
		s, err := r.session(fmt.Sprintf("a batch of %d", n), BatchPrompt+r.o.Sampled)
		if err != nil {
			return nil, err
		}
		defer s.Close()
		if samplers[i], err = sampling.New(r.m.Config().Vocab,
			engine.Sampling{Temperature: 0.8, Seed: uint64(i)}); err != nil {
			return nil, err
		}
		batch[i] = engine.Segment{Session: s, Tokens: r.tokens(BatchPrompt), Logits: engine.Last}
	}
	for i := range r.o.Sampled + 1 {
		t, err := timed(func() error {
			results, err := r.m.Forward(r.ctx, batch)
			if err != nil {
				return err
			}
			for _, one := range results {
				if one.Err != nil {
					return one.Err
				}
			}
			r.m.Runtime().Parallel(n, func(j int) {
				tokens[j] = samplers[j].Pick(results[j].Logits.Row(0), batch[j].Session.Tokens())
				batch[j].Tokens = tokens[j : j+1]
			})
			return nil
		})
		if err != nil {
			return nil, err
		}
		if i > 0 { // the first pass is the prompts'
			seconds = append(seconds, t)
		}
	}
	return []Row{r.summary("batch", n, BatchPrompt, n*(BatchPrompt+r.o.Sampled/2), seconds)}, nil
}
