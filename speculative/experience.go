package speculative

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/specgo/spec/internal/strictjson"
)

// Experience is what decoders of the same target and the same kinds of drafter and schedule learn together: what
// passes cost, how often which drafts are accepted, and how much time drafts may still lose where passes are shared.
// A decoder begins with what those before it had learned when their texts ended; those whose passes are shared learn
// from each other at once. It is safe for concurrent use. The zero value knows nothing.
type Experience struct {
	mu       sync.Mutex
	learned  learnedState
	groups   [2]*group // of greedy texts, of sampled ones
	byChoice map[[2]string]*Experience
}

// Of is the part of it that decoders with the drafter and the schedule of a completed choice have in common.
func (x *Experience) Of(c Choice) *Experience {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.of([2]string{c.Drafter, c.Schedule})
}

// OfDraftVocab is Of where what drafts has a draft vocabulary of so many tokens; 0: all.
func (x *Experience) OfDraftVocab(c Choice, tokens int) *Experience {
	if tokens > 0 {
		c.Drafter = fmt.Sprintf("%s, of %d tokens", c.Drafter, tokens)
	}
	return x.Of(c)
}

// of is Of under the lock.
func (x *Experience) of(choice [2]string) *Experience {
	part := x.byChoice[choice]
	if part == nil {
		if x.byChoice == nil {
			x.byChoice = map[[2]string]*Experience{}
		}
		part = &Experience{}
		x.byChoice[choice] = part
	}
	return part
}

// Empty reports whether it knows nothing that Save would keep, its parts left out.
func (x *Experience) Empty() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.learned.Schedule == nil && x.learned.Drafter == nil
}

// stateVersion is the version of saved states.
const stateVersion = 1

// learnedState is what the schedule and the drafter of a decoder learned, as JSON.
type learnedState struct {
	Schedule json.RawMessage `json:"schedule,omitempty"`
	Drafter  json.RawMessage `json:"drafter,omitempty"`
}

// experienceState is an Experience as JSON, with its parts.
type experienceState struct {
	Version  int             `json:"version"`
	Schedule json.RawMessage `json:"schedule,omitempty"`
	Drafter  json.RawMessage `json:"drafter,omitempty"`
	Choices  []choiceState   `json:"choices,omitempty"`
}

// choiceState is a part of an Experience, with the names of its drafter and its schedule.
type choiceState struct {
	Of       [2]string       `json:"of"`
	Schedule json.RawMessage `json:"schedule,omitempty"`
	Drafter  json.RawMessage `json:"drafter,omitempty"`
}

// Save returns, as JSON, what schedules and drafters had learned when their last texts ended, if they are [Learning],
// for Restore in another process; that of every part (Of), those which nobody used since Restore among them. What
// drafts may still lose is not kept.
func (x *Experience) Save() ([]byte, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	s := experienceState{Version: stateVersion, Schedule: x.learned.Schedule, Drafter: x.learned.Drafter}
	for choice, part := range x.byChoice {
		if !part.Empty() {
			l := part.now()
			s.Choices = append(s.Choices, choiceState{choice, l.Schedule, l.Drafter})
		}
	}
	slices.SortFunc(s.Choices, func(a, b choiceState) int { return slices.Compare(a.Of[:], b.Of[:]) })
	return json.Marshal(s)
}

// now is what decoders begin with.
func (x *Experience) now() learnedState {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.learned
}

// Restore sets what decoders begin with. It makes sense for the same models on the same machine; on another one the
// estimates adapt. What Save did not write is an error that wraps [ErrState]; what does not fit a decoder is one of
// its [Decoder.Recall].
func (x *Experience) Restore(state []byte) error {
	var s experienceState
	if err := strictjson.Unmarshal(state, &s); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	if s.Version != stateVersion {
		return fmt.Errorf("%w: version %d, known is %d", ErrState, s.Version, stateVersion)
	}
	for i, c := range s.Choices {
		if i > 0 && slices.Compare(s.Choices[i-1].Of[:], c.Of[:]) >= 0 {
			return fmt.Errorf("%w: the parts of %q are not in order", ErrState, c.Of)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.learned = learnedState{s.Schedule, s.Drafter}
	for _, c := range s.Choices {
		part := x.of(c.Of)
		part.mu.Lock()
		part.learned = learnedState{c.Schedule, c.Drafter}
		part.mu.Unlock()
	}
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

// group is what the auto schedules of decoders whose passes a scheduler shares know together. A text's own acceptance
// counts beside it. Drafts may lose only so much of the time in comparison to plain decoding under the same load, all
// of them together: the sum over all decoders of what their rounds cost, less what the same tokens cost in passes
// that nobody drafts for.
type group struct {
	mu         sync.Mutex
	acceptance acceptanceModel
	steps      draftSteps
	longest    int     // draft verified
	lanes      int     // drafters of a decoder
	elapsed    float64 // seconds, of all decoders
	lost       float64 // seconds; negative: gained
	pace       pace    // its seconds in units of a plain token at that time

	claimed   float64 // seconds that drafters are about to take to catch up
	exploring bool    // a decoder makes a draft that is longer than any before

	drafts   passAnswer // drafts may be made together
	together float64    // elapsed when that was last done
	gained   float64    // seconds that drafts gained lately, before
	pass     int64      // this one, in which they gained
	fresh    float64    // so many: not all decoders may have told

	plain passAnswer // the next pass is to have no drafts
}

// passAnswer is an answer that all decoders of a pass share: that of the first one that asks after the pass.
type passAnswer struct {
	pass int64
	yes  bool
}

// after gives the answer after a pass.
func (a *passAnswer) after(pass int64, decide func() bool) bool {
	if pass != a.pass {
		a.pass, a.yes = pass, decide()
	}
	return a.yes
}

func newGroup() *group {
	g := &group{lanes: 1}
	g.acceptance.reset()
	return g
}
