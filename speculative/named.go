package speculative

import (
	"fmt"
	"slices"

	"github.com/specgo/spec/engine"
)

// Named is a drafter, a schedule or a verifier that is chosen by its name. [Drafters], [Schedules] and [Verifiers] list
// them; flags, fields of requests, help texts and tables are made of these lists.
type Named[T any] struct {
	Name  string
	About string // what it is, in a few words that go on after the name
	Needs Needs
	Study bool // for comparisons of methods, not for writing texts
	New   func(Parts) (T, error)
}

// Needs is what something with a name is made of beside the text.
type Needs int

const (
	NeedsDraft   Needs = 1 << iota // a draft model of the target's vocabulary, or a draft head
	NeedsForeign                   // a draft model, of whatever vocabulary
	NeedsHead                      // an EAGLE-3 head
	NeedsMTP                       // multi-token-prediction blocks, or a draft head that looks at the target's cache
	NeedsTarget                    // the target's model
	NeedsTree                      // passes of the target over trees, which have more tokens than a draft is long
	NeedsSession                   // an [*engine.Session] as target
	NeedsText                      // the text that plain decoding writes
	NeedsTexts                     // other texts to look up in
	TakesTexts                     // nothing more, and it looks up in other texts where there are any
	NeedsForm                      // a draft form of the target's model
	NeedsBlock                     // a draft head that drafts blocks of tokens
)

// Parts are what [Named] makes its values of. Each uses what it needs.
type Parts struct {
	Target  *engine.Model            // of NeedsTarget
	Session engine.SessionOptions    // of sessions that drafters make by themselves
	Draft   Sequence                 // of the draft model or head; a foreign one's is [Modeled]
	Form    func() *engine.DraftForm // of NeedsForm: that of Target, nil while there is none yet

	Sources []CandidateSource // of other texts, for this drafter; tree, splice and lookup ask them

	Length     int       // most tokens of a schedule's drafts; 0: its own
	Confidence float32   // a draft ends after a token of lower confidence; 0: the schedule's own, negative: never
	Costs      PassCosts // of the target, for auto; empty: not known
	Text       []int32   // of NeedsText, with its prompt
}

// Drafters are the drafters by name. That of "none" is nil.
func Drafters() []Named[Drafter] {
	return []Named[Drafter]{{
		Name: "tree", About: "a tree of the best candidates of draft model and lookup",
		Needs: NeedsDraft | NeedsTree | TakesTexts, New: namedTree,
	}, {
		Name: "splice", About: "the more confident of draft model and lookup, at each token",
		Needs: NeedsDraft | TakesTexts, New: namedSplice,
	}, {
		Name: "model", About: "the draft model", Needs: NeedsDraft, New: ofDraft(Model),
	}, {
		Name: "eagle", About: "a chain of an EAGLE-3 head", Needs: NeedsHead, New: ofDraft(Model),
	}, {
		Name: "eagle-tree", About: "a tree of the candidates of an EAGLE-3 head and the lookup",
		Needs: NeedsHead | NeedsTree | TakesTexts, New: namedTree,
	}, {
		Name: "dflash", About: "a block of a DFlash or DSpark head, drafted in one pass",
		Needs: NeedsBlock, New: ofDraft(Model),
	}, {
		Name: "mtp", About: "a chain of the multi-token-prediction block in the model's own file, or of Gemma 4's draft head",
		Needs: NeedsMTP, New: ofDraft(Model),
	}, {
		Name: "ngram", About: "a lookup of the last tokens in the text so far",
		New: of(func() Drafter { return NGram(NGramOptions{}) }),
	}, {
		Name: "suffix", About: "a lookup of any length in the text so far",
		New: of(func() Drafter { return Suffix(SuffixOptions{}) }),
	}, {
		Name: "lookup", About: "a lookup of any length in other texts and in the text so far", Needs: NeedsTexts,
		New: func(p Parts) (Drafter, error) {
			if len(p.Sources) == 0 {
				return nil, fmt.Errorf("%w: lookup needs other texts", ErrOptions)
			}
			return Lookup(p.sources()...), nil
		},
	}, {
		Name: "self", About: "the model itself in fewer bits", Needs: NeedsTarget | NeedsForm,
		New: func(p Parts) (Drafter, error) { return Self(p.Target, p.Form, p.Session) },
	}, {
		Name:  "self-splice",
		About: "the more confident of the model itself in fewer bits and lookup, at each token",
		Needs: NeedsTarget | NeedsForm | TakesTexts,
		New: func(p Parts) (Drafter, error) {
			return SelfSplice(p.Target, p.Form, p.Session, TreeOptions{Sources: p.sources()})
		},
	}, {
		Name: "early-exit", About: "the model's own first layers", Needs: NeedsTarget,
		New: func(p Parts) (Drafter, error) { return EarlyExit(p.Target, p.Session) },
	}, {
		Name: "reencode", About: "a draft model of another vocabulary, by way of text",
		Needs: NeedsForeign, New: ofForeign(Reencode),
	}, {
		Name: "intersect", About: "a draft model of another vocabulary, in the tokens that both have",
		Needs: NeedsForeign, New: ofForeign(Intersect),
	}, {
		Name: "none", About: "no drafts: plain decoding", New: of(func() Drafter { return nil }),
	}}
}

// Schedules are the schedules by name.
func Schedules() []Named[Schedule] {
	return []Named[Schedule]{{
		Name: "auto", About: "what is measured to be fastest, which may be no drafts",
		New: func(p Parts) (Schedule, error) { return Auto(AutoOptions{Costs: p.Costs}), nil },
	}, {
		Name: "constant", About: "always 5 tokens",
		New: func(p Parts) (Schedule, error) {
			return Constant(ConstantOptions{Length: p.Length, MinConfidence: max(p.Confidence, 0)}), nil
		},
	}, {
		Name: "heuristic", About: "5 tokens at first, 2 more after a fully accepted draft, else 1 fewer",
		New: func(p Parts) (Schedule, error) { // the length is a bound, not how it begins
			first := min(length(p.Length, firstHeuristic), firstHeuristic)
			return Heuristic(HeuristicOptions{Length: first, MinConfidence: max(p.Confidence, 0)}), nil
		},
	}, {
		Name: "dynamic", About: "until the draft model's confidence is below 0.4, at most 20 tokens",
		New: func(p Parts) (Schedule, error) {
			return Dynamic(DynamicOptions{Length: p.Length, MinConfidence: p.Confidence}), nil
		},
	}, {
		Name: "adaptive", About: "dynamic, with a confidence that follows what was accepted", Study: true,
		New: func(p Parts) (Schedule, error) {
			return Dynamic(DynamicOptions{Length: p.Length, MinConfidence: p.Confidence, Adapt: true}), nil
		},
	}, {
		Name: "oracle", About: "as many tokens as plain decoding's text says will be accepted: a bound",
		Needs: NeedsText, Study: true, New: func(p Parts) (Schedule, error) { return Oracle(p.Text), nil },
	}}
}

// Verifiers are the verifiers by name. Those that need no probabilities write the text of plain decoding.
func Verifiers() []Named[Verifier] {
	stairs := func(o StairsOptions) func(Parts) (Verifier, error) {
		return of(func() Verifier { return Stairs(o) })
	}
	return []Named[Verifier]{{
		Name: "greedy", About: "the model's most likely tokens, at temperature 0", New: of(Greedy),
	}, {
		Name: "match", About: "the tokens that the model itself samples", New: of(Match),
	}, {
		Name: "rejection", About: "speculative sampling: another text, of the same distribution", New: of(Rejection),
	}, {
		Name: "block", About: "block verification: likewise, and of a draft no fewer tokens are accepted", New: of(Block),
	}, {
		Name: "stairs", About: "as match, each token of the draft with a row of its own", New: stairs(StairsOptions{}),
	}, {
		Name: "stairs-batch", About: "stairs with its rows as a batch", Needs: NeedsSession, Study: true,
		New: stairs(StairsOptions{Batch: true}),
	}, {
		Name: "stairs-faithful", About: "stairs with its rows as a batch, each computed from its first token on",
		Needs: NeedsSession, Study: true, New: stairs(StairsOptions{Batch: true, Recompute: true}),
	}}
}

func of[T any](f func() T) func(Parts) (T, error) { return func(Parts) (T, error) { return f(), nil } }

func ofDraft(f func(Sequence) Drafter) func(Parts) (Drafter, error) {
	return func(p Parts) (Drafter, error) { return f(p.Draft), nil }
}

func ofForeign(f func(Sequence, Tokenizers) Drafter) func(Parts) (Drafter, error) {
	return func(p Parts) (Drafter, error) {
		m, ok := p.Draft.(Modeled)
		if p.Target == nil || !ok || absent(m) {
			return nil, fmt.Errorf("%w: another vocabulary needs the models of target and draft", ErrOptions)
		}
		return f(p.Draft, Tokenizers{Target: p.Target.Tokenizer(), Draft: m.Model().Tokenizer()}), nil
	}
}

func namedTree(p Parts) (Drafter, error) {
	return Tree(p.Draft, TreeOptions{Sources: p.sources()}), nil
}
func namedSplice(p Parts) (Drafter, error) {
	return Splice(p.Draft, TreeOptions{Sources: p.sources()}), nil
}

// sources are the text so far and other texts.
func (p Parts) sources() []CandidateSource {
	return append([]CandidateSource{SuffixSource(SuffixOptions{})}, p.Sources...)
}

// Names are the names of a list, in its order; study says whether with those that are for comparisons.
func Names[T any](list []Named[T], study bool) (names []string) {
	for _, n := range list {
		if study || !n.Study {
			names = append(names, n.Name)
		}
	}
	return names
}

// Find is the one of a name.
func Find[T any](list []Named[T], name string) (n Named[T], err error) {
	i := slices.IndexFunc(list, func(n Named[T]) bool { return n.Name == name })
	if i < 0 {
		return n, fmt.Errorf("%w: %q is not one of %v", ErrOptions, name, Names(list, true))
	}
	return list[i], nil
}

// Draft reports whether a draft model or a draft head is among the needs.
func (n Needs) Draft() bool { return n&(NeedsDraft|NeedsForeign|NeedsHead|NeedsMTP|NeedsBlock) != 0 }

// missing is what drafters with these needs lack where a target has this draft model or head; nil: it has none.
// foreign is why the vocabulary is not the target's, nil if it is.
func (n Needs) missing(draft *engine.Model, foreign error) string {
	var kind engine.Kind
	if draft != nil {
		kind = draft.Kind()
	}
	switch {
	case n&NeedsHead != 0 && kind != engine.KindEagle:
		return "a draft head of EAGLE-3"
	case n&NeedsBlock != 0 && kind != engine.KindBlock:
		return "a draft head of DFlash or DSpark"
	case n&NeedsMTP != 0 && !kind.MTP():
		return "a multi-token-prediction block or a draft head of Gemma 4"
	case n.Draft() && draft == nil:
		return "a draft model"
	case n&NeedsForeign != 0 && kind.Head():
		return "a draft model, not a draft head, which knows its own tokens only"
	case n&NeedsDraft != 0 && foreign != nil:
		return fmt.Sprintf("a draft model of the same vocabulary, which reencode and intersect do not: %v", foreign)
	}
	return ""
}
