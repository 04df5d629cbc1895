package bpe

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// TestSplits compares with how regular expressions cut texts, for every rule and
// every name of it.
func TestSplits(t *testing.T) {
	var file struct {
		Texts []string `json:"texts"`
		Rules map[string]struct {
			Names  []string   `json:"names"`
			Pieces [][]string `json:"pieces"`
		} `json:"rules"`
	}
	if err := json.Unmarshal([]byte(read(t, testkit.Shared(t, "tokenizers/splits.json"))), &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Rules) < 17 {
		t.Fatalf("%d rules, want 17", len(file.Rules))
	}
	for rule, want := range file.Rules {
		for _, name := range want.Names {
			p, err := findPretokenizer(name)
			if err != nil {
				t.Errorf("%s: %v", rule, err)
				continue
			}
			for i, text := range file.Texts {
				if got := words(p.split, text); !slices.Equal(got, want.Pieces[i]) {
					t.Errorf("%s (%s) %q:\n got %q\nwant %q", name, rule, text, got, want.Pieces[i])
				}
			}
		}
	}
}
