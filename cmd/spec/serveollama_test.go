package main

import (
	"strings"
	"testing"
)

// With --ollama a server is where Ollama's clients look for it, or where OLLAMA_HOST says, in each of its forms; flags
// count more. Without it the variable, which clients have too, means nothing.
func TestServeOllamaAddress(t *testing.T) {
	for _, x := range []struct {
		line, variable, host string
		port                 int
		says                 string // of an error
	}{
		{"", "", "127.0.0.1", 8080, ""}, {"", "1.2.3.4:5", "127.0.0.1", 8080, ""}, {"", "%", "127.0.0.1", 8080, ""},
		{"--ollama", "", "127.0.0.1", 11434, ""}, {"--ollama", "127.0.0.1:8000", "127.0.0.1", 8000, ""},
		{"--ollama", ":9", "127.0.0.1", 9, ""}, {"--ollama", "localhost", "localhost", 11434, ""},
		{"--ollama", "http://localhost:7/", "localhost", 7, ""}, {"--ollama", "http://127.0.0.1", "127.0.0.1", 80, ""},
		{"--ollama", "[::1]:6", "::1", 6, ""}, {"--ollama", "::1", "::1", 11434, ""},
		{"--ollama --port 1", ":9", "127.0.0.1", 1, ""}, {"--ollama --host localhost", "127.0.0.2:9", "localhost", 9, ""},
		{"--ollama --ollama-host 127.0.0.3:4", ":9", "127.0.0.3", 4, ""},
		{"--ollama --api-key k", "0.0.0.0", "0.0.0.0", 11434, ""},
		{"--ollama", "0.0.0.0", "", 0, "--api-key"}, {"--ollama", "https://localhost", "", 0, "OLLAMA_HOST"},
		{"--ollama", "localhost:70000", "", 0, "OLLAMA_HOST"}, {"--ollama", "a b", "", 0, "OLLAMA_HOST"},
		{"--ollama-host localhost", "", "", 0, "--ollama"},
	} {
		env := func(k string) string { return map[string]string{"OLLAMA_HOST": x.variable}[k] }
		j, _, err := serveCommand.parse(strings.Fields(x.line), env)
		s, _ := j.(*serving)
		switch {
		case x.says != "":
			if err == nil || !strings.Contains(err.Error(), x.says) {
				t.Errorf("%q, OLLAMA_HOST=%s: %v, want an error with %s", x.line, x.variable, err, x.says)
			}
		case err != nil:
			t.Errorf("%q, OLLAMA_HOST=%s: %v", x.line, x.variable, err)
		case s.host != x.host || s.port != x.port || s.ollama.on != (len(s.origins) == 1):
			t.Errorf("%q, OLLAMA_HOST=%s: %s port %d, origins %q", x.line, x.variable, s.host, s.port, s.origins)
		}
	}
	url, _ := startedIn(t, func(string) string { return "" }, "--ollama", "--port", "0", "--log-format", "off", "-t", "1")
	if status, text := askAs(t, "", "GET", url+"/", ""); status != 200 || text != "Ollama is running" {
		t.Errorf("/: %d %q", status, text)
	}
}
