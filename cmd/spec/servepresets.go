package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/hub"
	"github.com/specgo/spec/internal/ini"
	"github.com/specgo/spec/serve"
)

// A section of the file of settings that has a name is a model that spec serve offers by it, as in llama.cpp's presets:
// its files, its template, and what its requests are answered with where they do not say otherwise.

// preset is such a model.
type preset struct {
	servedFile
	names      []string // by which requests choose it
	tags       []string
	system     string          // message of conversations that have none
	parameters json.RawMessage // of requests, by the names of Ollama's options; nil: none
	startup    bool            // it is loaded before the first request for it
	at         string          // its section, for errors
}

// offering is a job that has models for requests to choose among.
type offering interface{ offer([]preset) }

// offer adds models to those of the command line.
func (s *servedModels) offer(list []preset) { s.presets = list }

// offer is empty: a batch's requests, and texts to embed, go to the models of the command line.
func (*batching) offer([]preset)  {}
func (*embedding) offer([]preset) {}

// presetOptions are flags by which a section says what its model's requests are answered with, with the option of
// Ollama's API that means the same.
var presetOptions = map[string]string{
	"--temp": "temperature", "--top-k": "top_k", "--top-p": "top_p", "--min-p": "min_p", "--typical": "typical_p",
	"--repeat-penalty": "repeat_penalty", "--repeat-last-n": "repeat_last_n", "--presence-penalty": "presence_penalty",
	"--frequency-penalty": "frequency_penalty", "--mirostat": "mirostat", "--mirostat-ent": "mirostat_tau",
	"--mirostat-lr": "mirostat_eta", "--seed": "seed", "--predict": "num_predict",
}

// option is the option that a flag sets for the requests of a model; "": none.
func (f *flag) option() string {
	for _, n := range f.names {
		if o := presetOptions[n]; o != "" {
			return o
		}
	}
	return ""
}

// presetRows are the flags that a section may set. The model's go to one.
func presetRows(one *servedModels, m *preset) (list []flag) {
	list = append(append(list, one.rows()...), one.draftRows()...)
	for _, f := range one.severalRows() {
		if slices.Contains(f.names, "--alias") || slices.Contains(f.names, "--tags") {
			list = append(list, f)
		}
	}
	list = append(append(list, templateRows(&m.templateName, &m.templateFile)...),
		textFlag("-sys, --system-prompt", &m.system, "TEXT", "the system message of conversations that have none"),
		switchFlag("--load-on-startup", &m.startup, true, "load it before the first request"))
	var checked struct { // values are read again, as options
		engine.Sampling
		seed    int64
		predict int
	}
	for _, f := range append(samplingRows(&checked.Sampling), seedRow(&checked.seed, ""),
		mostRow(&checked.predict, "")) {
		if f.option() != "" {
			list = append(list, f)
		}
	}
	return append(append(list, ignoredRows()...), ignoredByServers(false)...)
}

// presets are the models of a file's sections; nil: there is no file.
func presets(file *ini.File) (list []preset, err error) {
	if file == nil {
		return nil, nil
	}
	for _, s := range file.Sections[1:] {
		if s.Name == ini.Everything {
			continue
		}
		m, err := presetOf(file, &s)
		if err != nil {
			return nil, err
		}
		list = append(list, m)
	}
	return list, nil
}

func presetOf(file *ini.File, s *ini.Section) (m preset, err error) {
	var one servedModels
	flags, options := presetRows(&one, &m), map[string]json.RawMessage{}
	set := map[string]*ini.Entry{}
	for i := range s.Entries {
		e := &s.Entries[i]
		at := slices.IndexFunc(flags, func(f flag) bool { return f.hasKey(e.Key) })
		if at < 0 {
			var names []string
			for _, f := range flags {
				names = append(names, f.keys()...)
			}
			return m, file.Errorf(e.Line, "unknown key %s of a model%s; what is for all models stands before the sections, or "+
				"in [%s]", shown(e.Key), suggest(e.Key, names), ini.Everything)
		}
		f := &flags[at]
		if before := set[f.sets()]; before != nil {
			return m, file.Errorf(e.Line, "%s, and %s in line %d: the same flag twice", e.Key, before.Key, before.Line)
		}
		set[f.sets()] = e
		if err := f.setText(e.Value); err != nil {
			return m, file.Errorf(e.Line, "%s = %s: %v", e.Key, shown(e.Value), err)
		}
		if o := f.option(); o != "" && (o != "seed" || e.Value != "-1") { // which is no seed
			options[o] = jsonNumber(e.Value)
		}
	}
	m.names, m.at = []string{s.Name}, fmt.Sprintf("%s, section [%s]", file.Name, shown(s.Name))
	if len(one.aliases) > 0 {
		m.names = append(m.names, one.aliases[0]...)
	}
	if len(one.tags) > 0 {
		m.tags = one.tags[0]
	}
	switch _, err := hub.ParseReference(s.Name); {
	case len(one.models) > 0:
		m.target, m.draft = one.models[0].target, one.models[0].draft
	case err == nil && strings.Contains(s.Name, "/"):
		m.target, m.draft = hub.Scheme+s.Name, one.early
	default:
		return m, file.Errorf(s.Line, "section [%s]: no model: model = FILE, or hf-repo = OWNER/NAME[:QUANT]", shown(s.Name))
	}
	if m.templateName != "" && m.templateFile != "" {
		return m, file.Errorf(s.Line, "section [%s]: chat-template and chat-template-file: one of them", shown(s.Name))
	}
	if len(options) > 0 {
		m.parameters, err = json.Marshal(options)
	}
	return m, err
}

// jsonNumber is a number that a flag has read, in JSON.
func jsonNumber(v string) json.RawMessage {
	if n, err := strconv.ParseInt(v, 10, 64); err == nil {
		return strconv.AppendInt(nil, n, 10)
	}
	x, _ := strconv.ParseFloat(v, 64) // the flag's own check has read it
	return strconv.AppendFloat(nil, x, 'g', -1, 64)
}

// told is what an entry of the server tells of the model.
func (m *preset) told(e *serve.Entry) {
	e.Aliases, e.Tags, e.System, e.Parameters = m.names[1:], m.tags, m.system, m.parameters
}

// fromSections are the rows of a table of settings for the models of a file.
func fromSections(file *ini.File) (rows [][]string) {
	if file == nil {
		return nil
	}
	for _, s := range file.Sections[1:] {
		for _, e := range s.Entries {
			if s.Name != ini.Everything {
				rows = append(rows, []string{fmt.Sprintf("[%s] %s", shown(s.Name), e.Key), shown(e.Value),
					fmt.Sprintf("%s, line %d", file.Name, e.Line)})
			}
		}
	}
	return rows
}
