package convert

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
)

// A writer of PyTorch files, as far as the tests need it.

// pickleWriter writes opcodes; each text and global is noted and fetched as picklers do it.
type pickleWriter struct {
	strings.Builder
	protocol byte
	memo     map[string]int
}

func (p *pickleWriter) number(op byte, size int, n int) {
	p.WriteByte(op)
	p.Write(binary.LittleEndian.AppendUint64(nil, uint64(n))[:size])
}

// once writes a value, or fetches it if it was written before.
func (p *pickleWriter) once(name string, write func()) {
	if at, ok := p.memo[name]; ok {
		p.number('j', 4, at)
		return
	}
	write()
	at := len(p.memo)
	p.memo[name] = at
	switch {
	case p.protocol >= 4:
		p.WriteByte(0x94)
	case at < 256:
		p.number('q', 1, at)
	default:
		p.number('r', 4, at)
	}
}

func (p *pickleWriter) text(s string) {
	p.once("text "+s, func() {
		if p.protocol >= 4 && len(s) < 256 {
			p.number(0x8c, 1, len(s))
		} else {
			p.number('X', 4, len(s))
		}
		p.WriteString(s)
	})
}

func (p *pickleWriter) global(name string) {
	dot := strings.LastIndex(name, ".")
	p.once("global "+name, func() {
		if p.protocol >= 4 {
			p.text(name[:dot])
			p.text(name[dot+1:])
			p.WriteByte(0x93)
			return
		}
		p.WriteString("c" + name[:dot] + "\n" + name[dot+1:] + "\n")
	})
}

func (p *pickleWriter) integer(n int) {
	switch {
	case n >= 0 && n < 256:
		p.number('K', 1, n)
	case n >= 0 && n < 1<<16:
		p.number('M', 2, n)
	case n == int(int32(n)):
		p.number('J', 4, n)
	default:
		p.WriteByte(0x8a)
		p.number(8, 8, n)
	}
}

func (p *pickleWriter) integers(list []int) {
	p.WriteByte('(')
	for _, n := range list {
		p.integer(n)
	}
	p.WriteByte('t')
}

// torchTensor is a tensor in the list of a PyTorch file.
type torchTensor struct {
	name, class, key string
	count, offset    int // of the storage's elements
	shape, strides   []int
	parameter        bool
}

// inRows is the strides of a tensor without gaps.
func inRows(shape []int) []int {
	strides, n := make([]int, len(shape)), 1
	for i := len(shape) - 1; i >= 0; i-- {
		strides[i] = n
		n *= shape[i]
	}
	return strides
}

// statePickle is the pickle of a state dict.
func statePickle(protocol byte, tensors ...torchTensor) string {
	p := &pickleWriter{protocol: protocol, memo: map[string]int{}}
	p.number(0x80, 1, int(protocol))
	if protocol >= 4 {
		p.number(0x95, 8, 1000)
	}
	empty := func() {
		p.global("collections.OrderedDict")
		p.WriteString(")R")
	}
	empty()
	p.WriteByte('(')
	for _, t := range tensors {
		p.text(t.name)
		if t.parameter {
			p.global("torch._utils._rebuild_parameter")
		}
		p.global("torch._utils._rebuild_tensor_v2")
		p.WriteString("((")
		p.text("storage")
		p.global(t.class)
		p.text(t.key)
		p.text("cpu")
		p.integer(t.count)
		p.WriteString("tQ")
		p.integer(t.offset)
		p.integers(t.shape)
		p.integers(t.strides)
		p.WriteByte(0x89)
		empty()
		p.WriteString("tR")
		if t.parameter {
			p.WriteByte(0x88)
			empty()
			p.WriteString("\x87R")
		}
	}
	p.WriteByte('u')
	p.WriteByte('}') // attributes
	p.text("_metadata")
	empty()
	p.text("")
	p.WriteByte('}')
	p.text("version")
	p.WriteString("K\x01ss")
	p.WriteString("sb.")
	return p.String()
}

// zipEntry is an entry of a zip archive; what is said of it may differ from what it holds.
type zipEntry struct {
	name, data string
	method     uint16
	flags      uint16
	packed     int64 // what the directory says of the size in the archive; 0: the truth
	size       int64 // what the directory says of the size; 0: the truth
	large      bool  // sizes and offset are in the directory's ZIP64 field
}

// zipFile writes a zip archive. Entries begin at multiples of 64 bytes, as torch places them.
func zipFile(entries ...zipEntry) string {
	var file, directory []byte
	le := binary.LittleEndian
	for _, e := range entries {
		at := len(file)
		padding := -(at + 30 + len(e.name) + 4) & 63
		file = append(file, "PK\x03\x04"...)
		file = le.AppendUint16(file, 0)
		file = le.AppendUint16(file, e.flags)
		file = le.AppendUint16(file, e.method)
		file = append(file, make([]byte, 8)...)
		file = le.AppendUint32(file, uint32(len(e.data)))
		file = le.AppendUint32(file, uint32(len(e.data)))
		file = le.AppendUint16(file, uint16(len(e.name)))
		file = le.AppendUint16(file, uint16(padding+4))
		file = append(file, e.name+"FB"...)
		file = le.AppendUint16(file, uint16(padding))
		file = append(file, make([]byte, padding)...)
		file = append(file, e.data...)
		packed, size := int64(len(e.data)), int64(len(e.data))
		if e.packed != 0 {
			packed = e.packed
		}
		if e.size != 0 {
			size = e.size
		}
		directory = append(directory, directoryEntry(e, packed, size, int64(at))...)
	}
	return string(file) + zipEnd(string(directory), len(entries), int64(len(file)))
}

func directoryEntry(e zipEntry, packed, size, at int64) []byte {
	le := binary.LittleEndian
	var extra []byte
	sizes := [3]int64{size, packed, at}
	if e.large {
		extra = le.AppendUint16(le.AppendUint16(nil, 1), 24)
		for i, n := range sizes {
			extra = le.AppendUint64(extra, uint64(n))
			sizes[i] = math.MaxUint32
		}
	}
	b := append([]byte("PK\x01\x02"), make([]byte, 4)...)
	b = le.AppendUint16(b, e.flags)
	b = le.AppendUint16(b, e.method)
	b = append(b, make([]byte, 8)...)
	b = le.AppendUint32(b, uint32(sizes[1]))
	b = le.AppendUint32(b, uint32(sizes[0]))
	b = le.AppendUint16(b, uint16(len(e.name)))
	b = le.AppendUint16(b, uint16(len(extra)))
	b = append(b, make([]byte, 10)...)
	b = le.AppendUint32(b, uint32(sizes[2]))
	b = append(b, e.name...)
	return append(b, extra...)
}

// zipEnd is the directory and what follows it; a directory beyond 4 GiB has the ZIP64 records.
func zipEnd(directory string, entries int, at int64) string {
	le := binary.LittleEndian
	var b []byte
	where := uint32(at)
	if at > math.MaxUint32 {
		where = math.MaxUint32
		end := at + int64(len(directory))
		b = append(b, "PK\x06\x06"...)
		b = le.AppendUint64(b, 44)
		b = append(b, make([]byte, 12)...)
		for _, n := range []int64{int64(entries), int64(entries), int64(len(directory)), at} {
			b = le.AppendUint64(b, uint64(n))
		}
		b = append(b, "PK\x06\x07\x00\x00\x00\x00"...)
		b = le.AppendUint64(b, uint64(end))
		b = le.AppendUint32(b, 1)
	}
	b = append(b, "PK\x05\x06\x00\x00\x00\x00"...)
	b = le.AppendUint16(b, uint16(entries))
	b = le.AppendUint16(b, uint16(entries))
	b = le.AppendUint32(b, uint32(len(directory)))
	b = le.AppendUint32(b, where)
	return directory + string(b) + "\x00\x00"
}

// torchFiles writes the folder's safetensors tensors as PyTorch files instead, as many as asked for; several have an
// index. A change of a tensor's count of elements shortens its storage too.
func (s *source) torchFiles(protocol byte, files int, changes ...func(t *torchTensor)) {
	s.t.Helper()
	w, err := openWeights(s.dir)
	if err != nil {
		s.t.Fatal(err)
	}
	defer w.close()
	classes := map[string]string{}
	for class, kind := range storageKinds {
		classes[kind.dtype] = string(class)
	}
	index := map[string]string{}
	for i := range files {
		name := "pytorch_model.bin"
		if files > 1 {
			name = fmt.Sprintf("pytorch_model-%05d-of-%05d.bin", i+1, files)
		}
		var tensors []torchTensor
		entries := []zipEntry{{name: "archive/data.pkl"}, {name: "archive/byteorder", data: "little"},
			{name: "archive/version", data: "3\n"}}
		for k, tensor := range w.names {
			if k%files != i {
				continue
			}
			t := w.tensors[tensor]
			raw := make([]byte, t.size)
			if _, err := t.file.ReadAt(raw, t.at); err != nil {
				s.t.Fatal(err)
			}
			key, kind := fmt.Sprint(k), storageKinds[global(classes[t.dtype])]
			tt := torchTensor{name: tensor, class: classes[t.dtype], key: key, count: len(raw) / int(kind.width),
				shape: t.shape, strides: inRows(t.shape), parameter: k%3 == 0}
			for _, change := range changes {
				change(&tt)
			}
			tensors = append(tensors, tt)
			entries = append(entries, zipEntry{name: "archive/data/" + key,
				data: string(raw[:tt.count*int(kind.width)]), large: k%2 == 0})
			index[tensor] = name
		}
		entries[0].data = statePickle(protocol, tensors...)
		s.file(name, zipFile(entries...))
	}
	if files > 1 {
		data, _ := json.Marshal(map[string]any{"metadata": map[string]int{"total_size": 1}, "weight_map": index})
		s.file("pytorch_model.bin.index.json", string(data))
	}
	old, _ := filepath.Glob(s.dir + "/*.safetensors*")
	for _, name := range old {
		if err := os.Remove(name); err != nil {
			s.t.Fatal(err)
		}
	}
}
