package engine

import (
	"slices"
	"strings"
)

// Kind is what a file holds, in words.
type Kind string

// The kinds of files that are told apart by their architecture. [Open] reads models, draft heads and encoders.
const (
	KindModel          Kind = "model" // a decoder-only language model
	KindEncoderDecoder Kind = "encoder-decoder model"
	KindEncoder        Kind = "encoder (embedding model)"
	KindEagle          Kind = "EAGLE-3 draft head"
	KindMTP            Kind = "MTP draft head"        // the MTP blocks of a model
	KindAssistant      Kind = "draft head of Gemma 4" // in a file of its own
	KindBlock          Kind = "DFlash draft head"     // or of DSpark; which drafts a block of tokens in one pass
	KindProjector      Kind = "projector of a multimodal model (mmproj)"
	KindControl        Kind = "control vector"
	KindAdapter        Kind = "LoRA adapter" // [Model.OpenAdapter]
)

// Head reports whether it is a draft head, which reads the hidden states of the model that it drafts for.
func (k Kind) Head() bool { return k == KindEagle || k == KindBlock || k.MTP() }

// MTP reports whether it is a draft head of multi-token prediction, trained together with its model or for this one
// model.
func (k Kind) MTP() bool { return k == KindMTP || k == KindAssistant }

// kind says how a file of an architecture is read.
type kind struct {
	is     Kind
	heads  []Kind                        // the draft heads that are made for its models alone
	family func(*loader, *Config) family // of a decoder: which parts its models have
	layers func(*loader, *Config) int    // reads the number of layers
	build  func(*loader, *Model) network // reads the weights; nil: no such file can be read
	mtp    func(*loader, *Model) network // reads MTP blocks; nil: they are made of the family's parts

	values bool // values may have another size than keys
	sparse bool // layers may have no heads, or no feed-forward: 0 of them

	plain string // what keys of such models begin with that are not below the architecture's name; "": there are none

	rawStates bool // the MTP blocks of a model read its states before the final norm, and give theirs likewise

	refused string // why no such file can be read, where that is known
}

// key reports whether a key is one that models of an architecture may read, beside those of the tokenizer: one below
// its name, or of the plain ones.
func (k *kind) key(arch, key string) bool {
	return strings.HasPrefix(key, arch+".") || k.plain != "" && strings.HasPrefix(key, k.plain)
}

// admits reports whether a draft head of that kind is made for the models.
func (k *kind) admits(head Kind) bool { return slices.Contains(k.heads, head) }
