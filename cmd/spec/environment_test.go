package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// noEnvironment is the environment of tests that are about flags.
func noEnvironment(string) string { return "" }

// environment is one of NAME=VALUE words.
func environment(words string) func(string) string {
	return func(name string) string {
		for w := range strings.FieldsSeq(words) {
			if n, v, _ := strings.Cut(w, "="); n == name {
				return v
			}
		}
		return ""
	}
}

// A flag counts before its variable, that before the default; a variable says what the flag would.
func TestEnvironment(t *testing.T) {
	for _, c := range []struct{ vars, line, same string }{
		{"LLAMA_ARG_CTX_SIZE=77", "generate", "generate -c 77"},
		{"LLAMA_ARG_CTX_SIZE=77", "generate -c 5", "generate -c 5"},
		{"LLAMA_ARG_CTX_SIZE=77 LLAMA_ARG_MODEL=x", "serve", "serve -c 77 -m x"},
		{"LLAMA_ARG_MODEL=x LLAMA_ARG_SPEC_DRAFT_MODEL=d", "serve", "serve -m x -md d"},
		{"LLAMA_ARG_MODEL_DRAFT=d", "generate", "generate -md d"},
		{"LLAMA_ARG_SPEC_DRAFT_MODEL=new LLAMA_ARG_MODEL_DRAFT=d", "generate", "generate -md new"},
		{"SPEC_NO_KV_CACHE=1", "generate", "generate --no-kv-cache"},
		{"SPEC_NO_KV_CACHE=off", "generate", "generate"},
		{"LLAMA_ARG_NO_WEBUI=true", "serve", "serve --no-webui"},
		{"LLAMA_API_KEY=a,b", "serve", "serve --api-key a,b"},
		{"LLAMA_ARG_API_KEY_FILE=f", "serve", "serve --api-key-file f"},
		{"SPEC_API_KEY_FILE=f", "serve", "serve --api-key-file f"},
		{"LLAMA_ARG_NO_UI=1", "serve", "serve --no-webui"},
		// Of a switch that is on by default, 0 is its contrary.
		{"LLAMA_ARG_UI=0", "serve", "serve --no-webui"},
		{"LLAMA_ARG_UI=1", "serve", "serve"},
		{"LLAMA_ARG_JINJA=false LLAMA_ARG_ENDPOINT_SLOTS=off", "serve", "serve --no-jinja --no-slots"},
		{"SPEC_ESCAPE=0", "generate", "generate --no-escape"},
		{"SPEC_ESCAPE=0", "generate -e", "generate -e"},
		{"SPEC_ESCAPE=1", "generate", "generate -e"},
		{`LLAMA_ARG_CHAT_TEMPLATE_KWARGS={"a":1}`, "chat", `chat --chat-template-kwargs {"a":1}`},
		{"LLAMA_ARG_HF_REPO=a/b:Q8_0 LLAMA_ARG_HF_FILE=c/d.gguf", "serve", "serve -hf a/b:c/d.gguf"},
		{"LLAMA_ARG_HF_REPO=a/b LLAMA_ARG_HF_FILE=d.gguf", "generate", "generate -hf a/b:d.gguf"},
		{"LLAMA_ARG_HF_REPO=a/b LLAMA_ARG_HF_FILE=d.gguf", "serve -hf e/f", "serve -hf e/f"},
		{"LLAMA_ARG_HF_FILE=d.gguf", "serve", "serve"},
		{"LLAMA_API_KEY=a,b", "serve --api-key c", "serve --api-key c"},
		{"SPEC_TEMP=0", "generate", "generate --temp 0"},
		{"SPEC_STOP=end", "generate --stop other", "generate --stop other"},
		{"SPEC_STOP=end", "chat", "chat --stop end"},
		{"SPEC_TRACE=file", "generate", "generate --trace file"},
		{"LLAMA_ARG_MODEL=x LLAMA_ARG_HF_REPO=a/b", "generate", "generate -hf a/b"},
		{"LLAMA_ARG_MODEL=x LLAMA_ARG_HF_REPO=a/b", "serve", "serve -hf a/b"},
		{"LLAMA_ARG_MODEL=x LLAMA_ARG_HF_REPO=a/b", "chat y", "chat y"},
		{"LLAMA_ARG_MODEL=x LLAMA_ARG_HF_REPO=a/b", "inspect", "inspect -m x"},
		{"LLAMA_ARG_MODEL_DRAFT=d LLAMA_ARG_HFD_REPO=a/b", "serve -m x", "serve -m x -hfd a/b"},
		// What sets the same thing counts as the flag.
		{"LLAMA_ARG_MODEL=x", "generate -hf a/b", "generate -hf a/b"},
		{"LLAMA_ARG_MODEL=x", "chat y", "chat y"},
		{"LLAMA_ARG_MODEL=x", "chat", "chat -m x"},
		{"LLAMA_ARG_MODEL=x SPEC_OUTPUT=o SPEC_TYPE=f16", "quantize a b q8_0", "quantize a b q8_0"},
		{"LLAMA_ARG_CACHE_TYPE_K=q8_0", "generate --kv f32", "generate --kv f32"},
		{"LLAMA_ARG_CACHE_TYPE_K=f32 LLAMA_ARG_CACHE_TYPE_V=f32", "generate", "generate -ctk f32 -ctv f32"},
		{"LLAMA_ARG_CHAT_TEMPLATE=chatml", "chat --chat-template-file f", "chat --chat-template-file f"},
		{"SPEC_PROMPT=p", "generate -f file", "generate -f file"},
		{"SPEC_SYSTEM_PROMPT=s", "chat -sysf file", "chat -sysf file"},
		{"LLAMA_ARG_ROPE_FREQ_SCALE=0.5", "generate --rope-scale 4", "generate --rope-scale 4"},
		{"LLAMA_ARG_MODEL=x", "verify receipt", "verify receipt -m x"},
		// What has no use beside the command line is left alone.
		{"LLAMA_ARG_CHAT_TEMPLATE=chatml", "generate", "generate"},
		{"LLAMA_ARG_CHAT_TEMPLATE=chatml", "generate -cnv", "generate -cnv --chat-template chatml"},
		{"LLAMA_ARG_SPEC_DRAFT_MODEL=d", "generate --drafter ngram", "generate --drafter ngram"},
		{"SPEC_JSON=1", "generate -cnv", "generate -cnv"},
		{"SPEC_LOGPROBS=1", "generate", "generate"},
		{"LLAMA_ARG_MODEL=x SPEC_WEIGHTS=q8_0", "cache", "cache"},
		{"LLAMA_ARG_MODEL=x", "cache build", "cache build -m x"},
		{"SPEC_VERIFY=match", "bench", "bench"},
		{"LLAMA_ARG_MODEL=x", "bench", "bench -m x"},
		{"LLAMA_ARG_MODEL=x", "bench --shape llama-1b", "bench --shape llama-1b"},
		{"LLAMA_ARG_MODEL=x LLAMA_ARG_SPEC_DRAFT_MODEL=d SPEC_WEIGHTS=q8_0 LLAMA_ARG_THREADS=3", "bench --limits",
			"bench --limits -t 3"},
		{"LLAMA_ARG_MODEL=x LLAMA_ARG_SPEC_DRAFT_MODEL=d SPEC_LORA=a", "plan --fleet", "plan --fleet -m x"},
		{"LLAMA_ARG_MODEL=x LLAMA_ARG_SPEC_DRAFT_MODEL=d", "plan", "plan -m x -md d"},
		{"LLAMA_ARG_MODEL=x SPEC_PROMPT=p", "plan --fleet --figures f", "plan --fleet --figures f"},
		{"LLAMA_ARG_N_PREDICT=-1", "demo", "demo"},
		{"SPEC_CACHE_SIZE=1G SPEC_SLOT_SAVE_SIZE=1G SPEC_LORA_INIT_WITHOUT_APPLY=1", "serve", "serve"},
		{"SPEC_CACHE_SIZE=1G", "serve --cache-dir d", "serve --cache-dir d --cache-size 1G"},
	} {
		read := func(line string, env func(string) string) job {
			args := strings.Fields(line)
			command, err := findCommand(args[0])
			if err != nil {
				t.Fatal(err)
			}
			j, _, err := command.parse(args[1:], env)
			if err != nil {
				t.Fatalf("%s, %s: %v", c.vars, line, err)
			}
			return j
		}
		if got, want := read(c.line, environment(c.vars)), read(c.same, noEnvironment); !reflect.DeepEqual(got, want) {
			t.Errorf("%s spec %s: %+v, want %+v", c.vars, c.line, got, want)
		}
	}
}

// A value that does not fit is an error that names its variable.
func TestEnvironmentErrors(t *testing.T) {
	for vars, want := range map[string]string{
		"LLAMA_ARG_CTX_SIZE=many":   "environment variable LLAMA_ARG_CTX_SIZE=many: not a whole number",
		"SPEC_TEMP=-1":              "environment variable SPEC_TEMP=-1: not between",
		"SPEC_DRY_ALLOWED_LENGTH=0": "environment variable SPEC_DRY_ALLOWED_LENGTH=0: not between",
		"SPEC_NO_KV_CACHE=maybe":    "environment variable SPEC_NO_KV_CACHE=maybe: neither 1 nor 0",
		"SPEC_DRAFTER=nobody":       "environment variable SPEC_DRAFTER=nobody: not one of",
		"LLAMA_ARG_HF_REPO=x":       "environment variable LLAMA_ARG_HF_REPO=x: not a model of the form",
	} {
		_, _, err := generateCommand.parse(nil, environment(vars))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v", vars, err)
		}
	}
}

// Every flag with an effect has a variable, which means the same option in every command.
func TestEveryFlagHasAVariable(t *testing.T) {
	of := map[string]string{}
	for _, c := range commands() {
		for _, f := range flagsOf(c.new().flags()) {
			vars := f.variables()
			if (len(vars) == 0) != f.ignored {
				t.Errorf("%s %s: variables %v", c.name, f.names[0], vars)
			}
			for _, v := range vars {
				long := f.names[len(f.names)-1]
				if of[v] != "" && of[v] != long && !slices.Contains(f.names, of[v]) {
					t.Errorf("%s is %s and, in spec %s, %s", v, of[v], c.name, long)
				}
				of[v] = long
			}
		}
	}
}

// A default that the help tells is the one that holds: to give it changes nothing.
func TestDefaultsAreAsTold(t *testing.T) {
	tried := 0
	for _, c := range commands() {
		for i, f := range flagsOf(c.new().flags()) {
			value, _, _ := strings.Cut(f.standard, ":")
			value, _, _ = strings.Cut(value, ";")
			if value, _, _ = strings.Cut(value, ", with"); value == "" || strings.Contains(f.arg, "FILE") ||
				!slices.Contains([]string{"N", "X", "SIZE"}, f.arg) && !strings.Contains(f.arg, "|") {
				continue
			}
			got := c.new()
			if flagsOf(got.flags())[i].set(value) != nil {
				continue // words
			}
			switch c := got.(type) { // that it was given
			case *benchmark:
				c.own = nil
			case *importance:
				c.reads = ""
			}
			if want := c.new(); reflect.DeepEqual(got, want) {
				tried++
			} else if !slices.Contains(toldByOthers, f.names[0]) && c.name != "compare" && c.name != "selftest" {
				t.Errorf("spec %s: the default of %s is not %s", c.name, f.names[0], value)
			}
		}
	}
	if tried < 60 {
		t.Errorf("%d defaults", tried)
	}
}

// toldByOthers are flags without which packages below choose, or what opens their folder, or --ollama. In compare it is
// the preset that does, in selftest --quick.
var toldByOthers = []string{"--grammar-memory", "--prompt-delay", "--type", "--kv", "--schedule", "--draft-p-min",
	"--cache-size", "--slot-save-size", "--port", "--yarn-beta-slow", "--yarn-beta-fast"}
