package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// configFile is a file of settings.
func configFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.ini")
	write(t, file, text)
	return file
}

// A line of the file says what the flag would; a flag and a variable count before it.
func TestConfig(t *testing.T) {
	for _, c := range []struct{ file, vars, line, same string }{
		{"ctx-size = 77", "", "generate", "generate -c 77"},
		{"c = 77", "", "serve", "serve -c 77"},
		{"LLAMA_ARG_CTX_SIZE = 77", "", "generate", "generate -c 77"},
		{"[*]\nctx-size = 77", "", "generate", "generate -c 77"},
		{"version = 1\nctx-size = 77\n[*]\ntemp = 0", "", "chat", "chat -c 77 --temp 0"},
		{"ctx-size = 77", "", "generate -c 5", "generate -c 5"},
		{"ctx-size = 77", "LLAMA_ARG_CTX_SIZE=6", "generate", "generate -c 6"},
		{"ctx-size = 77", "LLAMA_ARG_CTX_SIZE=6", "generate -c 5", "generate -c 5"},
		{"no-kv-cache = true", "", "generate", "generate --no-kv-cache"},
		{"no-kv-cache = 0", "", "generate", "generate"},
		// Of a switch that is on by default, 0 is its contrary.
		{"escape = 0", "", "generate", "generate --no-escape"},
		{"escape = 0", "", "generate -e", "generate -e"},
		{"escape = 0", "SPEC_ESCAPE=1", "generate", "generate -e"},
		{"display-prompt = off\nwebui = no", "", "generate", "generate --no-display-prompt"},
		{"webui = no\nslots = 0", "", "serve", "serve --no-webui --no-slots"},
		{"stop = a # b", "", "generate", "generate --stop a"},
		// What sets the same thing, and what has no use here, as with variables.
		{"model = x", "", "generate -hf a/b", "generate -hf a/b"},
		{"model = x", "LLAMA_ARG_HF_REPO=a/b", "generate", "generate -hf a/b"},
		{"model = x", "", "chat y", "chat y"},
		{"model = x", "", "chat", "chat -m x"},
		{"cache-type-k = f32\ncache-type-v = f32", "", "generate", "generate -ctk f32 -ctv f32"},
		{"cache-type-k = q8_0", "", "generate --kv f32", "generate --kv f32"},
		{"chat-template = chatml", "", "generate", "generate"},
		{"port = 99\ntop-k = 3", "", "generate", "generate --top-k 3"},
		// What has the name and is something else has its variable as a key.
		{"ctx-size = 77\nSPEC_CTX_SIZE = 99", "", "perplexity", "perplexity -c 99"},
		{"ctx-size = 77", "", "imatrix -o x", "imatrix -o x"},
		{"predict = -1", "", "demo", "demo"},
		{"predict = 5\nSPEC_PREDICT = 99", "", "plan", "plan -n 99"},
		{"verify = match\noutput = x", "", "bench", "bench"},
		{"SPEC_BENCH_VERIFY = 1,2\nSPEC_BENCH_OUTPUT = md", "", "bench", "bench --verify 1,2 -o md"},
		{"n-gpu-layers = 9\nthreads = 3", "", "generate", "generate -t 3"},
	} {
		read := func(line string, env func(string) string, more ...string) job {
			args := append(strings.Fields(line), more...)
			command, err := findCommand(args[0])
			if err != nil {
				t.Fatal(err)
			}
			j, _, err := command.parse(args[1:], env)
			if err != nil {
				t.Fatalf("%q, %s, %s: %v", c.file, c.vars, line, err)
			}
			return j
		}
		want := read(c.same, noEnvironment)
		file := configFile(t, c.file)
		if got := read(c.line, environment(c.vars), "--config", file); !reflect.DeepEqual(got, want) {
			t.Errorf("%q, %s spec %s: %+v, want %+v", c.file, c.vars, c.line, got, want)
		}
		if got := read(c.line, environment(c.vars+" SPEC_CONFIG="+file)); !reflect.DeepEqual(got, want) {
			t.Errorf("SPEC_CONFIG, %q, %s spec %s: %+v, want %+v", c.file, c.vars, c.line, got, want)
		}
	}
}

// A mistake in the file is one of usage, and names the line, in whatever command.
func TestConfigErrors(t *testing.T) {
	for text, want := range map[string]string{
		"\ncxt-size = 5":           "config.ini, line 2: unknown key cxt-size, did you mean ctx-size?",
		"ctx-size = many":          "config.ini, line 1: ctx-size = many: not a whole number",
		"c = 1\nctx-size = 2":      "config.ini, line 2: ctx-size, and c in line 1: the same flag twice",
		"hf = b/c\nmodel = a":      "config.ini, line 2: model, and hf in line 1: the same flag twice",
		"c = 1\n[*]\nc = 2":        "config.ini, line 3: c, and c in line 1: the same flag twice",
		"no-kv-cache = perhaps":    "config.ini, line 1: no-kv-cache = perhaps: neither 1 nor 0",
		"version = 2":              "config.ini, line 1: version 2",
		"p = 512":                  "config.ini, line 1: p is prompt in spec ",
		"\n[qwen]\ntemp = 0":       "config.ini, line 2: section [qwen]: no model",
		"[qwen]\nmodell = a":       "config.ini, line 2: unknown key modell of a model, did you mean model?",
		"[qwen]\nctx-size = 5":     "config.ini, line 2: unknown key ctx-size of a model",
		"[qwen]\ntemp = hot":       "config.ini, line 2: temp = hot: not a finite number",
		"[q]\nmodel = a\nhf = b/c": "config.ini, line 3: hf, and model in line 2: the same flag twice",
		"[q]\nm = a\nchat-template = x\nchat-template-file = y": "config.ini, line 4: chat-template-file, and chat-template",
		"ctx-size":                  "config.ini, line 1: neither KEY = VALUE",
		"[q]\nm = a\npredict = 0":   "config.ini, line 3: predict = 0: an answer has a token at least",
		"config = other":            "config.ini, line 1: unknown key config",
		"no-escape = 1\nescape = 0": "config.ini, line 2: escape, and no-escape in line 1: the same flag twice",
		"temp = 1\ntemperature =1":  "config.ini, line 2: temperature, and temp in line 1",
	} {
		_, errs, code := spec(t, "", "generate", "--config", configFile(t, text))
		if code != exitUsage || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%q: exit %d, %q, want %s", text, code, errs, want)
		}
	}
	if _, errs, code := spec(t, "", "serve", "-n", "0"); code != exitUsage || !strings.Contains(errs, "a token at least") {
		t.Errorf("serve -n 0: exit %d, %s", code, errs)
	}
	if _, errs, code := spec(t, "", "version", "--config", "nothing/here"); code != exitUsage {
		t.Errorf("a file that is not there: exit %d, %s", code, errs)
	}
}

// A section is a model of spec serve, with its files, names and what its requests are answered with; other commands
// have it checked alone.
func TestConfigModels(t *testing.T) {
	file := configFile(t, `temp = 0.5
[coder]
spec-draft-model = d.gguf
LLAMA_ARG_MODEL = c.gguf
temperature = .25
top-k = +3
n = -1
seed = -1
alias = a,b
tags = t
[own/pair:Q8_0]
chat-template = chatml
sys = Be brief.
load-on-startup = true
[*]
ctx-size = 9`)
	s := options[*serving](t, "serve", "--config", file, "-m", "x.gguf")
	want := []preset{
		{servedFile: servedFile{target: "c.gguf", draft: "d.gguf"}, names: []string{"coder", "a", "b"}, tags: []string{"t"},
			parameters: []byte(`{"num_predict":-1,"temperature":0.25,"top_k":3}`), at: file + ", section [coder]"},
		{servedFile: servedFile{target: "hf://own/pair:Q8_0", templateName: "chatml"}, names: []string{"own/pair:Q8_0"},
			system: "Be brief.", startup: true, at: file + ", section [own/pair:Q8_0]"},
	}
	if !reflect.DeepEqual(s.presets, want) {
		t.Errorf("%+v, want %+v", s.presets, want)
	}
	if s.context != 9 || s.sampling.Temperature != 0.5 || len(s.models) != 1 || s.models[0].target != "x.gguf" {
		t.Errorf("context %d, temperature %v, models %+v", s.context, s.sampling.Temperature, s.models)
	}
	if b := options[*batching](t, "batch", "--config", file, "-i", "a", "-o", "b"); b.presets != nil || b.context != 9 {
		t.Errorf("batch: %+v", b.presets)
	}
}

// The server offers the models of sections, and answers as they say where requests do not. Every option is one that it
// takes.
func TestServeModelsOfSections(t *testing.T) {
	model := embedded(t)
	text := "log-format = off\nthreads = 1\n[every]\nmodel = " + model + "\n"
	for flag := range presetOptions {
		text += strings.TrimLeft(flag, "-") + " = 1\n"
	}
	text += "[brief]\nmodel = " + model + "\nalias = short\npredict = 2\ntemp = 0\nsystem-prompt = Be brief.\n" +
		"chat-template = chatml\nload-on-startup = 1\n"
	url, stop := started(t, "--config", configFile(t, text))
	for _, c := range []struct{ path, body, want string }{
		{"/v1/completions", `{"model":"every","prompt":"func (r *Ring) Push("}`, `"completion_tokens":1,`},
		{"/v1/completions", `{"model":"short","prompt":"func (r *Ring) Push("}`, `"completion_tokens":2,`},
		{"/v1/completions", `{"model":"short","prompt":"func (r *Ring) Push(","max_tokens":3}`, `"completion_tokens":3,`},
		{"/apply-template", `{"model":"brief","messages":[{"role":"user","content":"x"}]}`, `system\nBe brief.`},
		{"/v1/completions", `{"model":"every","prompt":"x","temperature":-1}`, `temperature`},
	} {
		if _, got := ask(t, url+c.path, c.body); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s, want %s", c.body, got, c.want)
		}
	}
	if log, err := stop(); err != nil {
		t.Errorf("%v\n%s", err, log)
	}
}

// A model of a section that is not there is told with the section, when the server starts and when it reads its
// settings again.
func TestMissingModelsOfSections(t *testing.T) {
	file := configFile(t, "[there]\nmodel = "+embedded(t)+"\n[gone]\nmodel = no-such.gguf\n")
	_, errs, code := spec(t, "", "serve", "--port", "0", "--config", file)
	if want := "spec serve: " + file + ", section [gone]: no-such.gguf: no such file"; code != exitFailed ||
		!strings.HasPrefix(errs, want) {
		t.Errorf("exit %d, %s, want %s", code, errs, want)
	}
}

// The default file is read where it is there, and only then; none is read where none is asked for.
func TestDefaultConfig(t *testing.T) {
	dir := t.TempDir()
	env := environment("XDG_CONFIG_HOME=" + dir)
	if err := os.Mkdir(filepath.Join(dir, "spec"), 0o755); err != nil {
		t.Fatal(err)
	}
	at := func(env func(string) string, args ...string) int {
		j, _, err := generateCommand.parse(args, env)
		if err != nil {
			t.Fatal(err)
		}
		return j.(*generate).context
	}
	if got := at(env); got != 0 {
		t.Errorf("without a file: %d", got)
	}
	write(t, filepath.Join(dir, "spec", "config.ini"), "ctx-size = 5")
	if got := at(env); got != 5 {
		t.Errorf("with one: %d", got)
	}
	if got := at(env, "--config", "none"); got != 0 {
		t.Errorf("with none: %d", got)
	}
	if got := at(environment("SPEC_CONFIG=none XDG_CONFIG_HOME=" + dir)); got != 0 {
		t.Errorf("with SPEC_CONFIG=none: %d", got)
	}
	if got := at(environment("XDG_CONFIG_HOME=" + filepath.Join(dir, "spec", "config.ini"))); got != 0 {
		t.Errorf("below a file: %d", got)
	}
	if got := defaultConfig(environment("XDG_CONFIG_HOME=relative")); got != "" {
		t.Errorf("%q", got)
	}
}

// The table says what is in force and where it is from, and shows no key.
func TestConfigCommand(t *testing.T) {
	file := configFile(t, "threads = 3\n[*]\napi-key = hidden\ntemp = 0.25\n[coder]\nmodel = c.gguf")
	run := func(args ...string) string {
		var out, errs strings.Builder
		p := &program{stdout: &out, stderr: &errs, env: environment("LLAMA_ARG_CTX_SIZE=512 SPEC_CONFIG=" + file)}
		if code := p.main(t.Context(), append([]string{"config"}, args...)); code != exitDone {
			t.Errorf("%v: exit %d, %s", args, code, errs.String())
		}
		return strings.Join(strings.Fields(out.String()), " ")
	}
	all, serve, none := run(), run("serve"), run("--config", "none")
	for text, in := range map[string]string{
		"file: " + file: all,
		"--threads 3 " + file + ", line 1 demo, ":   all,
		"--temp 0.25 " + file + ", line 4 demo, ":   all,
		"[coder] model c.gguf " + file + ", line 6": serve,
		"c.gguf " + file + ", line 6 serve":         all,
		"--ctx-size 512 environment variable LLAMA": all,
		"(not shown) " + file + ", line 3":          serve,
		"--port 8080 default":                       serve,
		"--threads 3 " + file + ", line 1":          serve,
		"file: none":                                none,
	} {
		if !strings.Contains(in, text) {
			t.Errorf("no %q in %s", text, in)
		}
	}
	for _, c := range commands() { // also of those that need arguments
		if text := run(c.name); !strings.HasPrefix(text, "file: "+file) {
			t.Errorf("%s: %s", c.name, text)
		}
	}
	if strings.Contains(all+serve, "hidden") || strings.Contains(none, "threads") {
		t.Errorf("%s\n%s", all, none)
	}
}
