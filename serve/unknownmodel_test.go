package serve

import "testing"

// Every path that reads a model's name answers 404 to one that the server does not have, and names the field.
func TestEveryPathRefusesAnUnknownModel(t *testing.T) {
	s := newTester(t, func(o *Options) { // of one model any name is accepted
		o.Models = []Entry{entryClosed(t, "go", func() {}), entryClosed(t, "other", func() {})}
	})
	const messages = `"messages":[{"role":"user","content":"x"}]`
	for path, fields := range map[string]string{
		"/completion": `"prompt":"x"`, "/infill": `"input_prefix":"x","input_suffix":"y"`,
		"/tokenize": `"content":"x"`, "/detokenize": `"tokens":[1]`, "/apply-template": messages,

		"/v1/completions": `"prompt":"x"`, "/v1/chat/completions": messages, "/v1/chat/completions/input_tokens": messages,
		"/v1/responses": `"input":"x"`, "/v1/responses/input_tokens": `"input":"x"`, "/v1/embeddings": `"input":"x"`,
	} {
		if o := decode(t, s.post(path, `{"model":"unknown",`+fields+`}`, 404)); o.get(t, "error", "param") != "model" {
			t.Errorf("%s: %v", path, o)
		}
	}
}
