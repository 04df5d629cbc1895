// Package batch answers the requests of a file, as OpenAI's batch API defines them, so that work which was interrupted
// at any moment goes on where it was: no request is lost, and none is answered twice.
package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

// Options of Run.
type Options struct {
	Input  string // file of requests, one JSON object a line
	Output string // file of answers, one JSON object a line, in the order in which they are ready; continued if it exists

	// answer only the requests whose place in the file (from 0) leaves Shard when divided by Shards; 0: all
	Shard, Shards int
	Parallel      int // requests at once, at least 1

	// Do answers one request. The answer is JSON. A request that Do gives up on since ctx has ended may have any answer:
	// it is dropped.
	Do func(ctx context.Context, r Request) (status int, answer []byte)

	// Tries is how often a request is asked, of which the answers' statuses are [Transient], before such an answer is
	// written: again when all others have been asked. 0 is 1.
	Tries int

	// Again says by its status which answer of an earlier run counts as none: its line is dropped. nil: none.
	Again func(status int) bool

	Progress func(Report)     // called after each answer, by one goroutine at a time; nil: none
	Now      func() time.Time // nil: time.Now
}

// Transient reports whether a status is of a program that cannot answer now, or has failed: another try may have an
// answer.
func Transient(status int) bool {
	switch status {
	case http.StatusTooManyRequests, 499, http.StatusInternalServerError, http.StatusServiceUnavailable,
		http.StatusGatewayTimeout:
		return true
	}
	return false
}

// tooLarge reports whether an answer with status 503 is of the request: its text alone needs more memory than there is
// for keys and values. Others of the status are of a program that answers no request.
func tooLarge(answer []byte) bool {
	var a struct {
		Error struct {
			Code any `json:"code"`
		} `json:"error"`
	}
	return json.Unmarshal(answer, &a) == nil && a.Error.Code == "kv_memory"
}

// Request is a line of the input.
type Request struct {
	ID   string // custom_id
	Path string // of an endpoint, as "/v1/chat/completions"
	Body []byte // a JSON object
}

// Report says what Run has done.
type Report struct {
	Requests int `json:"n_requests"` // of the shard
	Before   int `json:"n_before"`   // answered by earlier runs
	Done     int `json:"n_done"`     // answered by this one
	Failed   int `json:"n_failed"`   // of Done: with another status than 200

	PromptTokens     int64 `json:"n_prompt_tokens"`
	CachedTokens     int64 `json:"n_cached_tokens"` // of PromptTokens: not computed, since another text began alike
	CompletionTokens int64 `json:"n_completion_tokens"`
	Drafted          int64 `json:"n_drafted"`
	Accepted         int64 `json:"n_accepted"`

	Seconds float64 `json:"wall_seconds"`
}

var (
	// ErrInput is of a line of the input that is no request.
	ErrInput = errors.New("not a batch of requests")
	// ErrOutput is of an output file that does not belong to the input, or is in use.
	ErrOutput = errors.New("not the answers to these requests")
)

// answered is a line of the output.
type answered struct {
	ID       string    `json:"id"`
	CustomID string    `json:"custom_id"`
	Response *response `json:"response"`
	Error    any       `json:"error"` // null: an answer with an error has the status and the body that HTTP would have
}

type response struct {
	Status    int             `json:"status_code"`
	RequestID string          `json:"request_id"`
	Body      json.RawMessage `json:"body"`
}

// Run answers all requests of the shard that have no answer yet. It checks the whole input first, so that a mistake in
// its last line is not found after hours. When ctx ends, Run drops the requests under way and returns its error; a
// later Run goes on.
func Run(ctx context.Context, o Options) (r Report, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Shards > 0 && (o.Shard < 0 || o.Shard >= o.Shards) {
		return r, fmt.Errorf("shard %d of %d: the first is 0", o.Shard, o.Shards)
	}
	begin := o.Now()
	in, err := openInput(o.Input)
	if err != nil {
		return r, err
	}
	defer in.close()
	out, err := openOutput(o.Output, o.Input)
	if err != nil {
		return r, err
	}
	defer func() {
		if out != nil {
			err = errors.Join(err, out.close())
		}
	}()

	var open []int // places in the input that have no answer yet
	again := map[string]bool{}
	for i := range in.requests {
		if o.Shards > 0 && i%o.Shards != o.Shard {
			continue
		}
		r.Requests++
		id := in.requests[i].id
		status, ok := out.done[id]
		delete(out.done, id)
		if ok && (o.Again == nil || !o.Again(status)) {
			r.Before++
			continue
		}
		if ok {
			again[id] = true
		}
		open = append(open, i)
	}
	if len(out.done) > 0 {
		id := slices.Sorted(maps.Keys(out.done))[0]
		return r, fmt.Errorf("%s: %w: %s has no custom_id %q, or another shard has it", o.Output, ErrOutput, o.Input, id)
	}

	if len(again) > 0 {
		if out, err = out.without(again, o.Input, os.Rename); err != nil {
			return r, err
		}
	}

	work, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		mu    sync.Mutex // of r, the output and the first error
		first error
	)
	// ask has a request answered, and reports whether it is to be asked again. last: it is not.
	ask := func(i int, last bool) (again bool) {
		asked, err := in.read(i)
		var status int
		var answer []byte
		if err == nil {
			status, answer = o.Do(work, asked)
		}
		mu.Lock()
		defer mu.Unlock()
		unavailable := status == http.StatusServiceUnavailable
		large := unavailable && tooLarge(answer)
		switch {
		case first != nil || work.Err() != nil: // this answer may not be one
		case err != nil:
			first = err
		case unavailable && !large:
			first = fmt.Errorf("request %q: %s", in.requests[i].id, answer)
		case Transient(status) && !last && !large:
			return true
		default:
			if first = out.write(in.requests[i].id, status, answer); first == nil {
				r.count(status, answer)
				r.Seconds = o.Now().Sub(begin).Seconds()
				if o.Progress != nil {
					o.Progress(r)
				}
			}
		}
		if first != nil {
			cancel()
		}
		return false
	}
	for try := 1; len(open) > 0 && work.Err() == nil; try++ {
		open = chosen(work, open, o.Parallel, func(i int) bool { return ask(i, try >= o.Tries) })
	}
	r.Seconds = o.Now().Sub(begin).Seconds()
	if first == nil {
		first = ctx.Err()
	}
	return r, first
}

// chosen calls f of each item, of parallel ones at once, until ctx ends, and returns those of which it reports true.
func chosen(ctx context.Context, items []int, parallel int, f func(int) bool) (list []int) {
	var (
		wait   sync.WaitGroup
		mu     sync.Mutex // of list
		places = make(chan int)
	)
	for range min(max(parallel, 1), len(items)) {
		wait.Go(func() {
			for i := range places {
				if ctx.Err() != nil { // it was handed out as the work ended
					return
				}
				if f(i) {
					mu.Lock()
					list = append(list, i)
					mu.Unlock()
				}
			}
		})
	}
feed:
	for _, i := range items {
		select {
		case places <- i:
		case <-ctx.Done():
			break feed
		}
	}
	close(places)
	wait.Wait()
	return list
}

// cached is what an answer says of its prompt's tokens.
type cached struct {
	Cached int64 `json:"cached_tokens"`
}

// count adds an answer to the report.
func (r *Report) count(status int, answer []byte) {
	r.Done++
	if status != http.StatusOK {
		r.Failed++
	}
	var a struct {
		Usage struct {
			Prompt     int64  `json:"prompt_tokens"`
			Input      int64  `json:"input_tokens"` // of /v1/responses
			Completion int64  `json:"completion_tokens"`
			Output     int64  `json:"output_tokens"`
			Details    cached `json:"prompt_tokens_details"`
			Inputs     cached `json:"input_tokens_details"`
		} `json:"usage"`
		Timings struct {
			Drafted  int64 `json:"draft_n"`
			Accepted int64 `json:"draft_n_accepted"`
		} `json:"timings"`
	}
	if json.Unmarshal(answer, &a) != nil {
		return
	}
	r.PromptTokens += a.Usage.Prompt + a.Usage.Input
	r.CachedTokens += a.Usage.Details.Cached + a.Usage.Inputs.Cached
	r.CompletionTokens += a.Usage.Completion + a.Usage.Output
	r.Drafted += a.Timings.Drafted
	r.Accepted += a.Timings.Accepted
}
