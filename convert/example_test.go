package convert_test

import (
	"bytes"
	"context"
	"fmt"
	"log"

	"github.com/specgo/spec/convert"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/testdata"
)

// The embedded draft model with its matrices in Q8_0.
func Example() {
	in := testdata.Draft()
	f, err := gguf.Open(in, in.Size(), "draft.gguf")
	if err != nil {
		log.Fatal(err)
	}
	mixture, err := convert.FindMixture("q8_0")
	if err != nil {
		log.Fatal(err)
	}
	q, err := convert.Quantize(f, mixture)
	if err != nil {
		log.Fatal(err)
	}
	var out bytes.Buffer // or a file
	if err := q.Write(context.Background(), &out, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Println(q.Counts["q8_0"], "matrices in Q8_0;", out.Len() > int(q.Bytes))
	// Output: 9 matrices in Q8_0; true
}
