package convert

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"unicode/utf8"

	"github.com/specgo/spec/gguf"
)

// Bounds of a pickle. A list of 80,000 tensors stays below each.
const (
	maxPickle = 64 << 20 // bytes
	maxSteps  = 1 << 22  // opcodes; each makes at most one value
	maxStack  = 1 << 16  // values; picklers enter pairs into a dict in batches of 1,000
	maxMarks  = 64       // tuples, lists and dicts begun inside one another
	maxMemo   = 1 << 21
	maxText   = 1 << 16 // bytes of one text
)

// Values of a pickle: nil, bool, int64, float64, string, tuple, *list, *dict, global, storage and tensorRef.
type (
	tuple  []any
	list   struct{ items []any }
	dict   struct{ items map[string]any }
	global string // module.name

	// storage is an array of elements in a PyTorch file, which tensors are views of.
	storage struct {
		kind  storageKind
		key   string
		count int64
	}
	storageKind struct {
		dtype string
		width int64
	}
	// tensorRef is a view of a storage; offset and strides count elements.
	tensorRef struct {
		storage       storage
		offset        int64
		shape, stride []int64
	}
)

// storageKinds are the classes of storages, with the type's name in safetensors.
var storageKinds = map[global]storageKind{
	"torch.FloatStorage": {"F32", 4}, "torch.HalfStorage": {"F16", 2}, "torch.BFloat16Storage": {"BF16", 2},
	"torch.DoubleStorage": {"F64", 8},
	"torch.LongStorage":   {"I64", 8}, "torch.IntStorage": {"I32", 4}, "torch.ShortStorage": {"I16", 2},
	"torch.CharStorage": {"I8", 1},
	"torch.ByteStorage": {"U8", 1}, "torch.BoolStorage": {"BOOL", 1},
}

// The functions that a state dict names. None is called: what each would make of its arguments is known.
const (
	orderedDict      global = "collections.OrderedDict"
	rebuildTensor    global = "torch._utils._rebuild_tensor"
	rebuildTensorV2  global = "torch._utils._rebuild_tensor_v2"
	rebuildParameter global = "torch._utils._rebuild_parameter"
)

// opcodeNames names the opcodes of which a list of tensors has no need.
var opcodeNames = map[byte]string{
	'0': "POP", '1': "POP_MARK", '2': "DUP", 'F': "FLOAT", 'I': "INT", 'L': "LONG", 'P': "PERSID", 'S': "STRING",
	'T': "BINSTRING", 'U': "SHORT_BINSTRING", 'V': "UNICODE",
	'd': "DICT", 'g': "GET", 'i': "INST", 'l': "LIST", 'o': "OBJ", 'p': "PUT", 0x81: "NEWOBJ", 0x82: "EXT1", 0x83: "EXT2",
	0x84: "EXT4", 0x8b: "LONG4",
	'B': "BINBYTES", 'C': "SHORT_BINBYTES", 0x8e: "BINBYTES8", 0x8f: "EMPTY_SET", 0x90: "ADDITEMS", 0x91: "FROZENSET",
	0x92: "NEWOBJ_EX",
	0x96: "BYTEARRAY8", 0x97: "NEXT_BUFFER", 0x98: "READONLY_BUFFER",
}

// unpickler interprets a pickle of protocol 2 to 5 that holds a state dict. Nothing is executed: the opcodes and
// globals that a state dict needs have fixed meanings here, all others are errors. It keeps the first error.
type unpickler struct {
	r     *bufio.Reader
	at    int64 // bytes read
	stack []any
	marks []int // heights of the stack
	memo  []any
	err   error
}

// load reads one pickle, up to its STOP.
func (u *unpickler) load() (any, error) {
	u.stack, u.marks, u.memo = u.stack[:0], u.marks[:0], u.memo[:0]
	for step := 0; u.err == nil; step++ {
		if step == maxSteps {
			u.fail("more than %d opcodes", maxSteps)
			break
		}
		op := u.number(1)
		if u.err == nil && op == '.' {
			v := u.pop()
			if len(u.stack) > 0 || len(u.marks) > 0 {
				u.fail("%d values and %d marks left at the end", len(u.stack), len(u.marks))
			}
			return v, u.err
		}
		u.step(byte(op))
	}
	return nil, u.err
}

func (u *unpickler) fail(format string, args ...any) {
	if u.err == nil {
		u.err = fmt.Errorf("pickle, byte %d: %s", u.at, fmt.Sprintf(format, args...))
	}
}

// step interprets an opcode.
func (u *unpickler) step(op byte) {
	if u.err != nil {
		return
	}
	switch op {
	case 0x80: // PROTO
		if p := u.number(1); p < 2 || p > 5 {
			u.fail("protocol %d; 2 to 5 are read", p)
		}
	case 0x95: // FRAME
		u.number(8)
	case '(': // MARK
		if len(u.marks) == maxMarks {
			u.fail("more than %d values inside one another", maxMarks)
		}
		u.marks = append(u.marks, len(u.stack))
	case 'N':
		u.push(nil)
	case 0x88, 0x89: // NEWTRUE, NEWFALSE
		u.push(op == 0x88)
	case 'K':
		u.push(u.number(1))
	case 'M':
		u.push(u.number(2))
	case 'J':
		u.push(int64(int32(u.number(4))))
	case 0x8a: // LONG1
		n := u.number(1)
		if n > 8 {
			u.fail("an integer of %d bytes", n)
			return
		}
		x := u.number(int(n))
		if n > 0 {
			x = x << (64 - 8*n) >> (64 - 8*n)
		}
		u.push(x)
	case 'G': // BINFLOAT, big endian
		var b [8]byte
		u.full(b[:])
		u.push(math.Float64frombits(binary.BigEndian.Uint64(b[:])))
	case 0x8c: // SHORT_BINUNICODE
		u.push(u.text(u.number(1)))
	case 'X':
		u.push(u.text(u.number(4)))
	case 0x8d: // BINUNICODE8
		u.push(u.text(u.number(8)))
	case ')':
		u.push(tuple{})
	case 0x85, 0x86, 0x87: // TUPLE1, TUPLE2, TUPLE3
		t := make(tuple, op-0x84)
		for i := len(t) - 1; i >= 0; i-- {
			t[i] = u.pop()
		}
		u.push(t)
	case 't':
		u.push(append(tuple{}, u.toMark()...))
	case ']':
		u.push(&list{})
	case 'a', 'e': // APPEND, APPENDS
		items := u.items(op == 'e', 1)
		if l, ok := u.pop().(*list); ok {
			l.items = append(l.items, items...)
		} else {
			u.fail("APPEND to another value than a list")
		}
		u.restore()
	case '}':
		u.push(&dict{})
	case 's', 'u': // SETITEM, SETITEMS
		items := u.items(op == 'u', 2)
		d, ok := u.pop().(*dict)
		if !ok {
			u.fail("SETITEM in another value than a dict")
			return
		}
		u.restore()
		u.set(d, items)
	case 'q': // BINPUT
		u.put(u.number(1))
	case 'r':
		u.put(u.number(4))
	case 0x94: // MEMOIZE
		u.put(int64(len(u.memo)))
	case 'h': // BINGET
		u.get(u.number(1))
	case 'j':
		u.get(u.number(4))
	case 'c':
		u.global(u.line(), u.line())
	case 0x93: // STACK_GLOBAL
		name, ok := u.pop().(string)
		module, ok2 := u.pop().(string)
		if !ok || !ok2 {
			u.fail("STACK_GLOBAL without two texts")
		}
		u.global(module, name)
	case 'R':
		args, ok := u.pop().(tuple)
		f, ok2 := u.pop().(global)
		if !ok || !ok2 {
			u.fail("REDUCE without a global and a tuple")
			return
		}
		u.push(u.reduce(f, args))
	case 'b': // BUILD: the attribute _metadata of a state dict
		attributes := u.pop()
		if _, ok := attributes.(*dict); !ok {
			u.fail("BUILD with %s", kindOf(attributes))
		}
		d := u.pop()
		if _, ok := d.(*dict); !ok {
			u.fail("BUILD of %s", kindOf(d))
		}
		u.push(d)
	case 'Q': // BINPERSID
		u.push(u.storage(u.pop()))
	default:
		u.fail("opcode %#x (%s): a list of tensors has none", op, opcodeNames[op])
	}
}

// full reads len(b) bytes.
func (u *unpickler) full(b []byte) {
	if u.err != nil {
		return
	}
	if u.at += int64(len(b)); u.at > maxPickle {
		u.fail("more than %d bytes", maxPickle)
		return
	}
	if _, err := io.ReadFull(u.r, b); err != nil {
		u.fail("the end is missing: %v", err)
	}
}

// number reads an integer of n bytes, at most 8, little endian; zero-extended below 8 bytes.
func (u *unpickler) number(n int) int64 {
	var b [8]byte
	u.full(b[:n])
	return int64(binary.LittleEndian.Uint64(b[:]))
}

// text reads a text of n bytes.
func (u *unpickler) text(n int64) string {
	if n < 0 || n > maxText {
		u.fail("a text of %d bytes; %d are the most", uint64(n), maxText)
		return ""
	}
	b := make([]byte, n)
	u.full(b)
	if !utf8.Valid(b) {
		u.fail("a text that is not UTF-8")
	}
	return string(b)
}

// line reads a text up to a newline.
func (u *unpickler) line() string {
	const longest = 256
	var b []byte
	for u.err == nil {
		c := byte(u.number(1))
		if c == '\n' {
			break
		}
		if b = append(b, c); len(b) > longest {
			u.fail("a name of more than %d bytes", longest)
		}
	}
	return string(b)
}

func (u *unpickler) push(v any) {
	if len(u.stack) == maxStack {
		u.fail("more than %d values on the stack", maxStack)
		return
	}
	u.stack = append(u.stack, v)
}

// pop takes the top of the stack, which must lie above the last mark.
func (u *unpickler) pop() any {
	n, floor := len(u.stack), 0
	if len(u.marks) > 0 {
		floor = u.marks[len(u.marks)-1]
	}
	if n <= floor {
		u.fail("a value is missing on the stack")
		return nil
	}
	v := u.stack[n-1]
	u.stack = u.stack[:n-1]
	return v
}

// restore undoes the last pop.
func (u *unpickler) restore() {
	if u.err == nil {
		u.stack = u.stack[:len(u.stack)+1]
	}
}

// toMark takes the values above the last mark, and the mark. They are valid until the next push.
func (u *unpickler) toMark() []any {
	if len(u.marks) == 0 {
		u.fail("a mark is missing on the stack")
		return nil
	}
	from := u.marks[len(u.marks)-1]
	u.marks = u.marks[:len(u.marks)-1]
	items := u.stack[from:]
	u.stack = u.stack[:from]
	return items
}

// items takes the values above the last mark, or n values. They are valid until the next push.
func (u *unpickler) items(marked bool, n int) []any {
	if marked {
		return u.toMark()
	}
	for range n {
		u.pop()
	}
	if u.err != nil {
		return nil
	}
	return u.stack[len(u.stack) : len(u.stack)+n]
}

// set enters pairs of keys and values.
func (u *unpickler) set(d *dict, pairs []any) {
	if len(pairs)%2 != 0 {
		u.fail("a key without a value")
		return
	}
	for i := 0; i < len(pairs) && u.err == nil; i += 2 {
		key, ok := pairs[i].(string)
		if !ok {
			u.fail("a key of a dict is %s, not a text", kindOf(pairs[i]))
			return
		}
		if _, twice := d.items[key]; twice {
			u.fail("key %s is there twice", gguf.Printable(key, 80))
		}
		if d.items == nil {
			d.items = map[string]any{}
		}
		d.items[key] = pairs[i+1]
	}
}

// put notes the top of the stack. Picklers number what they note in order.
func (u *unpickler) put(index int64) {
	v := u.pop()
	u.restore()
	switch {
	case u.err != nil:
	case index != int64(len(u.memo)):
		u.fail("memo %d after %d others", index, len(u.memo))
	case index == maxMemo:
		u.fail("more than %d memos", maxMemo)
	default:
		u.memo = append(u.memo, v)
	}
}

func (u *unpickler) get(index int64) {
	if index >= int64(len(u.memo)) {
		u.fail("memo %d of %d", index, len(u.memo))
		return
	}
	u.push(u.memo[index])
}

// global pushes one of the globals that are known.
func (u *unpickler) global(module, name string) {
	g := global(module + "." + name)
	if _, ok := storageKinds[g]; !ok && g != orderedDict && g != rebuildTensor && g != rebuildTensorV2 &&
		g != rebuildParameter {
		u.fail("global %s is refused: a list of tensors needs none but OrderedDict and those that rebuild tensors of "+
			"numbers", gguf.Printable(string(g), 80))
		return
	}
	u.push(g)
}

// reduce is what f would make of its arguments.
func (u *unpickler) reduce(f global, args tuple) any {
	bad := func(what string) any {
		u.fail("%s: %s", f, what)
		return nil
	}
	switch f {
	case orderedDict:
		if len(args) > 0 {
			return bad("arguments, where a state dict has none")
		}
		return &dict{}
	case rebuildParameter: // data, requires_grad, backward_hooks
		if len(args) != 3 {
			return bad(fmt.Sprintf("%d arguments instead of 3", len(args)))
		}
		if _, ok := args[0].(tensorRef); !ok {
			return bad(kindOf(args[0]) + " instead of a tensor")
		}
		return args[0]
	// storage, offset, size, stride; V2: requires_grad, backward_hooks, and metadata where there is some
	case rebuildTensor, rebuildTensorV2:
		if n := len(args); f == rebuildTensor && n != 4 || f == rebuildTensorV2 && n != 6 && n != 7 {
			return bad(fmt.Sprintf("%d arguments", n))
		}
		if len(args) == 7 && args[6] != nil {
			return bad("a tensor with metadata (conjugated or negated)")
		}
		t := tensorRef{}
		var ok [4]bool
		t.storage, ok[0] = args[0].(storage)
		t.offset, ok[1] = args[1].(int64)
		t.shape, ok[2] = integers(args[2])
		t.stride, ok[3] = integers(args[3])
		if ok != [4]bool{true, true, true, true} || len(t.shape) != len(t.stride) {
			return bad("storage, offset, size and stride expected")
		}
		return t
	}
	return bad("called, which is refused")
}

// integers is a tuple of integers, of at most as many as a tensor has dimensions.
func integers(v any) ([]int64, bool) {
	const maxDimensions = 16
	t, ok := v.(tuple)
	if !ok || len(t) > maxDimensions {
		return nil, false
	}
	out := make([]int64, len(t))
	for i, x := range t {
		if out[i], ok = x.(int64); !ok {
			return nil, false
		}
	}
	return out, true
}

// storage is what a persistent id stands for: ("storage", class, key, device, elements); before PyTorch 1.6 with a
// view of another storage at the end, which is None.
func (u *unpickler) storage(id any) storage {
	t, _ := id.(tuple)
	if len(t) == 6 && t[5] == nil {
		t = t[:5]
	}
	if len(t) != 5 || t[0] != any("storage") {
		u.fail("BINPERSID of another value than a storage")
		return storage{}
	}
	class, _ := t[1].(global)
	kind, ok := storageKinds[class]
	key, ok2 := t[2].(string)
	count, ok3 := t[4].(int64)
	if !ok || !ok2 || !ok3 || count < 0 {
		u.fail("a storage without class, key or number of elements")
	}
	return storage{kind, key, count}
}

// kindOf says what a value is.
func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "None"
	case bool:
		return "a bool"
	case int64, float64:
		return "a number"
	case string:
		return "a text"
	case tuple:
		return "a tuple"
	case *list:
		return "a list"
	case *dict:
		return "a dict"
	case global:
		return string(v)
	case storage:
		return "a storage"
	}
	return "a tensor"
}
