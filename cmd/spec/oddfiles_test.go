package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/testdata"
)

const draftFile = "../../testdata/go-draft.q8_0.gguf"

// A file keeps its permissions, and nothing is left beside it.
func TestQuantizeKeepsMode(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "x.gguf")
	if err := os.WriteFile(out, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	done(t, "", "quantize", draftFile, out, "f16")
	if info, err := os.Stat(out); err != nil || runtime.GOOS != "windows" &&
		info.Mode().Perm() != 0o600 || info.Size() < 1e6 {
		t.Errorf("%v, %v", info, err)
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("left behind: %v", list)
	}
	// A failure leaves the old file as it is.
	if _, _, code := spec(t, "", "quantize", "badinput_test.go", out, "f16"); code != exitFailed {
		t.Errorf("exit %d", code)
	}
	if _, err := gguf.OpenFile(out); err != nil {
		t.Error(err)
	}
}

// Standard output, a named pipe and the null device get the same bytes as a file, and stay what they are.
func TestQuantizeToStreams(t *testing.T) {
	dir := t.TempDir()
	file, fifo := filepath.Join(dir, "x"), filepath.Join(dir, "fifo")
	done(t, "", "quantize", draftFile, file, "q4_0")
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	cmd, stdout, stderr := start(t, nil, "quantize", draftFile, "-", "q4_0")
	launch(t, cmd)
	if code := finish(t, cmd, stderr); code != exitDone || !bytes.Equal(stdout.Bytes(), want) {
		t.Errorf("-o -: exit %d, %d bytes, want %d; %s", code, stdout.Len(), len(want), stderr)
	}
	if _, err := os.Stat("-"); err == nil {
		t.Error("there is a file named -")
	}
	done(t, "", "quantize", draftFile, os.DevNull, "q4_0")
	if info, err := os.Stat(os.DevNull); err != nil || info.Mode().IsRegular() {
		t.Fatalf("%s is %v, %v", os.DevNull, info, err)
	}
	if mkfifo(fifo) != nil {
		return
	}
	read := make(chan []byte, 1)
	go func() {
		b, _ := os.ReadFile(fifo)
		read <- b
	}()
	done(t, "", "quantize", draftFile, fifo, "q4_0")
	if got := <-read; !bytes.Equal(got, want) {
		t.Errorf("through a pipe %d bytes, want %d", len(got), len(want))
	}
	if info, err := os.Stat(fifo); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe is %v now, %v", info, err)
	}
}

// SIGTERM leaves no part of a file, and the old one. The signal comes while the file is written: its part is
// there.
func TestQuantizeTerminated(t *testing.T) {
	needSignals(t)
	dir := t.TempDir()
	in, out := filepath.Join(dir, "in"), filepath.Join(dir, "out")
	large(t, in)
	write(t, out, "old")
	cmd, _, stderr := start(t, nil, "quantize", in, out, "q4_k")
	launch(t, cmd)
	for range 3000 {
		if parts, _ := filepath.Glob(filepath.Join(dir, "*.part")); len(parts) > 0 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	interrupt(t, cmd, syscall.SIGTERM, stderr)
	if left, _ := filepath.Glob(filepath.Join(dir, "*.part")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if old, _ := os.ReadFile(out); string(old) != "old" || stderr.Len() > 0 {
		t.Errorf("the old file is %.20q; %s", old, stderr)
	}
}

// large writes a file of zeros that takes long to convert; where the system knows holes it is small.
func large(t *testing.T, path string) {
	t.Helper()
	const cols = 1 << 12
	// the first bytes of the file: its header is as long for any number of rows
	file := func(rows uint64, data int) []byte {
		var b bytes.Buffer
		gguf.Write(&b, []gguf.KV{{Key: "general.architecture", Value: "none"}}, []gguf.TensorSource{{
			Name: "x.weight", Type: gguf.F16, Dims: []uint64{cols, rows},
			Write: func(w io.Writer) error {
				_, err := w.Write(make([]byte, data))
				return err
			},
		}})
		return b.Bytes()
	}
	const rows = 1 << 17
	header := len(file(1, 2*cols)) - 2*cols
	// 1 MiB is more than any buffer: the header comes out
	if err := os.WriteFile(path, file(rows, 1<<20)[:header], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, int64(header)+2*cols*rows); err != nil {
		t.Fatal(err)
	}
}

// The page is opened before the run and replaced after it.
func TestComparePage(t *testing.T) {
	dir := t.TempDir()
	page := filepath.Join(dir, "page.html")
	write(t, page, "old page")
	small := []string{"compare", "--max-prompts", "1", "-n", "2", "-r", "1", "--warmup", "0", "--drafter", "ngram",
		"--schedule", "constant", "--html"}
	// A page that cannot be: nothing is run, so that no results are lost.
	out, errs, code := spec(t, "", append(small, filepath.Join(page, "x"))...)
	if code != exitFailed || out != "" || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
	// A run that fails keeps the old page.
	if _, _, code := spec(t, "", append(small, page, "-m", "missing.gguf")...); code != exitFailed {
		t.Errorf("exit %d", code)
	}
	if text, _ := os.ReadFile(page); string(text) != "old page" {
		t.Errorf("after a failure the page is %.40q", text)
	}
	done(t, "", append(small, page)...)
	if text, _ := os.ReadFile(page); !bytes.HasPrefix(text, []byte("<!DOCTYPE html>")) {
		t.Errorf("the page is %.40q", text)
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("left behind: %v", list)
	}
}

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
