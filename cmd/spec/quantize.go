package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/specgo/spec/cmd/spec/internal/output"
	"github.com/specgo/spec/convert"
	"github.com/specgo/spec/imatrix"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/tensor"
)

var quantizeCommand = command{
	name:  "quantize",
	does:  "convert the weights of a GGUF file to another type",
	usage: "IN OUT TYPE, or -m IN -o OUT --type TYPE",
	about: `Writes IN again with its matrices in another type. TYPE is llama.cpp's name, in any case: most matrices get the type it is named after, the output matrix Q6_K or Q8_0 (with iq2 types and iq3_xxs Q5_K), and with q4_k_m and q5_k_m also half of attn_v and ffn_down Q6_K; q3_k, q4_k and q5_k are those that end in _m. With --pure all get the type itself, and OUT is the model that --weights TYPE makes of IN while loading. Norms, biases, position embeddings, routers and other small tensors stay as they are, and a matrix that has its type already is copied byte for byte.

Below 4 bits a weight, and best with every type, give --imatrix: what a text shows to matter is kept more exactly. --tensor-type, --output-tensor-type and --token-embedding-type choose the types of some matrices, as recipes with a type for every tensor do; a pattern that matches no matrix is an error.

Where rows are no multiple of 256 long, Q2_K, Q3_K and the ternary types become Q4_0, the IQ types IQ4_NL, Q4_K Q5_0, Q5_K Q5_1 and Q6_K Q8_0; where they are no multiple of 32 either, F16, and with --pure the matrix stays as it is.

OUT appears when it is whole; until then a file of that name stays as it is. An existing file keeps its permissions. OUT may be a device, a named pipe, or - for standard output.`,
	new: func() job { return &quantize{} },
}

// quantize is the command's options.
type quantize struct {
	in, out, typ string
	pure         bool
	imatrix      string
	output       string // type of the output matrix; "": the mixture's
	embedding    string // of the token embeddings; likewise
	tensors      []convert.TensorChoice
	operands     []string
}

func (q *quantize) flags() []group {
	return []group{{"files", []flag{
		fileFlag("-m, --model", &q.in, "IN", "the file to read").env("LLAMA_ARG_MODEL").orWord(),
		fileFlag("-o, --output", &q.out, "OUT", "the file to write").orWord(),
		valueFlag("--type", "TYPE", "type of the weights in OUT: "+strings.Join(quantizations(), ", "),
			func(v string) (err error) {
				q.typ, err = choose(quantizations(), v)
				return err
			}).orWord().takes(quantizations()...),
		switchFlag("--pure", &q.pure, true, "the same type for all matrices"),
		fileFlag("--imatrix", &q.imatrix, "FILE", "an importance matrix (spec imatrix, or llama.cpp's of either format): "+
			"errors are weighed by it"),
		valueFlag("--tensor-type", "PATTERN=TYPE", "the type of the matrices whose names a regular expression matches "+
			"(ffn_down=q5_k, blk\\.(0|1)\\.=q8_0); may be repeated, the first that matches counts", q.chooseTensors),
		choiceFlag("--output-tensor-type", &q.output, writtenTypes(), "type of the output matrix"),
		choiceFlag("--token-embedding-type", &q.embedding, writtenTypes(), "type of the token embeddings"),
	}}, withoutEffect(ignored("", "--allow-requantize"))}
}

// writtenTypes are the names of the types that can be written.
func writtenTypes() (list []string) {
	for _, t := range tensor.Encodable() {
		list = append(list, t.String())
	}
	return list
}

// chooseTensors reads --tensor-type.
func (q *quantize) chooseTensors(v string) error {
	at := strings.LastIndexByte(v, '=')
	if at < 1 {
		return errors.New("want PATTERN=TYPE")
	}
	typ, err := choose(writtenTypes(), v[at+1:])
	if err != nil {
		return err
	}
	text := v[:at]
	if text != strings.ToLower(text) { // names are in small letters; \D in small letters would be its contrary
		text = "(?i)" + text
	}
	pattern, err := regexp.Compile(text)
	if err != nil {
		return err
	}
	q.tensors = append(q.tensors, convert.TensorChoice{Pattern: pattern, Type: typ})
	return nil
}

// given is what the flags say beyond the mixture.
func (q *quantize) given() (o convert.Quantizing, err error) {
	o = convert.Quantizing{Name: q.imatrix, Output: q.output, Embedding: q.embedding, Tensors: q.tensors}
	if q.imatrix != "" {
		o.Importance, err = imatrix.Open(q.imatrix)
	}
	return o, err
}

// quantizations are the names of the types to write, llama.cpp's.
func quantizations() (list []string) {
	for _, name := range convert.Mixtures() {
		list = append(list, strings.ToLower(name))
	}
	return append(list, "q4_k", "q5_k", "q3_k")
}

// mixture says which tensor gets which type.
func (q *quantize) mixture() (convert.Mixture, error) {
	if !q.pure {
		return convert.FindMixture(q.typ)
	}
	m, err := convert.PureMixture(q.typ)
	if err != nil {
		return m, usagef("--pure: %s is not a single type", q.typ)
	}
	return m, nil
}

func (*quantize) words() []string { return quantizations() }

func (q *quantize) operand(v string) error {
	if len(q.operands) == 3 {
		return errors.New("one argument too many: IN OUT TYPE")
	}
	q.operands = append(q.operands, v)
	return nil
}

// check completes the options by the operands: IN, OUT and TYPE, those that no flag gave.
func (q *quantize) check() (err error) {
	for _, p := range []*string{&q.in, &q.out, &q.typ} {
		if *p != "" || len(q.operands) == 0 {
			continue
		}
		v := q.operands[0]
		if p == &q.typ {
			if v, err = choose(quantizations(), v); err != nil {
				return usagef("%s: %v", shown(q.operands[0]), err)
			}
		}
		*p, q.operands = v, q.operands[1:]
	}
	switch {
	case len(q.operands) > 0:
		return usagef("%s: one argument too many: IN OUT TYPE", shown(q.operands[0]))
	case q.in == "":
		return usagef("IN is missing (-m): the file to read")
	case q.out == "":
		return usagef("OUT is missing (-o): the file to write")
	case q.typ == "":
		return usagef("TYPE is missing (--type): %s", strings.Join(quantizations(), ", "))
	}
	_, err = q.mixture()
	return err
}

func (q *quantize) run(ctx context.Context, p *program) error {
	f, err := openGGUF(q.in)
	if err != nil {
		return err
	}
	defer f.Close()
	if q.out == "-" && terminal.Is(p.stdout) {
		return fmt.Errorf("-o -: standard output is a terminal, not a file or pipe")
	}
	mixture, err := q.mixture()
	if err != nil {
		return err
	}
	given, err := q.given()
	if err != nil {
		return err
	}
	plan, err := convert.QuantizeBy(f, mixture, given)
	if err != nil {
		return err
	}
	if err := output.Distinct(q.out, append(f.Files, q.imatrix)...); err != nil {
		return err
	}
	stdout, _ := p.stdout.(*os.File)
	file, err := output.Create(ctx, q.out, stdout)
	if err != nil {
		return err
	}
	defer file.Abort()
	bar := terminal.NewBar(p.stderr, filepath.Base(q.out))
	defer bar.Clear()
	if err := plan.Write(ctx, file, func(done, total int64) { bar.Set(done, total, "") }); err != nil {
		return err
	}
	if err := file.Commit(); err != nil {
		return err
	}
	bar.Clear()
	var counts []string
	for _, t := range tensor.Encodable() {
		if n := plan.Counts[t.String()]; n > 0 {
			counts = append(counts, fmt.Sprintf("%d in %v", n, t))
			delete(plan.Counts, t.String())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(plan.Counts)) { // copied
		counts = append(counts, fmt.Sprintf("%d in %s", plan.Counts[name], name))
	}
	_, err = fmt.Fprintf(p.stderr, "%s: %d tensors, %s; %d bytes of weights, %d before\n",
		terminal.Line(q.out, 0), len(f.Tensors), strings.Join(counts, ", "), plan.Bytes, plan.Before)
	return err
}
