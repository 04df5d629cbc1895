package engine

import (
	"os"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// indexedFile is a model of deepseek2 as a glm-dsa file, with indexes in all blocks that choose so many positions.
func indexedFile(t *testing.T, from []byte, top uint32) []byte {
	t.Helper()
	f := readHeader(t, from, "x")
	d, _ := f.Uint32("deepseek2.embedding_length")
	rank, _ := f.Uint32("deepseek2.attention.q_lora_rank")
	blocks, _ := f.Uint32("deepseek2.block_count")
	kvs := []gguf.KV{{Key: "glm-dsa.attention.indexer.head_count", Value: uint32(8)},
		{Key: "glm-dsa.attention.indexer.key_length", Value: uint32(64)},
		{Key: "glm-dsa.attention.indexer.top_k", Value: top}}
	for _, kv := range f.KVs {
		kv.Key = strings.Replace(kv.Key, "deepseek2.", "glm-dsa.", 1)
		if kv.Key == "general.architecture" {
			kv.Value = "glm-dsa"
		}
		kvs = append(kvs, kv)
	}
	var tensors []gguf.TensorSource
	for _, x := range f.Tensors {
		tensors = append(tensors, fileTensor(x.Name, x, from))
	}
	for i := range int(blocks) {
		n := (&loader{}).block(i) + "indexer."
		tensors = append(tensors, randommodel.Tensor(7, n+"attn_q_b.weight", 0, 0.2, int(rank), 8*64),
			randommodel.Tensor(7, n+"attn_k.weight", 0, 0.2, int(d), 64), randommodel.Tensor(7, n+"k_norm.weight", 1, 0.1, 64),
			randommodel.Tensor(7, n+"k_norm.bias", 0, 0.1, 64), randommodel.Tensor(7, n+"proj.weight", 0, 0.2, int(d), 8))
	}
	return randommodel.Bytes(t, kvs, tensors)
}

// TestIndexedLikeDeepseek2: a model whose indexes choose more positions than there are is the one without indexes, and
// its MTP block, which looks at every position, drafts as that one's does. With fewer positions the model answers
// otherwise, and the block computes what it did, of the same states and tokens.
func TestIndexedLikeDeepseek2(t *testing.T) {
	g := readDraftGolden(t, "draft-mtp-deepseek2.json")
	from, err := os.ReadFile(testkit.Shared(t, "families/models/"+g.Target))
	if err != nil {
		t.Fatal(err)
	}
	all := indexedFile(t, from, 300)
	draftsLike(t, written(t, all), g)
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	var logits [2][2][]float32
	for i, file := range [][]byte{all, indexedFile(t, from, 4)} {
		target, err := openBytes(t, rt, file, "indexed.gguf", Options{})
		if err != nil {
			t.Fatal(err)
		}
		head, err := openBytes(t, rt, file, "indexed.gguf", Options{MTP: true, Target: target})
		if err != nil {
			t.Fatal(err)
		}
		if n, m := len(target.Caches(0)), len(head.Caches(0)); n != 2 || m != 1 {
			t.Errorf("%d caches, %d of the MTP block: an index has keys of its own", n, m)
		}
		logits[0][i] = eval(t, newSession(t, target, SessionOptions{}), g.IDs, nil, All)
		states := make([]float32, len(g.IDs)*head.config.HiddenSize)
		for j := range states {
			states[j] = float32(j%7) - 3
		}
		r, err := newSession(t, head, SessionOptions{}).EvalSegment(t.Context(),
			Segment{Tokens: g.IDs, States: states, FromTarget: true, Logits: All})
		if err != nil {
			t.Fatal(err)
		}
		logits[1][i] = r.Logits.Data
	}
	v := len(logits[0][0]) / len(g.IDs)
	sameBits(t, "four positions of four", logits[0][0][:4*v], logits[0][1][:4*v])
	if logits[0][0][5*v] == logits[0][1][5*v] {
		t.Error("four positions of six are all")
	}
	sameBits(t, "the MTP block", logits[1][0], logits[1][1])
}

// TestIndexedRefused: a first block without an index, and an index that cannot be, are errors that name the key.
func TestIndexedRefused(t *testing.T) {
	a := askedModels()["glm-dsa"]
	tensors := a.tensors(t, "glm-dsa")
	for key, v := range (modelKeys{"attention.indexer.types": []bool{false, true, true, true},
		"attention.indexer.key_length": uint32(16), "attention.indexer.top_k": uint32(0)}) {
		keys := a.all()
		keys[key] = v
		if _, err := Describe(headerOf(t, a.kvs(keys), tensors, "x.gguf")); err == nil ||
			!strings.Contains(err.Error(), key) {
			t.Errorf("%s %v: %v", key, v, err)
		}
	}
}
