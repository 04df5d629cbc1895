package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/specgo/spec/internal/ini"
)

// A settings file gives flags values: a key is a flag's name without its dashes, or its environment variable. What
// stands before all sections and in [*] is for every command that has the flag; other sections are models of spec
// serve.

// common are the flags that every command has.
type common struct {
	help   bool
	config string // "": the file in the user's folder, if there is one
}

// noConfig is the value of --config that reads no file.
const noConfig = "none"

func (c *common) rows() []flag {
	return []flag{
		fileFlag("--config", &c.config, "FILE", "a file with KEY = VALUE for flags, by their names without dashes; "+
			noConfig+": no file").or("spec/config.ini in the user's folder for configuration"),
		switchFlag(helpFlag+", --help", &c.help, true, "show this help"),
	}
}

// commonRows are the flags that every command has, for what only tells them.
func commonRows() []flag { return new(common).rows() }

// defaultConfig is the file that is read where no flag names one; "": none.
func defaultConfig(env func(string) string) string {
	dir := env("XDG_CONFIG_HOME")
	home := env("HOME")
	switch {
	case filepath.IsAbs(dir):
	case runtime.GOOS == "windows":
		dir = env("AppData")
	case home == "":
	case runtime.GOOS == "darwin":
		dir = filepath.Join(home, "Library", "Application Support")
	default:
		dir = filepath.Join(home, ".config")
	}
	if !filepath.IsAbs(dir) {
		return ""
	}
	return filepath.Join(dir, "spec", "config.ini")
}

// openConfig reads the file that a command line or the environment names, else the default one; nil: there is none.
func openConfig(given string, env func(string) string) (*ini.File, error) {
	name := given
	if name == "" {
		name = env("SPEC_CONFIG")
	}
	asked := name != ""
	switch name {
	case noConfig:
		return nil, nil
	case "":
		if name = defaultConfig(env); name == "" {
			return nil, nil
		}
	}
	f, err := os.Open(name)
	if !asked && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR)) { // HOME=/dev/null of services
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	file, err := ini.Read(name, f)
	if err != nil {
		return nil, err
	}
	return file, checkConfig(file)
}

// configVersion is the version of files that are read, where they say one.
const configVersion = "1"

// checkConfig refuses keys that no command has, and sections that are no models.
func checkConfig(file *ini.File) error {
	known := sharedFlags()
	for i, s := range file.Sections {
		if i > 0 && s.Name != ini.Everything {
			if _, err := presetOf(file, &s); err != nil {
				return err
			}
			continue
		}
		for _, e := range s.Entries {
			if e.Key == "version" {
				if e.Value != configVersion {
					return file.Errorf(e.Line, "version %s: only version %s is known", shown(e.Value), configVersion)
				}
				continue
			}
			if err := checkKey(known, e.Key); err != nil {
				return file.Errorf(e.Line, "%v", err)
			}
		}
	}
	return nil
}

// checkKey refuses a key that no flag has, and one that means different flags in different commands.
func checkKey(known []*sharedFlag, key string) error {
	var has *sharedFlag
	for _, f := range known {
		if !f.hasKey(key) {
			continue
		}
		if has != nil && has.long() != f.long() && !slices.Contains(has.names, f.names[len(f.names)-1]) {
			return fmt.Errorf("%s is %s in spec %s and %s in spec %s: give the long name", key, has.long(), has.commands[0],
				f.long(), f.commands[0])
		}
		has = f
	}
	if has != nil {
		return nil
	}
	var names []string
	for _, f := range known {
		names = append(names, f.keys()...)
	}
	return fmt.Errorf("unknown key %s%s", shown(key), suggest(key, names))
}

// keys are the names of a flag in a file: those without dashes, unless another one has them too, and its variables.
func (f *flag) keys() (list []string) {
	if f.apart {
		return f.variables()
	}
	for _, n := range f.names {
		list = append(list, strings.TrimLeft(n, "-"))
	}
	return append(list, f.variables()...)
}

func (f *flag) hasKey(key string) bool { return slices.Contains(f.keys(), key) }

// fromFile sets what the command line and the environment leave open and a file says, in the order of the table.
func fromFile(flags []flag, all *given, file *ini.File) error {
	if file == nil {
		return nil
	}
	before := slices.Clone(all.fields)
	var model *ini.Entry
	for _, f := range flags {
		if slices.Contains(before, f.sets()) || f.ignored || !f.free(all) {
			continue
		}
		e, err := entryOf(file, &f)
		if e == nil || err != nil {
			if err != nil {
				return err
			}
			continue
		}
		if f.sets() == fieldModel {
			if model != nil {
				return sameTwice(file, model, e)
			}
			model = e
		}
		value := e.Value
		if !f.hasKey(e.Key) { // its contrary is off
			value = switchedOn
		}
		if err := f.setText(value); err != nil {
			return usagef("%v", file.Errorf(e.Line, "%s = %s: %v", e.Key, f.shown(e.Value), err))
		}
		all.add(&f, value, fmt.Sprintf("%s, line %d", file.Name, e.Line))
	}
	return nil
}

// sameTwice is the error of two keys that say the same.
func sameTwice(file *ini.File, a, b *ini.Entry) error {
	if a.Line > b.Line {
		a, b = b, a
	}
	return usagef("%v", file.Errorf(b.Line, "%s, and %s in line %d: the same flag twice", b.Key, a.Key, a.Line))
}

// entryOf finds what a file says of a flag, or of a switch's contrary that is off; nil: nothing. Two keys for one flag
// are a mistake.
func entryOf(file *ini.File, f *flag) (found *ini.Entry, err error) {
	for n, s := range file.Sections {
		if n > 0 && s.Name != ini.Everything {
			continue // a model
		}
		for i := range s.Entries {
			e := &s.Entries[i]
			switch {
			case !f.hasKey(e.Key) && !f.denied(e.Key, e.Value):
			case found != nil:
				return nil, sameTwice(file, found, e)
			default:
				found = e
			}
		}
	}
	return found, nil
}
