//go:build ignore

// Generate lets the embedded target continue pieces of a text, for eagle.py to train on:
//
//	go run testdata/train/generate.go train.bin own.bin ROWS SEED
//
// train.bin is token ids as uint16; own.bin becomes ROWS rows of 512: 128 tokens of the text and what the target
// writes after them, greedily in the rows with an even number, at temperature 0.8 in the others.
package main

import (
	"context"
	"encoding/binary"
	"log"
	"math/rand/v2"
	"os"
	"strconv"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/testdata"
)

const (
	length   = 512
	prompt   = 128
	together = 64 // texts that share a pass
)

func main() {
	raw, err := os.ReadFile(os.Args[1])
	check(err)
	rows, err := strconv.Atoi(os.Args[3])
	check(err)
	text := make([]uint16, len(raw)/2)
	for i := range text {
		text[i] = binary.LittleEndian.Uint16(raw[2*i:])
	}
	ctx := context.Background()
	rt, err := engine.NewRuntime(engine.RuntimeOptions{})
	check(err)
	m, err := engine.New(ctx, rt, testdata.Target(), testdata.Target().Size(), engine.Options{})
	check(err)
	seed, err := strconv.ParseUint(os.Args[4], 10, 64)
	check(err)
	rng := rand.New(rand.NewPCG(seed, 0))
	out, err := os.Create(os.Args[2] + ".tmp")
	check(err)
	for done := 0; done < rows; done += together {
		var batch engine.Batch
		var samplers []*sampling.Sampler
		all := make([][]int32, together)
		for i := range all {
			s, err := m.NewSession(engine.SessionOptions{Context: length})
			check(err)
			from := rng.IntN(len(text) - prompt)
			for _, id := range text[from : from+prompt] {
				all[i] = append(all[i], int32(id))
			}
			batch = append(batch, engine.Segment{Session: s, Tokens: all[i], Logits: engine.Last})
			how := engine.Sampling{}
			if i%2 == 1 {
				how = engine.Sampling{Temperature: 0.8, Seed: rng.Uint64()}
			}
			sampler, err := sampling.New(m.Config().Vocab, how)
			check(err)
			samplers = append(samplers, sampler)
		}
		for len(all[0]) < length {
			results, err := m.Forward(ctx, batch)
			check(err)
			for i, r := range results {
				check(r.Err)
				all[i] = append(all[i], samplers[i].Pick(r.Logits.Row(0), all[i]))
				batch[i].Tokens = all[i][len(all[i])-1:]
			}
		}
		for i, ids := range all {
			for _, id := range ids {
				check(binary.Write(out, binary.LittleEndian, uint16(id)))
			}
			batch[i].Session.Close()
		}
		log.Println(done+together, "rows")
	}
	check(out.Close())
	check(os.Rename(os.Args[2]+".tmp", os.Args[2]))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
