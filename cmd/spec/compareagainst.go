package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/specgo/spec/internal/compare"
	"github.com/specgo/spec/internal/endpoint"
	"github.com/specgo/spec/internal/terminal"
)

// againstKey is the environment variable of the servers' key, which no argument and no file of settings holds.
const againstKey = "SPEC_AGAINST_KEY"

// mostServers bounds how many servers are measured in turn.
const mostServers = 16

// againstFlags are the servers that compare measures.
type againstFlags struct {
	urls   []string
	model  string
	fields map[string]json.RawMessage
	time   int // seconds for a request
}

func (a *againstFlags) rows() []flag {
	asked := func() bool { return len(a.urls) > 0 }
	return []flag{
		valueFlag("--against", "URL", "measure a server of OpenAI's /v1/completions in turn with this program, on the same "+
			"prompts and lengths, and compare the texts; may be repeated; its key is in "+againstKey, func(v string) error {
			if v == "" {
				return errors.New("no URL")
			}
			if len(a.urls) == mostServers {
				return fmt.Errorf("at most %d servers", mostServers)
			}
			a.urls = append(a.urls, v)
			return nil
		}),
		textFlag("--against-model", &a.model, "NAME", "the model to ask servers for").
			or("the first that /v1/models lists").when(asked),
		valueFlag("--against-field", "NAME=JSON", "a field of each request to servers, as cache_prompt=false or "+
			"ignore_eos=true; may be repeated", a.setField).when(asked),
		intFlag("--against-timeout", &a.time, 1, 24*3600, "most seconds for a server's whole answer").or("600").when(asked),
	}
}

func (a *againstFlags) setField(v string) error {
	name, value, ok := strings.Cut(v, "=")
	if !ok || name == "" || !json.Valid([]byte(value)) {
		return errors.New("want NAME=JSON")
	}
	for _, own := range []string{"model", "prompt", "max_tokens", "temperature", "seed", "stream", "stream_options", "n"} {
		if name == own {
			return fmt.Errorf("%s is what is compared", name)
		}
	}
	if a.fields == nil {
		a.fields = map[string]json.RawMessage{}
	}
	a.fields[name] = json.RawMessage(value)
	return nil
}

// added is the added fields as JSON; "" without any.
func (a *againstFlags) added() string {
	if len(a.fields) == 0 {
		return ""
	}
	text, _ := json.Marshal(a.fields) // all are valid
	return string(text)
}

// open finds the servers' models. fixedLength has them write on behind an end-of-text token.
func (a *againstFlags) open(ctx context.Context, p *program, fixedLength bool) (list []*endpoint.Endpoint, err error) {
	if fixedLength && a.fields["ignore_eos"] == nil {
		if a.fields == nil {
			a.fields = map[string]json.RawMessage{}
		}
		a.fields["ignore_eos"] = json.RawMessage("true")
	}
	for _, url := range a.urls {
		e, err := endpoint.Open(ctx, url, endpoint.Options{Model: a.model, Key: p.env(againstKey), Fields: a.fields,
			Limits: endpoint.Limits{Time: time.Duration(a.time) * time.Second}})
		if err != nil {
			return nil, fmt.Errorf("--against %w", err)
		}
		list = append(list, e)
	}
	return list, nil
}

// check refuses what cannot mean anything, and what is not compared with servers.
func (c *comparison) check() error {
	if err := c.vocab.check(); err != nil {
		return err
	}
	switch {
	case c.fixedLength && c.fixedText:
		return usagef("--fixed-length and --fixed-text exclude each other")
	case c.fixedText && len(c.matrix.Verifiers) > 0:
		return usagef("--verify: with --fixed-text a draft's tokens are kept where they are the text's")
	case len(c.against.urls) == 0:
		if a := c.against; a.model != "" || len(a.fields) > 0 || a.time > 0 {
			return usagef("--against-model, --against-field and --against-timeout go with --against")
		}
		return nil
	case c.page != "":
		return usagef("--html: there is no page of a comparison with servers; -o md and -o csv have all figures")
	case len(c.matrix.Temperatures) > 1, len(c.matrix.Weights) > 1:
		return usagef("--against: one temperature and one type of weights at a time")
	case slices.Contains(c.matrix.Schedules, "oracle"):
		return usagef("--schedule oracle knows plain decoding's text, and is not compared with servers")
	case c.fixedText:
		return usagef("--fixed-text: servers write their own texts; --fixed-length goes with --against")
	case len(c.matrix.Kernels) > 1:
		return usagef("--against: one kernel set at a time")
	case c.preset != "":
		return usagef("--preset and --against exclude each other")
	case c.seeds > 1:
		return usagef("--seeds: with --against each prompt is continued with one seed (-s)")
	}
	return nil
}

// writeAgainst writes the report in the form that was asked for.
func (c *comparison) writeAgainst(p *program, r *compare.Against) error {
	if done, err := writeForPrograms(&c.results, p.stdout, *r, r.Rows); done {
		return err
	}
	if c.results.format == "md" {
		return r.Markdown(p.stdout)
	}
	return r.Table(p.stdout, terminal.Width(p.stdout))
}
