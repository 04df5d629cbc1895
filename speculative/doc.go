// Package speculative makes a language model answer sooner without changing its answer.
//
// Decoding one token reads every weight of the model once, and checking several tokens reads them
// once as well. So a cheap [Drafter] proposes a few tokens, the target model looks at all of them
// in one pass, and a [Verifier] keeps those that the target itself would have written, plus one
// token of the target's own. A [Schedule] says how many tokens are worth drafting.
//
// One round of [Decoder.Generate] is:
//
//	feed the last token and K drafts      one pass of the target
//	read K+1 rows of logits               row 0 follows the last token, row i+1 follows draft i
//	keep n accepted drafts and one token  n+1 tokens for the price of about one
//	roll the caches back                  the target's here, the drafter's when it next drafts
//
// With [Greedy], [Match] and [Stairs] the tokens are those of plain decoding, for every drafter and
// schedule: sampling is Gumbel-max with noise that depends on seed, position and token only, and
// the drafter shares it. With [Rejection] and [Block] the distribution is the target's.
//
// Four choices are independent of each other:
//
//	Drafter   Model, EarlyExit, Reencode, Intersect, NGram, Suffix, Splice, Tree, Merge, Replay
//	Schedule  Auto, Constant, Heuristic, Dynamic, Oracle
//	Verifier  Greedy, Match, Rejection, Block, Stairs
//	Sampling  engine.Sampling
//
// The papers: Leviathan et al. 2023 and Chen et al. 2023 (the method, and rejection), Gante 2023
// (assisted generation and the heuristic schedule), Mamou et al. 2024 (dynamic lookahead), Saxena
// 2023 (prompt lookup), Sun et al. 2024 (block verification), Weng et al. 2025 (the same of trees),
// Grigaliunas and Lukosevicius 2024 (stairs), Miao et al. 2024 and Li et al. 2024 (trees), Yang et
// al. 2024 and Jeon et al. 2024 (sampled trees), Timor et al. 2025 (drafts in other vocabularies),
// Zhang et al. 2023 and Elhoushi et al. 2024 (early exit).
//
// Reading the source: decoder.go is the round, draft.go what is proposed, verify.go the rule that
// matters most, model.go the drafter that matters most; each other file is one idea.
package speculative
