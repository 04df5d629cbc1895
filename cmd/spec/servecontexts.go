package main

import (
	"os"
	"sync"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
)

// contexts are the contexts of models that are not in memory, as their files' headers say. A header is read when a list
// of models first asks, and again when the file is another one: that of a large vocabulary takes some milliseconds.
type contexts struct {
	mu    sync.Mutex
	known map[string]fileContext // by path
}

// fileContext is the context of a file as it was: 0 tokens where its header says none.
type fileContext struct {
	bytes    int64
	modified time.Time
	tokens   int
}

// mostContexts bounds how many are known; beyond it they are read again.
const mostContexts = 4096

// of is the context of a file; 0: not known.
func (c *contexts) of(file string, changes fileChanges) int {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() { // opening a pipe waits for a writer
		return 0
	}
	c.mu.Lock() // one header at a time
	defer c.mu.Unlock()
	k, ok := c.known[file]
	if !ok || k.bytes != info.Size() || !k.modified.Equal(info.ModTime()) {
		k = fileContext{info.Size(), info.ModTime(), headerContext(file, changes)}
		if c.known == nil || len(c.known) >= mostContexts {
			c.known = map[string]fileContext{}
		}
		c.known[file] = k
	}
	return k.tokens
}

// headerContext reads a file's header.
func headerContext(file string, changes fileChanges) int {
	f, err := gguf.OpenFile(file)
	if err != nil {
		return 0 // loading it says what is wrong
	}
	defer f.Close()
	var o engine.Options
	changes.options(&o)
	changed, err := o.Overridden(f)
	if err != nil {
		return 0
	}
	d, err := engine.Describe(changed)
	if err != nil {
		return 0
	}
	return d.Config.Context
}

// contextOf is the context that requests for a model will have, as far as that is known before it is loaded; 0: it
// is not.
func (s *serving) contextOf(file string) int {
	if s.contexts == nil {
		return 0 // nothing is served
	}
	n := s.contexts.of(file, s.changes)
	if s.context > 0 {
		n = min(n, s.context)
	}
	return n
}
