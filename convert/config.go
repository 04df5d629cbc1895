package convert

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/specgo/spec/gguf"
)

// config is a JSON object of which every member must be asked for, or be known not to matter. It keeps the first error.
type config struct {
	file   string
	prefix string // of the members' names in errors
	values map[string]any
	asked  map[string]bool
	err    *error
}

// infinity is read as a text: Python writes it where there is a number, and JSON does not have it.
const infinity = "Infinity"

// quoted puts each infinity outside of texts in quotation marks.
func quoted(data []byte) []byte {
	out, inText := make([]byte, 0, len(data)+16), false
	for i := 0; i < len(data); i++ {
		switch {
		case data[i] == '"':
			inText = !inText
		case inText && data[i] == '\\' && i+1 < len(data):
			out = append(out, data[i])
			i++
		case !inText && bytes.HasPrefix(data[i:], []byte(infinity)):
			out = append(out, `"`+infinity+`"`...)
			i += len(infinity) - 1
			continue
		}
		out = append(out, data[i])
	}
	return out
}

// readConfig reads a JSON file of one object.
func readConfig(name string) (*config, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return parseConfig(name, data)
}

// parseConfig reads what such a file holds.
func parseConfig(name string, data []byte) (*config, error) {
	c := &config{file: name, asked: map[string]bool{}, err: new(error)}
	d := json.NewDecoder(bytes.NewReader(quoted(data)))
	d.UseNumber()
	if err := d.Decode(&c.values); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

func (c *config) fail(key, format string, args ...any) {
	if *c.err == nil {
		*c.err = fmt.Errorf("%s: %s: %s", c.file, gguf.Printable(c.prefix+key, 80), fmt.Sprintf(format, args...))
	}
}

// has reports whether a member is there and not null.
func (c *config) has(key string) bool {
	c.asked[key] = true
	return c.values[key] != nil
}

// first is the first of several names of one member that is there, or the first name.
func (c *config) first(keys ...string) string {
	found := ""
	for _, k := range keys {
		if c.has(k) && found == "" {
			found = k
		}
	}
	if found == "" {
		return keys[0]
	}
	return found
}

// number is a finite number that must be there.
func (c *config) number(key string) float64 {
	if !c.has(key) {
		c.fail(key, "missing")
		return 1
	}
	n, _ := c.values[key].(json.Number)
	x, err := n.Float64()
	if err != nil || math.IsInf(x, 0) {
		c.fail(key, "a number expected")
		return 1
	}
	return x
}

func (c *config) numberOr(key string, absent float64) float64 {
	if !c.has(key) {
		return absent
	}
	return c.number(key)
}

// positive is a number above 0.
func (c *config) positive(key string) float64 {
	x := c.number(key)
	if x <= 0 {
		c.fail(key, "a number above 0 expected, not %v", x)
		return 1
	}
	return x
}

// largest size that is believed.
const largest = 1 << 24

// integer is a size: at least 1.
func (c *config) integer(key string) int {
	x := c.number(key)
	if x != math.Trunc(x) || x < 1 || x > largest {
		c.fail(key, "a whole number from 1 to %d expected, not %v", largest, x)
		return 1
	}
	return int(x)
}

// mostLayers bounds the blocks of a model: for each of them there is a list of tensors before one of them is looked at.
const mostLayers = 1 << 12

// layers is a number of blocks.
func (c *config) layers(key string) int {
	n := c.integer(key)
	if n > mostLayers {
		c.fail(key, "%d blocks, %d are the most", n, mostLayers)
		return 1
	}
	return n
}

// product is a size that is the product of two, of which key is a member.
func (c *config) product(key string, a, b int) int {
	if int64(a)*int64(b) > largest {
		c.fail(key, "%d times %d, %d is the most", a, b, largest)
		return 1
	}
	return a * b
}

func (c *config) integerOr(key string, absent int) int {
	if !c.has(key) {
		return absent
	}
	return c.integer(key)
}

func (c *config) boolOr(key string, absent bool) bool {
	if !c.has(key) {
		return absent
	}
	b, ok := c.values[key].(bool)
	if !ok {
		c.fail(key, "true or false expected")
	}
	return b
}

func (c *config) text(key string) string {
	s, ok := c.values[key].(string)
	if c.has(key) && !ok {
		c.fail(key, "a text expected")
	}
	return s
}

// numbers is a list of finite numbers; nil if it is absent.
func (c *config) numbers(key string) []float32 {
	return listOf(c, key, "numbers", func(v any) (float32, bool) {
		n, _ := v.(json.Number)
		x, err := n.Float64()
		return float32(x), err == nil && !math.IsInf(x, 0)
	})
}

// texts is a list of texts; nil if it is absent.
func (c *config) texts(key string) []string {
	return listOf(c, key, "texts", func(v any) (string, bool) {
		s, is := v.(string)
		return s, is
	})
}

// listOf is a list of what is read of its elements; nil if it is absent.
func listOf[T any](c *config, key, what string, read func(v any) (T, bool)) []T {
	if !c.has(key) {
		return nil
	}
	list, ok := c.values[key].([]any)
	out := make([]T, len(list))
	for i, v := range list {
		var is bool
		out[i], is = read(v)
		ok = ok && is
	}
	if !ok {
		c.fail(key, "a list of %s expected", what)
	}
	return out
}

// object is a member that is an object; nil if it is absent, also of none.
func (c *config) object(key string) *config {
	if c == nil || !c.has(key) {
		return nil
	}
	m, ok := c.values[key].(map[string]any)
	if !ok {
		c.fail(key, "an object expected")
		return nil
	}
	return &config{file: c.file, prefix: c.prefix + key + ".", values: m, asked: map[string]bool{}, err: c.err}
}

// must fails unless a member is absent or one of the given values.
func (c *config) must(key string, reason string, allowed ...any) {
	if !c.has(key) {
		return
	}
	v := c.values[key]
	if n, ok := v.(json.Number); ok {
		v, _ = n.Float64()
	}
	if !slices.Contains(allowed, v) {
		c.fail(key, "%v is not supported: %s", c.values[key], reason)
	}
}

// irrelevant members do not change what a trained model computes: what it is called, how it was trained, and how texts
// are generated with it unless a request says something else.
var irrelevant = []string{"architectures", "model_type", "torch_dtype", "dtype", "transformers_version", "use_cache",
	"_name_or_path", "auto_map",
	"bos_token_id", "eos_token_id", "pad_token_id", "unk_token_id", "sep_token_id", "vocab_size", "tie_word_embeddings",
	"attention_dropout", "hidden_dropout", "classifier_dropout", "embd_pdrop", "resid_pdrop", "attn_pdrop",
	"resid_dropout", "embd_dropout", "dropout",
	"initializer_range", "pretraining_tp", "gradient_checkpointing", "output_attentions", "output_hidden_states",
	"return_dict",
	"summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type", "summary_use_proj",
	"task_specific_params", "problem_type", "id2label", "label2id", "finetuning_task",
	"_attn_implementation", "_flash_attn_2_enabled", "cache_implementation", "rope_interleaved", "is_llama_config",
	"tokenizer_class", "language_model_only", "keep_past", "upad_input", "_attn_implementation_autoset", "unsloth_fixed",
	"unsloth_version", "transformers.js_config", "_num_labels", "num_labels", "torchscript", "use_bfloat16", "is_decoder",
	"max_length", "max_new_tokens", "min_length", "do_sample", "early_stopping", "num_beams", "num_beam_groups",
	"diversity_penalty", "temperature", "top_k", "top_p", "typical_p", "repetition_penalty", "length_penalty",
	"no_repeat_ngram_size", "encoder_no_repeat_ngram_size", "num_return_sequences", "output_scores",
	"return_dict_in_generate", "remove_invalid_values"}

// rest fails if there is a member that nobody asked for. An empty object, as "pruned_heads" of old files is, says
// nothing.
func (c *config) rest() {
	var unknown []string
	for key, v := range c.values {
		object, ok := v.(map[string]any)
		if !c.asked[key] && !slices.Contains(irrelevant, key) && v != nil && (!ok || len(object) > 0) {
			unknown = append(unknown, gguf.Printable(key, 40))
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		c.fail(unknown[0], "not known here, and it may change what the model computes (%s)", strings.Join(unknown, ", "))
	}
}
