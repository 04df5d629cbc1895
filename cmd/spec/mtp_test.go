package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/plan"
	"github.com/specgo/spec/internal/testkit"
)

// writeMTPBlocks writes the small qwen35 model of ../shared, of four layers and an MTP block, with further blocks of
// the same numbers, whose matrices and vectors are turned by some rows; or these blocks alone.
func writeMTPBlocks(t *testing.T, from, to string, blocks int, alone bool) {
	t.Helper()
	const last = 4
	f, err := gguf.OpenFile(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var tensors []gguf.TensorSource
	for _, x := range f.Tensors {
		rest, mtp := strings.CutPrefix(x.Name, fmt.Sprintf("blk.%d.", last))
		if alone && !mtp && strings.HasPrefix(x.Name, "blk.") {
			continue
		}
		for i := range blocks {
			name, rows := x.Name, int64(x.Dims[len(x.Dims)-1])
			if mtp {
				name = fmt.Sprintf("blk.%d.%s", last+i, rest)
			} else if i > 0 {
				break
			}
			at := int64(5*i) % rows * (x.Size / rows)
			tensors = append(tensors, gguf.TensorSource{Name: name, Type: x.Type, Dims: x.Dims, Write: func(w io.Writer) error {
				_, err := io.Copy(w, io.MultiReader(io.NewSectionReader(f.Reader(), x.Offset+at, x.Size-at),
					io.NewSectionReader(f.Reader(), x.Offset, at)))
				return err
			}})
		}
	}
	kvs := slices.DeleteFunc(slices.Clone(f.KVs), func(kv gguf.KV) bool {
		return kv.Key == "qwen35.block_count" || kv.Key == "qwen35.nextn_predict_layers"
	})
	kvs = append(kvs, gguf.KV{Key: "qwen35.block_count", Value: uint32(last + blocks)},
		gguf.KV{Key: "qwen35.nextn_predict_layers", Value: uint32(blocks)})
	file, err := os.Create(to)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(gguf.Write(file, kvs, tensors), file.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestMTPBlocks: several MTP blocks draft in every command, in the model's file and beside it; inspect says what they
// take.
func TestMTPBlocks(t *testing.T) {
	const blocks = 3
	from := testkit.Shared(t, "families/models/qwen35.gguf")
	dir := t.TempDir()
	file, alone := filepath.Join(dir, "blocks.gguf"), filepath.Join(dir, "mtp-blocks.gguf")
	writeMTPBlocks(t, from, file, blocks, false)
	writeMTPBlocks(t, from, alone, blocks, true)
	for i, temperature := range []string{"0", "0.8"} {
		base := []string{"generate", "-m", file, "-p", "func main", "-n", "30", "--seed", "4", "--temp", temperature}
		plain := done(t, "", append(base, "--drafter", "none")...)
		if one := done(t, "", append([]string{"generate", "-m", from},
			append(base[3:], "--drafter", "none")...)...); one != plain {
			t.Fatalf("the model itself writes %q with more blocks, %q without", plain, one)
		}
		for j, args := range [][]string{nil, {"--drafter", "mtp"}, {"--drafter", "mtp", "--schedule", "constant"},
			{"--drafter", "tree"}, {"--drafter", "splice"}, {"-md", alone}, {"-md", alone, "--drafter", "mtp"}} {
			if (i+j)%2 > 0 { // each with one way to sample
				continue
			}
			if got := done(t, "", append(base, args...)...); got != plain {
				t.Errorf("--temp %s %s: %q, plain %q", temperature, args, got, plain)
			}
		}
	}
	for _, c := range []struct {
		says string
		args []string
	}{
		{"the last 3 of the layers for multi-token prediction", []string{"inspect", file}},
		{"more where the MTP blocks draft", []string{"inspect", file}},
		{"the last 3 of the layers for multi-token prediction", []string{"inspect", alone}},
		{"draft  ", []string{"bench", "-m", file, "--quick", "-p", "0", "--verify", "2", "--batch", "0",
			"-d", "0", "-n", "9"}},
		{"0 of", []string{"selftest", "-m", file, "--quick", "-n", "6", "--draws", "100"}},
		{"mtp", []string{"compare", "-m", file, "--drafter", "mtp", "--schedule", "constant", "--draft-max", "5", "-n", "12",
			"--max-prompts", "1", "-r", "1", "--warmup", "0"}},
		{"tree auto", []string{"compare", "-m", file, "-n", "12", "--max-prompts", "1", "-r", "1", "--warmup", "0"}},
		{"the MTP block of the model's file", []string{"compare", "-m", file, "--drafter", "tree", "--schedule", "auto", "-n",
			"4", "--max-prompts", "1", "-r", "1", "--warmup", "0", "--json"}},
	} {
		if out := done(t, "", c.args...); !strings.Contains(
			strings.Join(strings.Fields(out), " "), strings.TrimSpace(c.says)) {
			t.Errorf("%s: no %q in\n%s", c.args, c.says, out)
		}
	}
	p := decode[plan.Prediction](t, done(t, "", "plan", "-m", file, "--seconds", "0.1", "-n", "24", "-p",
		"func main", "--json"))
	if len(p.Lengths) != blocks || !p.Head || p.Best > blocks || p.Step <= 0 {
		t.Errorf("%+v", p)
	}
	requests, answers := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "out.jsonl")
	write(t, requests, `{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"func main","max_tokens":20,"temperature":0,"speculation":{"drafter":"mtp","schedule":"constant"}}}`)
	if out := done(t, "", "batch", "-m", file, "-i", requests, "-o", answers); !strings.Contains(out, "tokens drafted") {
		t.Errorf("batch drafts nothing:\n%s", out)
	}

	// A page of 256 tokens of the blocks' caches.
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	target, err := engine.Open(t.Context(), rt, file, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	head, err := engine.Open(t.Context(), rt, file, engine.Options{MTP: true, Target: target})
	if err != nil {
		t.Fatal(err)
	}
	session, err := head.NewSession(engine.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := session.EvalSegment(t.Context(),
		engine.Segment{Tokens: []int32{1}, States: make([]float32, head.Config().HiddenSize), FromTarget: true}); err != nil {
		t.Fatal(err)
	}
	inspected := func(file string) summary {
		return decode[struct{ Summary summary }](t, done(t, "", "inspect", "--json", file)).Summary
	}
	s, one := inspected(file), inspected(from)
	if s.MTPBlocks != blocks || one.MTPBlocks != 1 || s.MTPKVBytes != blocks*one.MTPKVBytes ||
		int64(256*s.MTPKVBytes) != session.Bytes() || s.KVBytes != one.KVBytes || s.Layers != one.Layers+blocks-1 {
		t.Errorf("%+v, with one block %+v; a session of the blocks takes %d bytes for 256 tokens", s, one, session.Bytes())
	}
}
