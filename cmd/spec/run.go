package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/hub"
	"github.com/specgo/spec/internal/terminal"
)

// What a conversation is held with: the model that a person names in one of many ways, or where none is named, one that
// is here, or one to choose.

// smallModels are what is offered where no model is here: answers come quickly from them on any machine.
var smallModels = []string{
	"Qwen/Qwen3-0.6B-GGUF:Q8_0", "ggml-org/gemma-3-1b-it-GGUF:Q4_K_M", "Qwen/Qwen3-1.7B-GGUF:Q8_0",
	"Qwen/Qwen3-4B-GGUF:Q4_K_M",
}

// resolve finds the file of the model.
func (c *converse) resolve(ctx context.Context, p *program) (err error) {
	switch {
	case c.named:
		c.model, err = modelByName(c.model, p.env("HF_ENDPOINT"))
	case c.model == "" && c.template == "" && c.templateFile == "" && len(c.drafts) == 0:
		err = c.pick(ctx, p)
	}
	if err != nil {
		return err
	}
	return c.generate.resolve(ctx, p)
}

// modelByName is the path of what a person calls a model: a file, OWNER/NAME[:QUANTIZATION], or a URL of the Hub.
func modelByName(name, endpoint string) (string, error) {
	if _, err := os.Stat(name); err == nil || strings.HasPrefix(name, hub.Scheme) {
		return name, nil
	}
	r, ok, err := hub.CutURL(name, endpoint)
	switch {
	case err != nil:
		return "", err
	case ok:
		return hub.Scheme + r.String(), nil
	case strings.Contains(name, "://"):
		return "", fmt.Errorf("%s: not a URL of the Hugging Face Hub; download the file, and give its path", shown(name))
	}
	repo, _, _ := strings.Cut(name, ":")
	if _, err := hub.ParseReference(name); err != nil || strings.HasSuffix(strings.ToLower(repo), ".gguf") {
		return "", noFile(name, byName)
	}
	return hub.Scheme + name, nil
}

// pick takes the largest model in the cache that fits into the memory; if there is none, one is offered.
func (c *converse) pick(ctx context.Context, p *program) error {
	cache, err := hub.DefaultCache(p.env)
	if err != nil {
		return err
	}
	list, err := cache.List()
	if err != nil {
		return err
	}
	all, others := c.usable(list)
	for _, m := range all {
		if m.needs > c.room() {
			continue
		}
		c.model = m.Path
		why := ""
		if len(all) > 1 {
			why = fmt.Sprintf(", the largest of %d here that fits", len(all))
		}
		_, err := fmt.Fprintf(p.stderr, "%s, %s (%s)%s\n", m.Repo, terminal.Line(m.File, 80), size(m.needs), why)
		return err
	}
	none := "no model is here"
	switch {
	case len(all) == 0 && len(others) > 0:
		none = fmt.Sprintf("no model here holds a conversation (spec run %s says why)", others[0].Repo)
	case len(all) > 0:
		none = fmt.Sprintf("none of the %d models here fits into %s of memory (spec run NAME reads one from disk in every "+
			"pass)", len(all), size(c.room()))
	}
	if offline(p) {
		return fmt.Errorf("%s, and HF_HUB_OFFLINE is set; spec run FILE runs a GGUF file", none)
	}
	if !terminal.Is(p.stdin) {
		return fmt.Errorf("%s; spec run FILE runs a GGUF file, spec run %s downloads a small model and runs it", none,
			smallModels[0])
	}
	offered, err := c.offered(ctx, p)
	if err != nil {
		return fmt.Errorf("%s, and what can be downloaded is not known: %w; spec run FILE runs a GGUF file", none, err)
	}
	name, err := chooseOffer(ctx, p, none, offered)
	c.model = hub.Scheme + name
	return err
}

// room is the most bytes that a model may take.
func (c *converse) room() int64 {
	if limit := c.memoryLimit(); limit > 0 {
		return limit
	}
	return 1 << 62 // not known on this system
}

// A present model is one in the cache that converses.
type present struct {
	hub.Entry
	needs int64 // bytes of memory, with the keys and values of a conversation
}

// usable lists the models of a cache that converse, the largest first, and the others.
func (c *converse) usable(list []hub.Entry) (found []present, others []hub.Entry) {
	seen := map[string]bool{}
	for _, e := range list {
		id := e.Repo + "/" + e.File
		if seen[id] || laterPart(e.File) {
			continue // another version of it, or a part behind the first
		}
		seen[id] = true
		if needs, err := c.examine(e.Path); err == nil {
			found = append(found, present{e, needs})
		} else {
			others = append(others, e)
		}
	}
	slices.SortStableFunc(found, func(a, b present) int { return cmp.Compare(b.needs, a.needs) })
	return found, others
}

// examine says what memory a model needs with a conversation, by its header: an error says why it cannot hold one, and
// what to do instead.
func (c *converse) examine(path string) (needs int64, err error) {
	if err := c.conversable(path); err != nil {
		return 0, err
	}
	f, err := gguf.OpenFile(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	plan, err := engine.PlanMemory(f, engine.Options{Weights: c.weights}, planned(engine.Sessions{Tokens: c.context}))
	if err != nil {
		return 0, err
	}
	return max(plan.Weights+plan.Sessions, plan.Least), nil
}

// conversable refuses what cannot hold a conversation, by the header of the file: before its weights are read, which
// may take minutes. The error says what to do instead.
func (g *generate) conversable(path string) error {
	if path == "" {
		return nil // the embedded pair, which is asked for its template when it is loaded
	}
	if err := modelFile(path, byFlag); err != nil {
		return err
	}
	f, err := openGGUF(path)
	if err != nil {
		return err
	}
	defer f.Close()
	name := terminal.Line(path, 0)
	s := &summary{Kind: kindOf(f)}
	s.Architecture, _ = f.String("general.architecture")
	template, _ := f.String("tokenizer.chat_template")
	switch {
	case s.Kind == engine.KindEncoderDecoder && template == "" && g.template == "" && g.templateFile == "":
		return fmt.Errorf("%s: an encoder-decoder model (%s) without a chat template: spec generate gives a prompt to its "+
			"encoder; --chat-template says how a conversation is put to it", name, s.Architecture)
	case s.Architecture == "t5encoder": // its states alone: nothing pools them
		return fmt.Errorf("%s: an encoder alone (%s), which writes no text", name, s.Architecture)
	case reads(s.Kind, s.Architecture):
		return fmt.Errorf("%s: an encoder alone (%s), which writes no text; spec embed and spec rerank use it", name,
			s.Architecture)
	}
	if reason := s.refusal(f); reason != "" {
		return fmt.Errorf("%s: %s", name, reason)
	}
	if template == "" && g.template == "" && g.templateFile == "" {
		return noTemplate(name)
	}
	return nil
}

// noTemplate is the error of a model whose format of conversations is unknown.
func noTemplate(name string) error {
	return fmt.Errorf("%s has no chat template, so how it was trained to converse is unknown; choose one with "+
		"--chat-template (%s, or a file), or continue a text with spec generate", name,
		strings.Join(chat.BuiltinNames(), ", "))
}

// An offer is a model that can be downloaded, and how many bytes that takes.
type offer struct {
	name  string
	bytes int64
}

// askingTime is how long the Hub may take to say how large models are.
const askingTime = 15 * time.Second

// offered asks the Hub for the sizes of the small models; those that fit into the memory are offered.
func (c *converse) offered(ctx context.Context, p *program) (list []offer, err error) {
	ctx, cancel := context.WithTimeout(ctx, askingTime)
	defer cancel()
	sizes, errs := make([]int64, len(smallModels)), make([]error, len(smallModels))
	var all sync.WaitGroup
	for i, name := range smallModels {
		all.Go(func() {
			r, err := hub.ParseReference(name)
			if err == nil {
				client := hub.Client{Endpoint: p.env("HF_ENDPOINT"), Token: p.env("HF_TOKEN")}
				sizes[i], err = client.Size(ctx, r)
			}
			errs[i] = err
		})
	}
	all.Wait()
	for i, name := range smallModels {
		if errs[i] == nil && sizes[i] < c.room() {
			list = append(list, offer{name, sizes[i]})
		}
	}
	if len(list) == 0 {
		return nil, cmp.Or(errors.Join(errs[:1]...), errors.New("none of the small models fits into the memory"))
	}
	return list, nil
}

// chooseOffer lets a person choose what to download.
func chooseOffer(ctx context.Context, p *program, why string, list []offer) (name string, err error) {
	width := 0
	for _, o := range list {
		width = max(width, len(o.name))
	}
	fmt.Fprintf(p.stderr, "%s. Small ones of the Hugging Face Hub:\n\n", why)
	for i, o := range list {
		fmt.Fprintf(p.stderr, "  %d  %-*s  %9s\n", i+1, width, o.name, size(o.bytes))
	}
	for {
		fmt.Fprintf(p.stderr, "\nWhich one to download? (1 to %d, Enter for the first, q for none) ", len(list))
		answer, err := answerOf(ctx, p.stdin)
		if err != nil {
			fmt.Fprintln(p.stderr)
			return "", err
		}
		switch n, err := strconv.Atoi(answer); {
		case answer == "":
			return list[0].name, nil
		case answer == "q":
			return "", errInterrupted
		case err == nil && n >= 1 && n <= len(list):
			return list[n-1].name, nil
		}
	}
}

// answerOf reads a line, and nothing behind it. Its end, or that of the context, is an error.
func answerOf(ctx context.Context, r io.Reader) (string, error) {
	const longest = 80
	type line struct {
		text string
		err  error
	}
	read := make(chan line, 1)
	go func() {
		var text []byte
		one := make([]byte, 1)
		for {
			n, err := r.Read(one)
			switch {
			case n == 1 && one[0] == '\n':
				read <- line{strings.TrimSpace(string(text)), nil}
				return
			case n == 1 && len(text) < longest:
				text = append(text, one[0])
			case err != nil:
				read <- line{"", errInterrupted}
				return
			}
		}
	}()
	select {
	case l := <-read:
		return l.text, l.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}
