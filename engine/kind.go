package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/specgo/spec/gguf"
)

// Kind is what a file holds, in words.
type Kind string

// The kinds of files that are told apart by their architecture. [Open] reads models and draft heads, and of encoders T5's.
const (
	KindModel          Kind = "model" // a decoder-only language model
	KindEncoderDecoder Kind = "encoder-decoder model"
	KindEncoder        Kind = "encoder (embedding model)"
	KindEagle          Kind = "EAGLE-3 draft head"
	KindMTP            Kind = "MTP draft head"        // the MTP blocks of a model
	KindAssistant      Kind = "draft head of Gemma 4" // in a file of its own
	KindProjector      Kind = "projector of a multimodal model (mmproj)"
	KindControl        Kind = "control vector"
)

// Head reports whether it is a draft head, which reads the hidden states of the model that it drafts for.
func (k Kind) Head() bool { return k == KindEagle || k.MTP() }

// MTP reports whether it is a draft head of multi-token prediction, trained together with its model or for this one model.
func (k Kind) MTP() bool { return k == KindMTP || k == KindAssistant }

// kind says how a file of an architecture is read.
type kind struct {
	is     Kind
	heads  []Kind                        // the draft heads that are made for its models alone
	family func(*loader, *Config) family // of a decoder: which parts its models have
	layers func(*loader, *Config) int    // reads the number of layers
	build  func(*loader, *Model) network // reads the weights; nil: no such file can be read

	refused string // why no such file can be read, where that is known
}

// decoderOf is the kind of decoder-only models that a family describes, and that such draft heads are made for.
func decoderOf(f func(*loader, *Config) family, heads ...Kind) kind {
	return kind{is: KindModel, heads: heads, family: f, layers: (*loader).layerCount, build: func(l *loader, m *Model) network {
		return l.decoder(&m.config, f(l, &m.config))
	}}
}

// kinds are the architectures that there are, by general.architecture.
var kinds = map[string]kind{
	"arcee":         decoderOf(arcee),
	"bloom":         decoderOf(bloom),
	"codegen":       decoderOf(gptJ),
	"cohere2":       decoderOf(cohere2),
	"command-r":     decoderOf(commandR),
	"ernie4_5":      decoderOf(ernie45),
	"exaone":        decoderOf(exaone),
	"exaone4":       decoderOf(exaone4),
	"falcon":        decoderOf(falcon),
	"falcon-h1":     decoderOf(falconH1),
	"gemma":         decoderOf(gemma),
	"gemma2":        decoderOf(gemma2),
	"gemma3":        decoderOf(gemma3),
	"gemma4":        decoderOf(gemma4, KindAssistant),
	"glm4":          decoderOf(glm4),
	"gpt-oss":       decoderOf(gptOSS),
	"gpt2":          decoderOf(gpt2),
	"gptj":          decoderOf(gptJ),
	"gptneox":       decoderOf(gptNeoX),
	"granite":       decoderOf(granite),
	"granitehybrid": decoderOf(graniteHybrid),
	"granitemoe":    decoderOf(graniteMoE),
	"hunyuan-dense": decoderOf(hunyuanDense),
	"internlm2":     decoderOf(internLM2),
	"lfm2":          decoderOf(lfm2),
	"lfm2moe":       decoderOf(lfm2MoE),
	"llama":         decoderOf(llama),
	"minicpm":       decoderOf(minicpm),
	"mistral3":      decoderOf(mistral3),
	"mpt":           decoderOf(mpt),
	"nemotron":      decoderOf(nemotron),
	"olmo":          decoderOf(olmo),
	"olmo2":         decoderOf(olmo2),
	"olmoe":         decoderOf(olmoE),
	"opt":           decoderOf(opt),
	"phi2":          decoderOf(phi2),
	"phi3":          decoderOf(phi3),
	"qwen2":         decoderOf(qwen2),
	"qwen2moe":      decoderOf(qwen2MoE),
	"qwen3":         decoderOf(qwen3),
	"qwen35":        decoderOf(qwen35, KindMTP),
	"qwen35moe":     decoderOf(qwen35MoE, KindMTP),
	"qwen3moe":      decoderOf(qwen3MoE),
	"qwen3vl":       decoderOf(qwen3VL),
	"smollm3":       decoderOf(smollm3),
	"stablelm":      decoderOf(stableLM),
	"starcoder":     decoderOf(starcoder),
	"starcoder2":    decoderOf(starcoder2),

	"t5":        {is: KindEncoderDecoder, layers: (*loader).t5Layers, build: (*loader).t5},
	"t5encoder": {is: KindEncoder, layers: (*loader).t5EncoderLayers, build: (*loader).t5},

	"eagle3":           {is: KindEagle, layers: (*loader).layerCount, build: (*loader).eagle},
	"gemma4-assistant": {is: KindAssistant, layers: (*loader).assistantLayers, build: (*loader).assistant},
	"dflash":           {is: KindModel, refused: "a draft head that drafts blocks of tokens at once"},

	// These are not read. They are here because a file of theirs is told apart from a model.
	"bert":            {is: KindEncoder},
	"eurobert":        {is: KindEncoder},
	"gemma-embedding": {is: KindEncoder},
	"jina-bert-v2":    {is: KindEncoder},
	"jina-bert-v3":    {is: KindEncoder},
	"modern-bert":     {is: KindEncoder},
	"neo-bert":        {is: KindEncoder},
	"nomic-bert":      {is: KindEncoder},
	"nomic-bert-moe":  {is: KindEncoder},
	"clip":            {is: KindProjector},
	"controlvector":   {is: KindControl},
}

// Architectures lists the names of general.architecture that [Open] knows, in alphabetical order. Draft heads are not among them.
func Architectures() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for name, k := range maps.All(kinds) {
			if k.build != nil && !k.is.Head() && !yield(name) {
				return
			}
		}
	})
}

// KindOf is the kind of a file, as its architecture and its keys tell it. One of an unknown architecture counts as a model.
func KindOf(f *gguf.File) Kind {
	arch, _ := f.String("general.architecture")
	switch k := kinds[arch]; {
	case k.is != "" && k.is != KindModel:
		return k.is
	case mtpAlone(f):
		return KindMTP
	}
	return KindModel
}

// kindOf says how the part of a file that o asks for is read: the model, or its MTP blocks, or these because there is nothing else.
func kindOf(f *gguf.File, o Options) (kind, error) {
	arch, err := f.String("general.architecture")
	if err != nil {
		return kind{}, err
	}
	k, alone := kinds[arch], mtpAlone(f)
	switch {
	case k.refused != "":
		err = fmt.Errorf("%s: key \"general.architecture\": %w: %q: %s", f.Name, ErrUnsupported, arch, k.refused)
	case k.build == nil:
		err = fmt.Errorf("%s: key \"general.architecture\": %w: %q (known: %s)", f.Name, ErrArchitecture, arch, strings.Join(Architectures(), ", "))
	case alone && o.Target == nil:
		err = fmt.Errorf("%s: %w: MTP blocks without the model that they belong to: a draft head, which is given beside its target", f.Name, ErrUnsupported)
	case (alone || o.MTP) && k.is != KindAssistant:
		return mtpOf(k), nil
	}
	return k, err
}

// admits reports whether a draft head of that kind is made for the models.
func (k *kind) admits(head Kind) bool { return slices.Contains(k.heads, head) }

// Kind is the kind of the model. Of a file with MTP blocks it says which part of the file has been read.
func (m *Model) Kind() Kind {
	if m == nil {
		return ""
	}
	return m.kind.is
}

// Heads are the kinds of draft heads that are made for models of this architecture alone. EAGLE-3 heads drafting for it are not among them.
func (m *Model) Heads() []Kind { return slices.Clone(m.kind.heads) }

// StatesFor is the layers whose hidden states go into a draft head of the model ([Segment].Layers): the head's [Model.TargetLayers]. An
// architecture with draft heads of its own has them trained on the final norm's output, and other heads for it likewise: it is then what
// they read for the state after the last layer.
func (m *Model) StatesFor(head *Model) []int {
	layers := slices.Clone(head.TargetLayers())
	for i, k := range layers {
		if k == m.config.Layers && len(m.kind.heads) > 0 {
			layers[i] = FinalNorm
		}
	}
	return layers
}
