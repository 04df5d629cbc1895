package convert

import (
	"context"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/imatrix"
	"github.com/specgo/spec/tensor"
)

// chunkWeights is about how many weights are converted at once by a thread.
const chunkWeights = 1 << 18

// A Quantization is a GGUF file's tensors with the types that they get.
type Quantization struct {
	Counts        map[string]int // tensors of each type, by its name in small letters
	Bytes, Before int64          // of all weights, as they will be and as they are

	file    *gguf.File
	mixture Mixture
	given   Quantizing
	types   []gguf.Type // of the tensors of file
}

// Quantizing is what is known or wanted beyond a mixture. The zero value is nothing.
type Quantizing struct {
	Importance *imatrix.File  // how much errors of a column matter; nil: not known
	Name       string         // of its file, which the keys quantize.imatrix.… tell
	Output     string         // type of output.weight, or of the token embeddings where those are the output matrix
	Embedding  string         // type of the token embeddings
	Tensors    []TensorChoice // of the other matrices, the first that matches
}

// TensorChoice is the type of all matrices whose names a pattern matches, anywhere in the name unless it has ^ or $.
type TensorChoice struct {
	Pattern *regexp.Regexp
	Type    string
}

// Check refuses types that cannot be written, and choices without a pattern.
func (o *Quantizing) Check() error {
	names := []string{o.Output, o.Embedding}
	for i, c := range o.Tensors {
		switch {
		case c.Pattern == nil:
			return fmt.Errorf("choice %d of tensors, %s: no pattern", i, c.Type)
		case c.Type == "":
			return fmt.Errorf("pattern %q: no type", c.Pattern)
		}
		names = append(names, c.Type)
	}
	for _, name := range names {
		if _, err := writable(name); err != nil && name != "" {
			return err
		}
	}
	return nil
}

// chosen is the type that is wanted for a matrix; ok is false where none is. used counts the matrices of each choice.
func (o *Quantizing) chosen(name string, tied bool, used []int) (t tensor.Type, ok bool) {
	embedding := partOf(name) == embedding
	want := ""
	switch {
	case embedding && o.Embedding != "":
		want = o.Embedding
	case (name == "output.weight" || embedding && tied) && o.Output != "":
		want = o.Output
	default:
		if i := o.match(name); i >= 0 {
			used[i]++
			want = o.Tensors[i].Type
		}
	}
	t, err := writable(want)
	return t, err == nil
}

// match is the first of the choices by names that a name matches; -1: there is none.
func (o *Quantizing) match(name string) int {
	return slices.IndexFunc(o.Tensors, func(c TensorChoice) bool { return c.Pattern.MatchString(name) })
}

// Quantize chooses the types of a file's tensors, and writes nothing yet. Errors name the file and a tensor whose type
// cannot be read. The file must stay open.
func Quantize(f *gguf.File, m Mixture) (*Quantization, error) { return QuantizeBy(f, m, Quantizing{}) }

// QuantizeBy is Quantize with more that is known or wanted. It refuses an importance matrix that has nothing of any
// matrix of the file, or of one with another shape, and patterns that match no matrix.
func QuantizeBy(f *gguf.File, m Mixture, o Quantizing) (*Quantization, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	q := &Quantization{Counts: map[string]int{}, file: f, mixture: m, given: o}
	facts := FactsOf(f)
	facts.Importance = o.Importance != nil
	facts.count(f.Tensors, func(name string) bool { return o.match(name) >= 0 })
	used, known := make([]int, len(o.Tensors)), 0
	for _, t := range f.Tensors {
		to := m.Requantized(t.Name, t.Dims, t.Type, facts)
		if matrix(t.Name, t.Dims) {
			if want, ok := o.chosen(t.Name, facts.Tied, used); ok {
				to = gguf.F16
				if fit, ok := tensor.Fitting(want, int(t.Dims[0])); ok {
					to = FileType(fit)
				}
			}
			w, err := q.importance(t)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", o.Name, err)
			}
			if w != nil {
				known++
			}
		}
		if to != t.Type {
			if _, err := tensorType(t.Type); err != nil {
				return nil, fmt.Errorf("%s: tensor %q: %w", f.Name, t.Name, err)
			}
		}
		size, err := to.Size(t.Dims...)
		if err != nil {
			return nil, fmt.Errorf("%s: tensor %q: %w", f.Name, t.Name, err)
		}
		q.Counts[strings.ToLower(to.String())]++
		q.Bytes, q.Before = q.Bytes+size, q.Before+t.Size
		q.types = append(q.types, to)
	}
	for i, n := range used {
		if n == 0 {
			return nil, fmt.Errorf("%s: no matrix that the pattern %q is for", f.Name, o.Tensors[i].Pattern)
		}
	}
	if o.Importance != nil && known == 0 {
		return nil, fmt.Errorf("%s: it has nothing of any matrix of %s", o.Name, f.Name)
	}
	return q, nil
}

// importance is that of a tensor's columns [matrices][columns]; nil: not known.
func (q *Quantization) importance(t gguf.Tensor) ([]float32, error) {
	if q.given.Importance == nil {
		return nil, nil
	}
	n := t.Elements() / t.Dims[0] / t.Dims[1]
	return q.given.Importance.Weights(t.Name, int(t.Dims[0]), int(n))
}

// Write writes the GGUF file. It calls progress, which may be nil, with the bytes of weights that were read and all of
// them. When ctx ends, so does Write, with its error.
func (q *Quantization) Write(ctx context.Context, w io.Writer, progress func(done, total int64)) error {
	var done int64
	read := func(n int64) {
		if done += n; progress != nil {
			progress(done, q.Before)
		}
	}
	tensors := make([]gguf.TensorSource, len(q.types))
	for i, t := range q.file.Tensors {
		tensors[i] = gguf.TensorSource{Name: t.Name, Type: q.types[i], Dims: t.Dims, Write: func(w io.Writer) error {
			return q.writeTensor(ctx, w, t, q.types[i], read)
		}}
	}
	if err := gguf.Write(w, q.metadata(), tensors); err != nil {
		return err
	}
	return ctx.Err()
}

// splitKeys begin the keys by which a part of a split model names the others.
const splitKeys = "split."

// metadata is the file's own, but for the keys that state the type. What is made of all parts of a split model is no
// part.
func (q *Quantization) metadata() (kvs []gguf.KV) {
	own := []gguf.KV{
		{Key: "general.file_type", Value: q.mixture.FileType},
		{Key: "general.quantization_version", Value: uint32(2)},
	}
	if f := q.given.Importance; f != nil {
		const prefix = "quantize.imatrix."
		own = append(own, gguf.KV{Key: prefix + "file", Value: q.given.Name},
			gguf.KV{Key: prefix + "entries_count", Value: int32(len(f.Tensors))},
			gguf.KV{Key: prefix + "chunks_count", Value: int32(f.Chunks)})
		if len(f.Datasets) > 0 {
			own = append(own, gguf.KV{Key: prefix + "dataset", Value: f.Datasets[0]})
		}
	}
	for key := range q.file.Keys() {
		if q.file.Parts > 1 && strings.HasPrefix(key, splitKeys) {
			continue
		}
		if !slices.ContainsFunc(own, func(kv gguf.KV) bool { return kv.Key == key }) {
			v, _ := q.file.Value(key)
			kvs = append(kvs, gguf.KV{Key: key, Value: v})
		}
	}
	return append(kvs, own...)
}

// writeTensor writes the tensor t of f to w in a type, on all processors; its bytes as they are where that is its own.
// It calls read, in order, with the number of bytes read since the last call. Errors name the file, and gguf.Write the
// tensor; when ctx ends, so does writeTensor, with its error.
func (q *Quantization) writeTensor(ctx context.Context, w io.Writer, t gguf.Tensor, to gguf.Type,
	read func(bytes int64)) error {
	f := q.file
	var importance []float32
	if matrix(t.Name, t.Dims) {
		var err error
		if importance, err = q.importance(t); err != nil {
			return err
		}
	}
	cols := uint64(1)
	if len(t.Dims) > 0 {
		cols = t.Dims[0]
	}
	if cols == 0 {
		return nil
	}
	rows := t.Elements() / cols
	step := max(1, chunkWeights/cols)

	type result struct {
		encoded []byte
		read    int64
		err     error
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pending := make(chan chan result, runtime.GOMAXPROCS(0)) // in the order of the rows
	go func() {
		defer close(pending)
		for at := uint64(0); at < rows; at += step {
			done := make(chan result, 1)
			select {
			case pending <- done:
			case <-ctx.Done():
				return
			}
			go func() {
				var r result
				r.encoded, r.read, r.err = convertRows(f, t, to, at, min(step, rows-at), importance)
				done <- r
			}()
		}
	}()
	for done := range pending {
		r := <-done
		if r.err != nil {
			return fmt.Errorf("%s: %w", f.Name, r.err)
		}
		if _, err := w.Write(r.encoded); err != nil {
			return err
		}
		read(r.read)
	}
	return ctx.Err()
}

// convertRows converts n rows from row on, and says how many bytes it read. importance is that of the tensor's columns,
// or nil.
func convertRows(f *gguf.File, t gguf.Tensor, to gguf.Type, row, n uint64, importance []float32) (
	encoded []byte, read int64, err error) {
	cols := uint64(1)
	if len(t.Dims) > 0 {
		cols = t.Dims[0]
	}
	first, rows := row*cols, n
	n *= cols
	skip, err := t.Type.Size(first)
	if err != nil && first > 0 {
		return nil, 0, err
	}
	size, err := t.Type.Size(n)
	if err != nil {
		return nil, 0, err
	}
	raw := make([]byte, size)
	if k, err := f.Reader().ReadAt(raw, t.Offset+skip); k < len(raw) {
		if err == nil || err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return nil, 0, err
	}
	if t.Type == to {
		return raw, int64(len(raw)), nil
	}
	from, err := tensorType(t.Type)
	if err != nil {
		return nil, 0, err
	}
	into, err := tensorType(to)
	if err != nil {
		return nil, 0, err
	}
	x := make([]float32, n)
	if err := tensor.Decode(from, x, raw); err != nil {
		return nil, 0, err
	}
	if size, err = to.Size(n); err != nil {
		return nil, 0, err
	}
	encoded = make([]byte, size)
	bytes := uint64(size) / rows
	for i := range rows {
		var of []float32
		if importance != nil {
			of = importance[(row+i)/t.Dims[1]*cols:][:cols]
		}
		if err := tensor.EncodeWeighted(into, encoded[i*bytes:][:bytes], x[i*cols:][:cols], of); err != nil {
			return nil, 0, fmt.Errorf("row %d: %w", row+i, err)
		}
	}
	return encoded, int64(len(raw)), nil
}

// tensorType is the type of that name, or an error that gives the name.
func tensorType(t gguf.Type) (tensor.Type, error) {
	typ, err := tensor.ParseType(strings.ToLower(t.String()))
	if err != nil {
		return 0, fmt.Errorf("type %v: %w", t, tensor.ErrType)
	}
	return typ, nil
}
