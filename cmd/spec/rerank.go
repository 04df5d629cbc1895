package main

import (
	"context"
	"fmt"

	"github.com/specgo/spec/internal/terminal"
)

var rerankCommand = command{
	name:  "rerank",
	does:  "judge texts by a query",
	usage: "-m FILE --query TEXT [-p TEXT | -f FILE] [flags]",
	about: `Judges each line of the text by a query, with a reranker, and prints the lines with their scores, the best first. The scores are those of /v1/rerank of "spec serve". Empty lines are left out. Documents of several lines need another --embd-separator. A text has at most 64 MiB in all.`,
	new:   func() job { return &reranking{embedding: *newEmbedding()} },
}

// reranking is the command's options: those of embed, and the query.
type reranking struct {
	embedding
	query string
	top   int
}

func (r *reranking) check() error {
	if r.query == "" {
		return usagef("--query: missing")
	}
	return r.embedding.check()
}

// rankReport is the output as JSON.
type rankReport struct {
	Schema  int           `json:"schema"`
	Model   string        `json:"model"`
	Labels  []string      `json:"labels"` // of the classification head's outputs
	Tokens  int           `json:"n_tokens"`
	Results []rankedEntry `json:"results"`
}

type rankedEntry struct {
	Index   int       `json:"index"` // of the text, from 0, empty ones left out
	Score   float32   `json:"score"`
	Outputs []float32 `json:"outputs"`
	Text    string    `json:"text"`
}

func (r *reranking) run(ctx context.Context, p *program) error {
	if r.folder() {
		return fmt.Errorf("%s: a folder; the texts are those of one file", r.text.file)
	}
	documents, err := r.documents(ctx, p)
	if err != nil {
		return err
	}
	var texts []string
	for _, d := range documents {
		texts = append(texts, d.text)
	}
	m, done, err := r.open(ctx, p)
	if err != nil {
		return err
	}
	defer done()
	list, err := m.Rank(ctx, r.query, texts)
	if err != nil {
		return err
	}
	report := rankReport{Schema: 1, Model: m.Name(), Labels: m.Target().Labels()}
	for _, x := range list {
		report.Tokens += x.Tokens
	}
	if r.top > 0 {
		list = list[:min(r.top, len(list))]
	}
	for _, x := range list {
		if !r.json {
			text := texts[x.Index]
			if terminal.Is(p.stdout) {
				text = terminal.Text(text)
			}
			if _, err := fmt.Fprintf(p.stdout, "%.6g\t%s\n", x.Score, text); err != nil {
				return err
			}
			continue
		}
		report.Results = append(report.Results, rankedEntry{x.Index, x.Score, x.Outputs, texts[x.Index]})
	}
	if r.json {
		return printJSON(p.stdout, report)
	}
	return nil
}
