package synth

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

const (
	blockWeights = 32 // of Q8_0
	blockBytes   = 34
)

// Enlarge is a model of a larger shape that computes the same function as the small one, at the cost of its own size:
// a pair of enlarged models has the acceptance rate of the small pair and the speed of a large one. Its matrices are
// Q8_0.
//
// The residual stream is repeated HiddenSize/small-width times, which leaves RMSNorm and LayerNorm as they are. Every
// matrix that writes the stream writes all copies, every matrix that reads it reads the first copy and has zeros for
// the others. Added heads, units of the feed-forward and layers hold random weights, and zeros where their outputs
// come together. A tied output matrix becomes one of its own, for it would add up the copies. Blocks of 32 weights
// stay whole, so a small model in Q8_0 has the same weights afterwards.
//
// An EAGLE-3 head is enlarged for a target of the same HiddenSize, with one layer.
//
// Of the shape HiddenSize, Layers, Heads, KVHeads and FeedForward count; the rest stays as it is. Every one must be
// able to hold the small model's, and heads keep their size.
func Enlarge(small *gguf.File, s Shape) (*File, error) {
	e, err := newEnlarger(small, s)
	if err != nil {
		return nil, fmt.Errorf("%s: enlarging: %w", small.Name, err)
	}
	switch e.big.Architecture {
	case "llama":
		e.llama()
	case "gpt2":
		e.gpt2()
	case "eagle3":
		e.eagle()
	default:
		e.fail("architecture %q", e.big.Architecture)
	}
	e.readAll()
	if e.err != nil {
		return nil, fmt.Errorf("%s: enlarging: %w", small.Name, e.err)
	}
	return newFile(e.kvs, e.list)
}

// readAll refuses tensors that the large model has nothing of: it would compute something else.
func (e *enlarger) readAll() {
	for _, t := range e.file.Tensors {
		if !e.known[t.Name] {
			e.fail("tensor %q: not a part of the models that can be enlarged", t.Name)
		}
	}
}

type enlarger struct {
	file       *gguf.File
	known      map[string]bool // tensors that were read
	small, big Shape
	head       int // numbers in a head
	kvs        []gguf.KV
	list       []source
	err        error
}

func (e *enlarger) fail(format string, a ...any) {
	if e.err == nil {
		e.err = fmt.Errorf(format, a...)
	}
}

func newEnlarger(f *gguf.File, s Shape) (*enlarger, error) {
	arch, err := f.String("general.architecture")
	if err != nil {
		return nil, err
	}
	e := &enlarger{file: f, known: map[string]bool{}}
	number := func(key string) int {
		n, err := f.Uint32(arch + "." + key)
		if err != nil && e.err == nil {
			e.err = err
		}
		return int(n)
	}
	small := Shape{
		Architecture: arch,
		Context:      number("context_length"),
		HiddenSize:   number("embedding_length"),
		Layers:       number("block_count"),
		Heads:        number("attention.head_count"),
		FeedForward:  number("feed_forward_length"),
	}
	small.KVHeads = small.Heads
	if f.Has(arch + ".attention.head_count_kv") {
		small.KVHeads = number("attention.head_count_kv")
	}
	if t, ok := f.Tensor("token_embd.weight"); ok && len(t.Dims) == 2 {
		small.Vocab = int(t.Dims[1])
	}
	if arch == "eagle3" {
		small.Vocab = number("vocab_size")
		if n := number("target_hidden_size"); n != small.HiddenSize && e.err == nil {
			e.err = fmt.Errorf("a head of width %d for a target of width %d", small.HiddenSize, n)
		}
	}
	if e.err != nil {
		return nil, e.err
	}
	big := s
	big.Architecture, big.Context, big.Vocab = arch, small.Context, small.Vocab
	if arch == "gpt2" {
		big.KVHeads = big.Heads
	}
	e.small, e.big = small, big
	switch {
	case min(small.HiddenSize, small.Layers, small.Heads, small.KVHeads, small.FeedForward, small.Vocab) < 1 ||
		small.HiddenSize%small.Heads != 0 || small.Heads%small.KVHeads != 0:
		return nil, fmt.Errorf("its own shape is %+v", small)
	case min(big.HiddenSize, big.Heads, big.KVHeads) < 1 || big.HiddenSize%small.HiddenSize != 0 ||
		big.Heads%big.KVHeads != 0:
		return nil, fmt.Errorf("a width of %d, %d heads and %d of keys cannot hold %d, %d and %d", big.HiddenSize, big.Heads,
			big.KVHeads, small.HiddenSize, small.Heads, small.KVHeads)
	case big.HiddenSize*small.Heads != small.HiddenSize*big.Heads:
		return nil, fmt.Errorf("heads of %d/%d numbers differ from %d/%d", big.HiddenSize, big.Heads, small.HiddenSize,
			small.Heads)
	case big.KVHeads < small.KVHeads || big.Heads/big.KVHeads < small.Heads/small.KVHeads || big.Layers < small.Layers ||
		big.FeedForward < small.FeedForward:
		return nil, fmt.Errorf("%d layers, %d heads on %d, and %d units are too few for %d, %d on %d, and %d",
			big.Layers, big.Heads, big.KVHeads, big.FeedForward, small.Layers, small.Heads, small.KVHeads, small.FeedForward)
	}
	e.head = small.HiddenSize / small.Heads
	for _, n := range []int{small.HiddenSize, e.head, small.FeedForward, big.FeedForward} {
		if n%blockWeights != 0 {
			return nil, fmt.Errorf("%d numbers are not whole blocks of %d", n, blockWeights)
		}
	}
	own := big.sizes()
	if arch == "eagle3" {
		if big.Layers != 1 {
			return nil, fmt.Errorf("%d layers of a draft head, it has one", big.Layers)
		}
		own = append(own, gguf.KV{Key: "eagle3.target_hidden_size", Value: uint32(big.HiddenSize)})
	}
	for _, kv := range f.KVs {
		if kv.Key != "general.file_type" && kv.Key != "general.alignment" &&
			!slices.ContainsFunc(own, func(o gguf.KV) bool { return o.Key == kv.Key }) {
			e.kvs = append(e.kvs, kv)
		}
	}
	e.kvs = append(e.kvs, own...)
	e.kvs = append(e.kvs, gguf.KV{Key: "general.file_type", Value: uint32(7)})
	return e, nil
}

// An index says which row, or number, of the small model takes place i of the large one; -1 for one that is new.
type index func(i int) int

// same keeps the first n.
func same(n int) index {
	return func(i int) int {
		if i < n {
			return i
		}
		return -1
	}
}

// copies is every copy of the residual stream.
func (e *enlarger) copies(i int) int { return i % e.small.HiddenSize }

// queries keeps every query head beside the keys that it shared with others.
func (e *enlarger) queries(i int) int {
	h, r := i/e.head, i%e.head
	bigGroup, group := e.big.Heads/e.big.KVHeads, e.small.Heads/e.small.KVHeads
	if k, j := h/bigGroup, h%bigGroup; k < e.small.KVHeads && j < group {
		return (k*group+j)*e.head + r
	}
	return -1
}

// fused is queries for the rows of gpt2's one matrix for queries, keys and values.
func (e *enlarger) fused(i int) int {
	if k := e.queries(i % e.big.HiddenSize); k >= 0 {
		return i/e.big.HiddenSize*e.small.HiddenSize + k
	}
	return -1
}

func (e *enlarger) llama() {
	s, b := e.small, e.big
	read, keys := same(s.HiddenSize), same(s.KVHeads*e.head)
	if factors, ok := e.file.Tensor("rope_freqs.weight"); ok { // of each pair of numbers of a head, which keeps its size
		n := int(min(factors.Elements(), uint64(e.head)))
		e.vector(factors.Name, n, same(n), 1)
	}
	e.ends(false)
	biases := []struct {
		name  string
		n     int
		place index
	}{
		{"attn_q.bias", b.HiddenSize, e.queries},
		{"attn_k.bias", b.KVHeads * e.head, keys},
		{"attn_v.bias", b.KVHeads * e.head, keys},
		{"attn_output.bias", b.HiddenSize, e.copies},
	}
	for l := range b.Layers {
		p := fmt.Sprintf("blk.%d.", l)
		e.vector(p+"attn_norm.weight", b.HiddenSize, e.copies, 1)
		e.matrix(p+"attn_q.weight", b.HiddenSize, b.HiddenSize, e.queries, read)
		e.matrix(p+"attn_k.weight", b.KVHeads*e.head, b.HiddenSize, keys, read)
		e.matrix(p+"attn_v.weight", b.KVHeads*e.head, b.HiddenSize, keys, read)
		e.matrix(p+"attn_output.weight", b.HiddenSize, b.HiddenSize, e.copies, e.queries)
		e.vector(p+"ffn_norm.weight", b.HiddenSize, e.copies, 1)
		e.matrix(p+"ffn_gate.weight", b.FeedForward, b.HiddenSize, same(s.FeedForward), read)
		e.matrix(p+"ffn_up.weight", b.FeedForward, b.HiddenSize, same(s.FeedForward), read)
		e.matrix(p+"ffn_down.weight", b.HiddenSize, b.FeedForward, e.copies, same(s.FeedForward))
		for _, bias := range biases {
			if _, ok := e.file.Tensor("blk.0." + bias.name); ok {
				e.vector(p+bias.name, bias.n, bias.place, 0)
			}
		}
	}
}

func (e *enlarger) gpt2() {
	s, b := e.small, e.big
	read, units := same(s.HiddenSize), same(s.FeedForward)
	e.ends(true)
	e.floats("position_embd.weight", b.Context, b.HiddenSize, same(b.Context), e.copies, 0)
	for l := range b.Layers {
		p := fmt.Sprintf("blk.%d.", l)
		e.norm(p+"attn_norm", true)
		e.matrix(p+"attn_qkv.weight", 3*b.HiddenSize, b.HiddenSize, e.fused, read)
		e.vector(p+"attn_qkv.bias", 3*b.HiddenSize, e.fused, 0)
		e.matrix(p+"attn_output.weight", b.HiddenSize, b.HiddenSize, e.copies, e.queries)
		e.vector(p+"attn_output.bias", b.HiddenSize, e.copies, 0)
		e.norm(p+"ffn_norm", true)
		e.matrix(p+"ffn_up.weight", b.FeedForward, b.HiddenSize, units, read)
		e.vector(p+"ffn_up.bias", b.FeedForward, units, 0)
		e.matrix(p+"ffn_down.weight", b.HiddenSize, b.FeedForward, e.copies, units)
		e.vector(p+"ffn_down.bias", b.HiddenSize, e.copies, 0)
	}
}

// ends are the embedding, the last norm and the output matrix.
func (e *enlarger) ends(biased bool) {
	b := e.big
	e.matrix("token_embd.weight", b.Vocab, b.HiddenSize, same(b.Vocab), e.copies)
	e.norm("output_norm", biased)
	name := "output.weight"
	if _, ok := e.file.Tensor(name); !ok {
		name = "token_embd.weight"
		if b.HiddenSize == e.small.HiddenSize {
			return // tied still
		}
	}
	e.rename("output.weight", name, b.Vocab, b.HiddenSize, same(b.Vocab), same(e.small.HiddenSize))
}

func (e *enlarger) norm(name string, biased bool) {
	e.vector(name+".weight", e.big.HiddenSize, e.copies, 1)
	if biased {
		e.vector(name+".bias", e.big.HiddenSize, e.copies, 0)
	}
}

// vector adds a vector in float32; absent is the value of new places.
func (e *enlarger) vector(name string, n int, place index, absent float32) {
	e.floats(name, 1, n, same(1), place, absent)
	if k := len(e.list) - 1; e.err == nil {
		e.list[k].dims = e.list[k].dims[:1]
	}
}

// matrix adds a matrix in Q8_0. New rows are random where the matrix reads the residual stream, and zero where its
// columns meet new units.
func (e *enlarger) matrix(name string, rows, cols int, row, col index) {
	e.rename(name, name, rows, cols, row, col)
}

func (e *enlarger) rename(name, from string, rows, cols int, row, col index) {
	if e.err != nil {
		return
	}
	if layer, ok := layerOf(name); ok && layer >= e.small.Layers {
		// A new layer adds nothing to the residual stream.
		if !strings.HasSuffix(name, "attn_output.weight") && !strings.HasSuffix(name, "ffn_down.weight") {
			e.list = append(e.list, patternOf(gguf.Q8_0).tensor(name, gguf.Q8_0, cols, rows))
			return
		}
		e.list = append(e.list, zeros.tensor(name, gguf.Q8_0, cols, rows))
		return
	}
	data, smallCols := e.blocks(from)
	smallRow := smallCols / blockWeights * blockBytes
	e.within(from, rows, row, len(data)/max(smallRow, 1))
	e.within(from, cols, col, smallCols/blockWeights*blockWeights)
	if e.err != nil {
		return
	}
	noise := patternOf(gguf.Q8_0).tensor(name, gguf.Q8_0, cols, rows)
	m := &enlarged{data: data, rowBytes: int64(cols / blockWeights * blockBytes),
		smallRow: smallRow, row: row, noise: noise.fill}
	for j := 0; j < cols; j += blockWeights {
		at := -1
		if k := col(j); k >= 0 {
			at = k / blockWeights * blockBytes
		}
		m.columns = append(m.columns, at)
	}
	noise.fill = m.fill
	e.list = append(e.list, noise)
}

// within refuses a tensor of the small model that lacks some of the rows, or numbers of a row, that an index names.
func (e *enlarger) within(name string, n int, at index, have int) {
	for i := 0; i < n && e.err == nil; i++ {
		if k := at(i); k >= have {
			e.fail("tensor %q: it has no number %d, of %d, which the model's shape says", name, k, have)
		}
	}
}

// layerOf is the number in "blk.NUMBER.", of which every name of a layer begins.
func layerOf(name string) (layer int, ok bool) {
	n, _ := fmt.Sscanf(name, "blk.%d.", &layer)
	return layer, n == 1
}

// blocks are a small matrix's weights in Q8_0: [rows][cols/32] blocks.
func (e *enlarger) blocks(name string) (data []byte, cols int) {
	t, raw := e.read(name)
	if e.err != nil {
		return nil, 0
	}
	cols = int(t.Dims[0])
	if t.Type == gguf.Q8_0 {
		return raw, cols
	}
	x := e.decode(t, raw)
	data = make([]byte, len(x)/blockWeights*blockBytes)
	if err := tensor.Encode(tensor.Q8_0, data, x); err != nil {
		e.fail("tensor %q: %w", name, err)
	}
	return data, cols
}

func (e *enlarger) read(name string) (t gguf.Tensor, raw []byte) {
	t, ok := e.file.Tensor(name)
	e.known[name] = true
	if !ok || len(t.Dims) == 0 || e.err != nil {
		e.fail("no tensor %q", name)
		return t, nil
	}
	raw = make([]byte, t.Size)
	if n, err := e.file.Reader().ReadAt(raw, t.Offset); n < len(raw) {
		e.fail("tensor %q: %w", name, err)
	}
	return t, raw
}

func (e *enlarger) decode(t gguf.Tensor, raw []byte) []float32 {
	x := make([]float32, t.Elements())
	typ, err := tensor.ParseType(strings.ToLower(t.Type.String()))
	if err == nil {
		err = tensor.Decode(typ, x, raw)
	}
	if err != nil {
		e.fail("tensor %q: %w", t.Name, err)
	}
	return x
}

// floats adds a matrix in float32, the small one's numbers in their places.
func (e *enlarger) floats(name string, rows, cols int, row, col index, absent float32) {
	if e.err != nil {
		return
	}
	var x []float32
	n := 1
	if layer, ok := layerOf(name); !ok || layer < e.small.Layers {
		t, raw := e.read(name)
		if e.err != nil {
			return
		}
		x, n = e.decode(t, raw), int(t.Dims[0])
		e.within(name, rows, row, len(x)/max(n, 1))
		e.within(name, cols, col, n)
	}
	if e.err != nil {
		return
	}
	big := make([]float32, rows*cols)
	for i := range big {
		big[i] = absent
		if r, c := row(i/cols), col(i%cols); len(x) > 0 && r >= 0 && c >= 0 {
			big[i] = x[r*n+c]
		}
	}
	data := make([]byte, 4*len(big))
	if err := tensor.Encode(tensor.F32, data, big); err != nil {
		e.fail("tensor %q: %w", name, err)
	}
	e.list = append(e.list, source{name, gguf.F32, []uint64{uint64(cols), uint64(rows)},
		func(p []byte, at int64) { copy(p, data[at:]) }})
}

// enlarged is a matrix in Q8_0 whose blocks come from a small one.
type enlarged struct {
	data     []byte // the small matrix's blocks
	smallRow int    // bytes of its rows
	rowBytes int64  // bytes of the rows here
	row      index
	columns  []int // of every block of a row: where its original begins in a small row, -1 for zeros
	noise    func(p []byte, at int64)
	scratch  sync.Pool // *[]byte: a row that is wanted in part
}

func (m *enlarged) fill(p []byte, at int64) {
	for len(p) > 0 {
		row, skip := at/m.rowBytes, at%m.rowBytes
		n := min(int64(len(p)), m.rowBytes-skip)
		if n == m.rowBytes {
			m.fillRow(p[:n], row)
		} else {
			scratch, _ := m.scratch.Get().(*[]byte)
			if scratch == nil {
				b := make([]byte, m.rowBytes)
				scratch = &b
			}
			m.fillRow(*scratch, row)
			copy(p, (*scratch)[skip:])
			m.scratch.Put(scratch)
		}
		p, at = p[n:], at+n
	}
}

func (m *enlarged) fillRow(p []byte, row int64) {
	k := m.row(int(row))
	if k < 0 {
		m.noise(p, row*m.rowBytes)
		return
	}
	small := m.data[k*m.smallRow:][:m.smallRow]
	for i, at := range m.columns {
		if block := p[i*blockBytes:][:blockBytes]; at >= 0 {
			copy(block, small[at:][:blockBytes])
		} else {
			clear(block)
		}
	}
}
