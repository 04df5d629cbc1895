package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/specgo/spec/cmd/spec/internal/output"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/results"
	"github.com/specgo/spec/speculative"
	"github.com/specgo/spec/testdata"
)

var verifyCommand = command{
	name:  "verify",
	does:  "prove that a model wrote a text, from its receipt",
	usage: "[-m FILE] RECEIPT",
	about: `Checks a receipt that "spec generate --receipt" wrote: the model's file, each token of the text, where and why it ends. It computes prompt and text once, at the speed of prefill; the text may have been written on another CPU, by other kernels, with or without drafts. If something differs, it names the first position that does, and what should be there.

A receipt is a claim, not a signature: one that was changed is confirmed if what it says now is true.`,
	new: func() job { return &verification{} },
}

// verification is the command's options.
type verification struct {
	modelFlags
	receipt string
	json    bool
}

func (v *verification) flags() []group {
	model := append([]flag{v.modelRow(), v.hubRow(), threadsRow(&v.threads), numaRow(&v.numa), v.adapters.loraRow()},
		v.changes.rows()...)
	for i := range model {
		model[i].word = false // the word is the receipt
	}
	return []group{{"model", model}, {"output", []flag{jsonRow(&v.json)}}}
}

func (v *verification) operand(name string) error {
	if v.receipt != "" {
		return errors.New("one receipt at a time")
	}
	v.receipt = name
	return nil
}

func (v *verification) check() error {
	if v.receipt == "" {
		return usagef("the receipt is missing")
	}
	return nil
}

// verdict is what "spec verify --json" prints.
type verdict struct {
	Schema int `json:"schema"`
	results.Origin
	Confirmed bool    `json:"confirmed"`
	Tokens    int     `json:"n_tokens"` // that were checked
	Passes    int     `json:"n_passes"`
	Seconds   float64 `json:"verify_seconds"`

	Field      string `json:"differs,omitempty"`
	Position   *int   `json:"position,omitempty"`
	WrittenID  *int32 `json:"written_token_id,omitempty"`
	ExpectedID *int32 `json:"expected_token_id,omitempty"`
	Written    string `json:"written,omitempty"`
	Expected   string `json:"expected,omitempty"`
}

func (v *verification) run(ctx context.Context, p *program) error {
	file, err := openInput(ctx, v.receipt)
	if err != nil {
		return err
	}
	text, err := readInput(ctx, file, speculative.ReceiptLimit)
	if err != nil {
		return fmt.Errorf("%s: %w", v.receipt, err)
	}
	r, err := speculative.ReadReceipt(strings.NewReader(string(text)))
	if err != nil {
		return fmt.Errorf("%s: %w", v.receipt, err)
	}
	c, origin, took, err := v.confirm(ctx, p, r)
	var differs *speculative.Mismatch
	if err != nil && !errors.As(err, &differs) {
		return err
	}
	origin.Prompts = append(origin.Prompts, results.TextFile(filepath.Base(v.receipt), text))
	if v.json {
		d := verdict{Schema: 1, Origin: origin, Confirmed: err == nil, Tokens: c.Tokens, Passes: c.Passes,
			Seconds: took.Seconds()}
		if differs != nil {
			d.Field, d.Written, d.Expected = differs.Field, differs.Written, differs.Expected
			if differs.Position >= 0 {
				d.Position, d.WrittenID, d.ExpectedID = &differs.Position, &differs.WrittenID, &differs.ExpectedID
			}
		}
		return errors.Join(printJSON(p.stdout, d), err)
	}
	if err != nil {
		if differs.Field == "model_sha256" {
			return fmt.Errorf("%w; --rope-scaling, --override-kv and others that change a model are part of it: give those of "+
				"the text", err)
		}
		return err
	}
	how := "greedy"
	if s := r.Sampling; s.MaxTemperature() > 0 {
		how = fmt.Sprintf("temperature %g, seed %d", s.Temperature, s.Seed)
		if s.Dynatemp.Range > 0 {
			how = fmt.Sprintf("temperature %g ± %g, seed %d", s.Temperature, s.Dynatemp.Range, s.Seed)
		}
	}
	after := fmt.Sprintf("after the prompt's %d", len(r.Prompt))
	if r.Input != nil {
		after = fmt.Sprintf("for an input of %d", len(r.Input))
	}
	_, err = fmt.Fprintf(p.stdout, "confirmed: %s wrote these %d tokens %s (%s; end: %s), checked in %d passes and "+
		"%.2f s\n",
		v.name(), c.Tokens, after, how, r.End, c.Passes, took.Seconds())
	return err
}

// confirm loads the model as the receipt says and checks the text. The time is that of the passes.
func (v *verification) confirm(ctx context.Context, p *program, r *speculative.Receipt) (
	c speculative.Confirmation, o results.Origin, took time.Duration, err error) {
	o = results.Here()
	file, err := v.fingerprint(ctx, p)
	if err != nil {
		return c, o, 0, err
	}
	name := "embedded target"
	if v.model != "" {
		name = filepath.Base(v.model)
	}
	o.Models = append(o.Models, results.File{Name: name, SHA256: file.Model})
	v.weights, v.ropeContext = r.Model.Weights, ropeContexts[r.Model.Rope]
	rt, err := v.runtime(p)
	if err != nil {
		return c, o, 0, err
	}
	defer rt.Close()
	o.SIMD, o.Threads = rt.SIMD(), rt.Threads()
	if err := r.Matches(file); err != nil {
		return c, o, 0, err
	}
	m, err := v.target(ctx, p, rt)
	if err != nil {
		return c, o, 0, err
	}
	defer m.Close()
	list, err := v.adapters.open(ctx, m)
	if err != nil {
		return c, o, 0, err
	}
	adapters := make([]*engine.Adapter, len(list))
	for i := range list {
		adapters[i] = list[i].Adapter
	}
	begin := time.Now()
	c, err = speculative.Confirm(ctx, m, file, r, adapters...)
	return c, o, time.Since(begin), err
}

// ropeContexts are Options.RopeContext by the tensor of frequency factors that it is to choose, for models that have
// two.
var ropeContexts = map[string]int{"rope_factors_short.weight": 1, "rope_factors_long.weight": math.MaxInt32}

// fingerprint reads the model's file.
func (m *modelFlags) fingerprint(ctx context.Context, p *program) (engine.Fingerprint, error) {
	path, err := localPath(ctx, p, m.model)
	if err != nil {
		return engine.Fingerprint{}, err
	}
	var f *gguf.File
	if path == "" {
		r := testdata.Target()
		f, err = gguf.Open(r, r.Size(), "embedded target")
	} else if err = modelFile(path, byFlag); err == nil {
		f, err = gguf.OpenFile(path)
	}
	if err != nil {
		return engine.Fingerprint{}, err
	}
	defer f.Close()
	var o engine.Options
	m.changes.options(&o)
	changed, err := o.Overridden(f)
	if err != nil {
		return engine.Fingerprint{}, err
	}
	return engine.ReadFingerprint(ctx, changed)
}

// checkReceipt refuses options whose text no receipt can hold, before any work is done.
func (g *generate) checkReceipt() error {
	switch {
	case g.receipt == "":
		return nil
	case g.conversation:
		return usagef("--receipt is for one text, not for a conversation")
	case g.choice.Verify == "rejection" || g.choice.Verify == "block":
		return usagef("--receipt: --verify %s writes a text that depends on the drafts, which cannot be confirmed; "+
			"greedy, match and stairs can", g.choice.Verify)
	case g.predict == 0:
		return usagef("--receipt: -n 0 writes no text")
	}
	return nil
}

// createReceipt opens the output of --receipt; nil without it.
func (g *generate) createReceipt(ctx context.Context, p *program) (*output.File, error) {
	if g.receipt == "" {
		return nil, nil
	}
	stdout, _ := p.stdout.(*os.File)
	return g.create(ctx, g.receipt, stdout)
}

// writeReceipt writes the receipt of a text.
func (g *generate) writeReceipt(ctx context.Context, p *program, to *output.File, r *speculative.Receipt) error {
	if to == nil {
		return nil
	}
	file, err := g.fingerprint(ctx, p)
	if err != nil {
		return err
	}
	r.Model.Model, r.Model.Tokenizer = file.Model, file.Tokenizer
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(r); err != nil {
		return err
	}
	return to.Commit()
}
