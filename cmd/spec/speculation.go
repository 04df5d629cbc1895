package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

// speculation are the flags that choose who drafts, how much, and how drafts are checked.
type speculation struct {
	drafts                    []string // files of draft models
	drafter, schedule, verify string   // names; "" is the default
	draftMax, draftMin        int
	exitLayer                 int     // 0: the default
	threshold                 float32 // negative: the schedule's default
	draftSampling             string  // of drafts; "": as the verifier needs it
	learned                   string  // file of what schedule and drafter learned

	costs speculative.PassCosts // of the target, for auto
}

// Drafters by name, but for early exit. Those of a draft model are given a session of it, which may be a draft head's; those of a head
// need one; those of a model
// with another vocabulary the tokenizers too.
var (
	modelDrafters = map[string]func(speculative.Sequence) speculative.Drafter{
		"tree": func(s speculative.Sequence) speculative.Drafter {
			return speculative.Tree(s, speculative.TreeOptions{})
		},
		"splice": func(s speculative.Sequence) speculative.Drafter {
			return speculative.Splice(s, speculative.TreeOptions{})
		},
		"model": speculative.Model,
	}
	headDrafters = map[string]func(speculative.Sequence) speculative.Drafter{
		"eagle": func(s speculative.Sequence) speculative.Drafter {
			return speculative.Eagle(s, speculative.EagleOptions{})
		},
		"eagle-tree": func(s speculative.Sequence) speculative.Drafter {
			return speculative.Eagle(s, speculative.EagleOptions{Tree: true, Sources: []speculative.CandidateSource{speculative.SuffixSource(speculative.SuffixOptions{})}})
		},
	}
	foreignDrafters = map[string]func(draft speculative.Sequence, t speculative.Tokenizers) speculative.Drafter{
		"reencode":  speculative.Reencode,
		"intersect": speculative.Intersect,
	}
	textDrafters = map[string]func() speculative.Drafter{
		"ngram":  func() speculative.Drafter { return speculative.NGram(speculative.NGramOptions{}) },
		"suffix": func() speculative.Drafter { return speculative.Suffix(speculative.SuffixOptions{}) },
		"none":   func() speculative.Drafter { return nil },
	}
)

const earlyExit, mtp = "early-exit", "mtp"

// Schedules by name. Each takes a length, 0 for its own default, and a threshold, negative for its own.
var schedules = map[string]func(length int, threshold float32) speculative.Schedule{
	"auto": func(int, float32) speculative.Schedule { return speculative.Auto(speculative.AutoOptions{}) },
	"constant": func(length int, threshold float32) speculative.Schedule {
		return speculative.Constant(speculative.ConstantOptions{Length: or(length, 5), MinConfidence: max(threshold, 0)})
	},
	"heuristic": func(length int, threshold float32) speculative.Schedule {
		return speculative.Heuristic(speculative.HeuristicOptions{Length: min(or(length, 5), 5), MinConfidence: max(threshold, 0)})
	},
	"dynamic": func(length int, threshold float32) speculative.Schedule {
		if threshold < 0 {
			threshold = 0.4
		}
		if threshold == 0 {
			threshold = -1 // the schedule takes 0 for its default
		}
		return speculative.Dynamic(speculative.DynamicOptions{Length: or(length, 20), MinConfidence: threshold})
	},
}

// Verifiers by name; the decoder's default is greedy at temperature 0 and match above.
var verifiers = map[string]func() speculative.Verifier{
	"greedy":    speculative.Greedy,
	"match":     speculative.Match,
	"rejection": speculative.Rejection,
	"block":     speculative.Block,
	"stairs":    func() speculative.Verifier { return speculative.Stairs(speculative.StairsOptions{}) },
}

func or(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

func (s *speculation) flags() []flag {
	return []flag{
		filesFlag("-md, --model-draft, --spec-draft-model", &s.drafts, "FILE", "the draft model; may be repeated: the drafts are verified together, as a tree"),
		hubFlag("-hfd, -hfrd, --hf-repo-draft", func(path string) { s.drafts = append(s.drafts, path) }, "a draft model"),
		choiceFlag("--drafter", &s.drafter, drafterNames(),
			"who drafts: model, the draft model; ngram, a lookup of the last tokens in the text so far; suffix, a lookup of any length; splice, the more confident of model and lookup at each token; tree, a tree of the best candidates of both; mtp, a chain of the multi-token-prediction block in the model's own file or of Gemma 4's draft head (-md); eagle, a chain of an EAGLE-3 head, and eagle-tree, a tree of its candidates and the lookup's (-md recognizes heads; model, splice and tree take them too); early-exit, the model's own first layers; reencode and intersect, a draft model of another vocabulary, by way of text or in the tokens that both have; none (default: tree with a draft model, a tree of MTP block and lookup where the file has such a block, else ngram; model for the embedded pair)"),
		intFlag("--exit-layer", &s.exitLayer, 1, math.MaxInt32, "layers that --drafter early-exit computes (default: a third)"),
		choiceFlag("--schedule", &s.schedule, []string{"auto", "constant", "heuristic", "dynamic"},
			"draft length: auto, what is measured to be fastest; constant, always 5 tokens; heuristic, 5 at first, +2 after a fully accepted draft, else -1; dynamic, until the draft model's confidence is low (default auto; with --verify stairs constant, for the embedded pair heuristic)"),
		intFlag("--draft-max, --draft, --draft-n, --spec-draft-n-max", &s.draftMax, 1, maxDraft, "most tokens in a draft (default: the schedule's)"),
		intFlag("--draft-min, --draft-n-min, --spec-draft-n-min", &s.draftMin, 0, maxDraft, "tokens before which a schedule does not end a draft (default 0)"),
		floatFlag("--draft-p-min, --spec-draft-p-min", &s.threshold, 0, 1, "end a draft after a token of lower confidence (default 0; dynamic 0.4)"),
		choiceFlag("--draft-sampling", &s.draftSampling, []string{"greedy", "shared", "q"},
			"how a draft model samples: greedy, its most likely token; shared, with the model's own noise; q, by itself (default: shared, but q for --verify rejection and block)"),
		fileFlag("--learned", &s.learned, "FILE", "begin with what an earlier run with these models on this machine learned of pass times and acceptance, and keep there what this one learns; without effect on the text"),
		choiceFlag("--verify", &s.verify, []string{"greedy", "match", "rejection", "block", "stairs"},
			"how drafts are verified; greedy, match and stairs give the same text as no drafts, rejection and block one of the same distribution (default: greedy at --temp 0, else match)"),
	}
}

// maxDraft is the greatest draft length that may be asked for.
const maxDraft = 1024

// drafterNames lists the drafters.
func drafterNames() []string {
	return []string{"model", "ngram", "suffix", "splice", "tree", "eagle", "eagle-tree", mtp, earlyExit, "reencode", "intersect", "none"}
}

// check refuses combinations of flags that cannot mean anything.
func (s *speculation) check(model string, temperature float32) error {
	switch {
	case s.verify == "greedy" && temperature > 0:
		return usagef("--verify greedy needs --temp 0: at another temperature it would change the distribution")
	case (modelDrafters[s.drafter] != nil && !takesMTP(s.drafter) || headDrafters[s.drafter] != nil || foreignDrafters[s.drafter] != nil) && len(s.drafts) == 0 && model != "":
		return usagef("--drafter %s needs a draft model: -md FILE", s.drafter)
	case (textDrafters[s.drafter] != nil || s.drafter == earlyExit) && len(s.drafts) > 0:
		return usagef("--drafter %s does not use the draft model of -md", s.drafter)
	case s.exitLayer > 0 && s.drafter != earlyExit:
		return usagef("--exit-layer needs --drafter early-exit")
	case s.draftMax > 0 && s.draftMin > s.draftMax:
		return usagef("--draft-min %d is more than --draft-max %d", s.draftMin, s.draftMax)
	}
	return nil
}

// takesMTP reports whether a drafter of draft models takes the MTP block in the model's own file where there is no -md.
func takesMTP(drafter string) bool { return drafter == "tree" || drafter == "splice" }

// newSchedule makes the schedule asked for. The embedded target is so small that auto would soon stop
// drafting; the pair is there to show drafting at work.
func (s *speculation) newSchedule(embedded bool) speculative.Schedule {
	name := s.schedule
	switch {
	case name == "" && s.verify == "stairs":
		name = "constant"
	case name == "" && embedded:
		name = "heuristic"
	case name == "":
		name = "auto"
	}
	if name == "auto" {
		return speculative.Auto(speculative.AutoOptions{Costs: s.costs})
	}
	return schedules[name](s.draftMax, s.threshold)
}

// newVerifier makes the verifier asked for; nil is the decoder's default.
func (s *speculation) newVerifier() speculative.Verifier {
	if s.verify == "" {
		return nil
	}
	return verifiers[s.verify]()
}

// drafterName is the drafter asked for, or the default for the models given.
func (g *generate) drafterName() string {
	switch {
	case g.drafter != "":
		return g.drafter
	case g.model == "":
		return "model"
	case len(g.drafts) > 0:
		return "tree"
	}
	return "ngram"
}

// newDrafter makes the drafter that the flags ask for; nil is plain decoding.
func (g *generate) newDrafter(ctx context.Context, p *program, rt *engine.Runtime, target *engine.Session) (speculative.Drafter, error) {
	name := g.drafterName()
	if own := len(g.drafts) == 0 && g.model != ""; own && (g.drafter == "" && !g.noCache || takesMTP(g.drafter)) && target.Model().HasMTP() {
		kv, err := g.cache.kvType()
		if err != nil {
			return nil, err
		}
		return g.newMTP(ctx, p, rt, target, kv, modelDrafters[cmp.Or(g.drafter, "tree")])
	} else if own && takesMTP(g.drafter) {
		return nil, usagef("--drafter %s needs a draft model: -md FILE", g.drafter)
	}
	if drafter := textDrafters[name]; drafter != nil {
		return drafter(), nil
	}
	kv, err := g.cache.kvType()
	if err != nil {
		return nil, err
	}
	if name == earlyExit {
		if most := target.Model().Config().Layers; g.exitLayer > most {
			return nil, fmt.Errorf("--exit-layer %d: %s has %d layers", g.exitLayer, g.name(), most)
		}
		return speculative.EarlyExit(target.Model(), engine.SessionOptions{Context: target.Context(), KV: kv, NoCache: g.noCache, Layers: g.exitLayer})
	}
	if name == mtp && len(g.drafts) == 0 {
		return g.newMTP(ctx, p, rt, target, kv, speculative.Model)
	}
	files := g.drafts
	if len(files) == 0 {
		files = []string{""} // the embedded one
	}
	var all []speculative.Drafter
	for i, file := range files {
		if i > 0 && (name == "splice" || name == "tree") {
			name = "model" // one lookup is enough
		}
		d, err := g.newModelDrafter(ctx, p, rt, target, name, file)
		if err != nil {
			return nil, err
		}
		all = append(all, d)
	}
	if len(all) > 1 {
		return speculative.Merge(all...), nil
	}
	return all[0], nil
}

// newMTP makes a drafter of the model's own MTP block.
func (g *generate) newMTP(ctx context.Context, p *program, rt *engine.Runtime, target *engine.Session, kv string, drafter func(speculative.Sequence) speculative.Drafter) (speculative.Drafter, error) {
	if g.noCache {
		return nil, errors.New("an MTP block needs its cache: not with --no-kv-cache")
	}
	head, err := g.openMTP(ctx, p, rt, target.Model())
	if err != nil {
		return nil, err
	}
	session, err := head.NewSession(engine.SessionOptions{KV: kv, Context: target.Context()})
	if err != nil {
		return nil, err
	}
	return drafter(session), nil
}

// newModelDrafter makes the named drafter of one draft model.
func (g *generate) newModelDrafter(ctx context.Context, p *program, rt *engine.Runtime, target *engine.Session, name, file string) (speculative.Drafter, error) {
	what, embedded, shown := "draft", testdata.Draft(), "-md "+file
	if headDrafters[name] != nil {
		what, embedded = "head", testdata.Head()
	}
	draft, err := g.openDraft(ctx, p, rt, target.Model(), file, what, embedded)
	if err != nil {
		return nil, err
	}
	switch isHead, isMTP := draft.Kind().Head(), draft.Kind().MTP(); {
	case name == mtp && !isMTP:
		return nil, fmt.Errorf("%s: no MTP block by itself and no draft head of Gemma 4, which --drafter mtp takes", shown)
	case headDrafters[name] != nil && isMTP:
		return nil, fmt.Errorf("%s: an MTP block or a draft head of Gemma 4, which --drafter mtp takes, not %s", shown, name)
	case headDrafters[name] != nil && !isHead:
		return nil, fmt.Errorf("%s: not a draft head, which --drafter %s needs", shown, name)
	case foreignDrafters[name] != nil && isHead:
		return nil, fmt.Errorf("%s: a draft head, which cannot be --drafter %s", shown, name)
	case isHead && g.noCache:
		return nil, fmt.Errorf("%s: a draft head, which needs its cache: not with --no-kv-cache", shown)
	}
	tok, own := target.Model().Tokenizer(), draft.Tokenizer()
	if own == nil {
		return nil, fmt.Errorf("-md %s: no tokenizer in the file, so nothing shows what its tokens mean", file)
	}
	kv, err := g.cache.kvType()
	if err != nil {
		return nil, err
	}
	o := engine.SessionOptions{KV: kv, NoCache: g.noCache}
	if foreign := foreignDrafters[name]; foreign != nil {
		session, err := draft.NewSession(o)
		if err != nil {
			return nil, err
		}
		return foreign(session, speculative.Tokenizers{Target: tok, Draft: own}), nil
	}
	if err := tok.Compatible(own); err != nil {
		return nil, fmt.Errorf("-md %s cannot draft for %s: %w (--drafter reencode or intersect can)", file, g.name(), err)
	}
	o.Context = min(target.Context(), draft.Config().Context)
	if h := draft.Head(); h != nil && h.SharesCache {
		o.Target = target
	}
	session, err := draft.NewSession(o)
	if err != nil {
		return nil, err
	}
	if name == mtp {
		return speculative.MTP(session, speculative.EagleOptions{}), nil
	}
	if make := headDrafters[name]; make != nil {
		return make(session), nil
	}
	return modelDrafters[name](session), nil
}
