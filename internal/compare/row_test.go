package compare

import (
	"encoding/json"
	"testing"
)

// The names and the order of a row's fields in JSON stay as they are, whatever parts a row is made of.
func TestRowJSON(t *testing.T) {
	const want = `{"prompts":"","weights":"","temperature":0,"drafter":"","schedule":"","verify":"","draft_max":0,` +
		`"draft_p_min":0,"kernels":"","n_prompts":0,"n_runs":0,"n_tokens":0,"tokens_per_second":0,"plain_tokens_per_second":0,"seconds":0,"speedup":0,` +
		`"speedup_median":0,"speedup_low":0,"speedup_high":0,"speedup_estimate":{"value":0,"low":0,"high":0,"n":0},` +
		`"by_prompt":null,"formula_speedup":0,"n_capped":0,"speedup_over_first_weights":0,` +
		`"speedup_over_first_kernels":{"value":0,"low":0,"high":0,"n":0},"acceptance":0,"alpha":0,` +
		`"tokens_per_target_pass":0,"n_drafted":0,"n_accepted":0,"n_target_passes":0,"n_draft_passes":0,` +
		`"drafted_per_position":null,"accepted_per_position":null,"oracle_target_passes":null,"oracle_draft_passes":null,"draft_seconds":0,"verify_seconds":0,` +
		`"bleu":0,"bleu_first":0,"identity_promised":false,"identical":false,"draft_length_by_round":null,"run_seconds":null}`
	got, err := json.Marshal(Row{})
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s\nwant\n%s", err, got, want)
	}
}
