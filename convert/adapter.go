package convert

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/specgo/spec/gguf"
)

// The factors of a matrix, behind its name.
const loraA, loraB = ".lora_a", ".lora_b"

// AdapterConfig is the file by which a folder with an adapter is known.
const AdapterConfig = "adapter_config.json"

// irrelevantToAdapters are members of adapter_config.json that say how an adapter was trained or where its base is.
var irrelevantToAdapters = []string{"auto_mapping", "base_model_name_or_path", "revision", "inference_mode",
	"lora_dropout", "loftq_config", "task_type", "target_modules", "exclude_modules",
	"layers_pattern", "layers_to_transform", "megatron_core", "runtime_config", "fan_in_fan_out", "peft_version",
	"eva_config", "corda_config", "qalora_group_size", "ensure_weight_tying", "parent_library"}

// mustBeEmpty are members that change what an adapter computes where they hold something.
var mustBeEmpty = []string{"modules_to_save", "rank_pattern", "alpha_pattern", "layer_replication",
	"trainable_token_indices", "target_parameters", "alora_invocation_tokens", "megatron_config", "arrow_config"}

// OpenAdapter reads everything but the weights of an adapter in the layout of PEFT: adapter_config.json and
// adapter_model.safetensors in dir. base is a folder with the config.json of the model that it is for: it says what the
// tensors are called in GGUF, and how their rows are ordered there.
func OpenAdapter(dir, base string) (*Model, error) {
	c, err := readConfig(filepath.Join(dir, AdapterConfig))
	if err != nil {
		return nil, err
	}
	alpha, rank := adapterAlpha(c)
	if *c.err != nil {
		return nil, *c.err
	}
	b, err := baseOf(base)
	if err != nil {
		return nil, err
	}
	w := &weights{tensors: map[string]stored{}, from: "adapter_model.safetensors"}
	if err := w.closeOn(w.add(filepath.Join(dir, w.from), nil, (*weights).safetensors)); err != nil {
		return nil, err
	}
	m := &Model{Arch: b.arch, From: w.from, weights: w, kvs: []gguf.KV{
		{Key: "general.type", Value: "adapter"}, {Key: "general.architecture", Value: b.arch},
		{Key: "general.name", Value: nameOf(dir)}, {Key: "adapter.type", Value: "lora"},
		{Key: "adapter.lora.alpha", Value: float32(alpha)}}}
	if m.targets, err = adapterTargets(w, b.targets, rank); err != nil {
		w.close()
		return nil, err
	}
	return m, nil
}

// adapterAlpha is GGUF's alpha, which is divided by the rank, and the rank.
func adapterAlpha(c *config) (alpha float64, rank int) {
	c.must("peft_type", "only LoRA is known", "LORA")
	for _, key := range []string{"use_dora", "lora_bias", "use_qalora", "use_bdlora"} {
		c.must(key, "not part of a plain LoRA adapter", false)
	}
	c.must("bias", "the file has no place for biases", "none")
	for _, key := range mustBeEmpty {
		c.has(key)
		switch v := c.values[key].(type) {
		case nil:
		case map[string]any:
			if len(v) > 0 {
				c.fail(key, "not supported")
			}
		case []any:
			if len(v) > 0 {
				c.fail(key, "not supported")
			}
		default:
			c.fail(key, "not supported")
		}
	}
	// PiSSA, OLoRA, CorDA and LoftQ: training begins with other weights, of which the factors' first values are a part.
	c.must("init_lora_weights", "the adapter is for other weights than the base model's (PEFT makes one for these: "+
		"save_pretrained with path_initial_model_for_weight_conversion)", true, false, "gaussian", "eva", "orthogonal")
	for _, key := range irrelevantToAdapters {
		c.has(key)
	}
	rank, alpha = c.integer("r"), c.number("lora_alpha")
	if c.boolOr("use_rslora", false) { // alpha/sqrt(r) instead of alpha/r
		alpha *= math.Sqrt(float64(rank))
	}
	if *c.err == nil && alpha == 0 {
		c.fail("lora_alpha", "0: the adapter changes nothing")
	}
	c.rest()
	return alpha, rank
}

// baseOf is what a model's config.json says of its tensors.
func baseOf(dir string) (*builder, error) {
	c, f, err := readFamily(dir)
	if err != nil {
		return nil, err
	}
	return build(dir, c, f, &weights{tensors: map[string]stored{}})
}

// adapterTargets are GGUF's tensors of an adapter's, whose factors all have one rank.
func adapterTargets(w *weights, base []target, rank int) (list []target, err error) {
	const before, a, b = "base_model.model.", ".lora_A.weight", ".lora_B.weight"
	found := map[string]bool{}
	for _, t := range base {
		name := strings.TrimSuffix(t.from, ".weight")
		nameA, nameB := before+name+a, before+name+b
		one, okA := w.tensors[nameA]
		two, okB := w.tensors[nameB]
		if t.rows == 0 || !okA && !okB {
			continue
		}
		if !okA || !okB {
			return nil, fmt.Errorf("%s: of %s and %s only one is there", w.from, nameA, nameB)
		}
		if t.name == "token_embd.weight" || t.sourceRows != 0 || t.add != 0 || t.stack != 0 {
			return nil, fmt.Errorf("%s: tensor %s: an adapter of %s is not supported", w.from, nameA, t.name)
		}
		r, cols := one.rowsCols()
		rows, r2 := two.rowsCols()
		if r != rank || r2 != rank || cols != t.cols || rows != t.rows {
			return nil, fmt.Errorf("%s: tensor %s: shapes %v and %v, for %d x %d of %s and rank %d", w.from, nameA, one.shape,
				two.shape, t.rows, t.cols, t.from, rank)
		}
		found[nameA], found[nameB] = true, true
		list = append(list, target{name: t.name + loraA, from: nameA, rows: rank, cols: cols, columns: t.columns},
			target{name: t.name + loraB, from: nameB, rows: rows, cols: rank, order: t.order,
				factor: t.factor})
	}
	for _, name := range w.names {
		s := w.tensors[name]
		if _, ok := elementBytes[s.dtype]; !ok || s.problem != "" {
			return nil, fmt.Errorf("%s: tensor %s: elements of type %q are not supported %s", w.from,
				gguf.Printable(name, 80), s.dtype, s.problem)
		}
		if !found[name] {
			return nil, fmt.Errorf("%s: tensor %s belongs to no matrix of the base model as it is known here", w.from,
				gguf.Printable(name, 120))
		}
	}
	if list == nil {
		return nil, fmt.Errorf("%s: no tensors", w.from)
	}
	return list, nil
}
