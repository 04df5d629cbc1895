// Command conform measures how many JSON schemas of real programs compile to a grammar that judges their values
// rightly, and how many answers of models are parsed as they should be.
//
//	go -C lab run ./conform [-cases DIR] [-v N] [-only NAME] [-any-order] [-answers] [-speed FILE.gguf [-every N]]
//	go -C lab run ./conform -random N [-seed S] [-calls]
//
// DIR has schemas.jsonl.gz (a line each: name, schema, tests with data and valid), values.json (format -> values) and
// clients.json (schemas by name). A value is judged as compact JSON with its keys in the schema's order, or with
// -any-order in its own by a grammar that allows any. DIR also has answers.jsonl, answers of models with what led to
// them, whose templates are in DIR/../chat/templates; with -answers they alone are judged. With -speed it measures
// masks under a file's vocabulary instead. With -random it writes texts of N random schemas, greedy and sampled, which
// another validator judges; with -calls they are calls of N random tools in each syntax, which are read back first.
// Both need no cases.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/specgo/spec/grammar"
)

// oneByte is a vocabulary of the 256 bytes and an end token.
type oneByte struct{}

func (oneByte) Size() int             { return 257 }
func (oneByte) Bytes(id int32) []byte { return []byte{byte(id)}[:max(0, min(1, 256-int(id)))] }
func (oneByte) Token(id int32) string { return [...]string{"byte", "<|end|>"}[id/256] }
func (oneByte) IsEOG(id int32) bool   { return id == 256 }

var vocabulary = grammar.NewVocabulary(oneByte{}, grammar.VocabularyOptions{})

// judge is a compiled schema, for one value after another.
type judge struct{ *grammar.Constraint }

func compile(schema []byte) (judge, error) { return compileAs(schema, grammar.SchemaOptions{}) }

func compileAs(schema []byte, o grammar.SchemaOptions) (judge, error) {
	b := grammar.NewBudget(context.Background(), grammar.Limits{})
	g, err := grammar.ParseSchema(b, schema, o)
	if err != nil {
		return judge{}, err
	}
	c, err := g.Bind(b, vocabulary)
	return judge{c}, err
}

// accepts reports whether text is a text of the grammar, and where it fails.
func (j judge) accepts(text []byte) (bool, int) {
	state := j.Start()
	for i, b := range text {
		next, ok, err := j.Next(state, int32(b))
		if err != nil || !ok {
			return false, i
		}
		state = next
	}
	return j.Final(state), len(text)
}

type record struct {
	Name   string
	Schema json.RawMessage
	Tests  []struct {
		Data  json.RawMessage
		Valid bool
	}
}

func main() {
	dir := flag.String("cases", "../../shared/conform", "folder of the cases")
	verbose := flag.Int("v", 0, "how many values that are judged wrongly, and refused schemas, are shown")
	anyOrder := flag.Bool("any-order", false, "grammars with keys in any order, values with theirs as they are")
	only := flag.String("only", "", "the schemas whose names contain this")
	answersOnly := flag.Bool("answers", false, "the answers of models alone")
	vocabularyFile := flag.String("speed", "", "measure masks under the vocabulary of this GGUF file")
	every := flag.Int("every", 10, "with -speed: every Nth schema")
	most := flag.Int("tokens", 64, "with -speed: tokens of a value")
	random := flag.Int("random", 0, "write texts of this many random schemas, and judge them")
	toolCalls := flag.Bool("calls", false, "with -random: calls of tools")
	seed := flag.Uint64("seed", 1, "with -random: which schemas")
	flag.Parse()
	judged := func() error { return run(*dir, *verbose, *only, *anyOrder) }
	if *answersOnly {
		judged = func() error { return answers(*dir, *verbose) }
	}
	if *vocabularyFile != "" {
		judged = func() error { return speed(*dir, *vocabularyFile, max(1, *every), *most) }
	}
	switch {
	case *random > 0 && *toolCalls:
		judged = func() error { return reportCalls(callsOf(*random, *seed)) }
	case *random > 0:
		judged = func() error { return generate(*random, *seed).report() }
	}
	if err := judged(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(dir string, verbose int, only string, anyOrder bool) error {
	file, err := os.Open(filepath.Join(dir, "schemas.jsonl.gz"))
	if err != nil {
		return err
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	var schemas, compiled, right, values, refused, reordered, accepted int
	why := map[string]int{}
	var times []time.Duration
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		var c record
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		if !strings.Contains(c.Name, only) {
			continue
		}
		schemas++
		begin := time.Now()
		g, err := compileAs(c.Schema, grammar.SchemaOptions{AnyOrder: anyOrder})
		times = append(times, time.Since(begin))
		if err != nil {
			why[kind(err)]++
			if verbose > 0 {
				fmt.Printf("%s: %v\n", c.Name, err)
			}
			continue
		}
		compiled++
		wrong := 0
		order := newOrder(c.Schema)
		if anyOrder {
			order = newOrder([]byte("true"))
		}
		for i, t := range c.Tests {
			values++
			text := order.write(t.Data)
			got, at := g.accepts(text)
			if got == t.Valid {
				continue
			}
			wrong++
			if t.Valid {
				refused++
				if g.inAnyOrder(t.Data) {
					reordered++
				}
			} else {
				accepted++
			}
			if verbose > 0 {
				fmt.Printf("%s: value %d, valid %v, is %v at byte %d: %.80s ⟨here⟩ %.60s\n", c.Name, i, t.Valid, got, at,
					text[max(0, at-80):at], text[at:])
			}
		}
		g.Close()
		if wrong == 0 {
			right++
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	if schemas == 0 {
		return fmt.Errorf("-only %q: there is no such schema", only)
	}
	slices.Sort(times)
	fmt.Printf("%d schemas: %d compile (%.1f %%), %d with every value judged rightly (%.1f %%); of %d values %d valid "+
		"ones are refused (%d of them are allowed with their keys in another order), %d invalid ones accepted; "+
		"compiling takes %v at the 95th percentile\n",
		schemas, compiled, percent(compiled, schemas),
		right, percent(right, schemas), values, refused, reordered, accepted, times[len(times)*95/100])
	show(why)
	if only == "" {
		return errors.Join(formats(dir), clients(dir), answers(dir, verbose))
	}
	return nil
}

func percent(n, of int) float64 { return 100 * float64(n) / float64(max(1, of)) }

// kind is an error without its place and names.
func kind(err error) string {
	text := err.Error()
	if _, rest, ok := strings.Cut(text, ": schema "); ok {
		if _, after, ok := strings.Cut(rest, ": "); ok {
			text = after
		}
	}
	text = regexp.MustCompile(`"[^"]{25,}"|\d+`).ReplaceAllString(text, "…")
	return fmt.Sprintf("%.110s", text)
}

func show(why map[string]int) {
	byCount := func(a, b string) int { return cmp.Or(why[b]-why[a], cmp.Compare(a, b)) }
	for _, k := range slices.SortedFunc(maps.Keys(why), byCount) {
		fmt.Printf("%5d  %s\n", why[k], k)
	}
}

// formats shows which values of formats cannot be written.
func formats(dir string) error {
	var all map[string][]string
	if err := readFile(dir, "values.json", &all); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		g, err := compile(fmt.Appendf(nil, `{"type":"string","format":%q}`, name))
		if err != nil {
			fmt.Printf("format %s: %v\n", name, err)
			continue
		}
		for _, v := range all[name] {
			text, _ := json.Marshal(v)
			text = bytes.ReplaceAll(text, []byte(`\u0026`), []byte("&"))
			if ok, at := g.accepts(text); !ok {
				fmt.Printf("format %s: %s is refused at byte %d\n", name, text, at)
			}
		}
		g.Close()
	}
	return nil
}

// clients shows which schemas of clients do not compile.
func clients(dir string) error {
	var all map[string]json.RawMessage
	if err := readFile(dir, "clients.json", &all); err != nil {
		return err
	}
	n := 0
	for _, name := range slices.Sorted(maps.Keys(all)) {
		g, err := compile(all[name])
		if err != nil {
			fmt.Printf("client %s: %v\n", name, err)
			continue
		}
		g.Close()
		n++
	}
	fmt.Printf("%d of %d schemas of clients compile\n", n, len(all))
	return nil
}

func readFile(dir, name string, into any) error {
	data, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}
