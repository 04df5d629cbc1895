package spectest

import (
	"testing"
	"time"

	"github.com/specgo/spec"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/speculative"
)

// Clock is the time that chat templates read where [spec.Options] does not say otherwise.
func Clock() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// Model is a model with what identifies it.
type Model struct {
	*spec.Model
	file  engine.Fingerprint
	clock time.Time
}

// Open loads a model as [spec.Open] does and reads its file's fingerprint, which takes a pass over the file. The model
// is closed when the test ends. An error fails the test.
func Open(t testing.TB, path string, o spec.Options) *Model {
	t.Helper()
	if o.Hub != nil {
		local, err := o.Hub.Local(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		path = local
	}
	f, err := gguf.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file, err := engine.ReadFingerprint(t.Context(), f)
	f.Close()
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	o, now := pinned(o)
	m, err := spec.Open(t.Context(), path, o)
	return identified(t, m, err, file, o, now)
}

// New makes a model of loaded parts, as [spec.New] does; file is the fingerprint of the target's file. The model is
// closed when the test ends. An error fails the test.
func New(t testing.TB, p spec.Parts, file engine.Fingerprint, o spec.Options) *Model {
	t.Helper()
	o, now := pinned(o)
	m, err := spec.New(p, o)
	return identified(t, m, err, file, o, now)
}

// Of is a model that is not opened for a test; file is the fingerprint of its target's file, and now is what templates
// read, of requests that have no clock of their own.
func Of(m *spec.Model, file engine.Fingerprint, now time.Time) *Model {
	return &Model{Model: m, file: file, clock: now}
}

// pinned makes the clock stand still.
func pinned(o spec.Options) (spec.Options, time.Time) {
	now := Clock()
	if o.Clock != nil {
		now = o.Clock()
	}
	o.Clock = func() time.Time { return now }
	return o, now
}

func identified(t testing.TB, m *spec.Model, err error, file engine.Fingerprint, o spec.Options, now time.Time) *Model {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	if o.Around != nil {
		t.Fatal("spec.Options.Around: what it changes is not part of a golden file")
	}
	return Of(m, file, now)
}

// adapters are those that a receipt names.
func (m *Model) adapters(r *speculative.Receipt) (list []*engine.Adapter) {
	for _, a := range m.Adapters() {
		for _, x := range r.Model.Adapters {
			if x.Adapter == a.Adapter.Fingerprint() {
				list = append(list, a.Adapter)
			}
		}
	}
	return list
}
