package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

// speculation are the flags that choose who drafts, how much, and how drafts are checked.
type speculation struct {
	drafts  []string // files of draft models
	choice  speculative.Choice
	learned string   // file of what schedule and drafter learned
	earlier string   // file of an earlier answer
	texts   []string // paths of other texts to look up in
	own     int64    // bytes of the program's own texts to look up in
	vocab   draftVocab
}

// usualOfPair is how the embedded pair speculates where nothing else is said. Its target is so small that auto would
// soon stop drafting, and the pair is there to show drafting at work.
var usualOfPair = speculative.Choice{Drafter: "model", Schedule: "heuristic"}

// chosen is the choice, with what is usual for the model: "" is the embedded pair's.
func (s *speculation) chosen(model string) speculative.Choice {
	if model == "" {
		return s.choice.Or(usualOfPair)
	}
	return s.choice
}

// about says what each of the names of a list is.
func about[T any](list []speculative.Named[T]) string {
	var lines []string
	for _, n := range list {
		if !n.Study {
			lines = append(lines, n.Name+", "+n.About)
		}
	}
	return strings.Join(lines, "; ")
}

// fields are the flags of the fields of a choice.
var fields = map[string]string{
	"drafter": "--drafter", "schedule": "--schedule", "verify": "--verify", "max": "--draft-max", "min": "--draft-min",
	"confidence": "--draft-p-min", "exit_layer": "--exit-layer", "sampling": "--draft-sampling",
}

// flagError names the flag of an error of a choice.
func flagError(err error) error {
	if e := (*speculative.ChoiceError)(nil); errors.As(err, &e) {
		return fmt.Errorf("%s %s", fields[e.Field], e.Reason)
	}
	return err
}

func (s *speculation) rows() []flag {
	add := func(file string) { s.drafts = append(s.drafts, file) }
	list := draftRows("the draft model; may be repeated: the drafts are verified together, as a tree", "a draft model",
		add)
	for i := range list {
		list[i] = list[i].when(func() bool { return s.choice.Drafter == "" || s.choice.Needs().Draft() })
	}
	return slices.Concat([]flag{drafterRow(&s.choice)}, list, []flag{
		fileFlag("--learned", &s.learned, "FILE", "begin with what an earlier run with these models on this machine "+
			"learned of pass times and acceptance, and keep there what this one learns; without effect on the text"),
		fileFlag("--draft-from", &s.earlier, "FILE", "an earlier answer, to this prompt or one like it: drafts follow it "+
			"where the text does, and --drafter drafts where they part; in a conversation for the first answer"),
		lookupRow(&s.texts),
	}, s.vocab.rows(), choiceRows(&s.choice))
}

// drafterRow is --drafter.
func drafterRow(c *speculative.Choice) flag {
	return choiceFlag("--drafter", &c.Drafter, speculative.Names(speculative.Drafters(), false),
		"who drafts: "+about(speculative.Drafters())).or(
		"tree with a draft model, a draft head of -md or a multi-token-prediction block in the model's file, reencode with " +
			"a draft model of another vocabulary, else self-splice for one text at a time where a model of more than 6.25 " +
			"bits a weight leaves memory for it, else ngram; model for the embedded pair")
}

// choiceRows are the other flags of a choice.
func choiceRows(c *speculative.Choice) []flag {
	least := leastFlag("--draft-p-min, --spec-draft-p-min", &c.Confidence,
		"end a draft after a token of lower confidence; auto chooses by itself").or("0; dynamic 0.4")
	return []flag{
		intFlag("--exit-layer", &c.ExitLayer, 1, math.MaxInt32, "layers that --drafter early-exit computes").or("a third"),
		choiceFlag("--schedule", &c.Schedule, speculative.Names(speculative.Schedules(), false),
			"draft length: "+about(speculative.Schedules())).
			or("auto; with --verify stairs constant, for the embedded pair heuristic"),
		intFlag("--draft-max, --draft, --draft-n, --spec-draft-n-max", &c.Max, 1, speculative.MaxDraft,
			"most tokens in a draft").or("the schedule's").env("LLAMA_ARG_SPEC_DRAFT_N_MAX", "LLAMA_ARG_DRAFT_MAX"),
		intFlag("--draft-min, --draft-n-min, --spec-draft-n-min", &c.Min, 0, speculative.MaxDraft,
			"tokens before which a schedule does not end a draft").or("0").
			env("LLAMA_ARG_SPEC_DRAFT_N_MIN", "LLAMA_ARG_DRAFT_MIN"),
		least.env("LLAMA_ARG_SPEC_DRAFT_P_MIN", "LLAMA_ARG_DRAFT_P_MIN"),
		valueFlag("--draft-sampling", strings.Join(speculative.DraftSamplings(), "|"),
			"how a draft model samples: greedy, its most likely token; shared, with the model's own noise; q, by itself",
			func(v string) (err error) {
				if v, err = choose(speculative.DraftSamplings(), v); err == nil {
					c.Sampling, err = speculative.ParseDraftSampling(v)
				}
				return err
			}).or("shared, but q for --verify rejection and block").takes(speculative.DraftSamplings()...),
		choiceFlag("--verify", &c.Verify, speculative.Names(speculative.Verifiers(), false),
			"which drafted tokens are kept: "+about(speculative.Verifiers())+
				"; greedy, match and stairs give the same text as no drafts").or("greedy at --temp 0, else match"),
	}
}

// leastFlag reads the least confidence of a choice, where 0 on the command line is none.
func leastFlag(n string, p *float32, help string) flag {
	f := floatFlag(n, p, 0, 1, help)
	set := f.set
	f.set = func(v string) error {
		err := set(v)
		if *p == 0 {
			*p = -1
		}
		return err
	}
	return f
}

// check refuses combinations of flags that cannot mean anything.
func (s *speculation) check(model string, temperature float32) error {
	if err := s.choice.Check(temperature); err != nil {
		return usagef("%v", flagError(err))
	}
	if err := s.vocab.check(); err != nil {
		return err
	}
	needs := s.choice.Needs()
	switch {
	case needs.Draft() && len(s.drafts) == 0 && model != "" && !ownDraft(needs, model):
		return usagef("%v: -md FILE", flagError(s.choice.Fits(nil, nil, nil)))
	case s.choice.Drafter == "none" && s.earlier != "":
		return usagef("--drafter none drafts nothing, also not from --draft-from")
	case needs&speculative.NeedsTexts != 0 && len(s.texts) == 0 && s.own == 0:
		return usagef("--drafter lookup needs other texts: --lookup PATH")
	case len(s.texts) > 0 && s.choice.Drafter != "" && needs&(speculative.NeedsTexts|speculative.TakesTexts) == 0:
		return usagef("--drafter %s does not look up in the texts of --lookup", s.choice.Drafter)
	case s.vocab.tokens > 0 && s.choice.Drafter != "" && !needs.Draft() && needs&speculative.NeedsForm == 0:
		return usagef("--drafter %s has no draft vocabulary (--draft-vocab)", s.choice.Drafter)
	case s.choice.Drafter != "" && !needs.Draft() && len(s.drafts) > 0:
		return usagef("--drafter %s does not use the draft model of -md", s.choice.Drafter)
	}
	return nil
}

// ownDraft reports whether a block in the model's own file is what a drafter needs, or may be: a model of the Hub is
// not here before it is resolved.
func ownDraft(needs speculative.Needs, model string) bool {
	if needs&(speculative.NeedsDraft|speculative.NeedsMTP) == 0 {
		return false
	}
	_, err := os.Stat(model)
	return err != nil || hasMTP(model)
}

// openNamedDraft opens a draft model for a drafter with such needs; "" is the embedded one, or the embedded head.
func (m *modelFlags) openNamedDraft(ctx context.Context, p *program, rt *engine.Runtime, target *engine.Model,
	file string, needs speculative.Needs) (*engine.Model, error) {
	if needs&speculative.NeedsHead != 0 {
		return m.openDraft(ctx, p, rt, target, file, "head", testdata.Head())
	}
	return m.openDraft(ctx, p, rt, target, file, "draft", testdata.Draft())
}

// drafter refuses a draft model, of the file of -md, whose tokens are not shown to be the target's.
func (m *modelFlags) drafter(target, draft *engine.Model, file string) error {
	if target.Tokenizer() == nil || draft.Tokenizer() == nil {
		return fmt.Errorf("%s and -md need a tokenizer each, to show that it is the same", m.name())
	}
	if err := vocabulary(target, draft); err != nil {
		return fmt.Errorf("-md %s cannot draft for %s: %w", file, m.name(), err)
	}
	return nil
}

// vocabulary is why a draft model's vocabulary is not the target's, nil if it is.
func vocabulary(target, draft *engine.Model) error {
	if target.Tokenizer() == nil || draft.Tokenizer() == nil {
		return nil
	}
	return target.Tokenizer().Compatible(draft.Tokenizer())
}
