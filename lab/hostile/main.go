// Command hostile measures what hostile requests do to an ordinary one: its time to the first token beside so many
// clients that send them all the time, as a multiple of that alone.
//
//	go build -o /tmp/spec ./cmd/spec && go -C lab run ./hostile -spec /tmp/spec [-rounds 10] [-clients 8]
//
// It starts the server, with the embedded pair or a model of yours, and asks in turn: alone, beside clients of each
// kind by itself, and beside clients of all kinds. The kinds are those of the soak of package serve and of issue 25.
// The last one is no attack but as many clients with short requests, to compare with: all are answered, and more of
// them at once than there are places. A ratio is that of two medians of a round; printed are the median of the rounds
// and the quartiles, and the 95th of 100 of all times. The clients take processor time too: on a machine of two cores
// that is part of the ratio.
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
}

// measurement is what is asked of whom.
type measurement struct {
	base   string
	client *http.Client
	each   int // ordinary requests of a part of a round
	asked  int // ordinary requests so far
	prompt int // words of an ordinary request

	answered atomic.Int64 // hostile requests
}

func command(ctx context.Context, args []string) error {
	f := flag.NewFlagSet("hostile", flag.ContinueOnError)
	spec := f.String("spec", "", "the binary of spec to start")
	model := f.String("m", "", "a model's file; none: the embedded pair")
	rounds := f.Int("rounds", 10, "how often each is measured")
	each := f.Int("each", 15, "ordinary requests of each in a round")
	clients := f.Int("clients", 8, "hostile clients")
	prompt := f.Int("prompt", 20, "words of an ordinary request's prompt")
	only := f.String("only", "", "one kind of hostile request alone")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *spec == "" || *rounds < 1 || *each < 1 || *clients < 1 || *prompt < 1 {
		return errors.New("-spec is the binary; -rounds, -each, -clients and -prompt are at least 1")
	}
	kinds := hostile()
	if *only != "" {
		kinds = slices.DeleteFunc(kinds, func(k kind) bool { return k.name != *only })
	}
	if len(kinds) == 0 {
		return fmt.Errorf("-only %q: there is no such kind", *only)
	}
	m := &measurement{client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 4 * *clients}}, each: *each,
		prompt: *prompt}
	end, err := m.start(ctx, *spec, *model)
	if err != nil {
		return err
	}
	defer end()
	fmt.Printf("%d clients, %d rounds of %d requests of %d words, %d processors\n", *clients, *rounds, *each, *prompt,
		runtime.NumCPU())
	if _, err := m.ordinary(ctx); err != nil { // a first one
		return err
	}
	groups := [][]kind{kinds[:max(1, len(kinds)-1)]}
	for i := range kinds {
		if len(kinds) > 1 {
			groups = append(groups, kinds[i:i+1])
		}
	}
	ratios, alone, beside := make([][]float64, len(groups)), []float64{}, make([][]float64, len(groups))
	counts := make([]float64, len(groups))
	for range *rounds {
		for g, group := range groups {
			quiet, err := m.ordinary(ctx)
			if err != nil {
				return err
			}
			before, begin := m.answered.Load(), time.Now()
			stop := m.attack(ctx, group, *clients)
			time.Sleep(300 * time.Millisecond) // until all are at it
			loud, err := m.ordinary(ctx)
			stop()
			if err != nil {
				return err
			}
			counts[g] += float64(m.answered.Load()-before) / time.Since(begin).Seconds() / float64(*rounds)
			alone, beside[g] = append(alone, quiet...), append(beside[g], loud...)
			ratios[g] = append(ratios[g], at(loud, 0.5)/at(quiet, 0.5))
			time.Sleep(200 * time.Millisecond)
		}
	}
	fmt.Printf("%-32s first token %.2f ms, 95th %.2f ms\n", "alone", at(alone, 0.5), at(alone, 0.95))
	for g, group := range groups {
		name := "all of them"
		if len(group) == 1 {
			name = group[0].name
		}
		r := ratios[g]
		fmt.Printf("%-32s first token %.2f ms, 95th %.2f ms, ratio %.2f [%.2f to %.2f], %.0f hostile answers/s\n", name,
			at(beside[g], 0.5), at(beside[g], 0.95), at(r, 0.5), at(r, 0.25), at(r, 0.75), counts[g])
	}
	return nil
}

// at is a quantile.
func at(list []float64, share float64) float64 {
	list = slices.Sorted(slices.Values(list))
	x := share * float64(len(list)-1)
	i := int(x)
	return list[i] + (x-float64(i))*(list[min(i+1, len(list)-1)]-list[i])
}

// start runs the server until end is called.
func (m *measurement) start(ctx context.Context, spec, model string) (end func(), err error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err := errors.Join(err, l.Close()); err != nil {
		return nil, err
	}
	args := []string{"serve", "--host", "127.0.0.1", "--port", port, "--log-format", "off"}
	if model != "" {
		args = append(args, "-m", model)
	}
	server := exec.CommandContext(ctx, spec, args...)
	server.Cancel = func() error { return server.Process.Signal(os.Interrupt) }
	var log bytes.Buffer
	server.Stdout, server.Stderr = &log, &log
	if err := server.Start(); err != nil {
		return nil, err
	}
	end = func() { _, _ = server.Process.Signal(os.Interrupt), server.Wait() }
	m.base = "http://127.0.0.1:" + port
	for range 600 {
		if a, err := m.client.Get(m.base + "/health"); err == nil {
			_ = a.Body.Close()
			if a.StatusCode == http.StatusOK {
				return end, nil
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	end()
	return nil, fmt.Errorf("the server does not answer: %s", &log)
}

// ordinary is the milliseconds to the first token of some requests, one after the other. No prompt begins as another.
func (m *measurement) ordinary(ctx context.Context) (list []float64, err error) {
	for range m.each {
		m.asked++
		var prompt strings.Builder
		fmt.Fprintf(&prompt, "// %d", m.asked)
		for i := range m.prompt {
			fmt.Fprintf(&prompt, " %s", []string{"read", "the", "next", "line", "of", "a", "file"}[(i*5+m.asked)%7])
		}
		body, err := json.Marshal(map[string]any{"prompt": prompt.String(), "max_tokens": 8, "stream": true,
			"temperature": 0})
		if err != nil {
			return nil, err
		}
		ms, err := m.first(ctx, body)
		if err != nil {
			return nil, err
		}
		list = append(list, ms)
	}
	return list, nil
}

// first is the milliseconds until the first event of an answer, which is read to its end.
func (m *measurement) first(ctx context.Context, body []byte) (ms float64, err error) {
	r, err := http.NewRequestWithContext(ctx, "POST", m.base+"/v1/completions", bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	begin := time.Now()
	a, err := m.client.Do(r)
	if err != nil {
		return 0, err
	}
	defer a.Body.Close()
	if a.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(a.Body)
		return 0, fmt.Errorf("status %d: %.200s", a.StatusCode, text)
	}
	lines := bufio.NewScanner(a.Body)
	for lines.Scan() {
		if ms == 0 && strings.HasPrefix(lines.Text(), "data:") {
			ms = time.Since(begin).Seconds() * 1000
		}
	}
	return ms, lines.Err()
}

// attack has clients send requests of these kinds in turn until stop is called, which waits for them.
func (m *measurement) attack(ctx context.Context, kinds []kind, clients int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var wait sync.WaitGroup
	for c := range clients {
		wait.Go(func() {
			for i := c; ctx.Err() == nil; i++ {
				k := &kinds[i%len(kinds)]
				r, err := http.NewRequestWithContext(ctx, "POST", m.base+k.path, bytes.NewReader(k.body))
				if err != nil {
					return
				}
				a, err := m.client.Do(r)
				if err != nil { // the measurement is over, or the connection made room for another
					continue
				}
				_, err = io.Copy(io.Discard, a.Body)
				if err = errors.Join(err, a.Body.Close()); err != nil {
					continue
				}
				m.answered.Add(1)
			}
		})
	}
	return func() {
		cancel()
		wait.Wait()
	}
}

// kind is a hostile request.
type kind struct {
	name, path string
	body       []byte
}

// hostile are the kinds that serve's soak sends, and those that issue 25 names beside them.
func hostile() (list []kind) {
	add := func(name, path string, body map[string]any) {
		text, err := json.Marshal(body)
		if err != nil {
			panic(err) // of constants
		}
		list = append(list, kind{name, path, text})
	}
	grammar := func(name, text string) {
		add(name, "/v1/completions", map[string]any{"prompt": "x", "max_tokens": 1, "grammar": text})
	}
	schema := func(name, text string) {
		add(name, "/v1/completions", map[string]any{"prompt": "x", "max_tokens": 1, "json_schema": json.RawMessage(text)})
	}
	schema("a number of 60,000 digits", `{"type":"integer","minimum":1`+strings.Repeat("0", 60000)+`}`)
	var names, required []string
	for i := range 10 {
		names = append(names, fmt.Sprintf(`"p%d":{"$ref":"#/$defs/a"}`, i))
		required = append(required, fmt.Sprintf(`"p%d"`, i))
	}
	schema("a type of its own type", `{"oneOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"object",`+
		`"properties":{`+strings.Join(names, ",")+`},"required":[`+strings.Join(required, ",")+`]}}}`)
	chain := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "r%d ::= r%d\n", i, i+1)
		}
		return "root ::= r0\n" + b.String() + fmt.Sprintf("r%d ::= \"\"\n", n)
	}
	grammar("70,000 empty rules", chain(70_000))
	grammar("200,000 empty rules", chain(200_000))
	grammar("25 counted alternatives", `root ::= "x"`+strings.Repeat(` | [a-z]* "a" [a-z]{30}`, 25))
	add("a conversation of 5,001 messages", "/v1/chat/completions", map[string]any{"messages": slices.Repeat(
		[]map[string]string{{"role": "user", "content": "x"}}, 5001)})
	add("none, but short requests", "/v1/completions", map[string]any{"prompt": "x", "max_tokens": 1})
	return list
}
