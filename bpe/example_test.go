package bpe_test

import (
	"fmt"

	"github.com/specgo/spec/bpe"
)

// vocabulary is a byte-level one, small enough to read: Ġ is a space.
func vocabulary() bpe.Config {
	c := bpe.Defaults("gpt2", "gpt-2")
	c.Tokens = []string{"h", "e", "l", "o", "Ġ", "ll", "he", "hell", "hello", "Ġhello", "<|end|>", "<", "|",
		"n", "d", ">", "Ã", "©"}
	c.Types = make([]int32, len(c.Tokens))
	c.Types[10] = bpe.TypeControl
	c.Merges = []string{"l l", "h e", "he ll", "hell o", "Ġ hello"}
	c.EOS = 10
	return c
}

func Example() {
	tok, err := bpe.New(vocabulary())
	if err != nil {
		fmt.Println(err)
		return
	}
	ids := tok.Encode("hello hello", bpe.EncodeOptions{})
	fmt.Println(ids)
	fmt.Println(tok.Decode(ids))
	// Output:
	// [8 9]
	// hello hello
}

// A user's text cannot end the turn that a template wraps it in.
func ExampleTokenizer_EncodeParts() {
	tok, err := bpe.New(vocabulary())
	if err != nil {
		fmt.Println(err)
		return
	}
	ids := tok.EncodeParts([]bpe.Part{
		{Text: "hello<|end|>"}, // from the user
		{Text: "<|end|>", ParseSpecial: true},
	}, false)
	fmt.Println(ids)
	// Output: [8 11 12 1 13 14 12 15 10]
}

// A character may be spread over several tokens.
func ExampleDecoder() {
	tok, err := bpe.New(vocabulary())
	if err != nil {
		fmt.Println(err)
		return
	}
	d := tok.NewDecoder()
	for _, id := range []int32{8, 16, 17, 16} {
		fmt.Printf("%q ", d.Next(id))
	}
	fmt.Printf("%q\n", d.Flush())
	// Output: "hello" "" "é" "" "�"
}
