package testdata_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
)

// independent is what other programs computed with the pair's F32 originals: independent.json, and the rows of
// logits, one model after the other, in independent.f32. README.md says which programs.
type independent map[string]struct {
	Prompt string  `json:"prompt"`
	IDs    []int32 `json:"token_ids"`
	Rows   []int   `json:"rows"` // positions whose logits are in independent.f32
	Greedy []int32 `json:"greedy_token_ids"`
}

// TestIndependent compares the embedded pair with other programs' results for the originals. The pair's weights are
// rounded to 8 bits, which moves the logits by 0.3 to 0.7 percent and no greedy token; a mistake in the forward pass
// moves them much more.
func TestIndependent(t *testing.T) {
	text, err := os.ReadFile("independent.json")
	if err != nil {
		t.Fatal(err)
	}
	var want independent
	if err := json.Unmarshal(text, &want); err != nil {
		t.Fatal(err)
	}
	rows, err := os.ReadFile("independent.f32")
	if err != nil {
		t.Fatal(err)
	}
	rt, err := engine.NewRuntime(engine.RuntimeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	for _, name := range []string{"go-target", "go-draft"} {
		g, m := want[name], open(t, rt, name, "f32")
		if ids := m.Tokenizer().Encode(g.Prompt, bpe.EncodeOptions{AddSpecial: true}); !slices.Equal(ids, g.IDs) {
			t.Errorf("%s: the prompt is %d, expected %d", name, ids, g.IDs)
		}
		s, err := m.NewSession(engine.SessionOptions{KV: "f32"})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Eval(context.Background(), g.IDs, nil, engine.All)
		if err != nil {
			t.Fatal(err)
		}
		for _, position := range g.Rows {
			sum, squares, worst := 0.0, 0.0, 0.0
			for _, x := range got.Row(position) {
				y := float64(math.Float32frombits(binary.LittleEndian.Uint32(rows)))
				rows = rows[4:]
				d := float64(x) - y
				sum, squares, worst = sum+d*d, squares+y*y, max(worst, math.Abs(d))
			}
			off, most := math.Sqrt(sum/squares), worst/math.Sqrt(squares/float64(got.Vocab))
			t.Logf("%s, position %d: off by %.2g, at most %.2g of the root mean square", name, position, off, most)
			if !(off < 0.02) {
				t.Errorf("%s, position %d: the logits are off by %.2g of their root mean square", name, position, off)
			}
		}
		if got := greedy(t, m, g.IDs, len(g.Greedy)); !slices.Equal(got, g.Greedy) {
			t.Errorf("after the prompt %s writes\n%v, expected\n%v", name, got, g.Greedy)
		}
	}
}
