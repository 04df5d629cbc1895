package serve

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/specgo/spec"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/grammar"
)

// Options configure a [Server]. Models is needed, or a Store; every other field has a useful zero value.
type Options struct {
	Models []Entry // the first is the default

	// Store changes which models there are, for Ollama's /api/pull, /api/delete, /api/copy and /api/create; nil: nothing
	// does. Requests for that, and to unload a model, must show a key that is Admin, unless AllowManage is set.
	Store       Store
	AllowManage bool

	// Memory bounds the bytes of loaded models, by what their entries say: models that nobody uses are unloaded, the
	// one unused for longest first. 0 is no bound.
	Memory int64

	Sampling engine.Sampling // where a request does not say otherwise; a zero Seed is another for each request
	Seeded   bool            // the Seed of Sampling is one also where it is 0

	// Constraint is what answers follow to requests that have no constraint of their own, offer no tools, and do not say
	// that there is none: response_format text, an empty grammar.
	Constraint spec.Constraint
	IgnoreEOS  bool      // end-of-text tokens are never chosen, likewise
	Norm       spec.Norm // of embeddings, likewise

	Parallel  int // answers computed at once; 0 is DefaultParallel
	Queue     int // answers that wait for that; more are refused with 429. 0 is DefaultQueue, negative none
	MaxTokens int // most tokens of an answer; 0 is no bound but the context

	Limits      Limits        // of connections, bodies and what clients take
	RequestTime time.Duration // for a request in all, but one for a download of a model; 0 is no bound
	// tokens that wait for a slow client before its request is cancelled; 0 is DefaultStreamBuffer
	StreamBuffer int

	// Keys are the API keys, one of which every request must have, except for health checks and the page's files. Each
	// has its share of places and queue. None: all requests are answered, first come first served.
	Keys []Key
	// SharePrefixes lets requests with different keys go on from what each other's prompts have in common, so that one
	// can learn from cached_tokens and the time what another has asked. A request's cache_salt keeps it apart either
	// way.
	SharePrefixes bool
	// TrustedProxies are the networks of proxies in front of the server. What they say in X-Forwarded-For or Forwarded
	// is where a request comes from; they must set it, or remove what clients say.
	TrustedProxies []netip.Prefix
	// Hosts are the names by which browsers may address the server, beside localhost, addresses in numbers and what
	// containers call their machine (host.docker.internal): other names are refused, because a page could point its own
	// name here (DNS rebinding). "*" allows all.
	Hosts []string
	// Origins are the web origins whose pages may use the server (CORS), such as "https://chat.example.org"; "localhost"
	// stands for all of this machine, "*" for all.
	Origins []string

	Pooling string // of embeddings, as [spec.EmbedOptions] has it; PoolNone is for /embedding alone

	Log        *slog.Logger // one line per request, without texts; nil: none
	LogPrompts bool         // with the texts of prompts and answers

	Version string   // of the program, for /props; "" is "0.0.0"
	Build   []string // more labels of spec_build_info: names and values in turn
	// MetricsNames adds the names of another server to /metrics: NamesVLLM; "" none.
	MetricsNames string
	Proc         fs.FS // the process' folder in Linux' /proc, for /metrics; nil: what it tells is left out

	Page bool // serve the page at /
	// Ollama has names of models in lists, and the line at /, as Ollama's server has them; the page is at /index.html
	// then.
	Ollama    bool
	NoSlots   bool // /slots is answered with 501
	SlotFiles SlotFiles
	Verbose   bool      // answers of /v1/chat/completions have __verbose
	WhenFull  spec.Full // of requests that do not say
	AnyOrder  bool      // of keys of objects that follow a JSON Schema, likewise
	// Ping is after how much time without an event a stream of server-sent events has a comment: proxies end connections
	// on which nothing comes, as while a long prompt is read. 0: never.
	Ping time.Duration
	// Reasoning is "on" or "off" where a request says nothing of enable_thinking; "" and "auto": as the template has it.
	Reasoning string
	Variables map[string]any // of chat templates, in requests that do not set one of the name, nor Reasoning does
}

// Defaults of Options.
const (
	DefaultParallel     = 4
	DefaultQueue        = 256
	DefaultStreamBuffer = 4096
)

// Entry is a model that can be loaded.
type Entry struct {
	Name     string    // by which requests choose it
	Bytes    int64     // of memory, once loaded, with its draft; 0: not known
	Modified time.Time // for lists
	Path     string    // of the file, for /props; "": none
	Aliases  []string  // other names of it
	Tags     []string  // for lists
	Stored   bool      // it is a model of Options.Store
	Setup    string    // what Load depends on beside the file: with another one, [Server.Reload] has it loaded anew
	// System is the system message of conversations that have none, and Parameters are Ollama's options, as an object,
	// for requests that do not say otherwise.
	System     string
	Parameters json.RawMessage
	// Context tells lists how many tokens a context will have, while the model is not in memory; 0: it is not known. nil
	// likewise.
	Context func() int
	// Load loads it. It is called when a request needs the model and it is not there; its errors go to the log, and to
	// clients as 503 without their text.
	Load func(ctx context.Context) (*spec.Model, error)
}

// MaxDraft is the greatest draft length that may be asked for.
const MaxDraft = 255

// ErrOptions is wrapped by the errors of [New].
var ErrOptions = errors.New("serve: options")

// check fills in defaults.
func (o *Options) check() error {
	if err := checkEntries(o.Models, o.Store != nil); err != nil {
		return err
	}
	if err := checkKeys(o.Keys); err != nil {
		return err
	}
	for _, h := range o.Hosts {
		if h == "" || h != "*" && strings.ContainsAny(h, ":/* ") && net.ParseIP(h) == nil {
			return fmt.Errorf("%w: Hosts (--allowed-host): %q is not the name of a host, without scheme, port and wildcard",
				ErrOptions, h)
		}
	}
	if !slices.Contains([]string{"", "on", "off", "auto"}, o.Reasoning) {
		return fmt.Errorf("%w: Reasoning %q", ErrOptions, o.Reasoning)
	}
	if o.MetricsNames != "" && o.MetricsNames != NamesVLLM || len(o.Build)%2 != 0 {
		return fmt.Errorf("%w: MetricsNames %q, Build of %d texts", ErrOptions, o.MetricsNames, len(o.Build))
	}
	if !slices.Contains([]spec.Full{spec.FullStop, spec.FullDrop}, o.WhenFull) {
		return fmt.Errorf("%w: WhenFull %q", ErrOptions, o.WhenFull)
	}
	for _, n := range []struct {
		name string
		n    int64
	}{{"Memory", o.Memory}, {"Parallel", int64(o.Parallel)}, {"MaxTokens", int64(o.MaxTokens)},
		{"RequestTime", int64(o.RequestTime)}, {"StreamBuffer", int64(o.StreamBuffer)},
		{"SlotFiles.Bytes", o.SlotFiles.Bytes}} {
		if n.n < 0 {
			return fmt.Errorf("%w: %s is negative", ErrOptions, n.name)
		}
	}
	if o.Pooling != "" && o.Pooling != spec.PoolNone && !slices.Contains(spec.Poolings(), o.Pooling) {
		return fmt.Errorf("%w: Pooling %q", ErrOptions, o.Pooling)
	}
	if err := o.Constraint.Check(context.Background(), grammar.Limits{}); err != nil {
		return fmt.Errorf("%w: Constraint: %w", ErrOptions, err)
	}
	orInt := func(p *int, n int) {
		if *p == 0 {
			*p = n
		}
	}
	orInt(&o.Parallel, DefaultParallel)
	orInt(&o.Queue, DefaultQueue)
	orInt(&o.StreamBuffer, DefaultStreamBuffer)
	o.Queue = max(o.Queue, 0)
	if o.SlotFiles.Bytes == 0 {
		o.SlotFiles.Bytes = DefaultSlotBytes
	}
	if err := o.Limits.fill(); err != nil {
		return err
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Version == "" {
		o.Version = "0.0.0"
	}
	return nil
}

// checkEntries refuses models that cannot be told apart or loaded. There may be none where there is a store.
func checkEntries(models []Entry, store bool) error {
	if len(models) == 0 && !store {
		return fmt.Errorf("%w: no models", ErrOptions)
	}
	seen := map[string]bool{}
	for i, e := range models {
		if e.Load == nil || e.Name == "" {
			return fmt.Errorf("%w: Models[%d] has no name or no Load", ErrOptions, i)
		}
		for _, name := range append([]string{e.Name}, e.Aliases...) {
			if seen[name] {
				return fmt.Errorf("%w: two models are called %s", ErrOptions, name)
			}
			seen[name] = true
		}
	}
	return nil
}

func checkKeys(keys []Key) error {
	for _, k := range keys {
		if k.Secret == "" {
			return fmt.Errorf("%w: an empty key", ErrOptions)
		}
		if strings.TrimSpace(k.Secret) != k.Secret || strings.ContainsAny(k.Secret, "\r\n\x00") {
			return fmt.Errorf("%w: a key with blanks around it or a line end, which no request can show", ErrOptions)
		}
		if k.Weight < 0 || k.Weight > MaxWeight {
			return fmt.Errorf("%w: the weight %d of a key is not between 1 and %d", ErrOptions, k.Weight, MaxWeight)
		}
	}
	return nil
}
