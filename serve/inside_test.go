package serve

import (
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// Requests come in, hold bytes, are counted and leave at once; nothing is left of them.
func TestWhatIsInsideIsCountedAtOnce(t *testing.T) {
	in := &inside{most: 100, bytes: 1000, byWhom: map[*client]*holding{}}
	visit := func(who *client) func() {
		return func() {
			v, err := in.enter(who, false)
			if err != nil {
				t.Error(err)
				return
			}
			v.hold(7)
			v.end()
			v.end() // once
		}
	}
	one, two := &client{}, &client{}
	testkit.AtOnce(30, visit(one), visit(one), visit(two), func() { in.Load() })
	if in.all != (holding{}) || len(in.byWhom) != 0 || in.Load() != 0 {
		t.Errorf("%+v of %d clients are left", in.all, len(in.byWhom))
	}
}
