package spectest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/internal/strictjson"
	"github.com/specgo/spec/speculative"
)

var update = flag.Bool("spectest.update", false, "write golden answers anew")

// updating reports whether golden files are written instead of compared.
func updating() bool { return *update || os.Getenv("SPEC_UPDATE") != "" }

// Answer is an answer of a model, or of the golden file that was found to hold what the model answers.
type Answer struct {
	Text      string
	Reasoning string
	Calls     []chat.ToolCall
	Finish    spec.Finish
}

// Run compares the answer to a request with the golden file testdata/NAME.golden.json, as the package says, or writes
// the file. The request has one prompt or a conversation, and one answer. A difference is an error of the test, and the
// new answer is returned; what prevents the comparison ends the test.
func Run(t testing.TB, m *Model, name string, r spec.Request) *Answer {
	t.Helper()
	if !validName(name) {
		t.Fatalf("spectest: %q is no name of a golden file", name)
	}
	path := filepath.Join("testdata", filepath.FromSlash(name)+".golden.json")
	g, difference, err := run(t.Context(), m, path, r, updating(), testing.Short())
	switch {
	case err != nil:
		t.Fatal(err)
	case difference != "":
		t.Error(difference)
	}
	return g.answer()
}

// validName reports whether a golden file may have a name.
func validName(name string) bool {
	return fs.ValidPath(name) && name != "." && !strings.ContainsAny(name, "\\: ")
}

// Compare is [Run] without a test: it compares the answer to a request with the golden file of a path, or writes the
// file. difference says what differs; "": nothing does.
func Compare(ctx context.Context, m *Model, path string, r spec.Request, write bool) (
	a *Answer, difference string, err error) {
	g, difference, err := run(ctx, m, path, r, write, false)
	if err != nil {
		return nil, "", err
	}
	return g.answer(), difference, nil
}

// Answer is the model's answer to a request, which nothing is compared with. Requests that [Run] refuses are refused.
func (m *Model) Answer(ctx context.Context, r spec.Request) (*Answer, error) {
	j, err := newJob(ctx, m, r)
	if err != nil {
		return nil, err
	}
	defer j.task.Close()
	g, err := j.write(ctx)
	if err != nil {
		return nil, err
	}
	return g.answer(), nil
}

func (g *golden) answer() *Answer {
	a := &Answer{Text: g.Text, Reasoning: g.Reasoning, Finish: spec.Finish(g.Finish)}
	for _, c := range g.Calls {
		a.Calls = append(a.Calls, chat.ToolCall(c))
	}
	return a
}

// run is Run with a path. The answer is the file's where there is no difference.
func run(ctx context.Context, m *Model, path string, r spec.Request, update, short bool) (
	g *golden, difference string, err error) {
	j, err := newJob(ctx, m, r)
	if err != nil {
		return nil, "", err
	}
	defer j.task.Close()
	if update {
		now, err := j.write(ctx)
		if err == nil {
			err = now.write(path)
		}
		return now, "", err
	}
	was, err := readGolden(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, "", fmt.Errorf("%s: there is no such file; -spectest.update writes it", path)
	case err != nil:
		return nil, "", err
	}
	reasons := was.Asked.differences(&j.asked)
	var denied error
	switch {
	case len(reasons) > 0:
	case short:
		return was, "", nil
	case was.Receipt != nil:
		_, denied = speculative.Confirm(ctx, m.Target(), m.file, was.Receipt, m.adapters(was.Receipt)...)
		if denied == nil {
			return was, "", nil
		}
		if !errors.Is(denied, speculative.ErrNotConfirmed) {
			return nil, "", fmt.Errorf("%s: %w", path, denied)
		}
	}
	now, err := j.write(ctx)
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	changes := j.changes(was, now)
	switch {
	case len(reasons)+len(changes) > 0:
		return now, report(path, reasons, changes), nil
	case denied != nil:
		return now, fmt.Sprintf("%s: the answer is the same, and its receipt is not: %v", path, denied), nil
	}
	return was, "", nil
}

// job is a request that is bound to a model.
type job struct {
	m       *Model
	asked   asked
	task    *spec.Task
	receipt *speculative.Receipt
	top     [][]sampling.Prob // of each token of the answer: the most likely ones in its place
}

// alternatives is how many tokens of each place are looked at for the probability of the one that was there.
const alternatives = 20

func newJob(ctx context.Context, m *Model, r spec.Request) (*job, error) {
	set, err := options(&r)
	if err != nil {
		return nil, err
	}
	choice, err := m.Choose(r.Speculation, r.Sampling.MaxTemperature())
	if err != nil {
		return nil, err
	}
	if choice.Verify == "rejection" || choice.Verify == "block" {
		return nil, fmt.Errorf("Request.Speculation.Verify: the answer depends on the drafts with %q", choice.Verify)
	}
	j := &job{m: m}
	r.LogProbs, r.Top, r.Chosen, r.Scored, r.Progress = true, alternatives, false, false, false
	calls := 0
	r.CallID = func() string { calls++; return fmt.Sprintf("call_%d", calls) }
	r.Written = func(d *speculative.Decoder) (err error) {
		if j.task.Sampling(0).Constraint != nil {
			return nil
		}
		j.receipt, err = d.Receipt(speculative.ReceiptOptions{Fingerprint: m.file, KV: j.asked.Model.KV})
		return err
	}
	if j.task, err = m.Prepare(ctx, r); err != nil {
		return nil, err
	}
	ids := j.task.Prompt(0)
	j.asked = asked{Identity: m.Identity(m.file), Clock: m.clock.Format(time.RFC3339Nano), Options: set, IDs: ids}
	var text strings.Builder
	for _, id := range ids {
		text.WriteString(m.spelled(id))
	}
	j.asked.Prompt = text.String()
	return j, nil
}

// spelled is the text of a token, or a control token's name.
func (m *Model) spelled(id int32) string {
	if b := m.Tokenizer().Bytes(id); len(b) > 0 {
		return string(b)
	}
	return m.Tokenizer().Token(id)
}

// write has the model answer.
func (j *job) write(ctx context.Context) (*golden, error) {
	if err := j.task.Compile(ctx); err != nil {
		return nil, err
	}
	var answer spec.Result
	g := &golden{Schema: goldenSchema, Asked: j.asked, Tokens: []token{}}
	j.top = nil
	for e, err := range j.task.Generate(ctx, spec.Run{}) {
		if err != nil {
			return nil, err
		}
		answer.Add(&e)
		if id := e.Token.ID; id >= 0 {
			g.Tokens = append(g.Tokens, token{id, j.m.spelled(id), e.Token.LogProb})
			j.top = append(j.top, e.Token.Top)
		}
	}
	g.Text, g.Reasoning, g.Finish, g.Receipt = answer.Text, answer.Reasoning, string(answer.Finish), j.receipt
	for _, c := range answer.Calls {
		g.Calls = append(g.Calls, call(c))
	}
	return g.asRead()
}

// asRead is the answer as a reader of its file has it: bytes that are no UTF-8 are replaced.
func (g *golden) asRead() (*golden, error) {
	text, err := json.Marshal(g)
	if err != nil {
		return nil, err
	}
	read := new(golden)
	return read, strictjson.Decode(bytes.NewReader(text), int64(len(text)), read)
}
