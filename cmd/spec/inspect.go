package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/internal/units"
)

var inspectCommand = command{
	name:  "inspect",
	does:  "what a GGUF file is, what it needs, and whether it runs",
	usage: "[FILE] [--tensors] [--memory SIZE] [--json]",
	about: `Prints what a GGUF file is and whether it runs here, its metadata, and with --tensors its table of tensors. Reads the header only: "runs" is what the header tells. With --memory it also says where the weights would be under that limit, and how fast they could be read from the disk, of which it measures a part of the file. Any GGUF file will do. Without FILE it is the target inside this program.`,
	new:   func() job { return &inspect{} },
}

// inspect is the command's options.
type inspect struct {
	file    string
	word    string // the file, without a flag
	tensors bool
	json    bool
	memory  int64 // 0: no limit is asked about
}

func (x *inspect) flags() []group {
	return []group{{"model", []flag{
		fileFlag("-m, --model", &x.file, "FILE", "the file, also without the flag").env("LLAMA_ARG_MODEL").orWord(),
		switchFlag("--tensors", &x.tensors, true, "list the tensors as well"),
		memoryRow(&x.memory, "how fast the model is with so much memory for weights and activations, as in 2GiB"),
	}}, {"output", []flag{switchFlag("--json", &x.json, true, "write JSON, with every array and all tensors")}}}
}

func (x *inspect) check() error {
	if x.json && x.memory > 0 {
		return usagef("--memory goes with text, not with --json")
	}
	if x.word != "" {
		if x.file != "" {
			return usagef("%s, and -m %s: one file at a time", shown(x.word), shown(x.file))
		}
		x.file, x.word = x.word, ""
	}
	return nil
}

func (x *inspect) operand(v string) error {
	if x.word != "" {
		return errors.New("one file at a time")
	}
	x.word = v
	return nil
}

func (x *inspect) run(ctx context.Context, p *program) error {
	f, err := openGGUF(x.file)
	if err != nil {
		return err
	}
	defer f.Close()
	w := bufio.NewWriter(p.stdout)
	if x.json {
		err = inspectJSON(w, f)
	} else {
		inspectText(w, f, x.tensors, terminal.Width(p.stdout))
		if x.memory > 0 {
			var line string
			if line, err = memoryLine(ctx, f, x.memory); err == nil {
				io.WriteString(w, "\n"+terminal.Columns("under the limit", line, 16, terminal.Width(p.stdout)))
			}
		}
	}
	if err != nil {
		return err
	}
	return w.Flush()
}

const longestName = 100 // characters of a key or a tensor's name that are shown

func inspectText(w io.Writer, f *gguf.File, tensors bool, width int) {
	fmt.Fprintf(w, "%s: GGUF version %d, alignment %d, data at %d\n\n", terminal.Line(f.Name, 0), f.Version, f.Alignment,
		f.DataOffset)
	for _, line := range summarize(f).lines() {
		io.WriteString(w, terminal.Columns(line[0], terminal.Line(line[1], 0), 16, width))
	}
	fmt.Fprintln(w)
	for key := range f.Keys() {
		v, _ := f.Value(key)
		t, elem, n, _ := gguf.TypeOf(v)
		kind := t.String()
		if t == gguf.ValueArray {
			kind = fmt.Sprintf("%v[%d]", elem, n)
		}
		fmt.Fprintf(w, "%-42s %-14s %s\n", terminal.Line(key, longestName), kind, brief(v, n))
	}
	if tensors {
		fmt.Fprintln(w)
		for _, t := range f.Tensors {
			dims := strings.ReplaceAll(strings.Trim(fmt.Sprint(t.Dims), "[]"), " ", " x ")
			fmt.Fprintf(w, "%-42s %-6v %18s %14d bytes at %d\n", terminal.Line(t.Name, longestName), t.Type, dims, t.Size,
				t.Offset)
		}
	}
}

// lines are the summary for people: a heading and its text.
func (s *summary) lines() (list [][2]string) {
	add := func(head, format string, a ...any) { list = append(list, [2]string{head, fmt.Sprintf(format, a...)}) }
	add("kind", "%s", s.Kind)
	add("architecture", "%s", terminal.Line(s.Architecture, longestName))
	if s.Name != "" {
		add("name", "%s", terminal.Line(s.Name, longestName))
	}
	if s.Layers > 0 {
		shape := fmt.Sprintf("%d layers, hidden size %d, %d heads, %d of keys and values, head size %d, feed-forward %d",
			s.Layers, s.HiddenSize, s.Heads, s.KVHeads, s.HeadDim, s.FeedForward)
		if s.Experts > 0 {
			shape += fmt.Sprintf(", %d experts, %d used", s.Experts, s.ExpertsUsed)
		}
		if s.MTPBlocks > 0 {
			shape += fmt.Sprintf(", the last %d of the layers for multi-token prediction", s.MTPBlocks)
		}
		if s.EncLayers > 0 {
			shape = fmt.Sprintf("%d layers of an encoder and ", s.EncLayers) +
				strings.Replace(shape, " layers,", " of a decoder,", 1)
		}
		add("shape", "%s", shape)
	}
	if s.Context > 0 {
		add("context", "%d tokens", s.Context)
	}
	if s.Parameters > 0 {
		var types []string
		for _, t := range s.Types {
			types = append(types, fmt.Sprintf("%s in %d of type %s", size(t.Bytes), t.Tensors, t.Type))
		}
		add("weights", "%s parameters: %s", units.Count(int64(s.Parameters)), strings.Join(types, ", "))
	}
	switch {
	case s.Tokenizer == "":
		add("tokenizer", "none")
	case s.Pre == "":
		add("tokenizer", "%s, %d tokens", terminal.Line(s.Tokenizer, 40), s.Vocab)
	default:
		add("tokenizer", "%s, pre-tokenizer %s, %d tokens", terminal.Line(s.Tokenizer, 40), terminal.Line(s.Pre, 40), s.Vocab)
	}
	if s.EncLayers > 0 {
		add("prompts", "are what the encoder reads; there is no chat format")
	}
	if v := s.Vectors; v != nil {
		what := "vectors"
		if v.Ranks {
			what = "scores"
			if len(v.Labels) > 0 {
				what += " (" + terminal.Line(strings.Join(v.Labels, ", "), longestName) + ")"
			}
		}
		pooling := v.Pooling
		if pooling == "" {
			pooling = "not said in the file, mean"
		}
		marks := "no marks are added"
		if len(v.Marks) > 0 {
			marks = "marks added: " + terminal.Line(strings.Join(v.Marks, " "), longestName)
		}
		add("makes", "%s of texts, pooling: %s; %s", what, pooling, marks)
	}
	if s.Template > 0 {
		add("chat template", "%d bytes", s.Template)
	} else {
		add("chat template", "none")
	}
	memory := "not known for these types"
	if s.WeightBytes > 0 {
		memory = size(s.WeightBytes) + " of weights"
	}
	if s.KVBytes > 0 {
		memory += fmt.Sprintf("; %s of keys and values per 1,000 tokens (f16, %s with --kv q8_0)",
			size(int64(1000*s.KVBytes)), size(int64(1000*s.KVBytes*bytesPerValue("q8_0")/bytesPerValue("f16"))))
	}
	if s.MTPKVBytes > 0 {
		memory += fmt.Sprintf("; %s more where the MTP blocks draft", size(int64(1000*s.MTPKVBytes)))
	}
	if s.InputBytes > 0 {
		memory += fmt.Sprintf("; %s more per 1,000 tokens of the encoder's input", size(int64(1000*s.InputBytes)))
	}
	if s.WindowBytes > 0 {
		memory += fmt.Sprintf("; at most %s of those in layers with a window, which keep %d tokens", size(s.WindowBytes),
			s.Window)
	}
	if s.StateBytes > 0 {
		memory += fmt.Sprintf("; %s of recurrent state, up to %s with what a session keeps to go back (at least %s, with "+
			"--state-memory 1)", size(s.StateBytes), size(s.StateMost), size(s.StateLeast))
	}
	if s.DraftForm > 0 {
		memory += fmt.Sprintf("; %s more where it drafts for itself (--drafter self)", size(s.DraftForm))
	}
	if s.Parameters > 0 {
		add("memory", "%s", memory)
	}
	if s.Files > 1 {
		add("files", "%d", s.Files)
	}
	if s.Runs {
		add("runs", "yes, as far as the header tells")
	} else {
		add("runs", "no: %s", s.Reason)
	}
	return list
}

// size is a number of bytes for people.
func size(n int64) string { return units.Bytes(n) }

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
		Summary   *summary              `json:"summary"`
		Metadata  map[string]gguf.Value `json:"metadata"`
		Tensors   []tensor              `json:"tensors"`
	}{1, f.Name, uint32(f.Version), int64(f.Alignment), summarize(f), map[string]gguf.Value{}, []tensor{}}
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
