package convert

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/strictjson"
)

// maxHeader bounds the JSON header of a safetensors file, as the format's own reader does.
const maxHeader = 100 << 20

// safetensors reads the header of a safetensors file.
//
// The format: a little-endian uint64, the header's length; the header, {name: {dtype, shape, data_offsets}}, with an
// optional __metadata__ and no name twice; the tensors' bytes, little endian, rows first. Each byte behind the header
// is of one tensor.
func (w *weights) safetensors(f *os.File, size int64) error {
	var length [8]byte
	if _, err := f.ReadAt(length[:], 0); err != nil {
		return fmt.Errorf("no safetensors header: %w", err)
	}
	n := binary.LittleEndian.Uint64(length[:])
	if n > maxHeader || int64(n) > size-8 {
		return fmt.Errorf("a header of %d bytes in a file of %d", n, size)
	}
	raw := make([]byte, n)
	if _, err := f.ReadAt(raw, 8); err != nil {
		return fmt.Errorf("the header: %w", err)
	}
	var entries map[string]json.RawMessage
	if err := strictjson.Unmarshal(raw, &entries); err != nil {
		return fmt.Errorf("the header: %w", err)
	}
	room := size - 8 - int64(n)
	type entry struct {
		Dtype   string  `json:"dtype"`
		Shape   []int64 `json:"shape"`
		Offsets []int64 `json:"data_offsets"`
	}
	type span struct {
		name     string
		from, to int64
	}
	var spans []span
	for name, raw := range entries {
		if name == "__metadata__" {
			continue
		}
		var e entry
		fail := func(format string, args ...any) error {
			return fmt.Errorf("tensor %s: %s", gguf.Printable(name, 80), fmt.Sprintf(format, args...))
		}
		if err := strictjson.Unmarshal(raw, &e); err != nil {
			return fail("%v", err)
		}
		if len(e.Offsets) != 2 || e.Offsets[0] < 0 || e.Offsets[1] < e.Offsets[0] || e.Offsets[1] > room {
			return fail("data_offsets %v, the file has %d bytes of data", e.Offsets, room)
		}
		s := stored{file: f, dtype: e.Dtype, at: 8 + int64(n) + e.Offsets[0], size: e.Offsets[1] - e.Offsets[0]}
		elements, empty := int64(1), slices.Contains(e.Shape, 0)
		for _, d := range e.Shape {
			if d < 0 || d > math.MaxInt32 || !empty && elements > room/d {
				return fail("shape %v, %d bytes", e.Shape, s.size)
			}
			elements *= d
			s.shape = append(s.shape, int(d))
		}
		if width, ok := elementBytes[e.Dtype]; ok && elements*width != s.size {
			return fail("shape %v of %s in %d bytes", e.Shape, e.Dtype, s.size)
		}
		if err := w.put(name, s); err != nil {
			return fail("%v", err)
		}
		spans = append(spans, span{name, e.Offsets[0], e.Offsets[1]})
	}
	slices.SortFunc(spans, func(a, b span) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to), cmp.Compare(a.name, b.name))
	})
	at, before := int64(0), span{}
	for _, s := range append(spans, span{from: room, to: room}) {
		if s.from < at {
			return fmt.Errorf("tensor %s: data_offsets %v, which tensor %s has in part, at %v", gguf.Printable(s.name, 80),
				[]int64{s.from, s.to}, gguf.Printable(before.name, 80), []int64{before.from, before.to})
		}
		if s.from > at {
			return fmt.Errorf("bytes %d to %d of the data are of no tensor", at, s.from)
		}
		at, before = s.to, s
	}
	return nil
}
