package engine

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/randommodel"
)

// withoutIndependentEngine are architectures that the independent engine of testdata/families does not have, or does
// not run as a decoder alone. TestReferenceFamilies and TestT5 compare them with float64 forward passes, TestQwen4exp
// with the model's own authors' code.
var withoutIndependentEngine = []string{"codegen", "gptj", "granite_swa", "opt", "qwen4exp", "spark2_5", "t5",
	"t5encoder"}

// drawnGolden says what an independent engine was given, and of which models its logits are in drawn.f32.
type drawnGolden struct {
	IDs        []int32
	Rows       []int // positions whose logits are there, for one model after the other
	Vocabulary int
	Models     []struct{ Recipe, SHA256 string }
}

func readDrawn(tb testing.TB) (golden drawnGolden) {
	tb.Helper()
	text, err := os.ReadFile("../testdata/families/drawn.json")
	if err == nil {
		err = json.Unmarshal(text, &golden)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return golden
}

// drawnNumbers are those of a file of testdata/families.
func drawnNumbers(tb testing.TB, name string) []float32 {
	tb.Helper()
	raw, err := os.ReadFile("../testdata/families/" + name)
	if err != nil {
		tb.Fatal(err)
	}
	numbers := make([]float32, len(raw)/4)
	if _, err := binary.Decode(raw, binary.LittleEndian, numbers); err != nil {
		tb.Fatal(err)
	}
	return numbers
}

// offBy is the largest difference of two lists of numbers, relative to the root mean square of those expected.
func offBy(got, want []float32) float64 {
	worst, squares := 0.0, 0.0
	for i, w := range want {
		d := math.Abs(float64(got[i]) - float64(w))
		if !(d <= worst) { // NaN too
			worst = d
		}
		squares += float64(w) * float64(w)
	}
	return worst / math.Sqrt(squares/float64(len(want)))
}

// rowsOf are rows of a matrix whose rows have n numbers.
func rowsOf(matrix []float32, rows []int, n int) (list []float32) {
	for _, row := range rows {
		list = append(list, matrix[row*n:(row+1)*n]...)
	}
	return list
}

// TestDrawnFamiliesAnswerLikeAnIndependentEngine compares models of every architecture, which the tests' own
// generator draws, with the logits that an independent engine computed from the same files. Its rounding moves logits
// by at most 2e-5 of their root mean square; a part of an architecture that is left out or done otherwise moves them
// by 0.005 and more. All bits are those of drawn.sha256, on every processor: SPEC_UPDATE=1 writes it, where a change is
// one of what every model answers.
func TestDrawnFamiliesAnswerLikeAnIndependentEngine(t *testing.T) {
	golden, logits := readDrawn(t), drawnNumbers(t, "drawn.f32")
	if each := len(golden.Rows) * golden.Vocabulary; len(logits) != len(golden.Models)*each {
		t.Fatalf("drawn.f32 has %d logits, expected %d", len(logits), len(golden.Models)*each)
	}
	const sumsFile = "../testdata/families/drawn.sha256"
	text, err := os.ReadFile(sumsFile)
	if err != nil {
		t.Fatal(err)
	}
	bits, sums := string(text), strings.Builder{}
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	recipes, models := randommodel.Recipes(), askedModels()
	known := slices.Clone(withoutIndependentEngine)
	for _, g := range golden.Models {
		recipe, ok := recipes[g.Recipe]
		model, own := models[g.Recipe]
		if ok == own {
			t.Fatalf("recipe %q, and model of what is asked: %v, %v", g.Recipe, ok, own)
		}
		known = append(known, recipe.Arch, model.arch)
		want := logits[:len(golden.Rows)*golden.Vocabulary]
		logits = logits[len(want):]
		t.Run(g.Recipe, func(t *testing.T) {
			var file []byte
			if own {
				file = model.file(t, g.Recipe)
			} else {
				file = recipe.File(t)
			}
			if sum := sha256.Sum256(file); hex.EncodeToString(sum[:]) != g.SHA256 {
				t.Fatal("the generator draws another file than the one whose logits are here")
			}
			m, err := openBytes(t, rt, file, g.Recipe, Options{RopeContext: 256, tanhGELU: true})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			got := eval(t, newSession(t, m, SessionOptions{KV: "f32"}), golden.IDs, nil, All)
			all := sha256.New()
			if err := binary.Write(all, binary.LittleEndian, got); err != nil {
				t.Fatal(err)
			}
			line := fmt.Sprintf("%x  %s\n", all.Sum(nil), g.Recipe)
			if sums.WriteString(line); !strings.Contains(bits, line) {
				t.Errorf("the logits' bits are others than in drawn.sha256: %s", line)
			}
			if off := offBy(rowsOf(got, golden.Rows, golden.Vocabulary), want); !(off <= 1e-4) {
				t.Errorf("the logits are off by %.2g of their root mean square", off)
			}
		})
	}
	if os.Getenv("SPEC_UPDATE") != "" && strings.Count(sums.String(), "\n") == len(golden.Models) {
		if err := os.WriteFile(sumsFile, []byte(sums.String()), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range Architectures() {
		if kinds[name].is != KindEncoder && !slices.Contains(known, name) { // TestEncoders has those
			t.Errorf("%s: no logits of an independent engine", name)
		}
	}
}
