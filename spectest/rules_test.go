package spectest

import (
	"fmt"
	"strings"
	"testing"
)

// A rule that lacks what it compares with says so: it would look at nothing.
func TestRulesThatLackSomething(t *testing.T) {
	for rule, says := range map[string]string{
		`{"similar": {"to": "x"}}`:                  "similar.at_least: missing",
		`{"similar": {"at_least": 0.5}}`:            "similar.to: missing",
		`{"similar": {"to": "x", "at_least": 0.5}}`: "",
	} {
		_, err := ParseLine(fmt.Appendf(nil, `{"name": "a", "body": {}, "checks": [%s]}`, rule))
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", rule, err, says)
		}
	}
}
