package tensor

import "github.com/specgo/spec/asm"

// prefetchDistance is how many bytes before their use weights are read: more than what is multiplied while memory answers.
const prefetchDistance = 8 << 10

// prefetchTiles is how many tiles at most share the reading. What is read too early makes room for activations again, and a tile
// that need not read can bring the panel from the second cache to the first.
const prefetchTiles = 4

// reader is how far a thread has read ahead. A panel passes the kernels several times, once for each tile or part of one. If
// it were read in the first pass, memory would be idle in the others; so the last tiles share in reading what follows, each
// by its tokens.
type reader struct {
	w       *Matrix
	next    int // panel after those that are being multiplied
	first   int // of the tiles that share the reading
	tokens  int // of theirs
	start   int // bytes of w that are to have been read when the first of them begins
	reached int // that have been
	done    int // products of their tokens with a panel
}

// begin goes on to count panels, which are multiplied together or one after the other. It reports whether nothing of them has
// been read, for the thread comes from elsewhere.
func (r *reader) begin(k *asm.Kernels, w *Matrix, panel, count int, together bool, tiles []asm.Tile) (cold bool) {
	cold = r.w != w || r.next != panel
	r.w, r.next, r.done = w, panel+count, 0
	r.first = max(0, len(tiles)-prefetchTiles)
	r.tokens = (len(tiles)-1-r.first)*asm.TileTokens + tiles[len(tiles)-1].Tokens
	lead := w.panel * count
	if r.first == 0 {
		// The first pass needs all of the panels, but reads only so much of the next ones: the rest must have been read.
		lead -= w.panel * count * k.FirstPass(w.t, tiles[0].Tokens) / r.tokens
		if together {
			lead = max(lead, w.panel) // where the second one begins
		}
	}
	r.start = panel*w.panel + lead + prefetchDistance
	if cold && r.first > 0 {
		r.reached = r.start // by the first tiles, as they go
	} else if cold {
		r.reached = 0
	}
	return cold
}

// ahead is what to read while n panels are multiplied with a tile; those before the first that share it read on in the panels,
// which are in the second cache by now.
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
