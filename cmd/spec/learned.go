package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/specgo/spec/cmd/spec/internal/output"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

const (
	// estimatedModel is the weights in memory from which pass times are estimated before the first round: of a smaller
	// model the estimate reads so large a part that learning them on the way takes less.
	estimatedModel = 256 << 20
	// estimatedText is the tokens of a text from which that is worth its time, about that of one token.
	estimatedText = 32
)

// learned is what the decoder of this run learns, and the file of --learned.
type learned struct {
	all  speculative.Experience  // of this run and those before it
	own  *speculative.Experience // the part that this run's drafter and schedule learn
	name string
	file *output.File // nil without the flag
}

// learn opens the file of --learned for a completed choice. Where it does not tell the auto schedule what passes cost,
// that is estimated now.
func (g *generate) learn(ctx context.Context, target *engine.Model, c speculative.Choice) (l *learned, err error) {
	l = &learned{name: g.learned}
	l.own = l.all.Of(c)
	if g.learned != "" {
		state, err := readLearned(g.learned)
		if err != nil {
			return nil, err
		}
		if state != nil {
			if err := l.all.Restore(state); err != nil {
				return nil, l.unfit(err)
			}
		}
		if l.file, err = g.create(ctx, g.learned, nil); err != nil {
			return nil, err
		}
	}
	short := g.predict >= 0 && g.predict < estimatedText && !g.conversation
	if !l.own.Empty() || c.Drafter == "none" || c.Schedule != "auto" || short || target.Bytes() < estimatedModel {
		return l, nil
	}
	kv, err := g.cache.kvType()
	if err != nil {
		l.abort()
		return nil, err
	}
	g.costs, err = speculative.EstimateCosts(ctx, target, engine.SessionOptions{KV: kv})
	if ctx.Err() != nil {
		l.abort()
		return nil, ctx.Err()
	}
	if err != nil { // a model whose first layers do not run alone: the costs are learned from the first rounds
		g.costs = speculative.PassCosts{}
	}
	return l, nil
}

// unfit says that the file holds what cannot be used.
func (l *learned) unfit(err error) error {
	return fmt.Errorf("%s: %w (of other models? delete it to begin anew)", l.name, err)
}

// longestLearned is the most bytes of a file of --learned.
const longestLearned = 16 << 20

// readLearned reads what an earlier run wrote; nil where there is no file, or a device.
func readLearned(name string) ([]byte, error) {
	info, err := os.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, nil
	case info.Size() > longestLearned:
		return nil, fmt.Errorf("%s: %d bytes: what was learned takes at most %d", name, info.Size(), longestLearned)
	}
	return os.ReadFile(name)
}

// recall gives a decoder what an earlier run learned.
func (l *learned) recall(d *speculative.Decoder) error {
	if err := d.Recall(); err != nil {
		return l.unfit(err)
	}
	return nil
}

// keep writes what was learned, however the run ended: with its error failed. It returns both errors.
func (l *learned) keep(failed error) error {
	if l.file == nil {
		return failed
	}
	state, err := l.all.Save()
	if err != nil {
		return errors.Join(failed, err)
	}
	if _, err := l.file.Write(append(state, '\n')); err != nil {
		return errors.Join(failed, err)
	}
	return errors.Join(failed, l.file.Commit())
}

func (l *learned) abort() {
	if l.file != nil {
		l.file.Abort()
	}
}
