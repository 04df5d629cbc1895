package main

import (
	"encoding/csv"
	"encoding/json"
	"strings"
	"testing"
)

// A server of this program writes the same texts, to the last character; one of other weights is told where it does
// not. Both are in every form of the results.
func TestCompareAgainstServers(t *testing.T) {
	same, stop := started(t, "--temp", "0", "-t", "1")
	defer stop()
	other, stopOther := started(t, "--temp", "0", "-t", "1", "--weights", "q4_0", "-a", "small")
	defer stopOther()
	args := []string{"compare", "--against", same, "--against", other + "/v1", "-p", "func (r *Ring) Push(", "-p",
		"// A b",
		"-n", "24", "-r", "2", "--warmup", "0", "--drafter", "ngram", "--against-field", "cache_prompt=false"}
	var r struct {
		CPU      string
		Fields   string `json:"added_fields"`
		Complete bool
		Rows     []struct {
			Who, Asked, Server string
			First              struct{ Value float64 } `json:"first_token_seconds"`
			Rate               struct{ Value float64 } `json:"tokens_per_second"`
			Ratio              struct{ Value float64 } `json:"rate_ratio"`
			NPrompts           int                     `json:"n_prompts"`
			NRuns              int                     `json:"n_runs"`
			NTokens            int                     `json:"n_tokens"`
			Counted            bool
			NSame              int `json:"n_same"`
			Differs            *int
			Texts              []struct {
				Same      bool `json:"identical"`
				Character *int `json:"differs_at_character"`
				Token     *int `json:"differs_at_token"`
				Got, Want string
			} `json:"by_prompt"`
		}
	}
	out := done(t, "", append(args, "--json")...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Rows) != 4 || !r.Complete || r.CPU == "" || r.Fields != `{"cache_prompt":false}` {
		t.Fatalf("%s", out)
	}
	who := []string{"plain", "ngram auto greedy", same + "/v1/completions", other + "/v1/completions"}
	for i, row := range r.Rows {
		if row.Who != who[i] || row.NPrompts != 2 || row.NRuns != 4 || row.NTokens != 48 || !row.Counted ||
			row.First.Value <= 0 || row.Rate.Value <= 0 || row.Ratio.Value <= 0 {
			t.Errorf("%+v", row)
		}
		if i == 0 && row.Ratio.Value != 1 {
			t.Errorf("plain decoding is %v times as fast as itself", row.Ratio.Value)
		}
		if i < 3 && (row.NSame != 2 || row.Differs != nil) {
			t.Errorf("%s: the texts differ: %+v", row.Who, row)
		}
	}
	if last := r.Rows[3]; last.NSame == 2 || last.Differs == nil || last.Asked != "small" {
		t.Errorf("other weights wrote the same: %+v", last)
	} else {
		for _, x := range last.Texts {
			if !x.Same && (*x.Character < *last.Differs || *x.Token > *x.Character || x.Got == x.Want) {
				t.Errorf("%+v", x)
			}
		}
	}
	table, err := csv.NewReader(strings.NewReader(done(t, "", append(args, "-r", "1", "--csv")...))).ReadAll()
	if err != nil || len(table) != 5 {
		t.Errorf("%v: %q", err, table)
	}
	if out := done(t, "", append(args, "-r", "1", "-o", "md")...); !strings.Contains(out, "| "+who[2]+" |") ||
		!strings.Contains(out, "2 of 2") {
		t.Error(out)
	}
	for says, bad := range map[string][]string{
		"is what is compared": {"--against", same, "--against-field", "stream=false"},
		"NAME=JSON":           {"--against", same, "--against-field", "x=y"},
		"--html":              {"--against", same, "--html", "x"},
		"--schedule oracle":   {"--against", same, "--schedule", "oracle"},
		"exclude":             {"--against", same, "--preset", "stairs"},
		"one temperature":     {"--against", same, "--temp", "0,1"},
		"--seeds":             {"--against", same, "--temp", "1", "--seeds", "2"},
	} {
		if _, errs, code := spec(t, "", append([]string{"compare"}, bad...)...); code != exitUsage ||
			!strings.Contains(errs, says) {
			t.Errorf("%q: exit %d, %s", bad, code, errs)
		}
	}
	for _, alone := range []string{"--against-model x", "--against-field a=1", "--against-timeout 5"} {
		if _, errs, code := spec(t, "", append([]string{"compare"}, strings.Fields(alone)...)...); code != exitUsage ||
			!strings.Contains(errs, "go with --against") {
			t.Errorf("%s: exit %d, %s", alone, code, errs)
		}
	}
	if _, errs, code := spec(t, "", "compare", "--against", "http://127.0.0.1:1"); code != exitFailed ||
		!strings.Contains(errs, "127.0.0.1:1") {
		t.Errorf("nobody listens: exit %d, %s", code, errs)
	}
}
