package main

import (
	"context"
	"io"
	"path/filepath"
	"strings"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/promptcache"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/testdata"
)

// resultFlags choose the form of a measurement's results.
type resultFlags struct{ format string }

// asText is the form for people.
var asText = resultFlags{"text"}

// rows are -o and its short forms. variable is the environment's for -o, which is a file of other commands.
func (f *resultFlags) rows(variable string) []flag {
	short := func(name, format string) flag {
		return valueFlag(name, "", "the same as -o "+format, func(string) error {
			f.format = format
			return nil
		}).of("format")
	}
	return []flag{
		choiceFlag("-o, --output", &f.format, []string{"text", "md", "csv", "json"}, "format of the results").
			or("text").env(variable).unlike().of("format"),
		short("--json", "json"), short("--csv", "csv"),
	}
}

// writeForPrograms writes results as JSON or CSV; of other formats it does nothing and returns false. JSON has the
// rows in common.
func writeForPrograms[C, R any](f *resultFlags, w io.Writer, common C, rows []R) (bool, error) {
	switch f.format {
	case "json":
		return true, printJSON(w, common)
	case "csv":
		return true, results.CSV(w, common, rows)
	}
	return false, nil
}

// origin says what measures, where, and with which models: the target, and draft models by their files, "" for an
// embedded one. Kernels and threads are those of rt. Hashes of files are kept in the cache directory.
func (m *modelFlags) origin(ctx context.Context, p *program, rt *engine.Runtime, drafts ...string) (results.Origin,
	error) {
	o := results.Here()
	o.SIMD, o.Threads = rt.SIMD(), rt.Threads()
	list, err := m.files(ctx, p, drafts...)
	o.Models = append(o.Models, list...)
	return o, err
}

// files are the target and draft models, as origin has them.
func (m *modelFlags) files(ctx context.Context, p *program, drafts ...string) ([]results.File, error) {
	target, err := m.hashed(ctx, p, m.model, "embedded target", testdata.Target())
	if err != nil {
		return nil, err
	}
	list := []results.File{target}
	for _, file := range drafts {
		name, embedded := "embedded draft", testdata.Draft()
		if file == embeddedHead {
			file, name, embedded = "", embeddedHead, testdata.Head()
		}
		draft, err := m.hashed(ctx, p, file, name, embedded)
		if err != nil {
			return nil, err
		}
		list = append(list, draft)
	}
	return list, nil
}

// hashed is a model's file with its fingerprint; path "" is an embedded one.
func (m *modelFlags) hashed(ctx context.Context, p *program, path, name string, embedded *strings.Reader) (
	results.File, error) {
	path, err := localPath(ctx, p, path)
	if err != nil {
		return results.File{}, err
	}
	var f *gguf.File
	if path == "" {
		f, err = gguf.Open(embedded, embedded.Size(), name)
	} else if err = modelFile(path, byFlag); err == nil {
		name = filepath.Base(path)
		f, err = gguf.OpenFile(path)
	}
	if err != nil {
		return results.File{}, err
	}
	defer f.Close()
	dir, err := panelCache(p)
	if err != nil {
		dir = "" // kept nowhere
	}
	var print engine.Fingerprint
	if dir == "" {
		print, err = engine.ReadFingerprint(ctx, f)
	} else {
		print, err = promptcache.Fingerprint(ctx, dir, f)
	}
	return results.File{Name: name, SHA256: print.Model}, err
}
