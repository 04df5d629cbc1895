package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/batch"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/serve"
)

var batchCommand = command{
	name:  "batch",
	does:  "answer a file of requests in OpenAI's batch format",
	usage: "[-m FILE [-md FILE]] -i IN.jsonl -o OUT.jsonl [--shard I/N]",
	about: `Answers the requests of a file, several at once, as "spec serve" would, and writes the answers to another file as they are ready. A line of the input is {"custom_id": "…", "method": "POST", "url": "/v1/chat/completions", "body": {…}}; the url may be /v1/completions, /v1/responses or /v1/embeddings too. A line of the output is {"id": …, "custom_id": "…", "response": {"status_code": 200, "request_id": …, "body": {…}}, "error": null}; a request that is wrong has the status and the error that the server would send.

The whole input is checked first. If the output exists, its answers are kept and the others added: work that was interrupted, by Ctrl-C, kill -9 or a power failure, goes on where it was when the same command is given again.

A request that fails for another reason than itself (status 429, 500 or 504) is tried again when all others are answered, three times in all. If that does not help, the failure is its answer, and the same command tries it again.

--shard I/N answers every Nth request from the Ith on (the first is 0), so that N machines share the work, each with an output of its own.

A report follows at the end, on standard output.`,
	new: func() job { return newBatching() },
}

// batching is the command's options: those of a server, but for its connections.
type batching struct {
	serving
	input, output string
	shard, shards int
	json          bool
}

// batchTries is how often a request is tried that fails for another reason than itself.
const batchTries = 3

// batchParallel is how many requests are answered at once: they share passes over the weights.
const batchParallel = 8

func newBatching() *batching {
	b := &batching{serving: *newServing()}
	b.parallel, b.logFormat, b.page = batchParallel, "off", false
	return b
}

// resolve finds the files of models: nothing listens here.
func (b *batching) resolve(ctx context.Context, p *program) error {
	return b.servedModels.resolve(ctx, p)
}

func (b *batching) check() error {
	switch {
	case b.input == "":
		return usagef("-i is missing: the file of requests")
	case b.output == "":
		return usagef("-o is missing: the file for the answers")
	case b.input == "-":
		return usagef("-i -: requests are read more than once, so they are not taken from standard input")
	case b.output == "-":
		return usagef("-o -: answers are read again when the work goes on, so they go to a file")
	}
	return b.serving.check()
}

// batchReport is the report as JSON.
type batchReport struct {
	Schema int    `json:"schema"`
	Input  string `json:"input"`
	Output string `json:"output"`
	batch.Report
	TokensPerSecond float64 `json:"tokens_per_second"` // generated
}

// start loads the model into a server that listens nowhere; stop closes it.
func (b *batching) start(ctx context.Context, p *program) (server *serve.Server, stop func(), err error) {
	models := b.loading()
	rt, err := models.runtime(p)
	if err != nil {
		return nil, nil, err
	}
	if server, err = b.load(ctx, p, rt); err != nil {
		rt.Close()
		return nil, nil, err
	}
	return server, func() { server.Close(); rt.Close() }, nil
}

// load is start in a runtime.
func (b *batching) load(ctx context.Context, p *program, rt *engine.Runtime) (*serve.Server, error) {
	entries, err := b.entries(p, rt)
	if err != nil {
		return nil, err
	}
	o, err := b.options(p, entries)
	if err != nil {
		return nil, err
	}
	// Answers say of the server's own errors that its log has the details.
	level := new(slog.LevelVar)
	level.Set(slog.LevelError + 1) // what is wrong with this model is the command's own error
	o.Log = slog.New(slog.NewTextHandler(p.stderr, &slog.HandlerOptions{Level: level}))
	server, err := serve.New(o)
	if err != nil {
		return nil, err
	}
	if err := server.Load(ctx, entries[0].Name); err != nil {
		server.Close()
		return nil, b.loadError(err)
	}
	level.Set(slog.LevelError)
	return server, nil
}

func (b *batching) run(ctx context.Context, p *program) error {
	if err := batch.Readable(b.input); err != nil { // before models are loaded
		return err
	}
	server, stop, err := b.start(ctx, p)
	if err != nil {
		return err
	}
	defer stop()
	bar := terminal.NewBar(p.stderr, "batch")
	defer bar.Clear()
	r, err := batch.Run(ctx, batch.Options{
		Input: b.input, Output: b.output, Shard: b.shard, Shards: b.shards, Parallel: b.parallel,
		Tries: batchTries, Again: batch.Transient,
		Do: func(ctx context.Context, r batch.Request) (int, []byte) { return server.Do(ctx, r.Path, r.Body) },
		Progress: func(r batch.Report) {
			bar.Set(int64(r.Done), int64(r.Requests-r.Before),
				fmt.Sprintf("%d of %d, %.1f tokens/s", r.Before+r.Done, r.Requests, perSecond(r)))
		},
	})
	bar.Clear()
	if err != nil {
		if r.Requests > 0 {
			fmt.Fprintf(p.stderr, "spec batch: %d of %d requests answered; the same command goes on\n", r.Before+r.Done,
				r.Requests)
		}
		return err
	}
	if b.json {
		e := json.NewEncoder(p.stdout)
		return e.Encode(batchReport{1, b.input, b.output, r, perSecond(r)})
	}
	w := &remembering{w: p.stdout}
	fmt.Fprintf(w, "%d requests, %d answered before, %d now", r.Requests, r.Before, r.Done)
	if r.Failed > 0 {
		fmt.Fprintf(w, ", %d of them with an error", r.Failed)
	}
	fmt.Fprintf(w, "\n%d prompt tokens, %d generated in %.1f s (%.1f tokens/s)\n", r.PromptTokens,
		r.CompletionTokens, r.Seconds, perSecond(r))
	if r.Drafted > 0 {
		fmt.Fprintf(w, "%d tokens drafted, %d accepted (%.0f %%)\n", r.Drafted, r.Accepted,
			100*float64(r.Accepted)/float64(r.Drafted))
	}
	return w.err
}

// perSecond is the number of tokens generated in a second.
func perSecond(r batch.Report) float64 {
	if r.Seconds <= 0 {
		return 0
	}
	return float64(r.CompletionTokens) / r.Seconds
}
