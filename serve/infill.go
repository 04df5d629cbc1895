package serve

import (
	"fmt"

	"github.com/specgo/spec/bpe"
)

// Fill-in-the-middle: a model that was trained for it gets the text before and behind a gap between marks, and writes
// what belongs there.

// fimMarks are the spellings of the marks, by families of models.
var fimMarks = []struct{ prefix, suffix, middle, file, repo string }{
	// Qwen 2.5 Coder, CodeGemma, Granite 3
	{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|file_sep|>", "<|repo_name|>"},
	{"<fim_prefix>", "<fim_suffix>", "<fim_middle>", "<file_sep>", "<repo_name>"}, // StarCoder
	{"<fim-prefix>", "<fim-suffix>", "<fim-middle>", "", ""},                      // SantaCoder
	// DeepSeek Coder
	{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>", "", ""},
	{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>", "", ""}, // GLM
	{"▁<PRE>", "▁<SUF>", "▁<MID>", "", ""},                            // Code Llama
}

// snippet is a text of another file, as context.
type snippet struct{ name, text string }

// infillPrompt is the prompt for the text between prefix and suffix; field names what of the request there is no way
// to do.
func (m *loaded) infillPrompt(field string, extra []snippet, prefix, suffix string) ([]int32, *Error) {
	plain := func(text string) []int32 { return m.tok.Encode(text, bpe.EncodeOptions{NoSpacePrefix: true}) }
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
		var ids []int32
		if m.tok.AddsBOS() {
			ids = append(ids, m.tok.BOS())
		}
		if len(extra) > 0 {
			file, hasFile := id(marks.file)
			if repo, ok := id(marks.repo); ok && hasFile {
				ids = append(append(ids, repo), plain("repository\n")...)
			}
			for _, x := range extra {
				if hasFile {
					ids = append(append(ids, file), plain(x.name+"\n"+x.text)...)
				} else {
					ids = append(ids, plain("\n--- "+x.name+" ---\n"+x.text)...)
				}
			}
			if hasFile {
				ids = append(append(ids, file), plain("file\n")...)
			}
		}
		ids = append(append(ids, before), plain(prefix)...)
		ids = append(append(ids, behind), plain(suffix)...)
		return append(ids, middle), nil
	}
	return nil, badField(field, "%s has no marks for fill-in-the-middle in its vocabulary", m.name)
}

// infillIDs is the prompt of /infill, or of a completion with a suffix.
func (p *plan) infillIDs(prefix string) ([]int32, *Error) {
	r := p.request
	field := "suffix"
	if r.infill {
		field = "input_prefix"
		prefix = r.inputPrefix + prefix
	}
	return p.m.infillPrompt(field, r.extra, prefix, r.suffix)
}

// readExtra reads the snippets of /infill.
func readExtra(r *request, v value) *Error {
	items, err := v.list()
	if err != nil {
		return err
	}
	if len(items) > maxExtra {
		return v.bad("more than %d files", maxExtra)
	}
	for _, item := range items {
		var s snippet
		text := false
		if err := item.object(map[string]func(value) *Error{
			"filename": func(v value) (e *Error) { s.name, e = v.text(); return },
			"text":     func(v value) (e *Error) { s.text, e = v.text(); text = true; return },
		}); err != nil {
			return err
		}
		if !text {
			return badField(item.path+".text", "missing")
		}
		if s.name == "" {
			s.name = fmt.Sprintf("file%d", len(r.extra)+1)
		}
		r.extra = append(r.extra, s)
	}
	return nil
}

// maxExtra is the most snippets of a request.
const maxExtra = 1024
