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

// fromEnvironment sets what the command line leaves open and an environment variable says, in the order of the table.
func fromEnvironment(flags []flag, all *given, env func(string) string) error {
	before := slices.Clone(all.fields)
	for _, f := range flags {
		if slices.Contains(before, f.sets()) || !f.free(all) {
			continue
		}
		for _, name := range f.variables() {
			value := env(name)
			if value == "" {
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
			break
		}
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
