package recurrent

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
)

// Saved states: those of all recurrent layers after a number of tokens, as bytes that are the same on every machine.

// Saved lists the numbers of tokens, ascending, that the states are known after without any step: but for 0, which
// needs none.
func (r *State) Saved() []int {
	var list []int
	for _, p := range r.points {
		if p.at > 0 {
			list = append(list, p.at)
		}
	}
	if r.at > 0 && !slices.Contains(list, r.at) {
		list = append(list, r.at)
		slices.Sort(list)
	}
	return list
}

// SavedBytes is the size of the states in that form.
func (r *State) SavedBytes() int { return 4 * r.size }

// Save appends the states after n tokens, one of Saved, to dst: float32 numbers, little-endian, layer by layer.
func (r *State) Save(dst []byte, n int) ([]byte, error) {
	var state []float32
	if i := r.last(n); i >= 0 && r.points[i].at == n {
		state = r.points[i].state
	} else if r.at == n {
		state = r.state
	}
	if state == nil || n <= 0 {
		return dst, fmt.Errorf("no states after %d tokens", n)
	}
	dst = slices.Grow(dst, 4*len(state))
	for _, x := range state {
		dst = binary.LittleEndian.AppendUint32(dst, math.Float32bits(x))
	}
	return dst, nil
}

// MostPoints is how many states beside the last one a state keeps.
func (r *State) MostPoints() int { return r.most }

// Restore has a state begin with the states after n tokens, which Save gave. The state is empty, or has been restored
// to fewer tokens, to which it can be cut back then.
func (r *State) Restore(n int, saved []byte) error {
	last := 0
	if len(r.points) > 0 {
		last = r.points[len(r.points)-1].at
	}
	if len(saved) != r.SavedBytes() || n <= last || r.at > 0 || r.n > 0 {
		return fmt.Errorf("%d bytes of states after %d tokens, of which there are %d", len(saved), n, r.SavedBytes())
	}
	state := make([]float32, r.size)
	for i := range state {
		state[i] = math.Float32frombits(binary.LittleEndian.Uint32(saved[4*i:]))
	}
	r.points = append(r.points, point{at: n, state: state})
	r.at, r.from, r.n = -1, n, 0
	return nil
}
