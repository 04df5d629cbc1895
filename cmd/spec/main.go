// Command spec runs GGUF language models on CPUs, faster by speculative decoding. Run "spec help" for
// what it can do.
package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"sync/atomic"

	"github.com/specgo/spec/internal/terminal"
)

// Exit codes that scripts rely on.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitInterrupted = 130
)

// A program is what a command may touch of the world: one value, so that tests can give another.
type program struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	env            func(string) string

	least slog.Leveler // of what say writes; nil: all

	again func() (job, error) // reads the command line, with the environment and files, once more; nil: it cannot be

	// measured is how many bytes bench measures the memory's bandwidth with; 0 is its own number.
	measured int

	// interrupted, if set, is asked at each Ctrl-C whether that is all it should do.
	interrupted atomic.Pointer[func() bool]
	// survives says that the program is a server: the end of a terminal or of a reader of its log does not end it.
	survives atomic.Bool
}

// A command is one word after "spec".
type command struct {
	name  string
	does  string // for the list of commands
	usage string // what follows the name
	about string // the paragraphs of its help, as terminal.Wrap reads them
	new   func() job
}

// A job is a command's options with their defaults. Parsing sets its fields and does nothing else, so
// that tests can compare what a command line means without running it.
type job interface {
	flags() []group
	run(ctx context.Context, p *program) error
}

// Abilities that a job may have besides.
type (
	operandTaker interface{ operand(string) error } // takes arguments that are no flags
	wording      interface{ words() []string }      // lists words that an operand may be, for completion
	checker      interface{ check() error }         // refuses combinations of flags
	logging      interface{ logTo(*program) }       // gives what is written on standard error its form
	sharing      interface{ share(*common) }        // looks at the flags of every command
	resolver     interface {                        // finds the files that options name otherwise
		resolve(context.Context, *program) error
	}
)

// commandGroup is commands that belong together, for help.
type commandGroup struct {
	title    string
	commands []command
}

// commandGroups is a function because help lists all of them.
func commandGroups() []commandGroup {
	return []commandGroup{
		{"write texts", []command{demoCommand, generateCommand, chatCommand, runCommand, batchCommand, verifyCommand}},
		{"serve", []command{serveCommand}},
		{"read texts", []command{embedCommand, rerankCommand, perplexityCommand, tokenizeCommand}},
		{"measure", []command{benchCommand, compareCommand, evalCommand, planCommand, selftestCommand}},
		{"models", []command{
			inspectCommand, pullCommand, listCommand, removeCommand, cacheCommand, lookupCommand, imatrixCommand,
			quantizeCommand, convertCommand, synthCommand,
		}},
		{"this program", []command{configCommand, completionCommand, manCommand, doctorCommand, versionCommand}},
	}
}

// commands are those of all groups.
func commands() (list []command) {
	for _, g := range commandGroups() {
		list = append(list, g.commands...)
	}
	return list
}

func main() {
	// Signals that were ignored when the program was started (nohup) stay ignored.
	var caught []os.Signal
	for _, s := range endSignals {
		if !signal.Ignored(s) {
			caught = append(caught, s)
		}
	}
	p := &program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, env: os.Getenv}
	ctx := context.Background()
	if len(caught) > 0 {
		ctx = p.listen(ctx, caught)
	}
	os.Exit(p.main(ctx, os.Args[1:]))
}

// listen returns a context that the first of the signals cancels; a second one ends the program at once.
func (p *program) listen(ctx context.Context, signals []os.Signal) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, signals...)
	go func() {
		for s := range caught {
			if handle := p.interrupted.Load(); handle != nil && s == os.Interrupt && (*handle)() {
				continue
			}
			if s == hangup && p.survives.Load() {
				continue
			}
			signal.Stop(caught)
			cancel()
			return
		}
	}()
	return ctx
}

// longestMessage is the most characters of an error message: names from files and arguments may be long.
const longestMessage = 600

// main runs the command that args name and returns the exit code. Every error is one line.
func (p *program) main(ctx context.Context, args []string) int {
	name, err := p.dispatch(ctx, args)
	if name != "" {
		name = " " + name
	}
	var usage usageError
	switch {
	case err == nil:
		return exitDone
	case ctx.Err() != nil && errors.Is(err, context.Canceled), errors.Is(err, errInterrupted):
		return exitInterrupted
	case errors.As(err, &usage):
		p.say(slog.LevelError, "spec%s: %s (try: spec help%s)", name, message(err), name)
		return exitUsage
	default:
		p.say(slog.LevelError, "spec%s: %s", name, message(err))
		return exitFailed
	}
}

// message is an error on one line that a terminal can show; of several that were joined all.
func message(err error) string {
	text := err.Error()
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		var list []string
		for _, e := range all.Unwrap() {
			list = append(list, e.Error())
		}
		if text == strings.Join(list, "\n") { // otherwise it is one error that wraps several
			text = strings.Join(list, "; ")
		}
	}
	return terminal.Line(text, longestMessage)
}

func (p *program) dispatch(ctx context.Context, args []string) (name string, err error) {
	if len(args) == 0 {
		if terminal.Is(p.stdout) {
			return "", p.welcome()
		}
		return "", usagef("no command given")
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return "", p.help(args[1:])
	case "-version", "--version":
		args = append([]string{versionCommand.name}, args[1:]...)
	}
	c, err := findCommand(args[0])
	if err != nil {
		return "", err
	}
	j, line, err := c.parse(args[1:], p.env)
	p.again = func() (job, error) {
		j, _, err := c.parse(args[1:], p.env)
		return j, err
	}
	if line.help {
		return c.name, p.help([]string{c.name})
	}
	if l, ok := j.(logging); ok { // also for what is wrong with the command line
		l.logTo(p)
	}
	if err != nil {
		return c.name, err
	}
	if len(line.ignored) > 0 {
		p.say(slog.LevelWarn, "spec %s: without effect here: %s", c.name,
			terminal.Line(strings.Join(line.ignored, " "), 200))
	}
	if r, ok := j.(resolver); ok {
		if err := r.resolve(ctx, p); err != nil {
			return c.name, err
		}
	}
	return c.name, j.run(ctx, p)
}

// helpFlag asks for a command's help.
const helpFlag = "-h"

// parse reads a command's arguments into a new job, and what they leave open from the environment and the file of
// settings.
func (c *command) parse(args []string, env func(string) string) (j job, line given, err error) {
	j, line, err = c.settings(args, env)
	if c, ok := j.(checker); ok && err == nil && !line.help {
		err = c.check()
	}
	return j, line, err
}

// settings is parse without the check of what flags are together.
func (c *command) settings(args []string, env func(string) string) (j job, line given, err error) {
	j = c.new()
	var shared common
	flags := append(flagsOf(j.flags()), shared.rows()...)
	var operand func(string) error
	if o, ok := j.(operandTaker); ok {
		operand = o.operand
	}
	line, err = parse(flags, args, operand)
	if s, ok := j.(sharing); ok {
		s.share(&shared)
	}
	if line.help = shared.help; err != nil || line.help {
		return j, line, err
	}
	file, err := openConfig(shared.config, env)
	if err != nil {
		return j, line, usagef("%v", err)
	}
	if err := fromEnvironment(flags, &line, env); err != nil {
		return j, line, err
	}
	if o, ok := j.(offering); ok {
		list, err := presets(file)
		if err != nil {
			return j, line, usagef("%v", err)
		}
		o.offer(list)
	}
	return j, line, fromFile(flags, &line, file)
}

// otherCommands are Ollama's commands that are none here, with what does their work.
var otherCommands = map[string]string{
	"show": "spec inspect FILE says what a model is",
	"ps":   "GET /api/ps of spec serve lists the models in memory",
	"stop": "POST /models/unload, or keep_alive 0 in a request, has spec serve unload a model, for who has an admin " +
		"key or with --allow-manage",
	"create": "POST /api/create of spec serve --models-dir DIR makes a model of another one, with --allow-manage",
	"cp":     "POST /api/copy of spec serve --models-dir DIR gives a model another name, with --allow-manage",
	"push":   "models are not uploaded",
}

// findCommand finds a command by its name.
func findCommand(name string) (*command, error) {
	var known []string
	for _, c := range commands() {
		if c.name == name {
			return &c, nil
		}
		known = append(known, c.name)
	}
	if instead := otherCommands[name]; instead != "" {
		return nil, usagef("there is no command %s: %s", name, instead)
	}
	return nil, usagef("unknown command %s%s", shown(name), suggest(name, append(known, "help")))
}
