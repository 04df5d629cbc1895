package spec

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// The shortest program of the library has no models inside, and nothing of the server or the command.
func TestHelloIsTheLibraryAlone(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "./internal/hello").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	if !slices.Contains(packages, "github.com/specgo/spec") {
		t.Errorf("it does without the library: %v", packages)
	}
	without := []string{"github.com/specgo/spec/testdata", "github.com/specgo/spec/serve", "net", "net/http"}
	for _, p := range packages {
		if slices.Contains(without, p) {
			t.Errorf("it has %s inside", p)
		}
	}
}

// TestLongHelloRuns builds that program without cgo, which is a static binary of a few megabytes, and runs it.
func TestLongHelloRuns(t *testing.T) {
	testkit.Long(t)
	binary := filepath.Join(t.TempDir(), "hello")
	build := exec.Command("go", "build", "-o", binary, "./internal/hello")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	data, err := os.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "linux" && bytes.Contains(data, []byte("ld-linux")) {
		t.Error("it needs an interpreter for shared libraries")
	}
	if len(data) > 16<<20 {
		t.Errorf("%d bytes", len(data))
	}
	out, err := exec.Command(binary, "testdata/go-target.q8_0.gguf", "if err != nil {\n\treturn").Output()
	if err != nil || !strings.HasPrefix(string(out), " nil, nil") {
		t.Errorf("%q %v", out, err)
	}
}

// The programs of README and docs/LIBRARY.md are the examples, so they compile and write what they say.
func TestDocumentsShowTheExamples(t *testing.T) {
	source, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range [][2]string{
		{"README.md", "Example"}, {"docs/LIBRARY.md", "Example"}, {"docs/LIBRARY.md", "Example_longWay"},
	} {
		text, err := os.ReadFile(shown[0])
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(string(source), "func "+shown[1]+"() {\n")
		body, _, _ = strings.Cut(body, "\t// Output:")
		body = strings.ReplaceAll("\n"+body, "\n\t", "\n")
		if !strings.Contains(string(text), "```go"+body+"```") {
			t.Errorf("%s does not show this:\n%s", shown[0], body)
		}
	}
}
