package main

import (
	"errors"
	"slices"
	"strings"
)

// variables are the environment variables of a flag: those that other tools know, else SPEC_ and its long name. One
// without effect has none.
func (f *flag) variables() []string {
	if f.ignored || f.names[0] == helpFlag {
		return nil
	}
	if len(f.vars) > 0 {
		return f.vars
	}
	return []string{"SPEC_" + strings.ToUpper(strings.ReplaceAll(f.long(), "-", "_"))}
}

// hubVariable is the variable of -hf. llama.cpp has that of a file beside it, which counts instead of a quantization.
const hubVariable, hubFileVariable = "LLAMA_ARG_HF_REPO", "LLAMA_ARG_HF_FILE"

// variable is the first of the variables of a flag that is set; "": none is.
func (f *flag) variable(env func(string) string) (name, value string) {
	for _, name := range f.variables() {
		if value := env(name); value != "" {
			return name, value
		}
	}
	return "", ""
}

// fromEnvironment sets what the command line leaves open and an environment variable says, in the order of the table.
// Of variables that name one model as a file and on the Hub the latter counts, as in llama.cpp.
func fromEnvironment(flags []flag, all *given, env func(string) string) error {
	before := slices.Clone(all.fields)
	var onHub []string // fields
	for _, f := range flags {
		if name, _ := f.variable(env); name != "" && f.arg == hubName && f.free(all) {
			onHub = append(onHub, f.sets())
		}
	}
	for _, f := range flags {
		name, value := f.variable(env)
		if name == "" || slices.Contains(before, f.sets()) || !f.free(all) ||
			f.arg != hubName && slices.Contains(onHub, f.sets()) {
			continue
		}
		if file := env(hubFileVariable); name == hubVariable && file != "" {
			repo, _, _ := strings.Cut(value, ":")
			value = repo + ":" + file
		}
		if err := f.setText(value); err != nil {
			return usagef("environment variable %s=%s: %v", name, f.shown(value), err)
		}
		all.add(&f, value, "environment variable "+name)
	}
	return nil
}

// setText sets a flag by a text, which a switch has too: whether it is on.
func (f *flag) setText(value string) error {
	if f.arg != "" {
		return f.set(value)
	}
	switch strings.ToLower(value) {
	case "1", "on", "true", "yes", "enabled":
		return f.set("")
	case "0", "off", "false", "no", "disabled":
		return nil
	}
	return errors.New("neither 1 nor 0")
}
