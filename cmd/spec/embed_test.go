package main

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// spec embed prints what /v1/embeddings answers, one line of numbers for each text, however many there are.
func TestEmbed(t *testing.T) {
	url, _ := started(t, "--log-format", "off", "-t", "1")
	want := func(text, pooling string) (v []float32) {
		t.Helper()
		body, _ := json.Marshal(map[string]any{"input": text, "pooling": pooling})
		status, answer := ask(t, url+"/v1/embeddings", string(body))
		var got struct {
			Data []struct{ Embedding []float32 } `json:"data"`
		}
		if err := json.Unmarshal([]byte(answer), &got); err != nil || status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
		return got.Data[0].Embedding
	}
	texts := []string{"func main() {", "return nil", strings.Repeat("x := y + z\t", 60)}
	for _, pooling := range []string{"mean", "last"} {
		out := done(t, strings.Join(texts, "\n")+"\n\n", "embed", "--pooling", pooling)
		lines := strings.Split(strings.TrimSuffix(out, "\n"), "\n")
		if len(lines) != len(texts) {
			t.Fatalf("%d lines for %d texts", len(lines), len(texts))
		}
		for i, line := range lines {
			var got []float32
			length := 0.0
			for _, x := range strings.Fields(line) {
				n, err := strconv.ParseFloat(x, 32)
				if err != nil {
					t.Fatal(err)
				}
				got, length = append(got, float32(n)), length+n*n
			}
			if fmt.Sprint(got) != fmt.Sprint(want(texts[i], pooling)) || math.Abs(length-1) > 1e-3 {
				t.Errorf("%s, text %d: %.80s…, the server's %.80s…; length² %v", pooling, i, fmt.Sprint(got),
					fmt.Sprint(want(texts[i], pooling)), length)
			}
		}
	}
	const line = 300 // more texts than are written at once, and than share a pass
	many := decode[embeddingReport](t, done(t, strings.Repeat("a\nb b\nc\n", line/3), "embed", "--json", "-t", "2"))
	if len(many.Embeddings) != line || many.Size != 256 || many.Schema != 1 || many.Model != "embedded" ||
		many.Pooling != "mean" || many.Tokens < line {
		t.Errorf("%d vectors of %d numbers, %d tokens, %s, %s", len(many.Embeddings), many.Size, many.Tokens,
			many.Model, many.Pooling)
	}
	for i, text := range []string{"a", "b b", "c"} {
		if w := want(text, "mean"); fmt.Sprint(many.Embeddings[i]) != fmt.Sprint(w) ||
			fmt.Sprint(many.Embeddings[line-3+i]) != fmt.Sprint(w) {
			t.Errorf("%q has another vector among others", text)
		}
	}
	parts := decode[embeddingReport](t, done(t, "", "embed", "--json", "-p", `one\ntwo##three`, "--embd-separator", "##"))
	if len(parts.Embeddings) != 2 || fmt.Sprint(parts.Embeddings[0]) != fmt.Sprint(want("one\ntwo", "mean")) {
		t.Errorf("%d vectors of two texts", len(parts.Embeddings))
	}
	file := decode[embeddingReport](t, done(t, "", "embed", "--json", "-m", servedTarget, "-p", "a",
		"--memory", "256M", "-ngl", "9"))
	if fmt.Sprint(file.Embeddings[0]) != fmt.Sprint(many.Embeddings[0]) || file.Model != "go-target.q8_0" {
		t.Errorf("%s: another vector than the embedded model's", file.Model)
	}
}

// TestEmbedPlansForItsTexts: memory is planned for as many texts at once as there are, of the length of the longest, to
// the byte; what is too little says what is counted.
func TestEmbedPlansForItsTexts(t *testing.T) {
	for _, c := range []struct {
		text  string
		pages int64
		says  string
	}{
		{"hello", 1, "of 1 texts at once are counted, the longest of "}, {"a\nb", 2, "of 2 texts"},
		{strings.Repeat("a\n", 100), 8, "of 8 texts"}, {strings.Repeat("x := y + z\t", 100), 3, "of 1 texts"},
	} {
		e := options[*embedding](t, "embed", "-m", servedTarget, "--memory", "64M")
		texts := strings.FieldsFunc(c.text, func(r rune) bool { return r == '\n' })
		list, err := e.cut("-", strings.Join(texts, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		if e.known, _, err = e.measure(list); err != nil {
			t.Fatal(err)
		}
		d := describeFile(servedTarget)
		one, err := d.Caches[0].Bytes("f16")
		if err != nil {
			t.Fatal(err)
		}
		if got := e.sessions(1).Bytes(d); got != c.pages*256*one {
			t.Errorf("%.20q: %d bytes, want %d pages of %d", c.text, got, c.pages, 256*one)
		}
		_, _, stderr := runWith(t, t.TempDir(), "embed", "-m", servedTarget, "--memory", "1M", "-p",
			strings.Join(texts, "\n"))
		if !strings.Contains(stderr, c.says) || strings.Contains(stderr, "-np") {
			t.Errorf("%.20q: %s", c.text, stderr)
		}
		// What is planned suffices for the vectors.
		out := done(t, "", "embed", "-m", servedTarget, "--memory", "64M", "-p", strings.Join(texts, "\n"), "-t", "1")
		if strings.Count(out, "\n") != len(texts) {
			t.Errorf("%.20q: %d lines", c.text, strings.Count(out, "\n"))
		}
	}
}

// TestContextAboveTheModels: a server, and what is like one, says that a model has less context than -c asks for.
func TestContextAboveTheModels(t *testing.T) {
	code, _, stderr := runWith(t, t.TempDir(), "embed", "-m", servedTarget, "-p", "a", "-c", "5000", "-t", "1")
	if code != exitDone || !strings.Contains(stderr, "-c 5000: ") ||
		!strings.Contains(stderr, "a context of 1024 tokens") {
		t.Errorf("%d: %s", code, stderr)
	}
	if code, _, stderr := runWith(t, t.TempDir(), "embed", "-m", servedTarget, "-p", "a", "-c", "1024", "-t",
		"1"); stderr != "" {
		t.Errorf("%d: %s", code, stderr)
	}
}

// What spec embed refuses.
func TestEmbedRefused(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"no text":      {[]string{"-p", `\n\n`}, exitFailed, "no text"},
		"long text":    {[]string{"-p", strings.Repeat("x y ", 2000)}, exitFailed, "too large"},
		"pooling":      {[]string{"-p", "x", "--pooling", "max"}, exitUsage, "mean"},
		"separator":    {[]string{"-p", "x", "--embd-separator", ""}, exitUsage, "separator"},
		"two models":   {[]string{"-p", "x", "-m", "a", "-m", "b"}, exitUsage, "one model"},
		"server flag":  {[]string{"-p", "x", "--port", "9"}, exitUsage, "--port"},
		"no model":     {[]string{"-p", "x", "-m", filepath.Join(t.TempDir(), "none.gguf")}, exitFailed, "none.gguf"},
		"draft model":  {[]string{"-p", "x", "-md", servedDraft}, exitUsage, "-md"},
		"a small roof": {[]string{"-p", "x", "-m", servedTarget, "--memory", "1M"}, exitFailed, "the least is"},
	} {
		if code, out, stderr := runWith(t, t.TempDir(), append([]string{"embed"}, c.args...)...); code != c.code ||
			out != "" || !strings.Contains(stderr, c.says) {
			t.Errorf("%s: %d %q %s", name, code, out, stderr)
		}
	}
}
