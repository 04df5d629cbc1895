package serve

import (
	"strings"
	"testing"
)

// Requests go on from what was computed for the same key and the same cache_salt, and for no other, unless prefixes
// are shared between keys; the draft model's prefixes are kept apart likewise. Whatever is reused, the text is the
// same.
func TestPrefixesAreTheKeysOwn(t *testing.T) {
	prompt := `{"messages":[{"role":"user","content":"` + strings.Repeat(
		"func main() { return nil } ", 12,
	) + `"}],"max_tokens":4`
	keys := []Key{{Secret: "one"}, {Secret: "two"}}
	type step struct {
		key, more string
		cached    bool
	}
	for name, c := range map[string]struct {
		keys  []Key
		share bool
		steps []step
	}{
		"keys": {keys, false, []step{
			{"one", "", false}, {"two", "", false}, {"one", "", true}, {"two", "", true},
			{
				"one", `,"cache_salt":"x"`, false,
			}, {"one", `,"cache_salt":"x"`, true}, {"one", `,"cache_salt":"y"`, false},
			{"two", `,"cache_salt":"x"`, false}, {"one", `,"cache_salt":""`, true},
		}},
		"shared": {keys, true, []step{
			{"one", "", false}, {"two", "", true}, {
				"one", `,"cache_salt":"x"`, false,
			}, {"two", `,"cache_salt":"x"`, true}, {"two", `,"cache_salt":"y"`, false},
		}},
		"no keys": {
			nil, false,
			[]step{
				{"", "", false}, {"other", "", true}, {"", `,"cache_salt":"x"`, false},
				{"", `,"cache_salt":"x"`, true},
			},
		},
	} {
		s := newTester(t, func(o *Options) { o.Keys, o.SharePrefixes, o.Parallel = c.keys, c.share, 12 })
		text := ""
		for i, step := range c.steps {
			m := s.models.resident()
			draft := int64(0)
			if len(m) > 0 {
				draft = m[0].Stats().Draft.PrefixTokens
			}
			status, body, _ := s.do(
				"POST", "/v1/chat/completions",
				prompt+step.more+`,"speculation":{"drafter":"model","schedule":"constant","max":2}}`, "X-Api-Key",
				step.key,
			)
			if status != 200 {
				t.Fatal(body)
			}
			o := decode(t, body)
			usage := o["usage"].(map[string]any)["prompt_tokens_details"].(map[string]any)
			if cached := usage["cached_tokens"].(float64) > 0; cached != step.cached {
				t.Errorf("%s, step %d: %v cached tokens", name, i, usage["cached_tokens"])
			}
			if cached := s.models.resident()[0].Stats().Draft.PrefixTokens > draft; cached != step.cached {
				t.Errorf("%s, step %d: reuse by the draft model: %v", name, i, cached)
			}
			got := o.get(t, "choices", 0, "message", "content").(string)
			if i > 0 && got != text {
				t.Errorf("%s, step %d: %q, want %q", name, i, got, text)
			}
			text = got
		}
	}
}

// A salt tells neither the key nor a text, and no two of key and text give the same.
func TestSaltsAreDifferent(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Keys = []Key{{Secret: "one"}} })
	seen := map[string]bool{}
	for _, who := range []*client{newClient("", 1), newClient("a", 1), newClient("b", 2), newClient("a ", 1)} {
		for _, text := range []string{"", " ", "a", "b"} {
			salt := (&request{client: who, cacheSalt: text}).salt(s.Server)
			if seen[salt] || salt == "" {
				t.Errorf("%q twice", salt)
			}
			seen[salt] = true
		}
	}
	if a, b := newClient("a", 1), newClient("a", 9); a.id != b.id || strings.Contains(a.id, "a ") {
		t.Error(a.id, b.id)
	}
}
