package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Ctrl-C ends the opening of another model, and the first one answers on.
func TestOpeningAModelIsInterrupted(t *testing.T) {
	d, _, stderr := newDialog("")
	first := d.partner
	d.another = func(ctx context.Context, _ string) (partner, error) {
		d.stop.interrupt()
		select {
		case <-ctx.Done():
			return partner{}, ctx.Err()
		case <-time.After(10 * time.Second):
			return partner{}, errors.New("Ctrl-C is not heard")
		}
	}
	if err := d.command(t.Context(), "model large"); err != nil || d.partner != first ||
		stderr.String() != "(stopped)\n" {
		t.Errorf("%v, %s", err, stderr)
	}
	if d.stop.interrupt(); len(d.stop.waiting) != 1 {
		t.Error("Ctrl-C behind it is lost")
	}
}

// Another model answers the conversation so far as if it had been loaded with that; its answers follow the settings and
// flags. One that cannot be opened is an error that names it, and the first one answers on.
func TestChatChangesItsModel(t *testing.T) {
	const small = "../../testdata/go-draft.q8_0.gguf"
	dir := t.TempDir()
	before, after, other := filepath.Join(dir, "a"), filepath.Join(dir, "b"), filepath.Join(dir, "c")
	_, stderr, code := spec(t, "func main() {\n/save "+before+"\n/set predict 9\n/model "+small+
		"\nfunc Add(\n/model\n/save "+after+"\n",
		greedyChat...)
	if code != exitDone || strings.Count(stderr, small+", 1.5 MB, a context of 1024 tokens\n") != 2 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	_, stderr, code = spec(t, "func Add(\n/save "+other+"\n",
		with(greedyChat, "-m", small, "-n", "9", "--load", before)...)
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	got, want := savedMessages(t, after), savedMessages(t, other)
	if len(got) != 4 || got[3].Content == "" || got[3].Content != want[3].Content {
		t.Errorf("answered %+v; the model itself %+v", got, want)
	}

	// A drafter that needs the first model's draft model is left behind with it.
	if _, stderr, code := spec(t, "func main() {\n/model "+small+"\nfunc Add(\n/draft\n",
		with(greedyChat, "--drafter", "tree")...); code != exitDone || !strings.Contains(stderr, "drafter ") ||
		strings.Contains(stderr, "drafter tree") {
		t.Errorf("behind --drafter tree: exit %d, %s", code, stderr)
	}

	// What is said of tokens by their numbers is not said of another vocabulary, which may not have them.
	_, stderr, code = spec(t, "/model "+small+"\nfunc Add(\n/model ../../testdata/families/gemma2.f16.gguf\nfunc\n",
		with(greedyChat, "-n", "1", "-l", "4000-1")...)
	if code != exitDone || strings.Count(stderr, "it holds no longer") != 1 || strings.Contains(stderr, "4000") {
		t.Errorf("with -l: exit %d, %s", code, stderr)
	}

	d, _, notes := newDialog("")
	d.p.env = func(string) string { return "" }
	g := options[*converse](t, with(greedyChat, "--chat-template", "plain")...)
	rt, err := g.runtime(d.p)
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	withModel(t, d, "{{ messages[0].content }}", 0)
	d.another = func(ctx context.Context, name string) (partner, error) { return g.another(ctx, d.p, rt, name) }
	first := d.Model
	for name, says := range map[string]string{
		"none.gguf": "none.gguf: no such file", "chatmodel_test.go": "chatmodel_test.go: ",
		"../../testdata/go-eagle.q8_0.gguf": "go-eagle.q8_0.gguf: ",
	} {
		if err := d.command(t.Context(), "model "+name); err == nil || !strings.Contains(err.Error(), says) ||
			d.Model != first || notes.Len() > 0 {
			t.Errorf("%s: %v; %s", name, err, notes)
		}
	}
}
