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
