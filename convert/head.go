package convert

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/specgo/spec/gguf"
)

// ErrHead is the error of [Open] for a draft head.
var ErrHead = errors.New("a draft head, which is converted beside its target")

// headFamilies are the classes of draft heads.
var headFamilies = []family{
	{"LlamaForCausalLMEagle3", "eagle3", eagle3},
	{"Eagle3LlamaForCausalLM", "eagle3", eagle3},
	{"Eagle3Speculator", "eagle3", eagle3},
	{"Eagle3DraftModel", "eagle3", eagle3},
	{"DFlashDraftModel", "dflash", func(b *builder) { dflash(b, dflashForm{}) }},
	{"Qwen3DSparkModel", "dflash", func(b *builder) { dflash(b, dflashForm{flat: true, chained: true}) }},
	{"MuseGlimmerAssistantModel", "dflash", museAssistant},
}

// HeadClasses lists the classes of draft heads that can be converted.
func HeadClasses() (names []string) {
	for _, f := range headFamilies {
		names = append(names, f.class)
	}
	return names
}

// drafted is what a draft head takes from its target.
type drafted struct {
	width, layers, vocab int
	words                []gguf.KV // its tokenizer
}

// OpenHead reads everything but the weights of a draft head in dir (EAGLE-3, DFlash or DSpark), and of its target what
// the head's file has of it: the tokenizer, and where the hidden states are taken that the head reads. target is a GGUF
// file of the target, or its folder as [Open] takes it.
func OpenHead(dir, target string) (*Model, error) {
	c, err := readConfig(filepath.Join(dir, "config.json"))
	if err != nil {
		return nil, err
	}
	f, ok := headFamily(c)
	if !ok {
		return nil, fmt.Errorf("%s: architectures: no draft head that can be converted; these can: %s", c.file,
			strings.Join(HeadClasses(), ", "))
	}
	of, err := readDrafted(target)
	if err != nil {
		return nil, fmt.Errorf("the target: %w", err)
	}
	w, err := openWeights(dir)
	if err != nil {
		return nil, err
	}
	b := &builder{arch: f.arch, config: c, weights: w, used: map[string]bool{}, vocab: of.vocab, drafted: of}
	b.kvs = []gguf.KV{{Key: "general.architecture", Value: f.arch}, {Key: "general.name", Value: nameOf(dir)}}
	b.size("vocab_size", b.vocab)
	f.build(b)
	c.rest()
	if err := w.closeOn(b.finish()); err != nil {
		return nil, err
	}
	for _, kv := range of.words {
		if !slices.ContainsFunc(b.kvs, func(own gguf.KV) bool { return own.Key == kv.Key }) {
			b.kvs = append(b.kvs, kv)
		}
	}
	return &Model{Arch: f.arch, From: w.from, Notes: b.notes, weights: w, kvs: b.kvs, targets: b.targets}, nil
}

// headFamily finds the family of a draft head's config.json. Some EAGLE-3 heads have the class of a whole Llama, which
// has no draft_vocab_size.
func headFamily(c *config) (family, bool) {
	classes := c.texts("architectures")
	for _, f := range headFamilies {
		if slices.Contains(classes, f.class) {
			return f, true
		}
	}
	if slices.Contains(classes, "LlamaForCausalLM") && c.has("draft_vocab_size") {
		return headFamilies[0], true
	}
	return family{}, false
}

// readDrafted reads a head's target.
func readDrafted(name string) (*drafted, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if info.IsDir() {
		b, err := baseOf(name)
		if err != nil {
			return nil, fmt.Errorf("%w (a GGUF file of it will do)", err)
		}
		words, err := readTokenizer(name, b)
		return &drafted{width: b.sizeOf("embedding_length"), layers: b.sizeOf("block_count"), vocab: b.vocab,
			words: withoutTemplates(words)}, err
	}
	f, err := gguf.OpenFile(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	arch, err := f.String("general.architecture")
	if err != nil {
		return nil, err
	}
	var counts [2]int
	for i, key := range []string{".embedding_length", ".block_count"} {
		n, err := f.Uint32(arch + key)
		if err != nil {
			return nil, err
		}
		counts[i] = int(min(n, largest))
	}
	if nextn := arch + ".nextn_predict_layers"; f.Has(nextn) { // MTP blocks stand behind the others
		n, err := f.Uint32(nextn)
		if err != nil {
			return nil, err
		}
		counts[1] -= int(min(n, uint32(counts[1])))
	}
	tokens, err := f.Strings("tokenizer.ggml.tokens")
	return &drafted{width: counts[0], layers: counts[1], vocab: len(tokens), words: withoutTemplates(f.KVs)}, err
}

// withoutTemplates are the keys of a tokenizer, chat templates left out.
func withoutTemplates(kvs []gguf.KV) (words []gguf.KV) {
	for _, kv := range kvs {
		if strings.HasPrefix(kv.Key, "tokenizer.") && !strings.HasPrefix(kv.Key, "tokenizer.chat_template") {
			words = append(words, kv)
		}
	}
	return words
}

// sizeOf is the value of a key that size wrote; 0 without one.
func (b *builder) sizeOf(key string) int {
	for _, kv := range b.kvs {
		if n, ok := kv.Value.(uint32); ok && kv.Key == b.arch+"."+key {
			return int(n)
		}
	}
	return 0
}

// sharesVocab checks that a head has the ids of its target.
func (b *builder) sharesVocab() {
	if n := b.config.integer("vocab_size"); n != b.vocab {
		b.config.fail("vocab_size", "%d, the target has %d tokens", n, b.vocab)
	}
}

// eagle3 converts an EAGLE-3 head. The format of the project speculators has its sizes in an object of their own.
func eagle3(b *builder) {
	top := b.config
	if own := top.object("transformer_layer_config"); own != nil {
		top.must("speculators_model_type", "only EAGLE-3 is known", "eagle3")
		for _, key := range []string{"speculators_version", "speculators_config", "embed_requires_grad",
			"has_no_defaults_at_init", "base_model_ep_plan"} {
			top.has(key) // how it was trained and saved
		}
		if !top.has("norm_before_residual") {
			top.fail("norm_before_residual", "missing, and its default was not always the same")
		}
		b.config = own
		defer own.rest()
	}
	width := b.drafted.width
	if n := top.integerOr("target_hidden_size", width); n != width {
		top.fail("target_hidden_size", "%d, the target has %d", n, width)
	}
	b.size("target_hidden_size", width)
	b.set("target_layers", b.eagleLayers(top))
	b.set("norm_before_residual", top.boolOr("norm_before_residual", false))
	b.set("norm_before_fc", top.boolOr("norm_before_fc", false))
	if top.boolOr("norm_output", false) {
		b.set("norm_output", true)
	}
	rows := top.integerOr("draft_vocab_size", b.vocab)
	if rows > b.vocab {
		top.fail("draft_vocab_size", "%d of the target's %d tokens", rows, b.vocab)
	}
	b.sharesVocab()
	o := options{interleave: true}
	s, ok := b.llamaSizes(o)
	if !ok {
		return
	}
	if s.layers != 1 {
		b.config.fail("num_hidden_layers", "%d blocks, an EAGLE-3 head has one", s.layers)
		return
	}
	b.window()
	b.rotation(s.head)
	if b.holds("embed_tokens.weight") {
		b.matrix("token_embd.weight", "embed_tokens.weight", b.vocab, s.width)
	}
	b.matrix("fc.weight", "fc.weight", s.width, 3*width)
	if top.boolOr("norm_before_fc", false) {
		b.rmsNorm("enc.output_norm", "input_norm", 3*width)
	}
	for i := 0; i < 3 && b.holds("fc_norm.0.weight"); i++ {
		name := fmt.Sprintf("fc_norm.%d.weight", i)
		b.vector(name, name, width, 0)
	}
	from := b.prefix("hidden_norm.weight", "layers.0.", "midlayer.")
	o.inputs = 2 * s.width // the token's embedding and the state
	b.llamaBlock(s, o, "blk.0.", from)
	b.rmsNorm("blk.0.attn_norm_2", from+"hidden_norm", s.width)
	b.rmsNorm("output_norm", "norm", s.width)
	b.draftVocab(rows, s.width)
}

// eagleLayers are the layers of the target whose states an EAGLE-3 head reads, as GGUF counts them: k is the state
// behind k blocks. The object eagle_config (ModelOpt, SpecForge) counts from the first block's state, 0.
func (b *builder) eagleLayers(c *config) []int32 {
	const key = "eagle_aux_hidden_state_layer_ids"
	in, list, first := c, c.numbers(key), 0
	if e := c.object("eagle_config"); e != nil {
		if own := e.numbers(key); len(own) > 0 {
			if len(list) > 0 {
				c.fail(key, "stands beside the one of eagle_config, which counts otherwise")
			}
			in, list, first = e, own, 1
		}
		e.must("use_aux_hidden_state", "an EAGLE-3 head reads three states of the target", true)
		e.must("use_input_layernorm_in_first_layer", "an EAGLE-3 head has this norm", true)
		e.must("use_last_layernorm", "an EAGLE-3 head has this norm", true)
		e.must("use_mtp_layernorm", "an EAGLE-3 head does not have these norms", false)
		e.must("parallel_draft_step", "an EAGLE-3 head drafts a token in a step", 1.0)
		e.has("next_layer_regular") // of a second block
		e.has("parallel_draft_heads_num_layers")
		e.rest()
	}
	n := b.drafted.layers
	if len(list) == 0 {
		list = []float32{2, float32(n / 2), float32(n - 3)}
	}
	if len(list) != 3 {
		in.fail(key, "%d layers, an EAGLE-3 head reads three", len(list))
	}
	return in.layerIDs(key, list, first, n)
}

// layerIDs are the layers of a list as GGUF counts them, first more each, of which first to most can be read.
func (c *config) layerIDs(key string, list []float32, first, most int) (ids []int32) {
	for _, x := range list {
		k := math.Trunc(float64(x)) + float64(first)
		if k != float64(x)+float64(first) || k < float64(first) || k > float64(most) {
			c.fail(key, "layer %v, of the target 0 to %d can be read", x, most-first)
			return nil
		}
		ids = append(ids, int32(k))
	}
	return ids
}

// draftVocab adds the output matrix of a head, a row for each token that it knows, and in d2t their ids. The source has
// how much each id is above its row's number. A head without the matrix has its target's.
func (b *builder) draftVocab(rows, width int) {
	b.skip("t2d") // the same as d2t
	s, listed := b.weights.tensors["d2t"]
	if b.holds("lm_head.weight") || listed || rows < b.vocab {
		b.matrix("output.weight", "lm_head.weight", rows, width)
	}
	if !listed {
		if rows < b.vocab {
			b.config.fail("draft_vocab_size", "%d of %d tokens, and no tensor d2t says which", rows, b.vocab)
		}
		return
	}
	b.skip("d2t")
	ids, err := s.integers(rows)
	seen := make([]bool, b.vocab)
	for i := range ids {
		ids[i] += int64(i)
		if ids[i] < 0 || ids[i] >= int64(b.vocab) || seen[ids[i]] {
			err = fmt.Errorf("row %d is of token %d, of %d, or this one is there twice", i, ids[i], b.vocab)
			break
		}
		seen[ids[i]] = true
	}
	if err != nil && *b.config.err == nil {
		*b.config.err = fmt.Errorf("%s: tensor d2t: %w", s.file.Name(), err)
	}
	b.targets = append(b.targets, target{name: "d2t", cols: rows, ids: ids})
}

// dflashForm is how a DFlash head is published.
type dflashForm struct {
	chained  bool   // a DSpark head: its rows are of the next token, with what the token before gives
	flat     bool   // its own members of config.json are not in an object
	fc, norm string // the tensors that read the target's states; "": as DFlash's authors call them
}

// dflash converts a DFlash head, or a DSpark head.
func dflash(b *builder, form dflashForm) {
	c := b.config
	o := options{headNorms: true, block: true}
	b.sharesVocab()
	s, ok := b.llamaSizes(o)
	if !ok {
		return
	}
	if s.width != b.drafted.width {
		c.fail("hidden_size", "%d, the target has %d", s.width, b.drafted.width)
	}
	if c.boolOr("use_sliding_window", false) {
		b.windows(s.layers)
	}
	for _, key := range []string{"sliding_window", "max_window_layers", "layer_types"} {
		c.has(key) // without the switch they say nothing
	}
	b.rotation(s.head)
	own := c
	if !form.flat {
		if own = c.object("dflash_config"); own == nil {
			c.fail("dflash_config", "missing")
			return
		}
		own.has("mask_token") // mask_token_id by its name
		defer own.rest()
	}
	sized := c
	if own.has("block_size") {
		sized = own
	}
	const usual = 16 // what llama.cpp's converter takes
	b.size("block_size", sized.integerOr("block_size", usual))
	for _, in := range []*config{c, own} {
		in.must("num_target_layers", fmt.Sprintf("the target has %d layers", b.drafted.layers), float64(b.drafted.layers))
	}
	list := own.numbers("target_layer_ids")
	if len(list) == 0 {
		own.fail("target_layer_ids", "missing")
	}
	// A block's state is before the next one's norm: of the last block there is none to be read.
	b.set("target_layers", own.layerIDs("target_layer_ids", list, 1, b.drafted.layers-1))
	mask := own.integer("mask_token_id")
	if mask >= b.vocab {
		own.fail("mask_token_id", "%d, the target has %d tokens", mask, b.vocab)
	}
	b.kvs = append(b.kvs, gguf.KV{Key: "tokenizer.ggml.mask_token_id", Value: uint32(mask)})

	b.matrix("fc.weight", cmp.Or(form.fc, "fc.weight"), s.width, len(list)*s.width)
	b.vector("enc.output_norm.weight", cmp.Or(form.norm, "hidden_norm.weight"), s.width, 0)
	b.blocks("layers.%d.", s.layers, func(_ int, to, from string) { b.llamaBlock(s, o, to, from) })
	b.rmsNorm("output_norm", "norm", s.width)
	if form.chained {
		b.markov(s.width)
	}
}

// markov adds what a DSpark head has beside a DFlash head. Its embedding and output matrix are copies of the target's.
func (b *builder) markov(width int) {
	c := b.config
	rank := c.integer("markov_rank")
	c.must("markov_head_type", "only the one by the token before is known", "vanilla")
	for _, key := range []string{"num_anchors", "enable_confidence_head", "confidence_head_with_markov"} {
		c.has(key) // how it was trained, and what the tensors tell
	}
	b.skip("embed_tokens.weight", "lm_head.weight")
	b.matrix("markov_w1.weight", "markov_head.markov_w1.weight", b.vocab, rank)
	b.matrix("markov_w2.weight", "markov_head.markov_w2.weight", b.vocab, rank)
	if confidence := "confidence_head.proj"; b.holds(confidence + ".weight") {
		inputs := width
		if c.boolOr("confidence_head_with_markov", false) {
			inputs += rank
		}
		b.linear("conf_proj", confidence, 1, inputs, nil)
	}
}
