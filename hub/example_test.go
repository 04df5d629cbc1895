package hub_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"github.com/specgo/spec/hub"
)

// A client finds a model in the cache. It would download one that is missing if Download were set.
func Example() {
	dir, err := os.MkdirTemp("", "hub")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	client := hub.Client{Cache: hub.Cache{Dir: dir}} // or hub.DefaultCache(os.Getenv)
	model, err := hub.ParseReference("Qwen/Qwen3-0.6B-GGUF:Q8_0")
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.Find(context.Background(), model)
	fmt.Println(err)
	fmt.Println(errors.Is(err, hub.ErrNotCached))
	// Output:
	// Qwen/Qwen3-0.6B-GGUF:Q8_0: not in the cache
	// true
}
