package convert

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/specgo/spec/gguf"
)

// pools are the members of a pooling module's config.json that make one vector of a text's, with GGUF's numbers; 0 is
// none that GGUF has.
var pools = []struct {
	key  string
	name string // as a value of pooling_mode, in later versions
	pool uint32
}{
	{"pooling_mode_mean_tokens", "mean", 1}, {"pooling_mode_cls_token", "cls", 2},
	{"pooling_mode_lasttoken", "lasttoken", 3},
	{key: "pooling_mode_max_tokens"}, {key: "pooling_mode_mean_sqrt_len_tokens"},
	{key: "pooling_mode_weightedmean_tokens"},
}

// rankPool is GGUF's number of scores, which are no vectors.
const rankPool = 4

// pooling writes how a model of sentence-transformers makes one vector of a text. Its folder has modules.json, a list
// of what happens to a text, each with a folder of its own.
func (b *builder) pooling(dir string) error {
	file := filepath.Join(dir, "modules.json")
	var modules []struct{ Path, Type string }
	if _, err := optionalJSON(file, &modules); err != nil {
		return err
	}
	for _, m := range modules {
		kind := m.Type[strings.LastIndexByte(m.Type, '.')+1:]
		if !strings.HasPrefix(m.Type, "sentence_transformers.") {
			kind = "" // the code of a model: what it computes is not known, whatever it is called
		}
		switch {
		case kind == "Transformer" && filepath.Clean(m.Path) == ".": // else the model is one of another folder
		case kind == "Normalize": // vectors are normalized where they are asked for
		case kind == "Pooling" && filepath.IsLocal(m.Path):
			if err := b.pool(filepath.Join(dir, m.Path, "config.json")); err != nil {
				return err
			}
			b.noteCode()
		case kind == "Dense" && filepath.IsLocal(m.Path) && b.arch == "gemma-embedding" && b.dense < mostDense:
			if err := b.addDense(dir, m.Path); err != nil {
				return err
			}
		case kind == "LogitScore" && filepath.IsLocal(m.Path):
			if err := b.logitScore(filepath.Join(dir, m.Path, "config.json")); err != nil {
				return err
			}
		default:
			return fmt.Errorf("%s: a module of type %s in %s is not supported", file, gguf.Printable(m.Type, 80),
				gguf.Printable(m.Path, 80))
		}
	}
	return nil
}

// mostDense are the matrices that GGUF's gemma-embedding has behind pooling: dense_2 and dense_3.
const mostDense, firstDense = 2, 2

// addDense adds the matrix of a folder, by which pooled vectors are multiplied.
func (b *builder) addDense(dir, folder string) error {
	c, err := readConfig(filepath.Join(dir, folder, "config.json"))
	if err != nil {
		return err
	}
	in, out := c.integer("in_features"), c.integer("out_features")
	c.must("bias", "GGUF has no bias there", false)
	c.must("activation_function", "GGUF has no function there", "torch.nn.modules.linear.Identity")
	if want := b.vectorSize; in != want {
		c.fail("in_features", "%d, vectors have %d numbers there", in, want)
	}
	name := fmt.Sprintf("dense_%d", firstDense+b.dense)
	c.rest()
	if *c.err != nil {
		return *c.err
	}
	w, err := openWeights(filepath.Join(dir, folder))
	if err != nil {
		return err
	}
	b.weights.files = append(b.weights.files, w.files...)
	for _, tensor := range w.names {
		if err := b.weights.put(filepath.Join(folder, tensor), w.tensors[tensor]); err != nil {
			return fmt.Errorf("%s: %s: %w", dir, filepath.Join(folder, tensor), err)
		}
	}
	b.size(name+"_feat_in", in)
	b.size(name+"_feat_out", out)
	b.matrix(name+".weight", filepath.Join(folder, "linear.weight"), out, in)
	b.dense, b.vectorSize = b.dense+1, out
	return nil
}

// noteCode says that a model of vectors has Python code of its own. That of gte-Qwen2 and others of its kind has the
// class of a language model in config.json, and may attend to later tokens.
func (b *builder) noteCode() {
	code, _ := b.config.values["auto_map"].(map[string]any)
	if name, _ := code["AutoModel"].(string); name != "" {
		b.note("auto_map: the Python code %s is not read; where it computes other vectors than the class does, by attention "+
			"to later tokens for one, the file's are not the model's", gguf.Printable(name, 80))
	}
}

// pooled reports whether it is said what becomes of the tokens' vectors.
func (b *builder) pooled() bool {
	return slices.ContainsFunc(b.kvs, func(kv gguf.KV) bool { return kv.Key == b.arch+".pooling_type" })
}

// pool reads the settings of a pooling module.
func (b *builder) pool(file string) error {
	c, err := readConfig(file)
	if err != nil {
		return err
	}
	for _, key := range []string{"word_embedding_dimension", "embedding_dimension"} {
		c.has(key)
	}
	c.must("include_prompt", "all tokens of a text are pooled", true)
	if b.pooled() {
		c.fail("pooling_mode", "vectors are pooled already, or the class makes scores of texts")
	}
	mode, found := c.text("pooling_mode"), 0
	for _, p := range pools {
		if !c.boolOr(p.key, false) && (mode == "" || mode != p.name) {
			continue
		}
		if found++; p.pool == 0 {
			c.fail(p.key, "GGUF has the mean, the first and the last token")
		}
		b.set("pooling_type", p.pool)
	}
	if found != 1 {
		c.fail("pooling_mode", "one of mean, cls and lasttoken expected, %d are said", found)
	}
	c.rest()
	return *c.err
}

// prompts notes what sentence-transformers puts in front of texts.
func (b *builder) prompts(dir string) error {
	const name = "config_sentence_transformers.json"
	var said struct {
		Prompts map[string]*string `json:"prompts"`
		Default *string            `json:"default_prompt_name"`
	}
	if _, err := optionalJSON(filepath.Join(dir, name), &said); err != nil {
		return err
	}
	maps.DeleteFunc(said.Prompts, func(_ string, text *string) bool { return text == nil || *text == "" })
	if said.Default != nil && said.Prompts[*said.Default] != nil {
		b.note(`what %s puts in front of every text, "%s", is left out: GGUF has no key for it`, name,
			gguf.Printable(*said.Prompts[*said.Default], 200))
		return nil
	}
	if kinds := slices.Sorted(maps.Keys(said.Prompts)); len(kinds) > 0 {
		b.note(`what %s puts in front of texts of some kinds, of %s "%s" for one, is left out: GGUF has no key for it`, name,
			gguf.Printable(kinds[0], 40), gguf.Printable(*said.Prompts[kinds[0]], 200))
	}
	return nil
}
