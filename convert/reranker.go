package convert

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// A language model may be a reranker: Qwen3-Reranker (Zhang et al. 2025, arXiv:2506.05176) is asked whether a document
// suits a query, and the probability of "yes" beside "no" is its score. GGUF has the output matrix's rows of these two
// tokens as a classification head, and the question as the chat template "rerank".

// answers are the tokens between which a reranker decides.
type answers struct {
	named  bool     // the folder or its model card is called Qwen3-Reranker
	module string   // the settings of a module of sentence-transformers that has ids; "": there is none
	ids    [2]int32 // of yes and no, as the module says
}

// answerWords are the tokens, in the order of the head's outputs. The first is the score.
var answerWords = [2]string{"yes", "no"}

// answerKeys are their names in a module's settings.
var answerKeys = [2]string{"true_token_id", "false_token_id"}

// What Qwen3-Reranker is asked, as its model card says it.
const (
	rankQuestion = "Judge whether the Document meets the requirements based on the Query and the Instruct provided."
	rankTemplate = "<|im_start|>system\n" + rankQuestion +
		" Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n" +
		"<|im_start|>user\n<Instruct>: Given a web search query, retrieve relevant passages that answer the query\n" +
		"<Query>: {query}\n<Document>: {document}<|im_end|>\n" +
		"<|im_start|>assistant\n<think>\n\n</think>\n\n"
)

// logitScore reads the settings of a module that makes a score of the logits of tokens.
func (b *builder) logitScore(file string) error {
	c, err := readConfig(file)
	if err != nil {
		return err
	}
	a := &answers{module: file}
	c.must("module_input_name", "a score is made of logits", "causal_logits")
	for i, key := range answerKeys {
		ids := idsOf(c, key)
		if c.has(key); len(ids) != 1 {
			c.fail(key, "the id of a token expected: GGUF's score is a probability beside another token's")
			continue
		}
		a.ids[i] = ids[0]
	}
	if b.arch != "qwen3" {
		c.fail(answerKeys[0], "GGUF's %s has no such head (qwen3 has)", b.arch)
	}
	c.rest()
	b.answers = a
	return *c.err
}

// reranker finds out whether the model of a folder is a reranker. Where no module says so, its name does: nothing else
// tells it from a language model.
func (b *builder) reranker(dir string) error {
	card, _, err := optionalFile(filepath.Join(dir, "README.md"))
	if err != nil {
		return err
	}
	const name = "qwen3-reranker"
	named := strings.Contains(strings.ToLower(nameOf(dir)), name) ||
		strings.HasPrefix(strings.ToLower(title(string(card))), name)
	if named && b.answers == nil && b.arch == "qwen3" && !b.pooled() {
		b.answers = new(answers)
	}
	if b.answers != nil {
		b.answers.named = named
	}
	return nil
}

// title is the first heading of a model card, which may begin with settings between two lines of "---".
func title(card string) string {
	inside, first := false, true
	for line := range strings.Lines(card) {
		line = strings.TrimSpace(line)
		heading, is := strings.CutPrefix(line, "# ")
		switch {
		case line == "---" && (first || inside):
			inside = !inside
		case is && !inside:
			return strings.TrimSpace(heading)
		}
		first = false
	}
	return ""
}

// rank makes a reranker of a language model: it writes the head, and the template that asks. file is that of the
// vocabulary.
func (b *builder) rank(file string, w *words, s *settings) error {
	a, order := b.answers, make([]int, len(answerWords))
	for i, word := range answerWords {
		id, ok := w.ids[word]
		switch {
		case !ok:
			return fmt.Errorf("%s: no token %q, with which a reranker answers", file, word)
		case a.module != "" && a.ids[i] != id:
			return fmt.Errorf("%s: %s: %d, and %q, with which Qwen3-Reranker answers, is token %d", a.module, answerKeys[i],
				a.ids[i], word, id)
		}
		order[i] = int(id)
	}
	asks := func(template string) bool { return strings.Contains(template, rankQuestion) }
	if !a.named && !asks(s.template) && !slices.ContainsFunc(slices.Collect(maps.Values(s.named)), asks) {
		return fmt.Errorf("%s: what the model is asked is not known: neither is its name Qwen3-Reranker, nor has a chat "+
			"template its question", a.module)
	}
	called := func(name string) int {
		return slices.IndexFunc(b.targets, func(t target) bool { return t.name == name })
	}
	at := called("output.weight")
	switch {
	case at >= 0:
		b.note("the output matrix is left out but for the rows of yes and no: the model ranks, and writes no text")
	case !b.config.boolOr("tie_word_embeddings", true):
		return fmt.Errorf("%s: tensor lm_head.weight is missing, of which a score is made", filepath.Dir(b.config.file))
	default: // the embedding is the output matrix
		at, b.targets = len(b.targets), append(b.targets, b.targets[called("token_embd.weight")])
	}
	t := &b.targets[at]
	t.name, t.rows, t.sourceRows, t.float = "cls.output.weight", len(order), t.rows, true
	t.order = func(i int) int { return order[i] }
	b.size("pooling_type", rankPool)
	b.set("classifier.output_labels", slices.Clone(answerWords[:]))
	s.named["rerank"] = rankTemplate
	b.note(`a reranker: the template "rerank" has the instruction of Qwen3-Reranker's model card; GGUF has no place for ` +
		"another")
	return nil
}
