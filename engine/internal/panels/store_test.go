package panels

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/tensor"
)

// model is matrices of random numbers, in the order of their use: those of every pass, four of them of two pieces, a
// table of which rows are looked up, and four experts of three matrices each in each of two layers.
type model struct {
	rt   *tensor.Runtime
	data []byte
	want []*tensor.Matrix
	Options
}

const used = 2 // experts of a token

func newModel(tb testing.TB) *model {
	return newModelOf(tb, 64<<10, Part{Rows: 250, Cols: 100, Number: -1})
}

// newModelOf makes a model with pieces of so many bytes, and the large matrices like this one.
func newModelOf(tb testing.TB, piece int64, large Part) *model {
	tb.Helper()
	rt, err := tensor.NewRuntime(tensor.Options{Threads: 2})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(rt.Close)
	m := &model{rt: rt}
	random := rand.New(rand.NewPCG(1, 2))
	add := func(p Part) {
		p.Name, p.From, p.To, p.Source = fmt.Sprintf("matrix %d", len(m.want)), tensor.F32, tensor.F32, int64(len(m.data))
		for range p.Rows * p.Cols {
			m.data = binary.LittleEndian.AppendUint32(m.data, 0x3f000000|random.Uint32()>>9)
		}
		w, err := tensor.Read(context.Background(), rt, bytes.NewReader(m.data), p.Source, p.From, p.Rows, p.Cols, p.To)
		if err != nil {
			tb.Fatal(err)
		}
		m.want = append(m.want, w)
		m.parts(tb, p)
	}
	m.Options = Options{Dir: tb.TempDir(), Layout: &Layout{piece: piece}, Model: "model",
		Identity: &Identity{name: strings.Repeat("0a", 16) + ext, text: []byte("model: random\n")}}
	add(large)
	add(Part{Rows: 50, Cols: 64, Use: Rows, Number: -1})
	for layer := range 2 {
		for i := range 4 {
			if i == 2 {
				add(large)
			}
			add(Part{Rows: 40 + 30*i, Cols: 64, Number: -1})
		}
		for expert := range 4 {
			for range 3 {
				add(Part{Rows: 30, Cols: 64, Group: layer, Number: expert})
			}
		}
	}
	add(large)
	m.Source = bytes.NewReader(m.data)
	return m
}

// parts adds a matrix to the layout.
func (m *model) parts(tb testing.TB, p Part) {
	if _, err := m.Layout.Add(m.rt, p); err != nil {
		tb.Fatal(err)
	}
}

// open opens the store under a budget; 0: everything in memory.
func (m *model) open(tb testing.TB, budget int64) *Store {
	tb.Helper()
	o := m.Options
	if o.Residency = m.Layout.Whole(); budget > 0 {
		o.Residency = m.Layout.Within(budget, used)
	}
	s, err := Open(context.Background(), m.rt, o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// budgets are the least one, some between it and the whole, and 0.
func (m *model) budgets() []int64 {
	least, whole := m.Layout.Least(used), m.Layout.Bytes()
	return []int64{least, least + 4096, (least + whole) / 2, whole - 4096, whole, 0}
}

// groups are the matrices of a pass by product, its experts chosen at random.
func (m *model) groups(random *rand.Rand) (list [][]int) {
	at := []int{0, 2, 3, 4, 5, 6, 19, 20, 21, 22, 23, 36}
	for len(at) > 0 {
		n := min(len(at), 1+random.IntN(3))
		list, at = append(list, at[:n]), at[n:]
		for len(list)%3 == 0 {
			first := []int{7, 24}[random.IntN(2)] + 3*random.IntN(4)
			list = append(list, []int{first, first + 1}, []int{first + 2})
		}
	}
	return list
}

// use holds each group once and compares what is there with what was packed. One that does not come is an error.
func (m *model) use(held *Held, groups [][]int) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, group := range groups {
		for _, i := range group {
			held.Expect(m.Layout.parts[i].w)
			held.Want(m.Layout.parts[i].w)
		}
		held.ReadAhead()
		apart, err := held.Fetch(ctx)
		if err != nil {
			return err
		}
		if apart {
			if len(group) == 1 {
				return fmt.Errorf("matrix %d comes apart", group[0])
			}
			for _, i := range group {
				if err := m.use(held, [][]int{{i}}); err != nil {
					return err
				}
			}
			continue
		}
		for _, i := range group {
			if !bytes.Equal(m.Layout.parts[i].w.Panels(), m.want[i].Panels()) {
				return fmt.Errorf("matrix %d is another one", i)
			}
		}
		held.Release()
	}
	return nil
}

// TestStoreHasWhatWasPacked: whatever is kept, and in whatever order a pass takes them, matrices and rows are those
// of the model's file.
func TestStoreHasWhatWasPacked(t *testing.T) { testStore(t, newModel(t)) }

// TestLongStoreHasWhatWasPacked: with pieces of the size that they have, of which the large matrices have two.
func TestLongStoreHasWhatWasPacked(t *testing.T) {
	testkit.Long(t)
	testStore(t, newModelOf(t, 0, Part{Rows: 1050, Cols: 1000, Number: -1}))
}

func testStore(t *testing.T, m *model) {
	for _, budget := range m.budgets() {
		s := m.open(t, budget)
		random := rand.New(rand.NewPCG(3, uint64(budget)))
		var held Held
		for range 12 {
			if err := m.use(&held, m.groups(random)); err != nil {
				t.Fatalf("%d bytes: %v", budget, err)
			}
			row, got, want := random.IntN(50), make([]float32, 64), make([]float32, 64)
			if err := errors.Join(Row(m.Layout.parts[1].w, row, got), m.want[1].Row(row, want)); err != nil ||
				!slices.Equal(got, want) {
				t.Fatalf("%d bytes: row %d: %v, expected %v: %v", budget, row, got, want, err)
			}
		}
		if read, _ := s.Disk(); (read > 0) != (budget > 0) {
			t.Errorf("%d bytes: %d were read", budget, read)
		}
		s.Close()
	}
}

// TestBudgetIsKept: what a residency takes is never more than its budget, and with more memory a pass reads no more.
func TestBudgetIsKept(t *testing.T) {
	m := newModel(t)
	before := int64(1) << 62
	for budget := m.Layout.Least(used); budget <= m.Layout.Bytes(); budget += 1024 {
		r := m.Layout.Within(budget, used)
		if r.Resident+r.Buffers > budget {
			t.Errorf("%d bytes of %d", r.Resident+r.Buffers, budget)
		}
		if r.Experts < 2*used {
			t.Errorf("%d bytes: room for %d experts", budget, r.Experts)
		}
		if r.PerPass > before+m.Layout.parts[0].bytes {
			t.Errorf("%d bytes: a pass reads %d, with less memory %d", budget, r.PerPass, before)
		}
		before = min(before, r.PerPass)
	}
}

// disk is a file whose reads fail, end early or give other bytes, after some that do not.
type disk struct {
	File
	mu   sync.Mutex
	good int
	how  func(b []byte, n int) (int, error)
}

func (f *disk) ReadAt(b []byte, off int64) (int, error) {
	n, err := f.File.ReadAt(b, off)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.good--; f.good < 0 {
		return f.how(b, n)
	}
	return n, err
}

// TestFailedReadIsAnError: of a read that fails or brings other bytes the error names the file, nothing wrong is ever
// held, and on a good disk everything is right again.
func TestFailedReadIsAnError(t *testing.T) {
	m := newModel(t)
	s := m.open(t, m.Layout.Least(used))
	random := rand.New(rand.NewPCG(5, 6))
	broken := errors.New("input/output error")
	var held Held
	for name, x := range map[string]struct {
		how  func(b []byte, n int) (int, error)
		want error
	}{
		"error":   {func([]byte, int) (int, error) { return 0, broken }, broken},
		"short":   {func(_ []byte, n int) (int, error) { return n / 2, io.EOF }, io.ErrUnexpectedEOF},
		"changed": {func(b []byte, n int) (int, error) { b[0]++; return n, nil }, ErrDamaged},
	} {
		for good := range 9 {
			bad := &disk{good: good, how: x.how}
			bad.File = s.Replace(nil)
			s.Replace(bad)
			var err error
			for pass := 0; err == nil && pass < 8; pass++ {
				err = m.use(&held, m.groups(random))
			}
			if !errors.Is(err, x.want) || !strings.Contains(err.Error(), s.Name()) {
				t.Fatalf("%s after %d reads: %v", name, good, err)
			}
			s.Replace(bad.File)
			for range len(m.want) { // what was read ahead may have failed
				if err = m.use(&held, m.groups(random)); err == nil {
					break
				}
			}
			if err != nil {
				t.Fatalf("%s: %v on a good disk", name, err)
			}
		}
	}
}

// blocked is a file whose reads wait for a gate.
type blocked struct {
	File
	gate chan struct{}
}

func (f blocked) ReadAt(b []byte, off int64) (int, error) {
	<-f.gate
	return f.File.ReadAt(b, off)
}

// TestFetchEndsWithItsContext: one that waits for the disk returns the context's error and holds nothing; the next is
// right.
func TestFetchEndsWithItsContext(t *testing.T) {
	m := newModel(t)
	s := m.open(t, m.Layout.Least(used))
	var held Held
	ring := slices.IndexFunc(m.Layout.parts, func(p *weight) bool { return !p.bound && p.Use == Products && p.Number < 0 })
	for _, i := range []int{ring, 7} { // 7 is an expert's
		gate := make(chan struct{})
		good := s.Replace(nil)
		s.Replace(blocked{good, gate})
		ctx, cancel := context.WithCancel(context.Background())
		go cancel()
		held.Want(m.Layout.parts[i].w)
		if _, err := held.Fetch(ctx); !errors.Is(err, context.Canceled) || len(held.group) > 0 {
			t.Errorf("matrix %d: %v, %d held", i, err, len(held.group))
		}
		close(gate)
		s.Replace(good)
		if err := m.use(&held, [][]int{{i}}); err != nil {
			t.Error(err)
		}
	}
}

// TestCloseEndsFetches: one that waits for the disk ends with the store, at once, not when the disk has answered.
func TestCloseEndsFetches(t *testing.T) {
	m := newModel(t)
	s := m.open(t, m.Layout.Least(used))
	ring := slices.IndexFunc(m.Layout.parts, func(p *weight) bool { return !p.bound && p.Use == Products && p.Number < 0 })
	gate := make(chan struct{})
	good := s.Replace(nil)
	s.Replace(blocked{good, gate})
	var held Held
	held.Want(m.Layout.parts[ring].w)
	fetched, closed := make(chan error, 1), make(chan struct{})
	go func() {
		_, err := held.Fetch(context.Background())
		fetched <- err
	}()
	for waits := false; !waits; runtime.Gosched() {
		s.mu.Lock()
		waits = s.last != nil // it has the lock until it waits
		s.mu.Unlock()
	}
	go func() {
		s.Close()
		close(closed)
	}()
	select {
	case err := <-fetched:
		if !errors.Is(err, tensor.ErrClosed) {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it waits for the disk")
	}
	close(gate)
	<-closed
}

// TestEveryPassReadsWhatIsNotKept: what was read ahead is used: passes in the same order read each matrix once, also
// where experts that stay are held between them.
func TestEveryPassReadsWhatIsNotKept(t *testing.T) {
	m := newModel(t)
	s := m.open(t, m.Layout.Least(used))
	var held Held
	var groups [][]int // those that go through the ring, by pairs, but for the first
	for i, p := range m.Layout.parts {
		if p.bound || p.Use != Products || p.Number >= 0 {
			continue
		}
		if n := len(groups); n > 1 && len(groups[n-1]) == 1 && s.fits([]*weight{m.Layout.parts[groups[n-1][0]], p}) {
			groups[n-1] = append(groups[n-1], i)
		} else {
			groups = append(groups, []int{i})
		}
	}
	each := int64(0)
	for _, g := range groups {
		for _, i := range g {
			each += m.Layout.parts[i].bytes
		}
	}
	var between [][]int
	for i, g := range groups {
		first := []int{7, 24}[i%2] // an expert of each layer
		between = append(between, g, []int{first, first + 1}, []int{first + 2})
	}
	for _, groups := range [][][]int{groups, between} {
		if err := m.use(&held, groups); err != nil {
			t.Fatal(err)
		}
		before, _ := s.Disk()
		const passes = 3
		for range passes {
			if err := m.use(&held, groups); err != nil {
				t.Fatal(err)
			}
		}
		after, _ := s.Disk()
		if after-before > (passes+1)*each {
			t.Errorf("%d bytes are read in %d passes over %d, %d groups", after-before, passes, each, len(groups))
		}
	}
}

// TestReadOnlyWritesNothing: a file that is missing or damaged is an error then; else it is written, again where it
// is damaged.
func TestReadOnlyWritesNothing(t *testing.T) {
	m := newModel(t)
	name := filepath.Join(m.Dir, m.Identity.name)
	open := func(readOnly bool) (announced int, err error) {
		o := m.Options
		o.Residency, o.ReadOnly, o.Announce = m.Layout.Whole(), readOnly,
			func(string, int64) error { announced++; return nil }
		s, err := Open(context.Background(), m.rt, o)
		if err == nil {
			s.Close()
		}
		return announced, err
	}
	if n, err := open(true); !errors.Is(err, os.ErrNotExist) || n > 0 || Exists(m.Dir, m.Identity) {
		t.Errorf("missing: %v, announced %d times", err, n)
	}
	if n, err := open(false); err != nil || n != 1 || !Exists(m.Dir, m.Identity) {
		t.Errorf("written: %v, announced %d times", err, n)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for what, at := range map[string]int{"header": 20, "weights": len(data) - 5000} {
		damaged := slices.Clone(data)
		damaged[at]++
		if err := os.WriteFile(name, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		if n, err := open(true); !errors.Is(err, errOther) && !errors.Is(err, ErrDamaged) || n > 0 {
			t.Errorf("%s: %v, announced %d times", what, err, n)
		}
		if Exists(m.Dir, m.Identity) {
			t.Errorf("%s: the damaged file is still there", what)
		}
		if n, err := open(false); err != nil || n != 1 {
			t.Errorf("%s: %v, announced %d times", what, err, n)
		}
		if again, err := os.ReadFile(name); err != nil || !bytes.Equal(again, data) {
			t.Errorf("%s: it was not written again: %v", what, err)
		}
	}
}
