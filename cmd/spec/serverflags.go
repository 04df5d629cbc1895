package main

import (
	"errors"
	"math"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/serve"
)

// rows say who may connect to a server, and what a connection may take.
func (s *network) rows() []flag {
	return append(s.ollama.rows(),
		valueFlag("--host", "ADDRESS", "address to listen on; others than this machine's need an API key", s.setHost).
			or("127.0.0.1").env("LLAMA_ARG_HOST"),
		intFlag("--port", &s.port, 0, 65535, "port to listen on; 0: a free one").or("8080").env("LLAMA_ARG_PORT"),
		valueFlag("--api-key", "KEY[,KEY...]", "keys, one of which every request must have", func(v string) error {
			for k := range strings.SplitSeq(v, ",") {
				if k = strings.TrimSpace(k); k == "" { // a request cannot show blanks around it
					return errors.New("an empty key")
				}
				s.keys = append(s.keys, serve.Key{Secret: k})
			}
			return nil
		}).env("LLAMA_API_KEY"),
		fileFlag("--api-key-file", &s.keyFile, "FILE",
			"keys from a file, one a line; KEY weight=N has N shares of places and queue where others have one; "+
				"KEY admin may change which models there are").env("LLAMA_ARG_API_KEY_FILE", "SPEC_API_KEY_FILE"),
		valueFlag("--metrics-listen", "ADDRESS:PORT",
			"answer /metrics and health checks there too, without a key; keep it where only monitoring connects",
			func(v string) error {
				if _, _, err := net.SplitHostPort(v); err != nil {
					return errors.New("not an address with a port, as in :9090")
				}
				s.metrics = v
				return nil
			}),
		choiceFlag("--metrics-names", &s.metricsNames, []string{serve.NamesVLLM},
			"add another server's names to /metrics, which llm-d and the inference gateway of Kubernetes read"),
		switchFlag("--allow-manage", &s.allowManage, true,
			"every client may pull, delete, copy, create and unload models of --models-dir, not only admin keys"),
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
		switchFlag("--share-prefixes", &s.sharePrefixes, true,
			"requests with different keys share what is computed for prompts that begin alike"),
		fileFlag("--ssl-cert-file", &s.cert, "FILE", "certificate for TLS").env("LLAMA_ARG_SSL_CERT_FILE"),
		fileFlag("--ssl-key-file", &s.key, "FILE", "its private key").env("LLAMA_ARG_SSL_KEY_FILE"),
		listFlag("--allowed-host", &s.hosts, "NAME",
			"a name by which browsers may address the server, beside localhost and addresses in numbers; may be "+
				"repeated; * allows all"),
		valueFlag("--cors, --cors-origins", "ORIGIN[,ORIGIN...]",
			"origins whose pages may use the server, as in https://chat.example.org; localhost: pages of this machine; may "+
				"be repeated; * allows all", func(v string) error {
				list := strings.Split(v, ",")
				if slices.Contains(list, "") {
					return errors.New("an empty origin")
				}
				s.origins = append(s.origins, list...)
				return nil
			}).env("LLAMA_ARG_CORS_ORIGINS"),
		switchFlag("--no-webui, --no-ui", &s.page, false, "no page at /").
			env("LLAMA_ARG_NO_UI", "LLAMA_ARG_NO_WEBUI"),
		switchFlag("--no-slots", &s.noSlots, true, "no /slots").env("LLAMA_ARG_NO_ENDPOINT_SLOTS"),
		bytesFlag("--max-body", &s.limits.BodyBytes, "most bytes of a request").or("16M"),
		intFlag("-to, --timeout", &s.timeout, 1, 1<<20,
			"seconds for a client to send its request, or to take a piece of an answer").or("30").env("LLAMA_ARG_TIMEOUT"),
		intFlag("--sse-ping-interval", &s.ping, -1, 1<<20,
			"seconds without an event after which a stream has a comment, which keeps proxies from ending it; -1: never").
			or("30").env("LLAMA_ARG_SSE_PING_INTERVAL"),
		intFlag("--shutdown-timeout", &s.shutdown, 0, 1<<20,
			"seconds in which requests may finish after SIGTERM or Ctrl-C").or("30"),
		intFlag("--max-connections", &s.limits.Connections, 1, 1<<20, "connections at once").or("1024"),
		intFlag("--max-unkeyed", &s.limits.Unkeyed, 1, 1<<20,
			"connections of one address that have not shown a key yet").or("256"))
}

// logLevels are the values of --log-level.
var logLevels = []string{"debug", "info", "warn", "error"}

// logRows are what a server writes on standard error.
func (s *serving) logRows() []flag {
	return []flag{
		choiceFlag("--log-format", &s.logFormat, []string{"text", "json", "off"},
			"one line on standard error for each request, without texts").or("text"),
		valueFlag("--log-level", strings.Join(logLevels, "|"),
			"the least that is logged: what goes on and each request is info, one of a health check or of /metrics debug",
			func(v string) error {
				name, err := choose(logLevels, v)
				if err != nil {
					return err
				}
				return s.level.UnmarshalText([]byte(name))
			}).or("info").takes(logLevels...),
		switchFlag("--log-prompts", &s.logPrompts, true, "log prompts and answers too"),
		switchFlag("-v, --verbose, --log-verbose", &s.verbose, true,
			"answers of /v1/chat/completions have __verbose, with the prompt that the chat template made"),
	}
}

// loadRows are how each model is loaded.
func (s *capacity) loadRows() []flag {
	return append([]flag{
		threadsRow(&s.threads), numaRow(&s.numa), weightsRow(&s.weights),
		memoryRow(&s.weightMemory, "memory for one model with its draft and the keys and values of all requests at once, as "+
			"in 8GiB; weights that do not fit are read from disk in every pass").or("7/8 of the machine's"),
		panelsRow(&s.panels),
	}, s.changes.rows()...)
}

// cacheRows are the keys and values of one request.
func (s *capacity) cacheRows() []flag {
	list := []flag{contextRow(&s.context, "most tokens of a prompt with its answer, for each request")}
	return append(append(list, s.cache.rows()...), stateRow(&s.states))
}

// sharedRows are what all requests' keys and values, and what is kept of them, may take.
func (s *capacity) sharedRows() []flag {
	return append([]flag{
		bytesFlag("--kv-memory", &s.kvBytes, "most bytes of keys and values, of a target and of a draft each, as in 4G").
			or("no bound"),
		valueFlag("-cram, --cache-ram", "SIZE",
			"most memory of finished requests' keys and values that are kept for prompts that begin alike, of all models "+
				"together: MiB, or bytes as in 2G; -1: no bound, 0: none",
			func(v string) (err error) {
				s.kept, err = cacheSize(v)
				return err
			}).or("what --memory leaves, at most 8G and an eighth of the machine's").env("LLAMA_ARG_CACHE_RAM"),
	}, s.prompts.rows("keep what was computed for prompts and answers in this folder too, for later runs, other "+
		"processes and other machines")...)
}

// slotRows are the files of slots.
func (s *capacity) slotRows() []flag {
	return []flag{
		fileFlag("--slot-save-path", &s.slotFiles.Dir, "DIR",
			"let clients keep what was computed for the texts of slots in files there: POST /slots/ID?action=save, restore "+
				"or erase"),
		bytesFlag("--slot-save-size", &s.slotFiles.Bytes, "most bytes of those files; beyond it none is saved").or("16G").
			when(func() bool { return s.slotFiles.Dir != "" }),
	}
}

// parallelRow is -np, with its default, which -1, llama.cpp's automatic number, also stands for.
func (s *capacity) parallelRow(help string, standard int) flag {
	return valueFlag("-np, --parallel", "N", help+"; -1: the default", func(v string) (err error) {
		if v == "-1" {
			s.parallel = standard
			return nil
		}
		s.parallel, err = wholeNumber(v, 1, 1024)
		return err
	}).or(strconv.Itoa(standard)).env("LLAMA_ARG_N_PARALLEL")
}

// queueRow is --queue.
func (s *capacity) queueRow() flag {
	return intFlag("--queue", &s.queue, 0, 1<<20, "answers that may wait; more get 429").
		or(strconv.Itoa(serve.DefaultQueue))
}

// setHost reads --host: a name or an address, with or without the brackets of IPv6.
func (s *network) setHost(v string) error {
	if inside, ok := strings.CutPrefix(v, "["); ok && strings.HasSuffix(v, "]") {
		v = strings.TrimSuffix(inside, "]")
	}
	switch {
	case strings.HasPrefix(v, "/") || strings.HasSuffix(v, ".sock"):
		return errors.New("not an address; a Unix socket can come from systemd (LISTEN_FDS)")
	case strings.Contains(v, "/") || strings.Contains(v, ":") && !isAddress(v):
		return errors.New("not an address; --port has the port")
	}
	s.host = v
	return nil
}

// isAddress reports whether a text is an IP address, with a zone or without.
func isAddress(v string) bool {
	_, err := netip.ParseAddr(v)
	return err == nil
}

// encoderTokens is the default of --encoder-tokens.
const encoderTokens = 1 << 14

// limitRows bound what one request takes of the others' time and memory.
func (s *serving) limitRows() []flag {
	return []flag{
		valueFlag("--grammar-memory", "SIZE", "most bytes that the compiled grammars and schemas of a model keep",
			func(v string) error {
				n, err := byteSize(v)
				s.grammars.Memory = int(min(n, math.MaxInt))
				return err
			}).or("48M"),
		floatFlag("--prompt-delay", &s.promptDelay, 0.1, 1000,
			"how much longer than usual a pass may take for parts of long prompts while others generate, in passes").or("2"),
		intFlag("--encoder-tokens", &s.encoderTokens, 1, engine.MaxInput,
			"most tokens of a prompt of an encoder-decoder model: others wait while it is read").
			or(strconv.Itoa(encoderTokens)),
		mostRow(&s.predict, "most tokens of an answer"),
		switchFlag("--json-any-order", &s.anyOrder, true,
			"keys of objects that follow a JSON Schema come in any order, for requests that do not say"),
		choiceFlag("--when-full", &s.whenFull, []string{fullStop, fullDrop},
			"a prompt that leaves the context too little room: refuse it; drop the oldest turns, or the middle of a text").
			or(fullStop),
		intFlag("--request-timeout", &s.requestTimeout, 0, 1<<20, "most seconds of a request").or("0: no bound"),
	}
}

// poolNone is of servers alone: their answers have lists of vectors.
const poolNone = library.PoolNone

// poolingRow is --pooling, with more choices than those of one vector.
func (s *answers) poolingRow(more ...string) flag {
	return choiceFlag("--pooling", &s.pooling, append(library.Poolings(), more...),
		"how hidden states become an embedding").or("as the file says, else mean").env("LLAMA_ARG_POOLING")
}

// normRow is --embd-normalize of requests that do not say.
func (s *answers) normRow() flag {
	return normRow(&s.norm, "; for requests that do not say")
}

// templateRows are how conversations become prompts.
func (s *answers) templateRows() []flag {
	return append(templateRows(&s.template, &s.templateFile), s.fallbackRow(),
		switchFlag("--no-jinja", &s.noTemplates, true,
			"chatml for models whose files have no template; other templates are executed as always").
			env("LLAMA_ARG_NO_JINJA"),
		variablesRow(&s.variables, " where a request has none of the name"),
		reasoningRow(&s.reasoning, " where a request does not say"), reasoningFormatRow(),
		reasoningBudgetRow(&s.reasoning, nil))
}

// rows are how requests are answered that do not say so themselves.
func (s *answers) rows() []flag {
	return slices.Concat(samplingRows(&s.sampling), []flag{biasRow(&s.sampling), ignoreEOSRow(&s.ignoreEOS),
		seedRow(&s.seed, "seed of the sampling noise")}, s.form.sourceRows("answers follow this grammar, in llama.cpp's "+
		"notation, where a request says nothing else and offers no tools",
		"likewise answers are JSON that is valid by this schema; {} is any JSON"))
}
