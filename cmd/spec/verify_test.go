package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/specgo/spec/speculative"
)

// A receipt that generate writes is confirmed by verify, and a changed one is not.
func TestVerify(t *testing.T) {
	dir := t.TempDir()
	for name, flags := range map[string]string{
		"greedy":    "--temp 0 --repeat-penalty 1.2 -n 16",
		"match":     "-s 7 --drafter tree -l 15-inf --ignore-eos -n 16 --stop never --presence-penalty 0.5 --repeat-last-n 9",
		"converted": "-s 8 --weights q4_0 --kv q8_0 -c 100 -n -1",
		"stopped":   "-s 9 --stop } --drafter none --json",
	} {
		file := filepath.Join(dir, name)
		out := done(t, "", append(strings.Fields("generate --receipt "+file+" "+flags), "-p",
			"func Max(a, b int) int {\n")...)
		r := decode[speculative.Receipt](t, readFile(t, file))
		if r.Text == "" || !strings.Contains(out, r.Text) && name != "stopped" {
			t.Errorf("%s: the receipt's text is %q, written was %q", name, r.Text, out)
		}
		if out := done(t, "", "verify", file); !strings.HasPrefix(out, "confirmed: ") || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: %s", name, out)
		}
		v := decode[verdict](t, done(t, "", "verify", file, "--json"))
		if v.Schema != 1 || !v.Confirmed || v.Tokens != len(r.Tokens) || v.Tokens == 0 || v.Passes < 1 ||
			v.Field != "" || v.Position != nil {
			t.Errorf("%s: %+v", name, v)
		}
		if why := lacks(v.Origin, 1); why != "" {
			t.Errorf("%s: %s: %+v", name, why, v.Origin)
		}

		// One token, and what it should have been.
		id := r.Tokens[5]
		r.Tokens[5] = (id + 1) % 4096
		changed := filepath.Join(dir, "changed")
		f, err := os.Create(changed)
		if err != nil {
			t.Fatal(err)
		}
		if err := printJSON(f, r); err != nil || f.Close() != nil {
			t.Fatal(err)
		}
		out, errs, code := spec(t, "", "verify", changed)
		if code != exitFailed || out != "" || !strings.Contains(errs, "not confirmed") || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d: %s%s", name, code, out, errs)
		}
		out, _, code = spec(t, "", "verify", "--json", changed)
		v = decode[verdict](t, out)
		if code != exitFailed || v.Confirmed || v.Field != "token_ids" || v.Position == nil ||
			*v.Position != len(r.Prompt)+5 || *v.ExpectedID != id || *v.WrittenID != r.Tokens[5] {
			t.Errorf("%s: exit %d, %+v", name, code, v)
		}
	}
	ranged := filepath.Join(dir, "ranged")
	done(t, "", "generate", "--receipt", ranged, "--temp", "0", "--dynatemp-range", "0.9", "-s", "7", "-n", "8", "-p", "x")
	if out := done(t, "", "verify", ranged); !strings.Contains(out, "(temperature 0 ± 0.9, seed 7;") {
		t.Errorf("a text that the seed decides: %s", out)
	}
	if _, errs, code := spec(t, "", "verify", "-m", "../../testdata/go-draft.q8_0.gguf",
		filepath.Join(dir, "greedy")); code != exitFailed || !strings.Contains(errs, "model_sha256") {
		t.Errorf("another model: exit %d: %s", code, errs)
	}
	if out := done(t, "", "verify", "-m", "../../testdata/go-target.q8_0.gguf",
		filepath.Join(dir, "greedy")); !strings.Contains(out, "go-target.q8_0.gguf wrote these 16 tokens") {
		t.Error(out)
	}
}

func TestVerifyUsage(t *testing.T) {
	dir := t.TempDir()
	receipt := filepath.Join(dir, "receipt")
	write(t, filepath.Join(dir, "bad"), `{"schema":9}`)
	for _, x := range []struct {
		args, want string
		code       int
	}{
		{"verify", "the receipt is missing", exitUsage},
		{"verify a b", "one receipt", exitUsage},
		{"verify " + dir + "/missing", "missing", exitFailed},
		{"verify " + dir + "/bad", "schema 9", exitFailed},
		{"generate -p a --receipt " + receipt + " --verify rejection", "--verify rejection", exitUsage},
		{"generate -p a --receipt " + receipt + " --verify block", "--verify block", exitUsage},
		{"generate -p a --receipt " + receipt + " -n 0", "-n 0", exitUsage},
		{"generate -p a --receipt " + receipt + " -cnv", "conversation", exitUsage},
		{"chat -p a --receipt " + receipt, "conversation", exitUsage},
		{"generate -p a --receipt " + dir, "folder", exitFailed},
		{"generate -p a --verify greedy --temp 0 --dynatemp-range 1", "no range of it", exitUsage},
		{"generate -p a --trace=" + receipt + " --receipt " + receipt,
			"--trace " + receipt + " and --receipt " + receipt + " are one file", exitUsage},
		{"generate -p a --learned " + receipt + " --prompt-cache " + dir + "/./receipt", "are one file", exitUsage},
		{"generate -p a --draft-vocab 8 --draft-vocab-from " + dir + "/bad --trace=" + dir + "/bad", "is the input",
			exitFailed},
	} {
		_, errs, code := spec(t, "", strings.Fields(x.args)...)
		if code != x.code || !strings.Contains(errs, x.want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("spec %s: exit %d, %s", x.args, code, errs)
		}
	}
	if _, err := os.Stat(receipt); err == nil {
		t.Error("a refused command left a receipt")
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
