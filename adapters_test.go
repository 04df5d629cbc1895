package spec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

// targetAdapters draws adapters for the embedded target, which change its texts.
func targetAdapters(t testing.TB, target *engine.Model, n int) (list []engine.ScaledAdapter) {
	t.Helper()
	r := testdata.Target()
	base, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		file := randommodel.Adapter{Seed: uint64(i + 1), Spread: 0.3}.File(t, base)
		f, err := gguf.Open(bytes.NewReader(file), int64(len(file)), "lora.gguf")
		if err != nil {
			t.Fatal(err)
		}
		a, err := target.ReadAdapter(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, engine.ScaledAdapter{Adapter: a, Scale: 0})
	}
	return list
}

// With every set of adapters, drafts change no text, wherever sequences come from; sets have other texts; and a prompt
// is computed again under another set, and not under the same one.
func TestAdaptersOfRequests(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	head := headOf(t, p.Target)
	list := targetAdapters(t, p.Target, 2)
	list[0].Scale = 2
	prompt := Prompt{Text: "func (r *Ring) Push(x int) {\n\tif r.n == len(r.buf) {\n\t\tr.grow()\n\t}\n\tr.buf["}
	sets := map[string][]AdapterScale{"the model's": nil, "none": {}, "the first": {{0, 2}}, "less of it": {{0, 1.5}},
		"both": {{1, 1}, {0, 2}}}
	want := map[string]string{}
	hows := []struct {
		parallel int
		draft    *engine.Model
		drafters []string
	}{{0, p.Draft, []string{"none", "tree", "self", "ngram"}}, {1, p.Draft, []string{"none", "early-exit", "self"}},
		{0, head, []string{"eagle"}}, {1, head, []string{"eagle"}}}
	if testing.Short() {
		hows[0].drafters, hows[1].drafters = []string{"tree", "self"}, []string{"self"}
	}
	for _, how := range hows {
		m, err := New(Parts{Target: p.Target, Draft: how.draft, Adapters: list}, Options{Parallel: how.parallel,
			Memory: Memory{DraftForm: 1 << 30}})
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		for i, drafter := range how.drafters {
			for j, name := range slices.Sorted(maps.Keys(sets)) {
				if drafter != "none" && (i+j)%2 > 0 && !testkit.IsLong(t) { // each drafter with every second set
					continue
				}
				set := sets[name]
				r := Request{Prompts: []Prompt{prompt}, MaxTokens: 16, Adapters: set, Salt: drafter,
					Sampling:    engine.Sampling{Temperature: 1, Seed: 3},
					Speculation: speculative.Choice{Drafter: drafter}}
				a, err := Collect(m.Generate(t.Context(), r))
				if err != nil {
					t.Fatal(name, drafter, err)
				}
				if want[name] == "" {
					want[name] = a[0].Text
				}
				if a[0].Text != want[name] {
					t.Errorf("%s, %s, %d: %q, want %q", name, drafter, how.parallel, a[0].Text, want[name])
				}
				if n := a[0].Stats.Reused; n > 0 && name != "the model's" && name != "the first" { // which are the same
					t.Errorf("%s, %s, %d: %d tokens of other sets are used", name, drafter, how.parallel, n)
				}
				if a, err = Collect(m.Generate(t.Context(), r)); err != nil || a[0].Stats.Reused == 0 || a[0].Text != want[name] {
					t.Errorf("%s, %s, %d: once more: %v %+v", name, drafter, how.parallel, err, a)
				}
			}
		}
	}
	if want["the model's"] != want["the first"] {
		t.Error("without scales a request has not the model's")
	}
	delete(want, "the model's")
	seen := map[string]bool{}
	for _, text := range want {
		seen[text] = true
	}
	if len(seen) != len(want) {
		t.Errorf("sets that write the same: %q", want)
	}
}

// TestLongAdaptersOfRequests: every drafter with every set.
func TestLongAdaptersOfRequests(t *testing.T) {
	testkit.Long(t)
	TestAdaptersOfRequests(t)
}

// Where texts take turns, the drafter of the last text goes on while its target's sequence does. After vectors, or a
// text, with other adapters that sequence is another one, and so is the drafter.
func TestDraftersGoOnWithTheirTarget(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(Parts{Target: p.Target, Adapters: targetAdapters(t, p.Target, 1)}, Options{Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r := Request{MaxTokens: 2, Adapters: []AdapterScale{{0, 1}}, Speculation: speculative.Choice{Drafter: "ngram"}}
	var drafters []speculative.Drafter
	for i := range 3 {
		if i == 2 {
			if _, err := m.Embed(t.Context(), []string{"x"}, EmbedOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Collect(m.Complete(t.Context(), "func", r)); err != nil {
			t.Fatal(err)
		}
		drafters = append(drafters, m.alone.drafter)
	}
	if drafters[0] != drafters[1] {
		t.Error("a drafter does not go on")
	}
	if drafters[1] == drafters[2] {
		t.Error("a drafter goes on with a sequence that is closed")
	}
}

// SetAdapters changes what requests have that do not choose, and what vectors are computed with; ids and scales that
// mean nothing are refused.
func TestSetAdapters(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	p.Adapters = targetAdapters(t, p.Target, 2)
	m, err := New(p, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	vector := func() float32 {
		v, err := m.Embed(t.Context(), []string{"func"}, EmbedOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return v[0][0]
	}
	plain := vector()
	if err := m.SetAdapters([]AdapterScale{{1, 2}}); err != nil {
		t.Fatal(err)
	}
	if a := m.Adapters(); a[0].Scale != 0 || a[1].Scale != 2 || vector() == plain {
		t.Errorf("%+v, vectors are as without: %v", a, vector() == plain)
	}
	for _, bad := range [][]AdapterScale{{{2, 1}}, {{-1, 1}}, {{0, 1}, {0, 1}}, {{0, float32(math.Inf(1))}}} {
		e := (*RequestError)(nil)
		if err := m.SetAdapters(bad); !errors.As(err, &e) || e.Field != "lora" {
			t.Errorf("%v: %v", bad, err)
		}
		if _, err := m.Prepare(t.Context(), Request{Prompts: []Prompt{{Text: "x"}}, Adapters: bad}); !errors.As(err, &e) {
			t.Errorf("%v: %v", bad, err)
		}
	}
	if m.Adapters()[1].Scale != 2 {
		t.Error("a refused change is made")
	}
	p.Adapters = append(p.Adapters, p.Adapters[0])
	if _, err := New(p, Options{}); !errors.Is(err, ErrOptions) {
		t.Error("an adapter twice:", err)
	}
}

// A receipt of a text with adapters is confirmed with the same adapters and scales, and with nothing else.
func TestReceiptsHaveAdapters(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	list := targetAdapters(t, p.Target, 2)
	a, b := list[0].Adapter, list[1].Adapter
	list[0].Scale, list[1].Scale = 0.5, 1
	p.Adapters = list
	m, err := New(p, Options{Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var r *speculative.Receipt
	_, err = Collect(m.Generate(t.Context(), Request{Prompts: []Prompt{{Text: "for i := 0; i"}}, MaxTokens: 20,
		Written: func(d *speculative.Decoder) (err error) {
			r, err = d.Receipt(speculative.ReceiptOptions{})
			return err
		}}))
	if err != nil {
		t.Fatal(err)
	}
	confirm := func(what, field string, r *speculative.Receipt, adapters ...*engine.Adapter) {
		t.Helper()
		c, err := speculative.Confirm(t.Context(), p.Target, engine.Fingerprint{}, r, adapters...)
		differs := (*speculative.Mismatch)(nil)
		switch {
		case field == "" && (err != nil || c.Tokens != 20):
			t.Errorf("%s: %v, %d tokens", what, err, c.Tokens)
		case field != "" && (!errors.As(err, &differs) || differs.Field != field):
			t.Errorf("%s: %v, expected a difference of %s", what, err, field)
		}
	}
	confirm("as it is", "", r, b, a)
	confirm("without one", "adapters", r, a)
	confirm("without any", "adapters", r)
	with := func(list ...speculative.ReceiptAdapter) *speculative.Receipt {
		other := *r
		other.Model.Adapters = list
		return &other
	}
	ra, rb := r.Model.Adapters[0], r.Model.Adapters[1]
	confirm("one beside it", "adapters", with(ra), a, b)
	confirm("another scale", "token_ids", with(ra, speculative.ReceiptAdapter{Adapter: rb.Adapter, Scale: 0.1}), a, b)
	confirm("no adapters", "token_ids", with())
	if _, err := speculative.Confirm(t.Context(), p.Target, engine.Fingerprint{}, with(ra, rb, ra), a, b); !errors.Is(err,
		speculative.ErrReceipt) || !strings.Contains(err.Error(), "twice") {
		t.Error("an adapter twice:", err)
	}
}

// What heads read under one salt and set of adapters is no other's, whatever the bytes of salts.
func TestSaltsOfHeadsAreApart(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	list := targetAdapters(t, p.Target, 2)
	var sets []engine.AdapterSet
	for _, scales := range [][2]float32{{0, 0}, {1, 0}, {0, 1}, {1, 2}} {
		list[0].Scale, list[1].Scale = scales[0], scales[1]
		set, err := engine.NewAdapterSet(list...)
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, set)
	}
	salts := []string{"", "key", "\x00", "key\x00"}
	for _, set := range sets {
		salts = append(salts, "\x00"+set.Key(), "key\x00"+set.Key(), set.Key())
	}
	slices.Sort(salts)
	seen := map[string]string{}
	for _, salt := range slices.Compact(salts) {
		for i := range sets {
			got, who := readSalt(salt, &sets[i]), fmt.Sprintf("%q with set %d", salt, i)
			if other, ok := seen[got]; ok {
				t.Errorf("%s has the salt of %s", who, other)
			}
			seen[got] = who
		}
	}
	if readSalt("key", &sets[0]) != "key" {
		t.Error("without adapters the salt is another one")
	}
}
