package main

// kvTypes are how keys and values can be stored.
var kvTypes = []string{"f16", "f32", "q8_0"}

// kvFlags choose the type of the KV cache, by --kv or by llama.cpp's two flags.
type kvFlags struct {
	kv           string // "" is f16
	keys, values string // -ctk, -ctv
}

func (k *kvFlags) flags() []flag {
	return []flag{
		choiceFlag("--kv", &k.kv, kvTypes, "type of the KV cache (default f16)"),
		choiceFlag("-ctk, --cache-type-k", &k.keys, kvTypes, "the same, in llama.cpp's two flags: keys"),
		choiceFlag("-ctv, --cache-type-v", &k.values, kvTypes, "and values, which must have the type of the keys"),
	}
}

// stateFlag bounds the memory of a session's recurrent layers.
func stateFlag(p *int64) flag {
	return valueFlag("--state-memory", "SIZE", "most bytes of a sequence's copies of recurrent state, by which a text "+
		"that changes is not computed anew, as in 256M; spec inspect names the least (default: that and 64M)",
		func(v string) (err error) {
			*p, err = byteSize(v)
			return err
		})
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

// bytesPerValue is the memory of one number in a KV cache.
func bytesPerValue(kv string) float64 {
	switch kv {
	case "f32":
		return 4
	case "q8_0":
		return 34.0 / 32 // a block of 32 numbers and its scale
	}
	return 2
}

// ignoredFlags are flags of llama.cpp that choose hardware, memory mapping, batch sizes or a mode that
// there is no choice of here. They are accepted so that scripts keep running.
func ignoredFlags() (list []flag) {
	nothing := func(string) error { return nil }
	for _, n := range []string{"--mlock", "--no-mmap", "--mmap", "-no-cnv, --no-conversation", "--no-perf", "--perf",
		"--no-warmup", "--simple-io", "--log-disable", "-nkvo, --no-kv-offload"} {
		list = append(list, flag{names: names(n), help: "without effect", ignored: true, set: nothing})
	}
	for _, n := range []string{"-ngl, --gpu-layers, --n-gpu-layers", "-ngld, --gpu-layers-draft, --n-gpu-layers-draft",
		"-b, --batch-size", "-ub, --ubatch-size",
		"-tb, --threads-batch", "-dev, --device", "-sm, --split-mode", "-mg, --main-gpu", "--numa"} {
		list = append(list, flag{names: names(n), arg: "VALUE", help: "without effect", ignored: true, set: nothing})
	}
	return append(list, flag{names: names("-fa, --flash-attn"), arg: "VALUE", optional: true, help: "without effect",
		ignored: true, set: nothing})
}
