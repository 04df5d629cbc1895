package gguf

import (
	"bytes"
	"errors"
	"io"
	"math"
	"runtime"
	"strings"
	"testing"
)

// damaged are files that Open must refuse, each with what it must say.
var damaged = []struct {
	name, want string
	file       []byte
	offset     int64 // of the FormatError; -1: the error is ErrNotGGUF
}{
	{"empty", "test.gguf: not a GGUF file: it is empty", nil, -1},
	{"png", `test.gguf: not a GGUF file: it starts with "\x89PNG\r\n\x1a\n" (a PNG image)`,
		[]byte("\x89PNG\r\n\x1a\n"), -1},
	{"text", `it starts with "hello"`, []byte("hello"), -1},
	{"one-byte", `it starts with "G"`, []byte("G"), -1},
	{"lfs-pointer", "a Git LFS pointer", []byte("version https://git-lfs.github.com/spec/v1\n"), -1},
	{"safetensors", "a safetensors file, it seems", []byte("\x40\x00\x00\x00\x00\x00\x00\x00{\"__metadata__\""), -1},
	{"magic-only", "header at offset 4: the file ends here: 4 bytes are needed, 0 remain", []byte("GGUF"), 4},
	{"version-0", "GGUF version 0 is not supported", header(0, 0, 0), 4},
	{"version-1", "GGUF version 1 is not supported (versions 2 and 3 are): convert", raw("GGUF").u32(1).u32(0).u32(0), 4},
	{"version-4", "GGUF version 4 is not supported", header(4, 0, 0), 4},
	{"big-endian", "big-endian GGUF (version 3)", raw("GGUF\x00\x00\x00\x03").zeros(16), 4},
	{"counts-cut", "header at offset 16: the file ends here: 8 bytes are needed, 0 remain", raw("GGUF").u32(3).u64(0), 16},
	{"many-tensors", "header at offset 8: 1152921504606846976 tensors cannot be in the 8 bytes that remain",
		header(3, 1<<60, 0), 8},
	{"many-keys", "header at offset 16: 18446744073709551615 keys cannot be in the 0 bytes",
		header(3, 0, math.MaxUint64), 16},
	{"key-length", "key 0 at offset 24: 9223372036854775807 bytes of key cannot be in the 9 bytes",
		header(3, 0, 1).u64(math.MaxInt64).zeros(9), 24},
	{"key-too-long", "65536 bytes of key, at most 65535 are allowed", header(3, 0, 1).u64(65536).zeros(65536 + 5), 24},
	{"key-twice", `key "a" at offset 38: duplicate key`,
		header(3, 0, 2).key("a").typ(ValueBool).u8(1).key("a").typ(ValueBool).u8(1), 38},
	{"value-type", `key "a" at offset 33: unknown value type 13`, header(3, 0, 1).key("a").typ(13).zeros(8), 33},
	{"value-cut", `key "a" at offset 37: the file ends here: 8 bytes are needed, 7 remain`,
		header(3, 0, 1).key("a").typ(ValueFloat64).zeros(7), 37},
	{"bool-2", "bool is 2, neither 0 nor 1", header(3, 0, 1).key("a").typ(ValueBool).u8(2), 37},
	{"bools-2", "bool is 2, neither 0 nor 1",
		header(3, 0, 1).key("a").typ(ValueArray).typ(ValueBool).u64(2).u8(1).u8(2), 50},
	{"string-length", `key "a" at offset 37: 4294967296 bytes of string cannot be in the 3 bytes`,
		header(3, 0, 1).key("a").typ(ValueString).u64(1 << 32).zeros(3), 37},
	{"array-type", `key "a" at offset 37: array of unknown value type 77`,
		header(3, 0, 1).key("a").typ(ValueArray).typ(77).u64(1).zeros(8), 37},
	{"array-length", `key "a" at offset 41: 2305843009213693953 array elements cannot be in the 8 bytes`,
		header(3, 0, 1).key("a").typ(ValueArray).typ(ValueUint64).u64(1<<61 + 1).u64(1), 41},
	{"strings-length", `2305843009213693952 strings cannot be in the 8 bytes`,
		header(3, 0, 1).key("a").typ(ValueArray).typ(ValueString).u64(1 << 61).u64(0), 41},
	{"strings-cut", `key "a" at offset 57: 9 bytes of string cannot be in the 0 bytes`,
		header(3, 0, 1).key("a").typ(ValueArray).typ(ValueString).u64(2).u64(0).u64(9), 57},
	{"arrays-deep", "arrays nested deeper than 4",
		header(3, 0, 1).key("a").typ(ValueArray).typ(ValueArray).u64(1).typ(ValueArray).u64(1).typ(ValueArray).u64(1).typ(
			ValueArray).u64(1).typ(ValueArray).u64(1).zeros(64), 73},
	{"alignment-type", `key "general.alignment" at offset 24: wrong type: int32 where a uint32 is needed`,
		header(3, 0, 1).key("general.alignment").typ(ValueInt32).u32(32), 24},
	{"alignment-24", "alignment 24 is not a power of two",
		header(3, 0, 1).key("general.alignment").typ(ValueUint32).u32(24), 24},
	{"alignment-0", "alignment 0 is not a power of two",
		header(3, 0, 1).key("general.alignment").typ(ValueUint32).u32(0), 24},
	{"tensor-twice", `tensor "w" at offset 57: duplicate tensor name`,
		header(3, 2, 0).tensor("w", F32, 0, 1).tensor("w", F32, 32, 1).pad(32).zeros(64), 57},
	{"dims-5", `tensor "w" at offset 33: 5 dimensions, at most 4 are allowed`,
		header(3, 1, 0).tensor("w", F32, 0, 1, 1, 1, 1, 1).pad(32).zeros(64), 33},
	{"dims-many", `tensor "w" at offset 33: 4294967295 dimensions`,
		header(3, 1, 0).str("w").u32(math.MaxUint32).zeros(99), 33},
	{"dim-0", `tensor "w" at offset 24: dimension 1 is zero`, header(3, 1, 0).tensor("w", F32, 0, 4, 0).pad(32), 24},
	{"dims-overflow", "more elements than can be counted", header(3, 1, 0).tensor("w", F32, 0, 1<<32, 1<<32).pad(32), 24},
	{"bytes-overflow", "more bytes than can be counted", header(3, 1, 0).tensor("w", F32, 0, 1<<62).pad(32), 24},
	{"blocks", "rows of shape [33] are not whole blocks of 32, which Q8_0 needs",
		header(3, 1, 0).tensor("w", Q8_0, 0, 33).pad(32).zeros(99), 24},
	{"type-unknown", "unknown tensor type 99", header(3, 1, 0).tensor("w", 99, 0, 1).pad(32).zeros(99), 24},
	{"type-removed", "type Q4_0_4_4 is no longer part of the format",
		header(3, 1, 0).tensor("w", 31, 0, 32).pad(32).zeros(99), 24},
	{"offset-unaligned", `tensor "w" at offset 49: data offset 16, want 0 for the first tensor`,
		header(3, 1, 0).tensor("w", F32, 16, 1).pad(32).zeros(64), 49},
	{"offset-unaligned-second", `tensor "w" at offset 82: data offset 4, want 32: the end of tensor "v", aligned to 32`,
		header(3, 2, 0).tensor("v", F32, 0, 1).tensor("w", F32, 4, 1).pad(32).zeros(64), 82},
	{"offset-huge", "data offset 18446744073709551584, want 0",
		header(3, 1, 0).tensor("w", F32, math.MaxUint64-31, 1).pad(32).zeros(64), 49},
	{"offset-past-end", "data offset 9223372036854775776, want 0",
		header(3, 1, 0).tensor("w", F32, math.MaxInt64-31, 1).pad(32).zeros(64), 49},
	{"offset-and-size-past-end", "data offset 9223372036854775776, want 0",
		header(3, 1, 0).tensor("w", F32, math.MaxInt64-31, 64).pad(32).zeros(64), 49},
	{"size-past-end", `tensor "w" at offset 128: its 9223372036854775807 bytes of data are not inside the file`,
		header(3, 2, 0).tensor("v", I8, 0, 1).tensor("w", I8, 32, math.MaxInt64).pad(32).zeros(64), 128},
	{"sizes-overflow", `tensor "w" at offset 57: the tensors before it have more bytes than a file can hold`,
		header(3, 3, 0).tensor("v", I8, 0, math.MaxInt64).tensor("w", I8, 1<<63, math.MaxInt64).tensor(
			"x", I8, 0, 1).pad(32).zeros(64), 57},
	{"data-cut", `tensor "w" at offset 64: its 64 bytes of data are not inside the file, which ends at 127: is it cut short?`, header(3, 1, 0).tensor("w", F32, 0, 16).pad(32).zeros(63), 64},
	{"data-missing", "is it cut short?", header(3, 1, 0).tensor("w", F32, 0, 16), 64},
	{"overlap", `tensor "w" at offset 82: data offset 32, want 64: the end of tensor "v", aligned to 32`,
		header(3, 2, 0).tensor("v", F32, 0, 9).tensor("w", F32, 32, 1).pad(32).zeros(68), 82},
	{"overlap-by-one", "data offset 32, want 64",
		header(3, 2, 0).tensor("v", I8, 0, 33).tensor("w", I8, 32, 1).pad(32).zeros(64), 82},
	{"overlap-same", "data offset 0, want 32",
		header(3, 2, 0).tensor("v", F32, 0, 1).tensor("w", F32, 0, 1).pad(32).zeros(64), 82},
	{"gap", "data offset 64, want 32", header(3, 2, 0).tensor("v", F32, 0, 1).tensor(
		"w", F32, 64, 1).pad(32).zeros(96), 82},
	{"swapped", `tensor "v" at offset 49: data offset 32, want 0 for the first tensor`,
		header(3, 2, 0).tensor("v", F32, 32, 1).tensor("w", F32, 0, 1).pad(32).zeros(64), 49},
	{"tail", "data at offset 128: 1 bytes belong to no tensor: is a type or shape wrong?",
		header(3, 1, 0).tensor("w", F32, 0, 9).pad(32).zeros(65), 128},
	{"tail-without-tensors", "data at offset 32: 32 bytes belong to no tensor", header(3, 0, 0).pad(32).zeros(32), 32},
	{"escaped", `tensor "w\x1b[2J\n\u202e" at offset 24: dimension 0 is zero`,
		header(3, 1, 0).tensor("w\x1b[2J\n\u202e", F32, 0, 0).pad(32), 24},
}

func TestDamaged(t *testing.T) {
	for _, test := range damaged {
		t.Run(test.name, func(t *testing.T) {
			f, err := open(test.file)
			if f != nil || err == nil {
				t.Fatalf("opened, want %q", test.want)
			}
			if !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "test.gguf: ") ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("got  %v\nwant %s", err, test.want)
			}
			var format *FormatError
			switch {
			case test.offset < 0:
				if !errors.Is(err, ErrNotGGUF) {
					t.Errorf("%v is not ErrNotGGUF", err)
				}
			case !errors.As(err, &format):
				t.Errorf("%v is not a FormatError", err)
			case format.Offset != test.offset:
				t.Errorf("%v: offset %d, want %d", err, format.Offset, test.offset)
			}
		})
	}
}

// A file cut anywhere gives an error, and so does a reader that ends before the
// size it was said to have.
func TestCut(t *testing.T) {
	b := write(t, sampleKVs(), sampleTensors())
	b = bytes.TrimRight(b, "\x00") // the padding after the last tensor may be missing
	for n := range len(b) {
		if _, err := open(b[:n]); err == nil {
			t.Fatalf("cut to %d of %d bytes, it opens", n, len(b))
		}
	}
	f, err := open(b)
	if err != nil {
		t.Fatal(err)
	}
	for n := range f.DataOffset - f.Alignment {
		_, err := Open(bytes.NewReader(b[:n]), int64(len(b)), "short")
		var format *FormatError
		if !errors.Is(err, io.ErrUnexpectedEOF) || !errors.As(err, &format) || format.Offset != n {
			t.Fatalf("shrunk to %d: %v", n, err)
		}
	}
}

type broken struct{ error }

func (b broken) ReadAt([]byte, int64) (int, error) { return 0, b.error }

func TestReadError(t *testing.T) {
	failing := errors.New("disk on fire")
	if _, err := Open(broken{failing}, 100, "x"); !errors.Is(err, failing) ||
		err.Error() != "x: header at offset 0: disk on fire" {
		t.Error(err)
	}
}

// Damage to any byte may be refused or not, but never crashes, and never makes Open
// allocate much more than the file is long.
func TestFlips(t *testing.T) {
	original := write(t, sampleKVs(), sampleTensors())
	header := len(original) - 700
	for i := range header {
		for _, x := range []byte{0x01, 0x80, 0xff, 0x7f} {
			b := bytes.Clone(original)
			b[i] ^= x
			if n := allocated(func() { open(b) }); n > 1<<20 {
				t.Fatalf("byte %d ^ %#x: %d bytes allocated for a file of %d", i, x, n, len(b))
			}
		}
	}
	for _, test := range damaged {
		if n := allocated(func() { open(test.file) }); n > 1<<20 {
			t.Errorf("%s: %d bytes allocated for a file of %d", test.name, n, len(test.file))
		}
	}
}

// A count of elements is held against the bytes that remain, not against their number: of a
// file of 4 MB, 4 million numbers of 8 bytes are refused before there is room for them.
func TestAllocatesByBytes(t *testing.T) {
	b := header(3, 0, 1).key("a").typ(ValueArray).typ(ValueUint64).u64(4_000_000).zeros(4_000_000)
	if n := allocated(func() { open(b) }); n > 1<<20 {
		t.Errorf("%d bytes allocated for a file of %d", n, len(b))
	}
}

// A header of more than 1 GiB is refused, however large the file is.
func TestHugeHeader(t *testing.T) {
	b := header(3, 0, 1).key("a").typ(ValueArray).typ(ValueUint8).u64(maxHeader)
	var err error
	n := allocated(func() { _, err = Open(bytes.NewReader(b), 1<<40, "huge") })
	if err == nil || !strings.Contains(err.Error(),
		"1073741824 array elements cannot be in the 1073741775 bytes that remain") || n > 1<<20 {
		t.Errorf("%d bytes allocated, %v", n, err)
	}
}

func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestNoTensors(t *testing.T) {
	// Vocabulary files end with the metadata, unpadded.
	f, err := open(header(3, 0, 1).key("a").typ(ValueBool).u8(1))
	if err != nil || f.DataOffset != 64 || len(f.Tensors) != 0 {
		t.Error(f, err)
	}
}

// The padding of the last tensor may be there, be missing, or end anywhere.
func TestLastPadding(t *testing.T) {
	for n := range 25 {
		if _, err := open(header(3, 1, 0).tensor("w", I8, 0, 40).pad(32).zeros(40 + n)); err != nil {
			t.Error(err)
		}
	}
}

// A type that changes the size is noticed, in whichever tensor it is.
func TestWrongType(t *testing.T) {
	for i := range sampleTensors() {
		for typ := range Type(64) {
			tensors := sampleTensors()
			right, _ := tensors[i].Type.Size(tensors[i].Dims...)
			size, err := typ.Size(tensors[i].Dims...)
			if err != nil || size == right {
				continue
			}
			b := write(t, sampleKVs(), tensors)
			name := raw(nil).str(tensors[i].Name)
			at := bytes.Index(b, name) + len(name) + 4 + 8*len(tensors[i].Dims)
			b = append(append(bytes.Clone(b[:at]), raw(nil).u32(uint32(typ))...), b[at+4:]...)
			if _, err := open(b); err == nil && (size+31)/32 != (right+31)/32 {
				t.Errorf("%v read as %v: opened", tensors[i].Name, typ)
			}
		}
	}
}

func TestTensorString(t *testing.T) {
	f, err := open(header(3, 2, 0).tensor("first", F32, 0, 9).tensor("second", F32, 64, 2, 3).pad(32).zeros(64 + 24))
	if err != nil {
		t.Fatal(err)
	}
	if f.Tensors[0].Offset != f.DataOffset || f.Tensors[1].Offset != f.DataOffset+64 {
		t.Error(f.Tensors)
	}
	if s := f.Tensors[1].String(); s != "second F32 [2 3]" || f.Tensors[1].Elements() != 6 {
		t.Error(s, f.Tensors[1].Elements())
	}
	if s := (Tensor{Name: "a\nb"}).String(); s != `a\nb F32 []` {
		t.Error(s)
	}
}

func TestPrintable(t *testing.T) {
	for _, c := range []struct {
		s, want string
		limit   int
	}{
		{"", "", 0}, {"", "", 5}, {"a", "...", 0}, {"blk.0.attn_q.weight", "blk.0.attn_q.weight", 100},
		{`C:\models\"x"`, `C:\models\"x"`, 100}, {"日本語 é", "日本語 é", 6}, {"日本語 é", "日本語...", 3},
		{"a\x1b[31mb\r\n\t\x00\x7f", `a\x1b[31mb\r\n\t\x00\x7f`, 100},
		{"\xff\xc3(\u202e\u200b\u0085'\ufffd", `\xff\xc3(\u202e\u200b\u0085'` + "\ufffd", 100},
		{"\U000e0001\u2028", `\U000e0001\u2028`, 100},
	} {
		if got := Printable(c.s, c.limit); got != c.want {
			t.Errorf("Printable(%q, %d) = %q, want %q", c.s, c.limit, got, c.want)
		}
	}
	if got := quote(strings.Repeat("é\n", 100)); got != `"`+strings.Repeat(`é\n`, 50)+`"...` {
		t.Error(got)
	}
	_, err := Open(bytes.NewReader(nil), 0, "a\nb\x1b")
	if err == nil || err.Error() != `a\nb\x1b: not a GGUF file: it is empty` {
		t.Error(err)
	}
}
