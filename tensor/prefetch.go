package tensor

import "github.com/specgo/spec/asm"

// prefetchDistance is how many bytes of weights are prefetched before their use: more than a thread multiplies within
// the latency of memory.
const prefetchDistance = 8 << 10

// prefetchTiles is the most tiles that share the prefetching of the next panels. Lines prefetched too early are
// evicted by activations, and a tile that does not prefetch the next panels can bring the current ones from the L2 to
// the L1 cache.
const prefetchTiles = 4

// reader is the state of one thread's prefetching: how far the weights have been requested from memory. A panel is
// read by several kernel calls, one for each tile or part of one. If the next panel were prefetched during one call
// only, memory would be idle during the others; so the last tiles share the prefetching of the next panels, each in
// proportion to its tokens.
type reader struct {
	w       *Matrix
	next    int // panel after those that are being multiplied
	first   int // index of the first tile that shares the prefetching
	tokens  int // tokens of these tiles
	start   int // bytes of w that must have been prefetched when the first of them begins
	reached int // bytes of w that have been prefetched
	done    int // products of these tiles' tokens with a panel so far
	run     int // the matmulJob's run of the thread's last item
}

// begin moves on to count panels from panel on, which are multiplied together or one after the other. cold reports
// that none of them has been prefetched, because the thread's last panels were not those just before these.
func (r *reader) begin(k *asm.Kernels, w *Matrix, panel, count int, together bool, tiles []asm.Tile) (cold bool) {
	cold = r.w != w || r.next != panel
	r.w, r.next, r.done = w, panel+count, 0
	r.first = max(0, len(tiles)-prefetchTiles)
	r.tokens = (len(tiles)-1-r.first)*asm.TileTokens + tiles[len(tiles)-1].Tokens
	lead := w.panel * count
	if r.first == 0 {
		// The first pass needs all of these panels, while it prefetches only its share of the next ones: the rest of these
		// must have been prefetched before.
		lead -= w.panel * count * k.FirstPass(w.t, tiles[0].Tokens) / r.tokens
		if together {
			lead = max(lead, w.panel) // where the second one begins
		}
	}
	r.start = panel*w.panel + lead + prefetchDistance
	if cold && r.first > 0 {
		r.reached = r.start // by the first tiles, while they multiply
	} else if cold {
		r.reached = 0
	}
	return cold
}

// prefetch is the range to prefetch while n panels are multiplied with a tile. The tiles before r.first prefetch the
// weights of the panels themselves.
func (r *reader) prefetch(panel, n, tile, tokens int) asm.Prefetch {
	if tile < r.first {
		return asm.Prefetch{From: prefetchDistance, Step: n * r.w.step}
	}
	at := panel * r.w.panel
	from := max(r.reached, at+prefetchDistance)
	r.done += n * tokens
	r.reached = max(from, r.start+r.w.panel*r.done/r.tokens)
	return asm.Prefetch{From: from - at, Step: (r.reached - from + r.w.steps - 1) / r.w.steps}
}
