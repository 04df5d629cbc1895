package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/synth"
	"github.com/specgo/spec/testdata"
)

const draftFile = "../../testdata/go-draft.q8_0.gguf"

// Names and values of a file reach the terminal as escapes.
func TestControlCharactersInFiles(t *testing.T) {
	const evil = "\x1b]0;owned\x07\n\u202e"
	path := altered(t, testdata.Target(), "evil.gguf", func(kvs []gguf.KV, tensors []gguf.TensorSource) {
		set(kvs, "general.name", "name"+evil)
		tensors[3].Name = "tensor" + evil
		kvs[len(kvs)-1] = gguf.KV{Key: "key" + evil, Value: []string{"value" + evil, strings.Repeat("x", 500)}}
	})
	for _, args := range [][]string{{"inspect", "--tensors", path}, {"generate", "-m", path, "-p", "x"},
		{"bench", "-m", path, "--quick"}, {"tokenize", "-m", path, "-p", "a" + evil}} {
		out, errs, _ := spec(t, "", args...)
		for _, r := range strings.ReplaceAll(out+errs, "\n", "") {
			if r < ' ' || r == '\u202e' {
				t.Errorf("%v writes %q: %q %q", args[0], r, out, errs)
				break
			}
		}
		if strings.Count(errs, "\n") > 1 {
			t.Errorf("%v: %q", args[0], errs)
		}
		if args[0] == "inspect" {
			for _, line := range strings.Split(out, "\n") {
				if len(line) > 300 {
					t.Errorf("a line of %d bytes", len(line))
				}
			}
		}
	}
}

// A model without a tokenizer, as spec synth makes some, is refused by what makes tokens of texts.
func TestModelsWithoutTokenizer(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	f, err := synth.Random(synth.Shape{Name: "tiny", Architecture: "llama", Context: 100, Vocab: 300, HiddenSize: 64,
		Layers: 2, Heads: 2, KVHeads: 1, FeedForward: 128, Tied: true, RopeBase: 10000}, "q8_0")
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, f.Size())
	if _, err := f.ReadAt(data, 0); err != nil {
		t.Fatal(err)
	}
	write(t, in("m.gguf"), string(data))
	write(t, in("text"), "some words")
	write(t, in("cases"),
		`{"name": "a", "url": "/v1/completions", "body": {"prompt": "x"}, "checks": [{"contains": "x"}]}`)
	for _, args := range [][]string{{"cache", "prompt", "-f", in("text"), "--cache-dir", in("prompts")},
		{"eval", "--lookup", in("text"), in("cases")}, {"eval", in("cases")}, {"generate", "-p", "x"},
		{"lookup", "build", in("text")}, {"perplexity", "-f", in("text")}, {"tokenize", "-f", in("text")},
		{"imatrix", "-f", in("text"), "-o", in("out")}, {"bench", "-f", in("text"), "--quick"}, {"compare"}} {
		code, _, stderr := runWith(t, in("cache"), append(args, "-m", in("m.gguf"))...)
		if code != exitFailed || !strings.Contains(stderr, ": no tokenizer in the file") {
			t.Errorf("%q: exit %d, %s", args, code, stderr)
		}
	}
}

// A named pipe is no model: opening it would wait for a writer.
func TestPipeAsModel(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "fifo")
	if mkfifo(fifo) != nil {
		t.Skip("no named pipes here")
	}
	for _, args := range [][]string{{"generate", "-p", "x", "-m", fifo}, {"inspect", fifo}, {"bench", "-m", fifo},
		{"generate", "-p", "x", "-md", fifo}, {"quantize", fifo, fifo + "x", "f16"}} {
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if _, errs, code := spec(t, "", args...); code != exitFailed || !strings.Contains(errs, "regular file") ||
				strings.Count(errs, "\n") != 1 {
				t.Errorf("%v: exit %d, %q", args, code, errs)
			}
		}()
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatalf("%v waits for a writer", args)
		}
	}
}

// --trace FILE has a JSON object for each round, which add up to the text.
func TestTraceFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "trace")
	want := parsed(t, "-p", ring, "-n", "24", "--temp", "0", "--schedule", "constant", "--trace", file)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var ids []int32
	rounds, d := 0, json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	for d.More() {
		var r traceRecord
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		if r.Drafted != len(r.DraftIDs) || r.Accepted != len(r.AcceptedIDs) || r.Requested < r.Drafted ||
			r.Draft <= 0 || r.Verify <= 0 {
			t.Errorf("%+v", r)
		}
		ids = append(append(ids, r.AcceptedIDs...), r.NextID)
		rounds++
	}
	if rounds != want.Stats.Rounds || strings.Count(string(text), "\n") != rounds {
		t.Errorf("%d records of %d rounds", rounds, want.Stats.Rounds)
	}
	if got, want := ids[:24], want.TokenIDs; len(got) != len(want) || got[0] != want[0] || got[23] != want[23] {
		t.Errorf("the rounds write %v, the text is %v", got, want)
	}
}

// Where text and figures go to the same pipe, they are on lines of their own; the text itself is not changed.
func TestFiguresOnTheirOwnLine(t *testing.T) {
	want := done(t, "", "generate", "-p", ring, "-n", "7", "--temp", "0")
	if strings.HasSuffix(want, "\n") {
		t.Fatalf("%q ends a line", want)
	}
	for _, trace := range []bool{false, true} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		args := []string{"generate", "-p", ring, "-n", "7", "--temp", "0"}
		if trace {
			args = append(args, "--trace")
		}
		cmd, _, stderr := start(t, strings.NewReader(""), args...)
		cmd.Stdout, cmd.Stderr = w, w
		launch(t, cmd)
		w.Close()
		all, _ := io.ReadAll(r)
		if code := finish(t, cmd, stderr); code != exitDone {
			t.Errorf("exit %d", code)
		}
		if !trace && !strings.HasPrefix(string(all), want+"\n7 tokens in ") {
			t.Errorf("%q", all)
		}
		for _, line := range strings.Split(strings.TrimSpace(string(all)), "\n") {
			if at := strings.Index(line, "position "); at > 0 {
				t.Errorf("a record is not on a line of its own: %q", line)
			}
			if at := strings.Index(line, " tokens in "); at > 2 {
				t.Errorf("the figures are not on a line of their own: %q", line)
			}
		}
	}
}
