package engine

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
	"github.com/specgo/spec/internal/testkit"
)

// TestKindOf: a file's architecture tells its kind, of those that cannot be read as well.
func TestKindOf(t *testing.T) {
	for arch, want := range map[string]Kind{
		"llama": KindModel, "of another year": KindModel, "dflash": KindBlock, "t5": KindEncoderDecoder,
		"t5encoder": KindEncoder, "nomic-bert": KindEncoder,
		"eagle3": KindEagle, "gemma4-assistant": KindAssistant, "clip": KindProjector, "controlvector": KindControl,
	} {
		f := readHeader(t, randommodel.Bytes(t, []gguf.KV{{Key: "general.architecture", Value: arch}}, nil), "x")
		if got := KindOf(f); got != want {
			t.Errorf("%s: a %s, expected a %s", arch, got, want)
		}
		if known := slices.Contains(Architectures(), arch); known != slices.Contains(
			[]string{"llama", "t5", "t5encoder", "nomic-bert"}, arch) {
			t.Errorf("%s: among the architectures: %v", arch, known)
		}
	}
}

// TestStatesFor: architectures with draft heads of their own have heads read the final norm's output for the state
// after the last layer; others that state itself.
func TestStatesFor(t *testing.T) {
	head := &Model{head: &eagle{Head: Head{TargetLayers: []int{2, 5, 8}}}}
	for arch, want := range map[string][]int{
		"llama": {2, 5, 8}, "qwen35": {2, 5, FinalNorm}, "qwen35moe": {2, 5, FinalNorm}, "gemma4": {2, 5, FinalNorm}} {
		m := &Model{kind: kinds[arch], config: Config{Layers: 8}}
		if got := m.StatesFor(head); !slices.Equal(got, want) {
			t.Errorf("%s: states of layers %d, expected %d", arch, got, want)
		}
	}
	if layers := head.TargetLayers(); !slices.Equal(layers, []int{2, 5, 8}) {
		t.Errorf("the head's own layers have become %d", layers)
	}
}

// TestModelsListsArchitectures: the table of docs/MODELS.md names every architecture that is read, and no other.
func TestModelsListsArchitectures(t *testing.T) {
	text, err := os.ReadFile("../docs/MODELS.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(text), "| architecture (`general.architecture`) |")
	table, _, end := strings.Cut(table, "\n\n")
	if !ok || !end {
		t.Fatal("no table of architectures")
	}
	notes, known := regexp.MustCompile(`\([^)]*\)`), Architectures()
	for name, k := range kinds {
		if k.is.Head() && k.build != nil {
			known = append(known, name)
		}
	}
	named := []string{"t5encoder"} // in a note
	for _, row := range strings.Split(table, "\n")[2:] {
		for name := range strings.SplitSeq(notes.ReplaceAllString(strings.Split(row, "|")[1], ""), ",") {
			if named = append(named, strings.TrimSpace(name)); !slices.Contains(known, named[len(named)-1]) {
				t.Errorf("%q is not read", named[len(named)-1])
			}
		}
	}
	for _, name := range known {
		if !slices.Contains(named, name) {
			t.Errorf("%s is not in the table", name)
		}
	}
}

// architectureTable lists the architectures that are read, by kind.
func architectureTable() string {
	by := map[Kind][]string{}
	for name, k := range kinds {
		if k.build != nil {
			by[k.is] = append(by[k.is], name)
		}
	}
	b := "| a file that holds | of architecture (`general.architecture`) |\n|---|---|\n"
	for _, k := range []Kind{KindModel, KindEncoderDecoder, KindEncoder, KindEagle, KindBlock, KindAssistant} {
		b += "| a " + string(k) + " | " + strings.Join(slices.Sorted(slices.Values(by[k])), ", ") + " |\n"
		delete(by, k)
	}
	for k := range by {
		b += "| " + string(k) + " | without a place in the test's order |\n"
	}
	return regexp.MustCompile(`\| a ([eE])`).ReplaceAllString(b, "| an $1")
}

// TestArchitecturesAreDocumented: README's table of what runs is what the table of kinds says: SPEC_UPDATE=1 writes it.
func TestArchitecturesAreDocumented(t *testing.T) {
	testkit.Printed(t, "README.md", "architectures", architectureTable())
}

// TestArchitecturesOfOthers: every architecture that llama.cpp of August 2026 names is read, or refused with what is
// missing to read it; a draft head, a projector and the like are told apart.
func TestArchitecturesOfOthers(t *testing.T) {
	const names = `afmoe apertus arcee arctic arwkv7 baichuan bailingmoe bailingmoe2 bailingmoe3 bert bitnet bloom
		chameleon chatglm
		clip codeshell cogvlm cohere2 cohere2moe command-r dbrx deci deepseek deepseek2 deepseek2-ocr deepseek32 deepseek4
		dflash dots1 dream eagle3 ernie4_5 ernie4_5-moe eurobert exaone exaone-moe exaone4 falcon falcon-h1 gemma
		gemma-embedding gemma2 gemma3 gemma3n gemma4 gemma4-assistant glm-dsa glm4 glm4moe gpt-oss gpt2 gptj gptneox granite
		granitehybrid granitemoe grok grovemoe hunyuan-dense hunyuan-moe hunyuan_vl hy_v3 internlm2 jais jais2 jamba
		jina-bert-v2 jina-bert-v3 kimi-k3
		kimi-linear laguna lfm2 lfm2moe llada llada-moe llama llama-embed llama4 maincoder mamba
		mamba2 mellum mimo2 minicpm minicpm3 minimax-m2 minimax-m3 mistral3 mistral4 modern-bert mpt nanbeige nemotron
		nemotron_h nemotron_h_moe neo-bert nomic-bert nomic-bert-moe olmo olmo2 olmoe openelm orion paddleocr pangu-embedded
		phi2 phi3 phimoe plamo plamo2 plamo3 plm qwen qwen2 qwen2moe qwen2vl qwen3 qwen35 qwen35moe qwen3moe qwen3next
		qwen3tts qwen3vl qwen3vlmoe refact rnd1 rwkv6 rwkv6qwen2 rwkv7 seed_oss smallthinker smollm3 stablelm starcoder
		starcoder2 step35 t5 t5encoder talkie wavtokenizer-dec xverse`
	for _, name := range strings.Fields(names) {
		k, ok := kinds[name]
		if !ok || k.build == nil && k.refused == "" && k.is != KindProjector {
			t.Errorf("%s is neither read nor refused by a reason", name)
		}
		_, err := Describe(headerOf(t, []gguf.KV{{Key: "general.architecture", Value: name}}, nil, "x.gguf"))
		if why := Refused(name); why != "" && !strings.Contains(fmt.Sprint(err), why) {
			t.Errorf("%s: %v does not say why", name, err)
		}
	}
}
