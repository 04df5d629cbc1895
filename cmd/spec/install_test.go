package main

import (
	"archive/zip"
	"bytes"
	"io"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/specgo/spec/internal/testkit"
)

// A program of another module, which uses the library by version.
const outsider = `package main

import (
	"context"
	"fmt"
	"os"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative"
)

func main() {
	rt, err := engine.NewRuntime(engine.RuntimeOptions{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	defer rt.Close()
	_, err = engine.Open(context.Background(), rt, "missing.gguf", engine.Options{})
	fmt.Println(err != nil, speculative.NGram(speculative.NGramOptions{MinMatch: 1, MaxMatch: 3}) != nil)
}
`

// TestLongInstallByVersion serves this checkout as version v0.0.1 from a proxy made of files, and
// does from outside what a user does: go install the command, import the library.
func TestLongInstallByVersion(t *testing.T) {
	testkit.Long(t) // it builds a module from scratch
	const module, version = "github.com/specgo/spec", "v0.0.1"
	goTool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("no go command here")
	}
	if native, err := exec.Command(goTool, "env", "GOHOSTARCH").Output(); err != nil ||
		strings.TrimSpace(string(native)) != runtime.GOARCH {
		t.Skip("not the machine that the go command builds for")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	tmp := t.TempDir()
	serveModule(t, root, filepath.Join(tmp, "proxy"), module, version)

	// Dependencies come from what this build has already downloaded, so no network is needed.
	cache, err := exec.Command(goTool, "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	proxies := []string{
		fileURL(filepath.Join(tmp, "proxy")),
		fileURL(filepath.Join(strings.TrimSpace(string(cache)), "cache", "download")),
	}
	run := func(dir string, args ...string) string {
		t.Helper()
		cmd := exec.Command(goTool, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOPROXY="+strings.Join(proxies, ","), "GOSUMDB=off", "GONOSUMDB=*",
			"GOPRIVATE=", "GONOPROXY=",
			"GOFLAGS=-mod=mod -modcacherw", "GOWORK=off", "GOTOOLCHAIN=local", "CGO_ENABLED=0",
			"GOMODCACHE="+filepath.Join(tmp, "cache"), "GOBIN="+filepath.Join(tmp, "bin"), "GOOS=", "GOARCH=")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}

	run(tmp, "install", module+"/cmd/spec@"+version)
	out, err := exec.Command(filepath.Join(tmp, "bin", "spec"), "version").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "spec "+version+",") {
		t.Errorf("the installed command says %q, %v; want its version %s", out, err, version)
	}

	outside := filepath.Join(tmp, "outside")
	write(t, filepath.Join(outside, "go.mod"),
		"module example.com/outside\n\ngo 1.26.0\n\nrequire "+module+" "+version+"\n")
	write(t, filepath.Join(outside, "main.go"), outsider)
	if out := run(outside, "run", "."); out != "true true\n" {
		t.Errorf("the program outside prints %q", out)
	}
	if deps := run(outside, "list", "-deps", "."); strings.Contains(deps, module+"/testdata") {
		t.Error("a program that uses the library carries the embedded models")
	}
}

// serveModule lays a version of the module in root out as the module proxy protocol wants it.
func serveModule(t *testing.T, root, proxy, module, version string) {
	t.Helper()
	dir := filepath.Join(proxy, filepath.FromSlash(module), "@v")
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, nested := os.Stat(filepath.Join(path, "go.mod"))
			if rel != "." && (nested == nil || strings.HasPrefix(d.Name(), ".")) {
				return filepath.SkipDir // another module, or no part of one
			}
			return nil
		}
		if !d.Type().IsRegular() || strings.HasSuffix(d.Name(), ".test") || rel == "spec" {
			return nil
		}
		w, err := z.Create(module + "@" + version + "/" + filepath.ToSlash(rel))
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	})
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, version+".zip"), buf.String())
	write(t, filepath.Join(dir, version+".mod"), string(mod))
	write(t, filepath.Join(dir, version+".info"), `{"Version":"`+version+`","Time":"2026-01-01T00:00:00Z"}`)
	write(t, filepath.Join(dir, "list"), version+"\n")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func fileURL(path string) string {
	path = filepath.ToSlash(path)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // a drive letter
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
