package engine

import "slices"

// Sessions says how many sequences of a model there are at once, and of what kind, for what they take in memory beside
// its weights. The zero value is none.
type Sessions struct {
	Count      int    // at once
	Tokens     int    // of each; 0 or more than the model's context: the context
	KV         string // storage of keys and values, as SessionOptions has it
	StateBytes int64  // likewise
	Rows       int    // of logits that a pass has of each, at most
	Heads      bool   // the MTP blocks of the model's own file draft for them
	Own        bool   // the model drafts for them itself: in fewer bits, or with its first layers
	Alone      bool   // each has passes of its own, and memory for drafts beside its own
	DraftVocab int    // tokens of the draft vocabulary of what drafts, which has rows for them; 0: none
	DraftText  int    // tokens of a text that it has rows for beside them
	// KVBytes, if it is not 0, is what keys, values and states of all of them may take: those of the model, and as much
	// of its heads.
	KVBytes int64
	Beside  int64 // bytes of what else is to be in the same memory; counted by PlanMemory alone
}

// MostMemory is the part of a machine's memory, in bytes, that models may take where nobody says how much.
func MostMemory(machine int64) int64 { return machine / 8 * 7 }

// Bytes is what the sequences take, without their logits: pages of keys and values, recurrent states with their
// copies, and, of encoder-decoder models, what is kept of an encoder's input of as many tokens.
func (s Sessions) Bytes(d *Description) int64 {
	heads := d.MTP
	if !s.Heads {
		heads = nil
	}
	if s.KVBytes > 0 && len(heads) > 0 {
		return 2 * s.KVBytes
	}
	if s.KVBytes > 0 {
		return s.KVBytes
	}
	n := d.Recurrent.Most(s.StateBytes) + s.pages(d, d.Caches) + s.pages(d, heads)
	if d.Input.Layers > 0 {
		n += s.pages(d, []CacheShape{d.Input})
	}
	return int64(s.Count) * n
}

// tokens are those of each sequence.
func (s Sessions) tokens(d *Description) int {
	if s.Tokens > 0 {
		return min(d.Config.Context, s.Tokens)
	}
	return d.Config.Context
}

// longer is what layers with a window take beyond Bytes in passes of so many rows of a prompt.
func (s Sessions) longer(d *Description, rows int) (n int64) {
	if s.KVBytes > 0 {
		return 0
	}
	tokens, caches := s.tokens(d), d.Caches
	if s.Heads {
		caches = slices.Concat(caches, d.MTP)
	}
	for _, c := range caches {
		one, err := c.Bytes(s.KV)
		if more := min(tokens, c.Window+rows) - c.Most(tokens); err == nil && c.Window > 0 && more > 0 {
			n += one * int64(pageSlots(more))
		}
	}
	return int64(s.Count) * n
}

// pages is what the pages of one sequence take.
func (s Sessions) pages(d *Description, caches []CacheShape) (n int64) {
	tokens := s.tokens(d)
	for _, c := range caches {
		one, err := c.Bytes(s.KV)
		if err != nil {
			continue // NewSession says what is wrong
		}
		slots := c.Most(tokens)
		if c.Window > 0 { // what is kept begins within a page, and a block comes behind it
			slots += KVPage - 1 + max(d.Block, 1)
		}
		n += one * int64(pageSlots(slots))
	}
	return n
}

// Logits is what the logits of a pass take: Rows of each sequence, and, of several, those that go through the output
// matrix together before each has its own.
func (s Sessions) Logits(d *Description) int64 {
	rows := int64(s.Count) * int64(s.Rows)
	if s.Count > 1 {
		rows += min(rows, headRows)
	}
	return rows * int64(d.Config.Vocab) * 4
}

// Pass is what a pass takes beside the weights and the sequences: the logits, what drafts by the model itself take, and
// of models that texts go through whole the activations of one as long as a sequence.
func (s Sessions) Pass(d *Description) int64 {
	n := s.Logits(d)
	if s.Own {
		n += s.OwnDrafts(d)
	}
	if s.Count > 0 {
		n += d.TextBytes(s.tokens(d))
	}
	return n
}

// OwnDrafts is what drafts by the model itself take: a row of logits for each sequence, and, of those that are Alone,
// pages of the drafted tokens with the page that they begin in, and states. Where passes are shared, drafts have their
// pages in the memory of the sequences.
func (s Sessions) OwnDrafts(d *Description) int64 {
	n := s.DraftLogits(d)
	if !s.Alone {
		return n
	}
	one := d.Recurrent.Most(s.StateBytes)
	for _, c := range d.Caches {
		slots := pageSlots(KVPage - 1 + s.Rows)
		if c.Window > 0 { // of positions, too, that the sequence has given up since the last draft
			slots = max(slots, pageSlots(c.Most(s.tokens(d)))+KVPage)
		}
		if slot, err := c.Bytes(s.KV); err == nil { // NewSession says what is wrong
			one += slot * int64(slots)
		}
	}
	return n + int64(s.Count)*one
}

// DraftLogits is what the logits of a pass of a draft model take: a row of each sequence, or those of a block, and a
// row that is added to them.
func (s Sessions) DraftLogits(draft *Description) int64 {
	s.Rows = min(s.Rows, max(draft.Block, 1))
	n := s.Logits(draft)
	if draft.Block > 0 && s.Count == 1 { // of several Logits counts a row of each beside their own
		n += int64(draft.Config.Vocab) * 4
	}
	return n
}

// DraftPass is what the sequences take of a draft model's passes: their logits, and of a draft head what it keeps of
// its target's hidden states.
func (s Sessions) DraftPass(draft *Description) int64 {
	return s.DraftLogits(draft) + int64(s.Count)*draft.States
}

// mostHeadLayers is how many layers of its target a draft head reads that is not described.
const mostHeadLayers = 5

// DraftBytes is what as many sequences of a draft model take, with DraftPass. One that is not described, a
// draft head, is counted like a layer of its target, with the states of a few.
func (s Sessions) DraftBytes(target, draft *Description) int64 {
	if draft != nil {
		return s.Bytes(draft) + s.DraftPass(draft)
	}
	head := *target
	head.States = headPositions * passRows * mostHeadLayers * int64(target.Config.StateSize) * 4
	if s.KVBytes > 0 {
		return s.KVBytes + s.DraftPass(&head)
	}
	return s.Bytes(target)/int64(max(target.Config.Layers, 1)) + s.DraftPass(&head)
}
