package main

import (
	"bufio"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/grammar"
)

// speed measures what masks cost under the vocabulary of a GGUF file: for every nth schema that compiles, the time from
// the schema's text to the first mask; then, along the first valid value in the tokenizer's spelling, each state's
// mask when it is new and when it is asked for again; and the memory that the grammars keep.
func speed(dir, file string, every, most int) error {
	f, err := gguf.OpenFile(file)
	if err != nil {
		return err
	}
	tok, err := engine.ReadTokenizer(f)
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	v := grammar.NewVocabulary(tok, grammar.VocabularyOptions{})
	begin := time.Now()
	if _, err := masks(v, tok, record{Schema: json.RawMessage(`{"type":"null"}`)}, 0, &figures{}); err != nil {
		return err
	}
	fmt.Printf("vocabulary of %d tokens: made in %v\n", tok.Size(), time.Since(begin).Round(time.Millisecond))
	cases, err := os.Open(filepath.Join(dir, "schemas.jsonl.gz"))
	if err != nil {
		return err
	}
	defer cases.Close()
	unzipped, err := gzip.NewReader(cases)
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(unzipped)
	lines.Buffer(nil, 1<<26)
	var all figures
	n, refused := 0, 0
	for lines.Scan() {
		if n++; n%every != 0 {
			continue
		}
		var c record
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			return err
		}
		if ok, err := masks(v, tok, c, most, &all); err != nil {
			fmt.Printf("%s: %v\n", c.Name, err)
		} else if !ok {
			refused++
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	fmt.Printf("%d schemas, %d refused\n", len(all.first)+refused, refused)
	print("first mask of a new schema", all.first)
	print("    of which the schema is read in", all.parsed)
	print("mask of a new state", all.fresh)
	print("mask of a known state", all.known)
	memory := 0
	for _, m := range all.memory {
		memory = max(memory, m)
	}
	fmt.Printf("memory of the grammars, at most: %.1f MiB of %.0f\n", float64(memory)/(1<<20),
		float64(grammar.DefaultLimits().Memory)/(1<<20))
	return lines.Err()
}

// figures are the times and bytes of all schemas.
type figures struct {
	first, parsed, fresh, known []time.Duration
	memory                      []int
}

// masks measures one schema along its first valid value, of at most so many tokens; false: it does not compile.
func masks(v *grammar.Vocabulary, tok *bpe.Tokenizer, c record, most int, into *figures) (bool, error) {
	b := grammar.NewBudget(context.Background(), grammar.Limits{})
	begin := time.Now()
	g, err := grammar.ParseSchema(b, c.Schema, grammar.SchemaOptions{})
	if err != nil {
		return false, nil
	}
	parsed := time.Since(begin)
	bound, err := g.Bind(b, v)
	if err != nil {
		return false, nil
	}
	defer bound.Close()
	state := bound.Start()
	if _, err := bound.Mask(state); err != nil {
		return true, err
	}
	into.first, into.parsed = append(into.first, time.Since(begin)), append(into.parsed, parsed)
	var text []byte
	for _, t := range c.Tests {
		if t.Valid {
			text = newOrder(c.Schema).write(t.Data)
			break
		}
	}
	ids := tok.Encode(string(text), bpe.EncodeOptions{})
	for _, id := range ids[:min(len(ids), most)] {
		next, ok, err := bound.Next(state, id)
		if err != nil {
			return true, err
		}
		if !ok {
			break
		}
		state = next
		begin := time.Now()
		if _, err := bound.Mask(state); err != nil {
			return true, err
		}
		fresh := time.Since(begin)
		begin = time.Now()
		if _, err := bound.Mask(state); err != nil {
			return true, err
		}
		into.fresh, into.known = append(into.fresh, fresh), append(into.known, time.Since(begin))
	}
	memory, _ := v.Memory()
	into.memory = append(into.memory, memory)
	return true, nil
}

func print(what string, times []time.Duration) {
	if len(times) == 0 {
		return
	}
	slices.Sort(times)
	at := func(percent int) time.Duration { return times[(len(times)-1)*percent/100].Round(100 * time.Nanosecond) }
	fmt.Printf("%s (%d): median %v, 95th percentile %v, 99th %v, longest %v\n", what, len(times), at(50), at(95), at(99),
		at(100))
}
