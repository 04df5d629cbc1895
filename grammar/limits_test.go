package grammar

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// repeated is f of 0 … n-1 with commas between.
func repeated(n int, f func(i int) string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = f(i)
	}
	return strings.Join(all, ",")
}

// compileUnder compiles a schema, or a grammar in GBNF, and binds it.
func compileUnder(l Limits, source string) (*Constraint, *Budget, error) {
	b := NewBudget(context.Background(), l)
	parse := func() (*Grammar, error) {
		if strings.HasPrefix(source, "{") {
			return ParseSchema(b, []byte(source), SchemaOptions{})
		}
		return ParseGBNF(b, source)
	}
	g, err := parse()
	if err != nil {
		return nil, b, err
	}
	c, err := g.Bind(b, NewVocabulary(bytesVocabulary{}, VocabularyOptions{Limits: l}))
	return c, b, err
}

// names reports whether an error is that of a limit and says its value.
func names(err error, limit string, most int) bool {
	return errors.Is(err, ErrLimit) && strings.Contains(err.Error(), fmt.Sprintf("%s, at most %d", limit, most))
}

// TestLimitsOfSources: a source that needs just what a limit allows is compiled; one that needs one more is refused,
// with an error that names the limit and its value.
func TestLimitsOfSources(t *testing.T) {
	nested := func(open, inside, end string) func(n int) string {
		return func(n int) string { return strings.Repeat(open, n) + inside + strings.Repeat(end, n) }
	}
	for _, x := range []struct {
		limit  string
		limits Limits
		most   int
		source func(n int) string
	}{
		{"Rules", Limits{Rules: 3}, 3, func(n int) string {
			var b strings.Builder
			for i := range n - 1 {
				fmt.Fprintf(&b, "r%d ::= \"a\"\n", i)
			}
			return b.String() + `root ::= "b"`
		}},
		// the whole, the list, and one for each item and each beginning of the list
		{"Rules", Limits{Rules: 6}, 6, func(n int) string {
			return `{"type":"array","prefixItems":[` + repeated((n-1)/2, func(int) string { return `{"type":"null"}` }) +
				`],"items":false}`
		}},
		{"Alternatives", Limits{Alternatives: 3}, 3, func(n int) string {
			return `root ::= "x" ` + strings.Repeat(`| "a" `, n-1)
		}},
		{"Alternatives", Limits{Alternatives: 3}, 3, func(n int) string {
			return `{"enum":[` + repeated(n, func(i int) string { return fmt.Sprint(i) }) + `]}`
		}},
		{"Alternatives", Limits{Alternatives: 3}, 3, func(n int) string {
			return `{"anyOf":[` + repeated(n, func(i int) string { return `{"type":"null"}` }) + `]}`
		}},
		{"Alternatives", Limits{Alternatives: 3}, 3, func(n int) string {
			return `{"type":[` + repeated(n, func(i int) string { return `"null"` }) + `]}`
		}},
		{"Repetitions", Limits{Repetitions: 20}, 20, func(n int) string { return fmt.Sprintf(`root ::= "a"{%d}`, n) }},
		{"Repetitions", Limits{Repetitions: 20}, 20, func(n int) string { return fmt.Sprintf(`root ::= "a"{1,%d}`, n) }},
		{"Repetitions", Limits{Repetitions: 20}, 20,
			func(n int) string { return fmt.Sprintf(`{"type":"string","minLength":%d}`, n) }},
		{"Repetitions", Limits{Repetitions: 20}, 20,
			func(n int) string { return fmt.Sprintf(`{"type":"array","minItems":%d}`, n) }},
		{"Nesting", Limits{Nesting: 5}, 5, func(n int) string { return `root ::= ` + nested("(", `"a"`, ")")(n) }},
		{"Nesting", Limits{Nesting: 5}, 5, func(n int) string { return `root ::= "a"` + strings.Repeat("?", n) }},
		{"Nesting", Limits{Nesting: 5}, 5, func(n int) string { return nested(`{"items":`, `true`, "}")(n) }},
		{"Nesting", Limits{Nesting: 5}, 5, func(n int) string { return `{"const":` + nested("[", `1`, "]")(n-1) + `}` }},
		{"Nesting", Limits{Nesting: 5}, 5, func(n int) string { return `{"pattern":"` + nested("(", "a", ")")(n) + `"}` }},
		{"Nesting", Limits{Nesting: 5}, 5,
			func(n int) string { return `{"pattern":"` + nested("(?:x|(?=", "a", "))")(n/2) + `"}` }},
		{"References", Limits{References: 4}, 4, func(n int) string {
			defs := repeated(n-1, func(i int) string { return fmt.Sprintf(`"d%d":{"$ref":"#/$defs/d%d"}`, i, i+1) })
			return fmt.Sprintf(`{"allOf":[{"$ref":"#/$defs/d0"},{"type":"object"}],"$defs":{%s,"d%d":{"type":"object"}}}`, defs,
				n-1)
		}},
		{"Digits", Limits{Digits: 30}, 30, func(
			n int) string {
			return `{"type":"integer","minimum":` + strings.Repeat("7", n) + `}`
		}},
		{"Digits", Limits{Digits: 30}, 30, func(
			n int) string {
			return `{"type":"number","maximum":0.` + strings.Repeat("7", n-1) + `}`
		}},
		{"Digits", Limits{Digits: 30}, 30, func(
			n int) string {
			return fmt.Sprintf(`{"type":"number","maximum":1e%d}`, n-1)
		}},
		{"Digits", Limits{Digits: 30}, 30, func(n int) string { return fmt.Sprintf(`{"type":"number","minimum":1e-%d}`, n) }},
		{"Digits", Limits{Digits: 30}, 30, func(
			n int) string {
			return fmt.Sprintf(`{"type":"number","minimum":0.7e-%d}`, n-1)
		}},
		{"Instructions", Limits{Instructions: 9}, 9,
			func(n int) string { return `root ::= "` + strings.Repeat("a", n-1) + `"` }},
		{"Threads", Limits{Threads: 7}, 7, func(
			n int) string {
			return `root ::= ` + strings.TrimSuffix(strings.Repeat(`"a" |`, (n+1)/2), "|")
		}},
	} {
		if _, _, err := compileUnder(x.limits, x.source(x.most)); err != nil {
			t.Errorf("%s: %s: %v", x.limit, x.source(x.most), err)
		}
		more := x.most + 1
		for x.source(more) == x.source(x.most) {
			more++
		}
		if _, _, err := compileUnder(x.limits, x.source(more)); !names(err, x.limit, x.most) {
			t.Errorf("%s: %s: %v", x.limit, x.source(more), err)
		}
	}
}

// TestStepsAndBytesAreCounted: a compilation that may take as many steps and bytes as it needs succeeds, with one
// less it is refused with an error that names the limit.
func TestStepsAndBytesAreCounted(t *testing.T) {
	for _, source := range []string{
		`{"type":"object","properties":{"a":{"enum":["x","y"]},"b":{"type":"number","minimum":1.5}},"additionalProperties":{"pattern":"^a+$"}}`,
		"root ::= a{2,3} | [^x]*\na ::= \"b\" a?",
	} {
		_, b, err := compileUnder(Limits{}, source)
		if err != nil {
			t.Fatal(err)
		}
		steps, bytes := b.limits.Steps-b.steps-b.slice, b.limits.Bytes-b.bytes
		for _, l := range []Limits{{Steps: steps}, {Bytes: bytes}} {
			if _, _, err := compileUnder(l, source); err != nil {
				t.Errorf("%+v: %v", l, err)
			}
		}
		if _, _, err := compileUnder(Limits{Steps: steps - 1}, source); !names(err, "Steps", steps-1) {
			t.Errorf("%d steps: %v", steps-1, err)
		}
		if _, _, err := compileUnder(Limits{Bytes: bytes - 1}, source); !names(err, "Bytes", bytes-1) {
			t.Errorf("%d bytes: %v", bytes-1, err)
		}
	}
}

// TestDepthOfTexts: a text may nest as deep as the limit says and no deeper, and its error names the limit; a list by
// right recursion does not nest.
func TestDepthOfTexts(t *testing.T) {
	for _, most := range []int{5, Limits{}.withDefaults().Depth} {
		c, _, err := compileUnder(Limits{Depth: most}, `root ::= "(" root ")" | "x"`)
		if err != nil {
			t.Fatal(err)
		}
		state := c.Start()
		for i := range most {
			var ok bool
			if state, ok, err = c.Next(state, '('); !ok || err != nil {
				t.Fatalf("bracket %d of %d: %v, %v", i+1, most, ok, err)
			}
		}
		if _, _, err := c.Next(state, '('); !names(err, "Depth", most) {
			t.Errorf("bracket %d: %v", most+1, err)
		}
		if _, err := c.Mask(state); !names(err, "Depth", most) {
			t.Errorf("the mask at depth %d: %v", most, err)
		}
		if _, ok, err := c.Next(state, 'x'); !ok || err != nil { // the limit does not spoil what goes on otherwise
			t.Errorf("x at depth %d: %v, %v", most, ok, err)
		}
	}
}

// TestStepsOfMasks: a mask that needs more steps than a mask may take is an error that names the limit, also in the
// middle of a text; the machine answers what costs less.
func TestStepsOfMasks(t *testing.T) {
	const source = `root ::= "a" ([a-z] [a-z] [a-z])* `
	c, _, err := compileUnder(Limits{Steps: 2000}, source)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Mask(c.Start()); err != nil { // a walk of 255 bytes, of which one is allowed
		t.Fatal(err)
	}
	state, ok, err := c.Next(c.Start(), 'a')
	if !ok || err != nil {
		t.Fatal(ok, err)
	}
	c.machine.limits.Steps = 500
	if _, err := c.Mask(state); !names(err, "Steps", 500) {
		t.Errorf("%v", err)
	}
	if _, ok, err := c.Next(state, 'b'); !ok || err != nil {
		t.Errorf("%v, %v", ok, err)
	}
}

// hostileSources are small sources of great cost, each with the limit that ends it, when it is compiled or for its
// first masks. "": it is cheap by now, or refused for what it says. Those that are large without need are k times as
// large.
func hostileSources(k int) []struct{ name, source, limit string } {
	member := func(i int) string { return fmt.Sprintf(`"p%d":{"$ref":"#/$defs/a"}`, i) }
	name := func(i int) string { return fmt.Sprintf(`"p%d"`, i) }
	chain := func(n int, mention func(i int) int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "r%d ::= r%d\n", mention(i), mention(i)+1)
		}
		return fmt.Sprintf("%sr%d ::= \"\"\nroot ::= r0 \"a\"", b.String(), n)
	}
	refs := func(top string, n int) string {
		defs := repeated(n, func(i int) string { return fmt.Sprintf(`"d%d":{"$ref":"#/$defs/d%d"}`, i, i+1) })
		return fmt.Sprintf(`{%s,"$defs":{%s,"d%d":{"type":"null"}}}`, top, defs, n)
	}
	twice := strings.Repeat
	return []struct{ name, source, limit string }{
		{"a bound of 60,000 digits", `{"type":"integer","minimum":1` + twice("0", 60000) + `}`, "Digits"},
		{"a bound with a large exponent", `{"type":"number","exclusiveMaximum":-1e9223372036854775807}`, "Digits"},
		{"many long bounds", `{"anyOf":[` + repeated(
			2000, func(int) string { return `{"minimum":-1e308,"maximum":1e308}` }) + `]}`, "Bytes"},
		{"schemas of their own type",
			`{"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"object","properties":{` +
				repeated(10, member) + `},"required":[` + repeated(10, name) + `]}}}`, ""},
		{"many empty rules", chain(70000*k, func(i int) int { return i }), "Rules"},
		{"60,000 empty rules backward", chain(60000, func(i int) int { return 59999 - i }), ""},
		{"25 counted alternatives", `root ::= "x"` + twice(` | [a-z]* "a" [a-z]{30}`, 25), "Memory"},
		{"a set of states that doubles", `{"pattern":"a.{1000}$"}`, "Bytes"},
		{"repetitions in repetitions", `root ::= ("a"{1,1000}){1,1000}`, "Instructions"},
		{"optional repetitions in repetitions", `root ::= (("a"?){1,300}){1,300}`, "Threads"},
		{"60,000 optional characters", `root ::= ` + twice(`"a"? `, 60000), "Threads"},
		{"stacks that multiply", "root ::= a\na ::= [a-z] b a c | [a-z] c a b | [a-z]?\nb ::= [a-z] a c | [a-z]\nc ::= " +
			"[a-z] a b | [a-z]", "Threads"},
		{"brackets without end", `root ::= "(" root ")" | "x"`, "Depth"},
		{"many values", `{"enum":[` + repeated(
			60000*k, func(i int) string { return fmt.Sprint(i) }) + `]}`, "Alternatives"},
		{"a value of MBs", `{"const":"` + twice("n", 1100000*k) + `"}`, "Instructions"},
		{"a million empty lists", `{"enum":[` + repeated(1000000, func(int) string { return "[]" }) + `]}`, "Bytes"},
		{"Unicode classes", `{"pattern":"^` + twice(`\\pL`, 20000) + `$"}`, "Bytes"},
		{"classes without case", `{"pattern":"^(?i)` + twice(`[B-\\x{1E000}]`, 5000) + `$"}`, "Steps"},
		{"a long pattern", `{"pattern":"^` + twice(`[a-z]`, 30000*k) + `$"}`, ""},
		{"a pattern of large classes", `{"pattern":"^[` + twice(`ac`, 10000) + `]{1000}$"}`, ""},
		{"20,000 objects in allOf", `{"allOf":[` +
			repeated(20000, func(i int) string { return fmt.Sprintf(`{"properties":{"a%d":{}}}`, i) }) + `]}`, "Alternatives"},
		{"schemas in schemas", twice(`{"allOf":[`, 5000) + `{}` + twice(`]}`, 5000), "Nesting"},
		{"constants in oneOf", `{"oneOf":[` +
			repeated(5000*min(k, 2), func(i int) string { return fmt.Sprintf(`{"const":"%d"}`, i) }) + `]}`, ""},
		{"many references", refs(`"$ref":"#/$defs/d0"`, 20000*k), "References"},
		{"many references in allOf", refs(`"allOf":[{"$ref":"#/$defs/d0"},{}]`, 20000*k), "References"},
		{"spellings of a reference", `{"anyOf":[` + repeated(5000, func(i int) string {
			return fmt.Sprintf(`{"$ref":"#/$def%%73/%%%02x%s"}`, 'a', twice("%61", i%40))
		}) + `],"$defs":{"` + "a" + `":{}}}`, ""},
		{"60,000 required names", `{"type":"object","required":[` + repeated(60000, name) + `]}`, "Bytes"},
		{"a name of 1 MB and others", `{"type":"object","properties":{"` + twice("n", 1000000) +
			`":{}},"additionalProperties":true}`, "Bytes"},
		{"60,000 items", `{"prefixItems":[` + repeated(60000, func(int) string { return `{}` }) + `]}`, "Rules"},
		{"long names above many", twice(`{"properties":{"`+twice("k", 5000)+`":`, 50*min(k, 2)) +
			`{"properties":{` + repeated(5000*min(k, 2), func(i int) string { return fmt.Sprintf(`"%d":{"type":"null"}`, i) }) +
			`}}` + twice(`}}`, 50*min(k, 2)), ""},
		{"names relative to a long one", `{"$id":"http://x/` + twice("y", 100000) + `/","$defs":{` +
			repeated(2000*k, func(i int) string { return fmt.Sprintf(`"d%d":{"$id":"a%d"}`, i, i) }) + `}}`, "Bytes"},
		{"anchors of a long name", `{"$id":"http://x/` + twice("y", 100000) + `/","$defs":{` +
			repeated(2000*k, func(i int) string { return fmt.Sprintf(`"d%d":{"$anchor":"a%d"}`, i, i) }) + `}}`, "Bytes"},
		{"references relative to a long name", `{"$id":"http://x/` + twice("y", 100000) + `/a","anyOf":[` +
			repeated(2000*k, func(int) string { return `{"$ref":"a#/$defs/x"}` }) + `],"$defs":{"x":{}}}`, "Steps"},
		{"a class of many ranges", `root ::= [` + twice("ace", 100000*k) + `]{1000}`, ""},
	}
}

// TestLongHostileSources: of three times the size, under the default limits.
func TestLongHostileSources(t *testing.T) {
	testkit.Long(t)
	TestHostileSources(t)
}

// TestHostileSources: each of them ends within its budget, with an error that names the limit. The budgets of bytes
// and steps that are used up are a quarter of the default ones.
func TestHostileSources(t *testing.T) {
	k, d := 1, DefaultLimits()
	quarter := map[string]Limits{"Bytes": {Bytes: d.Bytes / 4}, "Steps": {Steps: d.Steps / 4}}
	if testkit.IsLong(t) {
		k, quarter = 3, nil
	}
	random := rand.New(rand.NewPCG(1, 2))
	words := make([]string, 10000) // long tokens of few letters: a mask meets many states
	for i := range words {
		for range 1 + random.IntN(40) {
			words[i] += string("ab"[random.IntN(2)])
		}
	}
	vocabularies := map[Limits]*Vocabulary{}
	for _, x := range hostileSources(k) {
		v := vocabularies[quarter[x.limit]]
		if v == nil {
			v = NewVocabulary(bytesVocabulary{words}, VocabularyOptions{Limits: quarter[x.limit]})
			vocabularies[quarter[x.limit]] = v
		}
		err := spend(t, v, x.name, x.source)
		switch {
		case x.limit == "":
			if errors.Is(err, ErrLimit) {
				t.Errorf("%s: %v", x.name, err)
			}
		case !errors.Is(err, ErrLimit) || !strings.Contains(err.Error(), ": "+x.limit+", at most "):
			t.Errorf("%s: %v, want the limit %s", x.name, err, x.limit)
		}
		if v.used > v.limits.Memory {
			t.Errorf("%s: %d bytes are kept, the limit is %d", x.name, v.used, v.limits.Memory)
		}
	}
}

// spend compiles a source and writes the first allowed letters of it.
func spend(t testing.TB, v *Vocabulary, name, source string) error {
	t.Helper()
	c, err := v.Constraint(context.Background(), name, func(b *Budget) (*Grammar, error) {
		if strings.HasPrefix(source, "{") {
			return ParseSchema(b, []byte(source), SchemaOptions{})
		}
		return ParseGBNF(b, source)
	})
	if err != nil {
		return err
	}
	defer c.Close()
	state := c.Start()
	for n := range 5000 {
		next := int32(-1)
		for _, id := range []int32{'a', '(', '"', 'x'} {
			to, ok, err := c.Next(state, id)
			if err != nil {
				return err
			}
			if ok {
				next = to
				break
			}
		}
		if next < 0 {
			return nil
		}
		state = next
		if n < 60 {
			if _, err := c.Mask(state); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestWorkIsCounted: what is done over and over counts each time.
func TestWorkIsCounted(t *testing.T) {
	const n = 300
	twice := strings.Repeat
	schema := func(source string) func(b *Budget) error {
		return func(b *Budget) error { _, err := ParseSchema(b, []byte(source), SchemaOptions{}); return err }
	}
	pattern := func(source string) func(b *Budget) error {
		return func(b *Budget) error { _, err := parsePattern(b, source); return err }
	}
	for _, x := range []struct {
		name  string
		least int // steps
		work  func(b *Budget) error
	}{
		{"characters of values and patterns", n * n, schema(`{"enum":["` + twice("a", n) + `"],"allOf":[` +
			repeated(n, func(i int) string { return fmt.Sprintf(`{"pattern":"^a*$|%d"}`, i) }) + `]}`)},
		{"values and steps", n * n * n / 200, schema(`{"enum":[` + repeated(n, strconv.Itoa) + `],"allOf":[` +
			repeated(n/10, func(i int) string { return fmt.Sprintf(`{"multipleOf":0.%d}`, i%2*3+2) }) + `]}`)},
		{"numbers of many digits", n * n * 30, schema(`{"allOf":[{"enum":[1,` + repeated(n, func(i int) string {
			return fmt.Sprintf("1%0200d", i)
		}) + `]},{"enum":[1,` + repeated(n, func(i int) string { return fmt.Sprintf("2%0200d", i) }) + `]}]}`)},
		{"parts behind alternatives with assertions", n * n,
			pattern("(^a" + twice("|b", n) + ")(?:" + twice("c", n) + ")")},
		{"parts before assertions", n * n / 2, pattern("(?=x)" + twice("x(?<=x)", n))},
	} {
		b := NewBudget(t.Context(), Limits{})
		if err := x.work(b); err != nil {
			t.Errorf("%s: %v", x.name, err)
		}
		if steps := b.limits.Steps - b.steps - b.slice; steps < x.least {
			t.Errorf("%s: %d steps, want at least %d", x.name, steps, x.least)
		}
	}
}

// TestWorkIsLinear: what grows with the square of a source would take is not allocated.
func TestWorkIsLinear(t *testing.T) {
	const most = 24 << 20
	for _, x := range []struct{ name, source string }{
		{"alternatives of one character", `{"pattern":"^(` + strings.ReplaceAll(repeated(4000, func(i int) string {
			return string(rune(0x10000 + 2*i))
		}), ",", "|") + `)$"}`},
		{"names beside patterns", `{"properties":{` + repeated(200, func(i int) string {
			return fmt.Sprintf(`"u%d%s":true`, i, strings.Repeat("x", 60))
		}) + `},"patternProperties":{` + repeated(8, func(i int) string { return fmt.Sprintf(`"^u%d":{}`, i) }) + `}}`},
		{"unknown keywords below a long name", `{"properties":{"` + strings.Repeat("n", 100000) + `":{` +
			repeated(1000, func(i int) string { return fmt.Sprintf(`"u%d":1`, i) }) + `}},"additionalProperties":false}`},
	} {
		before := allocated()
		if _, err := ParseSchema(nil, []byte(x.source), SchemaOptions{}); err != nil {
			t.Errorf("%s: %v", x.name, err)
		}
		if n := allocated() - before; n > most {
			t.Errorf("%s: %d bytes were allocated, want at most %d", x.name, n, most)
		}
	}
}

// Values of alternatives that are compared with each other count: each is written out for it once.
func TestComparedValuesAreCounted(t *testing.T) {
	used := func(key string, n int) int {
		source := fmt.Sprintf(`{"%s":[{"const":"a%s"},{"const":"b%s"}]}`, key, strings.Repeat("x", n), strings.Repeat("x", n))
		_, b, err := compileUnder(Limits{Bytes: 1 << 30}, source)
		if err != nil {
			t.Fatal(err)
		}
		return b.limits.Bytes - b.bytes
	}
	const long = 10000
	if more := used("oneOf", long) - used("anyOf", long); more < 2*long {
		t.Errorf("two texts of %d bytes are compared for %d", long, more)
	}
}
