package main

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/testkit"
	"github.com/specgo/spec/testdata"
)

// embedded writes the embedded target to a file.
func embedded(t *testing.T) string {
	t.Helper()
	text, err := io.ReadAll(testdata.Target())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "target.gguf")
	write(t, path, string(text))
	return path
}

func TestInspect(t *testing.T) {
	text := done(t, "", "inspect", "--tensors")
	for _, part := range []string{"GGUF version 3", "general.architecture", `"llama"`, "blk.5.ffn_down.weight", "Q8_0",
		"768 x 256", "tokenizer.ggml.tokens", "string[4096]"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	type file struct {
		Schema   int
		Metadata map[string]any
		Tensors  []struct {
			Name, Type string
			Dims       []int
			Bytes      int
		}
	}
	j := decode[file](t, done(t, "", "inspect", "--json", embedded(t)))
	if j.Schema != 1 || len(j.Metadata["tokenizer.ggml.tokens"].([]any)) != 4096 ||
		j.Metadata["llama.block_count"] != 6.0 {
		t.Errorf("schema %d, metadata %v", j.Schema, len(j.Metadata))
	}
	for _, x := range j.Tensors {
		if x.Name == "blk.5.ffn_down.weight" &&
			(x.Type != "Q8_0" || len(x.Dims) != 2 || x.Dims[0] != 768 || x.Bytes != 768*256/32*34) {
			t.Errorf("%+v", x)
		}
	}
}

func TestTokenize(t *testing.T) {
	type tokens struct {
		IDs []int32 `json:"token_ids"`
		N   int     `json:"n_tokens"`
	}
	const text = "func main() {\n\tfmt.Println(\"héllo\")\n}\n"
	plain := decode[tokens](t, done(t, text, "tokenize", "--no-special", "--json"))
	if len(plain.IDs) == 0 || plain.N != len(plain.IDs) {
		t.Fatalf("%+v", plain)
	}
	asGiven := decode[tokens](t, done(t, "", "tokenize", "--json", "-p", text))
	if len(asGiven.IDs) != len(plain.IDs)+1 || asGiven.IDs[0] != 4095 {
		t.Errorf("without --no-special the tokens begin %v", asGiven.IDs[:2])
	}
	if got := decode[tokens](t, done(t, "", "tokenize",
		"--no-special", "--json", "-p", "")); got.IDs == nil || got.N != 0 {
		t.Errorf("of no text: %+v", got)
	}
	if got := done(t, "", "tokenize", "--no-special", "-e", "-p", `a\n\n`); strings.Count(got, "\n") != 2 ||
		!strings.Contains(got, `"\n\n"`) {
		t.Errorf("listed as %q", got)
	}
	special := decode[tokens](t, done(t, "", "tokenize", "--no-special", "--parse-special", "--json",
		"-p", "<|endoftext|>"))
	spelled := decode[tokens](t, done(t, "", "tokenize", "--no-special", "--json", "-p", "<|endoftext|>"))
	if len(special.IDs) != 1 || special.IDs[0] != 4095 || len(spelled.IDs) < 2 {
		t.Errorf("a special token is %v parsed, %v spelled out", special.IDs, spelled.IDs)
	}
}

// A special token that a prompt spells is text, which is told, or with --parse-special the token.
func TestGenerateSpelledTokens(t *testing.T) {
	lengths := map[string]int{}
	for _, flag := range []string{"--no-escape", "--parse-special"} {
		out, errs, code := spec(t, "", "generate", "-p", "a<|endoftext|>b", "-n", "1", "--temp", "0", "--json", flag)
		if code != exitDone || strings.Contains(errs, "spells <|endoftext|>, which is read as plain text") !=
			(flag == "--no-escape") {
			t.Fatalf("%s: exit %d: %s", flag, code, errs)
		}
		lengths[flag] = decode[result](t, out).Stats.Prompt
	}
	if lengths["--parse-special"] != 4 || lengths["--no-escape"] < 6 {
		t.Errorf("tokens of the prompt: %v", lengths)
	}
	if _, errs, code := spec(t, "", "generate", "-cnv", "--parse-special"); code != exitUsage ||
		!strings.Contains(errs, "--parse-special") {
		t.Errorf("a conversation: exit %d: %s", code, errs)
	}
}

func TestTokenizeVocabularyOnly(t *testing.T) {
	dir := testkit.Shared(t, "tokenizers")
	if got := done(t, "", "tokenize", "--no-special", "--ids", "-m",
		filepath.Join(dir, "gpt-2.gguf"), "-p", "Hello world"); got != "15496 995\n" {
		t.Errorf("gpt-2: %q", got)
	}
}

func TestPerplexity(t *testing.T) {
	type answer struct {
		Perplexity float64
		Chunks     int `json:"n_chunks"`
	}
	text := strings.Repeat("func (r *Ring) Len() int {\n\treturn r.n\n}\n\n", 12)
	got := decode[answer](t, done(t, text, "perplexity", "-c", "32", "--json"))
	if !(got.Perplexity > 1) || got.Perplexity > 50 || got.Chunks < 2 {
		t.Errorf("%+v", got)
	}
	if line := done(t, text, "perplexity", "-c", "32"); !strings.HasPrefix(line, "perplexity ") {
		t.Errorf("%q", line)
	}
	// The chunks are those that the engine cuts, and --chunks takes the first ones.
	m := target(t)
	ids := m.Tokenizer().Encode(text, bpe.EncodeOptions{AddSpecial: true})
	for _, n := range []int{1, 3, got.Chunks} {
		part := decode[answer](t, done(t, text, "perplexity", "-c", "32", "--json", "--chunks", fmt.Sprint(n)))
		want, err := engine.Perplexity(t.Context(), m, ids[:32*n], engine.SessionOptions{Context: 32})
		if err != nil || part.Chunks != n || math.Abs(part.Perplexity/want-1) > 1e-9 {
			t.Errorf("%d chunks: %+v, want %v, %v", n, part, want, err)
		}
	}
	// The standard error is that of the chunks' means; one chunk has none.
	var each []float64
	for i := range 3 {
		y, err := engine.Perplexity(t.Context(), m, ids[32*i:32*i+32], engine.SessionOptions{Context: 32})
		if err != nil {
			t.Fatal(err)
		}
		each = append(each, math.Log(y))
	}
	mean := (each[0] + each[1] + each[2]) / 3
	spread := math.Sqrt((math.Pow(each[0]-mean, 2) + math.Pow(each[1]-mean, 2) + math.Pow(each[2]-mean, 2)) / 6)
	want := fmt.Sprintf("perplexity %.4f ± %.4f over 3 chunks of 32 tokens\n", math.Exp(mean), math.Exp(mean)*spread)
	if line := done(t, text, "perplexity", "-c", "32", "--chunks", "3"); line != want {
		t.Errorf("%q, want %q", line, want)
	}
	if line := done(t, text, "perplexity", "-c", "32", "--chunks", "1"); strings.Contains(line, "±") {
		t.Errorf("%q", line)
	}
	// Keys and values in fewer bits predict otherwise, by the measure of the engine.
	type cached struct {
		answer
		KV string
	}
	seen := map[float64]string{}
	for _, kv := range []string{"f32", "f16", "q8_0", "q4_0"} {
		part := decode[cached](t, done(t, text, "perplexity", "-c", "32", "--json", "--chunks", "1", "--kv", kv))
		want, err := engine.Perplexity(t.Context(), m, ids[:32], engine.SessionOptions{Context: 32, KV: kv})
		if err != nil || part.KV != kv || math.Abs(part.Perplexity/want-1) > 1e-9 || seen[part.Perplexity] != "" {
			t.Errorf("--kv %s: %+v, want %v, %v", kv, part, want, err)
		}
		seen[part.Perplexity] = kv
	}
	if usual := decode[cached](t, done(t, text, "perplexity", "-c", "32", "--json", "--chunks", "1")); usual.KV != "f16" ||
		seen[usual.Perplexity] != "f16" {
		t.Errorf("%+v", usual)
	}
}

// What Q8_0 can hold, it holds again after a detour over F32: block by block the greatest weight is
// 127 times the scale.
func TestQuantizeThereAndBack(t *testing.T) {
	dir, source := t.TempDir(), draftFile
	wide, back := filepath.Join(dir, "f32.gguf"), filepath.Join(dir, "q8_0.gguf")
	done(t, "", "quantize", "-m", source, "-o", wide, "--type", "f32")
	done(t, "", "quantize", "-m", wide, "-o", back, "--type", "q8_0")
	want, got := read(t, source), read(t, back)
	if len(want) != len(got) {
		t.Errorf("%d tensors, want %d", len(got), len(want))
	}
	for name, data := range want {
		if !bytes.Equal(got[name], data) {
			t.Errorf("%s changed", name)
		}
	}
	// The perplexity of F32 weights that came from Q8_0 is that of Q8_0, nearly: activations differ.
	type answer struct{ Perplexity float64 }
	text := strings.Repeat("func (r *Ring) Len() int {\n\treturn r.n\n}\n\n", 6)
	a := decode[answer](t, done(t, text, "perplexity", "-c", "32", "--json", "-m", wide)).Perplexity
	b := decode[answer](t, done(t, text, "perplexity", "-c", "32", "--json", "-m", back)).Perplexity
	if math.Abs(a/b-1) > 0.05 {
		t.Errorf("perplexity %v in F32, %v in Q8_0", a, b)
	}
	for _, typ := range []string{"bf16", "q4_k"} {
		out := filepath.Join(dir, typ)
		done(t, "", "quantize", wide, out, strings.ToUpper(typ))
		if text := done(t, "", "inspect", "--tensors", "-m", out); !strings.Contains(text, strings.ToUpper(typ)+" ") {
			t.Errorf("no %s in\n%s", typ, text)
		}
		done(t, "", "generate", "-m", out, "-p", ring, "-n", "2")
	}
	// The rows are 128 long, but for those of ffn_down.
	_, stderr, code := spec(t, "", "quantize", "-m", source, "-o", filepath.Join(dir, "k.gguf"), "--type", "q6_k")
	if code != 0 || !strings.Contains(stderr, "7 in q8_0, 2 in q6_k") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	_, stderr, code = spec(t, "", "generate", "-m", source, "--weights", "q4_k", "-p", ring, "-n", "2")
	if code != 0 || !strings.Contains(stderr,
		source+": not all rows are whole blocks of q4_k; the weights are in q5_0, q4_k") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	left, _ := filepath.Glob(filepath.Join(dir, "*.part"))
	if len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// The embedded files are what "spec quantize" makes of the originals.
func TestEmbeddedFromOriginals(t *testing.T) {
	for name, model := range map[string]*strings.Reader{"go-target": testdata.Target(), "go-draft": testdata.Draft()} {
		original := testkit.Shared(t, "models", name+".f32.gguf")
		out := filepath.Join(t.TempDir(), "out.gguf")
		done(t, "", "quantize", "-m", original, "-o", out, "--type", "q8_0")
		got, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := io.ReadAll(model)
		if !bytes.Equal(got, want) {
			t.Errorf("%s.q8_0.gguf is not what quantize writes", name)
		}
	}
}

// read returns a file's tensors, type and data.
func read(t *testing.T, path string) map[string][]byte {
	t.Helper()
	f, err := gguf.OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string][]byte{}
	for _, x := range f.Tensors {
		data := make([]byte, x.Size)
		if _, err := f.Reader().ReadAt(data, x.Offset); err != nil {
			t.Fatal(err)
		}
		out[x.Name+" "+x.Type.String()] = data
	}
	return out
}
