package imatrix

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
)

func read(b []byte) (*File, error) { return Read(bytes.NewReader(b), int64(len(b)), "test") }

// sample has a matrix, and experts of which one was never chosen.
func sample() *File {
	return &File{Datasets: []string{"a.txt", "b.txt"}, Chunks: 3, ChunkSize: 512, Tensors: map[string]Tensor{
		"blk.0.attn_q.weight":        {Sums: []float32{1, 2, 0, 6}, Counts: []float32{4}},
		"blk.0.ffn_down_exps.weight": {Sums: []float32{1, 2, 0, 0, 5, 6}, Counts: []float32{2, 0, 5}},
	}}
}

// older is a file of the older format: numbers are written as 32 bits, strings after their length.
func older(parts ...any) []byte {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = binary.LittleEndian.AppendUint32(b, uint32(p))
		case float64:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(p)))
		case string:
			b = append(binary.LittleEndian.AppendUint32(b, uint32(len(p))), p...)
		}
	}
	return b
}

func TestWriteAndRead(t *testing.T) {
	var b bytes.Buffer
	if err := sample().Write(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.gguf")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Open(path)
	if err != nil || !reflect.DeepEqual(got, sample()) {
		t.Errorf("%+v, %v", got, err)
	}
	g, err := gguf.Open(bytes.NewReader(b.Bytes()), int64(b.Len()), "test")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, x := range g.Tensors {
		list = append(list, x.String())
	}
	want := "blk.0.attn_q.weight.in_sum2 F32 [4 1], blk.0.attn_q.weight.counts F32 [1 1], " +
		"blk.0.ffn_down_exps.weight.in_sum2 F32 [2 3], blk.0.ffn_down_exps.weight.counts F32 [1 3]"
	if got := strings.Join(list, ", "); got != want {
		t.Errorf("%s, expected %s", got, want)
	}
}

func TestWeights(t *testing.T) {
	f := sample()
	for _, c := range []struct {
		name           string
		cols, matrices int
		want           []float32
		fails          bool
	}{
		{"blk.0.attn_q.weight", 4, 1, []float32{0.25, 0.5, 0, 1.5}, false},
		{"blk.0.attn_q.weight", 2, 2, []float32{0.25, 0.5, 0, 1.5}, false}, // one count for all
		{"blk.0.ffn_down_exps.weight", 2, 3, []float32{0.5, 1, 1, 1, 1, 1.2}, false},
		{"blk.0.ffn_down_exps.weight", 3, 2, nil, true},
		{"blk.0.ffn_down_exps.weight", 2, 2, nil, true},
		{"output.weight", 2, 2, nil, false},
	} {
		got, err := f.Weights(c.name, c.cols, c.matrices)
		if !reflect.DeepEqual(got, c.want) || (err != nil) != c.fails {
			t.Errorf("%s: %v, %v; expected %v", c.name, got, err, c.want)
		}
	}
}

// TestOlderFormat: what llama.cpp wrote before: numbers are mean squares times the calls. What stands behind them may
// be left out.
func TestOlderFormat(t *testing.T) {
	body := []any{2, "a", 3, 2, 1.5, 6.0, "b", 0, 1, 7.0}
	want := &File{Tensors: map[string]Tensor{"a": {[]float32{1.5, 6}, []float32{3}}, "b": {[]float32{7}, []float32{1}}}}
	got, err := read(older(body...))
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v", got, err)
	}
	want.Chunks = 9
	if got, err = read(older(append(body, 9)...)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("with chunks: %+v, %v", got, err)
	}
	want.Datasets = []string{"text"}
	if got, err = read(older(append(body, 9, "text")...)); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("with a text: %+v, %v", got, err)
	}
	w, err := got.Weights("a", 2, 1)
	if err != nil || !reflect.DeepEqual(w, []float32{0.5, 2}) {
		t.Errorf("%v, %v", w, err)
	}
}

func TestRefused(t *testing.T) {
	write := func(kvs []gguf.KV, tensors ...gguf.TensorSource) []byte {
		var b bytes.Buffer
		if err := gguf.Write(&b, kvs, tensors); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	keys := []gguf.KV{{Key: keyType, Value: kind}, {Key: keyDatasets, Value: []string{}},
		{Key: keyChunks, Value: uint32(1)}, {Key: keyChunkSize, Value: uint32(2)}}
	two, one := []float32{1, 2}, []float32{1}
	for name, c := range map[string]struct {
		file []byte
		says string
	}{
		"empty":             {nil, "0 are left"},
		"another type":      {write([]gguf.KV{{Key: keyType, Value: "model"}}, source("a", one, 1)), `"general.type"`},
		"no datasets":       {write(keys[:1], source("a.counts", one, 1)), keyDatasets},
		"no chunk size":     {write(keys[:3], source("a.counts", one, 1)), keyChunkSize},
		"no tensors":        {write(keys), "nothing of any tensor"},
		"only counts":       {write(keys, source("a.counts", one, 1)), "a.counts without its .in_sum2"},
		"only sums":         {write(keys, source("a.in_sum2", one, 1)), "a.in_sum2 without its .counts"},
		"other tensors":     {write(keys, source("a", one, 1)), "unknown tensor a"},
		"sums for no count": {write(keys, source("a.in_sum2", one, 1), source("a.counts", two, 2)), "1 sums for 2 matrices"},
		"negative": {write(keys, source("a.in_sum2", []float32{-1}, 1), source("a.counts", one, 1)),
			"tensor a: a sum of squares that is negative"},
		"NaN": {write(keys, source("a.in_sum2", []float32{float32(math.NaN())}, 1), source("a.counts", one, 1)),
			"not finite"},
		"half a count": {write(keys, source("a.in_sum2", one, 1), source("a.counts", []float32{0.5}, 1)),
			"no whole number"},
		"older: cut":                  {older(2, "a", 3, 2, 1.5, 6.0), "0 are left"},
		"older: fewer sums":           {older(1, "a", 3, 2, 1.5), "8 bytes of sums, 4 are left"},
		"older: no sums":              {older(1, "a", 3, 0), "0 sums"},
		"older: many tensors":         {older(1 << 30), "number of tensors is 1073741824"},
		"older: a negative length":    {older(1, -1), "length of a tensor's name is -1"},
		"older: twice":                {older(2, "a", 3, 1, 1.5, "a", 3, 1, 1.5), "tensor a twice"},
		"older: more behind":          {append(older(1, "a", 3, 1, 1.5, 7, "text"), 0), "1 bytes behind its end"},
		"older: infinite":             {older(1, "a", 3, 1, math.Inf(1)), "not finite"},
		"older: none":                 {older(0), "nothing of any tensor"},
		"older: a cut name of a text": {older(1, "a", 3, 1, 1.5, 7, 5), "5 bytes of the text's name"},
	} {
		f, err := read(c.file)
		if err == nil || f != nil || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(err.Error(), "test: ") ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, expected %s", name, err, c.says)
		}
		if len(c.file) > 0 && c.says != keyDatasets && c.says != keyChunkSize && !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v is no ErrFormat", name, err)
		}
	}
	for name, f := range map[string]File{
		"no counts": {Tensors: map[string]Tensor{"a": {Sums: one}}},
		"chunks":    {Chunks: -1, Tensors: sample().Tensors},
	} {
		if err := f.Write(new(bytes.Buffer)); err == nil {
			t.Errorf("%s was written", name)
		}
	}
}

// FuzzRead: no input crashes Read. What it accepts can be written and is the same when it is read again.
func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := sample().Write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add(older(2, "a", 3, 2, 1.5, 6.0, "b", 0, 1, 7.0, 9, "text"))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := read(data)
		if err != nil {
			return
		}
		for name := range file.Tensors {
			if len(name+sums) > 63 {
				return // other readers have no room for it
			}
		}
		var b bytes.Buffer
		if err := file.Write(&b); err != nil {
			return // a name or a text that is no UTF-8
		}
		again, err := read(b.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if len(file.Datasets) == 0 {
			file.Datasets, again.Datasets = nil, nil
		}
		if !reflect.DeepEqual(file, again) {
			t.Fatalf("%+v, read again %+v", file, again)
		}
	})
}

// TestAdd: sums and counts of both; an older file's calls are chunks, whichever comes first.
func TestAdd(t *testing.T) {
	old, err := read(older(1, "a", 3, 2, 1.5, 6.0, 3, "old"))
	if err != nil {
		t.Fatal(err)
	}
	newer := &File{Datasets: []string{"new"}, Chunks: 1, ChunkSize: 10,
		Tensors: map[string]Tensor{"a": {[]float32{1, 2}, []float32{10}}, "b": {[]float32{3}, []float32{4}}}}
	for _, order := range [][]*File{{old, newer}, {newer, old}} {
		var all File
		for _, f := range order {
			if err := all.Add(f); err != nil {
				t.Fatal(err)
			}
		}
		want := map[string]Tensor{"a": {[]float32{16, 62}, []float32{40}}, "b": {[]float32{3}, []float32{4}}}
		if !reflect.DeepEqual(all.Tensors, want) || all.Chunks != 4 || all.ChunkSize != 10 || len(all.Datasets) != 2 {
			t.Errorf("%+v", all)
		}
	}
	// Of experts an older file has one count, which is that of each.
	if old, err = read(older(1, "e", 3, 4, 1.5, 6.0, 3.0, 9.0, 3, "old")); err != nil {
		t.Fatal(err)
	}
	experts := &File{ChunkSize: 10, Tensors: map[string]Tensor{"e": {[]float32{1, 2, 3, 4}, []float32{10, 0}}}}
	for _, order := range [][]*File{{old, experts}, {experts, old}} {
		var all File
		for _, f := range order {
			if err := all.Add(f); err != nil {
				t.Fatal(err)
			}
		}
		want := map[string]Tensor{"e": {[]float32{16, 62, 33, 94}, []float32{40, 30}}}
		if !reflect.DeepEqual(all.Tensors, want) {
			t.Errorf("%+v", all)
		}
	}
	if old.Tensors["e"].Sums[0] != 1.5 || newer.Tensors["a"].Sums[0] != 1 {
		t.Error("what was added has changed")
	}
	if err := sample().Add(&File{Tensors: map[string]Tensor{"blk.0.attn_q.weight": {[]float32{1}, []float32{1}}}}); err ==
		nil {
		t.Error("another shape was added")
	}
}
