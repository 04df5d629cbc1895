package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
)

// exactFlag is a floatFlag of a number whose zero stands for another one in [engine.Sampling].
func exactFlag(n string, p *float32, high float64, help string) flag {
	f := floatFlag(n, p, 0, high, help)
	read := f.set
	f.set = func(v string) error {
		err := read(v)
		if err == nil {
			*p = max(*p, sampling.Zero)
		}
		return err
	}
	return f
}

// samplingRows choose tokens.
func samplingRows(s *engine.Sampling) []flag {
	return []flag{
		temperatureRow(&s.Temperature, "0.8"), topKRow(&s.TopK, "40"), topPRow(&s.TopP, "0.95"), minPRow(&s.MinP, "0.05"),
		repeatPenaltyRow(&s.RepeatPenalty, "1: off"),
		floatFlag("--frequency-penalty", &s.FrequencyPenalty, -1e6, 1e6,
			"subtract this from a token's logit for each repetition").or("0"),
		floatFlag("--presence-penalty", &s.PresencePenalty, -1e6, 1e6,
			"subtract this from a repeated token's logit once").or("0"),
		intFlag("--repeat-last-n", &s.PenaltyLastN, -1, math.MaxInt32,
			"tokens that the penalties look back on; 0 is off, -1 the whole context").or("64"),
		exactFlag("--typical, --typical-p", &s.TypicalP, 1,
			"keep the tokens of the most expected surprise, of this total probability; 1 is off").or("1"),
		floatFlag("--top-nsigma, --top-n-sigma", &s.TopNSigma, 0, 1e6,
			"keep logits up to so many standard deviations below the greatest; 0 is off").or("0"),
		floatFlag("--xtc-probability", &s.XTC.Probability, 0, 1,
			"leave out the most likely tokens at this share of positions; 0 is off").or("0"),
		exactFlag("--xtc-threshold", &s.XTC.Threshold, 1,
			"of those that reach this probability all but the least likely; above 0.5 is off").or("0.1"),
		floatFlag("--dynatemp-range", &s.Dynatemp.Range, 0, 1e6,
			"the temperature follows the entropy, by so much up and down; 0 is off").or("0"),
		exactFlag("--dynatemp-exp", &s.Dynatemp.Exponent, 1e6, "how it follows").or("1"),
		intFlag("--mirostat", &s.Mirostat.Version, 0, 2,
			"filters follow the surprise of the text, by version 1 or 2, in place of all others; 0 is off").or("0"),
		exactFlag("--mirostat-ent", &s.Mirostat.Tau, 1e6, "the surprise to hold, in bits").or("5"),
		exactFlag("--mirostat-lr", &s.Mirostat.Eta, 1e6, "how fast it is followed").or("0.1"),
		floatFlag("--dry-multiplier", &s.DRY.Multiplier, 0, 1e6,
			"what a token loses that would continue a repetition; 0 is off").or("0"),
		floatFlag("--dry-base", &s.DRY.Base, 0, 1e6,
			"grows to this power with each further token of it, at least 1").or("1.75"),
		intFlag("--dry-allowed-length", &s.DRY.AllowedLength, 1, math.MaxInt32,
			"tokens that may be repeated, at least 1").or("2"),
		valueFlag("--dry-penalty-last-n", "N", "tokens that are searched for repetitions; 0 is off, -1 the whole context",
			func(v string) error {
				n, err := wholeNumber(v, -1, math.MaxInt32)
				s.DRY.SetLastN(n)
				return err
			}).or("-1"),
		valueFlag("--samplers", "NAMES", "the steps of the choice in their order, with ; between them; a step that is not "+
			"listed is off, as infill is (default: penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, temperature)",
			samplerOrder(s, ";")).of(fieldSamplers),
		valueFlag("--sampler-seq, --sampling-seq", "LETTERS", "the same, a letter a step", samplerOrder(s, "")).
			or("edskypmxt").of(fieldSamplers),
	}
}

// samplerOrder reads an order of steps: names with sep between them, or letters where there is none.
func samplerOrder(s *engine.Sampling, sep string) func(string) error {
	return func(v string) (err error) {
		names := strings.Split(v, sep)
		for _, letter := range names { // an error names the one that is wrong
			if _, err := sampling.ParseOrder(letter); sep == "" && err != nil {
				return err
			}
		}
		if sep == "" {
			names = []string{v}
		}
		s.Order, err = sampling.ParseOrder(names...)
		return err
	}
}

func temperatureRow(p *float32, standard string) flag {
	return floatFlag("--temp, --temperature", p, 0, 1e6, "temperature; 0 is greedy").or(standard)
}

func topKRow(p *int, standard string) flag {
	return valueFlag("--top-k", "N", "keep the N most likely tokens; 0 and -1 are off", func(v string) error {
		n, err := wholeNumber(v, -1, math.MaxInt32)
		*p = max(n, 0)
		return err
	}).or(standard).env("LLAMA_ARG_TOP_K")
}

func topPRow(p *float32, standard string) flag {
	return exactFlag("--top-p", p, 1, "keep the most likely tokens of this total probability; 1 is off, 0 keeps one").
		or(standard)
}

func minPRow(p *float32, standard string) flag {
	return floatFlag("--min-p", p, 0, 1,
		"drop tokens below this share of the most likely one's probability; 0 is off").or(standard)
}

func repeatPenaltyRow(p *float32, standard string) flag {
	return floatFlag("--repeat-penalty", p, 1e-6, 1e6, "divide the logits of repeated tokens").or(standard)
}

// seedRow is -s where no seed may be given.
func seedRow(p *int64, help string) flag {
	return valueFlag("-s, --seed", "N", help, func(v string) error {
		seed, err := strconv.ParseInt(v, 10, 64)
		if err != nil || seed < -1 {
			return fmt.Errorf("not between -1 and %d", int64(math.MaxInt64))
		}
		*p = seed
		return nil
	}).or("-1: another each time")
}

// noiseRow is -s where every run is repeatable.
func noiseRow(p *int, standard string) flag {
	return intFlag("-s, --seed", p, 0, math.MaxInt32, "seed of the sampling noise").or(standard)
}

// predictRow is -n of commands that write texts.
func predictRow(p *int, help, standard string) flag {
	return intFlag("-n, --predict, --n-predict", p, -1, math.MaxInt32, help).or(standard).env("LLAMA_ARG_N_PREDICT")
}

// mostRow is -n of what answers requests: each answer has a token.
func mostRow(p *int, help string) flag {
	f := predictRow(p, help, "-1: the context")
	read := f.set
	f.set = func(v string) error {
		err := read(v)
		if err == nil && *p == 0 {
			err = errors.New("an answer has a token at least; -1: as many as the context holds")
		}
		return err
	}
	return f
}

// lengthRow is -n of commands that measure: it has a variable of its own, for llama.cpp's may be -1.
func lengthRow(p *int, low, high int, help, standard string) flag {
	return intFlag("-n, --predict, --n-predict", p, low, high, help).or(standard).unlike()
}

// endRows say where a text ends.
func (g *generate) endRows() []flag {
	return []flag{
		predictRow(&g.predict, "tokens to generate", "-1: until end of text or full context"),
		valueFlag("--stop, -r, --reverse-prompt", "TEXT", "end before this text; may be repeated", func(v string) error {
			if v == "" {
				return errors.New("an empty text stops at once")
			}
			g.stop = append(g.stop, v)
			return nil
		}),
		valueFlag("--dry-sequence-breaker", "TEXT", "a text that no repetition reaches over, in place of newline, colon, "+
			"quote and asterisk; may be repeated; none: there are none", func(v string) error {
			if g.breakers = append(g.breakers, v); v == "none" {
				g.breakers = []string{}
			}
			return nil
		}),
		ignoreEOSRow(&g.ignoreEOS),
	}
}

func ignoreEOSRow(p *bool) flag {
	return switchFlag("--ignore-eos", p, true, "never choose an end-of-text token")
}

// biasRow changes the logits of single tokens.
func biasRow(s *engine.Sampling) flag {
	return valueFlag("-l, --logit-bias", "ID(+|-)X",
		"add X to a token's logit, as in 15043-1; -inf bans it; may be repeated",
		func(v string) error { return readBias(s, v) })
}

// rows are llama.cpp's names for a grammar or a JSON Schema that the text follows.
func (g *grammarFlags) rows() []flag {
	return append(g.sourceRows("the text follows this grammar, in llama.cpp's notation",
		"the text is JSON that is valid by this schema; {} is any JSON"),
		switchFlag("--json-any-order", &g.anyOrder, true, "keys of objects come in any order, instead of the schema's"))
}

// sourceRows are where a grammar or schema comes from.
func (g *grammarFlags) sourceRows(grammar, schema string) []flag {
	return []flag{
		fileFlag("--grammar", &g.grammar, "GBNF", grammar).of(fieldGrammar),
		fileFlag("--grammar-file", &g.grammarFile, "FILE", "the same, from a file").of(fieldGrammar),
		fileFlag("-j, --json-schema", &g.schema, "SCHEMA", schema).of(fieldGrammar),
		fileFlag("-jf, --json-schema-file", &g.schemaFile, "FILE", "the same, from a file").of(fieldGrammar),
	}
}
