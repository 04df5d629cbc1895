package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/testdata"
)

// TestRefusedTogether: pairs of features that exclude each other are refused by an error that names them, which the
// table of docs/TOGETHER.md shows.
func TestRefusedTogether(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, content []byte) string {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, content, 0o644); err != nil {
			t.Fatal(err)
		}
		return name
	}
	embedded := func(name string, r *strings.Reader) string {
		b := make([]byte, r.Size())
		if _, err := r.ReadAt(b, 0); err != nil {
			t.Fatal(err)
		}
		return file(name, b)
	}
	target, draft, head := embedded("target.gguf", testdata.Target()), embedded("draft.gguf", testdata.Draft()),
		embedded("head.gguf", testdata.Head())
	other := file("other.gguf", randommodel.Recipes()["gemma4"].File(t))
	assistant := file("assistant.gguf", randommodel.Assistant{}.File(t))
	text := file("text.txt", []byte("x"))
	generate := func(args ...string) []string { return append([]string{"generate", "-p", "x", "-n", "4"}, args...) }
	var b strings.Builder
	for _, c := range []struct {
		one, two string // features
		args     []string
	}{
		{"`--grammar`", "`--json-schema`", generate("--grammar", `root ::= "a"`, "-j", "{}")},
		{"`--receipt`", "`--json-schema`, `--grammar`", generate("--receipt", "r.json", "-j", "{}")},
		{"`--receipt`", "`--verify rejection`, `block`", generate("--receipt", "r.json", "--verify", "block")},
		{"`--receipt`", "a conversation", []string{"generate", "-cnv", "--receipt", "r.json"}},
		{"`--logprobs`", "text as output", generate("--logprobs")},
		{"`--verify greedy`", "a temperature", generate("--verify", "greedy", "--temp", "0.5")},
		{"`--exit-layer`", "other drafters", generate("--exit-layer", "1", "--drafter", "model")},
		{"`--draft-min`", "a lesser `--draft-max`", generate("--draft-min", "9", "--draft-max", "4")},
		{"`--drafter ngram`, `suffix`, `early-exit`, `none`", "`-md`",
			generate("-m", target, "-md", draft, "--drafter", "ngram")},
		{"`--drafter eagle`, `eagle-tree`", "a draft model",
			generate("-m", target, "-md", draft, "--drafter", "eagle")},
		{"`--drafter mtp`", "a draft model", generate("-m", target, "-md", draft, "--drafter", "mtp")},
		{"`--drafter reencode`, `intersect`", "a draft head",
			generate("-m", target, "-md", head, "--drafter", "reencode")},
		{"`--draft-from`", "`--drafter none`", generate("--draft-from", text, "--drafter", "none")},
		{"`--drafter lookup`", "no `--lookup`", generate("--drafter", "lookup")},
		{"`--draft-vocab`", "`--drafter ngram`, `suffix` and others", generate("--draft-vocab", "9", "--drafter", "ngram")},
		{"`--draft-vocab-from`", "no `--draft-vocab`", generate("--draft-vocab-from", text)},
		{"`--lookup`", "`--drafter ngram`, `suffix` and others", generate("--lookup", text, "--drafter", "ngram")},
		{"`-md`", "a draft model without a tokenizer", generate("-m", target, "-md", other)},
		{"a draft head", "another model's vocabulary or sizes", generate("-m", target, "-md", assistant)},
		{"`-ctk`", "another `-ctv`", generate("-ctk", "f16", "-ctv", "q8_0")},
		{"`-ctk`, `-ctv`", "another `--kv`", generate("-ctk", "f16", "-ctv", "f16", "--kv", "q8_0")},
		{"`-p`", "`-f`", generate("-f", text)},
		{"`--json`, `--trace`", "a conversation", generate("-cnv", "--json")},
		{"`-f -`", "a conversation", []string{"chat", "-f", "-"}},
		{"`-sys`, `--load`", "no conversation", generate("-sys", "x")},
		{"`--chat-template`", "`--chat-template-file`",
			[]string{"chat", "--chat-template", "plain", "--chat-template-file", text}},
		{"`serve --host`", "no key", []string{"serve", "--host", "0.0.0.0"}},
		{"`serve -md`", "no `-m`", []string{"serve", "-md", draft}},
		{"`--lora`", "a model that is no adapter", generate("-m", target, "--lora", draft)},
		{"`serve --lora`", "several `-m`", []string{"serve", "-m", target, "-m", draft, "--lora", text}},
		{"`quantize --pure`", "a mix of types", []string{"quantize", target, filepath.Join(dir, "out"), "q4_k_m", "--pure"}},
		{"`imatrix --in-file`", "`-m`, `-p`, `-f` and others of a text or a model",
			[]string{"imatrix", "-m", target, "--in-file", text, "-p", "x", "-o", filepath.Join(dir, "out")}},
		{"`bench --type`", "no `--shape`", []string{"bench", "-m", target, "--type", "q4_0"}},
		{"`serve --ssl-cert-file`", "no `--ssl-key-file`", []string{"serve", "--ssl-cert-file", text}},
		{"`plan --prompts`", "`-p`, `-f`", []string{"plan", "-p", "x", "--prompts", text}},
		{"`selftest --prompts`", "`-p`, `-f`", []string{"selftest", "-p", "x", "--prompts", text}},
		{"`bench -m`", "`--shape`", []string{"bench", "-m", target, "--shape", "llama-1b"}},
		{"`bench --limits`", "`-m`, `--shape` and others", []string{"bench", "--limits", "-m", target}},
		{"`inspect --memory`", "`--json`", []string{"inspect", "--memory", "1G", "--json", "-m", target}},
		{"`embed`", "several `-m`", []string{"embed", "-m", target, "-m", draft, "-p", "x"}},
		{"`cache build`", "no `-m`", []string{"cache", "build"}},
	} {
		_, stderr, code := spec(t, "", c.args...)
		lines := strings.Split(strings.TrimSpace(stderr), "\n")
		says := strings.ReplaceAll(lines[len(lines)-1], dir+string(filepath.Separator), "")
		says, _, _ = strings.Cut(strings.TrimPrefix(says, "spec "+c.args[0]+": "), " (try: ")
		if code != exitUsage && code != exitFailed || len(says) < 20 {
			t.Errorf("%v: exit %d, %s", c.args, code, stderr)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", c.one, c.two, c.args[0], strings.ReplaceAll(says, "|", `\|`))
	}
	testkit.Printed(t, "docs/TOGETHER.md", "refused pairs",
		"| one | with | in | error |\n|---|---|---|---|\n"+b.String())
}
