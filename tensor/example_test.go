package tensor_test

import (
	"fmt"
	"log"

	"github.com/specgo/spec/tensor"
)

// A matrix of 2 rows and 32 columns, kept as signed bytes, times the vectors of two tokens.
func Example() {
	rt, err := tensor.NewRuntime(tensor.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()

	weights := make([]float32, 2*32)
	weights[0], weights[1] = 127, 1 // row 0: 127a + b
	weights[32+1] = -127            // row 1: -127b
	w, err := tensor.FromFloats(rt, tensor.Q8_0, 2, 32, weights)
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()

	x := make([]float32, 2*32)
	x[0], x[1] = 127, 2  // token 0
	x[32], x[33] = 0, 10 // token 1
	out := make([]float32, 2*2)
	var in tensor.Input
	if err := in.Set(rt, x, 2, 32); err != nil {
		log.Fatal(err)
	}
	if err := rt.MatMul(&in, tensor.Product{W: w, Bias: []float32{0, 1000}, Out: out}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(out[:2], out[2:])
	// Output: [16131 746] [10 -270]
}

func ExampleMatrix_Row() {
	rt, err := tensor.NewRuntime(tensor.Options{Threads: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	// An embedding table: 3 tokens, 2 dimensions.
	table, err := tensor.FromFloats(rt, tensor.F16, 3, 2, []float32{0.5, 1, -2, 3, 0.1, 0})
	if err != nil {
		log.Fatal(err)
	}
	embedding := make([]float32, 2)
	for _, token := range []int{1, 2} {
		if err := table.Row(token, embedding); err != nil {
			log.Fatal(err)
		}
		fmt.Println(embedding)
	}
	// Output:
	// [-2 3]
	// [0.099975586 0]
}

func ExampleRuntime_Quantize() {
	rt, err := tensor.NewRuntime(tensor.Options{Threads: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	x := make([]float32, 32)
	copy(x, []float32{254, -127, 5, 1})
	q, d := make([]int8, 32), make([]float32, 1)
	if err := rt.Quantize(q, d, x); err != nil {
		log.Fatal(err)
	}
	fmt.Println(q[:5], d) // halves go to the even neighbour
	// Output: [127 -64 2 0 0] [2]
}

func ExampleEncode() {
	x := make([]float32, 32)
	copy(x, []float32{-8, 7, 1, 0})
	block := make([]byte, tensor.Q4_0.RowBytes(32))
	if err := tensor.Encode(tensor.Q4_0, block, x); err != nil {
		log.Fatal(err)
	}
	if err := tensor.Decode(tensor.Q4_0, x, block); err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(block), "bytes", x[:5])
	// Output: 18 bytes [-8 7 1 0 0]
}

// Two cached tokens, and a third one that attends to them and to itself.
func ExampleRuntime_Attention() {
	rt, err := tensor.NewRuntime(tensor.Options{Threads: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer rt.Close()
	kv, err := tensor.NewKV(tensor.KVShape{Layers: 1, Heads: 1, HeadDim: 2, Context: 100})
	if err != nil {
		log.Fatal(err)
	}
	if err := kv.Grow(3); err != nil {
		log.Fatal(err)
	}
	keys := []float32{0, 0, 0, 0, 0, 0} // all alike: the output is the mean of the values
	values := []float32{1, 0, 2, 3, 6, 6}
	segment := []tensor.AttentionSegment{{KV: kv, Start: 0, Tokens: 3}}
	if err := rt.StoreKV(0, keys, values, segment); err != nil {
		log.Fatal(err)
	}
	segment[0].Start, segment[0].Tokens = 2, 1
	out := make([]float32, 2)
	if err := rt.Attention(out, []float32{1, 1}, tensor.AttentionOptions{Heads: 1, Scale: 0.7}, segment); err != nil {
		log.Fatal(err)
	}
	fmt.Println(out)
	// Output: [3 3]
}
