package main

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/specgo/spec/serve"
)

// The groups of the commands that write texts: each lists what it takes.

func (g *generate) cacheRows() []flag {
	list := []flag{contextRow(&g.context, "context in tokens")}
	list = append(append(list, g.cache.rows()...), stateRow(&g.stateBytes))
	return append(append(list, g.promptCache.rows()...), switchFlag("--no-kv-cache", &g.noCache, true,
		"recompute the whole sequence for every token: the same text, slowly"))
}

// textRows choose the tokens of a text and its end.
func (g *generate) textRows() []flag {
	return slices.Concat(g.endRows(), samplingRows(&g.sampling), []flag{biasRow(&g.sampling), seedRow(&g.seed,
		"seed of the sampling noise; the same seed gives the same text, but with --verify rejection and block, whose texts "+
			"depend on what was drafted too")}, g.grammarFlags.rows())
}

func (g *generate) flags() []group {
	return []group{
		{"model", append(g.modelFlags.rows(), g.adapters.rows()...)},
		{"cache", g.cacheRows()},
		{"prompt", append(g.prompt.rows("the prompt", standardInput, "-sys", "--stop"), g.displayRows()...)},
		{"sampling", g.textRows()},
		{"speculation", g.speculation.rows()},
		{"chat", append([]flag{g.conversationRow()}, g.chatFlags.rows()...)},
		{"output", append(g.reportRows(), g.receiptRow(), colorRow(&g.color))},
		withoutEffect(ignoredRows(), ignoredModes(), ignoredByTexts()),
	}
}

func (c *converse) flags() []group {
	model := append(c.modelFlags.rows(), c.adapters.rows()...)
	find(model, "-m").standard = "the largest in the cache that fits; with --chat-template or -md the pair inside this " +
		"program"
	return []group{
		{"model", model},
		{"cache", c.cacheRows()},
		{"prompt", c.prompt.rows("the first message", standardInput, "-sys", "--stop")},
		{"sampling", c.textRows()},
		{"speculation", c.speculation.rows()},
		{"chat", c.chatFlags.rows()},
		{"output", []flag{c.receiptRow(), colorRow(&c.color)}},
		withoutEffect(ignoredRows(), ignoredModes(), ignoredByTexts(), ignoredByConversations()),
	}
}

func (s *serving) flags() []group {
	return []group{
		{"model", slices.Concat(s.servedModels.rows(), s.draftRows(), s.lora.servedRows(), s.severalRows(), s.loadRows())},
		{"cache", slices.Concat(s.cacheRows(), s.sharedRows(), s.slotRows())},
		{"sampling of requests that do not choose", s.answers.rows()},
		{"speculation", slices.Concat([]flag{drafterRow(&s.choice), lookupRow(&s.texts), lookupOwnRow(&s.own)},
			s.vocab.rows(), choiceRows(&s.choice))},
		{"chat", s.answers.templateRows()},
		{"server", slices.Concat(s.network.rows(),
			[]flag{s.parallelRow("answers computed at once", serve.DefaultParallel), s.queueRow()},
			s.limitRows(), []flag{s.poolingRow(poolNone), s.normRow()})},
		{"output", s.logRows()},
		withoutEffect(ignoredByServers(true), ignoredRows()),
	}
}

func (b *batching) flags() []group {
	return []group{
		{"requests", []flag{
			fileFlag("-i, --input", &b.input, "FILE", "the requests, one JSON object a line"),
			fileFlag("-o, --output", &b.output, "FILE", "the answers; if the file exists, those that are missing are added"),
			valueFlag("--shard", "I/N", "answer only requests I, I+N, I+2N and so on; the first is 0", b.setShard),
			b.parallelRow("requests answered at once", batchParallel),
		}},
		{"model", slices.Concat(b.servedModels.rows(), b.draftRows(), b.lora.servedRows(), b.severalRows(), b.loadRows())},
		{"cache", slices.Concat(b.cacheRows(), b.sharedRows())},
		{"sampling of requests that do not choose", b.answers.rows()},
		{"speculation", slices.Concat([]flag{drafterRow(&b.choice), lookupRow(&b.texts), lookupOwnRow(&b.own)},
			b.vocab.rows(), choiceRows(&b.choice))},
		{"chat", b.answers.templateRows()},
		{"limits", append(b.limitRows(), b.poolingRow(), b.normRow())},
		{"output", []flag{switchFlag("--json", &b.json, true, "write the report as JSON")}},
		withoutEffect(ignoredByServers(false), ignoredRows()),
	}
}

// setShard reads --shard.
func (b *batching) setShard(v string) error {
	first, all, ok := strings.Cut(v, "/")
	i, err1 := strconv.Atoi(first)
	n, err2 := strconv.Atoi(all)
	if !ok || err1 != nil || err2 != nil || n < 1 || i < 0 || i >= n {
		return fmt.Errorf("want I/N with I from 0 to N-1")
	}
	b.shard, b.shards = i, n
	return nil
}

// separatorRow is --embd-separator.
func (e *embedding) separatorRow(standard string) flag {
	return valueFlag("--embd-separator", "TEXT", "what stands between two texts", func(v string) error {
		if v == "" {
			return errors.New("an empty separator")
		}
		e.separator = unescape(v)
		return nil
	}).or(standard).of("cutting")
}

// recordRows are for input in lines of JSON.
func (e *embedding) recordRows() []flag {
	return []flag{
		textFlag("--text-field", &e.textField, "NAME", "the input is lines of JSON, this field of each the text").
			of("cutting"),
		textFlag("--id-field", &e.idField, "NAME", "which field of a line of JSON is the id; every line must have it").
			or(defaultIDField + ", where a line has it").when(func() bool { return e.textField != "" }),
	}
}

// usualNorm is the default of --embd-normalize.
const usualNorm = 2

// normRow is --embd-normalize.
func normRow(p *int, where string) flag {
	return intFlag("--embd-normalize", p, -1, 2, "2: vectors of length 1, 1: absolute values sum to 1, 0: the "+
		"greatest absolute value is 32760, -1: as they are pooled"+where).or(strconv.Itoa(usualNorm))
}

// vectorRows are for how vectors are made and written.
func (e *embedding) vectorRows() []flag {
	return []flag{e.poolingRow(),
		intFlag("--dimensions", &e.dimensions, 1, math.MaxInt32, "keep only so many numbers of each vector, the first "+
			"ones, before it is normalized: for models that were trained for that"),
		normRow(&e.norm, ""),
		choiceFlag("--embd-output-format", &e.format, vectorFormats, "how vectors are written: lines of numbers, lines of "+
			"JSON, little-endian numbers, 8-bit integers of which the greatest is 127, a bit for each number, or a file of "+
			"NumPy").or("text").of("format"),
		jsonRow(&e.json).of("format"),
		fileFlag("-o, --output", &e.output, "FILE", "write the vectors to a file").or("standard output"),
		switchFlag("--resume", &e.resume, true, "keep the vectors that the file of -o has, and add those that are missing").
			when(func() bool { return e.output != "" }),
	}
}

func (e *embedding) flags() []group {
	return []group{
		{"texts", slices.Concat(e.text.rows("the texts", standardInput),
			[]flag{e.separatorRow(`\n; a folder's files are whole without it`)}, e.recordRows())},
		{"model", append(e.servedModels.rows(), e.loadRows()...)},
		{"cache", e.cacheRows()},
		{"output", e.vectorRows()},
		withoutEffect(ignoredByServers(false), ignoredRows()),
	}
}

func (r *reranking) flags() []group {
	query := []flag{
		textFlag("--query", &r.query, "TEXT", "what the texts are judged by"),
		intFlag("--top-n", &r.top, 0, math.MaxInt32, "print only so many of the best").or("0: all"),
	}
	groups := r.embedding.flags()
	groups[0].flags = slices.Concat(query, r.text.rows("the texts", standardInput), []flag{r.separatorRow(`\n`)})
	groups[3].flags = []flag{jsonRow(&r.json)} // scores are not pooled
	return groups
}

// standardInput is where a text comes from if no flag gives it.
const standardInput = "standard input"
