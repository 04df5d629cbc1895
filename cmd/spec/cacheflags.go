package main

import (
	"math"

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
