package spec

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// An embedding model's texts become the vectors that its file asks for, near those of an independent engine with the
// other form of GELU.
func TestEmbedWithAnEncoder(t *testing.T) {
	m, err := Open(t.Context(), testkit.Shared(t, "families/encoders/bert.gguf"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	data, err := os.ReadFile(testkit.Shared(t, "families/encoders/golden/bert.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Texts []struct {
			Text   string
			Pooled []float64
		}
	}
	if err := json.Unmarshal(data, &golden); err != nil || len(golden.Texts) == 0 {
		t.Fatal(err, "no texts")
	}
	for _, g := range golden.Texts {
		v, err := m.Embed(t.Context(), []string{"another", g.Text}, EmbedOptions{})
		if err != nil {
			t.Fatal(err)
		}
		length := 0.0
		for _, x := range g.Pooled {
			length += x * x
		}
		for i, x := range g.Pooled {
			if d := math.Abs(float64(v[1][i]) - x/math.Sqrt(length)); !(d < 1e-3) {
				t.Fatalf("%q: number %d is %v, expected %v", g.Text, i, v[1][i], x/math.Sqrt(length))
			}
		}
	}
	whole, err := m.Embed(t.Context(), []string{"a"}, EmbedOptions{Norm: NormNone})
	if err != nil {
		t.Fatal(err)
	}
	short, err := m.Embed(t.Context(), []string{"a"}, EmbedOptions{Dimensions: 5})
	if err != nil || len(short[0]) != 5 {
		t.Fatal(err, short)
	}
	length := 0.0
	for _, x := range whole[0][:5] {
		length += float64(x) * float64(x)
	}
	for i, x := range short[0] {
		if want := float64(whole[0][i]) / math.Sqrt(length); math.Abs(float64(x)-want) > 1e-6 {
			t.Errorf("number %d of 5 is %v, expected %v", i, x, want)
		}
	}
	each, err := m.Embed(t.Context(), []string{"a"}, EmbedOptions{Pooling: PoolNone})
	size := len(whole[0])
	if err != nil || len(each[0]) != 3*size { // between two marks
		t.Fatal(err, len(each[0]))
	}
	for i, want := range whole[0] {
		if mean := (each[0][i] + each[0][size+i] + each[0][2*size+i]) / 3; math.Abs(float64(mean-want)) > 1e-5 {
			t.Fatalf("number %d of the tokens' mean is %v, expected %v", i, mean, want)
		}
	}
	if _, err := m.Embed(t.Context(), []string{"a"}, EmbedOptions{Pooling: PoolNone, Dimensions: 5}); err == nil {
		t.Error("a part of tokens' vectors")
	}
	if _, err := m.Embed(t.Context(), []string{"a"}, EmbedOptions{Pooling: "most"}); err == nil {
		t.Error("an unknown pooling")
	}
}
