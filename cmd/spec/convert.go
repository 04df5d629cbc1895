package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/specgo/spec/cmd/spec/internal/output"
	"github.com/specgo/spec/convert"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/internal/units"
)

var convertCommand = command{
	name:  "convert",
	does:  "make a GGUF file of a Hugging Face model folder",
	usage: "DIR OUT [--type TYPE] [--base DIR] [--target FILE|DIR]",
	about: `Reads DIR/config.json, the weights (model.safetensors or, where there is none, pytorch_model.bin; one file, or those that its .index.json lists; F32, F16, BF16, F64, and F8_E4M3, also with a factor for each block or matrix), the tokenizer (the first of tokenizer.model, spiece.model, tokenizer.json, tekken.json, vocab.json with merges.txt, vocab.txt) and, where they are there, chat templates, generation_config.json (what ends a text) and modules.json (how vectors are pooled, or which tokens a score is made of), and writes a GGUF file. A folder that is called Qwen3-Reranker, or whose README.md is, becomes a reranker, with what it is asked as the template "rerank". Norms, biases and position embeddings are stored in F32, matrices in TYPE. Experts that are published as MXFP4 (gpt-oss) stay MXFP4, code for code, whatever TYPE is; saved after training as F16, BF16 or F32 they have TYPE like the others. Matrices of the quantization method fp8 are written as what they and their factors stand for, in TYPE; other methods are refused. Of models that read pictures or hear, what is for texts is converted. One tensor at a time is in memory, of experts in one tensor one expert. Of a PyTorch file only the list of tensors is interpreted; nothing in it is executed, and other objects than tensors are refused.

What cannot be converted is refused by name: a class of config.json that is not known, a key that may change what the model computes, a tensor that has no place. Classes: ` + strings.Join(convert.Classes(), ", ") + `.

A folder with adapter_config.json and adapter_model.safetensors (PEFT) is a LoRA adapter; --base is a folder with the config.json of its model.

A draft head (EAGLE-3, DFlash, DSpark) takes the tokenizer of its target, and layers of it: --target is the target's GGUF file, or its folder. Classes: ` + strings.Join(convert.HeadClasses(), ", ") + `, and LlamaForCausalLM with draft_vocab_size.

OUT appears when it is whole. For mixtures of types, such as Q4_K_M, convert to f16 and then use quantize.`,
	new: func() job { return &converting{typ: "f16"} },
}

// converting is the options of convert.
type converting struct {
	dir, out, typ string
	base          string // of an adapter
	target        string // of a draft head
}

func (c *converting) flags() []group {
	return []group{{"files", []flag{
		fileFlag("-o, --output", &c.out, "OUT", "the file to write").orWord(),
		fileFlag("--base", &c.base, "DIR", "of an adapter: the folder with config.json of the model that it is for"),
		fileFlag("--target, --target-model-dir", &c.target, "FILE|DIR",
			"of a draft head: its target, a GGUF file or a folder as DIR"),
		choiceFlag("--type", &c.typ, engine.WeightNames(), "type of the matrices in OUT").or("f16"),
	}}}
}

func (c *converting) operand(v string) error {
	switch {
	case c.dir == "":
		c.dir = v
	case c.out == "":
		c.out = v
	default:
		return errors.New("one argument too many: DIR OUT")
	}
	return nil
}

func (c *converting) check() error {
	switch {
	case c.dir == "":
		return usagef("DIR is missing: the folder with config.json")
	case c.out == "":
		return usagef("OUT is missing: the file to write")
	case c.base != "" && c.target != "":
		return usagef("--base is for an adapter, --target for a draft head")
	}
	return nil
}

// open opens the folder: that of a model, of an adapter or of a draft head.
func (c *converting) open() (*convert.Model, error) {
	if c.target != "" {
		return convert.OpenHead(c.dir, c.target)
	}
	_, err := os.Stat(filepath.Join(c.dir, convert.AdapterConfig))
	switch {
	case err == nil && c.base == "":
		return nil, usagef("%s is an adapter: --base DIR is the folder with config.json of its model", shown(c.dir))
	case err == nil:
		return convert.OpenAdapter(c.dir, c.base)
	case c.base != "":
		return nil, usagef("--base: %s has no %s", shown(c.dir), convert.AdapterConfig)
	}
	m, err := convert.Open(c.dir)
	if errors.Is(err, convert.ErrHead) {
		return nil, usagef("%v: --target FILE|DIR is its target", err)
	}
	return m, err
}

func (c *converting) run(ctx context.Context, p *program) error {
	m, err := c.open()
	if err != nil {
		return err
	}
	defer m.Close()
	if c.out == "-" && terminal.Is(p.stdout) {
		return fmt.Errorf("-o -: standard output is a terminal, not a file or pipe")
	}
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	inputs := []string{c.target}
	for _, e := range entries {
		inputs = append(inputs, filepath.Join(c.dir, e.Name()))
	}
	if err := output.Distinct(c.out, inputs...); err != nil {
		return err
	}
	stdout, _ := p.stdout.(*os.File)
	file, err := output.Create(ctx, c.out, stdout)
	if err != nil {
		return err
	}
	defer file.Abort()
	bar := terminal.NewBar(p.stderr, filepath.Base(c.out))
	defer bar.Clear()
	if err := m.Write(ctx, file, convert.Options{
		Type: c.typ, Progress: func(done, total int64) { bar.Set(done, total, "") }}); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := file.Commit(); err != nil {
		return err
	}
	bar.Clear()
	for _, n := range m.Notes {
		fmt.Fprintf(p.stderr, "note: %s\n", n)
	}
	line := fmt.Sprintf("%s: %s, %s, %s parameters in %d tensors", shown(c.out), m.Arch, c.typ,
		units.Count(m.Parameters()), m.Tensors())
	if info, err := os.Stat(c.out); c.out != "-" && err == nil {
		line += ", " + size(info.Size())
	}
	_, err = fmt.Fprintln(p.stderr, line+", from "+m.From)
	return err
}
