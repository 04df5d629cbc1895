package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"sync"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/cmd/spec/internal/output"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/promptcache"
	"github.com/specgo/spec/internal/terminal"
)

// promptFolder is a folder of computed prompts, for a server.
type promptFolder struct {
	dir  string
	size int64 // bytes; 0: usualPromptFolder
}

// usualPromptFolder is the default of --cache-size.
const usualPromptFolder = 16 << 30

func (f *promptFolder) rows(help string) []flag {
	return []flag{
		fileFlag("--cache-dir", &f.dir, "DIR", help),
		bytesFlag("--cache-size", &f.size, "most bytes of that folder: what was used longest ago goes").or("16G").
			when(func() bool { return f.dir != "" }),
	}
}

// open makes the folder, or finds it.
func (f *promptFolder) open() (*promptcache.Folder, error) {
	folder, err := promptcache.NewFolder(f.dir, cmp.Or(f.size, usualPromptFolder))
	if err != nil {
		return nil, fmt.Errorf("--cache-dir: %w", err)
	}
	return folder, nil
}

// show says what is in the folder, or deletes it.
func (f *promptFolder) show(p *program, clean, json bool) error {
	if _, err := os.Stat(f.dir); err != nil {
		return fmt.Errorf("--cache-dir: %w", err)
	}
	f.size = math.MaxInt64 // nothing goes by itself
	folder, err := f.open()
	if err != nil {
		return err
	}
	what := folder.Entries
	if clean {
		what = folder.Clear
	}
	n, bytes, err := what()
	if err != nil {
		return err
	}
	if json {
		return printJSON(p.stdout, struct {
			Schema  int    `json:"schema"`
			Dir     string `json:"dir"`
			Entries int    `json:"n_entries"`
			Bytes   int64  `json:"bytes"`
			Deleted bool   `json:"deleted"`
		}{1, f.dir, n, bytes, clean})
	}
	done := ""
	if clean {
		done = "deleted "
	}
	_, err = fmt.Fprintf(p.stdout, "%s%d entries of computed prompts, %s, in %s\n", done, n, size(bytes),
		terminal.Line(f.dir, 0))
	return err
}

// keepPrompt computes a text and keeps it in the folder.
func (x *caching) keepPrompt(ctx context.Context, p *program) error {
	source, err := x.prompt.open(ctx, p)
	if err != nil {
		return err
	}
	defer source.close()
	folder, err := x.folder.open()
	if err != nil {
		return err
	}
	rt, err := x.runtime(p)
	if err != nil {
		return err
	}
	defer rt.Close()
	kv, _ := x.kv.kvType() // checked
	x.prints = x.folder.dir
	x.sessions = engine.Sessions{Count: 1, Tokens: x.context, KV: kv}
	m, err := x.target(ctx, p, rt)
	if err != nil {
		return err
	}
	defer m.Close()
	if err := decoderOnly(m, x.name(), "of others no prompt is kept"); err != nil {
		return err
	}
	tok, err := tokenizerOf(m, x.name())
	if err != nil {
		return err
	}
	n, err := contextSize(x.context, m, x.name())
	if err != nil {
		return err
	}
	text, err := source.read(ctx, longestPrompt(tok, n))
	if err != nil && !errors.Is(err, errTooLong) {
		return err
	}
	tokens := tok.Encode(text, bpe.EncodeOptions{ParseSpecial: true, AddSpecial: true})
	if err != nil || len(tokens) > n {
		return fmt.Errorf("the text is longer than a context of %d tokens (-c)", n)
	}
	o := engine.SessionOptions{KV: kv, Layers: m.Config().Layers}
	l := promptcache.LineageOf(m.Identity(), o, "")
	s, had, err := restored(ctx, folder, l, m, o, tokens)
	if err != nil {
		return err
	}
	defer s.Close()
	bar := terminal.NewBar(p.stderr, "prompt")
	defer bar.Clear()
	for at := s.Len(); at < len(tokens); at = s.Len() {
		if _, err := s.Eval(ctx, tokens[at:min(len(tokens), at+promptPart)], nil, engine.None); err != nil {
			return err
		}
		bar.Set(int64(s.Len()), int64(len(tokens)), fmt.Sprintf("%d of %d tokens", s.Len(), len(tokens)))
	}
	saved, err := promptcache.Save(ctx, folder, l, s, promptcache.Unread{})
	if err != nil {
		return fmt.Errorf("--cache-dir: %w", err)
	}
	bar.Clear()
	_, err = fmt.Fprintf(p.stdout, "%d tokens, %d of them were there; %s written to %s\n", saved.Tokens, had,
		size(saved.Bytes), terminal.Line(x.folder.dir, 0))
	return err
}

// promptPart is the tokens of a prompt that are computed before progress is shown.
const promptPart = 256

// restored is a session with what the folder has of a text; had is how much that is.
func restored(ctx context.Context, folder *promptcache.Folder, l promptcache.Lineage, m *engine.Model,
	o engine.SessionOptions, tokens []int32) (s *engine.Session, had int, err error) {
	loaded, err := promptcache.Load(ctx, folder, l, m.NewSession, o, tokens, 1)
	if err != nil {
		return nil, 0, err
	}
	if loaded != nil {
		return loaded.Session, loaded.Session.Len(), nil
	}
	s, err = m.NewSession(o)
	return s, 0, err
}

// stored is the folder for a model; nil where there is none.
func (f *promptFolder) stored(p *program) (*library.Stored, error) {
	if f.dir == "" {
		return nil, nil
	}
	folder, err := f.open()
	if err != nil {
		return nil, err
	}
	var once sync.Once
	return &library.Stored{Store: folder, Failed: func(err error) {
		once.Do(func() { p.say(slog.LevelWarn, "--cache-dir: %s; it may happen again", terminal.Line(err.Error(), 0)) })
	}}, nil
}

// promptCache is a file with a computed prompt, as llama.cpp has it.
type promptCache struct {
	file     string
	all      bool
	readOnly bool
}

func (c *promptCache) rows() []flag {
	return []flag{
		fileFlag("--prompt-cache", &c.file, "FILE",
			"go on from the prompt that was computed for this file, as far as the texts begin alike, and write this one there"),
		switchFlag("--prompt-cache-all", &c.all, true, "write the answer there too"),
		switchFlag("--prompt-cache-ro", &c.readOnly, true, "leave the file of --prompt-cache as it is"),
	}
}

func (c *promptCache) check(g *generate) error {
	switch {
	case c.file == "" && (c.all || c.readOnly):
		return usagef("--prompt-cache-all and --prompt-cache-ro go with --prompt-cache FILE")
	case c.file != "" && g.noCache:
		return usagef("--prompt-cache: with --no-kv-cache nothing is kept")
	case c.file != "" && len(g.drafts) > 1:
		return usagef("--prompt-cache is for one draft model at most")
	}
	return nil
}

// findPrints has the models' fingerprints found, which are kept in the cache directory.
func (c *promptCache) findPrints(p *program, m *modelFlags) (err error) {
	if c.file != "" {
		m.prints, err = panelCache(p)
	}
	return err
}

// promptFile is the file of --prompt-cache while a program runs.
type promptFile struct {
	*promptcache.File
	name     string
	contents promptcache.Contents
	readOnly bool
	failed   error // of the store
}

// readOnlyStore is a store that takes nothing.
type readOnlyStore struct{ promptcache.Store }

func (readOnlyStore) Put(context.Context, promptcache.Key, []byte) error { return nil }

// open opens the file, and has the model use it. One of another model, or of other options, is refused.
func (c *promptCache) open(parts *library.Parts, o *library.Options) (*promptFile, error) {
	if c.file == "" {
		return nil, nil
	}
	if parts.Target.Encodes() {
		return nil, fmt.Errorf("--prompt-cache: %s is an encoder-decoder model, of which no prompt is kept",
			parts.Target.Name())
	}
	set, err := engine.NewAdapterSet(parts.Adapters...)
	if err != nil {
		return nil, err
	}
	f, err := promptcache.OpenFile(c.file)
	if err != nil {
		return nil, fmt.Errorf("--prompt-cache: %w", err)
	}
	if !c.readOnly { // what cannot be written is told before a prompt is computed
		probe, err := output.Create(context.Background(), c.file, nil)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("--prompt-cache: %w", err), f.Close())
		}
		probe.Abort()
	}
	x := &promptFile{File: f, name: c.file, readOnly: c.readOnly}
	x.contents.Lineage = promptcache.LineageOf(parts.Target.Identity(),
		engine.SessionOptions{KV: o.KV, Layers: parts.Target.Config().Layers, Adapters: set}, "")
	if had := f.Contents().Lineage; had.Model != "" && had != x.contents.Lineage {
		return nil, errors.Join(fmt.Errorf("--prompt-cache %s: it was computed by another model or with other options; "+
			"delete it, or name another file", c.file), f.Close())
	}
	var store promptcache.Store = f
	if c.readOnly {
		store = readOnlyStore{f}
	}
	o.Parallel, o.Memory.Cache = 0, keptTexts(parts, o)
	o.Stored = &library.Stored{Store: store, PromptsOnly: !c.all, Failed: func(err error) {
		if x.failed == nil { // what follows is the same
			x.failed = err
		}
	}}
	return x, nil
}

// keptTexts is the memory for what is kept: the text of --prompt-cache, of which one is computed at a time, and one
// more. What else a conversation has been goes, as before its first messages were dropped.
func keptTexts(parts *library.Parts, o *library.Options) int64 {
	s := engine.Sessions{Count: 2, Tokens: o.Context, KV: o.KV, StateBytes: o.StateBytes}
	n := s.Bytes(parts.Target.Describe())
	if d := parts.Draft; d != nil && (d.Head() == nil || !d.Head().SharesCache) {
		n += s.Bytes(d.Describe())
	}
	return max(n, library.DefaultCacheBytes)
}

// end closes the models, and writes the file of --prompt-cache.
func (w *writing) end() error {
	w.Close()
	x := w.prompts
	if x == nil {
		return nil
	}
	if x.readOnly || x.failed != nil {
		return x.error(errors.Join(x.failed, x.Close()))
	}
	_, err := x.Commit(x.contents)
	return x.error(err)
}

func (x *promptFile) error(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("--prompt-cache %s: %w", x.name, err)
}

// abort leaves the file as it is.
func (x *promptFile) abort() {
	if x != nil {
		x.Close()
	}
}
