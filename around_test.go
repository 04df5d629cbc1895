package spec

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/shared"
	"github.com/specgo/spec/speculative"
)

// A sequence that Around puts before the target's keeps all abilities of that. What sessions can do beyond them is for
// their owner: a method that is neither is to be put on one of the lists.
func TestAroundKeepsAbilities(t *testing.T) {
	names := func(x any) (list []string) {
		for typ, i := reflect.TypeOf(x), 0; i < typ.NumMethod(); i++ {
			list = append(list, typ.Method(i).Name)
		}
		return list
	}
	for what, c := range map[string]struct {
		own, around any
		owners      string
	}{
		"a session": {(*engine.Session)(nil), (*aroundSession)(nil), "Bytes Close DraftBytes EncodeNeed Fed Fork " +
			"ForkAt ForkBytes Held Keep Meter Need Nodes Packed Recomputed Restore SaveAt SaveBytes SaveKV " +
			"SaveState SavedCaches SavedStates SetTarget Share Shrink StatesSaved Taken Target TargetTokens Thin"},
		"a shared session": {(*shared.Session)(nil), (*aroundShared)(nil), "Close Save"},
	} {
		has := names(c.around)
		for _, name := range names(c.own) {
			if kept := slices.Contains(has, name); kept == slices.Contains(strings.Fields(c.owners), name) {
				t.Errorf("%s: method %s is kept: %v", what, name, kept)
			}
		}
	}
}

// embedding is the least that a program writes as Around.
type embedding struct{ Sequence }

// A drafter that goes on from what the target has computed does so through Around, shared or not: it drafts without
// reading the text, with the text of plain decoding. A receipt of it is refused, and names what has the sequence.
func TestAroundLeavesDraftersTheTarget(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	p.Draft = nil
	r := Request{Prompts: []Prompt{{Text: "func (r *Ring) Push("}}, MaxTokens: 8}
	for _, parallel := range []int{1, 2} {
		for _, drafter := range []string{"self", "early-exit"} {
			var was []int
			for _, around := range []bool{false, true} {
				o := Options{Parallel: parallel, Memory: Memory{DraftForm: 1 << 30}}
				if around {
					o.Around = func(s Sequence) Sequence { return embedding{s} }
				}
				m, err := New(p, o)
				if err != nil {
					t.Fatal(err)
				}
				one := r
				one.Speculation = speculative.Choice{Drafter: drafter, Schedule: "constant"}
				var refused error
				one.Written = func(d *speculative.Decoder) error {
					_, refused = d.Receipt(speculative.ReceiptOptions{})
					return nil
				}
				a, err := Collect(m.Generate(t.Context(), one))
				if err != nil {
					t.Fatal(err)
				}
				if around != (refused != nil) || around && !strings.Contains(refused.Error(), "spec.embedding") {
					t.Errorf("%s, %d at once: a receipt is refused: %v", drafter, parallel, refused)
				}
				s := a[0].Stats
				figures := []int{s.Drafted, s.Accepted, s.Rounds, s.DraftPasses}
				if around && (s.Drafted == 0 || !slices.Equal(figures, was)) {
					t.Errorf("%s, %d at once: %v, without Around %v", drafter, parallel, figures, was)
				}
				was = figures
				m.Close()
			}
		}
	}
}
