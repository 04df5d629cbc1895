package interp

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"unsafe"
)

// vec is the content of a vector register.
type vec [64]byte

// machine is the state of one processor.
type machine struct {
	v     [32]vec
	k     [8]uint64
	g     [16]uint64
	flags struct {
		zero, sign, overflow, carry bool

		noZero, noSign, noOverflow, noCarry bool // what the last instruction left undefined
	}

	tiles tiles

	fn    *Function
	args  unsafe.Pointer // also keeps what it points to where it is
	local uintptr        // the bottom of the local memory
	pc    int
	done  bool
	tmp   [4]vec // operands from memory
	out   vec
}

// region is memory of which only part may be touched.
type region struct {
	low, high, from, to uintptr
	keep                *byte // the memory, where nobody else holds it
}

// Memory that is watched, by address. All else is the machine's own business: what is not mapped faults.
var (
	watching sync.Mutex
	regions  []region
)

// Watch says that of the memory low … high-1 kernels may touch from … to-1 only. The function it returns ends that.
func Watch(low, high, from, to uintptr) (stop func()) {
	return watch(region{low: low, high: high, from: from, to: to})
}

func watch(r region) (stop func()) {
	watching.Lock()
	defer watching.Unlock()
	i, _ := slices.BinarySearchFunc(regions, r.low, func(a region, b uintptr) int {
		if a.low < b {
			return -1
		}
		return 1
	})
	regions = slices.Insert(regions, i, r)
	return func() {
		watching.Lock()
		defer watching.Unlock()
		regions = slices.DeleteFunc(regions, func(a region) bool { return a == r })
	}
}

// check panics if some of n bytes may not be touched.
func (m *machine) check(at uintptr, n int) {
	low, high := 0, len(regions) // the first region that ends after at
	for low < high {
		if mid := (low + high) / 2; regions[mid].high <= at {
			low = mid + 1
		} else {
			high = mid
		}
	}
	if low < len(regions) {
		if r := &regions[low]; at+uintptr(n) > r.low && (at < r.from || at+uintptr(n) > r.to) {
			panic(fmt.Sprintf("touches %d bytes at %d of a slice of %d bytes", n, int64(at)-int64(r.from), r.to-r.from))
		}
	}
}

// bytesAt is not inlined: with a copy of a constant length that follows, Go 1.26's compiler stops with an internal
// error.
//
//go:noinline
func bytesAt(at uintptr, n int) []byte {
	return unsafe.Slice((*byte)(*(*unsafe.Pointer)(unsafe.Pointer(&at))), n)
}

func (m *machine) read(at uintptr, dst []byte) {
	m.check(at, len(dst))
	copy(dst, bytesAt(at, len(dst)))
}

func (m *machine) write(at uintptr, src []byte) {
	m.check(at, len(src))
	copy(bytesAt(at, len(src)), src)
}

// address is where a memory operand lies.
func (m *machine) address(o *operand) uintptr {
	var at uintptr
	switch o.base {
	case baseFP:
		at = uintptr(m.args)
	case baseSP:
		at = m.local
	case baseLocal:
		at = m.local + uintptr(m.fn.Frame)
	case baseStatic:
		s := m.fn.symbols[o.name]
		if s == nil {
			panic("no symbol " + o.name)
		}
		at = uintptr(unsafe.Pointer(&s.whole[symbolGap]))
	default:
		at = uintptr(m.g[o.base])
	}
	at += uintptr(o.imm)
	if o.index >= 0 {
		at += uintptr(m.g[o.index]) * uintptr(o.scale)
	}
	return at
}

// calls run one at a time.
var calls sync.Mutex

// Call executes a function. args points at its parameters and results, size bytes, as ABI0 lays them out. A panic names
// the instruction.
func (p *Program) Call(name string, args unsafe.Pointer, size uintptr) {
	f := p.Functions[name]
	if f == nil {
		panic("no function " + name)
	}
	if int(size) != (f.Params+7)&^7 { // a struct is whole words
		panic(fmt.Sprintf("%s has %d bytes of parameters, called with %d", name, f.Params, size))
	}
	calls.Lock()
	defer calls.Unlock()
	watching.Lock()
	defer watching.Unlock()
	f.Called = true
	m := &machine{fn: f, args: args}
	m.run()
}

// run executes the function from its first instruction on. Registers and local memory start with garbage.
func (m *machine) run() {
	f := m.fn
	for i := range m.v {
		for j := range m.v[i] {
			m.v[i][j] = byte(0x9d + 41*i + 7*j)
		}
	}
	for i := range m.g {
		m.g[i] = 0xdead00000000beef + uint64(i)<<32
	}
	for i := range m.k {
		m.k[i] = 0x5a5a5a5a5a5a5a5a
	}
	const guard = 256
	stack := make([]byte, f.Frame+2*guard+64)
	for i := range stack {
		stack[i] = 0xc3
	}
	bottom := uintptr(unsafe.Pointer(&stack[0]))
	m.local = bottom + guard
	if f.Frame > 0 {
		r := region{bottom, bottom + uintptr(len(stack)), m.local, m.local + uintptr(f.Frame), nil}
		regions = append(regions, r)
		slices.SortFunc(regions, func(a, b region) int { return int(int64(a.low) - int64(b.low)) })
		defer func() { regions = slices.DeleteFunc(regions, func(a region) bool { return a == r }) }()
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if e := recover(); e != nil {
			in := f.Code[m.pc]
			panic(fmt.Sprintf("%s:%d: %s: %s: %v", f.File, in.Line, f.Name, in.Text, e))
		}
	}()
	for !m.done {
		in := f.Code[m.pc]
		in.Executed = true
		at := m.pc
		in.op(m, in)
		if m.pc == at {
			m.pc++
		}
	}
}
