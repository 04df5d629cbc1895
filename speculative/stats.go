package speculative

import "time"

// End is the reason why a text ended.
type End string

const (
	EndOfText   End = "eog"      // the model wrote an end-of-text token
	EndStop     End = "stop"     // a stop string
	EndLength   End = "length"   // the token budget
	EndContext  End = "context"  // no room for another token
	EndComplete End = "complete" // the constraint allows no more text, and no end-of-text token
	EndCancel   End = "cancel"   // the context was cancelled, or the consumer left the loop
	EndError    End = "error"
)

// Stats are the figures of one text. Times are in seconds.
type Stats struct {
	Prompt    int `json:"n_prompt"`
	Reused    int `json:"n_prompt_reused"` // prompt tokens that were in the target's cache
	Generated int `json:"n_generated"`     // accepted and forced tokens and the target's own
	Rounds    int `json:"n_rounds"`
	Drafted   int `json:"n_drafted"`  // and verified: not those that memory was refused for
	Accepted  int `json:"n_accepted"` // those that became part of the text
	// tokens that a constraint left no choice about, verified as drafts; not counted in n_drafted
	Forced         int     `json:"n_forced"`
	ForcedAccepted int     `json:"n_forced_accepted"` // those that became part of the text; not counted in n_accepted
	Previous       Drafts  `json:"previous"`          // of the drafted tokens those of an earlier answer
	TargetPasses   int     `json:"n_target_passes"`   // none that was cancelled or failed
	TargetTokens   int     `json:"n_target_tokens"`   // in these passes
	DraftPasses    int     `json:"n_draft_passes"`
	PrefillPasses  int     `json:"n_prefill_passes"` // of the target over the prompt, not counted in n_target_passes
	Prefill        float64 `json:"prefill_seconds"`
	Draft          float64 `json:"draft_seconds"`
	Verify         float64 `json:"verify_seconds"`
	Other          float64 `json:"other_seconds"` // the rest, with the time that the caller took
	Total          float64 `json:"total_seconds"`
	TokensPerPass  float64 `json:"tokens_per_target_pass"`
	DraftedAt      []int   `json:"drafted_per_position"`  // rounds that drafted a 1st, 2nd, ... token
	AcceptedAt     []int   `json:"accepted_per_position"` // rounds that accepted it
	End            End     `json:"end_reason"`
}

// Drafts counts drafted tokens.
type Drafts struct {
	Drafted  int `json:"n_drafted"`
	Accepted int `json:"n_accepted"`
}

// trim drops the zeros at the end.
func trim(n []int) []int {
	for len(n) > 0 && n[len(n)-1] == 0 {
		n = n[:len(n)-1]
	}
	return n
}

// times is how long the parts of a text took.
type times struct {
	running                      bool // a text is under way
	begun, total                 time.Duration
	prefill, drafting, verifying time.Duration
}
