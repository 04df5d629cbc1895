package spec

import (
	"slices"
	"strings"

	"github.com/specgo/spec/bpe"
)

// Fill-in-the-middle: a model that was trained for it gets the text before and behind a gap between marks, and writes
// what belongs there.

// fimMarks are the spellings of the marks, by families of models, for files whose keys do not name them.
var fimMarks = [...]struct{ prefix, suffix, middle, file, repo string }{
	// Qwen 2.5 Coder, CodeGemma, Granite 3
	{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>", "<|repo_name|>"},
	{"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>", "<repo_name>"}, // StarCoder
	{"<fim-prefix>", "<fim-suffix>", "<fim-middle>", "", ""},                      // SantaCoder
	// DeepSeek Coder
	{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "", ""},
	{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", "", ""}, // GLM
	{"▁<PRE>", "▁<SUF>", "▁<MID>", "", ""},                            // Code Llama
	{"<PRE>", "<SUF>", "<MID>", "", ""},
	{"<|prefix|>", "<|suffix|>", "<|middle|>", "", ""}, // Falcon-H1-Tiny-Coder
}

// gapMarks are the tokens around a gap, in front of another file and of a repository; -1: the vocabulary has none.
type gapMarks struct{ prefix, suffix, middle, file, repo int32 }

func (g *gapMarks) whole() bool { return g.prefix >= 0 && g.suffix >= 0 && g.middle >= 0 }

// gapMarks are the model's: those that keys of the file name, and others by their spelling.
func (m *Model) gapMarks() (found gapMarks) {
	id := func(mark string) int32 {
		if id, ok := m.tok.ID(mark); ok && mark != "" {
			return id
		}
		return -1
	}
	for _, x := range fimMarks {
		if found = (gapMarks{id(x.prefix), id(x.suffix), id(x.middle), id(x.file), id(x.repo)}); found.whole() {
			break
		}
		found = gapMarks{-1, -1, -1, -1, -1}
	}
	for part, mark := range map[string]*int32{"pre": &found.prefix, "suf": &found.suffix, "mid": &found.middle,
		"sep": &found.file, "rep": &found.repo} {
		if id, ok := m.tok.InfillMark(part); ok {
			*mark = id
		}
	}
	return found
}

// infillEnds are the marks at which a filled gap ends: models go on with the next file behind them.
var infillEnds = []string{"<|fim_pad|>", "<fim_pad>", "<fim-pad>", "<|file_sep|>", "<|file_separator|>", "<file_sep>",
	"<|repo_name|>", "<repo_name>", "<reponame>"}

// Infills reports whether the model can fill a gap ([Request].Infill).
func (m *Model) Infills() bool {
	_, err := m.infill(&Infill{})
	return err == nil
}

// spells reports whether a text has one of marks in it.
func spells(text string, marks []string) bool {
	return slices.ContainsFunc(marks, func(m string) bool { return m != "" && strings.Contains(text, m) })
}

// infill makes the prompts for the text between a prefix and the gap's suffix. What all of them have is encoded once.
func (m *Model) infill(gap *Infill) (prompt func(prefix string) []int32, err error) {
	marks := m.gapMarks()
	if !marks.whole() {
		return nil, bad("suffix", "%s has no marks for fill-in-the-middle in its vocabulary", m.name)
	}
	all := infillEnds
	for _, id := range []int32{marks.prefix, marks.suffix, marks.middle, marks.file, marks.repo} {
		all = append(slices.Clip(all), m.tok.Token(id))
	}
	plain := func(text string) []int32 { // where it spells a mark, as code about such models does, that is text
		return m.tok.Encode(text, bpe.EncodeOptions{NoSpacePrefix: true, Plain: spells(text, all)})
	}
	var ids []int32
	if m.tok.AddsBOS() {
		ids = append(ids, m.tok.BOS())
	}
	if len(gap.Extra) > 0 {
		if marks.repo >= 0 && marks.file >= 0 {
			ids = append(append(ids, marks.repo), plain("repository\n")...)
		}
		for _, x := range gap.Extra {
			if marks.file >= 0 {
				ids = append(append(ids, marks.file), plain(x.Name+"\n"+x.Text)...)
			} else {
				ids = append(ids, plain("\n--- "+x.Name+" ---\n"+x.Text)...)
			}
		}
		if marks.file >= 0 {
			ids = append(append(ids, marks.file), plain("file\n")...)
		}
	}
	side := func(mark int32, field string, parts []Prompt) error {
		ids = append(ids, mark)
		for _, p := range flat(parts) {
			if err := m.checkIDs(field, p.IDs); err != nil {
				return err
			}
			ids = append(append(ids, p.IDs...), plain(p.Text)...)
		}
		return nil
	}
	if err := side(marks.prefix, "input_prefix", gap.Before); err != nil {
		return nil, err
	}
	front := len(ids)
	if err := side(marks.suffix, "input_suffix", gap.Behind); err != nil {
		return nil, err
	}
	ids = append(append(ids, plain(gap.Suffix)...), marks.middle)
	return func(prefix string) []int32 { return slices.Concat(ids[:front], plain(prefix), ids[front:]) }, nil
}
