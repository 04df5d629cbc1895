package bench

import (
	"fmt"
	"slices"
	"testing"
)

// Every kernel set is measured in every round, each round beginning with the next one, and rows of the same pass stand
// together.
func TestInTurn(t *testing.T) {
	a, b := model(t), model(t)
	memory := 0.0
	o := Options{Prefill: []int{9}, Contexts: []int{0}, Verify: []int{5}, Decode: 4, Repeats: 3,
		Memory: func() (float64, error) { memory += 1e6; return memory, nil }}
	var order []string
	list, bandwidth, err := InTurn(t.Context(), []Set{{"a", a, nil}, {"b", b, nil}}, o, func(kernels string, r Row) {
		if r.Kind == "decode" {
			order = append(order, kernels)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a", "b", "b", "a", "a", "b"}; !slices.Equal(order, want) {
		t.Errorf("in the order %v, expected %v", order, want)
	}
	if bandwidth != 3.5e6 {
		t.Errorf("bandwidth %v, expected the median of six", bandwidth)
	}
	var got []string
	for _, x := range list {
		got = append(got, fmt.Sprint(x.Kind, x.Tokens, x.Kernels))
		if len(x.Seconds) != 3 || slices.Min(x.Seconds) <= 0 {
			t.Errorf("%s of %s took %v", x.Kind, x.Kernels, x.Seconds)
		}
	}
	if want := []string{"decode1a", "decode1b", "verify5a", "verify5b", "prefill9a", "prefill9b"}; !slices.Equal(got,
		want) {
		t.Errorf("%v, expected %v", got, want)
	}
}
