package convert

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/testkit"
)

// llamaNormalizer is what the tokenizer.json of Llama 2 makes of a text first.
func llamaNormalizer() map[string]any {
	return map[string]any{"type": "Sequence", "normalizers": []any{
		map[string]any{"type": "Prepend", "prepend": "▁"},
		map[string]any{"type": "Replace", "pattern": map[string]any{"String": " "}, "content": "▁"}}}
}

// mergesOf are the merges of tokens of text: of the tokens in that order, every pair of tokens that makes one.
func mergesOf(vocab map[string]int, order []string) (merges []string) {
	for _, s := range order {
		for k := range s {
			_, left := vocab[s[:k]]
			if _, right := vocab[s[k:]]; k > 0 && left && right {
				merges = append(merges, s[:k]+" "+s[k:])
			}
		}
	}
	return merges
}

// TestMergedPieces: Llama 2's vocabulary with merges in the place of scores has the reference's ids.
func TestMergedPieces(t *testing.T) {
	f, err := gguf.OpenFile(testkit.Shared(t, "tokenizers/llama-spm.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	tokens, _ := f.Strings("tokenizer.ggml.tokens")
	scores, _ := f.Float32s("tokenizer.ggml.scores")
	types, _ := f.Int32s("tokenizer.ggml.token_type")
	vocab, score := map[string]int{}, map[string]float32{}
	var added []any
	var order []string
	for id, text := range tokens {
		vocab[text] = id
		switch types[id] {
		case typeNormal:
			score[text], order = scores[id], append(order, text)
		case typeControl, typeUnknown:
			added = append(added, map[string]any{"id": id, "content": text, "special": true})
		}
	}
	slices.SortStableFunc(order, func(a, b string) int { return cmp.Compare(score[b], score[a]) })
	s := &source{t: t, dir: t.TempDir()}
	s.file("tokenizer.json", map[string]any{"added_tokens": added, "normalizer": llamaNormalizer(), "pre_tokenizer": nil,
		"model": map[string]any{"type": "BPE", "byte_fallback": true, "unk_token": "<unk>", "vocab": vocab,
			"merges": mergesOf(vocab, order)}})
	w, err := readTokenizerJSON(s.dir+"/tokenizer.json", &builder{vocab: 40000})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(w.types, types) || !*w.addPrefix || *w.addBOS {
		t.Errorf("types or flags differ: prefix %v, BOS %v", *w.addPrefix, *w.addBOS)
	}
	c := bpe.Defaults(w.model, w.pre)
	c.Tokens, c.Types, c.Scores, c.AddSpacePrefix = w.tokens, w.types, w.scores, *w.addPrefix
	tok, err := bpe.New(c)
	if err != nil {
		t.Fatal(err)
	}
	texts, err := os.ReadFile(testkit.Shared(t, "tokenizers/llama-spm.inp"))
	if err != nil {
		t.Fatal(err)
	}
	ids, err := os.ReadFile(testkit.Shared(t, "tokenizers/llama-spm.out"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(ids), "\n")
	for i, text := range strings.Split(string(texts), "\n__ggml_vocab_test__\n") {
		var got []string
		for _, id := range tok.Encode(text, bpe.EncodeOptions{}) {
			got = append(got, strconv.Itoa(int(id)))
		}
		if !slices.Equal(got, strings.Fields(lines[i])) {
			t.Errorf("text %d, %q: %v, want %s", i, text, got, lines[i])
		}
	}
}

// TestMergedPiecesRefused: merges that scores cannot stand for, and spaces that GGUF has no words for.
func TestMergedPiecesRefused(t *testing.T) {
	vocab := map[string]int{"<unk>": 0, "<s>": 1, "</s>": 2, "a": 3, "b": 4, "ab": 5, "▁": 6, "▁a": 7, "▁ab": 8,
		"<0x0A>": 9}
	merges := mergesOf(vocab, []string{"ab", "▁a", "▁ab"})
	metaspace := func(scheme string, split any) map[string]any {
		return map[string]any{"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": split}
	}
	for name, c := range map[string]struct {
		change func(m, model map[string]any)
		prefix bool
		want   string
	}{
		"normalized":   {func(m, model map[string]any) {}, true, ""},
		"in front":     {func(m, model map[string]any) { m["pre_tokenizer"] = metaspace("first", false) }, true, ""},
		"cut at marks": {func(m, model map[string]any) { m["pre_tokenizer"] = metaspace("always", true) }, true, ""},
		"without": {func(m, model map[string]any) {
			m["normalizer"], m["pre_tokenizer"] = nil, metaspace("never", false)
		}, false, ""},
		"Gemma's": {func(m, model map[string]any) {
			m["normalizer"] = llamaNormalizer()["normalizers"].([]any)[1]
			m["pre_tokenizer"] = map[string]any{"type": "Split", "pattern": map[string]any{"String": " "},
				"behavior": "MergedWithPrevious"}
		}, false, ""},
		"a merge less": {func(m, model map[string]any) { model["merges"] = merges[:3] }, false,
			"1 merges make ▁ab, which 2 pairs"},
		"none": {func(m, model map[string]any) { model["merges"] = nil }, false, "0 merges make"},
		"another order": {func(m, model map[string]any) {
			model["merges"] = []string{merges[0], merges[2], merges[1], merges[3]}
		}, false, "merges[3]: the merges that make ▁ab do not follow"},
		"no pair":   {func(m, model map[string]any) { model["merges"] = []string{"ab"} }, false, "merges[0]"},
		"no result": {func(m, model map[string]any) { model["merges"] = []any{[]string{"b", "a"}} }, false, "merges[0]"},
		"no marks":  {func(m, model map[string]any) { m["normalizer"] = nil }, false, "makes marks of spaces"},
		"lower case": {func(m, model map[string]any) { m["normalizer"] = map[string]any{"type": "Lowercase"} }, false,
			"Lowercase"},
		"whole words": {func(m, model map[string]any) { model["ignore_merges"] = true }, false, "ignore_merges"},
		"words":       {func(m, model map[string]any) { m["pre_tokenizer"] = splitBy("x+") }, false, "x+"},
		"a mark inside": {func(m, model map[string]any) {
			wider := maps.Clone(vocab)
			wider["a▁"] = 10
			m["pre_tokenizer"] = metaspace("always", nil)
			model["vocab"], model["merges"] = wider, append(slices.Clone(merges), "a ▁")
		}, false, "token a▁ has one inside"},
	} {
		model := map[string]any{"type": "BPE", "byte_fallback": true, "unk_token": "<unk>", "vocab": vocab, "merges": merges}
		m := map[string]any{"added_tokens": []any{map[string]any{"id": 1, "content": "<s>", "special": true}},
			"normalizer": llamaNormalizer(), "pre_tokenizer": nil, "model": model}
		c.change(m, model)
		s := &source{t: t, dir: t.TempDir()}
		s.file("tokenizer.json", m)
		w, err := readTokenizerJSON(s.dir+"/tokenizer.json", &builder{vocab: 40000})
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", name, err, c.want)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case *w.addPrefix != c.prefix || w.types[0] != typeUnknown || w.types[1] != typeControl || w.types[9] != typeByte ||
			w.scores[5] <= w.scores[7] || w.scores[7] <= w.scores[8]:
			t.Errorf("%s: prefix %v, types %v, scores %v", name, *w.addPrefix, w.types, w.scores)
		}
	}
}

// FuzzMergedPieces: any tokenizer.json is refused or makes a tokenizer.
func FuzzMergedPieces(f *testing.F) {
	vocab := map[string]int{"<unk>": 0, "a": 1, "b": 2, "ab": 3, "▁": 4, "▁a": 5, "▁ab": 6, "<0x0A>": 7}
	good, err := json.Marshal(map[string]any{"normalizer": llamaNormalizer(),
		"added_tokens": []any{map[string]any{"id": 8, "content": "▁▁"}},
		"model": map[string]any{"type": "BPE", "byte_fallback": true, "unk_token": "<unk>", "vocab": vocab,
			"merges": mergesOf(vocab, []string{"ab", "▁a", "▁ab"})}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, data []byte) {
		s := &source{t: t, dir: t.TempDir()}
		s.file("tokenizer.json", string(data))
		if w, err := readTokenizerJSON(s.dir+"/tokenizer.json", &builder{vocab: 40000}); err == nil && w.model == "llama" {
			w.spellSpaces()
			w.check()
		}
		if w, err := readTokenizerJSON(s.dir+"/tokenizer.json", &builder{vocab: 40000, arch: "gemma4"}); err == nil {
			w.showMarks()
			w.check()
		}
	})
}

// TestGemma4Tokenizer: merges stay merges, in their order; added tokens are cut out of a text, and the marks around
// thoughts and calls are text.
func TestGemma4Tokenizer(t *testing.T) {
	vocab := map[string]int{"<unk>": 0, "<bos>": 1, "<eos>": 2, "a": 3, "b": 4, "c": 5, "ab": 6, "bc": 7, "▁": 8,
		"▁▁": 9, "▁a": 10, "<|channel>": 11, "<|turn>": 12}
	for b := range 256 {
		vocab[fmt.Sprintf("<0x%02X>", b)] = 13 + b
	}
	added := []any{}
	for _, text := range []string{"<unk>", "<bos>", "<eos>", "<|channel>", "<|turn>"} {
		added = append(added, map[string]any{"id": vocab[text], "content": text, "special": true})
	}
	space := map[string]any{"String": " "}
	file := map[string]any{"added_tokens": added,
		"normalizer":    map[string]any{"type": "Replace", "pattern": space, "content": "▁"},
		"pre_tokenizer": map[string]any{"type": "Split", "pattern": space, "behavior": "MergedWithPrevious"},
		"post_processor": map[string]any{"type": "TemplateProcessing", "single": []any{
			map[string]any{"SpecialToken": map[string]any{"id": "<bos>"}}, map[string]any{"Sequence": map[string]any{}}}}}
	model := func(merges ...any) map[string]any {
		return map[string]any{"type": "BPE", "byte_fallback": true, "unk_token": "<unk>", "vocab": vocab, "merges": merges}
	}
	// By scores "b c" could not stand behind "▁ a", and in front of "a b".
	file["model"] = model([]string{"b", "c"}, []string{"▁", "▁"}, "▁ a", []string{"a", "b"})
	s := &source{t: t, dir: t.TempDir()}
	s.file("config.json", map[string]any{"eos_token_id": []int{2, 12}, "bos_token_id": 1})
	s.file("tokenizer_config.json", map[string]any{"added_tokens_decoder": map[string]any{
		"11": map[string]any{"content": "<|channel>", "special": true}}})
	read := func() (*gguf.File, error) {
		s.file("tokenizer.json", file)
		c, err := readConfig(filepath.Join(s.dir, "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		kvs, err := readTokenizer(s.dir, &builder{arch: "gemma4", vocab: 13 + 256, config: c})
		if err != nil {
			return nil, err
		}
		var b bytes.Buffer
		if err := gguf.Write(&b, kvs, nil); err != nil {
			t.Fatal(err)
		}
		return openedFile(t, b.Bytes()), nil
	}
	f, err := read()
	if err != nil {
		t.Fatal(err)
	}
	tok, err := engine.ReadTokenizer(f)
	if err != nil {
		t.Fatal(err)
	}
	byteOf := func(b int32) int32 { return 13 + b }
	for text, want := range map[string][]int32{"abc": {3, 7}, "ab": {6}, " a": {10}, "  a": {9, 3}, "a\nd": {3,
		byteOf('\n'), byteOf('d')}, "<|channel>a": {11, 3}} {
		if got := tok.Encode(text, bpe.EncodeOptions{}); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	if got := tok.Encode("a", bpe.EncodeOptions{AddSpecial: true}); !slices.Equal(got, []int32{1, 3}) {
		t.Errorf("with special tokens: %v", got)
	}
	types, _ := f.Int32s("tokenizer.ggml.token_type")
	if types[11] != typeUser || types[12] != typeControl || types[0] != typeUnknown || types[20] != typeByte {
		t.Errorf("types %v", types[:21])
	}
	for key, want := range map[string]uint32{"eos": 2, "eot": 12, "bos": 1} {
		if id, err := f.Uint32("tokenizer.ggml." + key + "_token_id"); err != nil || id != want {
			t.Errorf("%s: %d, %v", key, id, err)
		}
	}
	prefix, err := f.Bool("tokenizer.ggml.add_space_prefix")
	if scores, ok := f.Value("tokenizer.ggml.scores"); ok || err != nil || prefix {
		t.Errorf("scores %v, prefix %v, %v", scores, prefix, err)
	}

	for _, c := range []struct {
		merges     []any
		normalizer any
		want       string
	}{{[]any{"a b", "a a"}, file["normalizer"], "merges[1]"}, {[]any{"a"}, file["normalizer"], "merges[0]"},
		{[]any{"a b"}, llamaNormalizer(), "a space in front"}} {
		file["model"], file["normalizer"] = model(c.merges...), c.normalizer
		if _, err := read(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.merges, err, c.want)
		}
	}
}
