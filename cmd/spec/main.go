// Command spec runs GGUF language models on CPUs and makes them answer sooner by speculative
// decoding. Run "spec help" for what it can do.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
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
}

// A command is one word after "spec". Its setup binds the flags to fresh variables and returns
// them with the function that does the work.
type command struct {
	name  string
	does  string // for the list of commands
	usage string // what follows the name
	about string // the paragraph of its help
	setup func() (flags []flag, run func(context.Context, *program) error)
}

// commands is a function because help lists all of them, itself included.
func commands() []command {
	return []command{
		demoCommand,
		generateCommand,
		benchCommand,
		inspectCommand,
		tokenizeCommand,
		perplexityCommand,
		compareCommand,
		planCommand,
		quantizeCommand,
		selftestCommand,
		versionCommand,
	}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the program at once
	p := &program{os.Stdin, os.Stdout, os.Stderr, os.Getenv}
	os.Exit(p.main(ctx, os.Args[1:]))
}

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
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &usage):
		fmt.Fprintf(p.stderr, "%s: %v (try: spec help%s)\n", "spec"+name, err, name)
		return exitUsage
	default:
		fmt.Fprintf(p.stderr, "%s: %v\n", "spec"+name, err)
		return exitFailed
	}
}

func (p *program) dispatch(ctx context.Context, args []string) (name string, err error) {
	if len(args) == 0 {
		return "", usagef("no command given")
	}
	switch args[0] {
	case "help", "-h", "-help", "--help":
		return "", p.help(args[1:])
	case "-version", "--version":
		args[0] = versionCommand.name
	}
	for _, c := range commands() {
		if c.name != args[0] {
			continue
		}
		flags, run := c.setup()
		var asked bool
		flags = append(flags, switchFlag("-h, --help", &asked, true, "show this help"))
		if err := parse(flags, args[1:], nil); err != nil {
			return c.name, err
		}
		if asked {
			return c.name, p.help([]string{c.name})
		}
		return c.name, run(ctx, p)
	}
	return "", usagef("unknown command %q", args[0])
}

// help prints the list of commands, or one command's flags.
func (p *program) help(args []string) error {
	w := bufio.NewWriter(p.stdout)
	if len(args) == 0 {
		fmt.Fprint(w, "spec runs GGUF language models on CPUs, sooner by speculative decoding.\n\n")
		for _, c := range commands() {
			fmt.Fprintf(w, "  spec %-12s %s\n", c.name, c.does)
		}
		fmt.Fprintf(w, "  spec %-12s %s\n", "help [NAME]", "this list, or a command's flags")
		fmt.Fprint(w, "\nA flag may be written with one dash or two. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted.\n",
			"SPEC_SIMD chooses kernels by hand; an unavailable choice is an error.\n")
		return w.Flush()
	}
	for _, c := range commands() {
		if c.name == args[0] {
			flags, _ := c.setup()
			fmt.Fprintf(w, "usage: spec %s %s\n\n%s\n\n", c.name, c.usage, c.about)
			printFlags(w, flags)
			return w.Flush()
		}
	}
	return usagef("unknown command %q", args[0])
}
