package engine

import (
	"fmt"
	"strings"

	"github.com/specgo/spec/gguf"
)

// What a file holds and nobody asks for is refused if it could change the result: the loader notes every key and every
// tensor that an architecture asks it for, and compares them with the file at the end.

// unread refuses tensors that nobody asked for, and keys that change the arithmetic and that nobody asked for.
func (l *loader) unread() {
	for _, t := range l.f.Tensors {
		if i, ok := blockIndex(t.Name); l.first > 0 && !l.alone && !(ok && i >= l.first) {
			continue // the target's, which was read without complaint
		}
		if l.ok() && !l.tensors[t.Name] && !l.skips(t.Name) {
			l.bad(t.Name, ErrUnsupported, "an unknown part of a %s model", l.arch)
		}
	}
	for _, kv := range l.f.KVs {
		key, ok := strings.CutPrefix(kv.Key, l.arch+".")
		if (l.first == 0 || l.alone) && l.ok() && ok && !l.keys[key] && changesResult(key) && !neutral(key, kv.Value) &&
			!l.ignores(key) {
			l.fail(key, ErrUnsupported, "%v", kv.Value)
		}
		if k := kinds[l.arch]; l.ok() && !ok && k.key(l.arch, kv.Key) && !l.keys[kv.Key] {
			l.failKey(kv.Key, ErrUnsupported, "%v", kv.Value)
		}
	}
}

// skips reports whether a tensor is left out on purpose: those of multi-token-prediction blocks (key
// nextn_predict_layers), which come after the model's own and only draft; and NAME.input_scale of a matrix, by which
// other processors round activations to 4 bits, and the reference engine does not on this kind.
func (l *loader) skips(tensor string) bool {
	if name, ok := strings.CutSuffix(tensor, ".input_scale"); ok && l.sites[name+".weight"] != nil {
		return true
	}
	i, ok := blockIndex(tensor)
	return ok && i >= l.layers && l.first == 0
}

// changesResult reports whether a key of that name is likely to say how to compute something.
func changesResult(key string) bool {
	for _, prefix := range []string{"rope.", "attention.", "expert_", "kda.", "moe_", "ssm.", "shortconv.", "wkv.",
		"swiglu_", "norm_", "ple.", "hyper_connection."} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	for _, suffix := range []string{"_scale", "_multiplier", "_softcapping", "_residual", "_interval", "_input",
		"_every_n_layers"} {
		if strings.HasSuffix(key, suffix) {
			return true
		}
	}
	return strings.Contains(key, "softcapping")
}

// neutral reports whether a value says the same as the key's absence: 0, false and "none"; 1 for factors; true for a
// mask that all these models have.
func neutral(key string, v gguf.Value) bool {
	factor := strings.HasSuffix(key, "scale") || strings.HasSuffix(key, "factor") || strings.HasSuffix(key, "multiplier")
	switch v := v.(type) {
	case bool:
		return !v
	case string:
		return v == "" || v == "none"
	case float32:
		return v == 0 || factor && v == 1
	case float64:
		return v == 0 || factor && v == 1
	case uint8, int8, uint16, int16, uint32, int32, uint64, int64:
		n := fmt.Sprint(v)
		return n == "0" || factor && n == "1"
	}
	return false
}

// ignoreKeys ignores the keys that begin so, of a part that a model does not have.
func (l *loader) ignoreKeys(prefix string) {
	for _, kv := range l.f.KVs {
		if key, ok := strings.CutPrefix(kv.Key, l.arch+"."); ok && strings.HasPrefix(key, prefix) {
			l.keys[key] = true
		}
	}
}

// ignored are keys that change nothing, or that the reference engine does not read either, with the reason. A key
// "*.x" holds for every architecture.
var ignored = map[string]string{
	"*.rope.scaling.finetuned": "says how the model was trained; Granite alone decides by it whether to " +
		"rotate",
	"*.rope.scaling.original_context_length": "used by YaRN and longrope only, whose loaders ask for it",
	"*.rope.scaling.yarn_beta_fast":          "used by YaRN only, whose loader asks for it",
	"*.rope.scaling.yarn_beta_slow":          "likewise",
	"*.rope.scaling.yarn_attn_factor":        "likewise",
	"*.rope.scaling.yarn_log_multiplier": "the reference reads it for mistral3 and latent attention, whose loaders ask " +
		"for it",
	"*.attention.layer_norm_epsilon":     "of the kind of norm that the architecture does not have",
	"*.attention.layer_norm_rms_epsilon": "likewise",
	"*.attention.group_norm_epsilon":     "likewise",
	"stablelm.use_parallel_residual":     "the reference tells by the tensors whether the block is parallel",
	"llama.attention.sliding_window":     "Mistral 7B 0.1: the reference engine runs these files with full attention",
}

// ignores reports whether a key is ignored on purpose. It may be how experts are chosen, where there are none, or one.
func (l *loader) ignores(key string) bool {
	if ignored[l.arch+"."+key] != "" || ignored["*."+key] != "" {
		return true
	}
	for _, prefix := range []string{"expert_used_", "expert_gating_", "expert_group_", "expert_weights_"} {
		if strings.HasPrefix(key, prefix) {
			n, _ := l.f.Uint32(l.arch + ".expert_count")
			return n < 2
		}
	}
	return false
}
