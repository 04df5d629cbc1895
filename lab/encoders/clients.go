package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// serve measures the server beside the command, in turn.
func (o *options) serve(ctx context.Context, typ string) error {
	w, err := newWriter(o.model(typ))
	if err != nil {
		return err
	}
	const longest = 512
	texts := make([]string, o.texts)
	tokens := 0
	for i := range texts {
		n := 3 + w.rng.IntN(longest-2)
		texts[i], tokens = w.text(n), tokens+n
		if err := w.check(texts[i], n); err != nil {
			return err
		}
	}
	var requests [][]string
	for rest := texts; len(rest) > 0; {
		n := min(1+w.rng.IntN(8), len(rest))
		requests, rest = append(requests, rest[:n]), rest[n:]
	}
	fmt.Printf("%s, %d threads: %d texts, %d tokens, %d requests, %d clients\n", typ, o.threads, len(texts), tokens,
		len(requests), o.clients)
	var server, command, share []float64
	for i := range o.rounds {
		a, err := o.sendAll(ctx, typ, requests)
		if err != nil {
			return err
		}
		b, err := o.embedAll(ctx, typ, texts)
		if err != nil {
			return err
		}
		rate := func(seconds float64) float64 { return float64(len(texts)) / seconds }
		server, command, share = append(server, rate(a)), append(command, rate(b)), append(share, b/a)
		fmt.Printf("  round %d: server %.1f texts/s, embed %.1f texts/s, share %.3f\n", i+1, rate(a), rate(b), b/a)
	}
	fmt.Printf("  server %s texts/s, embed %s texts/s, share %s\n", quartiles(server), quartiles(command),
		quartiles(share))
	return nil
}

// embedAll is the seconds that `spec embed` takes for all texts, as it reports: without loading.
func (o *options) embedAll(ctx context.Context, typ string, texts []string) (float64, error) {
	in, out := filepath.Join(o.dir, "texts.txt"), filepath.Join(o.dir, "vectors.bin")
	if err := os.WriteFile(in, []byte(strings.Join(texts, "\n")), 0o644); err != nil {
		return 0, err
	}
	os.Remove(out)
	var printed, failed bytes.Buffer
	c := exec.CommandContext(ctx, o.spec, "embed", "-m", o.model(typ), "-t", strconv.Itoa(o.threads), "-f", in, "-o", out,
		"--embd-output-format", "float32")
	c.Stdout, c.Stderr = &printed, &failed
	if err := c.Run(); err != nil {
		return 0, fmt.Errorf("spec embed: %w: %s", err, lastLine(failed.String()))
	}
	_, after, _ := strings.Cut(printed.String(), " tokens, in ")
	seconds, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(after), " s"), 64)
	if err != nil || !strings.HasPrefix(printed.String(), strconv.Itoa(len(texts))+" texts, 0 embedded before") {
		return 0, fmt.Errorf("spec embed printed %q", printed.String())
	}
	return seconds, nil
}

// sendAll is the seconds from the first request of the clients to the last answer.
func (o *options) sendAll(ctx context.Context, typ string, requests [][]string) (seconds float64, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c := exec.CommandContext(ctx, o.spec, "serve", "-m", o.model(typ), "-t", strconv.Itoa(o.threads), "--port", "0",
		"-np", strconv.Itoa(o.clients))
	said, err := c.StderrPipe()
	if err != nil {
		return 0, err
	}
	if err := c.Start(); err != nil {
		return 0, err
	}
	defer func() {
		c.Process.Signal(os.Interrupt)
		c.Wait()
	}()
	address := ""
	lines := bufio.NewScanner(said)
	for address == "" && lines.Scan() {
		_, address, _ = strings.Cut(lines.Text(), "listening on ")
	}
	if address == "" {
		return 0, errors.New("the server does not say where it listens")
	}
	go io.Copy(io.Discard, said)
	address, _, _ = strings.Cut(address, " ")
	web := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.clients}} // each keeps its connection
	if err := embedBy(ctx, web, address, requests[0]); err != nil {                 // the model is loaded
		return 0, err
	}
	todo := make(chan []string)
	var failed error
	var once sync.Once
	var clients sync.WaitGroup
	begin := time.Now()
	for range o.clients {
		clients.Go(func() {
			for texts := range todo {
				if err := embedBy(ctx, web, address, texts); err != nil {
					once.Do(func() { failed = err; cancel() })
				}
			}
		})
	}
	for _, texts := range requests {
		select {
		case todo <- texts:
		case <-ctx.Done():
		}
	}
	close(todo)
	clients.Wait()
	return time.Since(begin).Seconds(), cmp.Or(failed, ctx.Err())
}

// embedBy sends one request, whose answer must have a vector for each text.
func embedBy(ctx context.Context, web *http.Client, address string, texts []string) error {
	body, err := json.Marshal(map[string]any{"input": texts, "encoding_format": "base64"})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, "POST", address+"/v1/embeddings", bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := web.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var vectors struct {
		Data []struct {
			Embedding string `json:"embedding"`
		} `json:"data"`
	}
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 300)) // what it says is more than its status does
		return fmt.Errorf("status %d: %s", answer.StatusCode, bytes.TrimSpace(text))
	}
	if err := json.NewDecoder(answer.Body).Decode(&vectors); err != nil {
		return fmt.Errorf("an answer that is not one: %w", err)
	}
	if len(vectors.Data) != len(texts) || len(texts) == 0 || len(vectors.Data[0].Embedding) < 100 {
		return fmt.Errorf("%d vectors of %d texts", len(vectors.Data), len(texts))
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
