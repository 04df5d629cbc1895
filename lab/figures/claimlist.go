package main

// The verdicts.
const (
	yes    = "yes"
	partly = "partly"
	no     = "no"
	notRun = "not run"
)

// claimList follows the publications: A assisted generation (Gante 2023), B dynamic speculation lookahead (Mamou et
// al. 2024), C stairs (Grigaliunas and Lukosevicius 2024), D speculative sampling (Leviathan et al. 2023, Chen et al.
// 2023).
var claimList = []claim{
	{"A1", "A pass is limited by reading weights", "decoding, beside the measured memory bandwidth",
		passCost("decode", 1, "weights read at %.0f GB/s",
			func(_ view, _, seconds, _ float64) float64 { return gigabytes / seconds }), yes,
		"the bandwidth of each session is in the first table"},
	{"A2", "Batching raises throughput: 39x with 64 sequences", "1 and 64 sequences, sampled",
		onEach(func(v view) string {
			var one, many float64
			for _, row := range v.passes() {
				switch {
				case row.Kind == "batch" && row.Tokens == 1:
					one = row.TokensPerSecond
				case row.Kind == "batch" && row.Tokens == 64:
					many = row.TokensPerSecond
				}
			}
			if one == 0 {
				return ""
			}
			return twoDigits(many/one) + "x"
		}), partly, "two cores reach the limit of arithmetic at about 16 sequences (AVX2: 4); a GPU has more arithmetic " +
			"for its bandwidth"},
	{"A3", "INT8 weights lower latency; tensor parallelism too (1.5x on 4 GPUs)", "plain decoding, Q8_0 and f16", overF16,
		partly, "half the bytes, as claimed; tensor parallelism is out of scope: one machine's cores share each matrix by " +
			"rows"},
	{"A4", "One pass over prompt and output returns the output",
		"receipts: `spec verify` confirms a text in passes of 64 tokens", confirmed, yes, "sampled texts too, on any CPU"},
	{"A5", "Without a cache, logits come for all positions", "`engine.All`; the logits are the same bit for bit", nil,
		yes, "golden tests"},
	{"A6", "A free assistant that is wrong once in ten tokens: ten times faster", "a thought experiment", nil, notRun,
		"the formula allows at most 1 / (1 - 0.9) = 10 tokens in a pass"},
	{"A7", "The loop with +2 and -1", "heuristic schedule, code",
		speedup("schedules", code, 0, settingName("model", "heuristic", "greedy", 0)), yes, "as published"},
	{"A8", "The assistant must share the tokenizer", "other tokenizers are refused", nil, yes,
		"`reencode` and `intersect` lift the requirement (B7)"},
	{"A9", "At least ten times smaller; the smaller the better", "five sizes of one function, auto", bySize, partly,
		"only the cost side: larger drafts would be accepted more often"},
	{"A10", "Up to 3x with INT8, 2x otherwise; 10x when offloading", "heuristic, Q8_0 and f16", overF16, no,
		"assistance gains no more with 8 bits than with 16, within the intervals; offloading was not run"},
	{"A11", "Tasks that repeat their input gain most", "tree, three kinds of prompts", bySet, no,
		"the small target hardly copies its prompt; it repeats itself, most of all after the short open-ended prompts"},
	{"A12", "The gain falls as the temperature rises", "greedy drafts of 5 tokens (published), and drafts that share " +
		"the noise", perPassAt(0, 0.4, 0.8, 1.4, 5), yes,
		"with greedy drafts, as published; drafts that share the noise agree again at very high temperatures"},
	{"A13", "Logits can be changed before the choice",
		"penalties, bans and constraints advance with each drafted position", nil, yes,
		"tests of identity with each of them"},
	{"A14", "Output with assistance is the same", "every text of the tables above whose verifier promises it", identical,
		yes, ""},
	{"B1", "The best lookahead varies strongly between rounds", "oracle, 30 code prompts", lengthsOfOracle, yes, ""},
	{"B2", "One example: static 5 38 / 192 passes, oracle 27 / 129", "static 5, oracle: all code prompts",
		totals("constant", "oracle"), yes, "the same direction; other models and prompts"},
	{"B3", "Average oracle lookahead by round", "the picture above", nil, yes,
		"on other prompts (Alpaca was not at hand)"},
	{"B4", "A draft ends after a token of confidence below 0.4, at most 20", "`speculative.Dynamic`", nil, yes,
		"as published; the last token is still verified"},
	{"B5", "Heuristic / dynamic on code: 0.89 / 1.09 and 1.09 / 1.15", "heuristic / dynamic, code",
		speedup("schedules", code, 0, settingName("model", "heuristic", "greedy", 0),
			settingName("model", "dynamic", "greedy", 0)), partly, "the order depends on what an additional token in a pass " +
			"costs; greater speedups, because this draft model is far cheaper"},
	{"B6", "Dynamic is better than heuristic in all tests", "as B5; passes of target / draft: heuristic, dynamic",
		totals("heuristic", "dynamic"), partly,
		"by the clock with AVX2 kernels after prompts to copy, not with AVX-512: dynamic saves drafted tokens and needs " +
			"more passes of the target"},
	{"B7", "Any target with any assistant", "`reencode`, `intersect`", nil, yes, "tests of identity across vocabularies"},
	{"C1", "B rows in one pass, each predicts one token", "`speculative.Stairs`, `Batch`", nil, yes,
		"rows share their prefixes in the cache, are one batch that shares the text's, or each is computed anew; all in " +
			"one pass"},
	{"C2", "Validation row by row", "the same rule", nil, yes, "equal to `match`, tested"},
	{"C3", "Best batch 7 (T5-large), 6 (T5-3B); up to a factor of 2 between sizes", "2 to 11 rows", bestBatch, partly,
		"depends on acceptance and costs; the spread is smaller"},
	{"C4", "T5-large: stairs 17 % faster, assisted 6 %",
		"the paper's prompt, plain / heuristic / stairs with 7 rows; the table above says how many runs", stairsGain, partly,
		"other models; with common prefixes computed once it gains more than the paper's; with rows as one batch, or " +
			"computed anew, 7 rows cost more than they gain on two CPU cores"},
	{"C5", "T5-3B: assisted 22 %, stairs 10 %", "the same", stairsGain, partly, "as C4; the models know no German"},
	{"C6", "BLEU 75 to 100 against plain output", "as A14", identical, yes, "100: the texts are identical"},
	{"C7", "Cited speedups of others, 1.4 to 2x", "", nil, notRun, "the weights of T5 and Chinchilla were not at hand"},
	{"C8", "Future work: sampling, several assistants", "`match` with rows at any temperature; `merge`", nil, yes,
		"tests"},
	{"D1", "Several inputs for one reading are nearly free", "a pass over 8 tokens, relative to one",
		passCost("verify", 8, "%.2f", func(_ view, ratio, _, _ float64) float64 { return ratio }), partly,
		"with AVX-512; not with AVX2 kernels"},
	{"D2", "Accept with min(1, p/q), else draw from the positive part of p - q",
		"`speculative.Rejection`; the picture above", nil, yes, "tests of the distribution"},
	{"D3", "Frequent words are what drafts get right", "agreement by frequency, 90 prompts", func(r *report) string {
		v, ok := r.first("frequency")
		if !ok {
			return ""
		}
		s := ""
		for _, c := range v.cells {
			for i, g := range c.Groups {
				if i > 0 {
					s += ", "
				}
				s += []string{"the 10 most frequent ", "the next 90 ", "others "}[min(i, 2)] + percent(g.Agrees, g.Tokens)
			}
		}
		return s
	}, yes, ""},
}
