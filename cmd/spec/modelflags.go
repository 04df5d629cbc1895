package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/tensor"
)

// Fields that several flags set; see flag.field.
const (
	fieldModel    = "model"
	fieldDraft    = "draft"
	fieldPrompt   = "prompt"
	fieldKV       = "kv"
	fieldTemplate = "template"
	fieldGrammar  = "grammar"
	fieldSamplers = "samplers"
	fieldSystem   = "system"
	fieldRope     = "rope scale"
)

// rows are the flags of a model that is loaded as a whole.
func (m *modelFlags) rows() []flag {
	return append([]flag{m.modelRow(), m.hubRow(), threadsRow(&m.threads), numaRow(&m.numa),
		weightsRow(&m.weights), m.memoryRow(), panelsRow(&m.panels)}, m.changes.rows()...)
}

func (m *modelFlags) modelRow() flag { return modelRow(&m.model, "the pair inside this program") }

// modelRow is -m of commands with one model.
func modelRow(p *string, standard string) flag {
	return fileFlag("-m, --model", p, "FILE", "the model, a GGUF file").or(standard).
		env("LLAMA_ARG_MODEL").of(fieldModel).orWord()
}

func (m *modelFlags) hubRow() flag {
	return hubFlag("-hf, -hfr, --hf-repo", func(path string) error { m.model = path; return nil }, "the model").
		env("LLAMA_ARG_HF_REPO").of(fieldModel).orWord()
}

func threadsRow(p *int) flag {
	return intFlag("-t, --threads", p, -1, 1024, "threads").or("0: the physical cores this process may use").
		env("LLAMA_ARG_THREADS")
}

// numaRow is --numa, in llama.cpp's words.
func numaRow(p *string) flag {
	return choiceFlag("--numa", p, tensor.Placements(), "bind threads to memory nodes, and weights to the node whose "+
		"threads read them: all nodes that this process may use (distribute, numactl), or the one it runs on (isolate); "+
		"Linux only").or("no binding").env("LLAMA_ARG_NUMA")
}

func weightsRow(p *string) flag {
	return choiceFlag("--weights", p, engine.WeightNames(), "convert the weights while loading").or("as in the file")
}

func (m *modelFlags) memoryRow() flag {
	return memoryRow(&m.memory, "memory for weights, activations and keys and values, as in 2GiB; weights that do not "+
		"fit are read from disk in every pass").or("7/8 of the machine's")
}

// memoryRow is --memory.
func memoryRow(p *int64, help string) flag {
	return valueFlag("--memory", "SIZE", help, func(v string) (err error) {
		*p, err = byteSize(v)
		return err
	})
}

// panelsRow is --panels.
func panelsRow(p *string) flag {
	return fileFlag("--panels", p, "DIR",
		"folder for a copy of the weights as the kernels read them, of any size: written once, and loaded from then on").
		or(fmt.Sprintf("the cache directory, which gets copies of weights that do not fit into the memory, more than %s "+
			"only when asked", size(unasked)))
}

// draftRows are the flags of a draft model, which add takes, as help says.
func draftRows(help, hubHelp string, add func(string)) []flag {
	return draftPair(help, hubHelp, func(path string) error { add(path); return nil })
}

// draftPair is draftRows of an add that may fail.
func draftPair(help, hubHelp string, add func(string) error) []flag {
	return []flag{draftRow(help, add), hubFlag("-hfd, -hfrd, --hf-repo-draft, --spec-draft-hf", add, hubHelp).
		env("LLAMA_ARG_SPEC_DRAFT_HF_REPO", "LLAMA_ARG_HFD_REPO").of(fieldDraft)}
}

func draftRow(help string, add func(string) error) flag {
	return valueFlag("-md, --model-draft, --spec-draft-model", "FILE", help, func(v string) error {
		if v == "" {
			return errors.New("no name of a file")
		}
		return add(v)
	}).env("LLAMA_ARG_SPEC_DRAFT_MODEL", "LLAMA_ARG_MODEL_DRAFT").of(fieldDraft)
}

// rows are the flags of the models of a server.
func (s *servedModels) rows() []flag {
	add := func(file string) error {
		if file == "" {
			return errors.New("no name of a file")
		}
		s.models = append(s.models, servedFile{target: file, draft: s.early})
		s.early = ""
		return nil
	}
	hub := hubFlag("-hf, -hfr, --hf-repo", add, "a model").env("LLAMA_ARG_HF_REPO").of(fieldModel)
	return []flag{
		valueFlag("-m, --model", "FILE", "a model, a GGUF file; may be repeated, the first is the default", add).
			or("the pair inside this program").env("LLAMA_ARG_MODEL").of(fieldModel), hub,
	}
}

// draftRows are the flags of their draft models.
func (s *servedModels) draftRows() []flag {
	draft := func(file string) error {
		n := len(s.models) - 1
		switch {
		case n < 0 && s.early == "":
			s.early = file
			return nil
		case n < 0:
			return errors.New("a second draft model, and no model yet that it drafts for: -m FILE -md FILE")
		case s.models[n].draft != "":
			return errors.New("a second draft model for one model")
		}
		s.models[n].draft = file
		return nil
	}
	return draftPair("the draft model of the -m before it, or of the first", "the draft model of the -m before it", draft)
}

// severalRows are the flags of serving more than one model.
func (s *servedModels) severalRows() []flag {
	return []flag{
		fileFlag("--models-dir", &s.dir, "DIR",
			"offer the GGUF files of a folder; NAME.draft.gguf drafts for NAME.gguf; loaded when asked for").
			env("LLAMA_ARG_MODELS_DIR"),
		bytesFlag("--models-memory", &s.memory,
			"bytes that models may take, as in 16G: idle ones are unloaded for others").or("no bound"),
		valueFlag("-a, --alias", "NAME[,NAME...]",
			"the name of a model in requests, and other names of it; may be repeated, in the order of -m",
			func(v string) error {
				names := strings.Split(v, ",")
				if slices.Contains(names, "") {
					return errors.New("an empty name")
				}
				s.aliases = append(s.aliases, names)
				return nil
			}).or("the file's name").env("LLAMA_ARG_ALIAS"),
		valueFlag("--tags", "TAG[,TAG...]", "what /v1/models says of a model; may be repeated, in the order of -m",
			func(v string) error {
				s.tags = append(s.tags, strings.Split(v, ","))
				return nil
			}).env("LLAMA_ARG_TAGS"),
	}
}

// bytesFlag is a number of bytes.
func bytesFlag(n string, p *int64, help string) flag {
	return valueFlag(n, "SIZE", help, func(v string) (err error) {
		*p, err = byteSize(v)
		return err
	})
}
