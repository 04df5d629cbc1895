// Package speculative makes text generation with a language model faster without changing the result.
//
//	d := speculative.New(target, speculative.Model(draft), speculative.Options{})
//	for token, err := range d.Generate(ctx, prompt, engine.Sampling{Seed: 1}) {
//		fmt.Print(token.Text)
//	}
//
// Decoding one token reads every weight of the model once, and evaluating several tokens in one pass reads them once as
// well. Speculative decoding uses this: a cheap [Drafter] proposes a few tokens, the target model evaluates all of them
// in one pass, and a [Verifier] keeps those that the target would have chosen itself, plus one token of the target's
// own. A [Schedule] decides how many tokens to draft.
//
// One round of [Decoder.Generate]:
//
//	feed the last token and K drafted ones     one pass of the target
//	read K+1 rows of logits                    row 0 follows the last token, row i+1 follows draft token i
//	keep n accepted tokens and one more        n+1 tokens for about the time of one
//	roll the caches back                       the target's now, the drafter's when it drafts next
//
// With [Greedy], [Match] and [Stairs] the tokens are those of plain decoding, for every drafter and schedule:
// sampling is Gumbel-max with noise that depends on seed, position and token only, and the drafter uses the same
// noise. With [Rejection] and [Block] the distribution is the target's.
//
// Four choices are independent of each other:
//
//	Drafter   Model (draft models; EAGLE-3, MTP, DFlash, DSpark and Gemma 4's heads), Tree, Splice, NGram, Suffix,
//	          Lookup, Self, SelfSplice, EarlyExit, Reencode, Intersect, Previous, Merge, Replay
//	Schedule  Auto, Constant, Heuristic, Dynamic, Oracle
//	Verifier  Greedy, Match, Rejection, Block, Stairs
//	Sampling  engine.Sampling
//
// [Drafters], [Schedules] and [Verifiers] list those that have a name, for flags and fields of requests; a [Choice]
// is made of names.
//
// Drafters, schedules, verifiers, sequences and candidate sources from outside this package have the same abilities,
// which are interfaces:
//
//	Drafter          Attentive, Branching, Clocked, Continuing, Learning, Merging, Sequenced; fields Ranked,
//	                 Calibrated and Likely of Draft
//	Schedule         Choosing, Clocked, Forcing, Learning, Starting, Trimming
//	Verifier         Evaluator
//	Sequence         Altered, Costed, Encoding, Listed, Metered, Modeled, Recalling, Segmented, Shared, Taking
//	CandidateSource  Failing, Reading
//
// Papers: Leviathan et al. 2023 and Chen et al. 2023 (speculative sampling), Gante 2023 (assisted generation,
// heuristic schedule), Mamou et al. 2024 (dynamic lookahead), Saxena 2023 (prompt lookup), Sun et al. 2024 (block
// verification), Weng et al. 2025 (traversal verification of trees), Grigaliunas and Lukosevicius 2024 (stairs), Miao
// et al. 2024 and Li et al. 2024 (trees), Yang et al. 2024 and Jeon et al. 2024 (sampled trees), Timor et al. 2025
// (other vocabularies), Zhang et al. 2023 and Elhoushi et al. 2024 (early exit).
//
// To read the source, begin with decoder.go (a round), draft.go (what is proposed), verify.go (the default verifiers)
// and model.go (the usual drafter). Every other file is one idea.
package speculative
