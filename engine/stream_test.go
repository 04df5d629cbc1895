package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/specgo/spec/engine/internal/panels"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/testkit"
)

const (
	targetFile = "../testdata/go-target.q8_0.gguf"
	moeFile    = "../testdata/families/llama-moe.f16.gguf"
	gemma2File = "../testdata/families/gemma2.f16.gguf"
)

// planOf is the memory plan of a file under a limit.
func planOf(tb testing.TB, file string, o Options) *MemoryPlan {
	tb.Helper()
	f, err := gguf.OpenFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	p, err := PlanMemory(f, o, Sessions{})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

// limits are limits of memory between the least one and one that suffices for all but a little.
func limits(tb testing.TB, file string, o Options) []int64 {
	p := planOf(tb, file, o)
	whole := p.Weights + p.Buffers
	return []int64{p.Least, (p.Least + whole) / 2, whole - 4096}
}

func openModel(tb testing.TB, rt *Runtime, file string, o Options) *Model {
	tb.Helper()
	m, err := Open(context.Background(), rt, file, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(m.Close)
	return m
}

// TestStreamed: logits of models whose weights are read from disk are those of the same models in memory, bit for
// bit, however the text is fed.
func TestStreamed(t *testing.T) {
	for _, threads := range []int{1, 3} {
		rt := newRuntime(t, RuntimeOptions{Threads: threads})
		for k, file := range []string{targetFile, moeFile, gemma2File} {
			if threads == 1 && file == targetFile && !testkit.IsLong(t) {
				continue
			}
			whole := openModel(t, rt, file, Options{})
			ids := randomTokens(70, whole.config.Vocab, 1)
			want := eval(t, newSession(t, whole, SessionOptions{}), ids, nil, All)
			cache := t.TempDir()
			for j, limit := range limits(t, file, Options{}) {
				announced := 0
				m := openModel(t, rt, file, Options{Memory: limit, Cache: cache,
					Announce: func(string, int64) error { announced++; return nil }})
				if m.store == nil || m.Bytes() > limit {
					t.Fatalf("%s: %d bytes under a limit of %d", file, m.Bytes(), limit)
				}
				for i, w := range ways {
					if !testkit.IsLong(t) && ((i+j)%3 > 0 || threads == 1 && (i+k)%2 > 0) {
						continue // each way with one limit, on one thread with one file
					}
					sameBits(t, fmt.Sprintf("%s, %d threads, %d bytes, %s", filepath.Base(file), threads, limit, w.name),
						w.feed(t, m, SessionOptions{}, ids), want)
				}
				read, _ := m.Disk()
				if p := m.Memory(); p.Streams() && read < p.PerPass {
					t.Errorf("%s: %d bytes were read, a pass reads %d", file, read, p.PerPass)
				}
				m.Close()
				if j > 0 && announced != 0 {
					t.Errorf("%s: the panel file was written again", file)
				}
			}
		}
	}
}

// TestStreamedVariants: the same for all that the forward passes distinguish, and early exits.
func TestStreamedVariants(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for name, v := range variants() {
		file := filepath.Join(t.TempDir(), name+".gguf")
		if err := os.WriteFile(file, v.File(t), 0o600); err != nil {
			t.Fatal(err)
		}
		whole := openModel(t, rt, file, Options{})
		m := openModel(t, rt, file, Options{Memory: planOf(t, file, Options{}).Least, Cache: t.TempDir()})
		ids := randomTokens(40, whole.config.Vocab, 1)
		a, b := newSession(t, whole, SessionOptions{}), newSession(t, m, SessionOptions{})
		early := SessionOptions{Layers: 1}
		e, f := newSession(t, whole, early), newSession(t, m, early)
		for n := range 3 { // sessions that end after a layer change what follows what
			sameBits(t, name, eval(t, b, ids[n*10:][:10], nil, All), eval(t, a, ids[n*10:][:10], nil, All))
			sameBits(t, name+", one layer", eval(t, f, ids[n*10:][:10], nil, Last), eval(t, e, ids[n*10:][:10], nil, Last))
		}
	}
}

// TestStreamedFamilies: the same for every architecture.
func TestStreamedFamilies(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for i, name := range familyModels(t) {
		if !testkit.IsLong(t) && i%4 != 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			file := testkit.Shared(t, "families/models/"+name+".gguf")
			whole := openModel(t, rt, file, Options{})
			m := openModel(t, rt, file, Options{Memory: planOf(t, file, Options{}).Least, Cache: t.TempDir()})
			n := 60
			if testkit.IsLong(t) {
				n = 300
			}
			ids := randomTokens(min(n, whole.config.Context), whole.config.Vocab, 1)
			a, b := newSession(t, whole, SessionOptions{}), newSession(t, m, SessionOptions{})
			sameBits(t, "prompt", eval(t, b, ids[:len(ids)-9], nil, Last), eval(t, a, ids[:len(ids)-9], nil, Last))
			for _, n := range []int{1, 8} {
				sameBits(t, "more", eval(t, b, ids[:n], nil, All), eval(t, a, ids[:n], nil, All))
			}
			if m.store == nil {
				t.Error("all weights are in memory")
			}
		})
	}
}

// TestLongStreamedFamilies: every family, with more than a page of tokens.
func TestLongStreamedFamilies(t *testing.T) {
	testkit.Long(t)
	TestStreamedFamilies(t)
}

// TestLongStreamed: the larger file with one thread too, and every way with every limit.
func TestLongStreamed(t *testing.T) {
	testkit.Long(t)
	TestStreamed(t)
}

// TestStreamedTypes: the same with converted weights, and every set of kernels.
func TestStreamedTypes(t *testing.T) {
	for _, simd := range []string{"scalar", ""} {
		rt := newRuntime(t, RuntimeOptions{Threads: 1, SIMD: simd})
		cache := t.TempDir()
		types := []string{"q4_0", "q4_k", "f16"} // converting is the same with every set
		switch {
		case testing.Short() || simd == "scalar":
			types = types[:1]
		case !testkit.IsLong(t):
			types = []string{"q4_0", "f16"} // q4_k takes its time
		}
		for _, weights := range types {
			o := Options{Weights: weights}
			whole := openModel(t, rt, targetFile, o)
			o.Memory, o.Cache = planOf(t, targetFile, o).Least, cache
			m := openModel(t, rt, targetFile, o)
			ids := randomTokens(20, whole.config.Vocab, 1)
			sameBits(t, weights, eval(t, newSession(t, m, SessionOptions{}), ids, nil, All),
				eval(t, newSession(t, whole, SessionOptions{}), ids, nil, All))
			if m.WeightTypes() != whole.WeightTypes() {
				t.Errorf("types %s and %s", m.WeightTypes(), whole.WeightTypes())
			}
		}
		if list, err := PanelFiles(cache); err != nil || len(list) != len(types) {
			t.Errorf("%d panel files: %v", len(list), err)
		}
	}
}

// TestLongStreamedTypes: a type of super-blocks too.
func TestLongStreamedTypes(t *testing.T) {
	testkit.Long(t)
	TestStreamedTypes(t)
}

// failing is a file whose reads fail, end early or give other bytes, after some that do not.
type failing struct {
	panels.File
	mu   sync.Mutex
	good int
	how  func(b []byte, n int) (int, error)
}

func (f *failing) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.good--; f.good < 0 && f.how != nil {
		return f.how(b, n)
	}
	return n, err
}

// TestLongStreamFailures: after every number of reads of both files.
func TestLongStreamFailures(t *testing.T) {
	testkit.Long(t)
	TestStreamFailures(t)
}

// TestStreamFailures: a read that fails or brings other bytes fails the pass and names the file; no session moves;
// what follows is right again if the disk is.
func TestStreamFailures(t *testing.T) {
	broken := errors.New("input/output error")
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	for _, file := range []string{targetFile, moeFile} {
		whole := openModel(t, rt, file, Options{})
		m := openModel(t, rt, file, Options{Memory: planOf(t, file, Options{}).Least, Cache: t.TempDir()})
		a, b := newSession(t, whole, SessionOptions{}), newSession(t, m, SessionOptions{})
		for name, x := range map[string]struct {
			how  func(b []byte, n int) (int, error)
			want error
		}{
			"error":   {func([]byte, int) (int, error) { return 0, broken }, broken},
			"short":   {func(b []byte, n int) (int, error) { return n / 2, io.EOF }, io.ErrUnexpectedEOF},
			"changed": {func(b []byte, n int) (int, error) { b[0]++; return n, nil }, ErrDamaged},
		} {
			for good := range 12 {
				if file == targetFile && good%4 > 0 && !testkit.IsLong(t) {
					continue
				}
				ids := randomTokens(3, whole.config.Vocab, uint64(good))
				sameBits(t, name, eval(t, b, ids, nil, All), eval(t, a, ids, nil, All))
				f := &failing{good: good, how: x.how}
				disk := m.store.Replace(nil)
				f.File = disk
				m.store.Replace(f)
				err := error(nil)
				for range 8 { // what was read before suffices for a while
					before := b.Len()
					if _, err = b.Eval(context.Background(), []int32{5}, nil, Last); err != nil {
						if b.Len() != before {
							t.Fatalf("%s: a failed pass moved the session", name)
						}
						break
					}
					eval(t, a, []int32{5}, nil, Last)
				}
				if !errors.Is(err, x.want) || !strings.Contains(err.Error(), m.store.Name()) {
					t.Fatalf("%s after %d reads: %v", name, good, err)
				}
				m.store.Replace(disk)
				// Reads that failed ahead of their use may still fail a pass.
				for range 3 * len(m.sites) {
					if _, err = b.Eval(context.Background(), []int32{6}, nil, Last); err == nil {
						break
					}
				}
				if err != nil {
					t.Fatalf("%s: %v on a good disk", name, err)
				}
				eval(t, a, []int32{6}, nil, Last)
				if err := errors.Join(a.Truncate(0), b.Truncate(0)); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// TestStreamCancel: a pass that waits for a disk ends when its context does, and moves nothing; the next one is
// right. Close waits for a pass.
func TestStreamCancel(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 2})
	for _, file := range []string{targetFile, moeFile} {
		whole := openModel(t, rt, file, Options{})
		m := openModel(t, rt, file, Options{Memory: planOf(t, file, Options{}).Least, Cache: t.TempDir()})
		b := newSession(t, m, SessionOptions{})
		ctx, cancel := context.WithCancel(context.Background())
		gate := make(chan struct{})
		disk := m.store.Replace(nil)
		// The first read of weights, after that of the token's row, ends the context and then waits.
		m.store.Replace(waiting{&failing{File: disk, good: 1, how: func(_ []byte, n int) (int, error) {
			cancel()
			return n, nil
		}}, gate})
		go func() { <-ctx.Done(); time.Sleep(time.Millisecond); close(gate) }()
		go cancel()
		if _, err := b.Eval(ctx, []int32{1}, nil, Last); !errors.Is(err, context.Canceled) || b.Len() != 0 {
			t.Errorf("%v, %d tokens", err, b.Len())
		}
		<-gate
		m.store.Replace(disk)
		ids := []int32{1, 2, 3}
		sameBits(t, "after it", eval(t, b, ids, nil, All), eval(t, newSession(t, whole, SessionOptions{}), ids, nil, All))

		started := make(chan struct{})
		done := make(chan error)
		go func() {
			close(started)
			var err error
			for err == nil {
				_, err = b.Eval(context.Background(), []int32{1}, nil, Last)
			}
			done <- err
		}()
		<-started
		m.Close()
		if err := <-done; !errors.Is(err, ErrClosed) && !errors.Is(err, ErrContextFull) {
			t.Error(err)
		}
		if _, err := b.Eval(context.Background(), []int32{1}, nil, Last); !errors.Is(err, ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	}
}

// waiting is a file whose reads wait for a gate.
type waiting struct {
	panels.File
	gate chan struct{}
}

func (f waiting) ReadAt(b []byte, off int64) (int, error) {
	<-f.gate
	return f.File.ReadAt(b, off)
}

// TestStreamLimitsThreads: as long as a model is read from disk a processor is left over.
func TestStreamLimitsThreads(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: runtime.GOMAXPROCS(0)})
	o := Options{Memory: planOf(t, targetFile, Options{}).Least, Cache: t.TempDir()}
	one, two := openModel(t, rt, targetFile, o), openModel(t, rt, targetFile, o)
	if rt.streams != 2 {
		t.Errorf("%d streams", rt.streams)
	}
	one.Close()
	one.Close()
	two.Close()
	if rt.streams != 0 {
		t.Errorf("%d streams after the end", rt.streams)
	}
	testkit.AtOnce(50, func() { rt.streaming(1) }, func() { rt.streaming(-1) }) // models are opened and closed at once
	if rt.streams != 0 {
		t.Errorf("%d streams after as many ends as beginnings", rt.streams)
	}
}

// TestReadsOfLoopedModels: of a model whose blocks are used several times a pass reads them as often.
func TestReadsOfLoopedModels(t *testing.T) {
	a := askedModels()["nanbeige"]
	read := func(loops uint32) int64 {
		t.Helper()
		keys := a.all()
		keys["num_loops"] = loops
		f := headerOf(t, a.kvs(keys), a.tensors(t, "nanbeige"), "looped.gguf")
		plan, err := PlanMemory(f, Options{}, Sessions{})
		if err != nil {
			t.Fatal(err)
		}
		if plan, err = PlanMemory(f, Options{Memory: plan.Least}, Sessions{}); err != nil || plan.PerPass == 0 {
			t.Fatalf("%+v, %v", plan, err)
		}
		return plan.PerPass
	}
	if once, often := read(1), read(3); often != 3*once {
		t.Errorf("a pass of three rounds reads %d bytes, one of one round %d", often, once)
	}
}
