package main

import (
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/testdata"
)

// sameTensor is a tensor of a file, for another file.
func sameTensor(f *gguf.File, x gguf.Tensor) gguf.TensorSource {
	return gguf.TensorSource{Name: x.Name, Type: x.Type, Dims: x.Dims, Write: func(w io.Writer) error {
		_, err := io.Copy(w, io.NewSectionReader(f.Reader(), x.Offset, x.Size))
		return err
	}}
}

// altered writes an embedded model with its metadata and tensors changed, and returns the file.
func altered(t *testing.T, model *strings.Reader, name string,
	change func(kvs []gguf.KV, tensors []gguf.TensorSource)) string {
	t.Helper()
	f, err := gguf.Open(model, model.Size(), name)
	if err != nil {
		t.Fatal(err)
	}
	var kvs []gguf.KV
	for key := range f.Keys() {
		v, _ := f.Value(key)
		kvs = append(kvs, gguf.KV{Key: key, Value: v})
	}
	var tensors []gguf.TensorSource
	for _, x := range f.Tensors {
		tensors = append(tensors, sameTensor(f, x))
	}
	change(kvs, tensors)
	path := filepath.Join(t.TempDir(), name)
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := gguf.Write(out, kvs, tensors); err != nil {
		t.Fatal(err)
	}
	return path
}

func set(kvs []gguf.KV, key string, v gguf.Value) {
	for i := range kvs {
		if kvs[i].Key == key {
			kvs[i].Value = v
		}
	}
}

func TestBadInput(t *testing.T) {
	tmp := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(tmp, name)
		write(t, path, text)
		return path
	}
	whole, err := io.ReadAll(testdata.Target())
	if err != nil {
		t.Fatal(err)
	}
	var (
		empty        = file("empty.gguf", "")
		half         = file("half.gguf", string(whole[:len(whole)/2]))
		header       = file("header.gguf", string(whole[:1000]))
		png          = file("picture.png", "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01\x08\x06")
		bigEndian    = file("big.gguf", "GGUF\x00\x00\x00\x03"+strings.Repeat("\x00", 64))
		architecture = altered(t, testdata.Target(), "mamba.gguf", func(kvs []gguf.KV, _ []gguf.TensorSource) {
			set(kvs, "general.architecture", "unheard-of")
		})
		shape = altered(t, testdata.Target(), "shape.gguf", func(_ []gguf.KV, tensors []gguf.TensorSource) {
			for i := range tensors {
				if x := &tensors[i]; x.Name == "blk.3.attn_k.weight" {
					x.Dims = []uint64{x.Dims[0] / 2, x.Dims[1] * 2}
				}
			}
		})
		absent = altered(t, testdata.Target(), "absent.gguf", func(_ []gguf.KV, tensors []gguf.TensorSource) {
			for i := range tensors {
				if x := &tensors[i]; x.Name == "blk.3.attn_k.weight" {
					x.Name = "something.else"
				}
			}
		})
		vocabulary = altered(t, testdata.Draft(), "vocabulary.gguf", func(kvs []gguf.KV, _ []gguf.TensorSource) {
			for _, kv := range kvs {
				if tokens, ok := kv.Value.([]string); ok && kv.Key == "tokenizer.ggml.tokens" {
					tokens[300], tokens[301] = tokens[301], tokens[300]
				}
			}
		})
		notNumber = altered(t, testdata.Target(), "heads.gguf", func(kvs []gguf.KV, _ []gguf.TensorSource) {
			set(kvs, "llama.attention.head_count", "four")
		})
	)
	run := func(args ...string) []string { return append([]string{"generate", "-p", ring, "-n", "2"}, args...) }
	for name, c := range map[string]struct {
		args []string
		code int
		says []string // all of these, in the one line
	}{
		"missing file": {run("-m", "missing.gguf"), exitFailed,
			[]string{"missing.gguf: no such file; -hf OWNER/NAME", "spec list"}},
		"directory":              {run("-m", tmp), exitFailed, []string{tmp, "directory"}},
		"empty file":             {run("-m", empty), exitFailed, []string{"empty.gguf"}},
		"file cut in half":       {run("-m", half), exitFailed, []string{"half.gguf", "tensor"}},
		"file cut in its header": {run("-m", header), exitFailed, []string{"header.gguf", "offset"}},
		"picture":                {run("-m", png), exitFailed, []string{"picture.png", "PNG"}},
		"big-endian file":        {run("-m", bigEndian), exitFailed, []string{"big.gguf", "big-endian"}},
		"another architecture": {run("-m", architecture), exitFailed,
			[]string{"mamba.gguf", "general.architecture", "unheard-of"}},
		"tensor of wrong shape":    {run("-m", shape), exitFailed, []string{"shape.gguf", "blk.3.attn_k.weight"}},
		"tensor missing":           {run("-m", absent), exitFailed, []string{"absent.gguf", "blk.3.attn_k.weight"}},
		"key of wrong type":        {run("-m", notNumber), exitFailed, []string{"heads.gguf", "llama.attention.head_count"}},
		"draft's other vocabulary": {run("-md", vocabulary), exitFailed, []string{"vocabulary.gguf", "300"}},
		"selftest's other vocabulary": {[]string{"selftest", "--quick", "-md", vocabulary}, exitFailed,
			[]string{"vocabulary.gguf cannot draft", "300"}},
		"early exit too late": {run("--drafter", "early-exit", "--exit-layer", "7"), exitFailed,
			[]string{"--exit-layer 7", "6 layers"}},
		"draft missing":            {run("-md", "missing.gguf"), exitFailed, []string{"missing.gguf"}},
		"prompt too long":          {run("-c", "4"), exitFailed, []string{"prompt", "-c", "context"}},
		"prompt file missing":      {[]string{"generate", "-f", "missing.txt"}, exitFailed, []string{"missing.txt"}},
		"bias outside vocabulary":  {run("-l", "99999+1"), exitFailed, []string{"-l: ", "4095, not 99999"}},
		"ban outside vocabulary":   {run("-l", "99999-inf"), exitFailed, []string{"-l: ", "4095, not 99999"}},
		"context beyond the model": {run("-c", "1025"), exitFailed, []string{"-c 1025", "1024"}},
		"chunk beyond the model": {[]string{"perplexity", "-p", "x", "-c", "1025"}, exitFailed,
			[]string{"-c 1025", "1024"}},
		"compare beyond context":  {[]string{"compare", "-n", "2147483647"}, exitFailed, []string{"-n 2147483647", "1024"}},
		"bench too large a batch": {[]string{"bench", "--batch", "1000000"}, exitUsage, []string{"--batch", "4096"}},
		"bench too long a sample": {[]string{"bench", "--sample", "2147483647"}, exitFailed,
			[]string{"--sample 2147483647", "1024"}},
		"bench too long a prompt": {[]string{"bench", "-p", "2147483647"}, exitFailed, []string{"-p 2147483647", "1024"}},
		"bench too long a text":   {[]string{"bench", "-n", "2147483647"}, exitFailed, []string{"-n 2147483647", "1024"}},
		"bench too deep":          {[]string{"bench", "-d", "2147483647"}, exitFailed, []string{"-d 2147483647", "1024"}},
		"number beyond its bound": {run("-n", "99999999999"), exitUsage, []string{"-n", "2147483647"}},
		"number beyond all":       {run("-n", "99999999999999999999"), exitUsage, []string{"-n", "2147483647"}},
		"negative context":        {run("-c", "-5"), exitUsage, []string{"-c", "between 0 and"}},
		"empty stop":              {run("--stop", ""), exitUsage, []string{"--stop", "empty"}},
		"empty file name":         {run("-m", ""), exitUsage, []string{"-m", "file"}},
		"flag of llama.cpp": {[]string{"serve", "--context-shift"}, exitUsage,
			[]string{"--context-shift is not supported", "--when-full"}},
		"projector of llama.cpp": {[]string{"serve", "-m", "a", "--mmproj", "b"}, exitUsage,
			[]string{"--mmproj is not supported: images"}},
		"number of models in memory": {[]string{"serve", "--models-dir", "d", "--models-max", "4"}, exitUsage,
			[]string{"--models-max is not supported: --models-memory"}},
		"presets of llama.cpp":      {[]string{"serve", "--models-preset", "f.ini"}, exitUsage, []string{"--config FILE"}},
		"conversation of llama.cpp": {run("-i"), exitUsage, []string{"-i is not supported: spec chat"}},
		"cache of llama.cpp":        {run("-cl"), exitUsage, []string{"-cl is not supported: spec list"}},
		"letter of no step":         {run("--sampler-seq", "kfy"), exitUsage, []string{`--sampler-seq kfy: `, `no step "f"`}},
		"no letters of steps":       {run("--sampler-seq", ""), exitUsage, []string{"--sampler-seq"}},
		"special tokens":            {run("-sp"), exitUsage, []string{"-sp is not supported: control tokens"}},
		"devices of llama.cpp":      {run("--list-devices"), exitUsage, []string{"not supported: models run on the CPU"}},
		"token on a command line":   {run("-hft", "secret"), exitUsage, []string{"-hft is not supported", "HF_TOKEN"}},
		"reasoning's format":        {run("--reasoning-format", "none"), exitUsage, []string{"not one of auto, deepseek"}},
		"reasoning without a chat":  {run("-rea", "off"), exitUsage, []string{"--reasoning needs a conversation"}},
		"host with a port":          {[]string{"serve", "--host", "127.0.0.1:80"}, exitUsage, []string{"--host", "--port"}},
		"host that is a URL":        {[]string{"serve", "--host", "http://a"}, exitUsage, []string{"http://a: not an"}},
		"host that is a file":       {[]string{"serve", "--host", "x.sock"}, exitUsage, []string{"--host x.sock", "systemd"}},
		"server's reasoning":        {[]string{"serve", "--reasoning-budget", "9"}, exitUsage, []string{"thinking_budget"}},
		"flag nearly known":         {run("--tepm", "1"), exitUsage, []string{"did you mean --temp?"}},
		"command nearly known":      {[]string{"quantise"}, exitUsage, []string{"did you mean quantize?"}},
		"type nearly known":         {[]string{"quantize", "a", "b", "q4_k_x"}, exitUsage, []string{"q4_k_x", "q4_k_m"}},
		"quantize four operands":    {[]string{"quantize", "a", "b", "q8_0", "4"}, exitUsage, []string{"4", "IN OUT TYPE"}},
		"quantize and a flag":       {[]string{"quantize", "-m", "a", "x", "b", "q8_0"}, exitUsage, []string{"one of"}},
		"cache types that differ": {run("-ctk", "f16", "-ctv", "q8_0"), exitUsage,
			[]string{"-ctk f16", "-ctv q8_0", "--kv"}},
		"keys of another type": {run("-ctk", "q8_0"), exitUsage, []string{"-ctk q8_0", "-ctv f16", "--kv"}},
		"cache type not known": {run("-ctk", "q4_1"), exitUsage, []string{"-ctk", "q4_1", "q8_0"}},
		"control characters":   {run("--\x1b]0;x\a\n"), exitUsage, []string{`\x1b]0;x\a`}},
		"control in file name": {run("-m", "a\x1b[31m\nb"), exitFailed, []string{`a\x1b[31m\nb`}},
		"endless argument":     {run("-c", strings.Repeat("9", 5000)), exitUsage, []string{"-c", "between"}},
		"device as model":      {run("-m", os.DevNull), exitFailed, []string{os.DevNull, "regular file"}},

		"temperature not a number":  {run("--temp", "nan"), exitUsage, []string{"--temp", "nan"}},
		"negative temperature":      {run("--temp", "-1"), exitUsage, []string{"--temp"}},
		"unknown flag":              {run("--tepm", "1"), exitUsage, []string{"--tepm"}},
		"flag without value":        {run("-m"), exitUsage, []string{"-m"}},
		"switch with a value":       {run("--json=yes"), exitUsage, []string{"--json"}},
		"operand":                   {run("extra"), exitUsage, []string{"extra"}},
		"color that is none":        {run("--color", "red"), exitUsage, []string{"--color", "red"}},
		"number that is none":       {run("--top-k", "many"), exitUsage, []string{"--top-k", "many"}},
		"number out of range":       {run("--top-p", "1.5"), exitUsage, []string{"--top-p", "1.5"}},
		"unknown schedule":          {run("--schedule", "psychic"), exitUsage, []string{"--schedule", "psychic"}},
		"unknown KV type":           {run("--kv", "q1"), exitUsage, []string{"--kv", "q1"}},
		"unknown weight type":       {run("--weights", "q1"), exitUsage, []string{"--weights", "q1"}},
		"greedy at a temperature":   {run("--verify", "greedy"), exitUsage, []string{"--verify", "temperature 0"}},
		"two prompts":               {run("-f", png), exitUsage, []string{"-p", "-f"}},
		"draft model not used":      {run("-md", png, "--drafter", "ngram"), exitUsage, []string{"-md", "--drafter"}},
		"drafter without its model": {run("-m", png, "--drafter", "model"), exitUsage, []string{"-md", "--drafter"}},
		"exit of a draft model":     {run("--exit-layer", "1"), exitUsage, []string{"--exit-layer", "early-exit"}},
		"draft model and exit":      {run("-md", png, "--drafter", "early-exit"), exitUsage, []string{"-md", "--drafter"}},
		"least above most": {run("--draft-min", "9", "--draft-max", "3"), exitUsage,
			[]string{"--draft-min", "9", "3"}},
		"unknown command":         {[]string{"generat"}, exitUsage, []string{"generat"}},
		"help on unknown command": {[]string{"help", "generat"}, exitUsage, []string{"generat"}},
		"no command":              {nil, exitUsage, []string{"command"}},

		"inspect a picture":   {[]string{"inspect", "-m", png}, exitFailed, []string{"picture.png", "PNG"}},
		"tokenize a picture":  {[]string{"tokenize", "-m", png, "-p", "x"}, exitFailed, []string{"picture.png"}},
		"text too short":      {[]string{"perplexity", "-p", "x"}, exitFailed, []string{"-c", "512"}},
		"quantize nothing":    {[]string{"quantize"}, exitUsage, []string{"-m", "IN"}},
		"quantize to nowhere": {[]string{"quantize", "-m", png}, exitUsage, []string{"-o"}},
		"quantize to no type": {[]string{"quantize", "-m", png, "-o", "x"}, exitUsage, []string{"--type"}},
		"quantize a picture": {[]string{"quantize", "-m", png, "-o", filepath.Join(tmp, "x"), "--type", "f16"}, exitFailed,
			[]string{"picture.png"}},
		"quantize to a folder": {[]string{"quantize", "-m", architecture, "-o", filepath.Join(tmp, "no", "x"), "--type",
			"f16"}, exitFailed, []string{filepath.Join(tmp, "no")}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, errs, code := spec(t, "", c.args...)
			if code != c.code {
				t.Errorf("exit %d, want %d", code, c.code)
			}
			if out != "" {
				t.Errorf("standard output: %q", out)
			}
			if strings.Count(errs, "\n") != 1 || !strings.HasSuffix(errs, "\n") ||
				!strings.HasPrefix(errs, "spec") || len(errs) > 600 {
				t.Errorf("standard error is not one clear line: %q", errs)
			}
			for _, part := range c.says {
				if !strings.Contains(errs, part) {
					t.Errorf("standard error does not name %q: %q", part, errs)
				}
			}
		})
	}
}

// Who comes from Ollama learns what does a command's work here.
func TestCommandsOfOllama(t *testing.T) {
	for name, instead := range otherCommands {
		_, errs, code := spec(t, "", name, "model")
		if want := "spec: there is no command " + name + ": " + instead; code != exitUsage || !strings.HasPrefix(errs, want) {
			t.Errorf("%s: exit %d, %s", name, code, errs)
		}
		if slices.ContainsFunc(commands(), func(c command) bool { return c.name == name }) {
			t.Errorf("there is spec %s", name)
		}
	}
}

func TestUnknownKernels(t *testing.T) {
	t.Setenv("SPEC_SIMD", "abacus")
	_, errs, code := spec(t, "", "generate", "-p", ring)
	if code != exitFailed || !strings.Contains(errs, "SPEC_SIMD") || !strings.Contains(errs, "abacus") ||
		strings.Count(errs, "\n") != 1 {
		t.Errorf("exit %d, %q", code, errs)
	}
}

// The table of flags fits the width, but for names that are longer alone.
func TestHelpWidths(t *testing.T) {
	for _, width := range []int{60, 80, 110} {
		for _, c := range commands() {
			var b strings.Builder
			printGroups(&b, c.new().flags(), width)
			for _, line := range strings.Split(b.String(), "\n") {
				if utf8.RuneCountInString(line) > width {
					t.Errorf("help of %s at %d: %s", c.name, width, line)
				}
			}
		}
	}
}

func TestHelp(t *testing.T) {
	list := done(t, "", "help")
	for _, c := range commands() {
		if !strings.Contains(list, "spec "+c.name) {
			t.Errorf("the list of commands lacks %q", c.name)
		}
		text := done(t, "", "help", c.name)
		if asked := done(t, "", c.name, "--help"); asked != text {
			t.Errorf("spec %s --help differs from spec help %s", c.name, c.name)
		}
		flags := flagsOf(c.new().flags())
		var seen []string
		for _, f := range flags {
			for _, n := range f.names {
				if !strings.Contains(text, n) || f.help == "" || f.set == nil {
					t.Errorf("help of %s does not explain %s", c.name, n)
				}
				if slices.Contains(seen, strings.TrimLeft(n, "-")) {
					t.Errorf("%s has two flags %s", c.name, n)
				}
				seen = append(seen, strings.TrimLeft(n, "-"))
			}
		}
		for _, line := range strings.Split(text, "\n") {
			if utf8.RuneCountInString(line) > 80 {
				t.Errorf("help of %s has a line of %d characters: %s", c.name, len(line), line)
			}
		}
	}
	if done(t, "", "--help") != list || done(t, "", "-h") != list || done(t, "", "help", "help") != list {
		t.Error("--help, or help help, is not the list of commands")
	}
	if out := done(t, "", "--version"); out != done(t, "", "version") || !strings.HasPrefix(out, "spec ") {
		t.Errorf("--version says %q", out)
	}
}
