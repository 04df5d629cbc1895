package engine

import (
	"testing"

	"github.com/specgo/spec/testdata"
)

// The file's scalars and strings can be asked for, its arrays are not kept.
func TestMetadata(t *testing.T) {
	rt, err := NewRuntime(RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	m, err := New(t.Context(), rt, testdata.Draft(), testdata.Draft().Size(), Options{Name: "draft"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if v, ok := m.Metadata("general.architecture"); !ok || v != m.Config().Architecture {
		t.Errorf("general.architecture: %v, %v", v, ok)
	}
	if v, ok := m.Metadata("tokenizer.ggml.tokens"); ok {
		t.Errorf("an array is kept: %T", v)
	}
	if _, ok := m.Metadata("no.such.key"); ok {
		t.Error("a key that is not there")
	}
	if m.ChatTemplate() != "" {
		t.Errorf("a chat template: %q", m.ChatTemplate())
	}
}
