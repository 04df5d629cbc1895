package bpe

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Equal reports whether t and other encode every text and decode every id alike.
func (t *Tokenizer) Equal(other *Tokenizer) bool {
	return t == other || t.model == other.model &&
		slices.Equal(t.tokens, other.tokens) && slices.Equal(t.types, other.types) &&
		t.bos == other.bos && t.eos == other.eos && t.unk == other.unk && t.sep == other.sep &&
		t.addBOS == other.addBOS && t.addEOS == other.addEOS && t.addSEP == other.addSEP &&
		t.spacePrefix == other.spacePrefix &&
		maps.Equal(t.stripAfter, other.stripAfter) && maps.Equal(t.stripBefore, other.stripBefore) &&
		slices.Equal(t.eog, other.eog) && t.encoder.equal(other.encoder)
}

// Compatible returns nil if the ids of t and other stand for the same tokens, so that
// a model of one may draft for a model of the other. Either vocabulary may have
// padding at its end that the other lacks. Otherwise the error names the first
// difference.
func (t *Tokenizer) Compatible(other *Tokenizer) error {
	if t == other {
		return nil
	}
	if t.model != other.model {
		return fmt.Errorf("bpe: the vocabularies differ: one is a %s tokenizer, the other %s", t.model, other.model)
	}
	n := min(t.Size(), other.Size())
	for i := range int32(n) {
		if t.tokens[i] != other.tokens[i] && !(t.padding(i) && other.padding(i)) {
			return fmt.Errorf("bpe: the vocabularies differ: token %d is %s in one, %s in the other", i, quote(t.tokens[i]),
				quote(other.tokens[i]))
		}
	}
	larger := t
	if other.Size() > n {
		larger = other
	}
	for i := int32(n); int(i) < larger.Size(); i++ {
		if !larger.padding(i) {
			return fmt.Errorf("bpe: the vocabularies differ: token %d is %s in one, the other has %d tokens", i,
				quote(larger.tokens[i]), n)
		}
	}
	return nil
}

// padding reports whether id is an unused token that fills up the vocabulary.
func (t *Tokenizer) padding(id int32) bool {
	s := t.tokens[id]
	return t.types[id] == TypeUnused || s == "" || strings.HasPrefix(s, "[PAD")
}
