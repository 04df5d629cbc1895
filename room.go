package spec

import (
	"fmt"
	"math"
	"sort"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

// Room is the memory, in bytes, that a model with its draft has for itself, its sequences and what is kept of finished
// ones.
type Room struct {
	Limit    int64           // of all of it; 0: none
	Machine  int64           // the machine's memory, which says what is kept where nothing else does; 0: not known
	Sessions engine.Sessions // that are computed at once; of its Rows Memory.Rows is made; its Heads are not looked at
	// DraftForm: a draft form of the target is among what takes memory. Without it requests may ask for one where there is
	// room besides all that may be kept.
	DraftForm  bool
	DraftVocab int   // tokens of Options.DraftVocab; 0: all
	DraftText  int   // Options.DraftText
	Kept       int64 // most of finished sequences; 0: see MostKept, math.MaxInt64: what is left, negative: none
}

const (
	keptMost  = 8 << 30 // where Room.Kept does not say how much is kept: as in llama.cpp
	keptShare = 8       // the part of the machine's memory that it is at most then
	// mostRows are the most rows of logits of a pass, one before the tokens that are forced and those that are drafted.
	mostRows = 1 + speculative.ForcedMost + speculative.MaxDraft
)

// MostKept is what may be kept of finished sequences, of all models of a machine; negative: nothing.
func (r Room) MostKept() int64 {
	switch {
	case r.Kept != 0:
		return r.Kept
	case r.Machine > 0:
		return min(keptMost, r.Machine/keptShare)
	}
	return keptMost
}

// MemoryError is the error of a limit that is too low. It wraps [ErrOptions].
type MemoryError struct {
	Limit int64
	Need  int64 // the least that suffices
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("%v: a limit of %d bytes of memory: %d are needed", ErrOptions, e.Limit, e.Need)
}

func (e *MemoryError) Unwrap() error { return ErrOptions }

// Divide gives a loaded model, and its draft unless that is nil, bounds with which it keeps to the room. It fails with
// a *[MemoryError] if the limit does not suffice for the weights, the sequences and what is asked to be kept. Under a
// limit each sequence has as many rows of logits as Sessions says, and those that there is room for beside all of it;
// where Sessions has none they are not counted and have no bound.
func (r Room) Divide(target, draft *engine.Model) (m Memory, err error) {
	s, d := r.Sessions, target.Describe()
	s.Heads = false // they are the draft
	// so much no machine has, and sums of it are numbers
	s.KVBytes = min(s.KVBytes, math.MaxInt64/4)
	kv, draftKV := s.Bytes(d), int64(0)
	s.Own = s.Own || r.DraftForm
	all := target.Bytes() + kv + s.Pass(d)
	if draft != nil {
		if !sharesCache(draft) {
			draftKV = s.Bytes(draft.Describe())
		}
		all += draft.Bytes() + draftKV + s.DraftPass(draft.Describe())
		if r.DraftVocab > 0 {
			all += draft.DraftVocabBytes(r.DraftVocab, draftText(r.DraftText))
		}
	}
	form := target.DraftFormBytes(r.DraftVocab, draftText(r.DraftText))
	later := int64(0) // asked for by a request: the form, and the logits of its drafts
	if r.DraftForm {
		m.DraftForm = form
		all += form
	} else if later = form; form > 0 && !s.Own {
		later += s.OwnDrafts(d)
	}
	left := int64(math.MaxInt64)
	asked := min(r.asked(), math.MaxInt64-all) // the sum is one, too, where nearly all numbers are asked for
	switch {
	case r.Limit > 0 && all+asked > r.Limit:
		return m, &MemoryError{r.Limit, all + asked}
	case r.Limit > 0:
		left = r.Limit - all
	case r.Machine > 0 && r.Kept == 0:
		left = engine.MostMemory(r.Machine) - all
	}
	if !r.DraftForm && left-later >= max(r.MostKept(), 0) { // where nothing is kept less for it
		m.DraftForm = form
	} else {
		later = 0
	}
	if m.Cache = min(r.MostKept(), left); m.Cache <= 0 {
		m.Cache = -1
	}
	if r.Limit > 0 {
		spare := left - max(m.Cache, 0) - later
		if s.Own = false; d.TextRow > 0 {
			m.Text, spare = max(s.Pass(d)-s.Logits(d)+spare, 1), 0
		}
		m.Rows = rowsWithin(s, d, spare)
	}
	m.KV, m.DraftKV = s.KVBytes, s.KVBytes
	if r.Limit > 0 && s.KVBytes == 0 && kv > 0 { // what is kept comes beside what is computed
		more := max(m.Cache, 0)
		ofDraft := int64(float64(more) * float64(draftKV) / float64(kv+draftKV))
		m.KV, m.DraftKV = kv+more-ofDraft, draftKV+ofDraft
	}
	return m, nil
}

// rowsWithin is how many rows of logits a pass may have of each sequence: those that are planned, and as many more as
// so many bytes are room for. 0: none are planned, and there is no bound.
func rowsWithin(s engine.Sessions, d *engine.Description, bytes int64) int {
	if s.Rows == 0 {
		return 0
	}
	return s.Rows + sort.Search(mostRows, func(n int) bool {
		more := s
		more.Rows += n + 1
		return more.Logits(d)-s.Logits(d) > bytes
	})
}

// asked is what must be kept under the limit: what Kept does not say is what is left.
func (r Room) asked() int64 {
	if r.Kept <= 0 || r.Kept == math.MaxInt64 || r.Sessions.KVBytes > 0 {
		return 0
	}
	return r.Kept
}
