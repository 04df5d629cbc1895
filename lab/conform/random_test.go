package main

import "testing"

// TestRandomSchemas: what is written under random schemas with random numbers as logits, greedy and sampled, is valid
// by another validator, and at no place nothing may follow. go -C lab run ./conform -random 2000 is the same with more.
func TestRandomSchemas(t *testing.T) {
	sum := generate(600, 1)
	t.Log(sum)
	for _, f := range sum.faults {
		t.Errorf("%s\n%s: %q: %s", f.schema, f.vocabulary, f.text, f.why)
	}
}

// TestRandomCalls: what is written under grammars of tool calls is read back as calls with valid arguments, in every
// syntax. go -C lab run ./conform -random 100 -calls is the same with more.
func TestRandomCalls(t *testing.T) {
	for name, c := range callsOf(12, 1) {
		for _, f := range c.faults {
			t.Errorf("%s: %s\n%q: %s", name, f.schema, f.text, f.why)
		}
		if c.read == 0 {
			t.Errorf("%s: no call was read", name)
		}
	}
}
