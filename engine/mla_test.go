package engine

import (
	"testing"
)

// TestLatentsAreKeptOnce: latent attention keeps a key of R+n numbers of a position and layer for all heads, and no
// values beside it; an index keeps keys alone. A session's memory, the plan's and what is saved say so. Files of the
// older form keep keys and values of every head.
func TestLatentsAreKeptOnce(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	all := askedModels()
	for _, c := range []struct {
		name    string
		numbers []int // of a position, of all layers of a cache
	}{
		{"deepseek2", []int{4 * (24 + 8)}}, {"mistral4", []int{4 * (24 + 8)}},
		{"deepseek2 old", []int{4 * 4 * (24 + 20)}},
		{"deepseek32", []int{4 * (24 + 32), 4 * 64}}, {"glm-dsa", []int{4 * (24 + 32), 2 * 64}},
	} {
		m := openModel(t, rt, written(t, all[c.name].file(t, c.name)), Options{})
		for kv, size := range map[string]int64{"f16": 2, "f32": 4} {
			s := newSession(t, m, SessionOptions{KV: kv})
			eval(t, s, []int32{1, 2, 3}, nil, None)
			shapes, saved, sum := m.Caches(0), s.SavedCaches(), int64(0)
			if len(shapes) != len(c.numbers) {
				t.Fatalf("%s: %d caches", c.name, len(shapes))
			}
			for i, n := range c.numbers {
				want := size * int64(n)
				sum += want
				if got, err := shapes[i].Bytes(kv); err != nil || got != want || saved[i].Position != want {
					t.Errorf("%s, %s: cache %d has %d bytes of a position, %d are saved, want %d", c.name, kv, i, got,
						saved[i].Position, want)
				}
			}
			if got := s.Bytes(); got != KVPage*sum {
				t.Errorf("%s, %s: a page has %d bytes, want %d", c.name, kv, got, KVPage*sum)
			}
		}
	}
}
