package tensor

import (
	"errors"
	"fmt"
	"math"
	"testing"
)

// Attention within texts gives the bits of attention over a cache of float32, however many texts share the call: over
// all tokens, and over those before with and without a window, on both sides of a page's end.
func TestTextsAttendLikeACache(t *testing.T) {
	testTexts(t, []int{1, 7, 8, 9, 255, 257}, "")
	for _, kind := range []string{"sinks", "slopes", "window"} { // over three pages, to both sides and before
		testTexts(t, []int{530, 3}, kind)
	}
}

// testTexts has texts of these lengths in one pass, with options of one kind; "": of every kind.
func testTexts(t *testing.T, lengths []int, kind string) {
	t.Helper()
	const heads, group, dim, values = 2, 3, 20, 24
	rows := 0
	var texts []Text
	for _, n := range lengths {
		texts = append(texts, Text{rows, n})
		rows += n
	}
	q, k, v := normal(1, rows*heads*group*dim), normal(2, rows*heads*dim), normal(3, rows*heads*values)
	for _, threads := range []int{1, 2} {
		rt := runtimeOf(t, threads)
		for name, o := range map[string]AttentionOptions{
			"all": {Both: true}, "before": {}, "window": {Window: 37}, "cap": {Both: true, Cap: 3},
			"slopes": {Slopes: ALiBiSlopes(heads*group, 8)}, "sinks": {Both: true, Sinks: normal(4, heads*group)},
		} {
			if kind != "" && (name != kind || threads > 1) {
				continue
			}
			if threads > 1 && name != "all" && name != "window" {
				continue // how the work is shared does not depend on them
			}
			o.Heads, o.Scale = heads*group, 0.3
			got := make([]float32, rows*heads*group*values)
			ok(t, rt.AttendTexts(got, q, k, v, heads, o, texts))
			for _, text := range texts {
				kv, err := NewKV(KVShape{Layers: 1, Heads: heads, HeadDim: dim, ValueDim: values, Type: KVF32,
					Context: text.Tokens})
				ok(t, err)
				ok(t, kv.Grow(text.Tokens))
				s := AttentionSegment{KV: kv, Tokens: text.Tokens}
				part := func(x []float32) []float32 {
					width := len(x) / rows
					return x[text.Row*width : (text.Row+text.Tokens)*width]
				}
				ok(t, rt.StoreKV(0, part(k), part(v), []AttentionSegment{s}))
				cached := o
				if cached.Both = false; o.Both {
					s.Keys = text.Tokens
				}
				want := make([]float32, len(part(got)))
				ok(t, rt.Attention(want, part(q), cached, []AttentionSegment{s}))
				sameBits(t, fmt.Sprint(name, ", ", text.Tokens, " tokens"), part(got), want)
				kv.Close()
			}
		}
	}
}

// With a reach every token sees so many to both sides, and ALiBi counts to both sides: against plain float64.
func TestTextsAttendToBothSides(t *testing.T) {
	const heads, dim, n, reach = 2, 16, 300, 70
	slopes := ALiBiSlopes(heads, 8)
	q, k, v := normal(1, n*heads*dim), normal(2, n*heads*dim), normal(3, n*heads*dim)
	want := make([]float64, n*heads*dim)
	for i := range n {
		for h := range heads {
			sum, out := 0.0, want[(i*heads+h)*dim:][:dim]
			for j := max(0, i-reach); j <= min(n-1, i+reach); j++ {
				s := 0.0
				for d := range dim {
					s += float64(q[(i*heads+h)*dim+d]) * float64(k[(j*heads+h)*dim+d])
				}
				p := math.Exp(s*0.25 - float64(slopes[h])*math.Abs(float64(i-j)))
				sum += p
				for d := range out {
					out[d] += p * float64(v[(j*heads+h)*dim+d])
				}
			}
			for d := range out {
				out[d] /= sum
			}
		}
	}
	rt, got := runtimeOf(t, 2), make([]float32, n*heads*dim)
	o := AttentionOptions{Heads: heads, Scale: 0.25, Slopes: slopes, Both: true, Reach: reach}
	ok(t, rt.AttendTexts(got, q, k, v, heads, o, []Text{{0, n}}))
	near(t, "outputs", got, want, 3e-6)
}

func TestAttendTextsRefuses(t *testing.T) {
	rt := runtimeOf(t, 1)
	x, good := make([]float32, 6*8), AttentionOptions{Heads: 2, Scale: 1}
	texts := []Text{{0, 4}, {4, 2}}
	ok(t, rt.AttendTexts(make([]float32, 48), x, x, x, 2, good, texts))
	for name, err := range map[string]error{
		"heads":     rt.AttendTexts(x, x, x, x, 3, good, texts),
		"rows":      rt.AttendTexts(x, x, x, x, 2, good, []Text{{0, 4}, {5, 1}}),
		"few rows":  rt.AttendTexts(x, x, x, x, 2, good, []Text{{0, 5}}),
		"no tokens": rt.AttendTexts(x, x, x, x, 2, good, []Text{{0, 0}}),
		"outputs":   rt.AttendTexts(x[:8], x, x, x, 2, good, texts),
		"slopes":    rt.AttendTexts(x, x, x, x, 2, AttentionOptions{Heads: 2, Slopes: x[:1]}, texts),
		"reach":     rt.AttendTexts(x, x, x, x, 2, AttentionOptions{Heads: 2, Reach: 3}, texts),
		"cached":    rt.Attention(x, x, AttentionOptions{Heads: 2, Both: true}, []AttentionSegment{{}}),
	} {
		if !errors.Is(err, ErrShape) {
			t.Errorf("%s: %v", name, err)
		}
	}
	vector := []float32{3, 0, -4}
	if Normalize(vector); vector[0] != 0.6 || vector[1] != 0 || vector[2] != -0.8 {
		t.Errorf("of length 1: %v", vector)
	}
	zeros := make([]float32, 3)
	Normalize(zeros)
	sameBits(t, "zeros", zeros, make([]float32, 3))
}
