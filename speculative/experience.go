package speculative

import (
	"encoding/json"
	"fmt"
	"sync"

	"github.com/specgo/spec/internal/strictjson"
)

// Experience is what decoders of the same target and the same kinds of drafter and schedule learn together: what
// passes cost, how often which drafts are accepted, and how much time drafts may still lose where passes are shared.
// A decoder begins with what those before it had learned when their texts ended; those whose passes are shared learn
// from each other at once. It is safe for concurrent use. The zero value knows nothing.
type Experience struct {
	mu       sync.Mutex
	learned  decoderState
	groups   [2]*group // of greedy texts, of sampled ones
	byChoice map[[2]string]*Experience
}

// Of is the part of it that decoders with the drafter and the schedule of a completed choice have in common.
func (x *Experience) Of(c Choice) *Experience {
	x.mu.Lock()
	defer x.mu.Unlock()
	key := [2]string{c.Drafter, c.Schedule}
	part := x.byChoice[key]
	if part == nil {
		if x.byChoice == nil {
			x.byChoice = map[[2]string]*Experience{}
		}
		part = &Experience{}
		x.byChoice[key] = part
	}
	return part
}

// stateVersion is the version of saved states.
const stateVersion = 1

// decoderState is what a decoder learned, as JSON.
type decoderState struct {
	Version  int             `json:"version"`
	Schedule json.RawMessage `json:"schedule,omitempty"`
	Drafter  json.RawMessage `json:"drafter,omitempty"`
}

// Save returns, as JSON, what schedule and drafter had learned when the last text ended, if they are [Learning], for
// Restore in another process. What drafts may still lose is not kept.
func (x *Experience) Save() ([]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := x.learned
	s.Version = stateVersion
	return json.Marshal(s)
}

// Restore sets what decoders begin with. It makes sense for the same models on the same machine; on another one the
// estimates adapt. What Save did not write is an error that wraps [ErrState]; what does not fit a decoder is one of
// its [Decoder.Recall].
func (x *Experience) Restore(state []byte) error {
	var s decoderState
	if err := strictjson.Unmarshal(state, &s); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	if s.Version != stateVersion {
		return fmt.Errorf("%w: version %d, known is %d", ErrState, s.Version, stateVersion)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.learned = s
	return nil
}

// group is what auto schedules of decoders whose passes are shared know together, for texts that are sampled or not.
func (x *Experience) group(sampled bool) *group {
	x.mu.Lock()
	defer x.mu.Unlock()
	g := &x.groups[0]
	if sampled {
		g = &x.groups[1]
	}
	if *g == nil {
		*g = newGroup()
	}
	return *g
}

// Recall takes over what the decoder's [Experience] holds. The first text does this by itself; before it, a caller
// learns whether the state fits. One that does not is an error that wraps [ErrState].
func (d *Decoder) Recall() error {
	if d.recalled {
		return nil
	}
	x := d.o.Experience
	x.mu.Lock()
	s := x.learned
	x.mu.Unlock()
	if l, ok := d.schedule.(Learning); ok && s.Schedule != nil {
		if err := l.Restore(s.Schedule); err != nil {
			return fmt.Errorf("schedule: %w", err)
		}
	}
	if l, ok := d.drafter.(Learning); ok && s.Drafter != nil {
		if err := l.Restore(s.Drafter); err != nil {
			return fmt.Errorf("drafter: %w", err)
		}
	}
	d.recalled = true
	return nil
}

// tell adds what the decoder learned to its Experience, if others may ask for it.
func (d *Decoder) tell() {
	if d.own || !d.recalled || d.drafter == nil {
		return
	}
	var s decoderState
	for _, part := range []struct {
		who any
		to  *json.RawMessage
	}{{d.schedule, &s.Schedule}, {d.drafter, &s.Drafter}} {
		l, ok := part.who.(Learning)
		if !ok {
			continue
		}
		state, err := l.Save()
		if err != nil {
			return // what was known stays
		}
		*part.to = state
	}
	d.o.Experience.mu.Lock()
	defer d.o.Experience.mu.Unlock()
	d.o.Experience.learned = s
}
