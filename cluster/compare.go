package cluster

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// incidental are the members of answers that say when, by whom and how fast an answer was computed, wherever they
// stand: names that are drawn, times, and what was found in caches or drafted. All others are the same each time.
var incidental = []string{
	"id", "call_id", "created", "created_at", "model", "timings", "speculation", "seconds",
	"cached_tokens", "accepted_prediction_tokens", "rejected_prediction_tokens",
}

// Same reports whether two answers to a request are the same: status, text, tokens, log-probabilities, vectors, finish
// reason and usage, all that an answer holds but what is incidental.
func Same(a, b Answer) (bool, error) {
	x, err := a.lasting()
	if err != nil {
		return false, err
	}
	y, err := b.lasting()
	return err == nil && a.Status == b.Status && bytes.Equal(x, y), err
}

// lasting is the body without what is incidental, with its members sorted.
func (a *Answer) lasting() ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(a.Body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("an answer that is not JSON: %w", err)
	}
	strip(v)
	return json.Marshal(v)
}

func strip(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, x := range v {
			if slices.Contains(incidental, name) {
				delete(v, name)
			} else {
				strip(x)
			}
		}
	case []any:
		for _, x := range v {
			strip(x)
		}
	}
}
