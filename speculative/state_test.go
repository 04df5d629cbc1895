package speculative

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/testkit"
)

// What a decoder learned is as good in another one: its first text goes as the next one would have gone. What was
// saved is read strictly: every name once, no other, and nothing behind it.
func TestSaveAndRestore(t *testing.T) {
	model := random(81)
	var clock time.Duration
	sequence := func(m func([]int32, []float32), ms int) *fake {
		f := newFake(t, matrixVocab, 600, m)
		f.spend = func(n int) { clock += time.Duration(ms*1000+200*n) * time.Microsecond }
		return f
	}
	make := func(x *Experience) *Decoder {
		d := New(sequence(model, 20), Merge(NGram(NGramOptions{}), Tree(sequence(noisy(model, 0.1), 1), TreeOptions{})),
			Options{MaxTokens: 64, Experience: x})
		d.now = func() time.Duration { return clock }
		return d
	}
	text := func(d *Decoder, i int32) time.Duration {
		collect(t, d, append(slices.Clone(matrixPrompt), i), engine.Sampling{})
		s := d.Stats()
		return time.Duration((s.Draft + s.Verify) * 1e9)
	}
	x := &Experience{}
	d := make(x)
	var cold, went, restored time.Duration
	for i := range int32(12) {
		text(d, i)
	}
	state, err := x.Save()
	if err != nil {
		t.Fatal(err)
	}
	for i := range int32(12) {
		cold += text(make(nil), 20+i)
		y := &Experience{}
		if err := y.Restore(state); err != nil {
			t.Fatal(err)
		}
		restored += text(make(y), 20+i)
		if same, _ := y.Save(); len(same) < len(state)/2 {
			t.Fatalf("saved %d bytes, restored and saved again %d", len(state), len(same))
		}
		went += text(d, 20+i)
	}
	t.Logf("12 texts: %v by one that goes on, %v restored for each, %v begun anew; %d bytes", went,
		restored, cold, len(state))
	if float64(restored) > 1.07*float64(went) || restored >= cold {
		t.Errorf("12 texts: %v by one that goes on, %v restored for each, %v begun anew", went, restored, cold)
	}
	// Parts that nobody used are saved again, each under its names.
	y := &Experience{}
	y.Of(Choice{Drafter: "tree", Schedule: "auto"}).learned = x.learned
	parts, err := y.Save()
	z := &Experience{}
	if err == nil {
		err = z.Restore(parts)
	}
	if again, _ := z.Save(); err != nil || string(again) != string(parts) || len(parts) < len(state) ||
		!z.Of(Choice{Drafter: "ngram", Schedule: "auto"}).Empty() || z.Of(Choice{Drafter: "tree", Schedule: "auto"}).Empty() {
		t.Errorf("%v: parts %s, restored and saved again %s", err, parts, again)
	}
	for _, bad := range []string{
		"", "null", "{}", "[]", `{"version":2}`, string(state) + "{}",
		strings.Replace(string(state), `"version"`, `"Version"`, 1),
		strings.Replace(string(state), `"lengths"`, `"lengths":[],"lengths"`, 1),
		strings.Replace(string(state), `"rates"`, `"odds":1,"rates"`, 1),
		strings.Replace(string(state), `"passes":`, `"passes":-`, 1),
		strings.Replace(string(state), `"rates":[[`, `"rates":[[5e9,5e9],[`, 1),
		strings.Replace(string(state), `"rates":[[`, `"rates":[[-1,2],[`, 1),
		strings.Replace(string(state), `"drafter":[[`, `"drafter":[[[2,1],`, 1),
		strings.Replace(string(state), `"drafter":[`, `"drafter":[null,`, 1),
		strings.Replace(string(state), `"seconds":0`, `"seconds":-0`, 1),
		strings.Replace(string(state), `"first_seconds":[`, `"first_seconds":[1,`, 1),
	} {
		if bad == string(state) {
			t.Fatal("nothing was damaged")
		}
		y := &Experience{}
		err := y.Restore([]byte(bad))
		if err == nil {
			err = make(y).Recall()
		}
		if !errors.Is(err, ErrState) {
			t.Errorf("%.60q is restored: %v", bad, err)
		}
	}
}

// A schedule that is restored predicts for the first and each further token of a draft what the saved one did.
func TestRestoredDraftStepsAreTheSavedOnes(t *testing.T) {
	a, b := Auto(AutoOptions{}).(*auto), Auto(AutoOptions{}).(*auto)
	a.lanes = 2
	for lane := range a.lanes {
		a.steps.lead[lane], a.steps.follow[lane] = timing{0.5 + float64(lane), 3}, timing{0.125 + float64(lane), 5}
	}
	state, err := a.Save()
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Restore(state); err != nil {
		t.Fatal(err)
	}
	for lane := range a.lanes {
		if b.steps.first(lane) != a.steps.first(lane) || b.steps.further(lane) != a.steps.further(lane) {
			t.Errorf("drafter %d: %v and %v s, %v and %v were saved", lane, b.steps.first(lane), b.steps.further(lane),
				a.steps.first(lane), a.steps.further(lane))
		}
	}
}

// What merged drafters learned is restored whole or not at all.
func TestDamagedStatesOfMergedDraftersAreRefused(t *testing.T) {
	m := Merge(NGram(NGramOptions{}), NGram(NGramOptions{}))
	for _, bad := range []string{"", "{}", "[", "[null]", "[null,null,null]", "[null,null]]"} {
		if err := m.(Learning).Restore([]byte(bad)); !errors.Is(err, ErrState) {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if err := m.(Learning).Restore([]byte("[null,null]")); err != nil {
		t.Error(err)
	}
}

// Decoders of one Experience end while others begin, save and restore.
func TestExperienceIsSharedByManyGoroutines(t *testing.T) {
	x := &Experience{}
	state := []byte(`{"version":1,"choices":[{"of":["model",""],"schedule":{}}]}`)
	d := New(newFake(t, matrixVocab, 100, random(1)), Merge(NGram(NGramOptions{})),
		Options{MaxTokens: 8, Schedule: newAuto(), Experience: x})
	collect(t, d, matrixPrompt, engine.Sampling{})
	testkit.AtOnce(50, d.tell, func() {
		if err := x.Restore(state); err != nil {
			t.Error(err)
		}
	}, func() {
		if _, err := x.Save(); err != nil {
			t.Error(err)
		}
	}, func() { x.Of(Choice{Drafter: "ngram"}) }, func() { x.Of(Choice{Drafter: "model"}).Empty() },
		func() { x.group(true) }, func() { x.group(true); x.group(false) })
}
