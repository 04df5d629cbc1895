package tensor

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/specgo/spec/asm"
)

// machineOf is a machine of nodes with those lists of CPUs, on whose CPU a process runs.
func machineOf(runs string, lists ...string) fstest.MapFS {
	m := map[string]string{"proc/self/stat": "7 (a )1 b) S" + zeros(35) + " " + runs + " 0 0\n"}
	for i, list := range lists {
		m[fmt.Sprintf("sys/devices/system/node/node%d/cpulist", i)] = list + "\n"
	}
	return files(m)
}

// zeros is the fields of a process between its state and the CPU that it runs on.
func zeros(n int) (s string) {
	for range n {
		s += " 0"
	}
	return s
}

func upTo(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

// systemOf stands for the system: it notes where the calling thread is bound to.
type systemOf struct {
	threads sync.Map // by thread id: []int
	refuse  atomic.Bool
}

func (s *systemOf) set(cpus []int) error {
	if s.refuse.Load() {
		return errors.New("refused")
	}
	s.threads.Store(unix.Gettid(), cpus)
	return nil
}

// here is where the calling thread is bound to.
func (s *systemOf) here() []int {
	cpus, _ := s.threads.Load(unix.Gettid())
	list, _ := cpus.([]int)
	return list
}

func TestPlacementFollowsTheNodes(t *testing.T) {
	two := machineOf("5", "0-3", "4-7")
	uneven := machineOf("5", "0", "1-2", "3-5")
	smt := machineOf("1", "0-3", "4-7")
	for cpu := range 8 {
		smt[fmt.Sprintf("sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", cpu)] = &fstest.MapFile{
			Data: []byte(fmt.Sprintf("%d-%d\n", cpu&^1, cpu|1))}
	}
	limited := machineOf("5", "0-3", "4-7")
	limited["proc/self/cgroup"] = &fstest.MapFile{Data: []byte("0::/a\n")}
	limited["sys/fs/cgroup/a/cpu.max"] = &fstest.MapFile{Data: []byte("300000 100000\n")}
	for _, c := range []struct {
		name    string
		root    fstest.MapFS
		mode    string
		threads int
		allowed []int
		first   []int
		cpus    [][]int
	}{
		{"all nodes", two, "distribute", 0, upTo(8), []int{0, 4, 8}, [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}}},
		{"what numactl left", two, "numactl", 0, []int{2, 3, 4}, []int{0, 2, 3}, [][]int{{2, 3}, {4}}},
		{"what numactl left is of one node", two, "numactl", 0, []int{2, 3}, []int{0, 2}, nil},
		{"the node it runs on", two, "isolate", 0, upTo(8), []int{0, 4}, [][]int{{4, 5, 6, 7}}},
		{"fewer threads", two, "distribute", 3, upTo(8), []int{0, 1, 3}, [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}}},
		{"fewer threads than nodes", uneven, "distribute", 1, upTo(6), []int{0, 0, 0, 1}, [][]int{{0}, {1, 2}, {3, 4, 5}}},
		{"nodes of several sizes", uneven, "distribute", 12, upTo(6), []int{0, 2, 6, 12}, [][]int{{0}, {1, 2}, {3, 4, 5}}},
		{"two CPUs a core", smt, "distribute", 0, upTo(8), []int{0, 2, 4}, [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}}},
		{"a quota", limited, "distribute", 0, upTo(8), []int{0, 1, 3}, [][]int{{0, 1, 2, 3}, {4, 5, 6, 7}}},
		{"one node", machineOf("0", "0-3"), "isolate", 0, upTo(4), []int{0, 4}, nil},
		{"nothing told", files(nil), "distribute", 0, upTo(4), []int{0, 4}, nil},
	} {
		got, err := placeOn(c.root, c.mode, c.threads, c.allowed, 64, &systemOf{})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if !slices.Equal(got.first, c.first) || !reflect.DeepEqual(got.cpus, c.cpus) {
			t.Errorf("%s: threads %v on %v, want %v on %v", c.name, got.first, got.cpus, c.first, c.cpus)
		}
	}
	for name, root := range map[string]fstest.MapFS{
		"no process": files(map[string]string{"sys/devices/system/node/node0/cpulist": "0",
			"sys/devices/system/node/node1/cpulist": "1"}),
		"of no node": machineOf("9", "0", "1"),
		"nonsense":   machineOf("x", "0", "1"),
	} {
		if _, err := placeOn(root, "isolate", 0, upTo(2), 64, &systemOf{}); !errors.Is(err, ErrNUMA) {
			t.Errorf("isolate, %s: %v", name, err)
		}
	}
	if _, err := NewRuntime(Options{NUMA: "mirror"}); !errors.Is(err, ErrNUMA) {
		t.Errorf("mirror: %v", err)
	}
}

// kernelsHere are the kernels that a Runtime has by default.
func kernelsHere(t *testing.T) asm.Kernels {
	k, err := asm.Select("")
	ok(t, err)
	return k
}

// boundRuntime has threads by first, bound to nodes of a simulated machine.
func boundRuntime(t *testing.T, s *systemOf, first ...int) *Runtime {
	where := placement{first: first, started: []int{-1}, system: s}
	for node := range where.nodes() {
		where.cpus = append(where.cpus, []int{node})
	}
	rt, err := newRuntime(kernelsHere(t), where)
	ok(t, err)
	t.Cleanup(rt.Close)
	return rt
}

// A panel is packed by a thread of the node whose threads multiply it, for every shape of products together: there
// the system puts its pages.
func TestPanelsArePackedByTheNodeThatMultipliesThem(t *testing.T) {
	const cols = 64
	for _, first := range [][]int{{0, 1, 2}, {0, 2, 5}, {0, 0, 3}, {0, 3, 3, 4}} {
		s := &systemOf{}
		rt := boundRuntime(t, s, first...)
		var matrices []*Matrix
		var packed [][]int // node of each panel
		for _, rows := range []int{640, 16, 1, 330, 2000} {
			nodes := make([]int, (rows+15)/16)
			m, err := load(context.Background(), rt, F32, rows, cols, F32, func(_ *loadScratch, row, n int) ([]byte, error) {
				for p := row / 16; p < (row+n+15)/16; p++ {
					nodes[p] = s.here()[0]
				}
				return make([]byte, n*F32.RowBytes(cols)), nil
			})
			ok(t, err)
			matrices, packed = append(matrices, m), append(packed, nodes)
		}
		for _, tokens := range []int{1, 9, 70} {
			var in Input
			ok(t, in.Set(rt, make([]float32, tokens*cols), tokens, cols))
			j := &rt.matmul
			j.in, j.products = &in, nil
			for _, m := range matrices {
				ok(t, in.prepare(rt, m.t))
				j.add(Product{W: m})
			}
			j.cut()
			if got := j.share(rt.Threads()-1, 0, 0); got != rt.Threads()-1 {
				t.Fatalf("threads %v: the last one begins with share %d", first, got)
			}
			seen := map[[3]int]bool{} // product, panel, group of tiles
			for thread := range rt.Threads() {
				next, end := j.shares[thread].take(1<<31, false)
				for item := next; item < end; item++ {
					i := len(j.runs) - 1
					for j.runs[i].first > item {
						i--
					}
					r := j.runs[i]
					panel, group := r.panel+(item-r.first)%r.panels, (item-r.first)/r.panels
					seen[[3]int{r.product, panel, group}] = true
					if at, node := packed[r.product][panel], rt.place.node(thread); at != node {
						t.Fatalf("threads %v, %d tokens: panel %d of product %d was packed on node %d, thread %d of node %d "+
							"multiplies it", first, tokens, panel, r.product, at, thread, node)
					}
				}
			}
			if len(seen) != j.items {
				t.Errorf("threads %v, %d tokens: %d items in the shares, want %d", first, tokens, len(seen), j.items)
			}
			j.forget()
		}
	}
}

// A thread that is done helps its own node before the others, and every share is looked at.
func TestNeighborsComeFirst(t *testing.T) {
	p := placement{first: []int{0, 2, 2, 5, 6}}
	for thread, want := range [][]int{{0, 1, 2, 3, 4, 5}, {1, 0, 2, 3, 4, 5}, {2, 3, 4, 5, 0, 1}, {3, 4, 2, 5, 0, 1},
		{4, 2, 3, 5, 0, 1}, {5, 0, 1, 2, 3, 4}} {
		var got []int
		for i := range p.threads() {
			got = append(got, p.neighbor(thread, i))
		}
		if !slices.Equal(got, want) {
			t.Errorf("thread %d: %v, want %v", thread, got, want)
		}
	}
}

// Products, gathered rows and what a file holds are the same bits, wherever threads run.
func TestPlacementChangesNoBits(t *testing.T) {
	const cols = 256
	plain := runtimeOf(t, 1)
	rows := []int{33, 256, 7}
	product := func(rt *Runtime, tokens int) (all []float32) {
		var list []Product
		for i, n := range rows {
			w, err := Pack(rt, Q8_0, n, cols, rawRows(t, Q8_0, uint64(i), n, cols))
			ok(t, err)
			list = append(list, Product{W: w, Scale: 0.5, Bias: normal(uint64(10+i), n), Out: make([]float32, tokens*n)})
		}
		w, err := Gather(context.Background(), rt, list[1].W, []int32{200, 3, 3, 255, 0})
		ok(t, err)
		list = append(list, Product{W: w, Out: make([]float32, tokens*5)})
		var in Input
		ok(t, in.Set(rt, normal(4, tokens*cols), tokens, cols))
		rt.Lock()
		defer rt.Unlock()
		ok(t, rt.MatMul(&in, list...))
		for _, p := range list {
			all = append(all, p.Out...)
		}
		return all
	}
	for _, tokens := range []int{1, 3, 40} {
		want := product(plain, tokens)
		for _, first := range [][]int{{0, 1, 2}, {0, 2, 3}, {0, 0, 2}, {0, 1, 2, 4}} {
			got := product(boundRuntime(t, &systemOf{}, first...), tokens)
			sameBits(t, fmt.Sprintf("threads %v, %d tokens", first, tokens), got, want)
		}
	}
}

// The row that an error names does not depend on which node's threads were first.
func TestLoadingNamesTheFirstRow(t *testing.T) {
	const rows, cols = 4096, 128
	for range 5 {
		rt := boundRuntime(t, &systemOf{}, 0, 1, 2)
		raw := make([]byte, rows*F32.RowBytes(cols))
		bad := []int{1000 + rand.IntN(1000), 2100, 3000}
		for _, r := range bad {
			le.PutUint32(raw[r*F32.RowBytes(cols):], 0x7fc00000)
		}
		_, err := Pack(rt, F32, rows, cols, raw)
		if want := fmt.Sprintf("row %d: weight 0 is NaN: not a finite number", bad[0]); err == nil || err.Error() != want {
			t.Fatalf("%v, want %s", err, want)
		}
	}
}

// Threads run where the system was told, the caller of a pass among them, and give the CPUs back.
func TestThreadsRunOnTheirNodes(t *testing.T) {
	before := allowedCPUs()
	if len(before) < 2 {
		t.Skip("one CPU")
	}
	root := machineOf("0", fmt.Sprint(before[0]), fmt.Sprint(before[1]))
	where, err := placeOn(root, "distribute", 2, before, 2, linuxAffinity{})
	ok(t, err)
	rt, err := newRuntime(kernelsHere(t), where)
	ok(t, err)
	defer rt.Close()
	if rt.Nodes() != 2 {
		t.Errorf("%d nodes", rt.Nodes())
	}
	got := make([][]int, 2)
	rt.Lock()
	var all sync.WaitGroup
	all.Add(2)
	rt.ParallelThreads(2, func(thread, _ int) {
		got[thread] = allowedCPUs()
		all.Done()
		all.Wait() // so that each takes one
	})
	rt.Unlock()
	if want := [][]int{{before[0]}, {before[1]}}; !reflect.DeepEqual(got, want) {
		t.Errorf("threads ran on CPUs %v, want %v", got, want)
	}
	if after := allowedCPUs(); !slices.Equal(after, before) {
		t.Errorf("the caller may use CPUs %v, before %v", after, before)
	}
	units := make([]atomic.Int32, 100)
	rt.nearby(len(units), func(i int) { units[i].Add(1) })
	for i := range units {
		if n := units[i].Load(); n != 1 {
			t.Fatalf("unit %d was called %d times", i, n)
		}
	}
}

// A system that refuses is an error, and no thread stays behind.
func TestRefusedPlacement(t *testing.T) {
	s := &systemOf{}
	s.refuse.Store(true)
	where := placement{first: []int{0, 1, 4}, cpus: [][]int{{0}, {1}}, system: s}
	if rt, err := newRuntime(kernelsHere(t), where); err == nil || err.Error() != "refused" || rt != nil {
		t.Errorf("%v", err)
	}
}

// A simulated pass on two nodes of 32 threads: an item takes 1 unit of time where its panel lies in the thread's node,
// 2 where it lies in the other. What is read over the link is what threads do that are done before the others.
func TestSimulatedNodesReadTheirOwnMemory(t *testing.T) {
	const cols = 4096
	rt := boundRuntime(t, &systemOf{}, 0, 32, 64)
	var in Input
	ok(t, in.Set(rt, make([]float32, cols), 1, cols))
	j := &rt.matmul
	j.in = &in
	ok(t, in.prepare(rt, Q8_0))
	// simulate is the time of a product and the part of its items that is read from the other node, where some threads of
	// the first node begin later.
	simulate := func(delayed, delay int, rows ...int) (took int, far float64) {
		j.products = j.products[:0]
		size := 0
		for _, n := range rows {
			w, err := NewView(rt, Q8_0, n, cols, t)
			ok(t, err)
			j.add(Product{W: w})
			size = w.panel
		}
		j.cut()
		j.setStep(size, len(j.in.tiles))
		local := j.items / 2 // the first node's items come first; both have equal parts
		clock, at := make([]int, rt.Threads()), make([]int, rt.Threads())
		for i := range delayed {
			clock[i] = delay
		}
		remote := 0
		for {
			thread := -1
			for i := range clock {
				if at[i] < j.parts && (thread < 0 || clock[i] < clock[thread]) {
					thread = i
				}
			}
			if thread < 0 {
				break
			}
			from, to := j.shares[j.share(thread, 0, at[thread])].take(j.step, at[thread] > 0)
			if from == to {
				at[thread]++
				continue
			}
			for item := from; item < to; item++ {
				if clock[thread]++; (item < local) != (thread < 32) {
					clock[thread]++
					remote++
				}
			}
			took = max(took, clock[thread])
		}
		return took, float64(remote) / float64(j.items)
	}
	for _, rows := range [][]int{{4096, 1024, 1024}, {4096}, {14336, 14336}, {128256}} {
		even := 0
		for _, n := range rows {
			even += n / 16
		}
		even /= 64
		took, far := simulate(0, 0, rows...)
		if took > even+1 || far > 0 {
			t.Errorf("rows %v: %d units of time, %.2f %% far, want %d and none", rows, took, 100*far, even)
		}
		for delayed, most := range map[int]float64{1: 0, 16: 0.05, 32: 0.13} {
			took, far = simulate(delayed, even/2, rows...)
			t.Logf("rows %v, %d threads delayed by half of %d units of time: %d, %.1f %% far", rows, delayed, even, took,
				100*far)
			if took > even+even/2+2 || far > most {
				t.Errorf("rows %v, %d threads delayed: %d units of time of %d, %.1f %% far", rows, delayed, took, even, 100*far)
			}
		}
	}
	j.forget()
}
