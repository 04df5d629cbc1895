package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

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
	all  speculative.Experience // of this run and those before it
	name string
	file *output.File // nil without the flag
}

// learn opens the file of --learned. Where it does not tell the auto schedule what passes cost, that is estimated now.
func (g *generate) learn(ctx context.Context, w *writing) error {
	c, err := w.Choose(w.request.Speculation, w.request.Sampling.MaxTemperature())
	if err = requestError(err); err != nil && len(g.drafts) > 0 {
		err = fmt.Errorf("-md %s: %w", strings.Join(g.drafts, ", "), err)
	}
	if err != nil {
		return err
	}
	l := w.learned
	if g.learned != "" {
		state, err := readLearned(g.learned)
		if err != nil {
			return err
		}
		if state != nil {
			if err := l.all.Restore(state); err != nil {
				return l.unfit(err)
			}
		}
		if l.file, err = g.create(ctx, g.learned, nil); err != nil {
			return err
		}
	}
	short := g.predict >= 0 && g.predict < estimatedText && !g.conversation
	if !l.all.OfDraftVocab(c, len(w.DraftVocab())).Empty() || c.Drafter == "none" || c.Schedule != "auto" || short ||
		w.Target().Bytes() < estimatedModel {
		return nil
	}
	w.request.Costs, err = speculative.EstimateCosts(ctx, w.Target(), engine.SessionOptions{KV: g.sessions.KV})
	if ctx.Err() != nil {
		l.abort()
		return ctx.Err()
	}
	if err != nil { // a model whose first layers do not run alone: the costs are learned from the first rounds
		w.request.Costs = speculative.PassCosts{}
	}
	return nil
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

// keep writes what was learned, however the run ended: with its error failed. It returns both errors. Of a file that
// does not fit nothing is lost.
func (l *learned) keep(failed error) error {
	if errors.Is(failed, speculative.ErrState) {
		return l.unfit(failed)
	}
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
