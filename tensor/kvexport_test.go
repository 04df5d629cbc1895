package tensor

import (
	"bytes"
	"testing"
)

// What is exported is the same bytes however it is cut, comes back bit for bit in any parts, with values of another
// size than keys, and is the documented order: the first number of the first part is that of the first head's first
// dimension.
func TestKVExportComesBack(t *testing.T) {
	for _, typ := range []KVType{KVF16, KVF32, KVQ8_0, KVQ4_0} {
		shape := KVShape{Layers: 2, Heads: 3, HeadDim: 40, ValueDim: 24, Type: typ, Context: 700}
		kv, err := NewKV(shape)
		ok(t, err)
		ok(t, kv.Grow(600))
		k, v := make([]float32, 3*40), make([]float32, 3*24)
		for layer := range 2 {
			for slot := range 600 {
				for i := range k {
					k[i] = float32(1 + (7*slot+3*i+layer)%100)
				}
				for i := range v {
					v[i] = float32(-1 - (5*slot+11*i+layer)%100)
				}
				ok(t, kv.Store(layer, slot, k, v))
			}
		}
		whole, err := kv.Export([]byte("x"), 10, 590)
		ok(t, err)
		if len(whole) != 1+580*int(shape.SlotBytes()) || whole[0] != 'x' {
			t.Fatalf("%v: %d bytes", typ, len(whole))
		}
		other, err := NewKV(shape)
		ok(t, err)
		ok(t, other.Grow(600))
		for _, step := range []int{64, 100} {
			for from := 10; from < 590; from += step {
				to := min(590, from+step)
				part, err := kv.Export(nil, from, to)
				ok(t, err)
				ok(t, other.Import(part, from, to))
			}
			again, err := other.Export(nil, 10, 590)
			ok(t, err)
			if !bytes.Equal(again, whole[1:]) {
				t.Errorf("%v, parts of %d: other bytes", typ, step)
			}
		}
		if err := other.Import(make([]byte, shape.SlotBytes()-1), 20, 21); err == nil {
			t.Error("too few bytes are imported")
		}
		if _, err := other.Export(nil, 500, 601); err == nil && other.Slots() < 601 {
			t.Error("slots are exported that there are not")
		}
		later, err := NewKV(shape)
		ok(t, err)
		ok(t, later.Begin(300))
		ok(t, later.Grow(590))
		if later.First() != KVPage || later.Bytes() != int64(2*later.pageBytes()) {
			t.Errorf("begins at %d with %d bytes", later.First(), later.Bytes())
		}
		part, err := kv.Export(nil, KVPage, 590)
		ok(t, err)
		ok(t, later.Import(part, KVPage, 590))
		if _, err := later.Export(nil, KVPage-1, 300); err == nil {
			t.Error("slots without memory are exported")
		}
		if err := later.Begin(0); err == nil {
			t.Error("a cache with pages begins anew")
		}
	}
}
