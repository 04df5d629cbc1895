package panels

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"path/filepath"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// Identity is what a panel file must be for a model.
type Identity struct {
	name string // of the file, without its directory
	text []byte
	sum  [sha256.Size]byte
}

// Identify finds the name of a model's panel file: of the model's header, size and time, of samples of its weights, and
// of what decides about the packed bytes: the version of the numeric rules, the type that weights are converted to, ""
// for none, and whether it is for the file's MTP blocks.
func Identify(f *gguf.File, rt *tensor.Runtime, rules int, weights string, mtp bool) (*Identity, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%d\n%d\n%s\n%s\n%v\n%d\n%d\n%d\n", version, rules, rt.PanelLayout(), weights, mtp, f.Size(),
		f.Modified.UnixNano(), f.DataOffset)
	if err := gguf.Write(h, f.KVs, nil); err != nil {
		return nil, err
	}
	for _, t := range f.Tensors {
		fmt.Fprintf(h, "%q %d %d %d %d\n", t.Name, t.Type, t.Dims, t.Offset, t.Size)
	}
	if err := sample(h, f); err != nil {
		return nil, err
	}
	id := &Identity{}
	h.Sum(id.sum[:0])
	id.name = hex.EncodeToString(id.sum[:16]) + ext
	path, err := filepath.Abs(f.Name)
	if err != nil {
		path = f.Name
	}
	weights = cmp.Or(weights, "as in the file")
	if mtp {
		weights += ", MTP block"
	}
	id.text = fmt.Appendf(nil, "model: %s\nweights: %s\nlayout: %s\n", gguf.Printable(path, mostText/4), weights,
		rt.PanelLayout())
	return id, nil
}

// sampledTensors is the most matrices that a sample is taken of; a prime number, so that it is not of one kind alone
// that layers repeat. sampledBytes is how much is taken from the middle of each.
const (
	sampledTensors = 61
	sampledBytes   = 4096
)

// sample hashes samples of a model's matrices. Where files are made reproducibly (archives, images of containers) all
// have one time, and models that were trained from one another have one size, and may have one header.
func sample(h io.Writer, f *gguf.File) error {
	var list []gguf.Tensor
	for _, t := range f.Tensors {
		if len(t.Dims) > 1 {
			list = append(list, t)
		}
	}
	b := make([]byte, sampledBytes)
	count := min(len(list), sampledTensors)
	for i := range count {
		t := list[i*len(list)/count]
		part := b[:min(t.Size, sampledBytes)]
		if n, err := f.Reader().ReadAt(part, t.Offset+(t.Size-int64(len(part)))/2); n < len(part) {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		h.Write(part)
	}
	return nil
}

// complete adds the matrices to the identity.
func (id *Identity) complete(m *Layout) [sha256.Size]byte {
	h := sha256.New()
	h.Write(id.sum[:])
	for _, p := range m.parts {
		fmt.Fprintf(h, "%q %d %d %d %v %v %d %d %d\n", p.Name, p.Number, p.Rows, p.Cols, p.From, p.To, p.bytes, p.first,
			p.firstPanel)
	}
	var sum [sha256.Size]byte
	h.Sum(sum[:0])
	return sum
}
