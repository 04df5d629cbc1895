// Package grammar constrains generated text to a formal language: a grammar in GBNF, the notation of llama.cpp, or a
// JSON Schema. It knows text and token ids only, no model.
//
//	v := grammar.NewVocabulary(tokenizer, grammar.VocabularyOptions{})
//	b := grammar.NewBudget(ctx, grammar.Limits{})
//	g, err := grammar.ParseSchema(b, []byte(`{"type":"integer"}`), grammar.SchemaOptions{})
//	c, err := g.Bind(b, v)
//	defer c.Close()
//	state := c.Start()
//	allowed, err := c.Mask(state)        // one bit per token id
//	state, ok, err := c.Next(state, id)  // false: the grammar does not allow id here
//
// A [Grammar] is compiled from source by [ParseGBNF] or [ParseSchema]. [Grammar.Bind] binds it to a [Vocabulary] and
// gives a [Constraint], which answers three questions about a state of the text: which tokens may follow (Mask), what
// the state is after one of them (Next), and which tokens are certain (Forced). States are small integers that never
// change their meaning, so that a tree of drafted tokens can hold one state per node. What all of that may cost is
// bounded by [Limits] and counted by a [Budget].
//
// # Method
//
// Rules are compiled to instructions over bytes: a character class becomes the ranges of its UTF-8 encoding. A thread
// of the machine is an instruction and a stack of return addresses; a state is the set of threads after some bytes,
// as in Thompson's simulation of regular expressions, extended by the stack to context-free rules. Stacks and states
// are interned, so equal ones are one number, and the successor of a state under a byte is computed once. A mask is
// one walk over the trie of all tokens' bytes, which skips what the state refuses, and is kept for the state. A call
// in tail position pushes no return address, so lists written by right recursion do not deepen the stack. Left
// recursion is refused.
package grammar
