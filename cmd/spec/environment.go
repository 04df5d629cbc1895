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

// variable is the first of the variables of a flag that is set; "": none is. A switch that is called NO_X is set by
// X=0 too.
func (f *flag) variable(env func(string) string) (name, value string) {
	all := f.variables()
	for _, name := range all {
		if value := env(name); value != "" {
			return name, value
		}
	}
	for _, name := range all {
		if x := contrary(name); f.denied(x, env(x)) {
			return x, switchedOn
		}
	}
	return "", ""
}

// contrary is the name of a variable or a key without the "no" in it; itself, where it has none.
func contrary(name string) string {
	if rest, ok := strings.CutPrefix(name, "no-"); ok {
		return rest
	}
	return strings.Replace(name, "_NO_", "_", 1)
}

// denied reports whether a variable or a key with a value says that the contrary of a switch is off.
func (f *flag) denied(name, value string) bool {
	return f.arg == "" && isOff(value) &&
		slices.ContainsFunc(f.keys(), func(key string) bool { return contrary(key) == name && key != name })
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
	case switchedOn, "on", "true", "yes", "enabled":
		return f.set("")
	}
	if isOff(value) {
		return nil
	}
	return errors.New("neither 1 nor 0")
}

// switchedOn is the text of a switch that is set.
const switchedOn = "1"

func isOff(value string) bool {
	return slices.Contains([]string{"0", "off", "false", "no", "disabled"}, strings.ToLower(value))
}
