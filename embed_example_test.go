package spec_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/specgo/spec"
)

// dot is the cosine of vectors of length 1.
func dot(a, b []float32) (s float32) {
	for i, x := range a {
		s += float32(x * b[i])
	}
	return s
}

// The k nearest of many texts: their vectors are computed once, a query's when it comes.
func ExampleModel_Embed_nearest() {
	ctx := context.Background()
	m := open(spec.Options{})
	defer m.Close()
	texts := []string{"for i := range n {", "return nil, err", "type ring struct {", "if err != nil {",
		"for _, x := range list {"}
	index, err := m.Embed(ctx, texts, spec.EmbedOptions{Dimensions: 64}) // an index of a quarter of the size
	check(err)
	query, err := m.Embed(ctx, []string{"for k, v := range all {"}, spec.EmbedOptions{Dimensions: 64})
	check(err)
	const k = 2
	order := []int{0, 1, 2, 3, 4}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(dot(query[0], index[j]), dot(query[0], index[i])) })
	for _, i := range order[:k] {
		fmt.Printf("%.2f %s\n", dot(query[0], index[i]), texts[i])
	}
	// Output:
	// 0.90 for _, x := range list {
	// 0.90 for i := range n {
}
