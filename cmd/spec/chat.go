package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/grammar"
	"github.com/specgo/spec/internal/lineedit"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/speculative"
)

var chatCommand = command{
	name:  "chat",
	does:  "hold a conversation with a model",
	usage: "[FILE | OWNER/NAME[:QUANT] | URL] [-md FILE] [-sys TEXT] [flags]",
	about: chatAbout,
	new:   func() job { return newConverse() },
}

var runCommand = command{
	name:  "run",
	does:  "the same as chat; with nothing else, with a model that is here or that it offers to download",
	usage: "[FILE | OWNER/NAME[:QUANT] | URL] [-md FILE] [-sys TEXT] [flags]",
	about: chatAbout,
	new:   func() job { return newConverse() },
}

const chatAbout = `The model is a GGUF file, or one of the Hugging Face Hub: OWNER/NAME[:QUANT] or the URL of its page or file; it is downloaded if it is not in the cache (spec help pull). Without one it is the largest model in the cache that fits into the memory; where there is none, small ones are offered on a terminal. --chat-template or -md without a model is for the pair inside this program. Whether it can converse is looked up in its header, before its weights are read.

Reads messages from standard input and writes the model's answers to standard output, by the chat template in the model's file. One line is one message; a line that ends in a backslash goes on in the next, and lines between """ and """ are one message. A line that begins with a slash is a command: /help lists them.

On a terminal messages are typed in a line editor: arrows, Home, End, Ctrl-arrows, Ctrl-A, E, K, U, W, Y, T, L, Alt-B, F and D as in a shell; Alt-Enter begins a further line; Tab completes commands and what stands behind them; the arrow up and Ctrl-R find earlier messages, which are kept in a file (--history none: they are not). What is pasted is one message, of up to 4 MiB.

Ctrl-C stops an answer; at the prompt it drops the line, and twice in a row it ends the program, as Ctrl-D does. What earlier turns have in common with the next prompt is not computed again.`

// converse is the command's options: generate's, with the conversation on.
type converse struct {
	generate
	word  string // what a person called the model, without a flag
	named bool   // model is that, not a path
}

func newConverse() *converse {
	c := &converse{generate: *newGenerate()}
	c.conversation = true
	return c
}

func (c *converse) operand(name string) error {
	if c.word != "" {
		return errors.New("a second model; -p TEXT is the first message, and with -st the only one")
	}
	c.word = name
	return nil
}

func (c *converse) check() error {
	if c.word != "" {
		if c.model != "" {
			return usagef("%s: a second model beside that of -m or -hf", shown(c.word))
		}
		c.model, c.named, c.word = c.word, true, ""
	}
	return c.generate.check()
}

// chatFlags are what a conversation takes beside what a text takes.
type chatFlags struct {
	conversation, singleTurn bool
	system                   string
	systemGiven              bool
	systemFile, systemText   string // of --system-prompt-file, and what it holds
	reasoning                string // on, off, reasoningAuto
	budget                   int    // most tokens of reasoning; 0: any number
	template, templateFile   string
	variables                map[string]any
	whenFull                 string // "" is to ask on a terminal, else to stop
	hideReasoning            bool
	history                  string // file to load
	typedHistory             string // file of what was typed before
	colorDrafts              bool
}

// reasoningAuto is --reasoning as the template has it.
const reasoningAuto = "auto"

// What to do when the context is full.
const (
	fullAsk  = "ask"
	fullDrop = "drop"
	fullStop = "stop"
)

func (f *chatFlags) check(g *generate) error {
	switch {
	case f.template != "" && f.templateFile != "":
		return usagef("--chat-template and --chat-template-file exclude each other")
	case f.systemGiven && f.systemFile != "":
		return usagef("--system-prompt and --system-prompt-file exclude each other")
	case !f.conversation && (f.systemGiven || f.template != "" || f.templateFile != "" || f.history != "" ||
		f.variables != nil):
		return usagef("-sys, --chat-template and --load need a conversation: -cnv, or spec chat")
	case !f.conversation:
		if name := f.only(); name != "" {
			return usagef("%s needs a conversation: -cnv, or spec chat", name)
		}
		return nil
	case g.json || g.trace:
		return usagef("--json and --trace are for single texts, not for a conversation")
	case g.parseSpecial:
		return usagef("--parse-special is for single texts: the template writes the special tokens of a conversation")
	case g.prompt.file == "-":
		return usagef("-f -: standard input is for the conversation's messages")
	}
	return nil
}

// only is a further flag that was given and is for a conversation alone; "" if there is none.
func (f *chatFlags) only() string {
	for _, x := range []struct {
		name  string
		given bool
	}{{"-st", f.singleTurn}, {"--system-prompt-file", f.systemFile != ""}, {"--reasoning", f.reasoning != reasoningAuto},
		{"--reasoning-budget", f.budget > 0}, {"--when-full", f.whenFull != ""}, {"--hide-reasoning", f.hideReasoning},
		{"--color-drafts", f.colorDrafts}, {"--history", f.typedHistory != ""}} {
		if x.given {
			return x.name
		}
	}
	return ""
}

// templateSource finds the template and the stop strings that belong to it.
func (f *chatFlags) templateSource(m *engine.Model, name string) (source string, stops []string, err error) {
	file := f.templateFile
	switch {
	case file != "":
	case f.template != "":
		if source, ok := chat.Builtin(f.template); ok {
			return source, chat.BuiltinStops(f.template), nil
		}
		if strings.Contains(f.template, "{{") || strings.Contains(f.template, "{%") || strings.Contains(f.template, " ") {
			if _, err := os.Stat(f.template); err != nil {
				return f.template, nil, nil // llama.cpp takes the text too
			}
		}
		file = f.template
	default:
		if source = m.ChatTemplate(); source == "" {
			return "", nil, noTemplate(name)
		}
		return source, nil, nil
	}
	text, err := smallFile(file, "a chat template")
	if err != nil && f.templateFile == "" && errors.Is(err, os.ErrNotExist) {
		return "", nil, fmt.Errorf("--chat-template %s: neither a file nor one of %s", shown(file),
			strings.Join(chat.BuiltinNames(), ", "))
	}
	return text, nil, err
}

// smallFile reads a file that a flag names; what says what it is.
func smallFile(file, what string) (text string, err error) {
	const longest = 1 << 20 // bytes
	info, err := os.Stat(file)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > longest {
		return "", fmt.Errorf("%s: %s must be a regular file of at most %d bytes", file, what, longest)
	}
	data, err := os.ReadFile(file)
	return string(withoutMark(data)), err
}

// withoutMark is a text without the mark of UTF-8 that editors of Windows put in front of one.
func withoutMark(text []byte) []byte { return bytes.TrimPrefix(text, []byte("\ufeff")) }

// converse runs a conversation.
func (g *generate) converse(ctx context.Context, p *program) (err error) {
	first, err := g.firstMessage(ctx, p)
	if err != nil {
		return err
	}
	if err := g.lookAhead(ctx, p); err != nil {
		return err
	}
	rt, err := g.runtime(p)
	if err != nil {
		return err
	}
	defer rt.Close()
	w, err := g.answering(ctx, p, rt)
	if err != nil {
		return err
	}
	d := &dialog{
		p: p, partner: w, predict: g.predict, whenFull: g.whenFull, showReasoning: !g.hideReasoning,
		singleTurn: g.singleTurn, typed: terminal.Is(p.stdin), shown: terminal.Is(p.stdout), color: colored(g.color, p),
		showDrafts: g.colorDrafts, markdown: true,
		another: func(ctx context.Context, name string) (partner, error) { return g.another(ctx, p, rt, name) },
	}
	defer func() { err = errors.Join(err, d.end()) }() // of the model that answers last
	defer w.learned.abort()
	if err := w.request.Constraint.Check(ctx, grammar.Limits{}); err != nil {
		return err
	}
	if d.whenFull == "" {
		if d.whenFull = fullStop; d.typed {
			d.whenFull = fullAsk
		}
	}
	w.request.Trace = func(r *speculative.Round) { d.estimate.round(r) }
	if g.history != "" {
		if err := d.load(g.history); err != nil {
			return err
		}
	}
	if g.systemGiven { // in place of the loaded conversation's
		system := g.system
		if !g.prompt.verbatim {
			system = unescape(system)
		}
		d.setSystem(system)
	} else if g.systemFile != "" {
		d.setSystem(g.systemText)
	}
	defer d.edit(ctx, g.typedHistory)()
	return w.learned.keep(d.run(ctx, first))
}

// lookAhead refuses what cannot work by the headers of the files, and by what the template's flag names, before weights
// are read.
func (g *generate) lookAhead(ctx context.Context, p *program) (err error) {
	if g.systemFile != "" {
		if g.systemText, err = smallFile(g.systemFile, "a system message"); err != nil {
			return err
		}
		g.systemText = strings.TrimSuffix(g.systemText, "\n")
	}
	if err := g.conversable(g.model); err != nil {
		return err
	}
	if g.template != "" || g.templateFile != "" {
		if _, _, err := g.templateSource(nil, g.name()); err != nil {
			return err
		}
	}
	for i, file := range g.drafts {
		if g.drafts[i], err = localPath(ctx, p, file); err != nil {
			return err
		}
		if err := modelFile(g.drafts[i], asDraft); err != nil && g.drafts[i] != "" {
			return err
		}
		f, err := openGGUF(g.drafts[i])
		if err != nil {
			return err
		}
		f.Close()
	}
	return nil
}

// firstMessage is the text of -p or -f.
func (g *generate) firstMessage(ctx context.Context, p *program) (string, error) {
	if !g.prompt.given && g.prompt.file == "" {
		if g.singleTurn && terminal.Is(p.stdin) {
			return "", usagef("-st needs a message: -p or -f")
		}
		return "", nil
	}
	source, err := g.prompt.open(ctx, p)
	if err != nil {
		return "", err
	}
	text, err := source.read(ctx, longestMessageText)
	if errors.Is(err, errTooLong) {
		return "", fmt.Errorf("the message has more than %d bytes", longestMessageText)
	}
	return text, err
}

// A dialog is a conversation under way.
type dialog struct {
	p *program
	partner
	another func(ctx context.Context, name string) (partner, error) // opens the model of a name

	predict       int // most tokens of an answer; negative: until it ends
	whenFull      string
	showReasoning bool
	singleTurn    bool
	typed         bool // messages are typed on a terminal
	shown         bool // answers are written to one
	color         bool
	showDrafts    bool
	markdown      bool // of answers is shown, where there are colors

	messages []chat.Message
	said     bool // a message was answered, or its answer was stopped
	estimate estimate
	last     turn // the last answer's figures
	lines    *lineReader
	editor   *lineedit.Reader // nil: plain lines
	draft    string           // what the next message begins with
	attached string           // what stands in front of the next message
	stop     stopper
	noted    map[string]bool // notes that were given once
}

// turn is what is known of an answer.
type turn struct {
	stats     speculative.Stats
	generated int
	took      time.Duration
	prompt    int // tokens
}

// errEnd ends the conversation without being an error.
var errEnd = errors.New("end of the conversation")

// run reads messages and answers them.
func (d *dialog) run(ctx context.Context, first string) error {
	d.lines = newLineReader(d.p.stdin)
	defer close(d.lines.wanted)
	d.stop.waiting = make(chan struct{}, 1)
	handle := d.stop.interrupt
	d.p.interrupted.Store(&handle)
	defer d.p.interrupted.Store(nil)
	if d.typed && first == "" {
		d.note("spec chat: /help lists the commands, Ctrl-D ends")
	}
	if first != "" {
		if d.shown {
			d.print("> "+first+"\n", colorPrompt)
		}
		if err := d.turnOrNote(ctx, func() error { return d.say(ctx, first) }); err != nil || d.singleTurn {
			return err
		}
	}
	for {
		text, err := d.read(ctx)
		if errors.Is(err, io.EOF) {
			if d.typed && d.shown && d.editor == nil {
				d.print("\n", "")
			}
			return nil
		}
		if err != nil {
			return err
		}
		if text == "" {
			continue
		}
		err = d.turnOrNote(ctx, func() error {
			if command, ok := strings.CutPrefix(text, "/"); ok && !strings.HasPrefix(command, "/") {
				return d.command(ctx, command)
			} else if ok {
				text = command // two slashes: a message that begins with one
			}
			return d.say(ctx, text)
		})
		if errors.Is(err, errEnd) {
			return nil
		}
		if err != nil {
			return err
		}
		if d.singleTurn && d.said {
			return nil
		}
	}
}

// turnOrNote runs f. On a terminal its error is told and the conversation goes on, where there is who reads answers.
func (d *dialog) turnOrNote(ctx context.Context, f func() error) error {
	err := f()
	if err == nil || errors.Is(err, errEnd) || errors.Is(err, errInterrupted) || errors.Is(err, speculative.ErrState) ||
		unread(err) || !d.typed || ctx.Err() != nil {
		return err
	}
	d.note("%s", message(err))
	return nil
}

// note writes a line to standard error.
func (d *dialog) note(format string, a ...any) { fmt.Fprintf(d.p.stderr, format+"\n", a...) }

// once gives a note the first time.
func (d *dialog) once(text string) {
	if d.noted == nil {
		d.noted = map[string]bool{}
	}
	if !d.noted[text] {
		d.noted[text] = true
		d.note("%s", text)
	}
}

// print writes to standard output; neither a person nor a model controls the terminal.
func (d *dialog) print(text, color string) error {
	if text == "" {
		return nil
	}
	if d.shown {
		text = terminal.Text(text)
	}
	if d.color && color != "" {
		text = color + text + colorOff
	}
	_, err := io.WriteString(d.p.stdout, text)
	return err
}
