package engine

import (
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
