package serve

import (
	"math"

	"github.com/specgo/spec"
)

func readPrompt(r *request, v value) *Error {
	s, err := v.text()
	r.prompts = []spec.Prompt{{Text: s}}
	return err
}

// readPrompts reads a prompt or several: texts, arrays of ids, or one array of ids.
func readPrompts(r *request, v value) *Error { return readTexts(r, v, maxChoices) }

// maxInputs is the most texts to embed in one request, as in OpenAI's API.
const maxInputs = 2048

func readInputs(r *request, v value) *Error {
	r.texts = v.path
	return readTexts(r, v, maxInputs)
}

func readTexts(r *request, v value, most int) *Error {
	if p, ok, err := readOne(v); ok {
		r.prompts = []spec.Prompt{p}
		return err
	}
	items, err := v.list()
	if err != nil {
		return v.bad("must be a string, token ids, or an array of one of them")
	}
	if len(items) == 0 {
		return v.bad("must not be empty")
	}
	mixed := false // numbers among the items: ids and texts of one prompt
	for _, item := range items {
		mixed = mixed || item.raw[0] != '"' && item.raw[0] != '[' && item.raw[0] != '{'
	}
	if mixed {
		p, err := readParts(v)
		r.prompts = []spec.Prompt{p}
		return err
	}
	if len(items) > most {
		return v.bad("more than %d texts", most)
	}
	for _, item := range items {
		p, ok, err := readOne(item)
		if !ok {
			p, err = readParts(item)
		}
		if err != nil {
			return err
		}
		r.prompts = append(r.prompts, p)
	}
	return nil
}

// readOne reads a text, or llama.cpp's object around one; ok is false for what is neither.
func readOne(v value) (p spec.Prompt, ok bool, e *Error) {
	switch {
	case len(v.raw) > 0 && v.raw[0] == '"':
		p.Text, e = v.text()
		return p, true, e
	case v.isObject():
		given := false
		e = v.object(map[string]func(value) *Error{
			"prompt_string":   func(v value) (e *Error) { p.Text, e = v.text(); given = true; return },
			"multimodal_data": func(v value) *Error { return onlyEmptyList(nil, v) },
		})
		if e == nil && !given {
			e = badField(v.path+".prompt_string", "missing")
		}
		return p, true, e
	}
	return p, false, nil
}

// readParts reads ids, or ids and texts in a row.
func readParts(v value) (p spec.Prompt, e *Error) {
	items, e := v.list()
	if e != nil {
		return p, e
	}
	texts := false
	for _, item := range items {
		if item.raw[0] == '"' {
			texts = true
			s, err := item.text()
			if err != nil {
				return p, err
			}
			p.Parts = append(p.Parts, spec.Prompt{Text: s})
			continue
		}
		id, err := item.whole(0, math.MaxInt32)
		if err != nil {
			return p, item.bad("must be a token id")
		}
		p.Parts = append(p.Parts, spec.Prompt{IDs: []int32{int32(id)}, Given: true})
	}
	if texts {
		return p, nil
	}
	ids, e := v.ids()
	return spec.Prompt{IDs: ids, Given: true}, e
}
