package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
)

// A flag is one line of a command's help and what its value does. The first name is the one that
// messages use; the others are the names by which other tools' users know it.
type flag struct {
	names []string
	arg   string // what the help calls the value; "" for a switch, which takes none
	help  string
	set   func(value string) error
}

// usageError is a mistake in how the program was called: exit code 2.
type usageError struct{ msg string }

func (e usageError) Error() string { return e.msg }

func usagef(format string, a ...any) error { return usageError{fmt.Sprintf(format, a...)} }

// parse reads args by the table. A flag may be written with one dash or two, its value as the next
// argument or after "=". Everything must be a flag: commands take no operands unless operand is
// given, which then gets them one by one.
func parse(flags []flag, args []string, operand func(string) error) error {
	for i := 0; i < len(args); i++ {
		given := args[i]
		if len(given) < 2 || given[0] != '-' {
			if operand == nil {
				return usagef("%q is not a flag", given)
			}
			if err := operand(given); err != nil {
				return err
			}
			continue
		}
		name, value, hasValue := strings.Cut(given, "=")
		f := find(flags, name)
		if f == nil {
			return usagef("unknown flag %s", name)
		}
		switch {
		case f.arg == "" && hasValue:
			return usagef("%s takes no value", name)
		case f.arg != "" && !hasValue:
			if i++; i == len(args) {
				return usagef("%s needs a value: %s", name, f.arg)
			}
			value = args[i]
		}
		if err := f.set(value); err != nil {
			return usagef("%s %s: %v", name, value, err)
		}
	}
	return nil
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

// names splits "-n, --predict" into its names.
func names(s string) []string { return strings.Split(s, ", ") }

func textFlag(n string, p *string, arg, help string) flag {
	return flag{names(n), arg, help, func(v string) error { *p = v; return nil }}
}

func listFlag(n string, p *[]string, arg, help string) flag {
	return flag{names(n), arg, help, func(v string) error { *p = append(*p, v); return nil }}
}

func switchFlag(n string, p *bool, value bool, help string) flag {
	return flag{names(n), "", help, func(string) error { *p = value; return nil }}
}

func choiceFlag(n string, p *string, choices []string, help string) flag {
	all := strings.Join(choices, "|")
	return flag{names(n), all, help, func(v string) error {
		if !slices.Contains(choices, v) {
			return fmt.Errorf("not one of %s", all)
		}
		*p = v
		return nil
	}}
}

func intFlag(n string, p *int, low, high int, help string) flag {
	return flag{names(n), "N", help, func(v string) error {
		i, err := strconv.Atoi(v)
		if err != nil {
			return fmt.Errorf("not a whole number")
		}
		if i < low || i > high {
			return outside(low, high, math.MaxInt32)
		}
		*p = i
		return nil
	}}
}

func floatFlag(n string, p *float32, low, high float64, help string) flag {
	return flag{names(n), "X", help, func(v string) error {
		x, err := strconv.ParseFloat(v, 32)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("not a finite number")
		}
		if x < low || x > high {
			return outside(low, high, math.MaxFloat32)
		}
		*p = float32(x)
		return nil
	}}
}

// outside says what a number should have been; a bound at no stands for none.
func outside[T int | float64](low, high, no T) error {
	if high >= no {
		return fmt.Errorf("less than %v", low)
	}
	return fmt.Errorf("not between %v and %v", low, high)
}

// printFlags writes the table as a command's help shows it: names, value, then the text, folded
// under itself.
func printFlags(w io.Writer, flags []flag) {
	const column, width = 30, 100
	for _, f := range flags {
		left := "  " + strings.Join(f.names, ", ")
		if f.arg != "" {
			left += " " + f.arg
		}
		if len(left) >= column-1 {
			fmt.Fprintln(w, left)
			left = ""
		}
		line := left + strings.Repeat(" ", column-1-len(left))
		for _, word := range strings.Fields(f.help) {
			if len(line)+1+len(word) > width {
				fmt.Fprintln(w, line)
				line = strings.Repeat(" ", column-1)
			}
			line += " " + word
		}
		fmt.Fprintln(w, line)
	}
}
