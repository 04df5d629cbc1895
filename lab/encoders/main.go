// Command encoders measures `spec embed` on random weights in an encoder's shape: beside another program that embeds
// the same file, and beside the server with several clients.
//
//	go -C lab run ./encoders make -vocabulary FILE.gguf [-shape minilm-l6]
//	go -C lab run ./encoders pairs -spec PROGRAM -peer PROGRAM [-n 10] [-threads 2] [-tokens 128] [-batch 512]
//	go -C lab run ./encoders clients -spec PROGRAM [-texts 10000] [-clients 8] [-n 3] [-threads 2]
//
// All take -types f16,q8_0 and -dir, the folder of the models. make writes DIR/TYPE.gguf with the tokenizer of a
// vocabulary file of the shape's size; the other two make texts of that file's words.
//
// pairs runs two programs in turn, each with one text and with -timed more: the difference is their time without
// loading. The peer is called as llama-embedding, with -batch as its -b, -ub and -c; or it is another build of spec,
// with -peer-is-spec. Printed are medians and quartiles of wall and of processor time for a text, and of the ratio
// peer / spec of each pair.
//
// clients starts `spec serve` and sends texts of 3 to 512 tokens, one to eight in a request, from as many connections;
// then `spec embed` embeds the same texts. Printed is the server's rate as a share of that of embed, both without
// loading, of each of n rounds and of their medians.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/synth"
)

// options are those of all three.
type options struct {
	dir, shape, vocabulary string
	types                  []string
	spec, peer             string
	peerIsSpec             bool
	rounds, threads        int
	tokens, batch, timed   int // of pairs
	texts, clients         int // of clients
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "encoders: %v\n", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("make, pairs or clients")
	}
	o := options{}
	flags := flag.NewFlagSet(args[0], flag.ContinueOnError)
	types := flags.String("types", "f16,q8_0", "of weights")
	flags.StringVar(&o.dir, "dir", os.TempDir(), "folder of the models")
	flags.StringVar(&o.shape, "shape", "minilm-l6", "a shape of `spec synth`")
	flags.StringVar(&o.vocabulary, "vocabulary", "", "GGUF file with a tokenizer")
	flags.StringVar(&o.spec, "spec", "spec", "program")
	flags.StringVar(&o.peer, "peer", "", "program it is compared with")
	flags.BoolVar(&o.peerIsSpec, "peer-is-spec", false, "the peer is another build of spec")
	flags.IntVar(&o.rounds, "n", 10, "rounds")
	flags.IntVar(&o.threads, "threads", 2, "of each program")
	flags.IntVar(&o.tokens, "tokens", 128, "of a text")
	flags.IntVar(&o.batch, "batch", 512, "tokens in a batch of the peer")
	flags.IntVar(&o.timed, "timed", 160, "texts of a pair that are timed")
	flags.IntVar(&o.texts, "texts", 10000, "sent to the server")
	flags.IntVar(&o.clients, "clients", 8, "connections to the server")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	o.types = strings.Split(*types, ",")
	does, ok := map[string]func(*options, context.Context, string) error{
		"make": (*options).make, "pairs": (*options).pairs, "clients": (*options).serve}[args[0]]
	if !ok || flags.NArg() > 0 {
		return fmt.Errorf("%q: make, pairs or clients", args[0])
	}
	for _, typ := range o.types {
		if err := does(&o, ctx, typ); err != nil {
			return fmt.Errorf("%s: %w", typ, err)
		}
	}
	return nil
}

func (o *options) model(typ string) string { return filepath.Join(o.dir, typ+".gguf") }

// make writes the model of a type.
func (o *options) make(_ context.Context, typ string) error {
	shape, err := synth.FindShape(o.shape)
	if err != nil {
		return err
	}
	random, err := synth.Random(shape, typ)
	if err != nil {
		return err
	}
	f, err := gguf.Open(random, random.Size(), o.shape)
	if err != nil {
		return err
	}
	words, err := gguf.OpenFile(o.vocabulary)
	if err != nil {
		return err
	}
	defer words.Close()
	const kind = "tokenizer.ggml.model"
	kvs := slices.DeleteFunc(slices.Clone(f.KVs), func(kv gguf.KV) bool { return kv.Key == kind })
	for _, kv := range words.KVs {
		if kv.Key == kind || strings.HasPrefix(kv.Key, "tokenizer.") && !f.Has(kv.Key) {
			kvs = append(kvs, kv)
		}
	}
	var tensors []gguf.TensorSource
	for _, t := range f.Tensors {
		tensors = append(tensors, gguf.TensorSource{Name: t.Name, Type: t.Type, Dims: t.Dims,
			Write: func(w io.Writer) error {
				_, err := io.Copy(w, io.NewSectionReader(f.Reader(), t.Offset, t.Size))
				return err
			}})
	}
	out, err := os.Create(o.model(typ))
	if err != nil {
		return err
	}
	return errors.Join(gguf.Write(out, kvs, tensors), out.Close())
}

// writer makes texts of random words that are a token each.
type writer struct {
	tok   *bpe.Tokenizer
	words []string
	rng   *rand.Rand
}

func newWriter(model string) (*writer, error) {
	f, err := gguf.OpenFile(model)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	w := &writer{rng: rand.New(rand.NewPCG(1, 2))}
	if w.tok, err = engine.ReadTokenizer(f); err != nil {
		return nil, err
	}
	if w.tok == nil {
		return nil, fmt.Errorf("%s: no tokenizer", model)
	}
	list, err := f.Strings("tokenizer.ggml.tokens")
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		word, begins := strings.CutPrefix(s, "\u2581")
		if begins && len(word) > 1 && strings.Trim(word, "abcdefghijklmnopqrstuvwxyz") == "" &&
			len(w.tok.Encode(word, bpe.EncodeOptions{})) == 1 {
			w.words = append(w.words, word)
		}
	}
	if len(w.words) < 100 {
		return nil, fmt.Errorf("%s: %d words that are a token", model, len(w.words))
	}
	return w, nil
}

// text has n tokens with the two marks; n is at least 3.
func (w *writer) text(n int) string {
	words := make([]string, n-2)
	for i := range words {
		words[i] = w.words[w.rng.IntN(len(w.words))]
	}
	return strings.Join(words, " ")
}

// check reports whether a text has n tokens.
func (w *writer) check(text string, n int) error {
	if got := len(w.tok.Encode(text, bpe.EncodeOptions{AddSpecial: true})); got != n {
		return fmt.Errorf("a text of %d tokens where %d are wanted", got, n)
	}
	return nil
}
