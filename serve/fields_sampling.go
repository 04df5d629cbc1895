package serve

import (
	"math"
	"strings"

	"github.com/specgo/spec/engine/sampling"
)

// samplingFields are those that say how a token is chosen, with llama.cpp's names, which Ollama has too, and vLLM's
// where it has others.
func samplingFields(in forms) []field {
	number := func(low, high float64, set func(r *request, x float32)) func(*request, value) *Error {
		return func(r *request, v value) *Error {
			x, err := v.number(low, high)
			if err == nil {
				set(r, x)
			}
			return err
		}
	}
	whole := func(low, high int64, set func(r *request, n int)) func(*request, value) *Error {
		return func(r *request, v value) *Error {
			n, err := v.whole(low, high)
			if err == nil {
				set(r, int(n))
			}
			return err
		}
	}
	// exact is number where the options' own zero stands for another number: 0 is as near to it as a number can be.
	exact := func(high float64, set func(r *request, x float32)) func(*request, value) *Error {
		return number(0, high, func(r *request, x float32) { set(r, max(x, sampling.Zero)) })
	}
	temperature := number(0, maxSampling, func(r *request, x float32) { r.sampling.Temperature = x })
	topP := number(0, 1, func(r *request, x float32) { r.sampling.TopP, r.greedy = x, x == 0 })
	typical := exact(1, func(r *request, x float32) { r.sampling.TypicalP = x })
	repeat := number(1e-6, maxSampling, func(r *request, x float32) { r.sampling.RepeatPenalty = x })
	llama := in &^ formOllamaOptions
	const newline = "false: penalties leave the newline as it is"
	return []field{
		{"temperature", honored, in | formResponses, "0 is greedy", temperature},
		{"top_p", honored, in | formResponses,
			"keep the most likely tokens of this total probability; 1 is off, 0 is greedy", topP},
		{"top_k", honored, in, "keep the k most likely tokens; 0 and below is off",
			whole(-1, anyNumber, func(r *request, n int) { r.sampling.TopK = max(n, 0) })},
		{"min_p", honored, in, "drop tokens below this share of the most likely one's probability; 0 is off",
			number(0, 1, func(r *request, x float32) { r.sampling.MinP = x })},
		{"typical_p", honored, in, "keep the tokens of the most expected surprise, of this total probability; 1 is off",
			typical},
		{"typ_p", honored, llama, "the same", typical},
		{"top_n_sigma", honored, llama, "keep logits up to so many standard deviations below the greatest; -1 and 0 are off",
			number(-1, maxSampling, func(r *request, x float32) { r.sampling.TopNSigma = max(x, 0) })},
		{"xtc_probability", honored, llama, "at this share of positions the most likely tokens are left out; 0 is off",
			number(0, 1, func(r *request, x float32) { r.sampling.XTC.Probability = x })},
		{"xtc_threshold", honored, llama, "those that reach this probability, all but the least likely of them; above 0.5 " +
			"is off (default 0.1)", exact(1, func(r *request, x float32) { r.sampling.XTC.Threshold = x })},
		{"dynatemp_range", honored, llama, "the temperature follows the entropy, by so much up and down; 0 is off",
			number(0, maxSampling, func(r *request, x float32) { r.sampling.Dynatemp.Range = x })},
		{"dynatemp_exponent", honored, llama, "how it follows (default 1)",
			exact(maxSampling, func(r *request, x float32) { r.sampling.Dynatemp.Exponent = x })},
		{"mirostat", honored, in, "1 or 2: filters follow the surprise of the text; they replace top_k, top_p and the " +
			"others; 0 is off", whole(0, 2, func(r *request, n int) { r.sampling.Mirostat.Version = n })},
		{"mirostat_tau", honored, in, "the surprise to hold, in bits (default 5)",
			exact(maxSampling, func(r *request, x float32) { r.sampling.Mirostat.Tau = x })},
		{"mirostat_eta", honored, in, "how fast it is followed (default 0.1)",
			exact(maxSampling, func(r *request, x float32) { r.sampling.Mirostat.Eta = x })},
		{"samplers", honored, llama, "the steps of the choice in their order; a step that is not listed is off: penalties, " +
			"dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, temperature; or their letters edskypmxt, and infill (i), off " +
			"unless listed: the text that fills a gap ends where no continuation is probable", readSamplers},

		{"repeat_penalty", honored, in, "divides the logits of recent tokens; 1 is off", repeat},
		{"repetition_penalty", honored, llama, "the same, vLLM's name", repeat},
		{"repeat_last_n", honored, in, "tokens that count as recent, of the three penalties; 0 switches them off, -1 is all",
			whole(-1, anyNumber, func(r *request, n int) { r.sampling.SetLastN(n) })},
		{"frequency_penalty", honored, in, "subtracted for each recent occurrence",
			number(-maxSampling, maxSampling, func(r *request, x float32) { r.sampling.FrequencyPenalty = x })},
		{"presence_penalty", honored, in, "subtracted once for a recent token",
			number(-maxSampling, maxSampling, func(r *request, x float32) { r.sampling.PresencePenalty = x })},
		{"dry_multiplier", honored, llama, "what a token loses that would continue a repetition; 0 is off",
			number(0, maxSampling, func(r *request, x float32) { r.sampling.DRY.Multiplier = x })},
		{"dry_base", honored, llama, "grows to this power with each further token of it, at least 1 (default 1.75)",
			number(0, maxSampling, func(r *request, x float32) { r.sampling.DRY.Base = x })},
		{"dry_allowed_length", honored, llama, "tokens that may be repeated, at least 1 (default 2)",
			whole(0, anyNumber, func(r *request, n int) { r.sampling.DRY.AllowedLength, r.repeatNone = n, n == 0 })},
		{"dry_penalty_last_n", honored, llama, "tokens that are searched; 0 is off, -1 is all (default)",
			whole(-1, anyNumber, func(r *request, n int) { r.sampling.DRY.SetLastN(n) })},
		{"dry_sequence_breakers", honored, llama, "texts that no repetition reaches over (default newline, colon, quote, " +
			"asterisk)", readBreakers},

		{"seed", honored, in | formResponses, "the same seed gives the same answer, but with the verifiers rejection and " +
			"block, whose texts depend on what was drafted too; -1 is another each time",
			func(r *request, v value) *Error {
				n, err := v.whole(math.MinInt64, math.MaxInt64)
				if r.seeded = n != -1; !r.seeded {
					n = 0 // which has one drawn
				}
				r.sampling.Seed = uint64(n)
				return err
			}},
		{"tfs_z", honored, in, "only the value that switches it off", onlyNumber(1)},
		{"penalize_newline", honored, formOllamaOptions, newline, readNewline},
		{"penalize_nl", honored, llama, newline, readNewline},
	}
}

// readNewline reads whether penalties are for newlines too.
func readNewline(r *request, v value) *Error {
	penalized, err := v.boolean()
	r.freeNewline = !penalized
	return err
}

// readSamplers reads the order of steps: names, or a text of letters.
func readSamplers(r *request, v value) *Error {
	names, err := v.texts()
	if err != nil {
		return err
	}
	if len(names) == 1 && strings.Contains(names[0], ";") {
		names = strings.Split(names[0], ";") // as llama.cpp's flag has them
	}
	order, e := sampling.ParseOrder(names...)
	if e != nil {
		return v.bad("%v", e)
	}
	r.sampling.Order = order
	return nil
}

// maxBreakers is the most texts that break repetitions: each is looked for in every token of the vocabulary.
const maxBreakers = 32

func readBreakers(r *request, v value) *Error {
	texts, err := v.texts()
	if err != nil {
		return err
	}
	if len(texts) > maxBreakers {
		return v.bad("more than %d texts", maxBreakers)
	}
	for _, s := range texts {
		if len(s) > maxStopText {
			return v.bad("a text must have at most %d bytes", maxStopText)
		}
	}
	r.breakers = texts
	return nil
}
