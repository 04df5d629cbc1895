package tensor

import (
	"math/rand/v2"
	"testing"
	"time"
)

// passesOf goes through passes over matrices, of which a byte takes so many picoseconds with each distance, times
// 1 +- noise, and returns how many bytes took each distance.
func passesOf(a *ahead, matrices []*Matrix, passes int, cost [len(distances)]float64, noise float64,
	rng *rand.Rand) (bytes [len(distances)]int) {
	const size = 20 << 20
	for range passes {
		slow := 1 + noise*(2*rng.Float64()-1)
		for i, w := range matrices {
			distance, t := a.begin(w, 1, size)
			for d := range distances {
				if distances[d] == distance {
					bytes[d] += size
					each := 1 + 3*float64(i%2) // matrices differ more than distances
					t.took += time.Duration(cost[d] * slow * each * size / 1e3)
				}
			}
		}
	}
	return bytes
}

// TestAheadFindsTheFastest: the fastest distance is the one in use after some passes, also where it becomes another
// one and where passes take more or less time by chance, and the others are hardly tried.
func TestAheadFindsTheFastest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	matrices := []*Matrix{{}, {}, {}, {}, {}}
	for _, noise := range []float64{0, 0.02} {
		for fastest := range distances {
			var a ahead
			for then := range distances {
				cost := [len(distances)]float64{25, 26, 27}
				cost[(fastest+then)%len(distances)] = 23
				passesOf(&a, matrices, 300, cost, noise, rng)
				bytes := passesOf(&a, matrices, 300, cost, noise, rng)
				all := 0
				for _, n := range bytes {
					all += n
				}
				if share := float64(bytes[(fastest+then)%len(distances)]) / float64(all); share < 0.9 {
					t.Errorf("noise %v: %d is the fastest and has %.2f of the bytes (%v)", noise, distances[(fastest+then)%3],
						share, bytes)
				}
			}
		}
	}
}

// TestAheadTakesWhatIsMuchFaster: a distance with which a token takes a half of the time is in use after two rounds of
// it; one that was so in one pass alone is not.
func TestAheadTakesWhatIsMuchFaster(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	matrices := []*Matrix{{}, {}, {}, {}, {}}
	for fast := range len(distances) - 1 {
		cost := [len(distances)]float64{20, 20, 20}
		cost[fast] = 10
		var a ahead
		passesOf(&a, matrices, 3*shortRound+1, cost, 0, rng)
		if best := a.of[aheadKey{0, 1}].best; best != fast {
			t.Errorf("distance %d is not in use, but %d", distances[fast], distances[best])
		}
	}
	var a ahead
	same := [len(distances)]float64{20, 20, 20}
	for pass := range 10 * longRound {
		cost := same
		if pass == 1 {
			cost = [len(distances)]float64{10, 10, 10}
		}
		passesOf(&a, matrices, 1, cost, 0, rng)
		if best := a.of[aheadKey{0, 1}].best; best != len(distances)-1 {
			t.Fatalf("distance %d is in use after one pass in half of the time", distances[best])
		}
	}
}

// TestAheadTriesWholePasses: a trial has read what the trials before it have, whatever the sizes; small calls are no
// part of it, and other numbers of tokens have trials of their own.
func TestAheadTriesWholePasses(t *testing.T) {
	var a ahead
	matrices := []*Matrix{{}, {}, {}}
	of := map[int][]int{} // the distances of each matrix's calls
	for range 40 {
		for i, w := range matrices {
			distance, tuned := a.begin(w, 1, (i+1)*leastTrial/4)
			of[i] = append(of[i], distance)
			tuned.took += time.Millisecond
			if d, tuned := a.begin(&Matrix{}, 1, leastTuned-1); tuned != nil || d != distance {
				t.Fatal("a small call counts, or has another distance")
			}
			if _, other := a.begin(w, 8, leastTrial); other == tuned {
				t.Fatal("8 tokens have the trials of one")
			}
		}
	}
	for i := range of[0] {
		if of[0][i] != of[1][i] || of[0][i] != of[2][i] {
			t.Fatalf("pass %d has several distances", i)
		}
	}
	if a.of[aheadKey{0, 1}].best != len(distances)-1 {
		t.Error("of distances that are equally fast another one is in use")
	}
}
