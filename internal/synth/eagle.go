package synth

// eagle enlarges an EAGLE-3 head for an enlarged target: the target's layers keep their numbers, since new ones come
// last, and their states are repeated as the residual stream is. What the head shares with its target it shares
// afterwards.
func (e *enlarger) eagle() {
	s, b := e.small, e.big
	for _, name := range []string{"token_embd.weight", "output.weight", "enc.output_norm.weight", "rope_freqs.weight"} {
		if _, ok := e.file.Tensor(name); ok {
			e.fail("a head with %s of its own", name)
		}
	}
	// pieces reads several streams that lie one after the other, the first copy of each.
	pieces := func(i int) int {
		if r := i % b.HiddenSize; r < s.HiddenSize {
			return i/b.HiddenSize*s.HiddenSize + r
		}
		return -1
	}
	keys, units, read := same(s.KVHeads*e.head), same(s.FeedForward), same(s.HiddenSize)
	e.matrix("fc.weight", b.HiddenSize, 3*b.HiddenSize, e.copies, pieces)
	e.norm("output_norm", false)
	const p = "blk.0."
	e.norm(p+"attn_norm", false)
	e.norm(p+"attn_norm_2", false)
	e.matrix(p+"attn_q.weight", b.HiddenSize, 2*b.HiddenSize, e.queries, pieces)
	e.matrix(p+"attn_k.weight", b.KVHeads*e.head, 2*b.HiddenSize, keys, pieces)
	e.matrix(p+"attn_v.weight", b.KVHeads*e.head, 2*b.HiddenSize, keys, pieces)
	e.matrix(p+"attn_output.weight", b.HiddenSize, b.HiddenSize, e.copies, e.queries)
	e.norm(p+"ffn_norm", false)
	e.matrix(p+"ffn_gate.weight", b.FeedForward, b.HiddenSize, units, read)
	e.matrix(p+"ffn_up.weight", b.FeedForward, b.HiddenSize, units, read)
	e.matrix(p+"ffn_down.weight", b.HiddenSize, b.FeedForward, e.copies, units)
}
