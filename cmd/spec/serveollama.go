package main

import (
	"errors"
	"net"
	"strconv"
	"strings"
)

// ollama is a server that takes the place of Ollama's, for its clients.
type ollama struct {
	on   bool
	host string // of OLLAMA_HOST; "": it says nothing
	port int    // likewise; 0
}

// ollamaPort is where its clients look for it.
const ollamaPort = 11434

// rows are --ollama, and the address that its variable has.
func (o *ollama) rows() []flag {
	return []flag{
		switchFlag("--ollama", &o.on, true, "take the place of Ollama's server: port 11434, or OLLAMA_HOST, its names of "+
			"models (NAME:latest), its line at /, and pages of this machine may use it; the page is at /index.html"),
		valueFlag("--ollama-host", "ADDRESS", "with --ollama: where to listen, as OLLAMA_HOST has it: an address, a port as "+
			"in :11434, or both; --host and --port count more", o.setHost).or("127.0.0.1:11434").env("OLLAMA_HOST").
			when(func() bool { return o.on }),
	}
}

// setHost reads an address in the forms that Ollama reads.
func (o *ollama) setHost(v string) error {
	text, port := strings.TrimSpace(v), ollamaPort
	if scheme, rest, ok := strings.Cut(text, "://"); ok {
		if scheme != "http" {
			return errors.New("only http:// can stand before the address; --ssl-cert-file is TLS")
		}
		text, port = rest, 80
	}
	text, _, _ = strings.Cut(text, "/")
	host, number, err := net.SplitHostPort(text)
	if err != nil {
		host, number = strings.Trim(text, "[]"), ""
	}
	if number != "" {
		if port, err = strconv.Atoi(number); err != nil || port < 0 || port > 65535 {
			return errors.New("its port is none")
		}
	}
	if strings.ContainsAny(host, " @?#") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
		return errors.New("not an address, a port as in :11434, or both")
	}
	o.host, o.port = host, port
	return nil
}

// settle says where to listen, as far as no flag does, and what follows from --ollama.
func (s *network) settle() error {
	switch {
	case !s.ollama.on && (s.ollama.host != "" || s.ollama.port != 0):
		return usagef("--ollama-host goes with --ollama")
	case s.ollama.on && s.host == "":
		s.host = s.ollama.host
	}
	if s.host == "" {
		s.host = "127.0.0.1"
	}
	if s.port < 0 {
		switch {
		case s.ollama.on && s.ollama.port != 0:
			s.port = s.ollama.port
		case s.ollama.on:
			s.port = ollamaPort
		default:
			s.port = 8080
		}
	}
	if s.ollama.on && s.origins == nil {
		s.origins = []string{"localhost"}
	}
	return nil
}
