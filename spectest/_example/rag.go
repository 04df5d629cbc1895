// Package rag answers questions from documents: a small program whose answers are tested by package spectest.
//
//	x, err := rag.New(ctx, m, documents)
//	answer, err := x.Ask(ctx, "How is a ring emptied?")
package rag

import (
	"context"
	"errors"
	"slices"

	"github.com/specgo/spec"
)

// Index is documents with their vectors.
type Index struct {
	m         *spec.Model
	documents []string
	vectors   [][]float32
}

// New embeds documents.
func New(ctx context.Context, m *spec.Model, documents []string) (*Index, error) {
	if len(documents) == 0 {
		return nil, errors.New("rag: no documents")
	}
	v, err := m.Embed(ctx, documents, spec.EmbedOptions{})
	return &Index{m, slices.Clone(documents), v}, err
}

// Nearest is the document whose vector is nearest to that of a question: the first of several.
func (x *Index) Nearest(ctx context.Context, question string) (string, error) {
	v, err := x.m.Embed(ctx, []string{question}, spec.EmbedOptions{})
	if err != nil {
		return "", err
	}
	best, most := 0, float32(-2)
	for i, d := range x.vectors {
		sum := float32(0)
		for k := range d {
			sum += float32(d[k] * v[0][k])
		}
		if sum > most {
			best, most = i, sum
		}
	}
	return x.documents[best], nil
}

// Answer is an answer and what it was made from.
type Answer struct {
	Text     string
	Document string       // the nearest one
	Request  spec.Request // what the model was asked: the document, and the question below it
}

// Ask answers a question.
func (x *Index) Ask(ctx context.Context, question string) (a Answer, err error) {
	if a.Document, err = x.Nearest(ctx, question); err != nil {
		return a, err
	}
	a.Request.Prompts = []spec.Prompt{{Text: a.Document + "\n\n// " + question + "\n", Plain: true}}
	a.Request.MaxTokens = 16
	a.Text, err = spec.Text(x.m.Generate(ctx, a.Request))
	return a, err
}
