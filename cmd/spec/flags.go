package main

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/specgo/spec/internal/terminal"
)

// A flag is one row of the table of options: its help, its environment variable and what its value does. The first name
// is the one that messages use; the others are the names by which other tools' users know it.
type flag struct {
	names    []string
	vars     []string // environment variables, the first that is set counts; see flag.variables
	arg      string   // what the help calls the value; "" for a switch, which takes none
	standard string   // the default, as the help tells it; "" where there is none to tell
	help     string
	values   []string // that it takes, for completion; nil: they cannot be listed
	optional bool     // the value may be left out: set gets ""
	ignored  bool     // accepted for other tools' sake, without effect
	set      func(value string) error
	second   func(arg string) bool // whether the next argument goes with the value, as VALUE:ARG; nil: never

	field string      // what it sets together with other flags; "": the first name
	word  bool        // arguments that are no flags can stand for it
	apart bool        // its name is another flag's in other commands: in a file its variables alone are its keys
	use   func() bool // whether the environment's value has a use beside what was given; nil: always
}

// or tells the default.
func (f flag) or(standard string) flag { f.standard = standard; return f }

// env names environment variables that other tools know, the one to use first.
func (f flag) env(vars ...string) flag { f.vars = vars; return f }

// takes lists values that completion offers.
func (f flag) takes(values ...string) flag { f.values = values; return f }

// of says what the flag sets together with others: where one of them is given, none of their variables counts.
func (f flag) of(field string) flag { f.field = field; return f }

// orWord says that arguments which are no flags can stand for it: where there are any, its variable does not count.
func (f flag) orWord() flag { f.word = true; return f }

// unlike says that the flag's name means something else in other commands: what a file says by that is not for it.
func (f flag) unlike() flag { f.apart = true; return f }

// when says when an environment variable has a use: otherwise it is left alone, and nothing has to fit it.
func (f flag) when(use func() bool) flag { f.use = use; return f }

// A group is the flags of one subject, as the help lists them.
type group struct {
	title string
	flags []flag
}

// flagsOf lists the flags of all groups.
func flagsOf(groups []group) (list []flag) {
	for _, g := range groups {
		list = append(list, g.flags...)
	}
	return list
}

// usageError is a mistake in how the program was called: exit code 2.
type usageError struct{ msg string }

func (e usageError) Error() string { return e.msg }

func usagef(format string, a ...any) error { return usageError{fmt.Sprintf(format, a...)} }

// shown is an argument as messages quote it.
func shown(arg string) string {
	const longest = 60
	if arg == "" {
		return "''"
	}
	return terminal.Line(arg, longest)
}

// secret reports whether a value of the flag is a key, which nothing that is written shows.
func (f *flag) secret() bool { return strings.HasSuffix(f.names[0], "api-key") }

// shown is a value of the flag as messages quote it: messages go to logs.
func (f *flag) shown(value string) string {
	if f.secret() && value != "" {
		return notShown
	}
	return shown(value)
}

// notShown stands for a key.
const notShown = "(not shown)"

// parse reads args by the table. A flag may be written with one dash or two, its value as the next
// argument or after "="; an optional value is taken from the next argument if that does not begin with a
// dash, and, of a flag without effect before operands, is one of its values. What is no flag goes to
// operand, one by one; where operand is nil everything must be a flag.
// parse returns which flags and operands were given.
func parse(flags []flag, args []string, operand func(string) error) (all given, err error) {
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if len(arg) < 2 || arg[0] != '-' {
			if operand == nil {
				return all, usagef("%s is not a flag", shown(arg))
			}
			if err := operand(arg); err != nil {
				return all, usagef("%s: %v", shown(arg), err)
			}
			all.words = true
			continue
		}
		name, value, hasValue := strings.Cut(arg, "=")
		f := find(flags, name)
		if reason, ok := refusedFlags[strings.TrimLeft(name, "-")]; f == nil && ok {
			return all, usagef("%s is not supported: %s", name, reason)
		}
		if f == nil {
			var known, without []string
			for _, f := range flags {
				if f.ignored {
					without = append(without, f.names...)
				} else {
					known = append(known, f.names...)
				}
			}
			return all, usagef("unknown flag %s%s", shown(name), cmp.Or(suggest(name, known), suggest(name, without)))
		}
		switch {
		case f.arg == "" && hasValue:
			return all, usagef("%s takes no value", name)
		case f.optional && !hasValue:
			if i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") &&
				(operand == nil || !f.ignored || slices.Contains(f.values, strings.ToLower(args[i+1]))) {
				i++
				value = args[i]
			}
		case f.arg != "" && !hasValue:
			if i++; i == len(args) {
				return all, usagef("%s needs a value: %s", name, f.arg)
			}
			value = args[i]
			if f.second != nil && i+1 < len(args) && f.second(args[i+1]) {
				i++
				value += ":" + args[i]
			}
		}
		if f.ignored {
			all.ignored = append(all.ignored, strings.TrimSpace(name+" "+value))
		}
		if err := f.set(value); err != nil {
			return all, usagef("%s %s: %v", name, f.shown(value), err)
		}
		all.add(f, value, "the command line")
	}
	return all, nil
}

func find(flags []flag, name string) *flag {
	bare := strings.TrimPrefix(strings.TrimPrefix(name, "-"), "-")
	for i := range flags {
		for _, n := range flags[i].names {
			if strings.TrimLeft(n, "-") == bare {
				return &flags[i]
			}
		}
	}
	return nil
}

// given is what a command line says, and then what the environment and a file do.
type given struct {
	fields  []string // that are set
	words   bool     // there are arguments that are no flags
	ignored []string // flags without effect
	origins []origin
	help    bool // is asked for
}

// An origin is the value of a flag, by its first name, and where it is from.
type origin struct{ flag, value, from string }

// add notes that a flag was set.
func (g *given) add(f *flag, value, from string) {
	g.fields = append(g.fields, f.sets())
	if f.arg == "" && value == "" {
		value = switchedOn
	}
	g.origins = append(g.origins, origin{f.names[0], value, from})
}

// free says that nothing else stands for the flag, and that it has a use.
func (f *flag) free(all *given) bool { return (!f.word || !all.words) && (f.use == nil || f.use()) }

// sets is what the flag sets.
func (f *flag) sets() string { return cmp.Or(f.field, f.names[0]) }

// names splits "-n, --predict" into its names.
func names(s string) []string { return strings.Split(s, ", ") }

func valueFlag(n, arg, help string, set func(string) error) flag {
	return flag{names: names(n), arg: arg, help: help, set: set}
}

func textFlag(n string, p *string, arg, help string) flag {
	return valueFlag(n, arg, help, func(v string) error { *p = v; return nil })
}

func switchFlag(n string, p *bool, value bool, help string) flag {
	return valueFlag(n, "", help, func(string) error { *p = value; return nil })
}

// fileFlag is a textFlag whose value must not be empty.
func fileFlag(n string, p *string, arg, help string) flag {
	return valueFlag(n, arg, help, func(v string) error {
		if v == "" {
			return errors.New("no name of a file")
		}
		*p = v
		return nil
	})
}

// filesFlag collects names of files.
func filesFlag(n string, p *[]string, arg, help string) flag {
	return valueFlag(n, arg, help, func(v string) error {
		if v == "" {
			return errors.New("no name of a file")
		}
		*p = append(*p, v)
		return nil
	})
}

// longestArg is the most characters of choices that the help shows in the place of a value.
const longestArg = 45

// choiceFlag takes one of the choices, in any case of letters.
func choiceFlag(n string, p *string, choices []string, help string) flag {
	arg := strings.Join(choices, "|")
	if len(arg) > longestArg {
		arg, help = "NAME", help+"; one of "+strings.Join(choices, ", ")
	}
	return valueFlag(n, arg, help, func(v string) (err error) {
		*p, err = choose(choices, v)
		return err
	}).takes(choices...)
}

func choose(choices []string, v string) (string, error) {
	i := slices.IndexFunc(choices, func(c string) bool { return strings.EqualFold(c, v) })
	if i < 0 {
		return "", fmt.Errorf("not one of %s", strings.Join(choices, ", "))
	}
	return choices[i], nil
}

func intFlag(n string, p *int, low, high int, help string) flag {
	return valueFlag(n, "N", help, func(v string) (err error) {
		*p, err = wholeNumber(v, low, high)
		return err
	})
}

// wholeNumber reads a number from low to high.
func wholeNumber(v string, low, high int) (int, error) {
	i, err := strconv.Atoi(v)
	switch {
	case errors.Is(err, strconv.ErrRange), err == nil && (i < low || i > high):
		return 0, fmt.Errorf("not between %d and %d", low, high)
	case err != nil:
		return 0, errors.New("not a whole number")
	}
	return i, nil
}

func floatFlag(n string, p *float32, low, high float64, help string) flag {
	return valueFlag(n, "X", help, func(v string) error {
		x, err := strconv.ParseFloat(v, 32)
		switch {
		case err != nil && !errors.Is(err, strconv.ErrRange) || math.IsNaN(x):
			return errors.New("not a finite number")
		case x < low || x > high || math.IsInf(x, 0):
			return fmt.Errorf("not between %v and %v", low, high)
		}
		*p = float32(x)
		return nil
	})
}
