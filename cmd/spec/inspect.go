package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/specgo/spec/cmd/spec/internal/terminal"
	"github.com/specgo/spec/gguf"
)

var inspectCommand = command{
	name:  "inspect",
	does:  "what a GGUF file contains: metadata and tensors",
	usage: "[FILE] [--json]",
	about: "Prints a file's metadata and its table of tensors. Reads the header only; any GGUF file will do. Without FILE it is the target inside this program.",
	new:   func() job { return &inspect{} },
}

// inspect is the command's options.
type inspect struct {
	file string
	json bool
}

func (x *inspect) flags() []flag {
	return []flag{
		fileFlag("-m, --model", &x.file, "FILE", "the file, also without the flag"),
		switchFlag("--json", &x.json, true, "write JSON, with every array in full"),
	}
}

func (x *inspect) operand(v string) error {
	if x.file != "" {
		return errors.New("one file at a time")
	}
	x.file = v
	return nil
}

func (x *inspect) run(_ context.Context, p *program) error {
	f, err := openGGUF(x.file)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(p.stdout)
	if x.json {
		err = inspectJSON(w, f)
	} else {
		inspectText(w, f)
	}
	if err != nil {
		return err
	}
	return w.Flush()
}

const longestName = 100 // characters of a key or a tensor's name that are shown

func inspectText(w io.Writer, f *gguf.File) {
	fmt.Fprintf(w, "%s: GGUF version %d, alignment %d, data at %d\n\n", terminal.Line(f.Name, 0), f.Version, f.Alignment, f.DataOffset)
	for key := range f.Keys() {
		v, _ := f.Value(key)
		t, elem, n, _ := gguf.TypeOf(v)
		kind := t.String()
		if t == gguf.ValueArray {
			kind = fmt.Sprintf("%v[%d]", elem, n)
		}
		fmt.Fprintf(w, "%-42s %-14s %s\n", terminal.Line(key, longestName), kind, brief(v, n))
	}
	fmt.Fprintln(w)
	weights, bytes := uint64(0), int64(0)
	type total struct {
		tensors int
		bytes   int64
	}
	ofType := map[gguf.Type]total{}
	for _, t := range f.Tensors {
		weights += t.Elements()
		bytes += t.Size
		ofType[t.Type] = total{ofType[t.Type].tensors + 1, ofType[t.Type].bytes + t.Size}
		dims := strings.ReplaceAll(strings.Trim(fmt.Sprint(t.Dims), "[]"), " ", " x ")
		fmt.Fprintf(w, "%-42s %-6v %18s %14d bytes at %d\n", terminal.Line(t.Name, longestName), t.Type, dims, t.Size, t.Offset)
	}
	fmt.Fprintln(w)
	types := slices.Collect(maps.Keys(ofType))
	slices.SortFunc(types, func(a, b gguf.Type) int {
		return cmp.Or(cmp.Compare(ofType[b].bytes, ofType[a].bytes), cmp.Compare(a, b))
	})
	for _, t := range types {
		fmt.Fprintf(w, "%-6v %5d tensors %14d bytes\n", t, ofType[t].tensors, ofType[t].bytes)
	}
	fmt.Fprintf(w, "%d tensors, %d weights, %d bytes\n", len(f.Tensors), weights, bytes)
}

// brief shows a value on one line: the first elements of an array, the first characters of a text.
func brief(v gguf.Value, n int) string {
	const elements, letters = 6, 60
	switch s, isText := v.(string); {
	case isText && len(s) > letters:
		return fmt.Sprintf("%.*q ...", letters, s)
	case isText:
		return fmt.Sprintf("%q", s)
	}
	more := ""
	if n > elements {
		v, more = reflect.ValueOf(v).Slice(0, elements).Interface(), " ..."
	}
	switch v.(type) {
	case []string:
		return terminal.Line(fmt.Sprintf("%.40q%s", v, more), 0)
	case []gguf.Value:
		return "arrays"
	}
	return fmt.Sprint(v) + more
}

func inspectJSON(w io.Writer, f *gguf.File) error {
	type tensor struct {
		Name   string   `json:"name"`
		Type   string   `json:"type"`
		Dims   []uint64 `json:"dims"`
		Offset int64    `json:"offset"`
		Bytes  int64    `json:"bytes"`
	}
	out := struct {
		Schema    int                   `json:"schema"`
		File      string                `json:"file"`
		Version   uint32                `json:"version"`
		Alignment int64                 `json:"alignment"`
		Metadata  map[string]gguf.Value `json:"metadata"`
		Tensors   []tensor              `json:"tensors"`
	}{1, f.Name, uint32(f.Version), int64(f.Alignment), map[string]gguf.Value{}, []tensor{}}
	for key := range f.Keys() {
		v, _ := f.Value(key)
		out.Metadata[key] = printable(v)
	}
	for _, t := range f.Tensors {
		out.Tensors = append(out.Tensors, tensor{t.Name, t.Type.String(), t.Dims, t.Offset, t.Size})
	}
	return printJSON(w, out)
}

// printable makes a value that JSON can hold as it is: bytes as a list of numbers, and numbers that
// JSON lacks as their names.
func printable(v gguf.Value) gguf.Value {
	switch v := v.(type) {
	case []uint8:
		list := make([]uint16, len(v))
		for i, b := range v {
			list[i] = uint16(b)
		}
		return list
	case float32:
		return number(float64(v), v)
	case float64:
		return number(v, v)
	case []float32:
		return all(v, func(x float32) any { return number(float64(x), x) })
	case []float64:
		return all(v, func(x float64) any { return number(x, x) })
	case []gguf.Value:
		return all(v, func(x gguf.Value) any { return printable(x) })
	}
	return v
}

func number(x float64, v any) any {
	if x-x != 0 { // infinite or not a number
		return fmt.Sprint(x)
	}
	return v
}

func all[T any](list []T, f func(T) any) []any {
	out := make([]any, len(list))
	for i, v := range list {
		out[i] = f(v)
	}
	return out
}
