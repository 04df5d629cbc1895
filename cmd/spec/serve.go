package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/specgo/spec/cmd/spec/internal/terminal"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/serve"
)

var serveCommand = command{
	name:  "serve",
	does:  "answer the OpenAI API and Ollama's, for many clients at once",
	usage: "[-m FILE [-md FILE]]... [--models-dir DIR] [flags]",
	about: `Answers HTTP requests at 127.0.0.1:8080 until it is told to stop (Ctrl-C, SIGTERM): the OpenAI API (/v1/chat/completions, /v1/completions, /v1/responses, /v1/embeddings, /v1/models), Ollama's (/api/chat, /api/generate and others), llama.cpp's /tokenize, /detokenize, /apply-template, /props, /slots, /metrics and /health, and a page for people at /. docs/SERVER.md describes them, field by field.

Several models: -m may be repeated, each with a draft model of its own by a -md behind it; --models-dir offers every GGUF file of a folder, and NAME.draft.gguf drafts for NAME.gguf. Models of a folder are loaded when a request asks for them.

Only this machine can reach the server, unless --host says otherwise, and then an API key is needed.`,
	new: func() job { return newServing() },
}

// serving is the command's options.
type serving struct {
	models  []servedFile
	early   string // a draft model in front of the first model
	dir     string
	memory  int64
	kvBytes int64
	states  int64
	aliases []string
	threads int
	weights string
	cache   kvFlags
	context int

	host            string
	port            int
	keys            []string
	keyFile         string
	cert, key       string // files of TLS
	hosts, origins  []string
	page            bool
	parallel, queue int
	predict         int
	maxBody         int64
	timeout         int // seconds
	requestTimeout  int
	shutdown        int
	weightMemory    int64 // --memory
	connections     int
	logFormat       string
	logPrompts      bool
	pooling         string

	sampling engine.Sampling
	seed     int64
	speculation
	template, templateFile string
	promptDelay            float32
	targetOnly             bool // no drafts: spec embed

	listening func(net.Addr) // tests learn the address by it
}

// servedFile is a model of the command line with its draft.
type servedFile struct{ target, draft string }

func newServing() *serving {
	return &serving{
		host: "127.0.0.1", port: 8080, page: true, parallel: serve.DefaultParallel, queue: serve.DefaultQueue, predict: -1, maxBody: serve.DefaultMaxBody,
		timeout: int(serve.DefaultWriteTimeout / time.Second), shutdown: 30, connections: 1024, logFormat: "text", pooling: serve.PoolMean,
		seed: -1, sampling: newGenerate().sampling, speculation: speculation{threshold: -1},
	}
}

// check refuses what cannot mean anything.
func (s *serving) check() error {
	if _, err := s.cache.kvType(); err != nil {
		return err
	}
	loopback := s.host == "localhost"
	if ip := net.ParseIP(s.host); ip != nil {
		loopback = ip.IsLoopback()
	}
	switch {
	case !loopback && len(s.keys) == 0 && s.keyFile == "":
		return usagef("--host %s can be reached by others: give --api-key or --api-key-file", s.host)
	case s.early != "":
		return usagef("-md %s: there is no model that it drafts for: -m FILE -md FILE", s.early)
	case (s.cert == "") != (s.key == ""):
		return usagef("--ssl-cert-file and --ssl-key-file belong together")
	case s.template != "" && s.templateFile != "":
		return usagef("--chat-template and --chat-template-file exclude each other")
	case len(s.aliases) > len(s.models) && !(len(s.aliases) == 1 && s.embedded()):
		return usagef("--alias %s: there are more names than models", s.aliases[len(s.aliases)-1])
	case s.drafter == earlyExit && s.exitLayer > 0:
		return usagef("--exit-layer is for single texts")
	case s.draftMax > serve.MaxDraft:
		return usagef("--draft-max %d: a server drafts at most %d", s.draftMax, serve.MaxDraft)
	}
	return nil
}

// embedded reports whether the pair inside the program is served.
func (s *serving) embedded() bool { return len(s.models) == 0 && s.dir == "" }

// resolve finds the files of models that -hf and -hfd name.
func (s *serving) resolve(ctx context.Context, p *program) (err error) {
	for i := range s.models {
		for _, path := range []*string{&s.models[i].target, &s.models[i].draft} {
			if *path, err = localPath(ctx, p, *path); err != nil {
				return err
			}
		}
	}
	return nil
}

// options are the server's.
func (s *serving) options(p *program, entries []serve.Entry) (serve.Options, error) {
	kv, err := s.cache.kvType()
	if err != nil {
		return serve.Options{}, err
	}
	keys := s.keys
	if s.keyFile != "" {
		more, err := readKeys(s.keyFile)
		if err != nil {
			return serve.Options{}, err
		}
		keys = append(keys, more...)
	}
	sampling := s.sampling
	if s.seed >= 0 {
		sampling.Seed = uint64(s.seed)
	}
	if sampling.PenaltyLastN == 0 {
		sampling.RepeatPenalty, sampling.FrequencyPenalty, sampling.PresencePenalty = 1, 0, 0
	}
	queue := s.queue
	if queue == 0 {
		queue = -1 // the option takes 0 for its default
	}
	o := serve.Options{
		Models: entries, Memory: s.memory, Context: s.context, KV: kv, KVBytes: s.kvBytes, StateBytes: s.states, PromptDelay: float64(s.promptDelay), Sampling: sampling, Parallel: s.parallel, Queue: queue, MaxTokens: max(s.predict, 0),
		MaxBody: s.maxBody, BodyTimeout: seconds(s.timeout), WriteTimeout: seconds(s.timeout), RequestTime: seconds(s.requestTimeout),
		Keys: keys, Hosts: s.hosts, Origins: s.origins, Pooling: s.pooling, LogPrompts: s.logPrompts, Version: buildVersion(), Page: s.page,
		Speculation: serve.Speculation{Drafter: s.drafter, Schedule: s.schedule, Verify: s.verify, Max: s.draftMax, Min: s.draftMin},
	}
	switch s.logFormat {
	case "text":
		o.Log = slog.New(slog.NewTextHandler(p.stderr, nil))
	case "json":
		o.Log = slog.New(slog.NewJSONHandler(p.stderr, nil))
	}
	return o, nil
}

// buildVersion is the module's version, as clients of Ollama ask for it.
func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		return info.Main.Version[1:]
	}
	return ""
}

func seconds(n int) time.Duration { return time.Duration(n) * time.Second }

// readKeys reads API keys, one a line; empty lines and those that begin with # do not count.
func readKeys(file string) (keys []string, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(data)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			keys = append(keys, line)
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s: no keys", file)
	}
	return keys, nil
}

// Limits of connections, beside the flags'.
const (
	headerTimeout  = 10 * time.Second // for a request's header to arrive
	idleTimeout    = 2 * time.Minute  // of a connection between requests
	maxHeaderBytes = 64 << 10
	tellTimeout    = 2 * time.Second // for clients whose requests are cut off to be told
)

func (s *serving) run(ctx context.Context, p *program) error {
	models := modelFlags{threads: s.threads, weights: s.weights}
	rt, err := models.runtime(p)
	if err != nil {
		return err
	}
	defer rt.Close()
	entries, err := s.entries(p, rt)
	if err != nil {
		return err
	}
	o, err := s.options(p, entries)
	if err != nil {
		return err
	}
	server, err := serve.New(o)
	if err != nil {
		return err
	}
	defer server.Close()
	for i := range s.models { // those of a folder wait for a request
		if err := server.Load(ctx, entries[i].Name); err != nil {
			return s.loadError(err)
		}
	}
	if s.embedded() {
		if err := server.Load(ctx, ""); err != nil {
			return s.loadError(err)
		}
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(s.host, strconv.Itoa(s.port)))
	if err != nil {
		return err
	}
	listener = limited(listener, s.connections)
	scheme := "http"
	web := &http.Server{Handler: server, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes, ErrorLog: log.New(io.Discard, "", 0)}
	if s.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			listener.Close()
			return err
		}
		scheme, web.TLSConfig = "https", &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	fmt.Fprintf(p.stderr, "spec serve: listening on %s://%s\n", scheme, listener.Addr())
	if s.listening != nil {
		s.listening(listener.Addr())
	}
	failed := make(chan error, 1)
	go func() {
		if s.cert != "" {
			failed <- web.ServeTLS(listener, "", "")
		} else {
			failed <- web.Serve(listener)
		}
	}()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	return s.stop(p, web, server)
}

// stop lets requests that are under way finish, as long as --shutdown-timeout says, and cancels the rest. For at most half of that time the
// server still listens and /readyz answers 503, so that balancers send requests elsewhere before connections are refused.
func (s *serving) stop(p *program, web *http.Server, server *serve.Server) error {
	fmt.Fprintln(p.stderr, "spec serve: shutting down")
	server.Drain()
	ctx, cancel := context.WithTimeout(context.Background(), seconds(s.shutdown))
	defer cancel()
	listening, done := context.WithTimeout(ctx, seconds(s.shutdown)/2)
	server.Idle(listening) // an error is the end of that time
	done()
	if err := web.Shutdown(ctx); err != nil {
		fmt.Fprintf(p.stderr, "spec serve: requests cut off after %d seconds\n", s.shutdown)
		server.Cancel()
		told, done := context.WithTimeout(context.Background(), tellTimeout)
		defer done()
		server.Idle(told) // clients are told in their streams, where they read
		return web.Close()
	}
	return nil
}

// loadError is the error of a model that the command line names: what the log has said, as the command's own message.
func (s *serving) loadError(err error) error {
	var e *serve.Error
	if errors.As(err, &e) && e.Cause != nil {
		return e.Cause
	}
	return err
}

// entries are the models to serve. The first is the default.
func (s *serving) entries(p *program, rt *engine.Runtime) (list []serve.Entry, err error) {
	names := map[string]bool{}
	add := func(name string, f servedFile) error {
		if names[name] {
			return fmt.Errorf("two models are called %s; --alias names them", terminal.Line(name, 0))
		}
		names[name] = true
		e := serve.Entry{Name: name, Load: func(ctx context.Context) (*serve.Model, error) { return s.load(ctx, p, rt, f) }}
		for _, file := range []string{f.target, f.draft} {
			if file == "" {
				continue
			}
			bytes, modified, err := modelBytes(file)
			if err != nil {
				return err
			}
			if e.Bytes += bytes; e.Modified.IsZero() {
				e.Modified = modified
			}
		}
		list = append(list, e)
		return nil
	}
	for i, f := range s.models {
		name := modelName(f.target)
		if i < len(s.aliases) {
			name = s.aliases[i]
		}
		if err := add(name, f); err != nil {
			return nil, err
		}
	}
	if s.dir != "" {
		files, err := modelsOf(s.dir)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if name := modelName(f.target); !names[name] {
				if err := add(name, f); err != nil {
					return nil, err
				}
			}
		}
	}
	if s.embedded() {
		name := "embedded"
		if len(s.aliases) > 0 {
			name = s.aliases[0]
		}
		return list, add(name, servedFile{})
	}
	return list, nil
}
