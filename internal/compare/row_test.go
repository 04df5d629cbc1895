package compare

import (
	"encoding/json"
	"testing"

	"github.com/specgo/spec/speculative"
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

// A repeat that was interrupted does not count beside a whole one: its passes are those of fewer prompts.
func TestInterruptedRepeat(t *testing.T) {
	s := Setting{Drafter: "model", Schedule: "auto", Verify: "greedy"}
	set := Set{Name: "code", Prompts: []Prompt{{ID: "a", Text: "x"}, {ID: "b", Text: "y"}}}
	x := &experiment{plan: Plan{Sets: []Set{set}, Settings: []Setting{s}, Repeats: 2}, cells: map[key]*cell{}}
	for _, run := range []struct{ prompt, repeat, passes int }{{0, 0, 10}, {1, 0, 30}, {0, 1, 10}} {
		for _, of := range []Setting{s.plain(), s} {
			x.record(key{of, 0, run.prompt, 0}, run.repeat, &Timed{IDs: make([]int32, 64), Seconds: 2, Before: 0.0625,
				After: 0.0625, Stats: speculative.Stats{Rounds: run.passes, TargetPasses: run.passes}})
		}
	}
	rows := x.report().Rows
	if len(rows) != 2 {
		t.Fatalf("%d rows", len(rows))
	}
	for _, row := range rows {
		if row.TargetPasses != 40 || row.NTokens != 128 || row.NRuns != 3 {
			t.Errorf("%s: %d passes of %d tokens, %d runs", row.Setting, row.TargetPasses, row.NTokens, row.NRuns)
		}
	}
}
