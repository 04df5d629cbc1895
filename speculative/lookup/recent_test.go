package lookup

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

func tokens(rng *rand.Rand, n int, vocab int32) (ids []int32) {
	for range n {
		ids = append(ids, rng.Int32N(vocab))
	}
	return ids
}

// What a key wrote is found, up to the memory, the latest first to be found and the oldest first to go; what another
// key wrote never is.
func TestRecentTextsOfAKey(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const bytes = 1 << 20
	r := NewRecent(bytes)
	var texts [][]int32
	for i := range 300 {
		ids := tokens(rng, 20+rng.IntN(900), 5000)
		texts = append(texts, ids)
		r.Add([]string{"a", "b"}[i%2], ids)
		if r.Bytes() > bytes {
			t.Fatalf("%d bytes of %d", r.Bytes(), bytes)
		}
		for back := range min(4, i+1) {
			ids, key := texts[i-back], []string{"a", "b"}[(i-back)%2]
			at := leastMatch + rng.IntN(len(ids)-leastMatch-1)
			p := r.Match(key, ids[:at])
			for n := 0; n < min(10, len(ids)-at); n++ {
				id, ok := r.Next(&p, n)
				if p.Length() < leastMatch || ok && id != ids[at+n] || !ok && n == 0 {
					t.Fatalf("text %d, token %d + %d: %d, %v after a match of %d, want %d", i-back, at, n, id, ok, p.Length(),
						ids[at+n])
				}
				if ok != r.Follows(&p, ids[at:at+n+1]) {
					t.Fatalf("text %d: follows %v", i-back, !ok)
				}
			}
			if other := r.Match([]string{"b", "a"}[(i-back)%2], ids[:at]); other.Length() > 0 {
				t.Fatalf("text %d is found by another key", i-back)
			}
		}
	}
	if p := r.Match("a", texts[0][:10]); p.Length() > 0 {
		t.Error("the oldest text was kept beyond the memory")
	}
	same := []int32{1, 2, 3, 4, 5}
	r.Add("a", slices.Concat(same, []int32{6}))
	r.Add("a", slices.Concat(same, []int32{7}))
	if p := r.Match("a", same); p.Length() != 5 || !r.Follows(&p, []int32{7}) {
		t.Errorf("%+v, not the latest", p)
	}
	if p := r.Match("a", []int32{4, 5, 7}); p.Length() != 0 {
		t.Error("a match at the end of a text, behind which there is nothing")
	}
	none := NewRecent(100)
	if none.Add("a", texts[0]); none.Bytes() != 0 {
		t.Error("less memory than a part")
	}
}

// Texts are added while others look up: the race detector sees a lock that is left out.
func TestRecentIsSafeForManyAtOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	r, text := NewRecent(1<<17), tokens(rng, 2000, 50)
	testkit.AtOnce(20, func() { r.Add("a", text) }, func() {
		p := r.Match("a", text[:100])
		r.Next(&p, 1)
		r.Follows(&p, text[100:102])
		r.Bytes()
	}, func() { r.Add("b", text[500:]) })
}
