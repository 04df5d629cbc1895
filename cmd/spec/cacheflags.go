package main

import (
	"math"
	"slices"

	"github.com/specgo/spec/tensor"
)

// kvTypes are how keys and values can be stored.
var kvTypes = []string{"f16", "f32", "q8_0", "q4_0"}

// kvFlags choose the type of the KV cache, by --kv or by llama.cpp's two flags.
type kvFlags struct {
	kv           string // "" is f16
	keys, values string // -ctk, -ctv
}

func (k *kvFlags) rows() []flag {
	return []flag{
		choiceFlag("--kv", &k.kv, kvTypes, "type of the KV cache").or("f16").of(fieldKV),
		choiceFlag("-ctk, --cache-type-k", &k.keys, kvTypes, "the same, in llama.cpp's two flags: keys").
			env("LLAMA_ARG_CACHE_TYPE_K").of(fieldKV),
		choiceFlag("-ctv, --cache-type-v", &k.values, kvTypes, "and values, which must have the type of the keys").
			env("LLAMA_ARG_CACHE_TYPE_V").of(fieldKV),
	}
}

// contextRow is -c.
func contextRow(p *int, help string) flag {
	return intFlag("-c, --ctx-size", p, 0, math.MaxInt32, help).or("0: the model's").env("LLAMA_ARG_CTX_SIZE")
}

// stateRow bounds the memory of a session's recurrent layers.
func stateRow(p *int64) flag {
	return bytesFlag("--state-memory", p, "most bytes of a sequence's copies of recurrent state, by which a text that "+
		"changes is not computed anew, as in 256M; spec inspect names the least").or("that and 64M")
}

// kvType is the cache type that the flags ask for.
func (k *kvFlags) kvType() (string, error) {
	const standard = "f16"
	if k.keys == "" && k.values == "" {
		return k.kv, nil
	}
	keys, values := k.keys, k.values
	if keys == "" {
		keys = standard
	}
	if values == "" {
		values = standard
	}
	switch {
	case keys != values:
		return "", usagef("-ctk %s and -ctv %s: keys and values have one type here, give --kv", keys, values)
	case k.kv != "" && k.kv != keys:
		return "", usagef("-ctk and -ctv %s contradict --kv %s", keys, k.kv)
	}
	return keys, nil
}

// bytesPerValue is the memory of one number in a KV cache, in heads of 32 numbers or a multiple.
func bytesPerValue(kv string) float64 {
	t, err := tensor.ParseKVType(kv)
	if err != nil {
		t = tensor.KVF16 // flags have only names that are known
	}
	return float64(tensor.KVShape{Layers: 1, Heads: 1, HeadDim: 32, Type: t}.SlotBytes()) / 64
}

// ignoredRows are flags of llama.cpp that choose hardware, memory mapping or batch sizes, which there is no choice of
// here. They are accepted so that scripts keep running.
func ignoredRows() []flag {
	list := append(ignored("", "--mlock", "--no-mmap", "--mmap", "--no-perf", "--perf", "--no-warmup", "--log-disable",
		"-nkvo, --no-kv-offload"), ignored("VALUE", "-ngl, --gpu-layers, --n-gpu-layers",
		"-ngld, --gpu-layers-draft, --n-gpu-layers-draft", "-b, --batch-size", "-ub, --ubatch-size",
		"-tb, --threads-batch", "-dev, --device", "-sm, --split-mode", "-mg, --main-gpu")...)
	flash := ignored("VALUE", "-fa, --flash-attn")
	flash[0].optional = true
	flash[0].values = []string{"on", "off", "auto", "enabled", "disabled", "true", "false", "1", "0"}
	return append(list, flash...)
}

// refusedFlags are flags of llama.cpp that ask for what is not done here, where a similar name would mislead, with the
// reason.
var refusedFlags = map[string]string{
	"context-shift": "what is computed of a text cut in its middle is not what the model says of the rest; " +
		"--when-full drop shortens a prompt and computes it again, and an answer that fills the context ends with length",
}

// ignoredModes are flags of llama.cpp that choose how a terminal is used.
func ignoredModes() []flag { return ignored("", "-no-cnv, --no-conversation", "--simple-io") }

// ignoredByServers are flags of llama.cpp's server that choose what is always so here; of its connections, those that
// other commands do not have.
func ignoredByServers(connections bool) []flag {
	list := ignored("", "--jinja", "--embedding, --embeddings", "-cb, --cont-batching", "-nocb, --no-cont-batching",
		"--no-context-shift", "-kvu, --kv-unified", "--swa-full", "--cache-prompt", "--no-mmproj")
	if connections {
		list = append(append(list, ignored("", "--metrics", "--slots", "--props")...),
			ignored("N", "--threads-http")...)
	}
	return list
}

func ignored(arg string, all ...string) (list []flag) {
	nothing := func(string) error { return nil }
	for _, n := range all {
		list = append(list, flag{names: names(n), arg: arg, help: "without effect", ignored: true, set: nothing})
	}
	return list
}

// withoutEffect is the group of ignored flags.
func withoutEffect(lists ...[]flag) group { return group{"without effect", slices.Concat(lists...)} }
