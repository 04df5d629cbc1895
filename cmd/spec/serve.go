package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/grammar"
	"github.com/specgo/spec/internal/modeldir"
	"github.com/specgo/spec/internal/systemd"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/serve"
)

var serveCommand = command{
	name:  "serve",
	does:  "answer the APIs of OpenAI, Anthropic and Ollama, for many clients at once",
	usage: "[-m FILE [-md FILE]]... [--models-dir DIR] [flags]",
	about: `Answers HTTP requests at 127.0.0.1:8080 until it is told to stop (Ctrl-C, SIGTERM): the OpenAI API (/v1/chat/completions, /v1/completions, /v1/responses, /v1/embeddings, /v1/models), Anthropic's (/v1/messages), Ollama's (/api/chat, /api/generate and others), llama.cpp's (/completion, /infill, /tokenize, /props, /slots, /metrics, /health and others), /v1/rerank, and a page for people at /. docs/SERVER.md describes them, field by field.

Several models: -m may be repeated, each with a draft model of its own by a -md behind it; --models-dir offers every GGUF file of a folder, and NAME.draft.gguf drafts for NAME.gguf. Models of a folder are loaded when a request asks for them.

Only this machine can reach the server, unless --host says otherwise, and then an API key is needed.`,
	new: func() job { return newServing() },
}

// serving is the command's options.
type serving struct {
	servedModels
	capacity
	network
	answers
	logFormat  string
	level      *slog.LevelVar
	logPrompts bool
	verbose    bool
	targetOnly bool // no drafts: spec embed

	opened, listening func(net.Addr) // tests learn the address by them: before models are loaded, and behind that
}

// servedModels are the files to serve.
type servedModels struct {
	models   []servedFile
	presets  []preset     // of the file of settings
	early    string       // a draft model in front of the first model
	lora     adapterFlags // of the only model
	dir      string
	folder   *modeldir.Dir // of dir
	contexts *contexts     // of files
	memory   int64         // --models-memory, of all that are loaded
	aliases  [][]string    // of each model: its name, and others
	tags     [][]string
}

// capacity is how each model is loaded, how much it may take, and how much is computed at once.
type capacity struct {
	threads         int
	numa            string
	weights         string
	weightMemory    int64  // --memory, of one model
	panels          string // --panels
	changes         fileChanges
	cache           kvFlags
	context         int
	kvBytes, states int64
	kept            int64         // --cache-ram: bytes; 0: a share of the memory, negative: nothing
	together        *library.Kept // of all models; nil: nothing is kept
	grammars        grammar.Limits
	parallel, queue int
	promptDelay     float32
	encoderTokens   int
	known           load
	sizedBy         string // the command's flags that say how many sequences there are and how long they get
	prompts         promptFolder
	slotFiles       serve.SlotFiles // of --slot-save-path
}

// load is how many sequences there are at once and how long they get, where that is known before: 0, it is not.
type load struct{ sequences, tokens int }

// network is who may connect to the server, and what a connection may take.
type network struct {
	host           string // "": as settle says
	port           int    // -1: likewise
	ollama         ollama
	keys           []serve.Key
	keyFile        string
	cert, key      string                           // files of TLS
	certificate    *atomic.Pointer[tls.Certificate] // that they had when they were read last
	hosts, origins []string
	metrics        string // an address for them alone
	metricsNames   string
	page, noSlots  bool
	limits         serve.Limits
	proxies        []netip.Prefix
	sharePrefixes  bool
	allowManage    bool
	timeout        int // seconds
	ping           int // seconds; -1: none
	shutdown       int
}

// answers is how requests are answered that do not say so themselves.
type answers struct {
	sampling engine.Sampling
	seed     int64
	speculation
	template, templateFile string
	toolFallback           bool
	noTemplates            bool   // --no-jinja: chatml where a file has no template
	reasoning              string // on, off, auto
	variables              map[string]any
	pooling                string
	predict                int // most tokens
	requestTimeout         int // seconds
	whenFull               string
	anyOrder               bool // of keys
	form                   grammarFlags
	ignoreEOS              bool
	norm                   int // of embeddings, by llama.cpp's numbers
}

// servedFile is a model of the command line with its draft.
type servedFile struct {
	target, draft string
	template      string // its source, where the program has it

	templateName, templateFile string // as --chat-template and --chat-template-file say it
}

func newServing() *serving {
	limits := serve.DefaultLimits()
	return &serving{
		capacity: capacity{parallel: serve.DefaultParallel, queue: serve.DefaultQueue, encoderTokens: encoderTokens,
			sizedBy: "-np, -c and --kv-memory"},
		network: network{
			port: -1, page: true,
			limits: limits, timeout: int(limits.WriteTime / time.Second), shutdown: 30, ping: 30,
			certificate: new(atomic.Pointer[tls.Certificate]),
		},
		answers: answers{predict: -1, seed: -1, sampling: library.UsualSampling(), norm: usualNorm,
			reasoning: reasoningAuto, whenFull: fullStop},
		logFormat: "text", level: new(slog.LevelVar),
	}
}

// check refuses what cannot mean anything.
func (s *serving) check() error {
	if _, err := s.cache.kvType(); err != nil {
		return err
	}
	if err := cmp.Or(s.settle(), s.form.checkGrammar()); err != nil {
		return err
	}
	loopback := s.host == "localhost"
	if ip := net.ParseIP(s.host); ip != nil {
		loopback = ip.IsLoopback()
	}
	switch {
	case !loopback && !s.keyed():
		return usagef("--host %s can be reached by others: give --api-key or --api-key-file", s.host)
	case s.early != "":
		return usagef("-md %s: there is no model that it drafts for: -m FILE -md FILE", s.early)
	case len(s.lora.adapters) > 0 && (len(s.models) > 1 || len(s.presets) > 0 || s.dir != ""):
		return usagef("--lora: adapters are for one model, and there are several")
	case (s.cert == "") != (s.key == ""):
		return usagef("--ssl-cert-file and --ssl-key-file belong together")
	case s.template != "" && s.templateFile != "":
		return usagef("--chat-template and --chat-template-file exclude each other")
	case s.slotFiles.Dir != "" && s.kept < 0:
		return usagef("--slot-save-path: what is restored from there is kept in memory, and --cache-ram says that nothing is")
	case s.prompts.dir != "" && s.kept < 0:
		return usagef("--cache-dir: what is read from there is kept in memory, and --cache-ram says that nothing is")
	case s.slotFiles.Dir == "" && s.slotFiles.Bytes > 0:
		return usagef("--slot-save-size goes with --slot-save-path DIR")
	case s.prompts.dir == "" && s.prompts.size > 0:
		return usagef("--cache-size goes with --cache-dir DIR")
	case s.lora.unused && len(s.lora.adapters) == 0:
		return usagef("--lora-init-without-apply goes with --lora FILE")
	case len(s.tags) > max(len(s.models), 1):
		return usagef("--tags: there are more of them than models")
	case len(s.aliases) > len(s.models) && !(len(s.aliases) == 1 && s.embedded()):
		return usagef("--alias %s: there are more names than models", s.aliases[len(s.aliases)-1][0])
	case s.choice.Max > serve.MaxDraft:
		return usagef("--draft-max %d: a server drafts at most %d", s.choice.Max, serve.MaxDraft)
	}
	if err := s.choice.Check(0); err != nil { // requests have their own temperatures
		return usagef("%v", flagError(err))
	}
	return s.vocab.check()
}

// embedded reports whether the pair inside the program is served.
func (s *servedModels) embedded() bool {
	return len(s.models) == 0 && len(s.presets) == 0 && s.dir == ""
}

// lorasOf are the adapters of a model: those of the only one that flags name.
func (s *servedModels) lorasOf(f servedFile) adapterFlags {
	if s.embedded() && f.target == "" || len(s.models) == 1 && f.target == s.models[0].target {
		return s.lora
	}
	return adapterFlags{}
}

// resolve finds the files of models that -hf and -hfd name.
func (s *servedModels) resolve(ctx context.Context, p *program) (err error) {
	for i := range s.models {
		if err := s.models[i].resolve(ctx, p); err != nil {
			return err
		}
	}
	for i := range s.presets {
		if err := s.presets[i].resolve(ctx, p); err != nil {
			return fmt.Errorf("%s: %w", s.presets[i].at, err)
		}
	}
	return nil
}

func (f *servedFile) resolve(ctx context.Context, p *program) (err error) {
	for _, path := range []*string{&f.target, &f.draft} {
		if *path, err = localPath(ctx, p, *path); err != nil {
			return err
		}
	}
	return nil
}

// options are the server's.
func (s *serving) options(p *program, entries []serve.Entry) (serve.Options, error) {
	keys, err := s.allKeys()
	if err != nil {
		return serve.Options{}, err
	}
	limits := s.limits
	limits.BodyTime, limits.WriteTime = seconds(s.timeout), seconds(s.timeout)
	sampling := s.sampling
	if s.seed >= 0 {
		sampling.Seed = uint64(s.seed)
	}
	sampling.SetLastN(sampling.PenaltyLastN)
	queue := s.queue
	if queue == 0 {
		queue = -1 // the option takes 0 for its default
	}
	constraint, err := s.form.constraint()
	if err != nil {
		return serve.Options{}, err
	}
	norm, err := library.ParseNorm(s.norm)
	if err != nil {
		return serve.Options{}, err
	}
	o := serve.Options{
		Constraint: constraint, IgnoreEOS: s.ignoreEOS, Norm: norm,
		Models: entries, Memory: s.memory, Sampling: sampling, Seeded: s.seed >= 0, Parallel: s.parallel,
		Queue:     queue,
		MaxTokens: max(s.predict, 0), Limits: limits, RequestTime: seconds(s.requestTimeout), Keys: keys,
		TrustedProxies: s.proxies, SharePrefixes: s.sharePrefixes, Hosts: s.hosts, Origins: s.origins,
		Pooling:    s.pooling,
		LogPrompts: s.logPrompts, Version: buildVersion(), Page: s.page, NoSlots: s.noSlots, Verbose: s.verbose,
		SlotFiles: s.slotFiles, Ollama: s.ollama.on,
		Reasoning: s.reasoning, Variables: s.variables, AnyOrder: s.anyOrder, Ping: seconds(max(0, s.ping)),
		Build: []string{"commit", buildCommit()}, MetricsNames: s.metricsNames, Proc: ownProc(),
	}
	if s.whenFull == fullDrop {
		o.WhenFull = library.FullDrop
	}
	if o.Log = s.log(p.stderr); s.logFormat == "json" {
		s.logTo(p)
		o.Log = p.stderr.(*lineLog).log
	}
	return o, nil
}

// allKeys are the keys of the flags and of the file.
func (s *network) allKeys() ([]serve.Key, error) {
	if s.keyFile == "" {
		return s.keys, nil
	}
	more, err := readKeys(s.keyFile)
	return slices.Concat(s.keys, more), err
}

// buildVersion is the module's version.
func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		return info.Main.Version[1:]
	}
	return ""
}

// buildCommit is the commit that the program was built from, as far as the go command knew it.
func buildCommit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return ""
}

// ownProc is the process' folder in /proc; nil where there is none.
func ownProc() fs.FS {
	const dir = "/proc/self"
	if _, err := os.Stat(dir + "/stat"); err != nil {
		return nil
	}
	return os.DirFS(dir)
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// readKeys reads API keys, one a line: KEY, and behind it weight=N with a whole number from 1 to serve.MaxWeight, the
// key's share relative to others', and admin for who may change which models there are. Empty lines and those
// that begin with # do not count.
func readKeys(file string) (keys []serve.Key, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	n := 0
	for line := range strings.Lines(string(withoutMark(data))) {
		n++
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		k := serve.Key{Secret: words[0]}
		for _, word := range words[1:] {
			weight, ok := strings.CutPrefix(word, "weight=")
			if word == "admin" && !k.Admin {
				k.Admin = true
				continue
			}
			if ok = ok && k.Weight == 0; ok {
				k.Weight, err = strconv.Atoi(weight)
			}
			if !ok || err != nil || k.Weight < 1 || k.Weight > serve.MaxWeight {
				return nil, fmt.Errorf(
					"%s:%d: want KEY, and behind it weight=N with N from 1 to %d, admin, or both", file, n, serve.MaxWeight)
			}
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s: no keys", file)
	}
	return keys, nil
}

// loading is how models are loaded, without their names.
func (s *serving) loading() modelFlags {
	return modelFlags{threads: s.threads, numa: s.numa, weights: s.weights, changes: s.changes}
}

// run answers requests until it is told to stop. It listens before models are loaded, so that an address in use is
// found at once and balancers can ask; requests for a model wait until it is there.
func (s *serving) run(ctx context.Context, p *program) error {
	defer p.survive()()
	hung, end := p.hangups() // one that comes while models are loaded is heeded behind that
	defer end()
	s.logTo(p)
	models := s.loading()
	rt, err := models.runtime(p)
	if err != nil {
		return err
	}
	if n := (library.Room{Machine: machineMemory(), Kept: s.kept}).MostKept(); n > 0 {
		s.together = library.NewKept(n)
	}
	free := []func(){func() { rt.Close() }}
	defer func() { s.free(p, free) }()
	s.folder, s.contexts = modeldir.New(s.dir), new(contexts)
	entries, err := s.entries(p, rt)
	if err != nil {
		return err
	}
	o, err := s.options(p, entries)
	if err != nil {
		return err
	}
	o.Build = append(o.Build, "kernels", rt.SIMD())
	if o.AllowManage = s.allowManage; s.dir != "" {
		o.Store = &store{s, p, rt}
	}
	if o.SlotFiles.Dir != "" {
		if err := os.MkdirAll(o.SlotFiles.Dir, 0o700); err != nil {
			return fmt.Errorf("--slot-save-path: %w", err)
		}
	}
	server, err := serve.New(o)
	if err != nil {
		return err
	}
	free = append(free, server.Close)
	scheme, secure, err := s.tls()
	if err != nil {
		return err
	}
	listeners, err := s.listeners(p)
	if err != nil {
		return err
	}
	failed := make(chan error, len(listeners.answers)+len(listeners.metrics))
	for _, l := range listeners.answers {
		go func() { failed <- server.Serve(l, secure) }()
	}
	for _, l := range listeners.metrics {
		go func() { failed <- server.ServeMetrics(l) }()
		p.say(slog.LevelInfo, "spec serve: metrics on http://%s/metrics", l.Addr())
	}
	at := listeners.answers[0].Addr()
	if s.opened != nil {
		s.opened(at)
	}
	err = s.loadAll(ctx, server, entries)
	if err == nil && ctx.Err() == nil {
		p.say(slog.LevelInfo, "spec serve: listening on %s://%s", scheme, at)
		s.tell(p, "READY=1")
		if s.listening != nil {
			s.listening(at)
		}
		err = s.until(ctx, p, failed, hung, func() error {
			return s.reload(ctx, p, server, func(next *serving) ([]serve.Entry, error) { return next.entries(p, rt) })
		})
	}
	if err != nil && ctx.Err() == nil { // otherwise it is told to stop, which is no failure while models are loaded
		return err
	}
	p.say(slog.LevelInfo, "spec serve: shutting down")
	s.tell(p, "STOPPING=1")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), seconds(s.shutdown))
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		p.say(slog.LevelWarn, "spec serve: requests cut off after %d seconds", s.shutdown)
	}
	return nil
}

// until waits for the end of a server: an error of a listener, or nil where it is told to stop. At each hangup it reads
// its settings again.
func (s *serving) until(
	ctx context.Context, p *program, failed <-chan error, hung <-chan os.Signal, reload func() error,
) error {
	for {
		select {
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		case <-hung:
			s.tell(p, systemd.Reloading()...)
			if err := reload(); err != nil {
				p.say(slog.LevelError, "spec serve: not reloaded: %s", message(err))
			} else {
				p.say(slog.LevelInfo, "spec serve: reloaded")
			}
			s.tell(p, "READY=1")
		}
	}
}

// tell tells the supervisor that has started the server, if it listens.
func (s *serving) tell(p *program, lines ...string) {
	if err := systemd.Notify(p.env("NOTIFY_SOCKET"), lines...); err != nil {
		p.say(slog.LevelWarn, "spec serve: NOTIFY_SOCKET: %s", message(err))
	}
}

// loadAll loads the models of the command line; those of a folder wait for a request.
func (s *serving) loadAll(ctx context.Context, server *serve.Server, entries []serve.Entry) error {
	names := []string{}
	for i := range s.models {
		names = append(names, entries[i].Name)
	}
	for _, m := range s.presets {
		if m.startup {
			names = append(names, m.names[0])
		}
	}
	if s.embedded() {
		names = append(names, "")
	}
	for _, name := range names {
		if err := server.Load(ctx, name); err != nil {
			return s.loadError(err)
		}
	}
	return nil
}

// freeTimeout is how long what was under way may take to end after the server has stopped. It is over when its pass
// is; what takes longer is left to the end of the process.
const freeTimeout = 5 * time.Second

// free calls functions, the last one first.
func (s *serving) free(p *program, list []func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		for _, f := range slices.Backward(list) {
			f()
		}
	}()
	select {
	case <-done:
	case <-time.After(freeTimeout):
		p.say(slog.LevelWarn, "spec serve: work under way has not ended within %v", freeTimeout)
	}
}

// loadError is the error of a model that the command line names: what the log has said, as the command's own message.
func (s *serving) loadError(err error) error {
	var e *serve.Error
	if errors.As(err, &e) && e.Cause != nil {
		return e.Cause
	}
	return err
}

// entry is a model to serve under a name.
func (s *serving) entry(p *program, rt *engine.Runtime, name string, f servedFile) serve.Entry {
	var tokens func() int
	if f.target != "" {
		tokens = func() int { return s.contextOf(f.target) }
	}
	return serve.Entry{
		Name: name, Path: f.target, Setup: fmt.Sprintf("%q", f), Context: tokens,
		Load: func(ctx context.Context) (*library.Model, error) {
			m, err := s.load(ctx, p, rt, f)
			if err != nil {
				return nil, err
			}
			m.Name = name
			model, err := library.New(m.Parts, m.Options)
			if err != nil {
				m.Close()
			}
			return model, err
		},
	}
}

// entryOfFiles is a model to serve whose files must be there.
func (s *serving) entryOfFiles(p *program, rt *engine.Runtime, name string, f servedFile) (serve.Entry, error) {
	e := s.entry(p, rt, name, f)
	for i, file := range []string{f.target, f.draft} {
		if file == "" {
			continue
		}
		if err := modelFile(file, []string{byFlag, asDraft}[i]); err != nil {
			return e, err
		}
		bytes, modified, err := modeldir.Size(file)
		if err != nil {
			return e, err
		}
		if e.Bytes += bytes; e.Modified.IsZero() {
			e.Modified = modified
		}
	}
	adapters := s.lorasOf(f)
	e.Bytes += adapters.bytes()
	return e, nil
}

// entries are the models to serve. The first is the default.
func (s *serving) entries(p *program, rt *engine.Runtime) (list []serve.Entry, err error) {
	names := map[string]bool{}
	add := func(name string, f servedFile) error {
		if names[name] {
			return fmt.Errorf("two models are called %s; --alias names them", terminal.Line(name, 0))
		}
		names[name] = true
		e, err := s.entryOfFiles(p, rt, name, f)
		list = append(list, e)
		return err
	}
	for i, f := range s.models {
		name := modeldir.Name(f.target)
		if i < len(s.aliases) {
			name = s.aliases[i][0]
		}
		if err := add(name, f); err != nil {
			return nil, err
		}
		list[i] = s.named(list[i], i)
	}
	for _, m := range s.presets {
		if err := add(m.names[0], m.servedFile); err != nil {
			return nil, fmt.Errorf("%s: %w", m.at, err)
		}
		m.told(&list[len(list)-1])
	}
	if s.embedded() {
		name := "embedded"
		if len(s.aliases) > 0 {
			name = s.aliases[0][0]
		}
		return append(list, s.named(s.entry(p, rt, name, servedFile{}), 0)), nil
	}
	if s.dir == "" {
		return list, nil
	}
	if s.folder == nil { // of a batch: a server's stays the same when it is reloaded
		s.folder = modeldir.New(s.dir)
	}
	models, err := s.folder.List()
	if err != nil {
		return nil, err
	}
	if len(models) == 0 && !s.manages() {
		return nil, fmt.Errorf("%s: no GGUF files", s.dir)
	}
	for _, m := range models {
		if !names[m.Name] {
			list = append(list, s.stored(p, rt, m))
		}
	}
	return list, nil
}

// named is a model of the command line with the names and tags that stand at its place there.
func (s *servedModels) named(e serve.Entry, at int) serve.Entry {
	if at < len(s.aliases) {
		e.Aliases = s.aliases[at][1:]
	}
	if at < len(s.tags) {
		e.Tags = s.tags[at]
	}
	return e
}
