package convert

import (
	"bufio"
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// TestTorchFixtures reads what PyTorch 1.13 wrote (testdata/torch/write.py): protocols 2 and 4 in zip archives, and
// the format before 1.6.
func TestTorchFixtures(t *testing.T) {
	base := func(i, j int) float32 { return float32(6*i+j) / 8 }
	table := func(rows, cols int, at func(i, j int) float32) (x []float32) {
		for i := range rows {
			for j := range cols {
				x = append(x, at(i, j))
			}
		}
		return x
	}
	want := map[string]struct {
		dtype  string
		shape  []int
		values []float32 // nil: cannot be read
	}{
		"f32":        {"F32", []int{4, 6}, table(4, 6, base)},
		"transposed": {"F32", []int{6, 4}, table(6, 4, func(i, j int) float32 { return base(j, i) })},
		"row.2":      {"F32", []int{6}, table(1, 6, func(_, j int) float32 { return base(2, j) })},
		"column.3":   {"F32", []int{4}, table(4, 1, func(i, _ int) float32 { return base(i, 3) })},
		"parameter":  {"F32", []int{2}, []float32{1.5, -2}},
		"f16":        {"F16", []int{1, 3}, []float32{0.5, -1, 65504}},
		"bf16":       {"BF16", []int{2}, []float32{0.5, math.Float32frombits(0x7f62 << 16)}},
		"f64":        {"F64", []int{2}, []float32{0.1, 0.25}},
		"i64":        {"I64", []int{1, 2}, nil},
		"mask":       {"BOOL", []int{1, 1, 2, 3}, nil},
		"scalar":     {"F32", []int{}, []float32{-1e9}},
		"empty":      {"F32", []int{0, 3}, []float32{}},
		"expanded":   {"F32", []int{3, 2}, nil},
	}
	for _, file := range []string{"zip2.bin", "zip4.bin", "old.bin"} {
		w := &weights{tensors: map[string]stored{}}
		if err := w.add("testdata/torch/"+file, []string{"f32", "empty"}, (*weights).torch); err != nil {
			t.Fatal(err)
		}
		defer w.close()
		if len(w.names) != len(want) {
			t.Errorf("%s: tensors %v", file, w.names)
		}
		for name, c := range want {
			s := w.tensors[name]
			if s.dtype != c.dtype || !slices.Equal(s.shape, c.shape) {
				t.Errorf("%s: %s is %s of shape %v, want %s, %v", file, name, s.dtype, s.shape, c.dtype, c.shape)
			}
			x, err := s.read()
			if c.values == nil {
				if err == nil || !strings.Contains(err.Error(), c.dtype) && !strings.Contains(err.Error(), "expanded") {
					t.Errorf("%s: %s: %v", file, name, err)
				}
			} else if err != nil || !slices.Equal(x, c.values) {
				t.Errorf("%s: %s is %v, %v; want %v", file, name, x, err, c.values)
			}
		}
		if _, err := w.tensors["expanded"].read(); err == nil || !strings.Contains(err.Error(), "share bytes") {
			t.Errorf("%s: expanded: %v", file, err)
		}
		// Every cut is an error or, where only padding is lost, no panic.
		whole, err := os.ReadFile("testdata/torch/" + file)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; n < len(whole); n += 31 {
			if err := readTorch(t, string(whole[:n])); err == nil {
				t.Errorf("%s: the first %d bytes of %d are accepted", file, n, len(whole))
			}
		}
	}
}

// readTorch reads the list of tensors in a file, and the tensors.
func readTorch(t testing.TB, data string) error {
	name := filepath.Join(t.TempDir(), "pytorch_model.bin")
	if err := os.WriteFile(name, []byte(data), 0o666); err != nil {
		t.Fatal(err)
	}
	w := &weights{tensors: map[string]stored{}}
	defer w.close()
	if err := w.add(name, nil, (*weights).torch); err != nil {
		return err
	}
	for _, n := range w.names {
		if _, err := w.tensors[n].read(); err != nil && w.tensors[n].problem == "" && elementBytes[w.tensors[n].dtype] > 0 {
			t.Errorf("tensor %q is listed, but %v", n, err)
		}
	}
	return nil
}

// TestTorchModels: a model gives the same GGUF file whichever format its weights are in.
func TestTorchModels(t *testing.T) {
	compare := func(t *testing.T, s *source) {
		t.Helper()
		_, want := converted(t, s.dir, Options{Type: "f16"})
		s.torchFiles(2, 1)
		m, err := Open(s.dir)
		if err != nil {
			t.Fatal(err)
		}
		if m.Close(); m.From != "pytorch_model.bin" {
			t.Errorf("read from %s", m.From)
		}
		if _, got := converted(t, s.dir, Options{Type: "f16"}); !bytes.Equal(got, want) {
			t.Error("another GGUF file from pytorch_model.bin")
		}
	}
	for _, class := range []string{"OPTForCausalLM", "GPTJForCausalLM", "CodeGenForCausalLM",
		"T5ForConditionalGeneration"} {
		t.Run(class, func(t *testing.T) {
			s, config := small(t, class)
			s.file("config.json", config)
			s.weights()
			_, want := converted(t, s.dir, Options{Type: "f32"})
			compare(t, s)
			s.weights()
			s.torchFiles(4, 3)
			if err := os.Remove(s.dir + "/pytorch_model.bin"); err != nil {
				t.Fatal(err)
			}
			if _, got := converted(t, s.dir, Options{Type: "f32"}); !bytes.Equal(got, want) {
				t.Error("another GGUF file from three files")
			}
			m, err := Open(s.dir)
			if err != nil {
				t.Fatal(err)
			}
			if m.Close(); m.From != "pytorch_model.bin.index.json (files: 3)" {
				t.Errorf("read from %s", m.From)
			}
			// safetensors come first, whatever is beside them.
			s.weights()
			s.file("pytorch_model.bin.index.json", "no index")
			if m, err = Open(s.dir); err != nil {
				t.Fatal(err)
			}
			if m.Close(); m.From != "model.safetensors" {
				t.Errorf("read from %s", m.From)
			}
		})
	}
	for _, name := range []string{"opt", "opt-post", "gptj", "codegen", "t5-v10", "t5-v11", "llama", "qwen2", "gptneox"} {
		t.Run(name, func(t *testing.T) {
			dir := testkit.Shared(t, "families/papers/hf", name)
			s := &source{t: t, dir: t.TempDir()}
			if err := os.CopyFS(s.dir, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			compare(t, s)
		})
	}
}

// TestTorchFolders: what is wrong with the files of a folder.
func TestTorchFolders(t *testing.T) {
	for name, c := range map[string]struct {
		change func(s *source)
		want   []string
	}{
		"a file of three": {func(s *source) { os.Remove(s.dir + "/pytorch_model-00002-of-00003.bin") },
			[]string{"pytorch_model-00002-of-00003.bin is not there", "pytorch_model.bin.index.json lists"}},
		"a file twice": {func(s *source) {
			data, _ := os.ReadFile(s.dir + "/pytorch_model-00001-of-00003.bin")
			s.file("pytorch_model-00002-of-00003.bin", string(data))
		}, []string{"00002-of-00003.bin", "in two files"}},
		"an empty file": {func(s *source) {
			s.file("pytorch_model-00002-of-00003.bin", zipFile(zipEntry{name: "a/data.pkl", data: statePickle(2)}))
		}, []string{"00002-of-00003.bin", "is missing: the index promises it"}},
		"another folder": {func(s *source) {
			s.file("pytorch_model.bin.index.json", `{"weight_map": {"a": "../pytorch_model.bin"}}`)
		}, []string{"index.json", "not a file of this folder"}},
		"no JSON": {func(s *source) { s.file("pytorch_model.bin.index.json", `{`) },
			[]string{"pytorch_model.bin.index.json"}},
		"LFS": {func(s *source) {
			s.file("pytorch_model-00001-of-00003.bin", "version https://git-lfs.github.com/spec/v1\n")
		}, []string{"00001-of-00003.bin", "git lfs pull"}},
		"text": {func(s *source) { s.file("pytorch_model-00001-of-00003.bin", "weights") },
			[]string{"00001-of-00003.bin", "neither a zip archive nor"}},
		"expanded": {func(s *source) {
			s.weights()
			s.torchFiles(2, 3, func(t *torchTensor) {
				if t.name == "model.decoder.layers.0.fc1.weight" {
					t.count, t.strides = 8, []int{0, 1}
				}
			})
		}, []string{"layers.0.fc1.weight", "share bytes"}},
	} {
		s, config := small(t, "OPTForCausalLM")
		s.file("config.json", config)
		s.weights()
		s.torchFiles(2, 3)
		c.change(s)
		s.refused(name, c.want)
	}
}

// TestTorchHostile: files that torch.save does not write are refused, by name and without much memory.
func TestTorchHostile(t *testing.T) {
	good := torchTensor{name: "w", class: "torch.FloatStorage", key: "0", count: 4,
		shape: []int{2, 2}, strides: []int{2, 1}}
	data := zipEntry{name: "a/data/0", data: strings.Repeat("\x00\x00\x80\x3f", 4)}
	file := func(pickle string, more ...zipEntry) string {
		return zipFile(append([]zipEntry{{name: "a/data.pkl", data: pickle}}, more...)...)
	}
	tensor := func(change func(t *torchTensor)) string {
		c := good
		change(&c)
		return file(statePickle(2, c), data)
	}
	state := statePickle(2, good)
	entry := func(change func(e *zipEntry)) string {
		e := data
		change(&e)
		return file(state, e)
	}
	if err := readTorch(t, file(state, data)); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ file, want string }{
		"os.system":          {file("\x80\x02cos\nsystem\n(X\x02\x00\x00\x00lstR."), "global os.system is refused"},
		"eval":               {file("\x80\x04\x8c\x08builtins\x8c\x04eval\x93."), "global builtins.eval is refused"},
		"a near name":        {file("\x80\x02ctorch._utils\n_rebuild_tensor_v3\n."), "_rebuild_tensor_v3 is refused"},
		"a split name":       {file("\x80\x02ctorch\n_utils._rebuild_tensor_v2\n(tR."), "arguments"},
		"long name":          {file("\x80\x02c" + strings.Repeat("x", 1000)), "a name of more than"},
		"a storage called":   {file("\x80\x02ctorch\nFloatStorage\n)R."), "torch.FloatStorage: called"},
		"INST":               {file("\x80\x02(ios\nsystem\n."), "INST"},
		"NEWOBJ":             {file("\x80\x02ccollections\nOrderedDict\n)\x81."), "NEWOBJ"},
		"EXT1":               {file("\x80\x02\x82\x01."), "EXT1"},
		"no opcode":          {file("\x80\x02\xff."), "opcode 0xff"},
		"protocol 1":         {file("\x80\x01}."), "protocol 1"},
		"BUILD of an object": {file("\x80\x02ccollections\nOrderedDict\n}b."), "BUILD of collections.OrderedDict"},
		"BUILD with a tuple": {file("\x80\x02})b."), "BUILD with a tuple"},
		"OrderedDict of":     {file("\x80\x02ccollections\nOrderedDict\n]\x85R."), "OrderedDict: arguments"},
		"no STOP":            {file("\x80\x02}"), "the end is missing"},
		"values left":        {file("\x80\x02N}."), "1 values"},
		"POP":                {file("\x80\x02}N0."), "POP"},
		"a mark left":        {file("\x80\x02(N."), "0 values and 1 marks"},
		"empty stack":        {file("\x80\x02."), "a value is missing"},
		"below the mark":     {file("\x80\x02N(\x85."), "a value is missing"},
		"no mark":            {file("\x80\x02Nt."), "a mark is missing"},
		"memo":               {file("\x80\x02h\x05."), "memo 5 of 0"},
		"a huge memo":        {file("\x80\x02}r\xff\xff\xff\xff."), "memo 4294967295"},
		"a long text":        {file("\x80\x02X\xff\xff\xff\x7f."), "a text of 2147483647 bytes"},
		"an endless text":    {file("\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\xff."), "a text of 18446744073709551615 bytes"},
		"not UTF-8":          {file("\x80\x02X\x01\x00\x00\x00\xff."), "not UTF-8"},
		"an odd dict":        {file("\x80\x02}(Nu."), "a key without"},
		"a number as key":    {file("\x80\x02}NNs."), "a key of a dict is None"},
		"a key twice":        {file("\x80\x02}(X\x01\x00\x00\x00aNX\x01\x00\x00\x00aNu."), "a is there twice"},
		"a long integer":     {file("\x80\x02\x8a\x09123456789."), "an integer of 9 bytes"},
		"depth":              {file("\x80\x02" + strings.Repeat("(", 100)), "more than 64"},
		"a deep stack":       {file("\x80\x02" + strings.Repeat("N", maxStack+1)), "values on the stack"},
		"memo out of order":  {file("\x80\x02}q\x01."), "memo 1 after 0"},
		"many steps":         {file("\x80\x02]" + strings.Repeat("Na", maxSteps/2+1)), "more than 4194304 opcodes"},
		"a list":             {file("\x80\x02]."), "holds a list, not a state dict"},
		"a checkpoint":       {file("\x80\x02}X\x05\x00\x00\x00model}s."), "model is a dict, not a tensor"},
		"metadata":           {file(strings.Replace(state, "tR", "}tR", 1), data), "metadata"},
		"no persistent id":   {file("\x80\x02NQ."), "BINPERSID"},

		"negative stride": {tensor(func(t *torchTensor) { t.strides = []int{2, -1} }),
			"tensor w: shape [2 2], strides [2 -1]"},
		"negative offset": {tensor(func(t *torchTensor) { t.offset = -1 }), "tensor w: elements from -1"},
		"offset":          {tensor(func(t *torchTensor) { t.offset = 1 }), "tensor w: elements from 1"},
		"far offset":      {tensor(func(t *torchTensor) { t.offset = math.MaxInt }), "tensor w: elements from"},
		"stride":          {tensor(func(t *torchTensor) { t.strides = []int{3, 1} }), "strides [3 1], the storage has 4"},
		"far stride": {tensor(func(t *torchTensor) {
			t.strides = []int{
				math.MaxInt, math.MaxInt}
		}), "tensor w: elements"},
		"shape": {tensor(func(t *torchTensor) {
			t.shape = []int{1 << 30, 1 << 30}
			t.strides = []int{
				1, 1}
		}), "tensor w: elements"},
		"huge shape":     {tensor(func(t *torchTensor) { t.shape = []int{math.MaxInt, 1} }), "too large"},
		"negative shape": {tensor(func(t *torchTensor) { t.shape = []int{-2, 2} }), "negative"},
		"ranks":          {tensor(func(t *torchTensor) { t.shape = []int{4} }), "size and stride expected"},
		"dimensions": {tensor(func(t *torchTensor) { t.shape = make([]int, 20); t.strides = t.shape }),
			"size and stride expected"},
		"count":          {tensor(func(t *torchTensor) { t.count = 5 }), "5 elements of F32 in 16 bytes"},
		"fewer":          {tensor(func(t *torchTensor) { t.count = 3 }), "3 elements of F32 in 16 bytes"},
		"huge count":     {tensor(func(t *torchTensor) { t.count = math.MaxInt }), "elements of F32 in 16 bytes"},
		"negative count": {tensor(func(t *torchTensor) { t.count = -4 }), "a storage without"},
		"another type": {tensor(func(t *torchTensor) { t.class = "torch.DoubleStorage" }),
			"4 elements of F64 in 16 bytes"},
		"unknown type": {tensor(func(t *torchTensor) { t.class = "torch.ComplexFloatStorage" }),
			"torch.ComplexFloatStorage is refused"},
		"no class": {tensor(func(t *torchTensor) { t.class = "collections.OrderedDict" }), "a storage without class"},
		"unknown key": {tensor(func(t *torchTensor) { t.key = "../0" }),
			"tensor w: storage ../0: entry a/data/../0: missing"},
		"compressed": {entry(func(e *zipEntry) { e.method = 8 }), "entry a/data/0: compressed"},
		"packed":     {entry(func(e *zipEntry) { e.packed = 8 }), "entry a/data/0: compressed"},
		"encrypted":  {entry(func(e *zipEntry) { e.flags = 1 }), "entry a/data/0: encrypted"},
		"beyond the end": {entry(func(e *zipEntry) { e.packed, e.size = 1<<20, 1<<20 }),
			"entry a/data/0: 1048576 bytes from"},
		"far beyond": {entry(func(e *zipEntry) { e.packed, e.size, e.large = math.MinInt64, math.MinInt64, true }),
			"entry a/data/0: 9223372036854775808 bytes"},
		"just beyond": {entry(func(e *zipEntry) { e.packed, e.size = 300, 300 }), "entry a/data/0: 300 bytes from"},
		"all ones": {entry(func(e *zipEntry) { e.packed, e.size, e.large = -1, -1, true }),
			"entry a/data/0: 18446744073709551615 bytes"},
		"entry twice": {file(state, data, data), "a/data/0 is in the archive twice"},
		"two lists":   {file(state, data, zipEntry{name: "b/data.pkl", data: state}), "two lists of tensors"},
		"no list":     {zipFile(data), "no NAME/data.pkl"},
		"TorchScript": {file(state, data, zipEntry{name: "a/constants.pkl"}), "TorchScript"},
		"big endian":  {file(state, data, zipEntry{name: "a/byteorder", data: "big"}), `byte order is "big"`},
		"a long order": {file(state, data, zipEntry{name: "a/byteorder", data: strings.Repeat("big", 99)}),
			"297 bytes instead of a word"},
		"version":         {file(state, data, zipEntry{name: "a/version", data: "11\n"}), `version "11"`},
		"version of text": {file(state, data, zipEntry{name: "a/version", data: "new"}), `version "new"`},
		"packed list": {zipFile(zipEntry{name: "a/data.pkl", data: state, method: 8}, data),
			"entry a/data.pkl: compressed"},
		"no directory": {file(state, data)[:400], "cut or damaged"},
		"no local header": {"PK\x03\x04" + strings.Repeat("x", 60) +
			zipEnd(string(directoryEntry(zipEntry{name: "a/data.pkl"}, 4, 4, 8)), 1, 64), "entry a/data.pkl"},
		"old, cut":      {oldMagic, "the protocol"},
		"old, protocol": {oldMagic + "\x80\x02K\x07.\x80\x02}.\x80\x02}.\x80\x02].", "protocol is not 1001"},
		"old, machine": {oldMagic + "\x80\x02M\xe9\x03.\x80\x02}X\x0d\x00\x00\x00little_endian\x89s.\x80\x02}.\x80\x02].",
			"little-endian"},
		"old, no storages": {oldMagic + "\x80\x02M\xe9\x03.\x80\x02}X\x0d\x00\x00\x00little_endian\x88s." + state +
			"\x80\x02].", "tensor w: storage 0: it is not in the file"},
		"old, cut storage": {oldMagic + "\x80\x02M\xe9\x03.\x80\x02}X\x0d\x00\x00\x00little_endian\x88s." + state +
			"\x80\x02]X\x01\x00\x00\x000a.\x04\x00\x00\x00\x00\x00\x00\x00abcd", "storage 0: 4 elements of F32"},
		"old, other count": {oldMagic + "\x80\x02M\xe9\x03.\x80\x02}X\x0d\x00\x00\x00little_endian\x88s." + state +
			"\x80\x02]X\x01\x00\x00\x000a.\x03\x00\x00\x00\x00\x00\x00\x00abcdabcdabcdabcd", "3 elements of F32, 4 expected"},
		"old, a stranger": {oldMagic + "\x80\x02M\xe9\x03.\x80\x02}X\x0d\x00\x00\x00little_endian\x88s." + state +
			"\x80\x02]X\x01\x00\x00\x001a.", "storage 1 is of no tensor"},
	} {
		if err := readTorch(t, c.file); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v: does not say %q", name, err, c.want)
		}
	}
}

// TestTorchLarge reads a tensor beyond 4 GiB of a sparse file, through the ZIP64 fields.
func TestTorchLarge(t *testing.T) {
	const at = 5 << 30
	name := filepath.Join(t.TempDir(), "pytorch_model.bin")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	list := zipFile(zipEntry{name: "a/data.pkl",
		data: statePickle(2, torchTensor{name: "w", class: "torch.FloatStorage", key: "0", count: 2,
			shape: []int{2}, strides: []int{1}})})
	entry := zipFile(zipEntry{name: "a/data/0", data: "\x00\x00\x80\x3f\x00\x00\x00\x40"})
	list, entry = list[:strings.Index(list, "PK\x01\x02")], entry[:strings.Index(entry, "PK\x01\x02")]
	size := int64(len(list) - strings.Index(list, "\x80\x02ccoll"))
	directory := append(directoryEntry(zipEntry{name: "a/data.pkl"}, size, size, 0),
		directoryEntry(zipEntry{name: "a/data/0", large: true}, 8, 8, at)...)
	for _, part := range []struct {
		at   int64
		data string
	}{{0, list}, {at, entry}, {at + int64(len(entry)), zipEnd(string(directory), 2, at+int64(len(entry)))}} {
		if _, err := f.WriteAt([]byte(part.data), part.at); err != nil {
			t.Skipf("no sparse files here: %v", err)
		}
	}
	w := &weights{tensors: map[string]stored{}}
	defer w.close()
	if err := w.add(name, nil, (*weights).torch); err != nil {
		t.Fatal(err)
	}
	if x, err := w.tensors["w"].read(); err != nil || !slices.Equal(x, []float32{1, 2}) || w.tensors["w"].at < at {
		t.Errorf("%v, %v", x, err)
	}
}

// TestZipDirectory: a directory that is too long is refused before it is in memory.
func TestZipDirectory(t *testing.T) {
	r := &limited{strings.NewReader("abcdef"), 4}
	if _, err := r.ReadAt(make([]byte, 4), 0); err != nil {
		t.Error(err)
	}
	if _, err := r.ReadAt(make([]byte, 1), 4); err == nil || !strings.Contains(err.Error(), "directory") {
		t.Errorf("%v", err)
	}
}

// TestPickleValues: what single opcodes stand for.
func TestPickleValues(t *testing.T) {
	for pickle, want := range map[string]any{
		"K\xff":             int64(255),
		"M\xff\xff":         int64(65535),
		"J\xfe\xff\xff\xff": int64(-2),
		"J\x00\x00\x01\x00": int64(65536),
		"\x8a\x00":          int64(0),
		"\x8a\x01\xfe":      int64(-2),
		"\x8a\x02\xff\x00":  int64(255),
		"\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f": int64(math.MaxInt64),
		"G\x3f\xf8\x00\x00\x00\x00\x00\x00":        1.5,
		"N":                                        nil,
		"\x88":                                     true,
		"\x89":                                     false,
		"X\x02\x00\x00\x00\xc3\xa9":                "é",
		"\x8c\x01a":                                "a",
		"\x8d\x01\x00\x00\x00\x00\x00\x00\x00a":    "a",
		"(K\x01K\x02t":                             tuple{int64(1), int64(2)},
		"K\x01K\x02K\x03\x87":                      tuple{int64(1), int64(2), int64(3)},
		"NK\x01K\x02\x86\x86":                      tuple{nil, tuple{int64(1), int64(2)}},
		"](K\x01K\x02eK\x03a":                      &list{[]any{int64(1), int64(2), int64(3)}},
		"}(X\x01\x00\x00\x00aK\x01X\x01\x00\x00\x00bK\x02uX\x01\x00\x00\x00cNs": &dict{
			map[string]any{"a": int64(1), "b": int64(2), "c": nil}},
		"K\x07\x94\x88\x94h\x00\x87": tuple{int64(7), true, int64(7)},
	} {
		u := &unpickler{r: bufio.NewReader(strings.NewReader("\x80\x04" + pickle + "."))}
		got, err := u.load()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, %v; want %v", pickle, got, err, want)
		}
	}
	u := &unpickler{r: bufio.NewReader(strings.NewReader("\x80\x02NNNN.")), at: maxPickle - 4}
	if _, err := u.load(); err == nil || !strings.Contains(err.Error(), "more than 67108864 bytes") {
		t.Errorf("a long pickle: %v", err)
	}
}

// FuzzPickle: any pickle is refused or gives a value.
func FuzzPickle(f *testing.F) {
	good := torchTensor{name: "w", class: "torch.HalfStorage", key: "0", count: 4, shape: []int{2, 2},
		strides: []int{2, 1}, parameter: true}
	f.Add([]byte(statePickle(2, good)))
	f.Add([]byte(statePickle(4, good, torchTensor{name: "v", class: "torch.BoolStorage", key: "1"})))
	f.Fuzz(func(t *testing.T, data []byte) {
		u := &unpickler{r: bufio.NewReader(bytes.NewReader(data))}
		v, err := u.load()
		if err != nil {
			return
		}
		w := &weights{tensors: map[string]stored{}}
		const at, most = 100, 1 << 30
		w.state(nil, v, func(s storage) (int64, error) {
			if s.count > most {
				return 0, errors.New("too large")
			}
			return at, nil
		})
		for name, s := range w.tensors {
			place := v.(*dict).items[name].(tensorRef).storage
			bytes, elements := place.count*place.kind.width, int64(1)
			for _, d := range s.shape {
				elements = min(elements*int64(d), 1<<31)
			}
			if s.at < at || s.size < 0 || s.at+s.size > at+bytes {
				t.Errorf("%s: %d bytes from %d on, the storage has %d", name, s.size, s.at, bytes)
			}
			if s.problem == "" && elements > place.count {
				t.Errorf("%s: %v elements of %d", name, s.shape, place.count)
			}
		}
	})
}

// FuzzTorch reads damaged files.
func FuzzTorch(f *testing.F) {
	for _, name := range []string{"zip2.bin", "zip4.bin", "old.bin"} {
		data, err := os.ReadFile("testdata/torch/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { readTorch(t, string(data)) })
}
