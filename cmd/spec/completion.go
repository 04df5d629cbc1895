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
	words      []string // that an operand may be
	files      bool     // an operand may be a file
	flags      []flag   // that have an effect
}

func completions() (list []completed) {
	var names []string
	for _, c := range commands() {
		j := c.new()
		one := completed{name: c.name, does: c.does}
		one.flags = slices.DeleteFunc(append(flagsOf(j.flags()), commonRows()...), func(f flag) bool { return f.ignored })
		_, one.files = j.(operandTaker)
		if w, ok := j.(wording); ok {
			one.words = w.words()
		}
		list = append(list, one)
		names = append(names, c.name)
	}
	for i := range list {
		switch list[i].name {
		case completionCommand.name:
			list[i].words, list[i].files = []string{"bash", "fish", "zsh"}, false
		case configCommand.name:
			list[i].words, list[i].files = names, false
		case pullCommand.name, removeCommand.name:
			list[i].files = false // a name of the Hub
		}
	}
	help := append(slices.Clone(names), helpAll)
	return append(list, completed{name: "help", does: "what a command does, and its flags", words: help})
}

// The kinds of names that a value may be.
const (
	anyName = ""
	aFile   = "file"
	aFolder = "folder"
)

// path says what kind of name a value is.
func (f *flag) path() string {
	arg, _, _ := strings.Cut(f.arg, ",")
	switch arg = strings.TrimRight(arg, "["); {
	case arg == "DIR":
		return aFolder
	case arg == "IN", arg == "OUT", arg == "PATH", strings.Contains(arg, "FILE"):
		return aFile
	}
	return anyName
}

// several says that a value may be several, with commas between.
func (f *flag) several() bool { return strings.Contains(f.arg, ",") }

// brief is the first sentence of a flag's help.
func (f *flag) brief() string {
	text, _, _ := strings.Cut(f.help, "; ")
	return text
}

const bashHead = `# Completion of spec in bash, written by: spec completion bash

# The values of a flag, or operands: words, and what compgen lists by -f (files) or -d (folders); of several with commas
# between, the last one.
_spec_values() {
  local words=$1 path=$2 several=$3 before='' newline=$'\n' IFS=$'\n'
  if [ -n "$several" ] && [ "${cur%,*}" != "$cur" ]; then
    before=${cur%,*},
    cur=${cur##*,}
  fi
  COMPREPLY=($(compgen -P "$before" -W "${words// /$newline}" -- "$cur"))
  if [ -n "$path" ]; then
    COMPREPLY+=($(compgen -P "$before" "$path" -- "$cur"))
    compopt -o filenames 2>/dev/null
  fi
}
_spec() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} words='' path='' flags=''
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    _spec_values 'COMMANDS' '' ''
    return
  fi
  if [ "$cur" = = ]; then
    cur=''
  elif [ "$prev" = = ]; then
    prev=${COMP_WORDS[COMP_CWORD-2]}
  fi
  case ${COMP_WORDS[1]} in
`

func bashCompletion(w io.Writer, list []completed) {
	var names []string
	for _, c := range list {
		names = append(names, c.name)
	}
	paths := map[string]string{aFile: "-f", aFolder: "-d"}
	several := map[bool]string{true: ","}
	io.WriteString(w, strings.Replace(bashHead, "COMMANDS", strings.Join(names, " "), 1))
	for _, c := range list {
		fmt.Fprintf(w, "  %s)\n    words='%s'\n", c.name, strings.Join(c.words, " "))
		if c.files {
			fmt.Fprintf(w, "    path=-f\n")
		}
		var all []string
		values := ""
		for _, f := range c.flags {
			all = append(all, f.names...)
			if f.arg == "" {
				continue
			}
			values += fmt.Sprintf("    %s) ", strings.Join(f.names, "|"))
			if f.optional {
				values += `[[ $cur == -* ]] || { `
			}
			values += fmt.Sprintf("_spec_values '%s' '%s' '%s'; return", strings.Join(f.values, " "), paths[f.path()],
				several[f.several()])
			if f.optional {
				values += "; }"
			}
			values += " ;;\n"
		}
		if values != "" {
			fmt.Fprintf(w, "    case $prev in\n%s    esac\n", values)
		}
		fmt.Fprintf(w, "    flags='%s' ;;\n", strings.Join(all, " "))
	}
	io.WriteString(w, `  esac
  case $cur in
  -*) _spec_values "$flags" '' '' ;;
  *) _spec_values "$words" "$path" '' ;;
  esac
}
complete -F _spec spec
`)
}

// zshQuoted is a text for a specification of _arguments or _describe, between single quotes.
func zshQuoted(s string) string {
	return strings.NewReplacer("'", `'\''`, ":", `\:`, "[", `\[`, "]", `\]`, `\`, `\\`).Replace(s)
}

// zshAction is what completes a value for _arguments.
func zshAction(words []string, path string, several bool) string {
	files := map[string]string{aFile: "_files", aFolder: "_files -/"}[path]
	switch list := strings.Join(words, " "); {
	case several && words != nil:
		return "_values -s , value " + list
	case several && files != "":
		return "_sequence " + files
	case words != nil && files != "":
		return "{compadd -- " + list + "; " + files + "}"
	case words != nil:
		return "(" + list + ")"
	case files != "":
		return files
	}
	return " " // nothing to offer
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
			value, sign := "", ""
			if f.arg != "" {
				value = fmt.Sprintf(":%s:%s", zshQuoted(f.arg), zshAction(f.values, f.path(), f.several()))
				sign = "="
			}
			if f.optional {
				value = ":" + value
			}
			for _, n := range f.names {
				fmt.Fprintf(w, " \\\n    '*%s%s[%s]%s'", n, sign, zshQuoted(f.brief()), value)
			}
		}
		operand := anyName
		if c.files {
			operand = aFile
		}
		if c.files || c.words != nil {
			fmt.Fprintf(w, " \\\n    '*:operand:%s'", zshAction(c.words, operand, false))
		}
		io.WriteString(w, " ;;\n")
	}
	io.WriteString(w, "  esac\n}\nif [ \"$funcstack[1]\" = _spec ]; then _spec \"$@\"; else compdef _spec spec; fi\n")
}

// fishQuoted is a text between single quotes of fish.
func fishQuoted(s string) string { return strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s) }

const fishHead = `# Completion of spec in fish, written by: spec completion fish

# Words for the last of several values with commas between.
function __spec_several
    set -l before (string match -r '[^=]*,' -- (commandline -ct))
    for word in $argv
        echo "$before$word"
    end
end
`

func fishCompletion(w io.Writer, list []completed) {
	io.WriteString(w, fishHead)
	for _, c := range list {
		fmt.Fprintf(w, "complete -c spec -f -n __fish_use_subcommand -a %s -d '%s'\n", c.name, fishQuoted(c.does))
	}
	for _, c := range list {
		in := fmt.Sprintf("complete -c spec -n '__fish_seen_subcommand_from %s'", c.name)
		if !c.files {
			fmt.Fprintf(w, "%s -f\n", in)
		}
		if c.words != nil {
			fmt.Fprintf(w, "%s -a '%s'\n", in, strings.Join(c.words, " "))
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
			words := strings.Join(f.values, " ")
			if f.several() && words != "" {
				words = "(__spec_several " + words + ")"
			}
			switch path := f.path(); {
			case f.arg == "":
			case f.optional: // the next argument may be another flag; fish offers these behind = alone
				if words != "" {
					line += fmt.Sprintf(" -a '%s'", words)
				}
			case path == aFolder:
				line += " -x -a '(__fish_complete_directories)'"
			case path == aFile:
				line += " -r -F"
				if words != "" {
					line += fmt.Sprintf(" -a '%s'", words)
				}
			case words != "":
				line += fmt.Sprintf(" -x -a '%s'", words)
			default:
				line += " -x"
			}
			fmt.Fprintf(w, "%s -d '%s'\n", line, fishQuoted(f.brief()))
		}
	}
}
