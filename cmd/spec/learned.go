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

// learned is the file of --learned.
type learned struct {
	experience speculative.Experience
	name       string
	file       *output.File // nil without the flag
	state      []byte       // what was kept by an earlier run; nil: nothing
}

// learn opens the file of --learned. Where it does not tell the auto schedule what passes cost, that is estimated now.
func (g *generate) learn(ctx context.Context, target *engine.Model, drafter speculative.Drafter) (*learned, error) {
	l := &learned{name: g.learned}
	if g.learned != "" {
		state, err := readLearned(g.learned)
		if err != nil {
			return nil, err
		}
		if l.file, err = g.create(ctx, g.learned, nil); err != nil {
			return nil, err
		}
		l.state = state
	}
	auto := g.chosen(g.model).Complete(nil, nil).Schedule == "auto"
	short := g.predict >= 0 && g.predict < estimatedText && !g.conversation
	if l.state != nil || drafter == nil || !auto || short || target.Bytes() < estimatedModel {
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

// restore gives a decoder what an earlier run learned.
func (l *learned) restore(d *speculative.Decoder) error {
	if l.state == nil {
		return nil
	}
	err := l.experience.Restore(l.state)
	if err == nil {
		err = d.Recall()
	}
	if err != nil {
		return fmt.Errorf("%s: %w (other models or another drafter? delete it to begin anew)", l.name, err)
	}
	return nil
}

// keep writes what was learned.
func (l *learned) keep() error {
	if l.file == nil {
		return nil
	}
	state, err := l.experience.Save()
	if err != nil {
		return err
	}
	if _, err := l.file.Write(append(state, '\n')); err != nil {
		return err
	}
	return l.file.Commit()
}

func (l *learned) abort() {
	if l.file != nil {
		l.file.Abort()
	}
}
