package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/promptcache"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/modeldir"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/tensor"
	"github.com/specgo/spec/testdata"
)

// modelFlags are what every command that runs a model takes.
type modelFlags struct {
	model   string // "" is the embedded target
	threads int    // 0 or less is the engine's choice
	numa    string // --numa; "" binds no threads
	weights string // "" is as in the file

	ropeContext int // engine.Options.RopeContext; no flag
	changes     fileChanges

	memory     int64           // --memory; 0: what the machine has
	panels     string          // --panels: where every model gets a panel file; "": the cache directory, where it must
	share      int             // so many targets, each with what is loaded for it, are there at once; 0: one
	loaded     int64           // bytes of the models that were opened before
	beside     []string        // files of models that will be loaded beside the target
	sessions   engine.Sessions // that memory is planned for; the zero value is one of keptTokens
	keepPanels bool            // a copy is written to the cache directory as --panels writes it to its folder
	conversing bool            // a conversation has the terminal: nothing is asked there
	prints     string          // folder of fingerprints of models whose prompts are kept; "": nobody asks for them

	adapters adapterFlags // of the target
}

// resolve finds the file of a model that -hf names.
func (m *modelFlags) resolve(ctx context.Context, p *program) (err error) {
	m.model, err = localPath(ctx, p, m.model)
	return err
}

// runtimeOptions are the flags' choices for the engine's runtime.
func (m *modelFlags) runtimeOptions(p *program) engine.RuntimeOptions {
	return engine.RuntimeOptions{Threads: max(m.threads, 0), SIMD: p.env("SPEC_SIMD"), NUMA: m.numa}
}

// runtime starts the workers.
func (m *modelFlags) runtime(p *program) (*engine.Runtime, error) {
	rt, err := engine.NewRuntime(m.runtimeOptions(p))
	if errors.Is(err, tensor.ErrNUMA) {
		return nil, fmt.Errorf("--numa %w", err)
	}
	if err != nil && p.env("SPEC_SIMD") != "" {
		return nil, fmt.Errorf("SPEC_SIMD=%s: %w", p.env("SPEC_SIMD"), err)
	}
	return rt, err
}

// open loads the model of one file, or an embedded one where path is "".
func (m *modelFlags) open(ctx context.Context, p *program, rt *engine.Runtime, path, what string,
	embedded *strings.Reader) (*engine.Model, error) {
	return m.openWith(ctx, p, rt, engine.Options{}, path, what, embedded)
}

// openDraft is open for a model that drafts for target: it may be a draft head.
func (m *modelFlags) openDraft(ctx context.Context, p *program, rt *engine.Runtime, target *engine.Model, path,
	what string, embedded *strings.Reader) (*engine.Model, error) {
	return m.openWith(ctx, p, rt, engine.Options{Target: target}, path, what, embedded)
}

// openMTP loads the block of the target's own file that predicts tokens further ahead.
func (m *modelFlags) openMTP(ctx context.Context, p *program, rt *engine.Runtime, target *engine.Model) (
	*engine.Model, error) {
	if m.model == "" {
		return nil, errors.New("the embedded model has no MTP block")
	}
	return m.openWith(ctx, p, rt, engine.Options{Target: target, MTP: true}, m.model, "MTP block", nil)
}

func (m *modelFlags) openWith(ctx context.Context, p *program, rt *engine.Runtime, o engine.Options, path, what string,
	embedded *strings.Reader) (*engine.Model, error) {
	path, err := localPath(ctx, p, path)
	if err != nil {
		return nil, err
	}
	name := path
	if path == "" {
		name = "embedded " + what
	}
	o.Weights, o.Name, o.RopeContext = m.weights, name, m.ropeContext
	if m.prints != "" {
		o.Fingerprint = func(ctx context.Context, f *gguf.File) (engine.Fingerprint, error) {
			return promptcache.Fingerprint(ctx, m.prints, f)
		}
	}
	hub := asDraft
	if o.Target == nil || o.MTP { // not of draft models
		hub = byFlag
		m.changes.options(&o)
	}
	bar := terminal.NewBar(p.stderr, filepath.Base(name))
	defer bar.Clear()
	if bar != nil {
		o.Progress = bar.Progress
	}
	var model *engine.Model
	if path == "" {
		if err = m.fitEmbedded(&o, embedded); err == nil {
			model, err = engine.New(ctx, rt, embedded, embedded.Size(), o)
		}
	} else if err = modelFile(path, hub); err == nil {
		var beside []string
		if o.Target == nil {
			if beside, err = localPaths(ctx, p, m.beside); err != nil { // whose sizes count
				return nil, err
			}
		}
		if err = m.setMemory(ctx, p, &o, path, beside); err != nil {
			return nil, err
		}
		if model, err = engine.Open(ctx, rt, path, o); err != nil && !isInterrupt(err) {
			err = explain(path, o.Target != nil, err)
		}
	}
	if err != nil {
		return nil, err
	}
	if model.Config().Layers == 0 && !model.TakesTexts() {
		model.Close()
		return nil, fmt.Errorf("%s: an encoder alone (%s), which writes no text and makes no vectors of texts", name,
			model.Config().Architecture)
	}
	if o.Target == nil && model.TargetLayers() != nil {
		model.Close()
		return nil, fmt.Errorf("%s: a draft head, which is no model by itself: -md gives it to the model that it drafts for",
			name)
	}
	m.loaded += model.Bytes()
	if types := model.WeightTypes(); m.weights != "" && types != m.weights {
		bar.Clear()
		p.say(slog.LevelWarn, "%s: not all rows are whole blocks of %s; the weights are in %s", terminal.Line(name, 0),
			m.weights, types)
	}
	return model, nil
}

// fitEmbedded is setMemory for a model inside this program, which is never read from disk.
func (m *modelFlags) fitEmbedded(o *engine.Options, embedded *strings.Reader) error {
	if m.memory == 0 {
		return nil
	}
	f, err := gguf.Open(embedded, embedded.Size(), o.Name)
	if err != nil {
		return err
	}
	return m.fit(o, f, m.memoryLimit(), nil)
}

// target loads the model that -m names.
func (m *modelFlags) target(ctx context.Context, p *program, rt *engine.Runtime) (*engine.Model, error) {
	m.loaded = m.adapters.bytes()
	return m.open(ctx, p, rt, m.model, "target", testdata.Target())
}

// name is what messages call the model.
func (m *modelFlags) name() string {
	if m.model == "" {
		return "the embedded model"
	}
	return m.model
}

// How commands take a model from the Hub.
const (
	byName  = "OWNER/NAME[:QUANTIZATION] or a URL"
	byFlag  = "-hf OWNER/NAME[:QUANTIZATION]"
	asDraft = "-hfd OWNER/NAME[:QUANTIZATION]"
)

// modelFile is regularFile for a model that a flag names; hub is how the command takes one from the Hub.
func modelFile(path, hub string) error {
	err := regularFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return noFile(path, hub)
	case err == nil:
		err = folderError(path)
	}
	return err
}

// noFile is the error of a model that is not there.
func noFile(path, hub string) error {
	if near := suggest(filepath.Base(path), ggufNames(filepath.Dir(path))); near != "" {
		return fmt.Errorf("%s: no such file%s", terminal.Line(path, 0), terminal.Line(near, 0))
	}
	return fmt.Errorf("%s: no such file; %s names a model of the Hugging Face Hub, spec list shows those that are here",
		terminal.Line(path, 0), hub)
}

// folderError is the error of a folder in a model's place; it names models in it.
func folderError(path string) error {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return err
	}
	const most = 4
	names, more := ggufNames(path), ""
	switch n := len(names); {
	case n == 0:
		return fmt.Errorf("%s: a directory without GGUF files", terminal.Line(path, 0))
	case n > most:
		names, more = names[:most], fmt.Sprintf(" and %d more", n-most)
	}
	return fmt.Errorf("%s: a directory; name one of its files: %s%s", terminal.Line(path, 0),
		terminal.Line(strings.Join(names, ", "), 0), more)
}

// ggufNames are the names of a folder's GGUF files that a model can begin with, sorted.
func ggufNames(dir string) (names []string) {
	list, _ := os.ReadDir(dir) // what cannot be read has no names
	for _, e := range list {
		name := e.Name()
		if strings.HasSuffix(name, modeldir.Suffix) && !laterPart(name) {
			names = append(names, name)
		}
	}
	return names
}

// laterPart reports whether a file's name is that of a part of a split model behind the first one.
func laterPart(name string) bool {
	name = filepath.Base(name)
	return modeldir.Name(name) != strings.TrimSuffix(name, modeldir.Suffix) && !strings.Contains(name, "-00001-of-")
}

// regularFile refuses pipes and devices: a model is read at many places of its file, and opening a pipe
// would wait for a writer.
func regularFile(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	if mode := info.Mode(); !mode.IsRegular() && !mode.IsDir() { // a folder is told by others
		return fmt.Errorf("%s: a pipe or device; a model must be a regular file", path)
	}
	return nil
}

// contextSize is the context that -c asks for of a model.
func contextSize(asked int, m *engine.Model, what string) (int, error) {
	most := m.Config().Context
	if asked > most {
		return 0, fmt.Errorf("-c %d: %s has a context of %d tokens", asked, what, most)
	}
	if asked == 0 {
		return most, nil
	}
	return asked, nil
}

// isInterrupt reports whether an error is a cancelled context.
func isInterrupt(err error) bool { return errors.Is(err, context.Canceled) }
