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
		s := newTester(t, func(o *Options) {
			smaller(t)(o)
			o.Keys, o.SharePrefixes, o.Parallel = c.keys, c.share, 12
		})
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

// Keys that come while a server runs, with the first ones or with others, keep what is computed apart like those that
// it began with: from each other's and from what it computed without keys. So are the texts of slots.
func TestPrefixesAreTheKeysOwnBehindAReload(t *testing.T) {
	one, two := Key{Secret: "one"}, Key{Secret: "two"}
	for name, first := range map[string][]Key{"no keys": nil, "other keys": {{Secret: "first"}, one}} {
		s := newTester(t, func(o *Options) { o.SlotFiles.Dir, o.Keys = t.TempDir(), first })
		ask := func(key string, cached bool) {
			t.Helper()
			x := s.ask(slotPrompt, `,"id_slot":1`, "X-Api-Key", key)
			if got := x.number(t, "timings", "cache_n") > 0; got != cached {
				t.Errorf("%s, the key %s: %v cached tokens", name, key, x.number(t, "timings", "cache_n"))
			}
		}
		ask("first", false)
		ask("first", true)
		if err := s.Reload([]Key{one, two}, s.o.Models); err != nil {
			t.Fatal(err)
		}
		if x := s.slot(1, "erase", "", 200, "X-Api-Key", "two"); x.number(t, "n_erased") != 0 {
			t.Errorf("%s: a slot of before is erased: %v", name, x)
		}
		s.slot(1, "save", `{"filename":"before"}`, 400, "X-Api-Key", "one")
		ask("one", false)
		ask("two", false)
		ask("one", true)
		s.slot(1, "save", `{"filename":"one"}`, 200, "X-Api-Key", "one")
		s.slot(1, "restore", `{"filename":"one"}`, 404, "X-Api-Key", "two")
		if err := s.Reload(nil, s.o.Models); err == nil {
			t.Errorf("%s: no keys, where there were some", name)
		}
	}
}
