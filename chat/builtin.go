package chat

import (
	"embed"
	"slices"
	"strings"
)

//go:embed templates/*.jinja
var builtinFiles embed.FS

// Builtin returns the source of one of the package's own templates.
func Builtin(name string) (source string, ok bool) {
	for i := range turns {
		if turns[i].name == name {
			return turns[i].source(), true
		}
	}
	if file, ok := otherNames[name]; ok {
		name = file
	}
	if !slices.Contains(BuiltinNames(), name) {
		return "", false
	}
	data, err := builtinFiles.ReadFile("templates/" + name + ".jinja")
	return string(data), err == nil
}

// otherNames are llama.cpp's names of templates that have shorter ones here.
var otherNames = map[string]string{
	"deepseek3": "deepseek", "llama2-sys": "llama2", "mistral-v3": "mistral",
}

// BuiltinNames returns their names, ascending.
func BuiltinNames() []string {
	entries, err := builtinFiles.ReadDir("templates")
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".jinja"))
	}
	names = append(names, turnNames()...)
	slices.Sort(names)
	return names
}

// BuiltinStops returns the texts that end an answer under a template of that
// name: those that begin the user's turn where no token does.
func BuiltinStops(name string) []string {
	switch name {
	case "plain":
		return []string{"\nUser:"}
	case "vicuna", "vicuna-orca":
		return []string{"\nUSER:"}
	case "alpaca":
		return []string{"\n### Instruction:"}
	}
	return nil
}
