// Command hello is the shortest program of the library: it writes what follows the first words. A test builds it.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/specgo/spec"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: hello MODEL.gguf TEXT")
		os.Exit(2)
	}
	m, err := spec.Open(context.Background(), os.Args[1], spec.Options{})
	if err == nil {
		defer m.Close()
		for e, failed := range m.Complete(context.Background(), os.Args[2], spec.Request{MaxTokens: 16}) {
			fmt.Print(e.Text)
			err = failed
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
