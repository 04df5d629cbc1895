package promptcache_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"slices"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/promptcache"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/testdata"
)

// A prompt is computed once; a session of another run goes on from its end.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := twice(ctx, dir); err != nil {
		log.Fatal(err)
	}
	// Output: 90 of 90 tokens saved, 90 restored, the same logits: true
}

func twice(ctx context.Context, dir string) error {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		return err
	}
	defer rt.Close()
	r := testdata.Target()
	m, err := engine.New(ctx, rt, r, r.Size(), engine.Options{
		Fingerprint: func(ctx context.Context, f *gguf.File) (engine.Fingerprint, error) {
			return promptcache.Fingerprint(ctx, dir, f)
		}})
	if err != nil {
		return err
	}
	defer m.Close()
	store, err := promptcache.NewFolder(dir, 1<<30)
	if err != nil {
		return err
	}
	prompt := m.Tokenizer().Encode(string(bytes.Repeat([]byte("func main() { return nil }\n"), 12)),
		bpe.EncodeOptions{})[:90]
	s, err := m.NewSession(engine.SessionOptions{})
	if err != nil {
		return err
	}
	defer s.Close()
	if _, err := s.Eval(ctx, prompt, nil, engine.None); err != nil {
		return err
	}
	l := promptcache.Lineage{Model: m.Identity(), Layers: s.Layers(), Before: -1}
	saved, err := promptcache.Save(ctx, store, l, s, promptcache.Unread{})
	if err != nil {
		return err
	}
	loaded, err := promptcache.Load(ctx, store, l, m.NewSession, engine.SessionOptions{}, prompt, 1)
	if err != nil || loaded == nil {
		return errors.Join(errors.New("nothing was restored"), err)
	}
	defer loaded.Session.Close()
	want, err := s.Eval(ctx, []int32{5}, nil, engine.Last)
	if err != nil {
		return err
	}
	got, err := loaded.Session.Eval(ctx, []int32{5}, nil, engine.Last)
	if err != nil {
		return err
	}
	fmt.Printf("%d of %d tokens saved, %d restored, the same logits: %t\n", saved.Tokens, len(prompt),
		loaded.Session.Len()-1, slices.Equal(got.Row(0), want.Row(0)))
	return nil
}
