package main

import (
	"cmp"
	"slices"
	"strings"
)

// A sharedFlag is a flag with the commands that have it: rows of commands that say the same are one.
type sharedFlag struct {
	flag
	title    string // of its group
	commands []string
}

// sharedFlags lists the flags of all commands, in the order of the commands.
func sharedFlags() (list []*sharedFlag) {
	of := map[string]*sharedFlag{}
	for _, c := range commands() {
		for _, g := range c.new().flags() {
			for _, f := range g.flags {
				id := strings.Join(append([]string{g.title, f.usage(), f.help, f.standard}, f.variables()...), "\x00")
				if of[id] == nil {
					of[id] = &sharedFlag{flag: f, title: g.title}
					list = append(list, of[id])
				}
				of[id].commands = append(of[id].commands, c.name)
			}
		}
	}
	return list
}

// sortedFlags lists the flags of all commands that have an effect by their long names.
func sortedFlags() []*sharedFlag {
	list := slices.DeleteFunc(sharedFlags(), func(f *sharedFlag) bool { return f.ignored })
	slices.SortStableFunc(list, func(a, b *sharedFlag) int { return cmp.Compare(a.long(), b.long()) })
	return list
}

// long is a flag's name without dashes: the first long one.
func (f *flag) long() string { return strings.TrimLeft(f.told(), "-") }
