package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	library "github.com/specgo/spec"
)

// docs/CHAT.md has every command and setting of the chat.
func TestChatCommandsAreDocumented(t *testing.T) {
	const file = "../../docs/CHAT.md"
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var commands, list strings.Builder
	commands.WriteString("| command | what |\n|---|---|\n")
	for _, c := range slashCommands() {
		fmt.Fprintf(&commands, "| `%s` | %s |\n", strings.TrimSpace("/"+strings.Join(c.names, ", /")+" "+c.arg), c.does)
	}
	list.WriteString("| setting | by default |\n|---|---|\n")
	d, _, _ := newDialog("")
	withModel(t, d, "{{ messages[0].content }}", 0)
	d.request.Sampling, d.predict, d.whenFull, d.markdown, d.showReasoning = library.UsualSampling(), -1, fullAsk, true,
		true
	for _, s := range settings() {
		value := s.show(d)
		if s.name == "seed" {
			value = "another for each conversation"
		}
		fmt.Fprintf(&list, "| `%s` | %s |\n", s.name, value)
	}
	want := string(data)
	for name, table := range map[string]string{"commands": commands.String(), "settings": list.String()} {
		head, rest, ok := strings.Cut(want, "<!-- "+name+":")
		mark, rest, marked := strings.Cut(rest, "\n")
		_, rest, ends := strings.Cut(rest, "<!-- end of "+name+" -->")
		if !ok || !marked || !ends {
			t.Fatalf("%s: no marks of %s", file, name)
		}
		want = head + "<!-- " + name + ":" + mark + "\n" + table + "<!-- end of " + name + " -->" + rest
	}
	if os.Getenv("SPEC_UPDATE") != "" {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(data) != want {
		t.Errorf("%s is not what the code says: SPEC_UPDATE=1 go test ./cmd/spec -run ChatCommandsAreDocumented", file)
	}
}
