package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/specgo/spec/speculative"
)

const personSchema = `{"type":"object","properties":{"first_name":{"type":"string","maxLength":8},"date_of_birth":{"type":"string","format":"date"},"kind":{"enum":["customer","supplier"]},"score":{"type":"integer","minimum":0,"maximum":100}},"required":["first_name","date_of_birth","kind","score"],"additionalProperties":false}`

// TestGenerateGrammar: the text follows the schema or grammar, is the same with every drafter, and forced tokens save
// passes.
// What a server takes for all requests is refused before it answers any: a grammar that is none, tokens that the model
// does not have.
func TestServersDefaultsAreChecked(t *testing.T) {
	for says, args := range map[string][]string{
		"--grammar: ":             {"--grammar", "root ::= ("},
		"--logit-bias 99999999: ": {"-l", "5-1", "-l", "99999999+1"},
		"--logit-bias 99999998: ": {"-l", "99999998-inf"},
		"no such file":            {"-jf", filepath.Join(t.TempDir(), "none")},
	} {
		_, errs, code := spec(t, "", append([]string{"serve", "--port", "0"}, args...)...)
		if code == 0 || !strings.Contains(errs, says) {
			t.Errorf("%v: %d %s", args, code, errs)
		}
	}
}

func TestGenerateGrammar(t *testing.T) {
	dir := t.TempDir()
	schema, list := filepath.Join(dir, "s.json"), filepath.Join(dir, "g.gbnf")
	for file, text := range map[string]string{
		schema: personSchema, list: "root ::= \"- \" [a-z]{3} \"\\n- \" [a-z]{3}\n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, temperature := range []string{"0", "1"} {
		texts := map[string]bool{}
		for _, flags := range [][]string{
			{"-j", personSchema, "--drafter", "none"}, {"--json-schema-file", schema, "--drafter", "model"},
			{"-jf", schema, "--drafter", "tree", "--schedule", "constant"},
			{"-j", personSchema, "--drafter", "suffix", "--schedule", "heuristic"},
		} {
			args := append([]string{"generate", "--json", "-p", "func main() {", "-n", "200", "--temp",
				temperature, "-s", "7"}, flags...)
			stdout, stderr, code := spec(t, "", args...)
			if code != 0 {
				t.Fatalf("%v: %d %s", flags, code, stderr)
			}
			var r struct {
				Text  string
				Stats speculative.Stats
			}
			if err := json.Unmarshal([]byte(stdout), &r); err != nil {
				t.Fatal(err)
			}
			var person struct {
				First string `json:"first_name"`
				Birth string `json:"date_of_birth"`
				Kind  string `json:"kind"`
				Score *int   `json:"score"`
			}
			d := json.NewDecoder(strings.NewReader(r.Text))
			d.DisallowUnknownFields()
			if err := d.Decode(&person); err != nil || len(person.Birth) != 10 || person.Kind == "" ||
				person.Score == nil || *person.Score > 100 {
				t.Errorf("%v: %q: %v", flags, r.Text, err)
			}
			if r.Stats.ForcedAccepted == 0 || r.Stats.TargetPasses >= r.Stats.Generated {
				t.Errorf("%v: %+v", flags, r.Stats)
			}
			texts[r.Text] = true
		}
		if len(texts) != 1 {
			t.Errorf("temperature %s: the drafters' texts differ: %v", temperature, texts)
		}
	}
	if stdout, stderr, code := spec(t, "", "generate", "-p", "x", "--grammar-file", list, "--temp", "0"); code != 0 ||
		len(stdout) != 11 || !strings.HasPrefix(stdout, "- ") || !strings.Contains(stdout, "\n- ") {
		t.Errorf("%d %q %s", code, stdout, stderr)
	}
}

// TestGrammarRefused: what is not a grammar, contradicts itself or cannot be enforced is an error that says where.
func TestGrammarRefused(t *testing.T) {
	for _, x := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--grammar", "root ::= ("}, 1, "--grammar"},
		{[]string{"--grammar", `root ::= "a" root2`}, 1, "root2"},
		{[]string{"-j", `{"not":{}}`}, 1, "no value is valid"},
		{[]string{"-j", `{`}, 1, "--json-schema: grammar: JSON: it ends early"},
		{[]string{"-j", `{"type":`}, 1, "--json-schema: grammar: JSON: it ends early"},
		{[]string{"-j", "{}", "--grammar", `root ::= "a"`}, 2, "exclude each other"},
		{[]string{"-jf", filepath.Join(t.TempDir(), "none.json")}, 1, "none.json"},
		{[]string{"-j", "{}", "--receipt", filepath.Join(t.TempDir(), "r.json")}, 2, "--json-schema"},
	} {
		if _, stderr, code := spec(t, "", append(
			[]string{"generate", "-p", "x", "-n", "1"}, x.args...)...); code != x.code || !strings.Contains(stderr, x.says) {
			t.Errorf("%v: %d %s", x.args, code, stderr)
		}
	}
}

// TestChatGrammar: answers follow the grammar, each from its beginning.
func TestChatGrammar(t *testing.T) {
	stdout, stderr, code := spec(t, "one\ntwo\n", "chat", "--chat-template", "plain", "--grammar",
		`root ::= "yes" | "no"`, "--temp", "0", "-n", "20")
	if code != 0 || strings.Count(stdout, "yes")+strings.Count(stdout, "no") != 2 {
		t.Errorf("%d %q %s", code, stdout, stderr)
	}
}

// The mark of UTF-8 that editors of Windows write in front of a text is no part of a grammar, a template or a message.
func TestFilesWithAMark(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(file, []byte("\ufeffroot ::= \"a\""), 0o600); err != nil {
		t.Fatal(err)
	}
	g, err := readGrammar(file)
	small, err2 := smallFile(file, "a text")
	message, err3 := messageFile(file)
	const want = `root ::= "a"`
	if err := errors.Join(err, err2, err3); err != nil || string(g) != want || small != want || message != want {
		t.Errorf("%v: %q, %q, %q", err, g, small, message)
	}
	const line = `{"name":"a","body":{"messages":[]},"golden":true}`
	if err := os.WriteFile(file, []byte("\ufeff"+line+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if list, _, err := readCases(file); err != nil || len(list) != 1 || list[0].Name != "a" {
		t.Errorf("%v, %v", list, err)
	}
}
