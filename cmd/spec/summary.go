package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/tensor"
)

// Kinds of GGUF files beside those that the engine tells apart. Only a model can run.
const (
	kindVocabulary engine.Kind = "vocabulary without weights"
	kindImatrix    engine.Kind = "importance matrix"
	kindPart       engine.Kind = "part of a split model"
)

// kindOf tells what a file is.
func kindOf(f *gguf.File) engine.Kind {
	typ, _ := f.String("general.type")
	switch typ {
	case "adapter":
		return engine.KindAdapter
	case "mmproj":
		return engine.KindProjector
	case "imatrix":
		return kindImatrix
	}
	if kind := engine.KindOf(f); kind != engine.KindModel {
		return kind
	}
	switch parts, err := integerOf(f, "split.count"); {
	case f.Has("adapter.type"):
		return engine.KindAdapter
	case err == nil && parts > int64(f.Parts):
		return kindPart
	case len(f.Tensors) == 0:
		return kindVocabulary
	}
	return engine.KindModel
}

// summary is what a file's header says of the model in it. Sizes that the header does not give are 0.
type summary struct {
	Kind         engine.Kind `json:"kind"`
	Architecture string      `json:"architecture"`
	Name         string      `json:"name,omitempty"`
	Parameters   uint64      `json:"n_parameters"`
	Types        []typeShare `json:"types"` // by bytes, the largest first
	shapeSummary
	vocabularySummary
	Vectors *vectorSummary `json:"vectors,omitempty"` // of a file that makes vectors or scores
	memorySummary
	Files  int    `json:"n_files"`                   // that the model is split into
	Runs   bool   `json:"runs"`                      // as far as the header tells
	Reason string `json:"runs_not_reason,omitempty"` // why it does not run
}

// shapeSummary is how large the model's network is.
type shapeSummary struct {
	Context     int64 `json:"n_context"`
	Layers      int64 `json:"n_layers"`               // of the decoder
	MTPBlocks   int64 `json:"n_mtp_blocks,omitempty"` // of those, the last ones, which predict tokens further ahead
	EncLayers   int64 `json:"n_encoder_layers,omitempty"`
	HiddenSize  int64 `json:"hidden_size"`
	Heads       int64 `json:"n_heads"`
	KVHeads     int64 `json:"n_kv_heads"` // of the layer that has most
	HeadDim     int64 `json:"head_size"`
	FeedForward int64 `json:"feed_forward_size"`
	Experts     int64 `json:"n_experts"`
	ExpertsUsed int64 `json:"n_experts_used"`
}

// vocabularySummary is what turns texts into tokens.
type vocabularySummary struct {
	Vocab     int    `json:"n_vocabulary"`
	Tokenizer string `json:"tokenizer,omitempty"`     // tokenizer.ggml.model
	Pre       string `json:"pre_tokenizer,omitempty"` // tokenizer.ggml.pre
	Template  int    `json:"chat_template_bytes"`
}

// vectorSummary is how a file that makes vectors is used.
type vectorSummary struct {
	Pooling string   `json:"pooling"`          // what the file says; "": nothing, and it is mean unless it is asked for
	Marks   []string `json:"marks"`            // around each text
	Labels  []string `json:"labels,omitempty"` // of the outputs of its classification head
	Ranks   bool     `json:"reranker"`         // it has such a head
}

// vectors is the vectorSummary of a file; nil of one that is no encoder and does not say how vectors are pooled.
func (s *summary) vectors(f *gguf.File) *vectorSummary {
	key := s.Architecture + ".pooling_type"
	if s.Kind != engine.KindEncoder && !f.Has(key) {
		return nil
	}
	v := &vectorSummary{Marks: []string{}}
	if n, err := integerOf(f, key); err == nil {
		v.Pooling = engine.Pooling(n).String()
	}
	v.Labels, _ = f.Strings(s.Architecture + ".classifier.output_labels")
	for _, name := range []string{"cls.weight", "cls.output.weight"} {
		_, there := f.Tensor(name)
		v.Ranks = v.Ranks || there
	}
	if tok, err := engine.ReadTokenizer(f); err == nil && tok != nil {
		front, back := tok.Marks()
		for _, id := range []int32{front, back} {
			if id >= 0 {
				v.Marks = append(v.Marks, tok.Token(id))
			}
		}
	}
	return v
}

// memorySummary is what the weights and a session take in memory.
type memorySummary struct {
	WeightBytes int64 `json:"weight_memory_bytes"` // 0 where a type is not supported
	// in f16, of the layers that keep the whole text; 0 where the header does not give it
	KVBytes float64 `json:"kv_bytes_per_token"`
	// in f16, the most that layers with a window keep, but for the rest of a page
	WindowBytes int64   `json:"window_bytes"`
	InputBytes  float64 `json:"input_kv_bytes_per_token,omitempty"` // in f16, of a token of the encoder's input
	// tokens that layers with a window keep: their window's and 512 more
	Window int `json:"n_window,omitempty"`
	// in f16, of the MTP blocks together, where they draft
	MTPKVBytes float64 `json:"mtp_kv_bytes_per_token,omitempty"`
	// of the draft form, where it reads enough less for a draft
	DraftForm  int64 `json:"draft_form_bytes,omitempty"`
	StateBytes int64 `json:"state_bytes"` // of recurrent layers
	// with the copies and the journal that a session may have
	StateMost  int64 `json:"state_bytes_most"`
	StateLeast int64 `json:"state_bytes_least"` // the same with the least --state-memory
}

// typeShare is the tensors of one type.
type typeShare struct {
	Type    string `json:"type"`
	Tensors int    `json:"n_tensors"`
	Bytes   int64  `json:"bytes"`
}

// integerOf is the value of an integer key, the greatest one of an array with a value for each layer.
func integerOf(f *gguf.File, key string) (int64, error) {
	if n, err := f.Int64(key); err == nil {
		return n, nil
	}
	list, err := f.Int32s(key)
	if err != nil || len(list) == 0 {
		return 0, fmt.Errorf("%s: no number", key)
	}
	return int64(slices.Max(list)), nil
}

// summarize reads a header.
func summarize(f *gguf.File) *summary {
	s := &summary{Kind: kindOf(f)}
	s.Architecture, _ = f.String("general.architecture")
	s.Name, _ = f.String("general.name")
	number := func(key string) int64 {
		n, _ := integerOf(f, s.Architecture+"."+key)
		return max(0, n)
	}
	s.Context, s.Layers, s.HiddenSize = number("context_length"), number("block_count"), number("embedding_length")
	if s.Kind == engine.KindModel || s.Kind == engine.KindMTP {
		s.MTPBlocks = number("nextn_predict_layers")
	}
	if s.Kind == engine.KindEncoderDecoder {
		if s.EncLayers = s.Layers; f.Has(s.Architecture + ".decoder_block_count") {
			s.Layers = number("decoder_block_count")
		}
	}
	s.Heads, s.KVHeads, s.HeadDim = number("attention.head_count"), number("attention.head_count_kv"),
		number("attention.key_length")
	s.FeedForward, s.Experts, s.ExpertsUsed = number("feed_forward_length"), number("expert_count"),
		number("expert_used_count")
	if s.KVHeads == 0 {
		s.KVHeads = s.Heads
	}
	if s.HeadDim == 0 && s.Heads > 0 {
		s.HeadDim = s.HiddenSize / s.Heads
	}
	if tokens, err := f.Strings("tokenizer.ggml.tokens"); err == nil {
		s.Vocab = len(tokens)
	}
	s.Tokenizer, _ = f.String("tokenizer.ggml.model")
	s.Pre, _ = f.String("tokenizer.ggml.pre")
	if template, err := f.String("tokenizer.chat_template"); err == nil {
		s.Template = len(template)
	}
	s.types(f)
	if s.Files = f.Parts; s.Kind != engine.KindAssistant { // which has none of its own
		s.KVBytes = kvBytesPerToken(f, s)
	}
	if p, err := engine.DescribeDraftForm(f, ""); err == nil && p.Gains() {
		s.DraftForm = p.Bytes
	}
	if d, err := engine.Describe(f); err == nil {
		s.memory(d)
	}
	s.WeightBytes = memoryOfWeights(f)
	s.Vectors = s.vectors(f)
	s.Reason = s.refusal(f)
	s.Runs = s.Reason == ""
	return s
}

// memory is what a session takes.
func (s *summary) memory(d *engine.Description) {
	s.KVBytes, s.StateBytes, s.StateMost = 0, d.Recurrent.State, d.Recurrent.Most(0)
	s.StateLeast = d.Recurrent.Most(1)
	if bytes, err := d.Input.Bytes("f16"); err == nil && d.Input.Layers > 0 {
		s.InputBytes = float64(bytes)
	}
	for _, c := range d.Caches {
		bytes, err := c.Bytes("f16")
		if err != nil {
			continue
		}
		if c.Window == 0 {
			s.KVBytes += float64(bytes)
			continue
		}
		n := c.Most(int(s.Context))
		s.WindowBytes, s.Window = s.WindowBytes+int64(n)*bytes, max(s.Window, n)
	}
	for _, c := range d.MTP {
		if bytes, err := c.Bytes("f16"); err == nil {
			s.MTPKVBytes += float64(bytes)
		}
	}
}

// types counts parameters, and tensors and bytes by type.
func (s *summary) types(f *gguf.File) {
	for _, t := range f.Tensors {
		s.Parameters += t.Elements()
		i := slices.IndexFunc(s.Types, func(x typeShare) bool { return x.Type == t.Type.String() })
		if i < 0 {
			i = len(s.Types)
			s.Types = append(s.Types, typeShare{Type: t.Type.String()})
		}
		s.Types[i].Tensors++
		s.Types[i].Bytes += t.Size
	}
	slices.SortFunc(s.Types, func(a, b typeShare) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), strings.Compare(a.Type, b.Type))
	})
}

// refusal is why the engine does not run the file, "" if the header gives no reason.
func (s *summary) refusal(f *gguf.File) string {
	switch {
	case s.Kind == kindPart:
		n, _ := integerOf(f, "split.count")
		return fmt.Sprintf("it is one of the %d parts of a split model, and the others are not beside it", n)
	case s.Kind == engine.KindEagle:
		return "it is not a language model: an EAGLE-3 draft head, which drafts for the model that it was trained for (-md)"
	case s.Kind == engine.KindBlock:
		return "it is not a language model: a DFlash draft head, which drafts for the model that it was trained for (-md)"
	case s.Kind == engine.KindAssistant:
		return "it is not a language model: a draft head of Gemma 4, which looks at the cache of the model that it was " +
			"trained for and drafts for it (-md)"
	case s.Kind == engine.KindMTP:
		return "it is not a language model: multi-token-prediction blocks without the model that they belong to, which " +
			"they draft for (-md)"
	case s.Kind == engine.KindAdapter:
		return aboutAdapter(f)
	case s.Kind != engine.KindModel && s.Kind != engine.KindEncoderDecoder && !reads(s.Kind, s.Architecture):
		return fmt.Sprintf("it is not a language model: %s", s.Kind)
	case engine.Refused(s.Architecture) != "":
		return fmt.Sprintf("architecture %q is not supported: %s", s.Architecture, engine.Refused(s.Architecture))
	case !slices.Contains(engine.Architectures(), s.Architecture):
		return fmt.Sprintf("architecture %q is not supported (known: %s)", s.Architecture,
			strings.Join(engine.Architectures(), ", "))
	}
	for _, t := range f.Tensors {
		if _, err := tensorType(t.Type); err != nil {
			return fmt.Sprintf("tensor %q: type %v is not supported (known: %s)", t.Name, t.Type,
				strings.Join(knownTypes(), ", "))
		}
	}
	if _, err := engine.ReadTokenizer(f); err != nil {
		return strings.TrimPrefix(err.Error(), f.Name+": ")
	}
	if _, err := engine.Describe(f); err != nil {
		return strings.TrimPrefix(err.Error(), f.Name+": ")
	}
	return ""
}

// knownTypes lists the weight types that the engine computes with, as GGUF files name them.
func knownTypes() (names []string) {
	const numbers = 64 // more than there are
	for t := range gguf.Type(numbers) {
		if _, err := tensorType(t); err == nil && t.BlockWeights() > 0 {
			names = append(names, t.String())
		}
	}
	return names
}

// tensorType is the engine's type for one of the file format.
func tensorType(t gguf.Type) (tensor.Type, error) {
	return tensor.ParseType(strings.ToLower(t.String()))
}

// memoryOfWeights is the memory that a model's weights take as they are packed: all tensors, also those
// that a pass does not read.
func memoryOfWeights(f *gguf.File) (sum int64) {
	for _, t := range f.Tensors {
		if !wide(t) {
			sum += 4 * int64(t.Elements())
			continue
		}
		typ, err := tensorType(t.Type)
		if err != nil {
			return 0
		}
		matrices := int64(1)
		for _, d := range t.Dims[2:] {
			matrices *= int64(d)
		}
		sum += matrices * packedBytes(typ, t.Dims[0], t.Dims[1])
	}
	return sum
}

// packedBytes is the size of a matrix in panels of 16 rows.
func packedBytes(typ tensor.Type, cols, rows uint64) int64 {
	const panelRows = 16
	return int64((rows+panelRows-1)/panelRows) * int64(typ.PanelBytes(int(cols)))
}

// kvBytesPerToken is the memory of a token's keys and values in f16, over all layers. It is 0 where the
// header does not give it: without attention in every layer, or with compressed keys and values.
func kvBytesPerToken(f *gguf.File, s *summary) float64 {
	for kv := range f.Keys() {
		key, ok := strings.CutPrefix(kv, s.Architecture+".")
		if ok && (strings.HasPrefix(key, "ssm.") || strings.HasPrefix(key, "wkv.") || strings.HasPrefix(key, "shortconv.") ||
			key == "attention.kv_lora_rank") {
			return 0
		}
	}
	values := s.HeadDim
	if n, err := integerOf(f, s.Architecture+".attention.value_length"); err == nil {
		values = n
	}
	heads := s.Layers * s.KVHeads
	if list, err := f.Int32s(s.Architecture + ".attention.head_count_kv"); err == nil {
		heads = 0
		for _, n := range list {
			heads += int64(n)
		}
	}
	return float64(heads) * float64(s.HeadDim+values) * bytesPerValue("f16")
}

// reads reports whether a file is an encoder that makes vectors.
func reads(kind engine.Kind, arch string) bool {
	return kind == engine.KindEncoder && slices.Contains(engine.Architectures(), arch)
}

// explain replaces the error of a file that is no language model by one that says what the file is. A file that is to
// draft may be a draft head.
func explain(path string, drafts bool, err error) error {
	f, open := gguf.OpenFile(path)
	if open != nil {
		return err
	}
	defer f.Close()
	arch, _ := f.String("general.architecture")
	if kind := kindOf(f); kind != engine.KindModel && kind != engine.KindEncoderDecoder && !(drafts && kind.Head()) &&
		!reads(kind, arch) {
		return fmt.Errorf("%s: %s", path, (&summary{Kind: kind}).refusal(f))
	}
	return err
}
