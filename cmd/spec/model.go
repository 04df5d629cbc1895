package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/testdata"
)

// modelFlags are what every command that runs a model takes.
type modelFlags struct {
	model   string // "" is the embedded target
	threads int    // 0 is the engine's choice
	weights string // "" is as in the file
}

func (m *modelFlags) flags() []flag {
	return []flag{
		textFlag("-m, --model", &m.model, "FILE", "the model, a GGUF file (default: the pair inside this program)"),
		intFlag("-t, --threads", &m.threads, -1, 1024, "threads (default 0: the physical cores this process may use)"),
		choiceFlag("--weights", &m.weights, engine.WeightNames(), "convert the weights while loading (default: as in the file)"),
	}
}

// runtime starts the workers.
func (m *modelFlags) runtime(p *program) (*engine.Runtime, error) {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: max(m.threads, 0), SIMD: p.env("SPEC_SIMD")})
	if err != nil && p.env("SPEC_SIMD") != "" {
		return nil, fmt.Errorf("SPEC_SIMD=%s: %w", p.env("SPEC_SIMD"), err)
	}
	return rt, err
}

// open loads the model of one file, or an embedded one where path is "".
func (m *modelFlags) open(ctx context.Context, p *program, rt *engine.Runtime, path, what string, embedded *strings.Reader) (*engine.Model, error) {
	b := &bar{w: p.stderr, name: filepath.Base(path), start: time.Now()}
	o := engine.Options{Weights: m.weights}
	if isTerminal(p.stderr) {
		o.Progress = b.progress
		defer b.clear()
	}
	var model *engine.Model
	var err error
	if path == "" {
		o.Name = "embedded " + what
		model, err = engine.New(ctx, rt, embedded, embedded.Size(), o)
	} else {
		o.Name = path
		model, err = engine.Open(ctx, rt, path, o)
	}
	if err != nil {
		return nil, err
	}
	if types := model.WeightTypes(); m.weights != "" && types != m.weights {
		b.clear()
		fmt.Fprintf(p.stderr, "%s: not all rows are whole blocks of %s; the weights are in %s\n", o.Name, m.weights, types)
	}
	return model, nil
}

// target loads the model that -m names.
func (m *modelFlags) target(ctx context.Context, p *program, rt *engine.Runtime) (*engine.Model, error) {
	return m.open(ctx, p, rt, m.model, "target", testdata.Target())
}

// name is what messages call the model.
func (m *modelFlags) name() string {
	if m.model == "" {
		return "the embedded model"
	}
	return m.model
}

// A bar shows how far a file is loaded, on one line of a terminal, when loading takes long enough
// for a person to wonder.
type bar struct {
	w     io.Writer
	name  string
	start time.Time

	mu    sync.Mutex
	last  time.Time
	shown bool
}

func (b *bar) progress(done, total int64) {
	const patience, interval, cells = 500 * time.Millisecond, 100 * time.Millisecond, 40
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	if total <= 0 || now.Sub(b.start) < patience || now.Sub(b.last) < interval {
		return
	}
	b.last, b.shown = now, true
	full := int(cells * done / total)
	fmt.Fprintf(b.w, "\r%s [%s%s] %3d %%", b.name, strings.Repeat("#", full), strings.Repeat(".", cells-full), 100*done/total)
}

func (b *bar) clear() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.shown {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
}

// isTerminal tells whether a person may be looking. The null device passes for one, which harms
// nobody.
func isTerminal(f any) bool {
	file, ok := f.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0 && runtime.GOOS != "wasip1"
}

// promptFlags are where a command's text comes from.
type promptFlags struct {
	text    string
	given   bool // -p was given; its text may be empty
	file    string
	escapes bool
}

func (f *promptFlags) flags(what string) []flag {
	return []flag{
		{names("-p, --prompt"), "TEXT", what + " (default: standard input)", func(v string) error {
			f.text, f.given = v, true
			return nil
		}},
		textFlag("-f, --file", &f.file, "FILE", what+" from a file, taken byte for byte"),
		switchFlag("-e, --escape", &f.escapes, true, `read \n, \t, \r, \", \' and \\ in -p as the characters they name`),
	}
}

// read returns the text, wherever it comes from.
func (f *promptFlags) read(p *program) (string, error) {
	switch {
	case f.given && f.file != "":
		return "", usagef("-p and -f exclude each other")
	case f.given && f.escapes:
		return unescape.Replace(f.text), nil
	case f.given:
		return f.text, nil
	case f.file != "":
		text, err := os.ReadFile(f.file)
		return string(text), err
	case isTerminal(p.stdin):
		return "", usagef("no text: give -p, -f or standard input")
	}
	text, err := io.ReadAll(p.stdin)
	if err != nil {
		return "", fmt.Errorf("standard input: %w", err)
	}
	return string(text), nil
}

var unescape = strings.NewReplacer(`\\`, `\`, `\n`, "\n", `\r`, "\r", `\t`, "\t", `\"`, `"`, `\'`, "'")
