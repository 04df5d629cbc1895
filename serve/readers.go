package serve

import (
	"fmt"
	"math"
	"strconv"

	"github.com/specgo/spec"
	"github.com/specgo/spec/speculative"
)

// Readers of fields: each puts one field's value into the request.

func onlyText(want string) func(*request, value) *Error {
	return func(_ *request, v value) *Error {
		if s, err := v.text(); err != nil || s != want {
			return v.bad("only %q is supported", want)
		}
		return nil
	}
}

func onlyNumber(want float64) func(*request, value) *Error {
	return func(_ *request, v value) *Error {
		if x, err := v.float(); err != nil || x != want {
			return v.bad("only %v is supported", want)
		}
		return nil
	}
}

func onlyFalse(_ *request, v value) *Error { return onlyBool(v, false) }
func onlyTrue(_ *request, v value) *Error  { return onlyBool(v, true) }

func onlyBool(v value, want bool) *Error {
	if b, err := v.boolean(); err != nil || b != want {
		return v.bad("only %v is supported", want)
	}
	return nil
}

func onlyEmptyList(_ *request, v value) *Error {
	if list, err := v.list(); err != nil || len(list) > 0 {
		return v.bad("only an empty array is supported")
	}
	return nil
}

func readModalities(_ *request, v value) *Error {
	list, err := v.texts()
	if err != nil {
		return err
	}
	for _, s := range list {
		if s != "text" {
			return v.bad("only text is supported")
		}
	}
	return nil
}

// readChoices reads how many answers there are to each prompt.
func readChoices(r *request, v value) *Error {
	n, err := v.whole(1, maxChoices)
	r.n = int(n)
	return err
}

func readDimensions(r *request, v value) *Error {
	n, err := v.whole(1, anyNumber)
	r.dims = int(n)
	return err
}

// readNorm reads a normalization by llama.cpp's numbers.
func readNorm(r *request, v value) *Error {
	n, err := v.whole(-1, anyNumber)
	if err != nil {
		return err
	}
	norm, wrong := spec.ParseNorm(int(n))
	if r.norm = norm; wrong != nil {
		return v.bad("must be -1, 0, 1 or 2")
	}
	return nil
}

func readStreamOptions(r *request, v value) *Error {
	return v.object(map[string]func(value) *Error{
		"include_usage":       func(v value) (e *Error) { r.wantUsage, e = v.boolean(); return },
		"include_obfuscation": func(value) *Error { return nil }, // there is none
	})
}

// readResponseFields reads which fields of the answer are wanted: paths with slashes.
func readResponseFields(r *request, v value) *Error {
	list, err := v.texts()
	if err != nil {
		return err
	}
	if len(list) > maxResponseFields {
		return v.bad("more than %d fields", maxResponseFields)
	}
	if r.fields = list; len(list) == 0 {
		r.fields = nil // all, as in llama.cpp
	}
	return nil
}

// maxResponseFields is the most fields that a request may choose.
const maxResponseFields = 256

func readStop(r *request, v value) (e *Error) { r.stop, e = readStops(v); return }

// readStops reads a few texts that are not empty.
func readStops(v value) ([]string, *Error) {
	texts, err := v.texts()
	if err != nil {
		return nil, err
	}
	if len(texts) > maxStops {
		return nil, v.bad("more than %d texts", maxStops)
	}
	for _, s := range texts {
		if s == "" || len(s) > maxStopText {
			return nil, v.bad("a text must have 1 to %d bytes", maxStopText)
		}
	}
	return texts, nil
}

// readBias reads {"id or text": x}, or llama.cpp's [[id or text, x], …]: x is added to the logit of the token, or of
// all tokens of the text; an x of false bans them.
func readBias(r *request, v value) *Error {
	r.sampling.LogitBias, r.sampling.Banned, r.textBias = nil, nil, nil
	set := func(id int64, text string, x value) *Error {
		banned := string(x.raw) == "false"
		bias := float32(0)
		if !banned {
			var err *Error
			if bias, err = x.number(-maxSampling, maxSampling); err != nil {
				return err
			}
		}
		switch {
		case banned && id >= 0:
			r.bans = append(r.bans, int32(id))
		case banned:
			r.textBans = append(r.textBans, text)
		case id >= 0:
			if r.sampling.LogitBias == nil {
				r.sampling.LogitBias = map[int32]float32{}
			}
			r.sampling.LogitBias[int32(id)] = bias
		default:
			r.textBias = append(r.textBias, textBias{text, bias})
		}
		return nil
	}
	if v.isObject() {
		members, err := split(v.path, v.raw)
		if err != nil {
			return err
		}
		for _, m := range members {
			at := value{join(v.path, m.name), m.raw}
			id, e := strconv.ParseInt(m.name, 10, 32)
			switch {
			case e != nil:
				id = -1
			case id < 0:
				return at.bad("the name must be a token id or a text")
			}
			if err := set(id, m.name, at); err != nil {
				return err
			}
		}
		return nil
	}
	items, err := v.list()
	if err != nil {
		return v.bad("must be an object of token ids and numbers")
	}
	for _, item := range items {
		pair, err := item.list()
		if err != nil || len(pair) != 2 {
			return item.bad("must be a pair of a token id or a text and a number")
		}
		text, err := pair[0].text()
		id := int64(-1)
		if err != nil {
			if id, err = pair[0].whole(0, math.MaxInt32); err != nil {
				return pair[0].bad("must be a token id or a text")
			}
		}
		if err := set(id, text, pair[1]); err != nil {
			return err
		}
	}
	return nil
}

func readSpeculation(r *request, v value) *Error {
	off := false
	readers := r.speculationReaders()
	readers["off"] = func(v value) (e *Error) { off, e = v.boolean(); return }
	err := v.object(readers)
	if off {
		r.undrafted()
	}
	return err
}

// undrafted chooses plain decoding.
func (r *request) undrafted() { r.spec.Drafter, r.spec.ExitLayer = "none", 0 }

// oneOfSpeculation reads a member of speculation by another name.
func oneOfSpeculation(name string) func(*request, value) *Error {
	return func(r *request, v value) *Error { return r.speculationReaders()[name](v) }
}

// readMostDrafted reads llama.cpp's greatest draft length, which may be 0, and is a bound that speculation.max may be
// below.
func readMostDrafted(r *request, v value) *Error {
	n, err := v.whole(0, anyNumber)
	if r.spec.Max = int(min(n, MaxDraft)); err == nil && n == 0 {
		r.undrafted()
	}
	return err
}

// speculationReaders are those of the members of speculation, but for off.
func (r *request) speculationReaders() map[string]func(value) *Error {
	s := &r.spec
	name := func(p *string, known []string) func(value) *Error {
		return func(v value) (e *Error) { *p, e = v.oneOf(known...); return }
	}
	count := func(p *int, low, high int64) func(value) *Error {
		return func(v value) *Error {
			n, err := v.whole(low, high)
			*p = int(n)
			return err
		}
	}
	return map[string]func(value) *Error{
		"drafter":  name(&s.Drafter, speculative.Names(speculative.Drafters(), false)),
		"schedule": name(&s.Schedule, speculative.Names(speculative.Schedules(), false)),
		"verify":   name(&s.Verify, speculative.Names(speculative.Verifiers(), false)),
		"max":      count(&s.Max, 1, MaxDraft),
		"min": func(v value) *Error {
			n, err := v.whole(0, MaxDraft)
			if s.Min = int(n); n == 0 {
				s.Min = -1 // none, whatever the server's is
			}
			return err
		},
		"exit_layer": count(&s.ExitLayer, 1, math.MaxInt32),
		"p_min": func(v value) *Error {
			p, err := v.number(0, 1)
			if s.Confidence = float32(p); p == 0 {
				s.Confidence = -1 // never
			}
			return err
		},
		"draft_sampling": func(v value) *Error {
			way, err := v.oneOf(speculative.DraftSamplings()...)
			if err == nil {
				s.Sampling, _ = speculative.ParseDraftSampling(way)
			}
			return err
		},
		"previous": func(v value) (e *Error) {
			p, ok, e := readOne(v)
			if !ok {
				p, e = readParts(v)
			}
			if e != nil {
				return e
			}
			return r.setPrevious(v, p)
		},
		"trace": func(v value) (e *Error) { r.trace, e = v.boolean(); return },
	}
}

// readPrediction reads OpenAI's form of an earlier answer.
func readPrediction(r *request, v value) *Error {
	text, kind, given := "", "", false
	err := v.object(map[string]func(value) *Error{
		"type":    func(v value) (e *Error) { kind, e = v.oneOf("content"); return },
		"content": func(v value) (e *Error) { text, e = readContent(v, "text"); given = true; return },
	})
	if err != nil {
		return err
	}
	if kind == "" || !given {
		return v.bad("must have type and content")
	}
	return r.setPrevious(v, spec.Prompt{Text: text})
}

// setPrevious takes an earlier answer, of one field.
func (r *request) setPrevious(v value, p spec.Prompt) *Error {
	if r.predicts != "" {
		return v.bad("%s has an earlier answer too", r.predicts)
	}
	r.previous, r.predicts = p, v.path
	return nil
}

func readOllamaOptions(r *request, v value) *Error {
	if !v.isObject() {
		return v.bad("must be an object")
	}
	return r.tables.read(formOllamaOptions, r, v)
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
		var s spec.Snippet
		text := false
		if err := item.object(map[string]func(value) *Error{
			"filename": func(v value) (e *Error) { s.Name, e = v.text(); return },
			"text":     func(v value) (e *Error) { s.Text, e = v.text(); text = true; return },
		}); err != nil {
			return err
		}
		if !text {
			return badField(item.path+".text", "missing")
		}
		if s.Name == "" {
			s.Name = fmt.Sprintf("file%d", len(r.extra)+1)
		}
		r.extra = append(r.extra, s)
	}
	return nil
}

// readSide reads what stands on one side of a gap: a text, or token ids and texts in a row.
func readSide(v value) (text string, parts []spec.Prompt, err *Error) {
	if len(v.raw) == 0 || v.raw[0] != '[' {
		text, err = v.text()
		return text, nil, err
	}
	p, err := readParts(v)
	if p.Parts == nil {
		return "", []spec.Prompt{p}, err
	}
	return "", p.Parts, err
}

// maxExtra is the most snippets of a request.
const maxExtra = 1024

// readWhenFull reads what becomes of a prompt that is too long.
func readWhenFull(r *request, v value) *Error {
	s, err := v.oneOf("stop", string(spec.FullDrop))
	r.setWhenFull(s == string(spec.FullDrop))
	return err
}

// setWhenFull says whether a prompt that is too long is cut.
func (r *request) setWhenFull(cut bool) {
	if r.whenFull = spec.FullStop; cut {
		r.whenFull = spec.FullDrop
	}
}

// readKeep reads how many tokens of a prompt that is cut stay in front.
func readKeep(r *request, v value) *Error {
	n, err := v.whole(-1, anyNumber)
	r.keep = int(n)
	return err
}

// readThinkingBudget reads the most tokens of reasoning.
func readThinkingBudget(r *request, v value) *Error {
	n, err := v.whole(-1, anyNumber)
	if r.budget = max(0, int(n)); err == nil && n == 0 {
		r.setKwarg("enable_thinking", false)
	}
	return err
}
