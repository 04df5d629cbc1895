package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/mail"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/dlclark/regexp2"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/grammar"
)

// tokens is a vocabulary: texts, behind them marks that are control tokens, and an end token.
type tokens struct{ texts, marks []string }

func (t tokens) Size() int           { return len(t.texts) + len(t.marks) + 1 }
func (t tokens) IsEOG(id int32) bool { return int(id) == t.Size()-1 }
func (t tokens) Token(id int32) string {
	return slices.Concat(t.texts, t.marks, []string{"<|end|>"})[id]
}
func (t tokens) Bytes(id int32) []byte {
	if int(id) < len(t.texts) {
		return []byte(t.texts[id])
	}
	return nil
}

// ID is the token of a mark.
func (t tokens) ID(mark string) (int32, bool) {
	i := slices.Index(t.marks, mark)
	return int32(len(t.texts) + i), i >= 0
}

// pieces are tokens of several characters, across the borders of JSON's own, and of parts of characters.
var pieces = []string{`{"`, `":`, `": `, `, "`, `","`, `"}`, `"]`, `},{`, `[{"`, `null`, `true`, `false`, `ab`,
	`abc`, `na`, `name`, `kind`, `":"`, `": "`, `\"`, `\n`, `\u`, `00`, `12`, `-1`, `.5`, `e1`, `2024-`, `T1`, `:00`,
	`http`, `://`, `@a`, `.com`, `ok`, `x-1`, `id`, `P1`, `  `, "\n"}

// vocabularies are one with a token for each byte, and two without: of the characters of ASCII and all others that
// names and patterns here have, and one that lacks some of these, also of ASCII.
var vocabularies = map[string]tokens{
	"bytes": {texts: slices.Concat(bytewise(), pieces, []string{"\xc3", "\xc3\xa9\"", "\xf0\x9f", "\x98\x80"})},
	"characters": {texts: slices.Concat(characters(' ', '~'), pieces,
		[]string{"é", "é\"", "ü", "😀", "→"})},
	"few": {texts: slices.Concat(characters(' ', '6'), []string{":"}, characters('[', 'p'), characters('r', '~'), pieces,
		[]string{"ü", "\xc3", "\xa9\""})},
}

func bytewise() (all []string) {
	for b := range 256 {
		all = append(all, string([]byte{byte(b)}))
	}
	return all
}

func characters(first, last rune) (all []string) {
	for r := first; r <= last; r++ {
		all = append(all, string(r))
	}
	return all
}

// validator is the independent judge of values.
type validator struct{ *jsonschema.Schema }

func newValidator(source string) (validator, error) {
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(source))
	if err != nil {
		return validator{}, err
	}
	c := jsonschema.NewCompiler()
	c.DefaultDraft(jsonschema.Draft2020)
	c.AssertFormat()
	c.UseRegexpEngine(func(s string) (jsonschema.Regexp, error) {
		re, err := regexp2.Compile(strings.ReplaceAll(s, `\b`, border), regexp2.ECMAScript)
		return (*ecma)(re), err
	})
	formats := map[string]func(text string) error{"uri": absolute, "uri-reference": reference, "email": address}
	for name, check := range formats {
		c.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(v any) error {
			if text, ok := v.(string); ok {
				return check(text)
			}
			return nil
		}})
	}
	if err := c.AddResource("s.json", doc); err != nil {
		return validator{}, err
	}
	s, err := c.Compile("s.json")
	return validator{s}, err
}

// border is \b with the letters of ECMA-262, which are those of ASCII; the package takes all letters.
const border = `(?:(?<=\w)(?!\w)|(?<!\w)(?=\w))`

// Formats of which the validator refuses what their RFCs allow are checked with the standard library: net/url but for
// hosts of a future kind and escapes in hosts, which it does not know, and net/mail but for two of its forms.
var (
	future  = regexp.MustCompile(`\[[vV][0-9A-Fa-f]+\.[^]]+\]`)
	escaped = regexp.MustCompile(`%[0-9A-Fa-f]{2}`)
)

func reference(text string) error {
	_, err := url.Parse(escaped.ReplaceAllString(future.ReplaceAllString(text, "[::1]"), "a"))
	return err
}

func absolute(text string) error {
	if scheme, _, ok := strings.Cut(text, ":"); !ok || scheme == "" || strings.ContainsAny(scheme, "/?#") {
		return errors.New("a relative reference")
	}
	return reference(text)
}

func address(text string) error {
	if rest, ok := strings.CutPrefix(text, `""@`); ok { // of RFC 5321
		text = "a@" + rest
	}
	_, err := mail.ParseAddress(strings.Replace(text, "@[IPv6:", "@[", 1))
	return err
}

// judge is the error of a text that is no valid value.
func (v validator) judge(text string) error {
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return v.Validate(value)
}

// ecma is a regular expression of ECMA-262.
type ecma regexp2.Regexp

func (e *ecma) MatchString(s string) bool {
	ok, err := (*regexp2.Regexp)(e).MatchString(s)
	return ok && err == nil
}
func (e *ecma) String() string { return (*regexp2.Regexp)(e).String() }

// writer writes texts under constraints with random numbers as logits.
type writer struct {
	*rand.Rand
	tokens
	logits []float32
	ends   []bool // by token: it may end a string, a list or the text
}

const mostTokens = 300

func newWriter(r *rand.Rand, t tokens) *writer {
	w := &writer{r, t, make([]float32, t.Size()), make([]bool, t.Size())}
	for id := range w.ends {
		w.ends[id] = t.IsEOG(int32(id)) || id >= len(t.texts) || strings.ContainsAny(t.texts[id], `"]})>`)
	}
	return w
}

// write is a text of a constraint, and whether it ended by itself. Tokens that end something become more likely as it
// gets longer. The error wraps sampling.ErrConstraint where no token is allowed.
func (w *writer) write(c *grammar.Constraint, o sampling.Options) (text []byte, ended bool, err error) {
	o.Constraint = c
	s, err := sampling.New(w.Size(), o)
	if err != nil {
		return nil, false, err
	}
	history := make([]int32, 0, mostTokens)
	for n := range mostTokens {
		for id := range w.logits {
			w.logits[id] = float32(w.NormFloat64())
			if w.ends[id] {
				w.logits[id] += float32(n) / 16
			}
		}
		id := s.Pick(w.logits, history)
		if id < 0 {
			return text, false, s.Err()
		}
		if w.IsEOG(id) {
			return text, true, nil
		}
		history, text = append(history, id), append(text, w.Token(id)...)
	}
	return text, false, nil
}

// fault is a text that should not be, or an error, of a schema.
type fault struct{ schema, vocabulary, text, why string }

// generated is what texts of random schemas were.
type generated struct {
	schemas, refused, texts, cut int
	why                          map[string]int // refused
	faults                       []fault
}

func (g *generated) String() string {
	return fmt.Sprintf("%d random schemas (%d others are refused): %d texts, of which %d were cut off at %d tokens; "+
		"%d faults",
		g.schemas, g.refused, g.texts, g.cut, mostTokens, len(g.faults))
}

// report prints what there was; faults are an error.
func (g *generated) report() error {
	fmt.Println(g)
	show(g.why)
	for _, f := range g.faults {
		fmt.Printf("%s\n  %s: %q: %s\n", f.schema, f.vocabulary, f.text, f.why)
	}
	if len(g.faults) > 0 {
		return errors.New("there are faults")
	}
	return nil
}

// generate writes texts of random schemas, greedy and sampled, and judges those that ended. Of schemas that are
// refused since no value is valid it tries values of the schemas before; minProperties is known to refuse more.
func generate(schemas int, seed uint64) *generated {
	sum := &generated{why: map[string]int{}}
	d := &drawn{Rand: rand.New(rand.NewPCG(seed, 1))}
	bound, writers := map[string]*grammar.Vocabulary{}, map[string]*writer{}
	for name, t := range vocabularies {
		bound[name] = grammar.NewVocabulary(t, grammar.VocabularyOptions{})
		writers[name] = newWriter(d.Rand, t)
	}
	var pool []string
	for sum.schemas < schemas {
		source := d.schema()
		other, err := newValidator(source)
		if err != nil {
			sum.faults = append(sum.faults, fault{source, "", "", "no schema: " + err.Error()})
			return sum
		}
		o := grammar.SchemaOptions{Narrow: d.chance(50)}
		switch d.IntN(3) {
		case 0:
			o.Spaces = true
		case 1:
			o.Blanks = true
		}
		g, err := grammar.ParseSchema(nil, []byte(source), o)
		if err != nil {
			sum.refused++
			sum.why[kind(err)]++
			for _, text := range pool {
				if strings.Contains(err.Error(), "value is") && !o.Narrow && !strings.Contains(source, "minProperties") &&
					other.judge(text) == nil {
					sum.faults = append(sum.faults, fault{source, "", text, "valid, but " + err.Error()})
					break
				}
			}
			continue
		}
		sum.schemas++
		for _, name := range []string{"bytes", "characters", "few"} {
			pool = sum.judge(source, name, other, g, bound[name], writers[name], pool)
		}
	}
	return sum
}

// judge writes a greedy and a sampled text of a grammar, and keeps some of them in the pool.
func (sum *generated) judge(source, name string, other validator, g *grammar.Grammar, v *grammar.Vocabulary, w *writer,
	pool []string) []string {
	c, err := g.Bind(grammar.NewBudget(context.Background(), grammar.Limits{}), v)
	if err != nil {
		if name == "bytes" {
			sum.faults = append(sum.faults, fault{source, name, "", err.Error()})
		} else {
			sum.why[name+": "+kind(err)]++
		}
		return pool
	}
	defer c.Close()
	for _, o := range []sampling.Options{{}, {Temperature: 1, Seed: w.Uint64()}} {
		text, ended, err := w.write(c, o)
		sum.texts++
		switch {
		case errors.Is(err, grammar.ErrLimit):
			sum.cut++
		case err != nil:
			sum.faults = append(sum.faults, fault{source, name, string(text), err.Error()})
		case !ended:
			sum.cut++
		default:
			if err := other.judge(string(text)); err != nil {
				sum.faults = append(sum.faults, fault{source, name, string(text), err.Error()})
			} else if len(pool) < 400 {
				pool = append(pool, string(bytes.TrimSpace(text)))
			}
		}
	}
	return pool
}
