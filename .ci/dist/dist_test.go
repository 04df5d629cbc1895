package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"
)

var someDate = time.Date(2026, 11, 23, 21, 22, 24, 0, time.UTC) // even seconds: zip has no others

func someFiles() []file {
	return []file{
		{"usr/share/doc/spec/copyright", 0o644, []byte("MIT\n")},
		{"usr/bin/spec", 0o755, []byte("program")}, // an odd length
		{"usr/share/man/man1/spec.1.gz", 0o644, nil},
	}
}

// members reads an ar file by the words of ar(5): headers at even places, whose fields are padded with spaces.
func members(t *testing.T, b []byte) (names []string, data map[string][]byte) {
	t.Helper()
	head := regexp.MustCompile("^([a-z.-]+) *\\d+ +0 +0 +100644 *(\\d+) *`\n$")
	data = map[string][]byte{}
	rest, ok := bytes.CutPrefix(b, []byte("!<arch>\n"))
	for size := 0; ok && len(rest) > 0; rest = rest[min(len(rest), size+size%2):] {
		m := head.FindSubmatch(rest[:60])
		if m == nil {
			t.Fatalf("not a header: %q", rest[:60])
		}
		fmt.Sscan(string(m[2]), &size)
		names, rest = append(names, string(m[1])), rest[60:]
		data[string(m[1])] = rest[:size]
	}
	return names, data
}

// entries are the names in a compressed tar file, with modes and contents.
func entries(t *testing.T, b []byte) (list []string) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if err == io.EOF {
			return list
		} else if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil || !h.ModTime.Equal(someDate) || h.Uid != 0 || h.Gid != 0 {
			t.Errorf("%s: %v, %v, %d, %d", h.Name, err, h.ModTime, h.Uid, h.Gid)
		}
		list = append(list, fmt.Sprintf("%s %o %s", h.Name, h.Mode, data))
	}
}

// A package has the three members of deb(5) in their order, every folder before what is in it, and the sums of its
// files.
func TestPackage(t *testing.T) {
	b, err := packed("arm64", "1.2.3~rc.1", someFiles(), someDate)
	if err != nil {
		t.Fatal(err)
	}
	names, data := members(t, b)
	if !slices.Equal(names, []string{"debian-binary", "control.tar.gz", "data.tar.gz"}) ||
		string(data["debian-binary"]) != "2.0\n" {
		t.Fatalf("%q, %q", names, data["debian-binary"])
	}
	want := []string{"./ 755 ", "./usr/ 755 ", "./usr/bin/ 755 ", "./usr/bin/spec 755 program", "./usr/share/ 755 ",
		"./usr/share/doc/ 755 ", "./usr/share/doc/spec/ 755 ", "./usr/share/doc/spec/copyright 644 MIT\n",
		"./usr/share/man/ 755 ", "./usr/share/man/man1/ 755 ", "./usr/share/man/man1/spec.1.gz 644 "}
	if got := entries(t, data["data.tar.gz"]); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	control := strings.Join(entries(t, data["control.tar.gz"]), "")
	for _, part := range []string{"Package: spec\n", "Version: 1.2.3~rc.1\n", "Architecture: arm64\n",
		"Installed-Size: 1\n", fmt.Sprintf("%x  usr/bin/spec\n", md5.Sum([]byte("program")))} {
		if !strings.Contains(control, part) {
			t.Errorf("no %q in %s", part, control)
		}
	}
}

// Debian's own program reads the package.
func TestPackageIsReadByDebian(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not here")
	}
	b, err := packed("amd64", debianVersion("0.0.0-20261123-abc+dirty"), someFiles(), someDate)
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "spec.deb")
	if err := os.WriteFile(name, b, 0o644); err != nil {
		t.Fatal(err)
	}
	for option, want := range map[string]string{
		"--info":     " Version: 0.0.0~20261123~abc+dirty\n",
		"--contents": "-rwxr-xr-x root/root         7 2026-11-23 21:22 ./usr/bin/spec\n",
	} {
		c := exec.Command("dpkg-deb", option, name)
		c.Env = append(os.Environ(), "TZ=UTC")
		if out, err := c.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: %v: %s", option, err, out)
		}
	}
}

// Debian orders what is before a release, and commits without a tag, before the release.
func TestVersionsOfDebian(t *testing.T) {
	for from, want := range map[string]string{
		"1.2.3": "1.2.3", "1.2.3-rc.1": "1.2.3~rc.1", "0.0.0-2026-ab+dirty": "0.0.0~2026~ab+dirty",
	} {
		if got := debianVersion(from); got != want {
			t.Errorf("%s: %s, want %s", from, got, want)
		}
	}
}

// A whole release of made-up programs: the same bytes each time, in whatever order the files come.
func TestReleasesAreTheSame(t *testing.T) {
	first, second := map[string][]byte{}, map[string][]byte{}
	for i, written := range []map[string][]byte{first, second} {
		for name, data := range someRelease(t, i == 1) {
			written[name] = data
		}
	}
	if len(first) != 14 { // 8 archives, 2 packages, image, materials, formula, sums
		t.Errorf("%d files: %q", len(first), slices.Sorted(maps.Keys(first)))
	}
	for name, data := range first {
		if !bytes.Equal(data, second[name]) {
			t.Errorf("%s differs", name)
		}
		if line := fmt.Sprintf("%x  %s\n", sha256.Sum256(data), name); name != "SHA256SUMS" &&
			!strings.Contains(string(first["SHA256SUMS"]), line) {
			t.Errorf("no sum of %s", name)
		}
	}
	checkZip(t, first["spec_1.2.3_windows_amd64.zip"])
	checkFormula(t, first)
	checkImage(t, first["spec_1.2.3_image.tar"])
	checkMaterials(t, first["spec_1.2.3_sbom.cdx.json"])
}

// someRelease writes a release and returns its files; turned turns what is shared by the archives around.
func someRelease(t *testing.T, turned bool) map[string][]byte {
	r := &release{out: t.TempDir(), version: "1.2.3", date: someDate}
	shared := []file{{"LICENSE", 0o644, []byte("MIT")}, {"man/spec.1", 0o644, []byte(".TH")},
		{"completions/_spec", 0o644, []byte("#")}}
	if turned {
		slices.Reverse(shared)
	}
	targets, err := parseTargets(allTargets)
	if err != nil {
		t.Fatal(err)
	}
	var built []*program
	for _, at := range targets {
		p := &program{target: at, data: []byte("program of " + at.String()), info: &debug.BuildInfo{GoVersion: "go1.26.8",
			Main: debug.Module{Path: "example.com/spec", Version: "v1.2.3"},
			Deps: []*debug.Module{{Path: "example.com/m", Version: "v1.0.0", Sum: "h1:abc="}}}}
		built = append(built, p)
		if err := r.archive(p, shared); err != nil {
			t.Fatal(err)
		}
		if at.hasPackage() {
			if err := r.debian(p, shared); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, write := range []func() error{
		func() error { return r.image(built, []byte("PEM")) }, func() error { return r.materials(built) }, r.formula,
		r.list} {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}
	written := map[string][]byte{}
	files, err := os.ReadDir(r.out)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if written[f.Name()], err = os.ReadFile(filepath.Join(r.out, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return written
}

func checkZip(t *testing.T, data []byte) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range z.File {
		names = append(names, strings.TrimPrefix(f.Name, "spec_1.2.3_windows_amd64/"))
		if !f.Modified.Equal(someDate) {
			t.Errorf("%s: %v", f.Name, f.Modified)
		}
	}
	if !slices.Equal(names, []string{"LICENSE", "completions/_spec", "man/spec.1", "spec.exe"}) {
		t.Errorf("%q", names)
	}
}

// checkFormula looks for each address with the sum of what is there.
func checkFormula(t *testing.T, files map[string][]byte) {
	pairs := regexp.MustCompile(`url "https://github.com/specgo/spec/releases/download/v1.2.3/(\S+)"\n\s+sha256 "(\w+)"`).
		FindAllStringSubmatch(string(files["spec.rb"]), -1)
	var names []string
	for _, p := range pairs {
		names = append(names, p[1])
		if want := fmt.Sprintf("%x", sha256.Sum256(files[p[1]])); p[2] != want {
			t.Errorf("%s: %s, want %s", p[1], p[2], want)
		}
	}
	want := []string{"spec_1.2.3_darwin_arm64.tar.gz", "spec_1.2.3_darwin_amd64.tar.gz", "spec_1.2.3_linux_arm64.tar.gz",
		"spec_1.2.3_linux_amd64.tar.gz"}
	if !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

// checkImage follows every reference of an image to its blob, whose name and length must be those of the contents.
func checkImage(t *testing.T, data []byte) {
	files := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if files[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
	var follow func(at string, data []byte) int
	follow = func(at string, data []byte) (layers int) {
		type reference struct {
			MediaType, Digest string
			Size              int
			Platform          struct{ Architecture string }
		}
		var v struct {
			Manifests, Layers []reference
			Config            json.RawMessage
		}
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(at, err)
		}
		for _, ref := range append(v.Manifests, v.Layers...) {
			blob, ok := files["blobs/"+strings.Replace(ref.Digest, ":", "/", 1)]
			if !ok || len(blob) != ref.Size || fmt.Sprintf("sha256:%x", sha256.Sum256(blob)) != ref.Digest {
				t.Fatalf("%s: %s is not there", at, ref.Digest)
			}
			if ref.MediaType != layerType {
				layers += follow(ref.Digest, blob)
				continue
			}
			layers++
			got := entries(t, blob)
			ours := func(s string) bool { return strings.HasPrefix(s, "spec 755 program of linux/") }
			if !slices.ContainsFunc(got, ours) {
				t.Errorf("a layer of %q", got)
			}
			if !slices.Contains(got, "etc/ssl/certs/ca-certificates.crt 644 PEM") {
				t.Errorf("no certificates in %q", got)
			}
			z, _ := gzip.NewReader(bytes.NewReader(blob)) // entries has read it
			layer, _ := io.ReadAll(z)
			var ref reference
			if err := json.Unmarshal(v.Config, &ref); err != nil {
				t.Fatal(err)
			}
			config := files["blobs/"+strings.Replace(ref.Digest, ":", "/", 1)]
			if !strings.Contains(string(config), fmt.Sprintf(`"diff_ids":["sha256:%x"]`, sha256.Sum256(layer))) {
				t.Errorf("the configuration %s does not name the layer", config)
			}
		}
		return layers
	}
	if n := follow("index.json", files["index.json"]); n != 3 {
		t.Errorf("%d layers", n)
	}
}

func checkMaterials(t *testing.T, data []byte) {
	var b struct {
		BomFormat, SpecVersion string
		Components             []struct {
			Type, Name, Version, PURL string
			Hashes                    []struct{ Alg, Content string }
		}
	}
	if err := json.Unmarshal(data, &b); err != nil || b.BomFormat != "CycloneDX" || b.SpecVersion != "1.6" {
		t.Fatal(err, b.BomFormat, b.SpecVersion)
	}
	if len(b.Components) != 10 || b.Components[0].PURL != "pkg:golang/example.com/m@v1.0.0" ||
		b.Components[1].Name != "std" || b.Components[1].Version != "1.26.8" {
		t.Errorf("%+v", b.Components)
	}
	want := fmt.Sprintf("%x", sha256.Sum256([]byte("program of freebsd/amd64")))
	if b.Components[9].Hashes[0].Content != want {
		t.Errorf("%+v", b.Components[9])
	}
}

// What is not a target or a date is refused; a date is that of the environment before that of the commit.
func TestRefused(t *testing.T) {
	for _, list := range []string{"", "linux", "linux/", "plan9/amd64", "linux/amd64,", "linux/amd64,linux/arm64/x"} {
		if got, err := parseTargets(list); err == nil {
			t.Errorf("%q: %v", list, got)
		}
	}
	if got, err := releaseDate("", ""); err == nil {
		t.Error(got)
	}
	for _, epoch := range []string{"x", "-1", "1e9", "99999999999"} {
		if got, err := releaseDate(epoch, ""); err == nil {
			t.Errorf("%q: %v", epoch, got)
		}
	}
	if got, err := releaseDate("1795469344", "2020-01-01T00:00:00Z"); err != nil || !got.Equal(time.Unix(1795469344, 0)) {
		t.Error(got, err)
	}
	if got, err := releaseDate("", "2026-11-23T21:22:24Z"); err != nil || !got.Equal(someDate) {
		t.Error(got, err)
	}
}

// The types of every target's packages are checked by stage "cross".
func TestTargetsAreChecked(t *testing.T) {
	script, err := os.ReadFile("../run")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(script), "\ncross() {")
	text, _, _ = strings.Cut(text, " -- ./...")
	checked := append(strings.Fields(text), "linux/amd64") // this is where vet runs
	for name := range strings.SplitSeq(allTargets, ",") {
		if !slices.Contains(checked, name) {
			t.Errorf("%s is not in stage cross", name)
		}
	}
}

// A package before a release has a name that GitHub does not change, which the list of sums has too; Debian's order of
// versions is in the package.
func TestNamesOfPackages(t *testing.T) {
	r := &release{out: t.TempDir(), version: "1.2.3-rc.1", date: someDate}
	if err := r.debian(&program{target: target{"linux", "amd64"}, data: []byte("program")}, nil); err != nil {
		t.Fatal(err)
	}
	const name = "spec_1.2.3-rc.1_amd64.deb"
	b, err := os.ReadFile(filepath.Join(r.out, name))
	if err != nil {
		t.Fatal(err)
	}
	_, data := members(t, b)
	control := strings.Join(entries(t, data["control.tar.gz"]), "")
	if !strings.Contains(control, "Version: 1.2.3~rc.1\n") {
		t.Error(control)
	}
	if _, ok := r.sumOf(name); !ok {
		t.Error("no sum")
	}
}
