package main

import (
	"context"
	"fmt"
	"os"
	"slices"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/cmd/spec/internal/output"
	"github.com/specgo/spec/speculative"
)

// A tracer records the rounds of speculation: as lines of their own on standard error, or as JSON lines in
// a file.
type tracer struct {
	file   *output.File // nil: standard error
	failed bool
}

// openTrace opens the file of --trace FILE, if one was given.
func (g *generate) openTrace(ctx context.Context) (*tracer, error) {
	if g.traceFile == "" {
		return &tracer{}, nil
	}
	file, err := g.create(ctx, g.traceFile, nil)
	return &tracer{file: file}, err
}

// close completes the file, also of a text that was interrupted; not if a round could not be written.
func (t *tracer) close() error {
	switch {
	case t.file == nil:
		return nil
	case t.failed:
		t.file.Abort()
		return nil
	}
	return t.file.Commit()
}

// create opens an output beside the text. It is none of the files that are read.
func (g *generate) create(ctx context.Context, path string, stdout *os.File) (*output.File, error) {
	inputs := slices.Concat(filesOf(g.model), filesOf(g.drafts...), []string{g.grammarFile, g.schemaFile, g.earlier,
		g.templateFile, g.systemFile, g.history}, g.texts, g.vocab.from)
	if g.prompt.file != "-" {
		inputs = append(inputs, g.prompt.file)
	}
	for _, a := range g.adapters.adapters {
		inputs = append(inputs, a.Path)
	}
	if err := output.Distinct(path, inputs...); err != nil {
		return nil, err
	}
	return output.Create(ctx, path, stdout)
}

// traceRecord is a line of the file.
type traceRecord struct {
	Position  int     `json:"position"` // tokens before the round
	Requested int     `json:"n_requested"`
	Drafted   int     `json:"n_drafted"`
	Accepted  int     `json:"n_accepted"`
	DraftIDs  []int32 `json:"draft_token_ids"`
	// of a tree: index of each token's parent, -1 for the sequence's end
	DraftParents []int32 `json:"draft_parents,omitempty"`
	AcceptedIDs  []int32 `json:"accepted_token_ids"`
	NextID       int32   `json:"next_token_id"`
	DraftText    string  `json:"draft_text"`
	AcceptedText string  `json:"accepted_text"`
	NextText     string  `json:"next_text"`
	Draft        float64 `json:"draft_seconds"`
	Verify       float64 `json:"verify_seconds"`
}

// round records one round.
func (t *tracer) round(out *writer, tok *bpe.Tokenizer, r *speculative.Round) error {
	accepted := make([]int32, len(r.Path))
	for i, node := range r.Path {
		accepted[i] = r.Draft.Tokens[node]
	}
	x := traceRecord{
		Position: r.Position, Requested: r.Requested, Drafted: r.Drafted(), Accepted: r.Accepted(),
		DraftIDs: append([]int32{}, r.Draft.Tokens...), DraftParents: r.Draft.Parents, AcceptedIDs: accepted, NextID: r.Next,
		DraftText: tok.Decode(r.Draft.Tokens), AcceptedText: tok.Decode(accepted), NextText: tok.Decode([]int32{r.Next}),
		Draft: r.Drafting.Seconds(), Verify: r.Verifying.Seconds(),
	}
	if t.file != nil {
		err := printJSON(t.file, x)
		t.failed = t.failed || err != nil
		return err
	}
	_, err := fmt.Fprintf(out.notes(), "position %d: drafted %d %q in %.2f ms, accepted %d %q, then %q, verified in "+
		"%.2f ms\n",
		x.Position, x.Drafted, x.DraftText, 1e3*x.Draft, x.Accepted, x.AcceptedText, x.NextText, 1e3*x.Verify)
	return err
}
