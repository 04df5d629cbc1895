package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/filelock"
	"github.com/specgo/spec/internal/testkit"
)

func put(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// embeds runs "spec embed -t 1".
func embeds(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return runWith(t, t.TempDir(), append([]string{"embed", "-t", "1"}, args...)...)
}

// corpus is a folder of texts with what is left out of one, and the texts' ids in their order.
func corpus(t *testing.T) (folder string, ids []string) {
	t.Helper()
	folder = t.TempDir()
	for name, text := range map[string]string{"b.txt": "return nil\nerr", "a/z.md": "func main", "a/b/c.go": "if x {\n}\n",
		"c": "for", ".git/config": "hidden", "a/.hidden": "hidden", "image.png": "\x89PNG\x00", "latin1.txt": "caf\xe9",
		"empty.txt": "\n\r\n", "late.bin": strings.Repeat("x", 9<<10) + "\x00"} {
		put(t, filepath.Join(folder, name), text)
	}
	_ = os.Symlink("b.txt", filepath.Join(folder, "link.txt")) // not every system has them
	return folder, []string{"a/b/c.go", "a/z.md", "b.txt", "c"}
}

// A folder's text files are embedded in the order of their names, and lines of JSON by their field; vectors are those
// of the texts by themselves, with their ids.
func TestEmbedDocuments(t *testing.T) {
	alone := func(text string) string {
		return strings.TrimSpace(done(t, "", "embed", "-t", "1", "--no-escape", "-p", text, "--embd-separator", "##",
			"--embd-output-format", "jsonl"))[len(`{"embedding":`):]
	}
	lines := func(args ...string) (list []string) {
		t.Helper()
		code, out, errs := embeds(t, append(args, "--embd-output-format", "jsonl")...)
		if code != exitDone {
			t.Fatalf("%v: %s", args, errs)
		}
		return strings.Split(strings.TrimSuffix(out, "\n"), "\n")
	}
	folder, ids := corpus(t)
	texts := []string{"if x {\n}\n", "func main", "return nil\nerr", "for"}
	got := lines("-f", folder)
	for i, id := range ids {
		if want := fmt.Sprintf(`{"id":%q,"embedding":%s`, id, alone(texts[i])); len(got) != len(ids) || got[i] != want {
			t.Fatalf("text %d of %d: %.80s, want %.80s", i, len(got), got[i], want)
		}
	}
	if _, _, errs := embeds(t, "-f", folder); strings.Count(errs, "\n") != 1 ||
		!strings.Contains(errs, "left out: 3, the first is image.png") {
		t.Errorf("what is left out: %s", errs)
	}
	cut := lines("-f", folder, "--embd-separator", `\n`)
	if want := `{"id":"b.txt:2","embedding":` + alone("err"); len(cut) != 6 || cut[4] != want ||
		!strings.HasPrefix(cut[3], `{"id":"b.txt:1",`) {
		t.Errorf("%d lines of a folder, %.80s, want %.80s", len(cut), cut[4], want)
	}
	records := put(t, filepath.Join(t.TempDir(), "in.jsonl"), `{"id": "a<b", "body": "func main"}
{"id":-1.50,"body":"if x {\n}\n","more":[{"id":1}]}

{"body": "for", "key": "k"}`)
	got = lines("-f", records, "--text-field", "body")
	for i, want := range []string{`{"id":"a<b","embedding":` + alone(texts[1]),
		`{"id":-1.50,"embedding":` + alone(texts[0]),
		`{"embedding":` + alone(texts[3])} {
		if len(got) != 3 || got[i] != want {
			t.Fatalf("record %d of %d: %.80s, want %.80s", i, len(got), got[i], want)
		}
	}
	code, out, errs := embeds(t, "-f", records, "--text-field", "body", "--json")
	if code != exitDone || !strings.Contains(out, `"ids":["a<b",-1.50,null]`) {
		t.Errorf("%d %s %s", code, out, errs)
	}
	put(t, filepath.Join(folder, "b.txt"), `{"id":3,"t":"return nil"}`)
	for _, name := range []string{"c", "a/z.md", "a/b/c.go"} {
		put(t, filepath.Join(folder, name), "")
	}
	if got = lines("-f", folder, "--text-field", "t"); len(got) != 1 ||
		got[0] != `{"id":3,"embedding":`+alone("return nil") {
		t.Errorf("records of a folder: %.80s", got)
	}
}

// An output that ends anywhere is completed to the byte, in every form, and nothing that is whole is written again.
func TestEmbedResume(t *testing.T) {
	folder, _ := corpus(t)
	dir := t.TempDir()
	for i, format := range vectorFormats {
		_, want, _ := embeds(t, "-f", folder, "--dimensions", "5", "--embd-output-format", format)
		name := filepath.Join(dir, format)
		args := []string{"-f", folder, "--dimensions", "5", "--embd-output-format", format, "-o", name}
		if code, out, errs := embeds(t, args...); code != exitDone ||
			!strings.HasPrefix(out, "4 texts, 0 embedded before, 4 now") {
			t.Fatalf("%s: %d %s %s", format, code, out, errs)
		}
		end := len(want)
		for j, at := range []int{1, end / 2, end - 1, end} {
			if (i+j)%2 > 0 && !testkit.IsLong(t) { // each place with every second form
				continue
			}
			put(t, name, want[:at])
			code, out, errs := embeds(t, append(args, "--resume")...)
			if got, _ := os.ReadFile(name); code != exitDone || string(got) != want {
				t.Errorf("%s, cut at byte %d of %d: %d, %d bytes, %s", format, at, end, code, len(got), errs)
			}
			if (at == end) != strings.Contains(out, " 4 embedded before, 0 now") {
				t.Errorf("%s, cut at byte %d of %d: %s", format, at, end, out)
			}
		}
	}
	name := filepath.Join(dir, "new")
	if code, _, errs := embeds(t, "-p", "a", "-o", name, "--resume"); code != exitDone {
		t.Errorf("a file that is not there: %s", errs)
	}
}

// TestLongEmbedResume: every form cut at every place.
func TestLongEmbedResume(t *testing.T) {
	testkit.Long(t)
	TestEmbedResume(t)
}

// A file that is not of these texts, this model and these options is refused and stays as it is.
func TestEmbedResumeRefused(t *testing.T) {
	dir := t.TempDir()
	text := put(t, filepath.Join(dir, "in.txt"), "a\nb b\nc\n")
	other := put(t, filepath.Join(dir, "other.txt"), "a\nb c\nc\n")
	ids := put(t, filepath.Join(dir, "ids.jsonl"), `{"id":1,"t":"a"}`+"\n"+`{"id":2,"t":"b b"}`+"\n"+`{"id":3,"t":"c"}`)
	made := func(args ...string) string {
		code, out, errs := embeds(t, args...)
		if code != exitDone {
			t.Fatal(errs)
		}
		return out
	}
	two := func(format string, args ...string) string { // the first two vectors
		all := made(append(args, "-f", text, "--embd-output-format", format)...)
		if n := vectorBytes(format, 256); n > 0 {
			return all[:len(all)-n]
		}
		return all[:strings.LastIndex(all[:len(all)-1], "\n")+1]
	}
	for name, c := range map[string]struct {
		has  string
		args []string
		says string
	}{
		"another text": {two("float32"), []string{"-f", other, "--embd-output-format", "float32"},
			"vector 2 is not that of " + other + ": line 2"},
		"another first": {two("text"), []string{"-p", `x\nb b\nc`}, "vector 1 is not that of -p: line 1"},
		"other pooling": {two("npy"), []string{"-f", text, "--embd-output-format", "npy", "--pooling", "last"},
			"vector 1"},
		"other lengths":     {two("text", "--embd-normalize", "-1"), []string{"-f", text}, "vector 1"},
		"fewer texts":       {two("binary"), []string{"-p", "a", "--embd-output-format", "binary"}, "more than 1 vectors"},
		"fewer lines":       {two("text"), []string{"-p", "a"}, "more than 1 vectors"},
		"half more":         {two("int8")[:300], []string{"-p", "a", "--embd-output-format", "int8"}, "more than 1 vectors"},
		"npy of other rows": {two("npy"), []string{"-p", "a", "--embd-output-format", "npy"}, "1 vectors of 256 numbers"},
		"npy of other size": {two("npy"), []string{"-f", text, "--embd-output-format", "npy", "--dimensions", "8"},
			"3 vectors of 8 numbers"},
		"no npy": {"\x93NUMPX", []string{"-f", text, "--embd-output-format", "npy"}, "begins in another way"},
		"other size": {two("text"), []string{"-f", text, "--dimensions", "8"},
			"line 1: not the vectors of these texts: 256 numbers, not 8"},
		"other form": {two("text"), []string{"-f", text, "--embd-output-format", "jsonl"}, "line 1: "},
		"no ids": {two("jsonl"), []string{"-f", ids, "--text-field", "t", "--embd-output-format", "jsonl"},
			"its id is '', the text's 1"},
		"another text, and a part": {two("float32") + "part", []string{"-f", other, "--embd-output-format", "float32"},
			"vector 2 is not that of " + other + ": line 2"},
		"no end of a line": {"what somebody needs", []string{"-f", text}, "vector 1 is not that of " + text + ": line 1"},
		"a few bytes": {"what somebody needs", []string{"-f", text, "--embd-output-format", "float32"},
			"vector 1 is not that of " + text + ": line 1"},
		"behind a header": {string(npyHeader(3, 256)) + "needed", []string{"-f", text, "--embd-output-format", "npy"},
			"vector 1 is not that of " + text + ": line 1"},
		"unknown field":    {`{"embeddin":[]}` + "\n", []string{"-f", text, "--embd-output-format", "jsonl"}, "embeddin"},
		"a long line":      {strings.Repeat("1 ", 1<<15), []string{"-f", text}, "line 1: "},
		"without --resume": {"x", nil, "--resume adds"},
	} {
		out := put(t, filepath.Join(dir, "out"), c.has)
		if c.args != nil {
			c.args = append(c.args, "--resume")
		} else {
			c.args = []string{"-f", text}
		}
		code, _, errs := embeds(t, append(c.args, "-o", out)...)
		if got, _ := os.ReadFile(out); code != exitFailed || !strings.Contains(errs, c.says) ||
			!strings.Contains(errs, out) || strings.Count(errs, "\n") != 1 || string(got) != c.has {
			t.Errorf("%s: %d, %d bytes of %d, %s", name, code, len(got), len(c.has), errs)
		}
	}
	if filelock.Works {
		f, err := os.Create(filepath.Join(dir, "locked"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		unlock, err := filelock.Lock(f)
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
		if code, _, errs := embeds(t, "-p", "a", "-o", f.Name()); code != exitFailed ||
			!strings.Contains(errs, "another program") {
			t.Errorf("a file that is written: %d %s", code, errs)
		}
	}
}

// A mistake names its file and line, before anything is embedded; so does what cannot be read or written.
func TestEmbedDocumentsRefused(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string { return put(t, filepath.Join(dir, "in", name), text) }
	good, empty := file("good.jsonl", `{"t":"a","n":1}`), filepath.Join(dir, "none")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no JSON": {[]string{"-f", file("1", "{\"t\":\"a\"}\n{t}\n"), "--text-field", "t"}, exitFailed,
			"1: line 2: "},
		"no object":     {[]string{"-f", file("2", "\n[1]\n"), "--text-field", "t"}, exitFailed, "2: line 2: "},
		"two of a name": {[]string{"-f", file("3", `{"t":"a","t":"b"}`), "--text-field", "t"}, exitFailed, "3: line 1: "},
		"no field":      {[]string{"-f", good, "--text-field", "x"}, exitFailed, "good.jsonl: line 1: x: missing"},
		"no text":       {[]string{"-f", good, "--text-field", "n"}, exitFailed, "line 1: n: not a text"},
		"empty":         {[]string{"-f", file("4", `{"t":" "}`), "--text-field", "t"}, exitFailed, "4: line 1: t: empty"},
		"half a pair":   {[]string{"-f", file("5", `{"t":"\ud800"}`), "--text-field", "t"}, exitFailed, "5: line 1: t: "},
		"no UTF-8":      {[]string{"-f", file("6", "{\"t\":\"\xff\"}"), "--text-field", "t"}, exitFailed, "6: line 1: "},
		"no id": {[]string{"-f", good, "--text-field", "t", "--id-field", "key"}, exitFailed,
			"line 1: key: missing"},
		"id of a kind": {[]string{"-f", file("7", `{"t":"a","id":null}`), "--text-field", "t"}, exitFailed,
			"7: line 1: id: neither"},
		"a long line": {[]string{"-m", servedTarget, "-f", file("8", "a\n\n"+strings.Repeat("x y ", 2000))}, exitFailed,
			"8: line 3: too large: "},
		"no texts": {[]string{"-f", empty}, exitFailed, "no text"},
		"output inside": {[]string{"-f", empty + "/../in", "-o", filepath.Join(dir, "in", "out")}, exitFailed,
			"inside the folder"},
		"output is input": {[]string{"-f", good, "-o", good, "--resume"}, exitFailed, "it is the input"},
		"no folder":       {[]string{"-p", "a", "-o", filepath.Join(dir, "x", "y")}, exitFailed, "x"},
		"a folder":        {[]string{"-p", "a", "-o", dir}, exitFailed, dir},
		"-o and --json":   {[]string{"-p", "a", "-o", "x", "--json"}, exitUsage, "--json and -o"},
		"--resume alone":  {[]string{"-p", "a", "--resume"}, exitUsage, "-o is missing"},
		"--id-field":      {[]string{"-p", "a", "--id-field", "x"}, exitUsage, "--text-field"},
		"two ways":        {[]string{"-p", "a", "--text-field", "x", "--embd-separator", "x"}, exitUsage, "exclude"},
	} {
		code, out, errs := embeds(t, c.args...)
		if code != c.code || out != "" || !strings.Contains(errs, c.says) || c.code == exitFailed &&
			strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: %d %q %s", name, code, out, errs)
		}
	}
	if got, _ := os.ReadFile(good); string(got) != `{"t":"a","n":1}` {
		t.Error("the input is written over")
	}
	files := os.DirFS(dir)
	for limit, want := range map[int64]bool{int64(len(`{"t":"a","n":1}`)): true, 14: false, 0: false} {
		if _, _, err := readTextFile(t.Context(), files, "in/good.jsonl", limit); (err == nil) != want {
			t.Errorf("15 bytes where %d are left: %v", limit, err)
		}
	}
	code, _, errs := runWith(t, dir, "rerank", "-m", servedTarget, "--query", "q", "-f", dir)
	if code != exitFailed || !strings.Contains(errs, "a folder") {
		t.Errorf("rerank of a folder: %d %s", code, errs)
	}
}

// Work that ends early leaves what it has, says how it goes on, and goes on.
func TestEmbedInterrupted(t *testing.T) {
	dir := t.TempDir()
	name, in := filepath.Join(dir, "out"), filepath.Join(dir, "in")
	args := []string{"-o", name, "--embd-output-format", "int8", "--dimensions", "3", "-f", in}
	put(t, in, strings.Repeat("a\n", embedBatch)+strings.Repeat("x y ", 2000))
	code, out, errs := embeds(t, args...)
	if got, _ := os.ReadFile(name); code != exitFailed || out != "" || len(got) != 3*embedBatch ||
		!strings.Contains(errs, "256 of 257 texts embedded; the same command with --resume goes on\n") ||
		!strings.Contains(errs, "in: line 257: too large") {
		t.Errorf("%d, %d bytes, %s %s", code, len(got), out, errs)
	}
	put(t, in, strings.Repeat("a\n", embedBatch)+"b")
	if code, out, errs = embeds(t, append(args, "--resume")...); !strings.Contains(out,
		"256 embedded before, 1 now, of ") {
		t.Errorf("%d %s %s", code, out, errs)
	}
	var report embeddingReport
	report.add([]float32{1}, nil)
	report.add([]float32{2}, json.RawMessage("7"))
	report.add([]float32{3}, nil)
	if b, _ := json.Marshal(report.IDs); string(b) != "[null,7,null]" {
		t.Errorf("ids %s", b)
	}
}

// Lines may end as Windows ends them: that is no part of their texts. Between other separators it is.
func TestEmbedLinesOfWindows(t *testing.T) {
	for separator, want := range map[string][]string{"": {"a", "b c"}, "\n": {"a", "b c"}, "c": {"a\r\n\r\nb "}} {
		list, err := (&cutting{separator: separator}).cut("f", "a\r\n\r\nb c\r\n")
		var got []string
		for _, d := range list {
			got = append(got, d.text)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", separator, got, err)
		}
	}
}
