package engine

import (
	"crypto/sha256"
	"fmt"
	"math"
	"strings"

	"github.com/specgo/spec/gguf"
)

// Rope says how positions are rotated where that is not as the file says: the options --rope-scaling and its kin of
// llama.cpp. What is zero is the file's.
type Rope struct {
	Scaling  string  // none, linear or yarn (Peng et al. 2023, arXiv:2309.00071)
	Scale    float32 // by this factor the context grows
	Base     float32 // of the frequencies
	Original int     // with yarn: tokens of the context that the model was trained with

	// With yarn: the factor of attention, and the numbers of rotations between which frequencies are scaled in part.
	Attention, Fast, Slow float32
}

// Overridden is the file as it is loaded with Options.Rope and Options.Override: the keys that they set are the file's
// own, for its fingerprint too.
func (o *Options) Overridden(f *gguf.File) (*gguf.File, error) {
	if o.Rope == (Rope{}) && len(o.Override) == 0 {
		return f, nil
	}
	arch, err := f.String("general.architecture")
	if err != nil {
		return nil, err
	}
	var list []gguf.KV
	k := kinds[arch]
	for _, kv := range o.Override {
		if !k.key(arch, kv.Key) && !strings.HasPrefix(kv.Key, "tokenizer.ggml.") {
			return nil, fmt.Errorf("%s: override of key %q: %w: it is neither one of %s.… nor of tokenizer.ggml.…", f.Name,
				kv.Key, ErrUnsupported, arch)
		}
		if kv.Value = sameType(f, kv); kv.Value == nil {
			return nil, fmt.Errorf("%s: override of key %q: %w: of another type than the file's value", f.Name, kv.Key, ErrValue)
		}
		list = append(list, kv)
	}
	f = f.With(list)
	list, err = o.Rope.keys(f, arch)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name, err)
	}
	return f.With(list), nil
}

// identified is a file's fingerprint with what the options change of it: one that was read of the file as it is, and
// may be kept, tells nothing of that.
func (o *Options) identified(model string) string {
	if o.Rope == (Rope{}) && len(o.Override) == 0 {
		return model
	}
	h := sha256.New() // whose Write does not fail
	fmt.Fprintf(h, "%s %+v", model, o.Rope)
	for _, kv := range o.Override {
		fmt.Fprintf(h, " %q=%T:%v", kv.Key, kv.Value, kv.Value)
	}
	return hexSum(h)
}

// sameType is a key's new value in the type of the old one, so that an equal one changes nothing; nil: it does not fit.
// What is new is a 32-bit number where it can be.
func sameType(f *gguf.File, kv gguf.KV) gguf.Value {
	old, ok := f.Value(kv.Key)
	switch v := kv.Value.(type) {
	case int64:
		switch old.(type) {
		case uint32:
			if v >= 0 && v <= math.MaxUint32 {
				return uint32(v)
			}
		case int32:
			if v >= math.MinInt32 && v <= math.MaxInt32 {
				return int32(v)
			}
		case uint64:
			if v >= 0 {
				return uint64(v)
			}
		case int8, uint8, int16, uint16, int64:
			return v
		case nil:
			if !ok && v >= 0 && v <= math.MaxUint32 {
				return uint32(v)
			}
			return v
		}
	case float64:
		switch old.(type) {
		case float64:
			return v
		case float32, nil:
			return float32(v)
		}
	case bool:
		if _, is := old.(bool); is || !ok {
			return v
		}
	case string:
		if _, is := old.(string); is || !ok {
			return v
		}
	}
	return nil
}

// keys are the keys that r sets. A scale makes the context that much longer than the one that the model was trained
// with.
func (r *Rope) keys(f *gguf.File, arch string) (list []gguf.KV, err error) {
	if *r == (Rope{}) {
		return nil, nil
	}
	if _, ok := f.Tensor("rope_factors_long.weight"); ok {
		return nil, fmt.Errorf("rope scaling: %w: the file has factors of its own (longrope)", ErrUnsupported)
	}
	set := func(key string, v gguf.Value) { list = append(list, gguf.KV{Key: arch + "." + key, Value: v}) }
	number := func(key string, x float32) {
		if x != 0 {
			set(key, x)
		}
	}
	kind := r.Scaling
	if kind == "" {
		if kind, err = f.String(arch + ".rope.scaling.type"); err != nil {
			kind = "linear"
		}
	}
	switch kind {
	case "none", "linear", "yarn":
	default:
		return nil, fmt.Errorf("rope scaling %q: %w; there are none, linear and yarn", kind, ErrUnsupported)
	}
	if yarn := r.Original != 0 || r.Attention != 0 || r.Fast != 0 || r.Slow != 0; yarn && kind != "yarn" {
		return nil, fmt.Errorf("rope scaling %q: %w: numbers of yarn", kind, ErrUnsupported)
	}
	number("rope.freq_base", r.Base)
	if r.Scaling != "" {
		set("rope.scaling.type", r.Scaling)
	}
	number("rope.scaling.factor", r.Scale)
	number("rope.scaling.attn_factor", r.Attention)
	number("rope.scaling.yarn_beta_fast", r.Fast)
	number("rope.scaling.yarn_beta_slow", r.Slow)
	context, err := f.Uint32(arch + ".context_length")
	if err != nil {
		return nil, err
	}
	original := float64(context)
	const originalKey = "rope.scaling.original_context_length"
	if n, err := f.Uint32(arch + "." + originalKey); err == nil {
		original = float64(n)
	}
	if r.Original > 0 {
		original = float64(r.Original)
	}
	factor := float64(r.Scale)
	if factor == 0 {
		if factor, err = f.Float64(arch + ".rope.scaling.factor"); err != nil {
			factor = 1
		}
	}
	if kind == "yarn" {
		set(originalKey, uint32(original))
	}
	if longer := original * factor; kind != "none" && longer > float64(context) && longer <= math.MaxInt32 {
		set("context_length", uint32(longer))
	}
	return list, nil
}

// overridden refuses keys of Options.Override that the model does not read.
func (l *loader) overridden() {
	k := kinds[l.arch]
	for _, kv := range l.options.Override {
		if l.ok() && k.key(l.arch, kv.Key) && !l.keys[strings.TrimPrefix(kv.Key, l.arch+".")] {
			l.failKey(kv.Key, ErrUnsupported, "an override of what no %s model reads", l.arch)
		}
	}
}
