package spec

import (
	"errors"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/hub"
	"github.com/specgo/spec/speculative/lookup"
)

// unreachable fails every connection.
type unreachable struct{}

var errConnection = errors.New("a connection")

func (unreachable) RoundTrip(*http.Request) (*http.Response, error) { return nil, errConnection }

// A model of the Hub is opened by its name only where Options.Hub is, from its cache; it is downloaded only where the
// client may.
func TestOpenFromTheHub(t *testing.T) {
	const name = "hf://owner/name:Q8_0"
	if _, err := Open(t.Context(), name, Options{}); !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), "Hub") {
		t.Errorf("without a client: %v", err)
	}
	client := &hub.Client{Cache: hub.Cache{Dir: t.TempDir()}, HTTP: &http.Client{Transport: unreachable{}},
		Download: false}
	if _, err := Open(t.Context(), name, Options{Hub: client}); !errors.Is(err, hub.ErrNotCached) {
		t.Errorf("not in the cache: %v", err)
	}
	commit := strings.Repeat("0", 40)
	repo := filepath.Join(client.Cache.Dir, "models--owner--name")
	write := func(file string, from io.Reader) {
		t.Helper()
		data, err := io.ReadAll(from)
		if err == nil {
			err = errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, data, 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write(filepath.Join(repo, "refs", "main"), strings.NewReader(commit))
	for name, file := range map[string]string{"m-Q8_0.gguf": "testdata/go-target.q8_0.gguf",
		"d-Q4_0.gguf": "testdata/go-draft.q8_0.gguf"} {
		data, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer data.Close()
		write(filepath.Join(repo, "snapshots", commit, name), data)
	}
	m, err := Open(t.Context(), name, Options{Hub: client, Load: Load{Draft: "hf://owner/name:Q4_0", Threads: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if m.Draft() == nil || m.Draft().Parameters() >= m.Target().Parameters() {
		t.Error("the draft is not the file that was named")
	}
	for bad, want := range map[string]error{"hf://name": hub.ErrReference, "hf://owner/name:IQ1_S": hub.ErrNotCached} {
		if _, err := Open(t.Context(), bad, Options{Hub: client}); !errors.Is(err, want) {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// Parts that do not fit each other are refused when a model is made of them, and a draft head by itself when it is
// opened.
func TestPartsThatDoNotFit(t *testing.T) {
	p, err := pair()
	if err != nil {
		t.Fatal(err)
	}
	off := targetAdapters(t, p.Target, 1) // which no request has by default
	on := []engine.ScaledAdapter{{Adapter: off[0].Adapter, Scale: 1}}
	for what, c := range map[string]struct {
		p    Parts
		o    Options
		want string
	}{
		"nothing": {Parts{}, Options{}, "no target"},
		"a head without a cache": {Parts{Target: p.Target, Draft: headOf(t, p.Target)},
			Options{NoCache: true, Parallel: 1}, "NoCache"},
		"a draft that is nil": {Parts{Target: p.Target, Draft: p.Draft, Drafts: []*engine.Model{nil}},
			Options{Parallel: 1}, "Drafts"},
		"a negative context":    {p, Options{Context: -1}, "Context"},
		"no delay":              {p, Options{Memory: Memory{PromptDelay: math.NaN()}}, "Memory.PromptDelay"},
		"texts that are nil":    {p, Options{Texts: []*lookup.Index{nil}}, "Texts[0]"},
		"others' adapters":      {Parts{Target: p.Draft, Adapters: on}, Options{}, "adapters of another model"},
		"others' adapters, off": {Parts{Target: p.Draft, Adapters: off}, Options{}, "adapters of another model"},
	} {
		m, err := New(c.p, c.o)
		if err == nil {
			m.Close()
		}
		if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	m, err := Open(t.Context(), "testdata/go-eagle.q8_0.gguf", Options{})
	if err == nil {
		m.Close()
		t.Error("a draft head is a model by itself")
	} else if !strings.Contains(err.Error(), "head") {
		t.Error(err)
	}
	for want, l := range map[string]Load{
		"Load.NoDraft": {NoDraft: true, Draft: "testdata/go-draft.q8_0.gguf"}, "Load.Threads": {Threads: -1},
		"Load.Memory": {Memory: -1}, "Load.Weights": {Weights: "q8_1"},
	} {
		_, err := Open(t.Context(), "testdata/go-target.q8_0.gguf", Options{Load: l})
		if !errors.Is(err, ErrOptions) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
