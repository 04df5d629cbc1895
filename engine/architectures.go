package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/specgo/spec/gguf"
)

// decoderOf is the kind of decoder-only models that a family describes, and that such draft heads are made for.
func decoderOf(f func(*loader, *Config) family, heads ...Kind) kind {
	build := func(l *loader, m *Model) network { return l.decoder(&m.config, f(l, &m.config)) }
	return kind{is: KindModel, heads: heads, family: f, layers: (*loader).layerCount, build: build}
}

// encoderOf is the kind of encoders that a family describes.
func encoderOf(f func(*loader, *Config) family) kind {
	build := func(l *loader, m *Model) network { return l.textEncoder(&m.config, f(l, &m.config)) }
	return kind{is: KindEncoder, layers: (*loader).encoderLayers, build: build}
}

// ofValues is a kind whose values may have another size than keys.
func ofValues(k kind) kind {
	k.values = true
	return k
}

// ofRawStates is a kind whose MTP blocks read states before the final norm.
func ofRawStates(k kind) kind {
	k.rawStates = true
	return k
}

// ofSparse is a kind some of whose layers have no heads, or no feed-forward.
func ofSparse(k kind) kind {
	k.sparse = true
	return k
}

// ofPlain is a kind with keys that begin so, and not with the architecture's name.
func ofPlain(k kind, prefix string) kind {
	k.plain = prefix
	return k
}

// ofStreams is a kind of models with several residual streams, which their MTP blocks read all of.
func ofStreams(model, head func(*loader, *Model) network) kind {
	return kind{is: KindModel, heads: []Kind{KindMTP}, layers: (*loader).layerCount, build: model, mtp: head,
		rawStates: true}
}

// lacking is the kind of models that other engines run and that cannot be read: what is missing.
func lacking(what string) kind { return kind{is: KindModel, refused: what} }

// diffusion is the kind of models that do not write one token after the other.
const diffusion = "a diffusion model, which fills in masks instead of writing one token after the other"

// pictures are models whose files hold what reads pictures into their blocks.
const pictures = "a model that reads pictures"

// kinds are the architectures that there are, by general.architecture.
var kinds = map[string]kind{
	"afmoe":          decoderOf(afmoe),
	"apertus":        ofPlain(decoderOf(apertus), xieluKeys),
	"arcee":          decoderOf(arcee),
	"baichuan":       decoderOf(baichuan),
	"bailingmoe":     decoderOf(bailingMoE),
	"bailingmoe2":    decoderOf(bailingMoE2),
	"bailingmoe3":    ofValues(decoderOf(bailingMoE3, KindMTP)),
	"bitnet":         decoderOf(bitNet),
	"bloom":          decoderOf(bloom),
	"chatglm":        decoderOf(chatGLM),
	"codegen":        decoderOf(gptJ),
	"codeshell":      decoderOf(codeShell),
	"dbrx":           decoderOf(dbrx),
	"deci":           ofSparse(decoderOf(deci)),
	"cohere2":        decoderOf(cohere2),
	"cohere2moe":     decoderOf(cohere2MoE),
	"command-r":      decoderOf(commandR),
	"deepseek":       decoderOf(deepseek),
	"deepseek2":      ofValues(decoderOf(deepseek2, KindMTP)),
	"deepseek32":     ofValues(decoderOf(deepseek32, KindMTP)),
	"dots1":          decoderOf(dots1),
	"ernie4_5":       decoderOf(ernie45),
	"ernie4_5-moe":   decoderOf(ernie45MoE),
	"exaone":         decoderOf(exaone),
	"exaone-moe":     decoderOf(exaoneMoE),
	"exaone4":        decoderOf(exaone4),
	"falcon":         decoderOf(falcon),
	"falcon-h1":      decoderOf(falconH1),
	"gemma":          decoderOf(gemma),
	"gemma2":         decoderOf(gemma2),
	"gemma3":         decoderOf(gemma3),
	"gemma3n":        {is: KindModel, layers: (*loader).layerCount, build: (*loader).gemma3n},
	"gemma4":         decoderOf(gemma4, KindAssistant),
	"glm-dsa":        ofValues(decoderOf(glmDSA, KindMTP)),
	"glm4":           decoderOf(glm4),
	"glm4moe":        decoderOf(glm4MoE),
	"gpt-oss":        decoderOf(gptOSS),
	"gpt2":           decoderOf(gpt2),
	"gptj":           decoderOf(gptJ),
	"gptneox":        decoderOf(gptNeoX),
	"granite":        decoderOf(granite),
	"granite_swa":    decoderOf(graniteSWA),
	"granitehybrid":  decoderOf(graniteHybrid),
	"granitemoe":     decoderOf(graniteMoE),
	"graniteswitch":  decoderOf(graniteSwitch),
	"hunyuan-dense":  decoderOf(hunyuanDense),
	"hunyuan-moe":    decoderOf(hunyuanMoE),
	"hy_v3":          decoderOf(hyV3, KindMTP),
	"internlm2":      decoderOf(internLM2),
	"jais":           decoderOf(jais),
	"jais2":          decoderOf(jais2),
	"jamba":          decoderOf(jamba),
	"kimi-linear":    ofValues(decoderOf(kimiLinear)),
	"laguna":         decoderOf(laguna),
	"lfm2":           decoderOf(lfm2),
	"lfm2moe":        decoderOf(lfm2MoE),
	"llama":          decoderOf(llama),
	"llama4":         decoderOf(llama4),
	"maincoder":      decoderOf(maincoder),
	"mamba":          ofSparse(decoderOf(mamba)),
	"mamba2":         ofSparse(decoderOf(mamba2Only)),
	"mellum":         decoderOf(mellum),
	"mimo2":          ofRawStates(ofValues(decoderOf(mimo2, KindMTP))),
	"minicpm":        decoderOf(minicpm),
	"minicpm3":       ofValues(decoderOf(miniCPM3)),
	"minimax-m2":     decoderOf(minimaxM2),
	"mistral3":       decoderOf(mistral3),
	"mistral4":       ofValues(decoderOf(mistral4)),
	"mpt":            decoderOf(mpt),
	"muse-glimmer":   decoderOf(museGlimmer),
	"nanbeige":       {is: KindModel, family: nanbeige, layers: (*loader).layerCount, build: (*loader).looped},
	"nemotron":       decoderOf(nemotron),
	"nemotron_h":     ofSparse(decoderOf(nemotronH)),
	"nemotron_h_moe": ofSparse(decoderOf(nemotronHMoE)),
	"olmo":           decoderOf(olmo),
	"olmo2":          decoderOf(olmo2),
	"olmoe":          decoderOf(olmoE),
	"openelm":        decoderOf(openELM),
	"opt":            decoderOf(opt),
	"orion":          decoderOf(orion),
	"pangu-embedded": decoderOf(panguEmbedded),
	"phi2":           decoderOf(phi2),
	"phi3":           decoderOf(phi3),
	"plamo":          decoderOf(plamo),
	"plm":            ofValues(decoderOf(plm)),
	"qwen":           decoderOf(qwen1),
	"qwen2":          decoderOf(qwen2),
	"qwen2moe":       decoderOf(qwen2MoE),
	"qwen2vl":        decoderOf(qwen2VL),
	"qwen3":          decoderOf(qwen3),
	"qwen35":         decoderOf(qwen35, KindMTP),
	"qwen35moe":      decoderOf(qwen35MoE, KindMTP),
	"qwen3moe":       decoderOf(qwen3MoE),
	"qwen3next":      decoderOf(qwen3Next, KindMTP),
	"qwen3vl":        decoderOf(qwen3VL),
	"qwen3vlmoe":     decoderOf(qwen3VLMoE),
	"qwen4exp":       ofStreams((*loader).qwen4exp, (*loader).qwen4expHead),
	"refact":         decoderOf(refact),
	"rwkv7":          ofSparse(decoderOf(rwkv7)),
	"seed_oss":       decoderOf(seedOSS),
	"smallthinker":   decoderOf(smallThinker),
	"smollm3":        decoderOf(smollm3),
	"spark2_5":       decoderOf(spark25),
	"stablelm":       decoderOf(stableLM),
	"starcoder":      decoderOf(starcoder),
	"starcoder2":     decoderOf(starcoder2),
	"step35":         ofRawStates(decoderOf(step35, KindMTP)),
	"talkie":         decoderOf(talkie),
	"xverse":         decoderOf(xverse),

	"t5":        {is: KindEncoderDecoder, layers: (*loader).t5Layers, build: (*loader).t5},
	"t5encoder": {is: KindEncoder, layers: (*loader).t5EncoderLayers, build: (*loader).t5},

	"eagle3":           {is: KindEagle, layers: (*loader).layerCount, build: (*loader).eagle},
	"gemma4-assistant": {is: KindAssistant, layers: (*loader).assistantLayers, build: (*loader).assistant},
	"dflash":           {is: KindBlock, layers: (*loader).layerCount, build: (*loader).blockHead},
	"dflash2":          {is: KindBlock, refused: "a DFlash 2 head, which has convolutions and a selector of candidates"},

	"bert":            encoderOf(bert),
	"eurobert":        encoderOf(euroBERT),
	"gemma-embedding": encoderOf(gemmaEmbedding),
	"jina-bert-v2":    encoderOf(jinaBERT2),
	"jina-bert-v3":    encoderOf(jinaBERT3),
	"llama-embed":     encoderOf(llama), // Llama-Embed-Nemotron (Babakhin et al. 2025, arXiv:2511.07025)
	"modern-bert":     encoderOf(modernBERT),
	"neo-bert":        encoderOf(neoBERT),
	"nomic-bert":      encoderOf(nomicBERT),
	"nomic-bert-moe":  encoderOf(nomicBERTMoE),

	// These are refused, with the part that is missing.
	"arctic":           lacking("experts that read another input than the feed-forward beside them"),
	"arwkv7":           lacking("the recurrence of RWKV-7 in Qwen's blocks"),
	"chameleon":        lacking("a model that reads and writes pictures as tokens"),
	"cogvlm":           lacking("weights of their own for the tokens of pictures"),
	"deepseek2-ocr":    lacking(pictures),
	"deepseek4":        lacking("hyper-connections, and attention to keys and values that are compressed by blocks"),
	"dream":            lacking(diffusion),
	"grok":             lacking("capped scores of experts, and scales that old files do not say"),
	"grovemoe":         lacking("experts that several others share"),
	"hunyuan_vl":       lacking(pictures),
	"kimi-k3":          lacking("attention over what blocks before it have added up, and an activation of its own"),
	"llada":            lacking(diffusion),
	"llada-moe":        lacking(diffusion),
	"minimax-m3":       lacking("attention to the blocks that an index chooses for each token"),
	"paddleocr":        lacking(pictures),
	"phimoe":           lacking("other norms and another router than those that the reference engine computes"),
	"plamo2":           lacking("its tokenizer, and Mamba layers of a form of their own"),
	"plamo3":           lacking("its tokenizer"),
	"qwen3tts":         lacking("a model that writes sound"),
	"rnd1":             lacking(diffusion),
	"rwkv6":            lacking("the recurrence of RWKV-6"),
	"rwkv6qwen2":       lacking("the recurrence of RWKV-6 in Qwen's blocks"),
	"wavtokenizer-dec": lacking("a model that writes sound"),

	// These are not read. They are here because a file of theirs is told apart from a model.
	"clip":          {is: KindProjector},
	"controlvector": {is: KindControl},
}

// Architectures lists the names of general.architecture that [Open] knows, in alphabetical order. Draft heads are not
// among them.
func Architectures() []string {
	return slices.Sorted(func(yield func(string) bool) {
		for name, k := range maps.All(kinds) {
			if k.build != nil && !k.is.Head() && !yield(name) {
				return
			}
		}
	})
}

// Refused says what is missing to read files of an architecture that is known and refused; "" of all others.
func Refused(architecture string) string { return kinds[architecture].refused }

// KindOf is the kind of a file, as its architecture and its keys tell it. One of an unknown architecture counts as a
// model.
func KindOf(f *gguf.File) Kind {
	arch, _ := f.String("general.architecture")
	switch k := kinds[arch]; {
	case isAdapter(f):
		return KindAdapter
	case k.is != "" && k.is != KindModel:
		return k.is
	case mtpAlone(f, arch):
		return KindMTP
	}
	return KindModel
}

// kindOf says how the part of a file that o asks for is read: the model, or its MTP blocks, or these because there is
// nothing else.
func kindOf(f *gguf.File, o Options) (kind, error) {
	arch, err := f.String("general.architecture")
	if err != nil {
		return kind{}, err
	}
	k, alone := kinds[arch], mtpAlone(f, arch)
	switch {
	case isAdapter(f):
		err = fmt.Errorf("%s: key %q: %w: an adapter (LoRA), which is no model by itself", f.Name, keyGeneralType,
			ErrUnsupported)
	case k.refused != "":
		err = fmt.Errorf("%s: key \"general.architecture\": %w: %q: %s", f.Name, ErrUnsupported, arch, k.refused)
	case k.build == nil:
		err = fmt.Errorf("%s: key \"general.architecture\": %w: %q (%d are%s)", f.Name, ErrArchitecture, arch,
			len(Architectures()), similar(arch))
	case alone && o.Target == nil:
		err = fmt.Errorf("%s: %w: MTP blocks without the model that they belong to: a draft head, which is given beside "+
			"its target", f.Name, ErrUnsupported)
	case (alone || o.MTP) && k.is != KindAssistant:
		return mtpOf(k), nil
	}
	return k, err
}

// similar names the known architectures that begin as arch does.
func similar(arch string) string {
	const alike = 3 // letters: "qwen9" is told of the Qwen models
	var names []string
	for _, name := range Architectures() {
		if len(arch) >= alike && strings.HasPrefix(name, arch[:alike]) {
			names = append(names, name)
		}
	}
	if names == nil {
		return ""
	}
	return ", of similar names: " + strings.Join(names, ", ")
}
