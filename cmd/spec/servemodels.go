package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/cmd/spec/internal/terminal"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/serve"
	"github.com/specgo/spec/testdata"
)

// load loads a model with its draft.
func (s *serving) load(ctx context.Context, p *program, rt *engine.Runtime, f servedFile) (m *serve.Model, err error) {
	drafts := s.speculation
	if f.draft != "" {
		drafts.drafts = []string{f.draft}
	}
	flags := modelFlags{
		model: f.target, weights: s.weights, memory: s.weightMemory, beside: []string{f.draft}, contextHint: s.context,
		logitRows: drafts.verifyRows(f.target),
	}
	flags.kvHint, _ = s.cache.kvType() // checked
	beside := s.memoryBeside(f, flags.logitRows)
	flags.reserved = beside.all()
	defer func() { err = s.memoryError(err) }()
	target, err := flags.open(ctx, p, rt, f.target, "target", testdata.Target())
	if err != nil {
		return nil, err
	}
	if err := decoderOnly(
		target, flags.name(), "passes that several requests share are for decoders so far; spec generate runs it",
	); err != nil {
		target.Close()
		return nil, err
	}
	if most := target.Config().Context; s.context > most {
		fmt.Fprintf(p.stderr, "-c %d: %s has a context of %d tokens, which is used\n", s.context,
			terminal.Line(flags.name(), 60), most)
	}
	m = &serve.Model{Target: target, Close: target.Close}
	if !s.targetOnly && (f.draft != "" || f.target == "") {
		draft, err := flags.openNamedDraft(ctx, p, rt, target, f.draft, s.choice.Needs())
		if err != nil {
			target.Close()
			return nil, err
		}
		m.Draft, m.Close = draft, func() { target.Close(); draft.Close() }
	} else if !s.targetOnly && target.HasMTP() {
		head, err := flags.openMTP(ctx, p, rt, target)
		if err != nil {
			target.Close()
			return nil, err
		}
		m.Draft, m.Close = head, func() { target.Close(); head.Close() }
	}
	if err := s.bound(f, m, beside.logits); err != nil {
		m.Close()
		return nil, err
	}
	m.Speculation = s.chosen(f.target)
	if s.template != "" || s.templateFile != "" {
		c := chatFlags{template: s.template, templateFile: s.templateFile}
		if m.Template, m.Stops, err = c.templateSource(target, flags.name()); err != nil {
			m.Close()
			return nil, err
		}
	}
	return m, nil
}

const modelSuffix, draftSuffix = ".gguf", ".draft.gguf"

// splitSuffix is the end of the name of a part of a split model.
var splitSuffix = regexp.MustCompile(`-(\d{5})-of-\d{5}$`)

// modelName is what a file's model is called: the file's name without its end, nor that of a part.
func modelName(file string) string {
	return splitSuffix.ReplaceAllString(strings.TrimSuffix(filepath.Base(file), modelSuffix), "")
}

// modelBytes is the size of a model's file, or of all its parts, and the time of the file.
func modelBytes(file string) (int64, time.Time, error) {
	info, err := os.Stat(file)
	if err != nil {
		return 0, time.Time{}, err
	}
	if !splitSuffix.MatchString(strings.TrimSuffix(file, modelSuffix)) {
		return info.Size(), info.ModTime(), nil
	}
	f, err := gguf.OpenFile(file)
	if err != nil {
		return info.Size(), info.ModTime(), nil // loading it says what is wrong
	}
	defer f.Close()
	return f.Size(), info.ModTime(), nil
}

// modelsOf are the models of a folder. Of a split model it is the first part.
func modelsOf(dir string) (list []servedFile, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	drafts := map[string]string{}
	for _, e := range entries {
		if base, ok := strings.CutSuffix(e.Name(), draftSuffix); ok {
			drafts[base] = filepath.Join(dir, e.Name())
		}
	}
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), modelSuffix)
		if !ok || strings.HasSuffix(e.Name(), draftSuffix) || e.IsDir() {
			continue
		}
		if part := splitSuffix.FindStringSubmatch(base); part != nil && part[1] != "00001" {
			continue // the first part opens them all
		}
		name := modelName(e.Name())
		list = append(list, servedFile{filepath.Join(dir, e.Name()), drafts[name]})
		delete(drafts, name)
	}
	for base := range drafts {
		return nil, fmt.Errorf("%s drafts for %s%s, which is not there", drafts[base], base, modelSuffix)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s: no GGUF files", dir)
	}
	return list, nil
}

func (s *serving) flags() []flag {
	add := func(file string) error {
		if file == "" {
			return errors.New("no name of a file")
		}
		s.models = append(s.models, servedFile{target: file, draft: s.early})
		s.early = ""
		return nil
	}
	draft := func(file string) error {
		n := len(s.models) - 1
		switch {
		case file == "":
			return errors.New("no name of a file")
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
	x := &s.sampling
	list := []flag{
		valueFlag(
			"-m, --model", "FILE",
			"a model, a GGUF file; may be repeated, the first is the default (default: the pair inside this program)",
			add,
		),
		hubFlag("-hf, -hfr, --hf-repo", func(path string) { add(path) }, "a model"),
		valueFlag(
			"-md, --model-draft, --spec-draft-model", "FILE", "the draft model of the -m before it, or of the first",
			draft,
		),
		hubFlag(
			"-hfd, -hfrd, --hf-repo-draft", func(path string) { draft(path) }, "the draft model of the -m before it",
		),
		fileFlag(
			"--models-dir", &s.dir, "DIR",
			"offer the GGUF files of a folder; NAME.draft.gguf drafts for NAME.gguf; loaded when asked for",
		),
		valueFlag("--models-memory", "SIZE",
			"bytes that models may take, as in 16G: idle ones are unloaded for others (default: no bound)",
			func(v string) (err error) {
				s.memory, err = byteSize(v)
				return err
			}),
		valueFlag("-a, --alias", "NAME",
			"the name of a model in requests; may be repeated, in the order of -m (default: the file's name)",
			func(v string) error {
				if v == "" {
					return errors.New("an empty name")
				}
				s.aliases = append(s.aliases, v)
				return nil
			}),
		intFlag("-t, --threads", &s.threads, -1, 1024, "threads (default 0: the physical cores this process may use)"),
		valueFlag("--memory", "SIZE",
			"memory for one model with its draft and the keys and values of -np requests at once, as in 8GiB; "+
				"weights that do not fit are read from disk in every pass (default: 7/8 of the machine's)",
			func(v string) (err error) {
				s.weightMemory, err = memorySize(v)
				return err
			}),
		choiceFlag(
			"--weights", &s.weights, engine.WeightNames(),
			"convert the weights while loading (default: as in the file)",
		),
		intFlag(
			"-c, --ctx-size", &s.context, 0, math.MaxInt32,
			"most tokens of a prompt with its answer, for each request (default 0: the model's)",
		),
	}
	list = append(append(list, s.cache.flags()...), stateFlag(&s.states))
	list = append(list,
		textFlag("--host", &s.host, "ADDRESS", "address to listen on (default 127.0.0.1; others need an API key)"),
		intFlag("--port", &s.port, 0, 65535, "port to listen on (default 8080; 0: a free one)"),
		valueFlag("--api-key", "KEY[,KEY...]", "keys, one of which every request must have", func(v string) error {
			for k := range strings.SplitSeq(v, ",") {
				if k == "" {
					return errors.New("an empty key")
				}
				s.keys = append(s.keys, serve.Key{Secret: k})
			}
			return nil
		}),
		fileFlag("--api-key-file", &s.keyFile, "FILE",
			"keys from a file, one a line; KEY weight=N has N shares of places and queue where others have one"),
		valueFlag("--trusted-proxy", "CIDR[,CIDR...]",
			"networks of proxies whose X-Forwarded-For or Forwarded says where requests come from",
			func(v string) error {
				for text := range strings.SplitSeq(v, ",") {
					network, err := netip.ParsePrefix(text)
					if err != nil {
						return errors.New("not a network, as in 10.0.0.0/8")
					}
					s.proxies = append(s.proxies, network.Masked())
				}
				return nil
			}),
		switchFlag(
			"--share-prefixes", &s.sharePrefixes, true,
			"requests with different keys share what is computed for prompts that begin alike",
		),
		fileFlag("--ssl-cert-file", &s.cert, "FILE", "certificate for TLS"),
		fileFlag("--ssl-key-file", &s.key, "FILE", "its private key"),
		listFlag(
			"--allowed-host", &s.hosts, "NAME",
			"a name by which browsers may address the server, beside localhost and addresses in numbers; may be "+
				"repeated; * allows all",
		),
		listFlag(
			"--cors", &s.origins, "ORIGIN",
			"an origin whose pages may use the server, as in https://chat.example.org; may be repeated; * allows all",
		),
		switchFlag("--no-webui, --no-ui", &s.page, false, "no page at /"),
		intFlag("-np, --parallel", &s.parallel, 1, 1024, "answers computed at once (default 4)"),
		intFlag("--queue", &s.queue, 0, 1<<20, "answers that may wait; more get 429 (default 256)"),
		valueFlag("--kv-memory", "SIZE",
			"most bytes of keys and values, of a target and of a draft each, as in 4G (default: no bound)",
			func(v string) (err error) {
				s.kvBytes, err = byteSize(v)
				return err
			}),
		valueFlag("-cram, --cache-ram", "SIZE",
			"most memory of finished requests' keys and values that are kept for prompts that begin alike, for each "+
				"model with its draft: MiB, or bytes as in 2G; -1: no bound, 0: none (default: what --memory leaves, at "+
				"most 8G and an eighth of the machine's)",
			func(v string) (err error) {
				s.kept, err = cacheSize(v)
				return err
			}),
		valueFlag("--grammar-memory", "SIZE",
			"most bytes that the compiled grammars and schemas of a model keep (default 48M)", func(v string) error {
				n, err := byteSize(v)
				s.grammars.Memory = int(min(n, math.MaxInt))
				return err
			}),
		floatFlag(
			"--prompt-delay", &s.promptDelay, 0.1, 1000,
			"how much longer than usual a pass may take for parts of long prompts while others generate, in passes "+
				"(default 2)",
		),
		intFlag(
			"-n, --predict, --n-predict", &s.predict, -1, math.MaxInt32,
			"most tokens of an answer (default -1: the context)",
		),
		valueFlag("--max-body", "SIZE", "most bytes of a request (default 16M)", func(v string) (err error) {
			s.limits.BodyBytes, err = byteSize(v)
			return err
		}),
		intFlag(
			"-to, --timeout", &s.timeout, 1, 1<<20,
			"seconds for a client to send its request, or to take a piece of an answer (default 30)",
		),
		intFlag("--request-timeout", &s.requestTimeout, 0, 1<<20, "most seconds of a request (default 0: no bound)"),
		intFlag(
			"--shutdown-timeout", &s.shutdown, 0, 1<<20,
			"seconds in which requests may finish after SIGTERM or Ctrl-C (default 30)",
		),
		intFlag("--max-connections", &s.limits.Connections, 1, 1<<20, "connections at once (default 1024)"),
		intFlag(
			"--max-unkeyed", &s.limits.Unkeyed, 1, 1<<20,
			"connections of one address that have not shown a key yet (default 256)",
		),
		choiceFlag(
			"--log-format", &s.logFormat, []string{"text", "json", "off"},
			"one line on standard error for each request, without texts (default text)",
		),
		switchFlag("--log-prompts", &s.logPrompts, true, "log prompts and answers too"),
		choiceFlag(
			"--pooling", &s.pooling, []string{serve.PoolMean, serve.PoolLast},
			"how hidden states become an embedding (default mean)",
		),
		textFlag(
			"--chat-template", &s.template, "NAME|FILE",
			"chat template of all models: a built-in one ("+strings.Join(
				chat.BuiltinNames(), ", ",
			)+") or a file (default: the template in the model's file)",
		),
		fileFlag("--chat-template-file", &s.templateFile, "FILE", "chat template from a file"),

		floatFlag(
			"--temp, --temperature", &x.Temperature, 0, 1e6, "temperature of requests that give none (default 0.8)",
		),
		intFlag("--top-k", &x.TopK, 0, math.MaxInt32, "the same of top_k (default 40; 0 is off)"),
		floatFlag("--top-p", &x.TopP, 0, 1, "of top_p (default 0.95; 1 is off)"),
		floatFlag("--min-p", &x.MinP, 0, 1, "of min_p (default 0.05; 0 is off)"),
		floatFlag("--repeat-penalty", &x.RepeatPenalty, 1e-6, 1e6, "of repeat_penalty (default 1: off)"),
		floatFlag("--frequency-penalty", &x.FrequencyPenalty, -1e6, 1e6, "of frequency_penalty (default 0)"),
		floatFlag("--presence-penalty", &x.PresencePenalty, -1e6, 1e6, "of presence_penalty (default 0)"),
		intFlag("--repeat-last-n", &x.PenaltyLastN, -1, math.MaxInt32, "of repeat_last_n (default 64)"),
		valueFlag("-s, --seed", "N", "seed of requests that give none (default -1: another each time)",
			func(v string) (err error) {
				s.seed, err = strconv.ParseInt(v, 10, 64)
				if err != nil || s.seed < -1 {
					return fmt.Errorf("not between -1 and %d", int64(math.MaxInt64))
				}
				return nil
			}),
	)
	list = append(list, choiceFlags(&s.choice)...)
	nothing := func(string) error { return nil }
	for _, n := range []string{"--metrics", "--slots", "--props", "--jinja", "--embedding, --embeddings",
		"-cb, --cont-batching", "-nocb, --no-cont-batching", "--no-slots",
		"--no-context-shift", "-kvu, --kv-unified", "--swa-full", "--cache-prompt", "--no-mmproj"} {
		list = append(list, flag{names: names(n), help: "without effect", ignored: true, set: nothing})
	}
	list = append(
		list, flag{names: names("--threads-http"), arg: "N", help: "without effect", ignored: true, set: nothing},
	)
	return append(list, slices.DeleteFunc(ignoredFlags(), func(f flag) bool {
		return f.names[0] == "-no-cnv" || f.names[0] == "--simple-io"
	})...)
}

// listFlag collects texts.
func listFlag(n string, p *[]string, arg, help string) flag {
	return valueFlag(n, arg, help, func(v string) error {
		if v == "" {
			return errors.New("an empty text")
		}
		*p = append(*p, v)
		return nil
	})
}

// byteSize reads a number of bytes, in units of 1,024: 16G, 512M, 64K.
func byteSize(v string) (int64, error) {
	text, unit := strings.ToUpper(strings.TrimSuffix(strings.ToUpper(v), "B")), int64(1)
	for i, u := range []string{"K", "M", "G", "T"} {
		if base, ok := strings.CutSuffix(text, u); ok {
			text, unit = base, 1<<(10*(i+1))
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 1 || n > math.MaxInt64/unit {
		return 0, errors.New("not a number of bytes, as in 512M")
	}
	return n * unit, nil
}
