package serve

import "github.com/specgo/spec"

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
	if !v.isArray() {
		return v.bad("must be a string, token ids, or an array of one of them")
	}
	n, mixed := 0, false // numbers among the items: ids and texts of one prompt
	for _, raw := range v.elements() {
		n, mixed = n+1, mixed || raw[0] != '"' && raw[0] != '[' && raw[0] != '{'
	}
	switch {
	case n == 0:
		return v.bad("must not be empty")
	case mixed:
		p, err := readParts(v)
		r.prompts = []spec.Prompt{p}
		return err
	case n > most:
		return v.bad("more than %d texts", most)
	}
	for i, raw := range v.elements() {
		item := v.element(i, raw)
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
	if !v.isArray() {
		return p, v.bad("must be an array")
	}
	texts := false
	for i, raw := range v.elements() {
		if raw[0] == '"' {
			texts = true
			s, err := v.element(i, raw).text()
			if err != nil {
				return p, err
			}
			p.Parts = append(p.Parts, spec.Prompt{Text: s})
		} else {
			id, err := v.id(i, raw)
			if err != nil {
				return p, err
			}
			if len(p.Parts) == 0 || !p.Parts[len(p.Parts)-1].Given {
				p.Parts = append(p.Parts, spec.Prompt{Given: true})
			}
			last := &p.Parts[len(p.Parts)-1]
			last.IDs = append(last.IDs, id)
		}
		if len(p.Parts) > mostItems {
			return p, v.bad("more than %d texts", mostItems)
		}
	}
	switch {
	case texts:
		return p, nil
	case len(p.Parts) == 0:
		return spec.Prompt{IDs: []int32{}, Given: true}, nil
	}
	return p.Parts[0], nil
}
