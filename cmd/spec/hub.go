package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"github.com/specgo/spec/hub"
	"github.com/specgo/spec/internal/terminal"
)

var pullCommand = command{
	name:  "pull",
	does:  "download a model from the Hugging Face Hub",
	usage: "OWNER/NAME[:QUANTIZATION]",
	about: `Downloads a GGUF model into the cache that Hugging Face's own tools use, and prints its path. Without a quantization it takes Q4_K_M if there is one, else the next best; the name of a file works too. An interrupted download is continued. Checksums are verified.

The environment variables HF_TOKEN (for models that need an account), HF_ENDPOINT (another server), HF_HUB_CACHE and HF_HOME (the folder) and HF_HUB_OFFLINE (1: nothing is downloaded) are those of Hugging Face's tools.`,
	new: func() job { return &pulling{} },
}

var listCommand = command{
	name:  "list",
	does:  "the models that were downloaded",
	usage: "[--json]",
	about: "Lists the GGUF files in the cache of the Hugging Face Hub.",
	new:   func() job { return &listing{} },
}

var removeCommand = command{
	name:  "rm",
	does:  "delete downloaded models",
	usage: "OWNER/NAME[:QUANTIZATION]",
	about: "Deletes a model's GGUF files from the cache of the Hugging Face Hub: those of a quantization, or all, " +
		"with a download that was not finished. Contents that another version still uses stay.",
	new: func() job { return &removing{} },
}

// hubModel is the operand of commands about one model of the Hub.
type hubModel struct{ name string }

func (h *hubModel) flags() []group { return nil }

func (h *hubModel) operand(v string) error {
	if h.name != "" {
		return errors.New("one model at a time")
	}
	_, err := hub.ParseReference(v)
	h.name = v
	return err
}

func (h *hubModel) check() error {
	if h.name == "" {
		return usagef("the model is missing: OWNER/NAME[:QUANTIZATION]")
	}
	return nil
}

// pulling is the options of spec pull.
type pulling struct{ hubModel }

func (x *pulling) run(ctx context.Context, p *program) error {
	paths, err := download(ctx, p, x.name)
	w := &remembering{w: p.stdout}
	for _, path := range paths {
		fmt.Fprintln(w, terminal.Line(path, 0))
	}
	return errors.Join(err, w.err)
}

// download brings a model of the Hub into the cache.
func download(ctx context.Context, p *program, name string) ([]string, error) {
	r, err := hub.ParseReference(name)
	if err != nil {
		return nil, err
	}
	if offline(p) {
		return nil, noDownload(name)
	}
	c, done, err := hubClient(p, r)
	if err != nil {
		return nil, err
	}
	defer done()
	paths, err := c.Pull(ctx, r)
	return paths, unreached(err)
}

// offline reports whether Hugging Face's variable forbids connections.
func offline(p *program) bool {
	return slices.Contains([]string{"1", "ON", "YES", "TRUE"}, strings.ToUpper(p.env("HF_HUB_OFFLINE")))
}

// noDownload is the error of a download that the variable forbids.
func noDownload(name string) error {
	return fmt.Errorf("HF_HUB_OFFLINE is set: %s is not downloaded", shown(name))
}

// unreached adds to the error of a Hub to which there is no connection, or may be none, why that is and what to do
// instead.
func unreached(err error) error {
	if errors.Is(err, hub.ErrNotCached) { // a client of hubClient downloads unless the variable forbids it
		return fmt.Errorf("%w, and HF_HUB_OFFLINE is set", err)
	}
	if e := (*net.OpError)(nil); errors.As(err, &e) {
		return fmt.Errorf("%w; spec list shows the models that are here, HF_ENDPOINT and HTTPS_PROXY name another way", err)
	}
	return err
}

// hubClient is a client of what the environment says, which shows the progress of a download. done ends that.
func hubClient(p *program, r hub.Reference) (c *hub.Client, done func(), err error) {
	cache, err := hub.DefaultCache(p.env)
	if err != nil {
		return nil, nil, err
	}
	c = &hub.Client{Cache: cache, Endpoint: p.env("HF_ENDPOINT"), Token: p.env("HF_TOKEN"),
		Download: !offline(p)}
	bar := terminal.NewBar(p.stderr, r.Repo())
	if bar == nil {
		return c, func() {}, nil
	}
	now := ""
	c.Progress = func(file string, done, total int64) {
		if file != now {
			bar.Restart(filepath.Base(file))
			now = file
		}
		bar.Set(done, total, size(done)+" of "+size(total))
	}
	return c, bar.Clear, nil
}

// hubName is what the help calls the name of a model on the Hub.
const hubName = "OWNER/NAME[:QUANT]"

// hubFlag is llama.cpp's -hf: it sets a model by its name on the Hub.
func hubFlag(n string, set func(string) error, what string) flag {
	return valueFlag(n, hubName, what+" from the Hugging Face Hub; downloaded where it is not in the cache",
		func(v string) error {
			if _, err := hub.ParseReference(v); err != nil {
				return err
			}
			return set(hub.Scheme + v)
		})
}

// localPath is the path itself, or that of the model of the Hub that it names: from the cache, else downloaded.
func localPath(ctx context.Context, p *program, path string) (string, error) {
	r, ok, err := hub.CutScheme(path)
	if err != nil || !ok {
		return path, err
	}
	c, done, err := hubClient(p, r)
	if err != nil {
		return "", err
	}
	defer done()
	path, err = c.Local(ctx, path)
	return path, unreached(err)
}

// localPaths is localPath of several.
func localPaths(ctx context.Context, p *program, paths []string) (list []string, err error) {
	for _, path := range paths {
		if path, err = localPath(ctx, p, path); err != nil {
			return nil, err
		}
		list = append(list, path)
	}
	return list, nil
}

// listing is the options of spec list.
type listing struct{ json bool }

func (x *listing) flags() []group { return []group{{"output", []flag{jsonRow(&x.json)}}} }

func (x *listing) run(_ context.Context, p *program) error {
	cache, err := hub.DefaultCache(p.env)
	if err != nil {
		return err
	}
	list, err := cache.List()
	if err != nil {
		return err
	}
	if x.json {
		type entry struct {
			Repo   string `json:"repo"`
			File   string `json:"file"`
			Commit string `json:"commit"`
			Path   string `json:"path"`
			Bytes  int64  `json:"bytes"`
		}
		out := struct {
			Schema int     `json:"schema"`
			Models []entry `json:"models"`
		}{1, []entry{}}
		for _, e := range list {
			out.Models = append(out.Models, entry{e.Repo, e.File, e.Commit, e.Path, e.Bytes})
		}
		return printJSON(p.stdout, out)
	}
	if len(list) == 0 {
		_, err := fmt.Fprintf(p.stdout, "no models in %s\n", terminal.Line(cache.Dir, 0))
		return err
	}
	table := terminal.Table{Columns: []terminal.Column{
		{Head: "model", Left: true}, {Head: "file", Left: true}, {Head: "size"}, {Head: "version", Left: true, Drop: 1}}}
	for _, e := range list {
		table.Rows = append(table.Rows, []string{
			terminal.Line(e.Repo, 60), terminal.Line(e.File, 80), size(e.Bytes), e.Commit[:8]})
	}
	text, _ := table.String(terminal.Width(p.stdout))
	_, err = io.WriteString(p.stdout, text)
	return err
}

// removing is the options of spec rm.
type removing struct{ hubModel }

func (x *removing) run(_ context.Context, p *program) error {
	r, err := hub.ParseReference(x.name)
	if err != nil {
		return err
	}
	cache, err := hub.DefaultCache(p.env)
	if err != nil {
		return err
	}
	removed, err := cache.Remove(r)
	w := &remembering{w: p.stdout}
	for _, e := range removed {
		fmt.Fprintf(w, "removed %s %s (%s)\n", e.Repo, terminal.Line(e.File, 0), size(e.Bytes))
	}
	if err == nil && len(removed) == 0 {
		return fmt.Errorf("%s is not in the cache (spec list shows what is)", r)
	}
	return errors.Join(err, w.err)
}
