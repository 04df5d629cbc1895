package engine

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/specgo/spec/engine/costs"
	"github.com/specgo/spec/internal/randommodel"
)

// What the first rows of a pass read is the experts that they choose, each once, summed over layers.
func TestExpertReads(t *testing.T) {
	const experts, used, rows, layers, each = 9, 3, costs.MostReads + 4, 2, 10
	rng := rand.New(rand.NewPCG(1, 1))
	var r expertReads
	r.begin(true)
	var want [costs.MostReads]int64
	for range layers {
		var chosen []int32
		for range rows {
			for _, i := range rng.Perm(experts)[:used] {
				chosen = append(chosen, int32(i))
			}
		}
		for k := range want {
			read := map[int32]bool{}
			for _, i := range chosen[:(k+1)*used] {
				read[i] = true
			}
			want[k] += int64(len(read)) * each
		}
		r.add(chosen, used, experts, each)
	}
	if r.bytes != want || r.rows != costs.MostReads {
		t.Errorf("%d rows: %v, want %v", r.rows, r.bytes, want)
	}
	if r.begin(false); r.rows != 0 {
		t.Error("the rows of the pass before")
	}
	if r.add([]int32{1, 2, 3, 4}, 2, experts, each); r.rows != 0 || r.bytes[0] != 0 {
		t.Error("a pass that is not counted")
	}
}

// A model's passes, prompts among them, teach its costs what passes of few rows read: with all tokens alike no more
// than one, else more, and at most all experts.
func TestCostsKnowWhatExpertsRead(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	data := randommodel.Recipes()["qwen3moe"].File(t)
	m, err := New(t.Context(), rt, strings.NewReader(string(data)), int64(len(data)), Options{})
	if err != nil {
		t.Fatal(err)
	}
	c := m.Config()
	if n := m.readsDense(); n <= 0 || n >= m.Bytes() {
		t.Fatalf("%d bytes beside experts, of %d", n, m.Bytes())
	}
	s := newSession(t, m, SessionOptions{})
	for range 6 {
		if _, err := s.Eval(t.Context(), randommodel.Tokens(40, c.Vocab, 5), nil, None); err != nil {
			t.Fatal(err)
		}
		if err := s.Truncate(0); err != nil {
			t.Fatal(err)
		}
	}
	most := float64(c.Experts) / float64(c.ExpertsUsed)
	two, many := m.Costs(0).Reads(2), m.Costs(0).Reads(costs.MostReads)
	if !(two > 1 && many > two && many <= most) {
		t.Errorf("of %d experts, %d of each token: two rows read %.3f, many %.3f", c.Experts, c.ExpertsUsed, two, many)
	}
}
