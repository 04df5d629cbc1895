package engine

import (
	"strings"
	"testing"

	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/randommodel"
)

// TestActiveParameters: of experts those count that a token is sent to, of everything else all.
func TestActiveParameters(t *testing.T) {
	rt := newRuntime(t, RuntimeOptions{Threads: 1})
	for _, name := range []string{"qwen3moe", "llama"} {
		data := randommodel.Recipes()[name].File(t)
		m, err := New(t.Context(), rt, strings.NewReader(string(data)), int64(len(data)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Open(strings.NewReader(string(data)), int64(len(data)), name)
		if err != nil {
			t.Fatal(err)
		}
		want, c := m.Parameters(), m.Config()
		for _, x := range f.Tensors {
			if strings.Contains(x.Name, "_exps") {
				want -= int64(x.Elements()) * int64(c.Experts-c.ExpertsUsed) / int64(c.Experts)
			}
		}
		if n := m.ActiveParameters(); n != want || (n < m.Parameters()) != (c.Experts > 0) {
			t.Errorf("%s: %d active parameters of %d, want %d", name, n, m.Parameters(), want)
		}
	}
}
