package grammar

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime/debug"
	"runtime/metrics"
	"testing"
)

// fuzzLimits are small, so that a fuzzer meets them often, and allocatedMost is what may be allocated under them in
// all: what is counted, several times over for what grows and what is thrown away. The whole program gets fuzzMemory.
var fuzzLimits = Limits{Steps: 1 << 19, Bytes: 2 << 20, Memory: 1 << 20}

const (
	allocatedMost = 64 << 20
	fuzzMemory    = 512 << 20
)

// allocated is how many bytes the program has allocated so far.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// fuzzed compiles a source and asks for the first masks of a text under it. Whatever it is, it costs no more than its
// limits allow, every error is the source's own, and what a mask allows may follow.
func fuzzed(t *testing.T, v *Vocabulary, parse func(b *Budget) (*Grammar, error)) {
	t.Helper()
	before := allocated()
	defer func() {
		if n := allocated() - before; n > allocatedMost {
			t.Errorf("%d bytes were allocated", n)
		}
		if v.used > v.limits.Memory || v.users != 0 {
			t.Errorf("%d bytes are used by %d texts", v.used, v.users)
		}
	}()
	c, err := v.Constraint(context.Background(), "", parse)
	if err != nil {
		if !errors.Is(err, ErrGrammar) {
			t.Error(err)
		}
		return
	}
	defer c.Close()
	random := rand.New(rand.NewPCG(1, 2))
	for state, n := c.Start(), 0; n < 6 && state != ended; n++ {
		mask, err := c.Mask(state)
		if err == nil {
			_, err = c.Forced(state)
		}
		if err != nil {
			if !errors.Is(err, ErrLimit) {
				t.Error(err)
			}
			return
		}
		ids := maskIDs(mask)
		if len(ids) == 0 {
			return
		}
		id := ids[random.IntN(len(ids))]
		next, ok, err := c.Next(state, id)
		if err != nil && !errors.Is(err, ErrLimit) || err == nil && !ok {
			t.Fatalf("token %d is in the mask: %v, %v", id, ok, err)
		}
		if err != nil {
			return
		}
		state = next
	}
}

// fuzzVocabulary has words of JSON and of grammars.
func fuzzVocabulary() *Vocabulary {
	v := bytesVocabulary{testWords}
	return NewVocabulary(v, VocabularyOptions{Encode: v.encode, Limits: fuzzLimits})
}

// FuzzSchema: no schema costs more than its limits allow. testdata/fuzz has schemas that once did, and their kin.
func FuzzSchema(f *testing.F) {
	debug.SetMemoryLimit(fuzzMemory)
	random := rand.New(rand.NewPCG(9, 10))
	for range 20 {
		f.Add(randomSchema(random, 2), byte(0))
	}
	f.Fuzz(func(t *testing.T, source string, how byte) {
		o := []SchemaOptions{{}, {Spaces: true}, {Blanks: true}, gemma, python, {Notation: Notation{Quote: "''"}},
			{AnyOrder: true}}[how%7]
		fuzzed(t, fuzzVocabulary(), func(b *Budget) (*Grammar, error) { return ParseSchema(b, []byte(source), o) })
	})
}

// FuzzGBNF: no grammar costs more than its limits allow.
func FuzzGBNF(f *testing.F) {
	debug.SetMemoryLimit(fuzzMemory)
	f.Fuzz(func(t *testing.T, source string) {
		fuzzed(t, fuzzVocabulary(), func(b *Budget) (*Grammar, error) { return ParseGBNF(b, source) })
	})
}
