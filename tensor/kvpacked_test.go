package tensor

import (
	"errors"
	"sync/atomic"
	"testing"
)

// TestKVPacked: the last slots, packed, take the memory of their number, count so, and come back bit for bit, in the
// cache itself and in forks of all and of the first layers; nobody reads or writes them before.
func TestKVPacked(t *testing.T) {
	rt := runtimeOf(t, 2)
	q := queries(20, 1)
	look := func(kv *KV, n int) []float32 {
		return attention(t, rt, q, 0, AttentionSegment{KV: kv, Start: n - 1, Tokens: 1})
	}
	for _, typ := range []KVType{KVF16, KVF32, KVQ8_0, KVQ4_0} {
		for _, n := range []int{1, 18, 128, 129, 256, 273, 384, 390} {
			var used, kept atomic.Int64
			counts := func(what string, kv *KV, bytes int64) {
				t.Helper()
				if kv.Bytes() != bytes || used.Load() != bytes || kept.Load() != bytes || kv.Held(0) != bytes {
					t.Errorf("%v, %d slots %s: %d bytes, %d used, %d kept, want %d", typ, n, what, kv.Bytes(), used.Load(),
						kept.Load(), bytes)
				}
			}
			s := newSequence(t, typ, 10, 600)
			want := look(s.kv, n)
			s.kv.Close()
			kv, err := NewKV(KVShape{Layers: 2, Heads: testHeads, HeadDim: testDim, Type: typ, Context: 2000})
			ok(t, err)
			s.kv = kv
			kv.Meter(&used)
			ok(t, kv.Grow(600))
			for i := range 600 {
				ok(t, s.store(i, i))
				ok(t, kv.Store(0, i, s.k[i*testWidth:][:testWidth], s.v[i*testWidth:][:testWidth]))
			}
			kv.Keep(&kept)
			counts("of 600", kv, used.Load())
			kv.Shrink(n)
			page, slots := int64(kv.pageBytes()), n%KVPage
			bytes := int64((n+KVPage-1)/KVPage) * page
			packed := slots > 0 && slots <= KVPage/2
			if packed {
				bytes += kv.Shape().SlotBytes()*int64(slots) - page
			}
			counts("shrunk", kv, bytes)
			kv.Shrink(n)
			counts("shrunk again", kv, bytes)
			if kv.Packed() != packed {
				t.Errorf("%d slots packed: %t", n, kv.Packed())
			}
			if packed {
				if err := kv.Move(n-1, n-1); !errors.Is(err, ErrShape) {
					t.Errorf("a packed slot is moved: %v", err)
				}
			}
			fork, err := kv.Fork(n)
			ok(t, err)
			sameBits(t, "fork", look(fork, n), want)
			fork.Close()
			first, err := kv.ForkLayers(n, 1)
			ok(t, err)
			o := AttentionOptions{Heads: testHeads * testGroup, Scale: testScale}
			out := make([]float32, len(q))
			ok(t, rt.Attention(out, q, o, []AttentionSegment{{KV: first, Start: n - 1, Tokens: 1}}))
			sameBits(t, "fork of a layer", out, want)
			first.Close()
			counts("after forks", kv, bytes)

			kv.Keep(nil)
			need, before := kv.Need(n, n+1), used.Load()
			ok(t, kv.Grow(n+1))
			if got := used.Load() - before; got != need {
				t.Errorf("%v, %d slots: %d bytes more, Need said %d", typ, n, got, need)
			}
			sameBits(t, "unpacked", look(kv, n), want)
			ok(t, s.store(0, n))
			ok(t, s.store(n, n))
			sameBits(t, "the rest", look(kv, n), want)
			kv.Shrink(n)
			kv.Reset() // what was packed is no page for others
			ok(t, kv.Grow(n))
			for i := range n {
				ok(t, s.store(i, i))
			}
			sameBits(t, "anew", look(kv, n), want)
			kv.Close()
			if used.Load() != 0 || kept.Load() != 0 {
				t.Errorf("%d bytes are left, %d kept", used.Load(), kept.Load())
			}
		}
	}
}
