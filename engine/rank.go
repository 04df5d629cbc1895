package engine

import (
	"context"
	"fmt"
	"strings"

	"github.com/specgo/spec/bpe"
)

// Ranks reports whether [Model.Rank] judges documents with the model: it has a classification head and a tokenizer.
func (m *Model) Ranks() bool {
	return m != nil && m.vectors.texts && m.vectors.outputs() > 0 && m.tokenizer != nil
}

// RankTokens are the token ids of a query with a document, as the model was trained to take them: the file's template
// "rerank" with both put in, or else both encoded by themselves, with the marks around and between them that the
// vocabulary asks for. Control tokens that query and document spell are text.
func (m *Model) RankTokens(query, document string) ([]int32, error) {
	if !m.Ranks() {
		return nil, fmt.Errorf("%w: no classification head, or no tokenizer", ErrUsage)
	}
	template, ok := m.metadata["tokenizer.chat_template.rerank"].(string)
	if !ok {
		return m.tokenizer.EncodePair(query, document, bpe.PairOptions{}), nil
	}
	return m.tokenizer.EncodeParts(rankParts(template, query, document), false), nil
}

// rankParts is a template "rerank" with a query and a document put in.
func rankParts(template, query, document string) (parts []bpe.Part) {
	for template != "" {
		end, place, text := len(template), "", ""
		for _, x := range [...]struct{ place, text string }{{"{query}", query}, {"{document}", document}} {
			if i := strings.Index(template, x.place); i >= 0 && i < end {
				end, place, text = i, x.place, x.text
			}
		}
		parts = append(parts, bpe.Part{Text: template[:end], ParseSpecial: true}, bpe.Part{Text: text})
		template = template[end+len(place):]
	}
	return parts
}

// Rank judges documents by a query: an [Embedding] for each, whose Data are the outputs of the classification head,
// the score first, which is not limited to any range unless the head is a softmax ([Model.Labels] names the outputs).
func (m *Model) Rank(ctx context.Context, query string, documents []string) ([]Embedding, error) {
	pairs := make([][]int32, len(documents))
	for i, document := range documents {
		err := ctx.Err()
		if err != nil {
			return nil, err
		}
		if pairs[i], err = m.RankTokens(query, document); err != nil {
			return nil, err
		}
	}
	return m.Embed(ctx, pairs, EmbedOptions{Pooling: PoolRank})
}
