package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/cmd/spec/internal/output"
	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/serve"
	"github.com/specgo/spec/spectest"
)

var evalCommand = command{
	name:  "eval",
	does:  "run test cases for a model's answers",
	usage: "[-m FILE [-md FILE]] [--junit FILE] [--update] CASES.jsonl",
	about: `Runs the cases of a file, as package spectest does in Go's tests. A line is {"name": "…", "url": "/v1/chat/completions", "body": {…}, "golden": true, "checks": […]}; the url may be /v1/completions or /v1/responses too, and the body is what that endpoint of "spec serve" takes.

With "golden": true the answer is compared with NAME.golden.json in the folder of the cases, or in --goldens: text, tokens with their probabilities, why it ended, and what it depends on. --update writes these files. The checks are {"contains": "…"}, {"json_schema": {…}}, {"called": {"name": "…", "arguments": {…}}}, {"similar": {"to": "…", "at_least": 0.8}} (the cosine of embeddings) and {"judged": {"question": "Is this polite? {answer}", "choices": ["yes", "no"], "want": "yes"}} (the model answers by one of the choices).

Where a body has no seed the seed is 1, and where it has no clock that is midnight of January 1st, 2026, UTC: answers are the same on every machine. The exit code is 0 where every case passes, and 1 where one fails.`,
	new: func() job { return newEvaluating() },
}

// evaluating is the command's options: those of a batch without its files.
type evaluating struct {
	batching
	cases, goldens, junit string
	update                bool
}

func newEvaluating() *evaluating {
	v := &evaluating{batching: *newBatching()}
	v.sizedBy = "-c and --kv-memory"
	return v
}

func (v *evaluating) operand(s string) error {
	if v.cases != "" {
		return usagef("two files of cases: %s and %s", terminal.Line(v.cases, 60), terminal.Line(s, 60))
	}
	v.cases = s
	return nil
}

func (v *evaluating) flags() []group {
	list := v.batching.flags()
	list[0] = group{"cases", []flag{
		fileFlag("--goldens", &v.goldens, "DIR", "folder of the golden files").or("that of the cases"),
		fileFlag("--junit", &v.junit, "FILE", "write the results there as JUnit's XML"),
		switchFlag("--update", &v.update, true, "write the golden files anew instead of comparing"),
	}}
	return slices.DeleteFunc(list, func(g group) bool { return g.title == "output" })
}

func (v *evaluating) check() error {
	switch {
	case v.cases == "":
		return usagef("the file of cases is missing")
	case len(v.models) > 1 || v.dir != "":
		return usagef("cases are for one model")
	}
	return v.serving.check()
}

// evalSeed is that of requests without one.
const evalSeed = 1

// readCases reads the whole file first, so that a mistake in its last line is found at once.
func readCases(name string) (list []*spectest.Line, file results.File, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, file, err
	}
	defer f.Close()
	seen := map[string]int{}
	hash := sha256.New()
	r := bufio.NewScanner(io.TeeReader(f, hash))
	r.Buffer(nil, 16<<20)
	for n := 1; r.Scan(); n++ {
		if strings.TrimSpace(r.Text()) == "" {
			continue
		}
		text := r.Bytes()
		if n == 1 {
			text = withoutMark(text)
		}
		l, err := spectest.ParseLine(text)
		if err != nil {
			return nil, file, fmt.Errorf("%s: line %d: %w", name, n, err)
		}
		if seen[l.Name] > 0 {
			return nil, file, fmt.Errorf("%s: line %d: name: %q is that of line %d too", name, n, l.Name, seen[l.Name])
		}
		seen[l.Name] = n
		l.Body = slices.Clone(l.Body)
		list = append(list, l)
	}
	if err := r.Err(); err != nil {
		return nil, file, fmt.Errorf("%s: %w", name, err)
	}
	if len(list) == 0 {
		return nil, file, fmt.Errorf("%s: no cases", name)
	}
	return list, results.File{Name: filepath.Base(name), SHA256: hex.EncodeToString(hash.Sum(nil))}, nil
}

// junitSuite and junitCase are results as JUnit's XML has them.
type junitSuite struct {
	XMLName    xml.Name        `xml:"testsuite"`
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Time       string          `xml:"time,attr"`
	Properties []junitProperty `xml:"properties>property"` // results.Origin
	Cases      []junitCase     `xml:"testcase"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Class   string       `xml:"classname,attr"`
	Name    string       `xml:"name,attr"`
	Time    string       `xml:"time,attr"`
	Failure *junitReason `xml:"failure"`
	Error   *junitReason `xml:"error"`
}

type junitReason struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// drafts are the files of draft models that flags name.
func (v *evaluating) drafts() []string {
	if !v.embedded() && v.models[0].draft != "" {
		return []string{v.models[0].draft}
	}
	return v.speculation.drafts
}

// properties say where the cases were run, and with what.
func properties(ctx context.Context, p *program, m *modelFlags, texts results.File, drafts ...string) (
	list []junitProperty, err error) {
	rt, err := m.runtime(p)
	if err != nil {
		return nil, err
	}
	defer rt.Close()
	o, err := m.origin(ctx, p, rt, drafts...)
	if err != nil {
		return nil, err
	}
	o.Prompts = append(o.Prompts, texts)
	pairs, err := results.Pairs(o)
	for _, x := range pairs {
		list = append(list, junitProperty{x[0], x[1]})
	}
	return list, err
}

// errCases is the error of cases that fail, which have been told of.
var errCases = errors.New("cases failed")

func (v *evaluating) run(ctx context.Context, p *program) error {
	cases, texts, err := readCases(v.cases)
	if err != nil {
		return err
	}
	junit, err := v.createJUnit(ctx)
	if err != nil {
		return err
	}
	if junit != nil {
		defer junit.Abort()
	}
	if v.seed < 0 {
		v.seed = evalSeed
	}
	models := v.loading()
	if !v.embedded() {
		models.model = v.models[0].target
	}
	file, err := models.fingerprint(ctx, p)
	if err != nil {
		return err
	}
	suite := junitSuite{Name: texts.Name, Tests: len(cases)}
	if suite.Properties, err = properties(ctx, p, &models, texts, v.drafts()...); err != nil {
		return err
	}
	server, stop, err := v.start(ctx, p)
	if err != nil {
		return err
	}
	defer stop()
	begin := time.Now()
	for _, c := range cases {
		at := time.Now()
		one := junitCase{Class: suite.Name, Name: c.Name}
		failures, err := v.evaluate(ctx, server, c, func(m *library.Model) *spectest.Model {
			return spectest.Of(m, file, spectest.Clock())
		})
		if ctx.Err() != nil {
			return ctx.Err()
		}
		one.Time = fmt.Sprintf("%.3f", time.Since(at).Seconds())
		word := "ok  "
		switch {
		case err != nil:
			suite.Errors++
			one.Error = &junitReason{message(err), err.Error()}
			word, failures = "FAIL", []string{err.Error()}
		case len(failures) > 0:
			suite.Failures++
			one.Failure = &junitReason{terminal.Line(failures[0], longestMessage), strings.Join(failures, "\n")}
			word = "FAIL"
		}
		suite.Cases = append(suite.Cases, one)
		if _, err := fmt.Fprintf(p.stdout, "%s %s (%s s)\n", word, terminal.Line(c.Name, 0), one.Time); err != nil {
			return err
		}
		for _, f := range failures {
			for line := range strings.Lines(f) {
				fmt.Fprintf(p.stdout, "    %s\n", terminal.Line(strings.TrimSuffix(line, "\n"), 0))
			}
		}
	}
	suite.Time = fmt.Sprintf("%.3f", time.Since(begin).Seconds())
	if junit != nil {
		if err := writeJUnit(junit, suite); err != nil {
			return err
		}
	}
	if n := suite.Failures + suite.Errors; n > 0 {
		return fmt.Errorf("%d of %d %w", n, len(cases), errCases)
	}
	return nil
}

// evaluate runs a case. failures is what differs and what its checks say; err is what prevents the answer.
func (v *evaluating) evaluate(ctx context.Context, server *serve.Server, c *spectest.Line,
	identified func(*library.Model) *spectest.Model) (failures []string, err error) {
	model, r, release, err := server.Translate(ctx, c.URL, c.Body)
	if err != nil {
		return nil, err
	}
	defer release()
	m := identified(model)
	if r.CallID = nil; r.Clock.IsZero() {
		r.Clock = spectest.Clock()
	}
	var a *spectest.Answer
	if c.Golden {
		dir := v.goldens
		if dir == "" {
			dir = filepath.Dir(v.cases)
		}
		var difference string
		path := filepath.Join(dir, filepath.FromSlash(c.Name)+".golden.json")
		a, difference, err = spectest.Compare(ctx, m, path, r, v.update)
		if difference != "" {
			failures = append(failures, strings.ReplaceAll(difference, "-spectest.update", "--update"))
		}
	} else {
		a, err = m.Answer(ctx, r)
	}
	if err != nil {
		return nil, errors.New(strings.ReplaceAll(err.Error(), "-spectest.update", "--update"))
	}
	for i := range c.Checks {
		if err := c.Checks[i].Check(ctx, model)(a); err != nil {
			failures = append(failures, err.Error())
		}
	}
	return failures, nil
}

// createJUnit opens the file of --junit before any work is done; nil without it.
func (v *evaluating) createJUnit(ctx context.Context) (*output.File, error) {
	if v.junit == "" {
		return nil, nil
	}
	inputs := append(filesOf(v.drafts()...), v.cases)
	if !v.embedded() {
		inputs = append(inputs, filesOf(v.models[0].target)...)
	}
	if err := output.Distinct(v.junit, inputs...); err != nil {
		return nil, err
	}
	return output.Create(ctx, v.junit, nil)
}

// writeJUnit writes results into a file.
func writeJUnit(f *output.File, suite junitSuite) error {
	if _, err := io.WriteString(f, xml.Header); err != nil {
		return err
	}
	e := xml.NewEncoder(f)
	e.Indent("", "  ")
	if err := e.Encode(suite); err != nil {
		return err
	}
	return f.Commit()
}
