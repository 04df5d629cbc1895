package bpe

import (
	"fmt"
	"slices"
	"strings"
)

// A splitter cuts text into the words that byte-level BPE merges. next returns the
// end of the word that begins at text[i], i < len(text); it is called for one word
// after the other.
//
// The rules are published as regular expressions, of which models' files only give
// the name (tokenizer.ggml.pre). Their alternatives are tried in order at each
// position; text that no alternative matches is a word too. A rule of several
// expressions applies each to the words that the one before has made, and an
// expression sees nothing but its word: the end of the word is the end of the text.
//
// Here they are written by hand, without backtracking, because a regular expression
// engine would take most of the time of encoding. Each file split_*.go holds a family
// of rules and quotes their expressions. One difference is intended: (?i) folds ASCII
// only, as in llama.cpp. Character classes are those of Go's Unicode version; newer
// characters count as unassigned.
type splitter interface {
	next(s *scratch, text string, i int) int
}

// splitState is what a splitter of several expressions keeps from word to word.
type splitState struct {
	end    int // of the word that the first expression has made
	inner  int // of the word that the second expression has made
	groups int // superbpe: up to here the words are groups of three digits; deepseek-v3: the end of a group
}

// A pretokenizer is a rule with the settings that go with its name.
type pretokenizer struct {
	rule         string // the name of the rule
	split        splitter
	addBOS       bool // unless the file says otherwise
	addSEP       bool // the like
	ignoreMerges bool // a word that is a token is not merged
}

// rules are the splitters by the name of the pre-tokenizer that is best known for it.
var rules = map[string]splitter{
	"afmoe":          deepSeekV3{asian: afmoeAsian, digits: 3, fromRight: true},
	"bloom":          splitFunc(splitBloom),
	"chameleon":      splitFunc(splitChameleon),
	"deepseek-coder": splitFunc(splitDeepSeekCoder),
	"deepseek-llm":   splitFunc(splitDeepSeekLLM),
	"deepseek-v3":    deepSeekV3{asian: deepSeekV3Asian, digits: 3},
	"default":        splitFunc(splitDefault),
	"exaone-moe":     tiktoken{letters: letter, digits: 1, phrases: true, tail: tailOne},
	"falcon":         splitFunc(splitFalcon),
	"gpt-2":          splitFunc(splitGPT2),
	"gpt-4o":         cased{digits: 3, contractions: true},
	"jais-2":         tiktoken{letters: letter, digits: 3, byLength: true, tail: tailBreaks},
	"kimi-k2":        cased{digits: 3, contractions: true, han: true},
	"laguna":         splitFunc(splitLaguna),
	"lines":          splitFunc(splitLines),
	"llama-bpe":      tiktoken{letters: letter, digits: 3, tail: tailBreaks},
	"minicpm5":       splitFunc(splitMiniCPM5),
	"qwen2":          tiktoken{letters: letter, digits: 1, tail: tailBreaks},
	"qwen35":         tiktoken{letters: letter | mark, digits: 1, tail: tailBreaks},
	"seed-coder":     tiktoken{letters: letter, digits: 1, tail: tailNone},
	"smollm":         splitFunc(splitSmolLM),
	"spark2_5":       deepSeekV3{asian: deepSeekV3Asian, digits: 1, loneBreaks: true},
	"superbpe":       splitFunc(splitSuperBPE),
	"tekken":         cased{digits: 1},
	"tiny_aya":       splitFunc(splitTinyAya),
	"ufakzeka":       tiktoken{letters: letter, digits: 1, detached: true, tail: tailBreaks},
	"viking":         splitFunc(splitViking),
	"youtu":          splitFunc(splitYoutu),
}

// ruleNames are the names that a file may give a pre-tokenizer, by rule: those that the
// reference engine has for files of model gpt2 and gemma4, and some of other converters.
var ruleNames = map[string][]string{
	"afmoe":          {"afmoe"},
	"bloom":          {"bloom", "gpt3-finnish", "poro-chat"},
	"chameleon":      {"chameleon"},
	"deepseek-coder": {"deepseek-coder"},
	"deepseek-llm":   {"deepseek-llm"},
	"deepseek-v3":    {"deepseek-v3", "hunyuan-dense", "hy_v4", "joyai-llm"},
	"default":        {"", "default"},
	"exaone-moe":     {"exaone-moe"},
	"falcon":         {"falcon"},
	"gpt-2": {
		"gpt-2", "a.x-4.0", "exaone4", "gigachat", "granite-docling", "jais", "jina-de", "jina-es", "jina-v1-en",
		"jina-v2-code", "jina-v2-de", "jina-v2-es", "mellum", "modern-bert", "mpt", "olmo", "phi-2", "roberta-bpe",
		"trillion",
	},
	"gpt-4o":  {"gpt-4o", "granite-embed-multi-97m", "kanana2", "llama4", "minimax-m2", "talkie"},
	"jais-2":  {"jais-2"},
	"kimi-k2": {"kimi-k2"},
	"laguna":  {"laguna"},
	"lines":   {"gemma4", "granite-embed-multi-311m", "sarvam-moe"},
	"llama-bpe": {
		"llama-bpe", "chatglm-bpe", "dbrx", "falcon-h1", "falcon3", "glm4", "jina-v5-nano", "lfm2", "llama-v3", "llama3",
		"midm-2.0", "pixtral", "smaug-bpe",
	},
	"minicpm5": {"minicpm5"},
	"qwen2": {
		"qwen2", "bailing", "bailingmoe", "bailingmoe2", "deepseek-r1-qwen", "f2llmv2", "grok-2", "hunyuan", "kormo",
		"llada-moe", "megrez", "solar-open", "stablelm2",
	},
	"qwen35":     {"qwen35"},
	"seed-coder": {"seed-coder"},
	"smollm":     {"smollm", "codeshell", "command-r", "exaone", "mellum2", "minerva-7b", "refact", "starcoder"},
	"spark2_5":   {"spark2_5"},
	"superbpe":   {"superbpe"},
	"tekken":     {"tekken"},
	"tiny_aya":   {"tiny_aya", "cohere2moe"},
	"ufakzeka":   {"ufakzeka"},
	"viking":     {"viking"},
	"youtu":      {"youtu"},
}

// Settings that go with a name and not with a rule, as in llama.cpp.
var (
	llama3Names = []string{
		"falcon-h1", "falcon3", "jina-v5-nano", "lfm2", "llama-bpe", "llama-v3", "llama3", "midm-2.0", "pixtral", "tekken",
	}
	addBOSNames       = append([]string{"chameleon", "gemma4", "granite-embed-multi-311m"}, llama3Names...)
	addSEPNames       = []string{"jina-v1-en", "jina-v2-code", "roberta-bpe"}
	ignoreMergesNames = append([]string{"granite-embed-multi-97m", "minicpm5", "youtu"}, llama3Names...)
)

func findPretokenizer(name string) (pretokenizer, error) {
	var known []string
	for rule, names := range ruleNames {
		if slices.Contains(names, name) {
			return pretokenizer{rule, rules[rule], slices.Contains(addBOSNames, name), slices.Contains(addSEPNames, name),
				slices.Contains(ignoreMergesNames, name)}, nil
		}
		known = append(known, names...)
	}
	known = slices.DeleteFunc(known, func(s string) bool { return s == "" })
	slices.Sort(known)
	return pretokenizer{}, fmt.Errorf("tokenizer.ggml.pre: pre-tokenizer %s is %w (known: %s)", quote(name),
		ErrUnsupported, strings.Join(known, ", "))
}

// splitFunc is a splitter without parameters.
type splitFunc func(s *scratch, text string, i int) int

func (f splitFunc) next(s *scratch, text string, i int) int { return f(s, text, i) }

// contraction returns the length of 's 't 'm 'd 're 've 'll at text[i], or 0. With
// fold, letters of either case match.
func contraction(text string, i int, fold bool) int {
	if len(text)-i < 2 || text[i] != '\'' {
		return 0
	}
	a, b := text[i+1], byte(0)
	if len(text)-i > 2 {
		b = text[i+2]
	}
	if fold {
		a |= 0x20 // of all bytes only letters become the letters looked for
		b |= 0x20
	}
	switch {
	case a == 's', a == 't', a == 'm', a == 'd':
		return 2
	case a == 'r' && b == 'e', a == 'v' && b == 'e', a == 'l' && b == 'l':
		return 3
	}
	return 0
}

func lineBreak(c byte) bool { return c == '\n' || c == '\r' }

// whiteSpace is \s+(?!\S)|\s+ at text[i]: a run of white space without its last
// character, which is left to the word that follows, unless there is none or the run
// has one character.
func (s *scratch) whiteSpace(text string, i int) int {
	start, last := i, i
	for i < len(text) {
		c, n := classAt(text, i)
		if c != space {
			s.read += i - start + 1
			if last > start {
				return last
			}
			return i
		}
		last = i
		i += n
	}
	s.read += i - start
	return i
}

// whiteSpaceLines is \s*[\r\n]+|\s+(?!\S)|\s+: white space up to and with the last
// line break of the run, if there is one.
func (s *scratch) whiteSpaceLines(text string, i int) int {
	end := s.skip(text, i, space)
	if k := strings.LastIndexAny(text[i:end], "\r\n"); k >= 0 {
		return i + k + 1
	}
	return s.whiteSpace(text, i)
}

// numbers is \p{N}{1,limit} at text[i], which is a number.
func (s *scratch) numbers(text string, i, limit int) int {
	for ; limit > 0 && isAt(text, i, number); limit-- {
		_, n := classAt(text, i)
		i += n
	}
	return i
}
