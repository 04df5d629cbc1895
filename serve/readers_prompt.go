package serve

func readPrompt(r *request, v value) *Error {
	s, err := v.text()
	r.prompts = []prompt{{text: s}}
	return err
}

// readPrompts reads a prompt or several: texts, arrays of ids, or one array of ids.
func readPrompts(r *request, v value) *Error { return readTexts(r, v, maxChoices) }

// maxInputs is the most texts to embed in one request, as in OpenAI's API.
const maxInputs = 2048

func readInputs(r *request, v value) *Error { return readTexts(r, v, maxInputs) }

func readTexts(r *request, v value, most int) *Error {
	if len(v.raw) > 0 && v.raw[0] == '"' {
		return readPrompt(r, v)
	}
	items, err := v.list()
	if err != nil {
		return v.bad("must be a string, token ids, or an array of one of them")
	}
	if len(items) == 0 {
		return v.bad("must not be empty")
	}
	if c := items[0].raw[0]; c != '"' && c != '[' {
		ids, err := v.ids()
		r.prompts = []prompt{{ids: ids, given: true}}
		return err
	}
	if len(items) > most {
		return v.bad("more than %d texts", most)
	}
	for _, item := range items {
		if item.raw[0] == '"' {
			s, err := item.text()
			if err != nil {
				return err
			}
			r.prompts = append(r.prompts, prompt{text: s})
			continue
		}
		ids, err := item.ids()
		if err != nil {
			return err
		}
		r.prompts = append(r.prompts, prompt{ids: ids, given: true})
	}
	return nil
}
