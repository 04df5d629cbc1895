package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

var completionCommand = command{
	name:  "completion",
	does:  "completion of commands and flags for a shell",
	usage: "bash|zsh|fish",
	about: `Prints a script by which a shell completes commands, flags and their values. It is written from the table of flags.

    bash    source <(spec completion bash)
    zsh     spec completion zsh >"${fpath[1]}/_spec"
    fish    spec completion fish >~/.config/fish/completions/spec.fish`,
	new: func() job { return &completion{} },
}

// completion is the command's options.
type completion struct{ shell string }

// shells write the scripts.
var shells = map[string]func(io.Writer, []completed){
	"bash": bashCompletion, "zsh": zshCompletion, "fish": fishCompletion,
}

func (x *completion) flags() []group { return nil }

func (x *completion) operand(v string) error {
	switch {
	case x.shell != "":
		return errors.New("one shell at a time")
	case shells[v] == nil:
		return errors.New("not one of bash, zsh, fish")
	}
	x.shell = v
	return nil
}

func (x *completion) check() error {
	if x.shell == "" {
		return usagef("for which shell? bash, zsh or fish")
	}
	return nil
}

func (x *completion) run(_ context.Context, p *program) error {
	w := bufio.NewWriter(p.stdout)
	shells[x.shell](w, completions())
	return w.Flush()
}

// A completed command is what may follow its name.
type completed struct {
	name, does string
	words      []string // in the place of a file
	flags      []flag
}

func completions() (list []completed) {
	var names []string
	for _, c := range commands() {
		list = append(list, completed{c.name, c.does, nil, append(flagsOf(c.new().flags()), commonRows()...)})
		names = append(names, c.name)
	}
	for i := range list {
		switch list[i].name {
		case completionCommand.name:
			list[i].words = []string{"bash", "fish", "zsh"}
		case configCommand.name:
			list[i].words = names
		}
	}
	return append(list, completed{"help", "what a command does, and its flags", append(slices.Clone(names), helpAll), nil})
}

// choices are the values that a flag takes, nil where they cannot be listed.
func (f *flag) choices() []string {
	if !strings.Contains(f.arg, "|") || f.arg != strings.ToLower(f.arg) {
		return nil
	}
	return strings.Split(f.arg, "|")
}

// takesFile says that a value is the name of a file or folder.
func (f *flag) takesFile() bool {
	return strings.Contains(f.arg, "FILE") || strings.Contains(f.arg, "DIR")
}

// brief is the first sentence of a flag's help.
func (f *flag) brief() string {
	text, _, _ := strings.Cut(f.help, "; ")
	return text
}

func bashCompletion(w io.Writer, list []completed) {
	var names []string
	for _, c := range list {
		names = append(names, c.name)
	}
	fmt.Fprintf(w, `# Completion of spec in bash, written by: spec completion bash
_spec() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words='' flags=''
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W '%s' -- "$cur"))
    return
  fi
  case ${COMP_WORDS[1]} in
`, strings.Join(names, " "))
	for _, c := range list {
		fmt.Fprintf(w, "  %s)\n    words='%s'\n", c.name, strings.Join(c.words, " "))
		var all []string
		values := ""
		for _, f := range c.flags {
			all = append(all, f.names...)
			if f.arg == "" {
				continue
			}
			values += fmt.Sprintf("    %s) ", strings.Join(f.names, "|"))
			if choices := f.choices(); choices != nil {
				values += fmt.Sprintf("COMPREPLY=($(compgen -W '%s' -- \"$cur\")); ", strings.Join(choices, " "))
			}
			values += "return ;;\n"
		}
		if values != "" {
			fmt.Fprintf(w, "    case $prev in\n%s    esac\n", values)
		}
		fmt.Fprintf(w, "    flags='%s' ;;\n", strings.Join(all, " "))
	}
	io.WriteString(w, `  esac
  case $cur in
  -*) COMPREPLY=($(compgen -W "$flags" -- "$cur")) ;;
  *) COMPREPLY=($(compgen -W "$words" -- "$cur")) ;;
  esac
}
complete -o bashdefault -o default -F _spec spec
`)
}

// zshQuoted is a text for a specification of _arguments or _describe, between single quotes.
func zshQuoted(s string) string {
	return strings.NewReplacer("'", `'\''`, ":", `\:`, "[", `\[`, "]", `\]`, `\`, `\\`).Replace(s)
}

func zshCompletion(w io.Writer, list []completed) {
	io.WriteString(w, "#compdef spec\n# Completion of spec in zsh, written by: spec completion zsh\n"+
		"_spec() {\n  local -a commands\n  commands=(\n")
	for _, c := range list {
		fmt.Fprintf(w, "    '%s:%s'\n", c.name, zshQuoted(c.does))
	}
	io.WriteString(w, "  )\n  if (( CURRENT == 2 )); then\n    _describe -t commands command commands\n    return\n  fi\n"+
		"  local name=$words[2]\n  shift words\n  (( CURRENT-- ))\n  case $name in\n")
	for _, c := range list {
		fmt.Fprintf(w, "  %s) _arguments", c.name)
		for _, f := range c.flags {
			value := ""
			switch choices := f.choices(); {
			case choices != nil:
				value = fmt.Sprintf(":value:(%s)", strings.Join(choices, " "))
			case f.takesFile():
				value = fmt.Sprintf(":%s:_files", zshQuoted(f.arg))
			case f.arg != "":
				value = fmt.Sprintf(":%s: ", zshQuoted(f.arg))
			}
			if f.optional {
				value = ":" + value
			}
			for _, n := range f.names {
				fmt.Fprintf(w, " \\\n    '*%s[%s]%s'", n, zshQuoted(f.brief()), value)
			}
		}
		operand := "_files"
		if c.words != nil {
			operand = "(" + strings.Join(c.words, " ") + ")"
		}
		fmt.Fprintf(w, " \\\n    '*:operand:%s' ;;\n", operand)
	}
	io.WriteString(w, "  esac\n}\nif [ \"$funcstack[1]\" = _spec ]; then _spec \"$@\"; else compdef _spec spec; fi\n")
}

// fishQuoted is a text between single quotes of fish.
func fishQuoted(s string) string { return strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) }

func fishCompletion(w io.Writer, list []completed) {
	io.WriteString(w, "# Completion of spec in fish, written by: spec completion fish\n")
	for _, c := range list {
		fmt.Fprintf(w, "complete -c spec -f -n __fish_use_subcommand -a %s -d '%s'\n", c.name, fishQuoted(c.does))
	}
	for _, c := range list {
		in := fmt.Sprintf("complete -c spec -n '__fish_seen_subcommand_from %s'", c.name)
		if c.words != nil {
			fmt.Fprintf(w, "%s -f -a '%s'\n", in, strings.Join(c.words, " "))
		}
		for _, f := range c.flags {
			line := in
			for _, n := range f.names {
				switch {
				case strings.HasPrefix(n, "--"):
					line += " -l " + n[2:]
				case len(n) == 2:
					line += " -s " + n[1:]
				default:
					line += " -o " + n[1:]
				}
			}
			switch choices := f.choices(); {
			case f.optional: // fish has no word for it: the next argument may be another flag
			case choices != nil:
				line += fmt.Sprintf(" -x -a '%s'", strings.Join(choices, " "))
			case f.takesFile():
				line += " -r -F"
			case f.arg != "":
				line += " -x"
			}
			fmt.Fprintf(w, "%s -d '%s'\n", line, fishQuoted(f.brief()))
		}
	}
}
