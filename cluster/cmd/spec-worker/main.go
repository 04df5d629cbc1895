// Command spec-worker answers the requests of a work queue of NATS JetStream, as "spec batch" answers those of a file.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/specgo/spec"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/cluster"
	"github.com/specgo/spec/cluster/internal/connect"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/modeldir"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/serve"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Getenv, os.Stderr); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "spec-worker:", terminal.Text(err.Error()))
		}
		stop()
		os.Exit(1)
	}
}

// command is the flags. Those of spec have its names. What changes answers is part of the worker's identity, and what
// is not here has the values of "spec batch".
type command struct {
	queue                  connect.Flags
	model, draft           string
	weights, kv            string
	template, templateFile string
	adapters               []spec.AdapterFile
	context, threads       int
	numa                   string
	parallel, tries        int
	memory                 int64
	listen, logFormat      string
	cache                  promptCache
}

// mostParallel is the most requests at once, as of spec.
const mostParallel = 1024

func (c *command) parse(args []string, env func(string) string, stderr io.Writer) error {
	f := flag.NewFlagSet("spec-worker", flag.ContinueOnError)
	f.SetOutput(stderr)
	c.queue.Define(f, env)
	c.queue.DefineLanes(f)
	f.StringVar(&c.model, "m", "", "`FILE` of the model, GGUF")
	f.StringVar(&c.draft, "md", "", "`FILE` of a draft model or draft head")
	f.StringVar(&c.weights, "weights", "", "convert the matrices to this `TYPE`; part of the identity")
	f.StringVar(&c.kv, "kv", engine.DefaultKV, "`TYPE` of the KV cache; part of the identity")
	f.IntVar(&c.context, "c", 0, "most `TOKENS` of a prompt with its answer; 0: the model's; part of the identity")
	f.StringVar(&c.template, "chat-template", "", "`NAME` of a built-in chat template; part of the identity")
	f.StringVar(&c.templateFile, "chat-template-file", "", "`FILE` of a chat template; part of the identity")
	adapter := func(file, scale string) error {
		x, err := strconv.ParseFloat(scale, 32)
		if err != nil || file == "" {
			return errors.New("not FILE:SCALE")
		}
		c.adapters = append(c.adapters, spec.AdapterFile{Path: file, Scale: float32(x)})
		return nil
	}
	f.Func("lora", "`FILE` of an adapter; may be repeated; part of the identity",
		func(s string) error { return adapter(s, "1") })
	f.Func("lora-scaled", "`FILE:SCALE` of an adapter; likewise", func(s string) error {
		i := strings.LastIndexByte(s, ':')
		return adapter(s[:max(i, 0)], s[i+1:])
	})
	f.IntVar(&c.threads, "t", 0, "`THREADS`; 0: the physical cores that the process may use")
	f.StringVar(&c.numa, "numa", "", "bind threads to memory nodes: distribute, isolate or numactl, as of spec")
	f.IntVar(&c.parallel, "np", 8, "`REQUESTS` answered at once")
	f.Int64Var(&c.memory, "memory", 0, "most `BYTES` of weights and activations; 0: no bound")
	f.IntVar(&c.tries, "tries", cluster.DefaultTries, "how often a request is handed out before it is given up")
	f.StringVar(&c.listen, "metrics-listen", "", "`ADDRESS:PORT` of /metrics, /livez and /readyz")
	f.StringVar(&c.logFormat, "log-format", "text", "text or json, on standard error")
	c.cache.define(f)
	if err := f.Parse(args); err != nil {
		return err
	}
	_, _, addressErr := net.SplitHostPort(c.listen)
	switch {
	case f.NArg() > 0:
		return fmt.Errorf("%q is not a flag", f.Arg(0))
	case c.model == "":
		return errors.New("-m is missing: the model")
	case c.template != "" && c.templateFile != "":
		return errors.New("-chat-template and -chat-template-file exclude each other")
	case c.parallel > mostParallel:
		return fmt.Errorf("-np %d: at most %d", c.parallel, mostParallel)
	case c.parallel < 1 || c.tries < 1 || c.threads < 0 || c.context < 0 || c.memory < 0:
		return errors.New("-np and -tries are at least 1, -t, -c and -memory at least 0")
	case c.logFormat != "text" && c.logFormat != "json":
		return fmt.Errorf("-log-format %s: not text or json", c.logFormat)
	case c.cache.bucket == "" && c.cache.given():
		return errors.New("-cache-endpoint and -cache-region go with -cache-s3")
	case c.listen != "" && addressErr != nil:
		return fmt.Errorf("-metrics-listen %s: not an address with a port, as in :9090", c.listen)
	}
	return nil
}

// log is the worker's log.
func (c *command) log(to io.Writer) *slog.Logger {
	if c.logFormat == "json" {
		return slog.New(slog.NewJSONHandler(to, nil))
	}
	return slog.New(slog.NewTextHandler(to, nil))
}

// options are the model's. A template by name brings the texts that end its answers.
func (c *command) options(rt *engine.Runtime) (spec.Options, error) {
	o := spec.Options{
		Name: modeldir.Name(c.model), Context: c.context, KV: c.kv,
		Load: spec.Load{Draft: c.draft, Runtime: rt, Weights: c.weights, Memory: c.memory, Adapters: c.adapters},
	}
	if c.template != "" {
		ok := false
		if o.Template, ok = chat.Builtin(c.template); !ok {
			return o, fmt.Errorf("-chat-template %s: there are %s", c.template, strings.Join(chat.BuiltinNames(), ", "))
		}
		o.Stops = chat.BuiltinStops(c.template)
	}
	if c.templateFile != "" {
		text, err := os.ReadFile(c.templateFile)
		if err != nil {
			return o, err
		}
		o.Template = string(text)
	}
	return o, nil
}

// open loads the model. Its server answers as that of "spec batch" does.
func (c *command) open(ctx context.Context, env func(string) string, log *slog.Logger) (
	*serve.Server, spec.Identity, func(), error) {
	none := func(err error) (*serve.Server, spec.Identity, func(), error) { return nil, spec.Identity{}, nil, err }
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: c.threads, SIMD: env("SPEC_SIMD"), NUMA: c.numa})
	if err != nil {
		return none(err)
	}
	o, err := c.options(rt)
	if err != nil {
		rt.Close()
		return none(err)
	}
	if o.Stored, err = c.cache.stored(env, log); err != nil {
		rt.Close()
		return none(err)
	}
	file, err := fingerprint(ctx, c.model)
	if err != nil {
		rt.Close()
		return none(err)
	}
	m, err := spec.Open(ctx, c.model, o)
	if err != nil {
		rt.Close()
		return none(err)
	}
	id := m.Identity(file)
	server, err := serve.New(serve.Options{
		Models: []serve.Entry{{Name: m.Name(), Path: c.model, Bytes: m.Bytes(),
			Load: func(context.Context) (*spec.Model, error) { return m, nil }}},
		Sampling: spec.UsualSampling(), Parallel: c.parallel, Log: log, Build: []string{"kernels", rt.SIMD()},
		Proc:  proc(),
		Hosts: []string{"*"}, // of -metrics-listen, where nothing but metrics is: Prometheus may name it as it likes
	})
	if err != nil {
		m.Close()
		rt.Close()
		return none(err)
	}
	free := func() {
		server.Close()
		rt.Close()
	}
	if err := server.Load(ctx, ""); err != nil { // from now on the server closes the model
		free()
		return none(err)
	}
	return server, id, free, nil
}

// proc is the process' folder in /proc, for the metrics; nil where there is none.
func proc() fs.FS {
	const dir = "/proc/self"
	if _, err := os.Stat(dir + "/stat"); err != nil {
		return nil
	}
	return os.DirFS(dir)
}

// fingerprint reads a model's file.
func fingerprint(ctx context.Context, path string) (engine.Fingerprint, error) {
	f, err := gguf.OpenFile(path)
	if err != nil {
		return engine.Fingerprint{}, err
	}
	defer f.Close()
	id, err := engine.ReadFingerprint(ctx, f)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return id, err
}

// run answers requests until ctx ends; then what is under way goes back to the queue.
func run(ctx context.Context, args []string, env func(string) string, stderr io.Writer) error {
	var c command
	if err := c.parse(args, env, stderr); err != nil {
		return err
	}
	log := c.log(stderr)
	server, id, free, err := c.open(ctx, env, log)
	if err != nil {
		return err
	}
	defer free()
	nc, q, err := c.queue.Open(ctx, log)
	if err != nil {
		return err
	}
	defer nc.Close()
	w, err := cluster.NewWorker(ctx, cluster.WorkerOptions{
		Queue: q, Identity: id, Parallel: c.parallel, Queues: true, Tries: c.tries, Log: log,
		Do: func(ctx context.Context, r cluster.Request) (int, []byte) { return server.Do(ctx, r.Path, r.Body) },
	})
	if err != nil {
		return err
	}
	if c.listen != "" {
		l, err := net.Listen("tcp", c.listen)
		if err != nil {
			return fmt.Errorf("-metrics-listen: %w", err)
		}
		web := &http.Server{Handler: monitoring(server, w, nc), ReadHeaderTimeout: 10 * time.Second,
			ReadTimeout: 30 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute}
		defer web.Close()
		go func() { _ = web.Serve(l) }() // ends with Close
		log.Info("metrics", "address", l.Addr().String())
	}
	sum, err := id.Sum()
	if err != nil {
		return err
	}
	log.Info("takes requests", "identity", sum, "model", id.Model.Name, "parallel", c.parallel)
	err = w.Run(ctx)
	log.Info("ends: what was under way is back in the queue")
	return errors.Join(err, nc.FlushTimeout(5*time.Second))
}

// monitoring answers what needs no key: the server's metrics with the worker's behind them. The worker is ready while
// it is connected.
func monitoring(server *serve.Server, w *cluster.Worker, nc *nats.Conn) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /metrics", func(to http.ResponseWriter, r *http.Request) {
		server.ServeHTTP(to, r)
		w.WriteMetrics(to)
	})
	mux.Handle("GET /livez", server)
	mux.HandleFunc("GET /readyz", func(to http.ResponseWriter, r *http.Request) {
		if !nc.IsConnected() {
			http.Error(to, "not connected to NATS", http.StatusServiceUnavailable)
			return
		}
		server.ServeHTTP(to, r)
	})
	return mux
}
