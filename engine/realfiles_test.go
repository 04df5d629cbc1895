package engine

import (
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
)

// realFile is what a published file says of its model.
type realFile struct {
	name string
	askedFor
}

// realFiles are those of testdata/realfiles.txt. Models of many layers have their first ones, of many experts a few,
// and the vocabulary is one that no tokenizer belongs to.
func realFiles(t *testing.T) (list []*realFile) {
	t.Helper()
	data, err := os.ReadFile("testdata/realfiles.txt")
	if err != nil {
		t.Fatal(err)
	}
	var f *realFile
	keys := ""
	end := func() {
		if f == nil {
			return
		}
		for _, kv := range strings.Split(keys, ";") {
			word := strings.Fields(kv)
			if len(word) < 2 {
				t.Fatalf("%s: %q", f.name, kv)
			}
			value := realValue(t, word[1], word[2:])
			if strings.HasPrefix(word[0], "tokenizer.") {
				f.plain[word[0]] = value
			} else {
				f.keys[word[0]] = value
			}
		}
		more, _ := f.keys["nextn_predict_layers"].(uint32)
		f.keys["block_count"] = min(f.keys["block_count"].(uint32), uint32(f.layers)+more)
		if n, _ := f.keys["expert_count"].(uint32); n > 0 {
			f.keys["expert_count"] = min(n, 16)
		}
		if f.keys["vocab_size"] == nil {
			f.keys["vocab_size"] = uint32(32000)
		}
		list = append(list, f)
	}
	for line := range strings.Lines(string(data)) {
		switch line = strings.TrimSuffix(line, "\n"); {
		case line == "" || line[0] == '#':
		case line[0] != ' ':
			end()
			arch, name, _ := strings.Cut(line, ": ")
			f, keys = &realFile{name, askedFor{arch: arch, layers: 2, keys: modelKeys{}, plain: modelKeys{}}}, ""
			if name, layers, ok := strings.Cut(name, ", layers "); ok {
				f.name = name
				if f.layers, err = strconv.Atoi(layers); err != nil {
					t.Fatal(err)
				}
			}
		case strings.HasPrefix(line, "  + "):
			f.also = append(f.also, strings.Fields(line[4:])...)
		default:
			keys += line
		}
	}
	end()
	return list
}

// realValue is a value of that type: u32, f32, bool or str, or a list of them as in f32[]. "8*3" is three times 8.
func realValue(t *testing.T, typ string, words []string) gguf.Value {
	t.Helper()
	element, list := strings.CutSuffix(typ, "[]")
	var all []string
	for _, w := range words {
		value, times, ok := strings.Cut(w, "*")
		n, err := strconv.Atoi(times)
		if ok && err != nil {
			t.Fatal(err)
		}
		all = append(all, slices.Repeat([]string{value}, max(n, 1))...)
	}
	switch element {
	case "u32":
		return listOf(t, all, list, func(s string) (uint32, error) {
			n, err := strconv.ParseUint(s, 10, 32)
			return uint32(n), err
		})
	case "i32":
		return listOf(t, all, list, func(s string) (int32, error) {
			n, err := strconv.ParseInt(s, 10, 32)
			return int32(n), err
		})
	case "f32":
		return listOf(t, all, list, func(s string) (float32, error) {
			x, err := strconv.ParseFloat(s, 32)
			return float32(x), err
		})
	case "bool":
		return listOf(t, all, list, strconv.ParseBool)
	case "str":
		return strings.Join(words, " ")
	}
	t.Fatalf("type %q", typ)
	return nil
}

func listOf[T any](t *testing.T, words []string, list bool, parse func(string) (T, error)) gguf.Value {
	t.Helper()
	all := make([]T, len(words))
	for i, w := range words {
		var err error
		if all[i], err = parse(w); err != nil {
			t.Fatal(err)
		}
	}
	if list {
		return all
	}
	return all[0]
}

// TestRealFilesOpen: what published files say is asked for, or known to change nothing: none of them is refused.
func TestRealFilesOpen(t *testing.T) {
	files := realFiles(t)
	if len(files) < 45 {
		t.Fatalf("%d files", len(files))
	}
	for _, f := range files {
		if _, err := f.shapes(t, f.name, f.kvs(f.keys), int(f.keys["block_count"].(uint32))); err != nil {
			t.Errorf("%s, %s: %v", f.arch, f.name, err)
		}
	}
}

// TestBlockIndex: the number between blk. and the next dot, in its only form.
func TestBlockIndex(t *testing.T) {
	for name, want := range map[string]int{"blk.0.a": 0, "blk.17.attn_q.weight": 17, "blk.": -1, "blk.1": -1,
		"blk.01.a": -1, "blk.-1.a": -1, "blk.+1.a": -1, "blk. 1.a": -1, "blk.1x.a": -1, "enc.blk.1.a": -1,
		"blk.99999999999999999999.a": -1, "blk..a": -1} {
		if i, ok := blockIndex(name); ok != (want >= 0) || ok && i != want {
			t.Errorf("%s: %d, %v", name, i, ok)
		}
	}
}

// TestConvertersWriteMore: keys that a converter takes from config.json whatever the model is, and that say nothing of
// it, are no reason to refuse one.
func TestConvertersWriteMore(t *testing.T) {
	more := modelKeys{
		"attention.causal": true, "attention.layer_norm_epsilon": float32(1e-5),
		"attention.layer_norm_rms_epsilon": float32(1e-5), "expert_group_count": uint32(1),
		"expert_group_used_count": uint32(1), "rope.scaling.finetuned": false,
		"rope.scaling.original_context_length": uint32(512), "rope.scaling.type": "none",
		"rope.scaling.yarn_beta_fast": float32(32), "rope.scaling.yarn_beta_slow": float32(1),
		"rope.scaling.yarn_ext_factor": float32(1), "rope.scaling.yarn_log_multiplier": float32(0.1),
		"tensor_data_layout": "Meta AI original pth",
	}
	for name, a := range askedModels() {
		tensors := a.tensors(t, name)
		for key, value := range more {
			keys := a.all()
			if _, ok := keys[key]; ok {
				continue
			}
			keys[key] = value
			if _, err := Describe(headerOf(t, a.kvs(keys), tensors, name)); err != nil {
				t.Errorf("%s with %s %v: %v", name, key, value, err)
			}
		}
	}
}
