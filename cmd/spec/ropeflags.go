package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
)

// fileChanges are what of a model's file does not count as it is: part of its fingerprint, and so of receipts.
type fileChanges struct {
	rope     engine.Rope
	override []gguf.KV
}

// rows are llama.cpp's flags for positions that are rotated otherwise, and for keys of the file.
func (c *fileChanges) rows() []flag {
	r := &c.rope
	return []flag{
		choiceFlag("--rope-scaling", &r.Scaling, []string{"none", "linear", "yarn"},
			"how positions are scaled for texts that are longer than the model was trained with").or("as in the file").
			env("LLAMA_ARG_ROPE_SCALING_TYPE"),
		floatFlag("--rope-scale", &r.Scale, 1e-3, 1e6, "factor by which the context grows").or("as in the file").
			env("LLAMA_ARG_ROPE_SCALE").of(fieldRope),
		valueFlag("--rope-freq-scale", "X", "the same, as 1/X", func(v string) error {
			x, err := strconv.ParseFloat(v, 32)
			if err != nil || !(x >= 1e-6 && x <= 1e3) {
				return errors.New("not a number from 1e-06 to 1000")
			}
			r.Scale = float32(1 / x)
			return nil
		}).env("LLAMA_ARG_ROPE_FREQ_SCALE").of(fieldRope),
		floatFlag("--rope-freq-base", &r.Base, 1, 1e12, "base of the frequencies").or("as in the file").
			env("LLAMA_ARG_ROPE_FREQ_BASE"),
		intFlag("--yarn-orig-ctx", &r.Original, 0, math.MaxInt32, "tokens of the context that the model was trained with").
			or("0: as in the file").env("LLAMA_ARG_YARN_ORIG_CTX"),
		valueFlag("--yarn-ext-factor", "-1", "only -1: frequencies are scaled in part as YaRN does", func(v string) error {
			if x, err := strconv.ParseFloat(v, 32); err != nil || x != -1 {
				return errors.New("only -1 is supported")
			}
			return nil
		}).env("LLAMA_ARG_YARN_EXT_FACTOR"),
		floatFlag("--yarn-attn-factor", &r.Attention, 1e-3, 1e3, "factor of attention with YaRN").or("as in the file").
			env("LLAMA_ARG_YARN_ATTN_FACTOR"),
		floatFlag("--yarn-beta-slow", &r.Slow, 1e-3, 1e3, "rotations from which frequencies are scaled in part").or("1").
			env("LLAMA_ARG_YARN_BETA_SLOW"),
		floatFlag("--yarn-beta-fast", &r.Fast, 1e-3, 1e3, "and from which not at all").or("32").
			env("LLAMA_ARG_YARN_BETA_FAST"),
		valueFlag("--override-kv", "KEY=TYPE:VALUE[,...]",
			"value of a key of the file, instead of its own: int, float, bool or str; may be repeated", func(v string) error {
				for one := range strings.SplitSeq(v, ",") {
					kv, err := parseOverride(one)
					if err != nil {
						return err
					}
					c.override = append(c.override, kv)
				}
				return nil
			}),
	}
}

// parseOverride reads KEY=TYPE:VALUE.
func parseOverride(text string) (kv gguf.KV, err error) {
	key, rest, ok1 := strings.Cut(text, "=")
	kind, value, ok2 := strings.Cut(rest, ":")
	if !ok1 || !ok2 || key == "" {
		return kv, fmt.Errorf("%.60q is not KEY=TYPE:VALUE, as in llama.context_length=int:8192", text)
	}
	kv.Key = key
	switch kind {
	case "int":
		kv.Value, err = strconv.ParseInt(value, 10, 64)
	case "float":
		var x float64
		if x, err = strconv.ParseFloat(value, 64); err == nil && (math.IsNaN(x) || math.IsInf(x, 0)) {
			err = errors.New("no number")
		}
		kv.Value = x
	case "bool":
		kv.Value, err = strconv.ParseBool(value)
	case "str":
		kv.Value = value
	default:
		return kv, fmt.Errorf("%s: type %q; there are int, float, bool and str", key, kind)
	}
	if err != nil {
		return kv, fmt.Errorf("%s: %q is no %s", key, value, kind)
	}
	return kv, nil
}

// options adds the changes to those of a model.
func (c *fileChanges) options(o *engine.Options) { o.Rope, o.Override = c.rope, c.override }
