package speculative

import (
	"slices"
	"testing"

	"github.com/specgo/spec/engine"
)

// The published account of one example (Mamou et al. 2024, section 1): with five tokens each time it
// takes 38 passes of the target and 192 of the draft, with the best length each time 27 and 129. Here
// 27 stretches of right tokens, each ended by a wrong one, 129 tokens together, give just that (and
// 5 * 38 = 190 draft passes, as each round here drafts five).
func TestStaticAgainstOracle(t *testing.T) {
	var record, draft []int32
	stretch := func(n int) { // n-1 right tokens and a wrong one
		for i := range n {
			id := int32(len(record)%50 + 2)
			record = append(record, id)
			if i == n-1 {
				id++
			}
			draft = append(draft, id)
		}
	}
	for i := range 27 { // two passes of six positions for the long ones, one for the others: 2*11 + 16 = 38
		switch {
		case i%5 == 0 || i%5 == 2:
			stretch(7) // 11 of them
		case i < 7:
			stretch(4) // 4
		default:
			stretch(3) // 12
		}
	}
	if len(record) != 129 {
		t.Fatalf("%d tokens", len(record))
	}
	record, draft = append(record, count(6)...), append(draft, count(6)...) // so that the last rounds are whole
	passes := func(schedule Schedule) (target, drafted int) {
		d := New(newFake(t, 64, 200, script(1, record...)), Replay(ReplayOptions{Tokens: draft}),
			Options{Schedule: schedule, MaxTokens: len(record)})
		d.o.Trace = func(r *Round) {
			if r.Position < 1+129 {
				target, drafted = target+1, drafted+r.Drafted()
			}
		}
		if got, _ := collect(t, d, []int32{1}, engine.Sampling{}); !slices.Equal(got, record) {
			t.Fatalf("got %v", got)
		}
		return target, drafted
	}
	if target, drafted := passes(Constant(ConstantOptions{Length: 5})); target != 38 || drafted != 190 {
		t.Errorf("five each time: %d passes of the target, %d of the draft; expected 38 and 190", target, drafted)
	}
	// without the wrong tokens
	if target, drafted := passes(Oracle(append([]int32{1}, record...))); target != 27 || drafted != 129-27 {
		t.Errorf("oracle: %d passes of the target, %d of the draft; expected 27 and 129 - 27", target, drafted)
	}
}

// Stairs of a hand-worked matrix: the prompt 1, the draft 5 6 9 8, batch 5. With predictions behind bars:
//
//	row 0  1         | 5   the ground truth: 1 5
//	row 1  1 5       | 6   1 5 is the ground truth, which becomes 1 5 6
//	row 2  1 5 6     | 7   passes: 1 5 6 7
//	row 3  1 5 6 9   | 3   is not 1 5 6 7: the end
//	row 4  1 5 6 9 8 | 2   not looked at
func TestStairsByHand(t *testing.T) {
	model := func(text []int32, row []float32) {
		clear(row)
		row[map[int32]int32{1: 5, 5: 6, 6: 7, 7: 10, 9: 3, 8: 2, 10: 11}[text[len(text)-1]]] = 1
	}
	for _, faithful := range []bool{false, true} {
		target := newFake(t, 16, 64, model)
		var accepted []int32
		o := Options{Schedule: Constant(ConstantOptions{Length: 4}), Verifier: Stairs(StairsOptions{Recompute: faithful}),
			MaxTokens: 6, Trace: func(r *Round) {
				if r.Position == 1 {
					accepted = append(slices.Clone(r.Path), r.Next)
				}
			}}
		got, _ := collect(t, New(target, &scripted{tokens: []int32{5, 6, 9, 8}}, o), []int32{1}, engine.Sampling{})
		if want := []int32{0, 1, 7}; !slices.Equal(accepted, want) || !slices.Equal(got[:4], []int32{5, 6, 7, 10}) {
			t.Errorf("faithful %v: kept %v, wrote %v", faithful, accepted, got)
		}
		if wide := map[bool]int{false: 5, true: 5}[faithful]; target.widest > wide {
			t.Errorf("faithful %v: a pass of %d tokens", faithful, target.widest)
		}
	}
}

// Stairs against the matrix worked literally, at every published batch size.
func TestStairsByMatrix(t *testing.T) {
	const vocab, tokens = 16, 50
	model, drafting := loops(51), noisy(loops(51), 0.2)
	next := func(model func([]int32, []float32), text []int32) int32 {
		row := make([]float32, vocab)
		model(text, row)
		best := 0
		for i := range row {
			if row[i] > row[best] {
				best = i
			}
		}
		return int32(best)
	}
	for batch := 2; batch <= 11; batch++ {
		var want []int // length of the ground truth after each round
		text := slices.Clone(matrixPrompt)
		for len(text) < len(matrixPrompt)+tokens {
			n := min(batch-1, len(matrixPrompt)+tokens-len(text)-1) // the budget
			rows := [][]int32{slices.Clone(text)}
			for len(rows) <= n {
				last := rows[len(rows)-1]
				rows = append(rows, append(slices.Clone(last), next(drafting, last)))
			}
			truth := append(slices.Clone(rows[0]), next(model, rows[0]))
			for _, row := range rows[1:] {
				if !slices.Equal(row, truth) {
					break
				}
				truth = append(slices.Clone(row), next(model, row))
			}
			text = truth
			want = append(want, len(text))
		}
		for _, faithful := range []bool{false, true} {
			var got []int
			o := Options{Schedule: Constant(ConstantOptions{Length: batch - 1}),
				Verifier: Stairs(StairsOptions{Recompute: faithful}), MaxTokens: tokens, Trace: func(r *Round) {
					got = append(got, r.Position+r.Accepted()+1)
				}}
			d := New(newFake(t, vocab, 200, model), Model(newFake(t, vocab, 200, drafting)), o)
			ids, _ := collect(t, d, matrixPrompt, engine.Sampling{})
			if !slices.Equal(got, want) || !slices.Equal(ids, text[len(matrixPrompt):]) {
				t.Errorf("batch %d, faithful %v: rounds end at %v, want %v", batch, faithful, got, want)
			}
		}
	}
}

// The faithful mode computes every row from its first token on; the fast one feeds what is new.
func TestStairsFaithfulRecomputes(t *testing.T) {
	model := random(5)
	for _, faithful := range []bool{false, true} {
		target := newFake(t, matrixVocab, 300, model)
		want := len(matrixPrompt) - 1 // prefill
		o := Options{Schedule: Constant(ConstantOptions{Length: 4}), Verifier: Stairs(StairsOptions{Recompute: faithful}),
			MaxTokens: 40, Trace: func(r *Round) {
				if !faithful {
					want += 1 + r.Drafted()
					return
				}
				for row := range r.Drafted() + 1 {
					want += r.Position + row
				}
			}}
		collect(t, New(target, Model(newFake(t, matrixVocab, 300, noisy(model, 0.2))), o), matrixPrompt, engine.Sampling{})
		if target.fed != want {
			t.Errorf("faithful %v: fed %d tokens, want %d", faithful, target.fed, want)
		}
	}
}
