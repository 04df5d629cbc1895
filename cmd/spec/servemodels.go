package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

// servedModel is a model with its draft in memory, and how it is used.
type servedModel struct {
	library.Parts
	library.Options
}

// checkBias refuses tokens of --logit-bias that a model does not have: every answer would fail.
func (s *answers) checkBias(size int, name string) error {
	for _, id := range slices.Concat(slices.Sorted(maps.Keys(s.sampling.LogitBias)), s.sampling.Banned) {
		if int(id) >= size {
			return fmt.Errorf("--logit-bias %d: %s has %d tokens", id, name, size)
		}
	}
	return nil
}

// load loads a model with its draft.
func (s *serving) load(ctx context.Context, p *program, rt *engine.Runtime, f servedFile) (m *servedModel, err error) {
	drafts := s.speculation
	if f.draft != "" {
		drafts.drafts = []string{f.draft}
	}
	flags := modelFlags{
		model: f.target, weights: s.weights, memory: s.weightMemory, panels: s.panels, changes: s.changes,
		beside:   []string{f.draft},
		sessions: s.sessions(drafts.verifyRows(f.target, 0)), adapters: s.lorasOf(f), prints: s.prompts.dir,
	}
	if flags.prints == "" && s.slotFiles.Dir != "" { // whose files say of which model they are
		if flags.prints, err = panelCache(p); err != nil { // a service may have no home; clients' names are not hidden
			flags.prints = filepath.Join(s.slotFiles.Dir, ".cache")
		}
	}
	flags.loaded = flags.adapters.bytes()
	flags.sessions.Heads, flags.sessions.DraftVocab = !s.targetOnly && f.draft == "", s.vocab.tokens
	flags.sessions.DraftText, flags.sessions.Own = speculative.DraftText, !s.targetOnly // requests may ask for it
	defer func() { err = s.memoryError(err) }()
	target, err := flags.open(ctx, p, rt, f.target, "target", testdata.Target())
	if err != nil {
		return nil, err
	}
	if most := target.Config().Context; s.context > most {
		p.say(slog.LevelWarn, "-c %d: %s has a context of %d tokens, which is used", s.context,
			terminal.Line(flags.name(), 60), most)
	}
	m = &servedModel{library.Parts{Target: target, Close: target.Close}, library.Options{
		Context: s.context, KV: flags.sessions.KV, StateBytes: s.states, Speculation: s.chosen(f.target),
		Limits: library.Limits{Grammar: s.grammars, Input: s.encoderTokens},
	}}
	parts := &m.Parts
	defer func() {
		if err != nil {
			parts.Close()
		}
	}()
	if err := s.checkBias(target.Config().Vocab, flags.name()); err != nil {
		return nil, err
	}
	if parts.Adapters, err = flags.adapters.open(ctx, target); err != nil {
		return nil, err
	}
	if !s.targetOnly {
		if err := flags.openDrafts(ctx, p, rt, parts, drafts.drafts, s.choice.Needs()); err != nil {
			return nil, err
		}
	}
	if err := s.openTexts(ctx, p, parts, &m.Options); err != nil {
		return nil, err
	}
	if err := s.bound(f, m, flags.sessions); err != nil {
		return nil, err
	}
	if !target.Encodes() { // of others no prompt is kept: its one token is not worth it
		if m.Stored, err = s.prompts.stored(p); err != nil {
			return nil, err
		}
	}
	m.ToolFallback = s.toolFallback
	m.Memory.PromptDelay = float64(s.promptDelay)
	c := chatFlags{template: f.templateName, templateFile: f.templateFile}
	if c.template == "" && c.templateFile == "" {
		c = chatFlags{template: s.template, templateFile: s.templateFile}
	}
	if f.template != "" {
		m.Template = f.template
	} else if c.template != "" || c.templateFile != "" {
		if m.Template, m.Stops, err = c.templateSource(target, flags.name()); err != nil {
			return nil, err
		}
	} else if s.noTemplates && target.ChatTemplate() == "" {
		m.Template, _ = chat.Builtin("chatml")
	}
	return m, nil
}

// listFlag collects texts.
func listFlag(n string, p *[]string, arg, help string) flag {
	return valueFlag(n, arg, help, func(v string) error {
		if v == "" {
			return errors.New("an empty text")
		}
		*p = append(*p, v)
		return nil
	})
}

// byteSize reads a number of bytes, in units of 1,024: 2GiB, 16G, 512MB, 64K.
func byteSize(v string) (int64, error) {
	text, unit := strings.ToUpper(v), int64(1)
	if base, ok := strings.CutSuffix(text, "IB"); ok && base != "" && strings.ContainsAny(base[len(base)-1:], "KMGT") {
		text = base
	} else {
		text = strings.TrimSuffix(text, "B")
	}
	for i, u := range []string{"K", "M", "G", "T"} {
		if base, ok := strings.CutSuffix(text, u); ok {
			text, unit = base, 1<<(10*(i+1))
			break // 1TG is none
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > math.MaxInt64/unit {
		return 0, errors.New("not a number of bytes, as in 512M")
	}
	return n * unit, nil
}
