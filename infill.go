package spec

import (
	"slices"
	"strings"

	"github.com/specgo/spec/bpe"
)

// Fill-in-the-middle: a model that was trained for it gets the text before and behind a gap between marks, and writes
// what belongs there.

// fimMarks are the spellings of the marks, by families of models.
var fimMarks = [...]struct{ prefix, suffix, middle, file, repo string }{
	// Qwen 2.5 Coder, CodeGemma, Granite 3
	{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>", "<|repo_name|>"},
	{"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>", "<repo_name>"}, // StarCoder
	{"<fim-prefix>", "<fim-suffix>", "<fim-middle>", "", ""},                      // SantaCoder
	// DeepSeek Coder
	{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "", ""},
	{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", "", ""}, // GLM
	{"▁<PRE>", "▁<SUF>", "▁<MID>", "", ""},                            // Code Llama
}

// infillEnds are the marks at which a filled gap ends: models go on with the next file behind them.
var infillEnds = []string{"<|fim_pad|>", "<fim_pad>", "<fim-pad>", "<|file_sep|>", "<|file_separator|>", "<file_sep>",
	"<|repo_name|>", "<repo_name>", "<reponame>"}

// Infills reports whether the model can fill a gap ([Request].Infill).
func (m *Model) Infills() bool {
	_, err := m.infill(&Infill{}, "")
	return err == nil
}

// spells reports whether a text has one of marks in it.
func spells(text string, marks []string) bool {
	return slices.ContainsFunc(marks, func(m string) bool { return m != "" && strings.Contains(text, m) })
}

// infill is the prompt for the text between prefix and the gap's suffix.
func (m *Model) infill(gap *Infill, prefix string) ([]int32, error) {
	id := func(mark string) (int32, bool) {
		if mark == "" {
			return 0, false
		}
		return m.tok.ID(mark)
	}
	for _, marks := range fimMarks {
		before, ok1 := id(marks.prefix)
		behind, ok2 := id(marks.suffix)
		middle, ok3 := id(marks.middle)
		if !ok1 || !ok2 || !ok3 {
			continue
		}
		all := append([]string{marks.prefix, marks.suffix, marks.middle, marks.file, marks.repo}, infillEnds...)
		plain := func(text string) []int32 { // where it spells a mark, as code about such models does, that is text
			return m.tok.Encode(text, bpe.EncodeOptions{NoSpacePrefix: true, Plain: spells(text, all)})
		}
		var ids []int32
		if m.tok.AddsBOS() {
			ids = append(ids, m.tok.BOS())
		}
		if len(gap.Extra) > 0 {
			file, hasFile := id(marks.file)
			if repo, ok := id(marks.repo); ok && hasFile {
				ids = append(append(ids, repo), plain("repository\n")...)
			}
			for _, x := range gap.Extra {
				if hasFile {
					ids = append(append(ids, file), plain(x.Name+"\n"+x.Text)...)
				} else {
					ids = append(ids, plain("\n--- "+x.Name+" ---\n"+x.Text)...)
				}
			}
			if hasFile {
				ids = append(append(ids, file), plain("file\n")...)
			}
		}
		for _, side := range []struct {
			mark  int32
			parts []Prompt
			text  string
			field string
		}{{before, gap.Before, prefix, "input_prefix"}, {behind, gap.Behind, gap.Suffix, "input_suffix"}} {
			ids = append(ids, side.mark)
			for _, p := range flat(side.parts) {
				if err := m.checkIDs(side.field, p.IDs); err != nil {
					return nil, err
				}
				ids = append(append(ids, p.IDs...), plain(p.Text)...)
			}
			ids = append(ids, plain(side.text)...)
		}
		return append(ids, middle), nil
	}
	return nil, bad("suffix", "%s has no marks for fill-in-the-middle in its vocabulary", m.name)
}
