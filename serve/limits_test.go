package serve

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/grammar"
	"github.com/specgo/spec/internal/testkit"
)

// limit is a row of docs/LIMITS.md: a bound, its default, what changes it, what becomes of who exceeds it, and the
// tests that show that, as package.Test.
type limit struct {
	name   string
	value  any // the code's default
	flag   string
	beyond string
	tests  string
}

// limitTables are the rows by part. Those of a type of limits have the names of its fields; TestLimitsAreDocumented
// sees to it that all are there.
func limitTables() []struct {
	title string
	of    any // the defaults of the type of limits that the rows describe; nil: there is none
	rows  []limit
} {
	o := Options{Models: []Entry{{Name: "x", Load: func(context.Context) (*spec.Model, error) { return nil, nil }}}}
	if err := o.check(); err != nil {
		panic(err)
	}
	l, g, t := o.Limits, grammar.DefaultLimits(), chat.DefaultLimits()
	const again = "429, Retry-After"
	const refused = "400 that names the field"
	const limited = "400 that names the limit"
	return []struct {
		title string
		of    any
		rows  []limit
	}{
		{"Connections and bodies (`serve.Limits`)", l, []limit{
			{"Connections", l.Connections, "`--max-connections`",
				"takes the place of the oldest connection without a key, then of the one that is idle longest; if " +
					"all are busy it waits", "serve.TestRoomForNewConnections"},
			{"Unkeyed", l.Unkeyed, "`--max-unkeyed`",
				"of one address (IPv6: /64) without a key shown: the oldest is closed; behind a `--trusted-proxy` " +
					"requests, by the forwarded address: 429",
				"serve.TestUnkeyedConnectionsCountByAddress serve.TestUnkeyedRequestsBehindAProxy " +
					"serve.TestHalfOpenSocketsMakeRoom"},
			{
				"HeaderTime", l.HeaderTime, "",
				"of a TLS handshake, a header, and each wait of a connection without a key: closed",
				"serve.TestStalledConnectionsEnd serve.TestSocketDeadlines",
			},
			{"HeaderBytes", l.HeaderBytes, "", "431, closed", "serve.TestStalledConnectionsEnd"},
			{"IdleTime", l.IdleTime, "", "between requests: closed", "serve.TestStalledConnectionsEnd"},
			{
				"BodyTime", l.BodyTime, "`--timeout`", "408, closed",
				"serve.TestSlowBody serve.TestStalledConnectionsEnd",
			},
			{"BodyBytes", l.BodyBytes, "`--max-body`", "413, closed", "serve.TestBodiesOverTheLimit"},
			{
				"BodiesBytes", l.BodiesBytes, "",
				again + ", for clients that have more than their share of it; others may pass it, twofold in all",
				"serve.TestBodiesCountAsTheyCome serve.TestInsideSharesItsBounds serve.TestWhatIsMadeOfBodiesCounts",
			},
			{
				"WriteTime", l.WriteTime, "`--timeout`", "for a client to take 64 KiB of an answer: closed",
				"serve.TestWriteDeadline serve.TestWriteDeadlineOfWholeAnswers serve.TestStalledConnectionsEnd",
			},
		}},
		{"Beside them", nil, []limit{
			{
				"what is refused before its body", lingerTime, "",
				"may go on sending it, 256 KiB at most; then the connection is closed",
				"serve.TestRefusedBeforeTheBodyEndsTheConnection serve.TestRefusedBodyMayCome",
			},
			{
				"requests inside beyond `-np` and `--queue`", spareRequests, "",
				again + ", for clients that have more than their share of them", "serve.TestInsideSharesItsBounds",
			},
			{
				"Retry-After", time.Duration(maxRetry) * time.Second, "", "is never longer",
				"serve.TestRetryAfterIsBounded",
			},
			{"HTTP", "1.1", "", "one connection is one request at a time; HTTP/2 is not spoken", "serve.TestNoHTTP2"},
		}},
		{"Work (`serve.Options`)", nil, []limit{
			{
				"answers at once", o.Parallel, "`--parallel`",
				"wait in the queue; each key has its share of the places",
				"serve.TestQueue serve.TestQueuePlacesByWeight serve.TestQueueSharesByWeight",
			},
			{
				"answers that wait", o.Queue, "`--queue`",
				again + ", for the newest of the key that has most for its weight",
				"serve.TestQueueLength serve.TestFullQueueMakesRoom",
			},
			{"weight of a key", MaxWeight, "`--api-key-file`", "an error at the start", "cmd/spec.TestKeyFile"},
			{"changes of the models at once", 1, "", "409", "internal/modeldir.TestChangesComeOneAtATime"},
			{
				"tokens of a prompt of an encoder-decoder model", 1 << 14, "`--encoder-tokens`",
				"400, `context_length_exceeded`; a library's model: 131,072", "serve.TestEncoderDecoder",
			},
			{
				"tokens of a context", "the model's", "`--ctx-size`", "400, `context_length_exceeded`",
				"serve.TestContextExceeded serve.TestPromptThatFillsTheContext",
			},
			{
				"tokens of an answer", "none", "`--predict`", "`length`, also where a request asks for more",
				"serve.TestTokenLimit",
			},
			{"time of a request", "none", "`--request-timeout`", "504", "serve.TestRequestTime"},
			{
				"tokens that a slow client has not taken", o.StreamBuffer, "", "the request is cancelled",
				"serve.TestSlowReader",
			},
			{
				"time to finish after SIGTERM", 30 * time.Second, "`--shutdown-timeout`",
				"cut off: a last event with an error", "cmd/spec.TestServeStops serve.TestShutdownWithStalledClients",
			},
			{
				"memory of models", "none", "`--models-memory`",
				"idle ones are unloaded; a request waits, or 503 if its model alone needs more",
				"serve.TestModels serve.TestModelsMemory",
			},
			{
				"memory of keys and values", "none", "`--kv-memory`",
				"the youngest waits and is computed again; 503, `kv_memory`, if a text alone needs more",
				"serve.TestEmbeddingsShare serve.TestModelKVBytes",
			},
			{
				"memory of a text that goes through an embedding model or a reranker whole", "none", "`--memory`",
				"400, `context_length_exceeded`", "engine.TestPlanCountsTextsThatGoThroughWhole",
			},
			{
				"rows of logits of a pass, of each answer", "none", "`--memory`",
				"drafts and prompts' scores come in smaller pieces, and so do tokens that a grammar forces; the text is the same",
				"cmd/spec.TestServePlansRowsOfLogits speculative.TestRowsBoundPassesAndChangeNoText",
			},
			{
				"memory of finished requests that are kept",
				"what `--memory` leaves, at most 8 GiB and an eighth of the machine's", "`--cache-ram`",
				fmt.Sprintf("what is worth least is dropped, and computed again where it is asked for; a library's model: %s",
					shown("bytes", int64(spec.DefaultCacheBytes))),
				"engine/shared.TestPrefixesAreKeptInPart engine/shared.TestPrefixesAreKeptByWorth cmd/spec.TestServeCacheMemory",
			},
			{
				"computed prompts in the folder of `--cache-dir`", "16G", "`--cache-size`",
				"what was used longest ago is deleted; each process looks again when it has written an eighth of it",
				"engine/promptcache.TestFoldersAreBounded",
			},
			{
				"sequences of a model that wait to be written there", 16, "",
				"further ones are not written; all give way where memory is short", "engine/shared.TestStoringGivesWay",
			},
			{
				"bytes of the files of slots in `--slot-save-path`", int64(DefaultSlotBytes), "`--slot-save-size`",
				"507", "serve.TestSlotFilesAreRefused",
			},
		}},
		{"Fields of a body", nil, []limit{
			{"nesting", maxDepth, "", refused, "serve.TestBordersOfBodies"},
			{"fields of one object", maxNames, "", refused, "serve.TestBordersOfBodies"},
			{"answers (`n`), prompts", maxChoices, "", refused, "serve.TestBordersOfBodies"},
			{"texts to embed", maxInputs, "", refused, "serve.TestBordersOfBodies"},
			{
				"numbers of the vectors of single tokens (`pooling` none)", maxNumbers, "", refused,
				"serve.TestVectorsOfTokensAreBounded",
			},
			{"stop texts", maxStops, "", refused, "serve.TestBordersOfBodies"},
			{"bytes of a stop text", maxStopText, "", refused, "serve.TestBordersOfBodies"},
			{"tools", maxTools, "", refused, "serve.TestBordersOfBodies"},
			{"texts of `dry_sequence_breakers`", maxBreakers, "", refused, "serve.TestBordersOfBodies"},
			{"`response_fields`", maxResponseFields, "", refused, "serve.TestBordersOfBodies"},
			{"documents to rerank", maxInputs, "", refused, "serve.TestBordersOfBodies"},
			{"bytes of documents to rerank, with the query at each", maxPairBytes, "", refused, "serve.TestPairsAreBounded"},
			{"files of `input_extra`", maxExtra, "", refused, "serve.TestBordersOfBodies"},
			{"alternatives of a token", maxTop, "", refused, "serve.TestBordersOfBodies"},
			{"tokens of a draft", MaxDraft, "", refused, "serve.TestFields"},
		}},
		{"Grammars and schemas (`grammar.Limits`)", g, []limit{
			{"Steps", g.Steps, "", limited + "; of one mask too", "serve.TestLimitsOfGrammarsAreNamed"},
			{"Bytes", g.Bytes, "", limited, "serve.TestLimitsOfGrammarsAreNamed"},
			{
				"Memory", g.Memory, "`--grammar-memory`",
				"the grammar used longest ago goes; " + limited + " if one alone needs more",
				"serve.TestLimitsOfGrammarsAreNamed",
			},
			{"Rules", g.Rules, "", limited, "serve.TestLimitsOfGrammarsAreNamed"},
			{"Alternatives", g.Alternatives, "", limited, "serve.TestLimitsOfGrammarsAreNamed"},
			{"Repetitions", g.Repetitions, "", limited, "serve.TestLimitsOfGrammarsAreNamed"},
			{"Nesting", g.Nesting, "", limited, "serve.TestLimitsOfGrammarsAreNamed"},
			{"References", g.References, "", limited, "serve.TestLimitsOfGrammarsAreNamed"},
			{"Digits", g.Digits, "", limited, "serve.TestLimitsOfGrammarsAreNamed"},
			{"Instructions", g.Instructions, "", limited, "serve.TestLimitsOfGrammarsAreNamed"},
			{
				"Threads", g.Threads, "", limited + ", or the end of the answer with an error",
				"serve.TestLimitsOfGrammarsAreNamed",
			},
			{
				"Depth", g.Depth, "", limited + ", or the end of the answer with an error",
				"serve.TestLimitsOfGrammarsAreNamed",
			},
		}},
		{"Chat templates (`chat.Limits`), of one rendering", t, []limit{
			{"Steps", t.Steps, "", limited, "chat/internal/jinja.TestLimitsAreExact"},
			{"Bytes", t.Bytes, "", limited, "chat/internal/jinja.TestLimitsAreExact"},
			{"Depth", t.Depth, "", limited, "chat/internal/jinja.TestLimitsAreExact"},
			{"Output", t.Output, "", limited, "chat/internal/jinja.TestLimitsAreExact"},
		}},
	}
}

// shown is a default as people read it.
func shown(name string, v any) string {
	switch v := v.(type) {
	case time.Duration:
		if v >= time.Minute {
			return fmt.Sprint(v.Minutes(), " min")
		}
		return fmt.Sprint(v.Seconds(), " s")
	case int, int64:
		n := reflect.ValueOf(v).Int()
		bytes := strings.HasSuffix(name, "Bytes") || strings.HasPrefix(name, "bytes") || name == "Memory" ||
			name == "Output"
		for i, unit := range []string{"GiB", "MiB", "KiB"} {
			if size := int64(1) << (30 - 10*i); bytes && n%size == 0 {
				return fmt.Sprintf("%d %s", n/size, unit)
			}
		}
		text := fmt.Sprint(n)
		for i := len(text) - 3; i > 0; i -= 3 {
			text = text[:i] + "," + text[i:]
		}
		return text
	}
	return fmt.Sprint(v)
}

// The document is the code's: each field of a type of limits has a row with its default, in the order of the type, and
// each row's tests exist.
func TestLimitsAreDocumented(t *testing.T) {
	var b strings.Builder
	for _, table := range limitTables() {
		fmt.Fprintf(
			&b, "\n## %s\n\n| limit | default | flag | beyond it | shown by |\n|---|---|---|---|---|\n", table.title,
		)
		if table.of != nil {
			v := reflect.ValueOf(table.of)
			for i := range v.NumField() {
				name := v.Type().Field(i).Name
				if i >= len(table.rows) || table.rows[i].name != name ||
					fmt.Sprint(table.rows[i].value) != fmt.Sprint(v.Field(i)) {
					t.Errorf("%s: row %d is not that of %s with the default %v", table.title, i, name, v.Field(i))
				}
			}
			if len(table.rows) != v.NumField() {
				t.Errorf("%s: %d rows for %d fields", table.title, len(table.rows), v.NumField())
			}
		}
		for _, r := range table.rows {
			for _, test := range strings.Fields(r.tests) {
				if folder, name, _ := strings.Cut(test, "."); !hasTest(t, folder, name) {
					t.Errorf("%s: there is no %s in %s", r.name, name, folder)
				}
			}
			fmt.Fprintf(
				&b, "| %s | %s | %s | %s | %s |\n", r.name, shown(r.name, r.value), r.flag, r.beyond,
				strings.ReplaceAll(r.tests, " ", ", "),
			)
		}
	}
	b.WriteString("\n")
	testkit.Printed(t, "docs/LIMITS.md", "limits", b.String())
}

// hasTest reports whether a folder of the repository has a test of a name.
func hasTest(t *testing.T, folder, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "\nfunc "+name+"(t *testing.T) {") {
			return true
		}
	}
	return false
}

// The bounds of bodies are exact: as much as a bound says is read, one more is refused with the field's name.
func TestBordersOfBodies(t *testing.T) {
	s := newTester(t, nil)
	many := func(n int, one string) string { return "[" + strings.TrimSuffix(strings.Repeat(one+",", n), ",") + "]" }
	names := func(n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf(`"%d":1`, i))
		}
		return "{" + strings.Join(list, ",") + "}"
	}
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for name, c := range map[string]struct {
		form  forms
		most  int
		body  func(n int) string
		field string
	}{
		// beside the body itself
		"nesting": {
			formCompletion, maxDepth - 1, func(n int) string { return `{"user":` + nested(n) + `}` }, "user",
		},
		"fields": {
			formCompletion, maxNames, func(n int) string { return `{"logit_bias":` + names(n) + `}` }, "logit_bias",
		},
		"n": {formCompletion, maxChoices, func(n int) string { return fmt.Sprintf(`{"n":%d}`, n) }, "n"},
		"prompts": {
			formCompletion, maxChoices, func(n int) string { return `{"prompt":` + many(n, `"x"`) + `}` }, "prompt",
		},
		"inputs": {
			formEmbeddings, maxInputs, func(n int) string { return `{"input":` + many(n, `"x"`) + `}` }, "input",
		},
		"stops": {
			formCompletion, maxStops, func(n int) string { return `{"stop":` + many(n, `"x"`) + `}` }, "stop",
		},
		"stop text": {
			formCompletion, maxStopText, func(n int) string { return `{"stop":"` + strings.Repeat("x", n) + `"}` },
			"stop",
		},
		"breakers": {
			formNative, maxBreakers, func(n int) string { return `{"dry_sequence_breakers":` + many(n, `"x"`) + `}` },
			"dry_sequence_breakers",
		},
		"response fields": {
			formNative, maxResponseFields, func(n int) string { return `{"response_fields":` + many(n, `"x"`) + `}` },
			"response_fields",
		},
		"documents": {
			formRerank, maxInputs, func(n int) string { return `{"documents":` + many(n, `"x"`) + `}` }, "documents",
		},
		"extra": {
			formInfill, maxExtra, func(n int) string { return `{"input_extra":` + many(n, `{"text":"x"}`) + `}` },
			"input_extra",
		},
		"logprobs": {
			formCompletion, maxTop, func(n int) string { return fmt.Sprintf(`{"logprobs":%d}`, n) }, "logprobs",
		},
		"top": {
			formChat, maxTop, func(n int) string { return fmt.Sprintf(`{"top_logprobs":%d}`, n) }, "top_logprobs",
		},
		"native top": {formNative, maxTop, func(n int) string { return fmt.Sprintf(`{"n_probs":%d}`, n) }, "n_probs"},
		"draft": {
			formCompletion, MaxDraft, func(n int) string { return fmt.Sprintf(`{"speculation":{"max":%d}}`, n) },
			"speculation.max",
		},
		"tools": {formChat, maxTools, func(n int) string { return `{"tools":` + tools(n) + `}` }, "tools"},
	} {
		if _, e := s.parse(t.Context(), c.form, s.anyone, []byte(c.body(c.most)), true); e != nil {
			t.Errorf("%s, %d: %v", name, c.most, e)
		}
		_, err := s.parse(t.Context(), c.form, s.anyone, []byte(c.body(c.most+1)), true)
		if e, _ := err.(*Error); e == nil || e.Status != 400 || e.Param != c.field {
			t.Errorf("%s, %d: %v", name, c.most+1, err)
		}
	}
}

// tools are n functions.
func tools(n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf(`{"type":"function","function":{"name":"f%d"}}`, i))
	}
	return "[" + strings.Join(list, ",") + "]"
}

// A grammar or schema that exceeds a limit is a 400 that names the limit.
func TestLimitsOfGrammarsAreNamed(t *testing.T) {
	within := newTester(t, nil)
	for name, c := range map[string]struct {
		limits grammar.Limits
		fields string
	}{
		"Steps":        {grammar.Limits{Steps: 50}, `"json_schema":{"enum":["alpha","beta"]}`},
		"Bytes":        {grammar.Limits{Bytes: 20}, `"json_schema":{"enum":["alpha","beta"]}`},
		"Memory":       {grammar.Limits{Memory: 100}, `"json_schema":{"enum":["alpha","beta"]}`},
		"Rules":        {grammar.Limits{Rules: 2}, `"grammar":"root ::= a\na ::= b\nb ::= c\nc ::= \"x\""`},
		"Alternatives": {grammar.Limits{Alternatives: 2}, `"json_schema":{"enum":["alpha","beta","gamma"]}`},
		"Repetitions":  {grammar.Limits{Repetitions: 3}, `"grammar":"root ::= \"x\"{4}"`},
		"Nesting":      {grammar.Limits{Nesting: 2}, `"grammar":"root ::= (((\"x\")))"`},
		"References": {
			grammar.Limits{References: 1},
			`"json_schema":{"oneOf":[{"$ref":"#/$defs/a"},{"type":"string"}],"$defs":{"a":{"$ref":"#/$defs/b"},` +
				`"b":{"$ref":"#/$defs/c"},"c":{"$ref":"#/$defs/d"},"d":{"type":"null"}}}`,
		},
		"Digits":       {grammar.Limits{Digits: 3}, `"json_schema":{"type":"integer","minimum":12345}`},
		"Instructions": {grammar.Limits{Instructions: 4}, `"json_schema":{"enum":["alpha","beta"]}`},
		"Depth":        {grammar.Limits{Depth: 2}, `"grammar":"root ::= \"(\" root \")\" | \"((((x\""`},
		"Threads":      {grammar.Limits{Threads: 1}, `"grammar":"root ::= \"a\" | \"b\" | \"c\" | \"d\""`},
	} {
		s := newTester(t, with(t, func(o *spec.Options) { o.Limits.Grammar = c.limits }))
		status, text, _ := s.do("POST", "/v1/completions", `{"prompt":"x","max_tokens":3,`+c.fields+`}`)
		if status != 400 || !strings.Contains(text, name) {
			t.Errorf("%s: %d %s", name, status, text)
		}
		if status, text, _ = within.do(
			"POST", "/v1/completions", `{"prompt":"x","max_tokens":3,`+c.fields+`}`,
		); status != 200 {
			t.Errorf("%s, within the defaults: %d %s", name, status, text)
		}
	}
}
