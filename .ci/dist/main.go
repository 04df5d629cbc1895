// Dist builds what a release has, into an empty folder: static programs for eight systems in archives with man pages
// and completions, packages for Debian, an image, a formula for Homebrew, a list of what the programs are made of, and
// the SHA-256 of each file. Those that this machine can run, itself or under qemu, must write the same text.
//
//	go run ./.ci/dist [-tag VERSION] [-targets LIST] [-certificates FILE] -o DIR
//
// The version is the one that the go command writes into the program, from the tag of the checkout. The same checkout,
// release of Go and certificates give the same bytes: times are SOURCE_DATE_EPOCH, or else that of the commit.
package main

import (
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// allTargets are systems and processors of a release; stage "cross" checks the types of each.
const allTargets = "linux/amd64,linux/arm64,linux/riscv64,darwin/amd64,darwin/arm64," +
	"windows/amd64,windows/arm64,freebsd/amd64"

func main() {
	out := flag.String("o", "", "the folder to write into: a new one or an empty one")
	tag := flag.String("tag", "", "the version that the programs must have, such as v1.2.3")
	targets := flag.String("targets", allTargets, "GOOS/GOARCH, several with commas between")
	certificates := flag.String("certificates", "", "PEM file of authorities, for \"spec pull\" in the image")
	flag.Parse()
	if err := run(*out, *tag, *targets, *certificates, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "dist:", err)
		os.Exit(1)
	}
}

// A release is what its files share.
type release struct {
	out     string
	version string    // without the v of the tag
	date    time.Time // of every file in archives
	sums    []sum     // of the files that are written
}

type sum struct {
	name string
	of   [sha256.Size]byte
}

func run(out, tag, targets, certificates string, log io.Writer) error {
	switch {
	case flag.NArg() > 0:
		return fmt.Errorf("%s: no operands", flag.Arg(0))
	case out == "":
		return errors.New("-o DIR is missing")
	}
	chosen, err := parseTargets(targets)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	if old, err := os.ReadDir(out); err != nil || len(old) > 0 {
		return errors.Join(err, fmt.Errorf("%s is not empty", out))
	}
	work, err := os.MkdirTemp("", "dist")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	host, err := build(target{runtime.GOOS, runtime.GOARCH}, work)
	if err != nil {
		return err
	}
	if tag != "" && host.info.Main.Version != tag {
		return fmt.Errorf("the program's version is %s: the checkout is not that of the tag %s, or has changes",
			host.info.Main.Version, tag)
	}
	date, err := releaseDate(os.Getenv("SOURCE_DATE_EPOCH"), host.setting("vcs.time"))
	if err != nil {
		return err
	}
	if !strings.HasPrefix(host.info.Main.Version, "v") { // as in a worktree, which the go command does not stamp
		return fmt.Errorf("the program's version is %s: a clone is needed", host.info.Main.Version)
	}
	r := &release{out: out, version: strings.TrimPrefix(host.info.Main.Version, "v"), date: date}
	text, err := host.sample()
	if err != nil {
		return err
	}
	shared, err := sharedFiles(host, work)
	if err != nil {
		return err
	}
	var authorities []byte
	if certificates != "" {
		if authorities, err = os.ReadFile(certificates); err != nil {
			return err
		}
	}
	var built []*program
	for _, t := range chosen {
		p := host
		if t != host.target {
			if p, err = build(t, work); err != nil {
				return err
			}
		}
		if p.info.Main.Version != host.info.Main.Version {
			return fmt.Errorf("%s has the version %s and %s %s", t, p.info.Main.Version, host.target, host.info.Main.Version)
		}
		said, err := p.smoke(text)
		if err != nil {
			return err
		}
		fmt.Fprintf(log, "%s: %d bytes, %s\n", t, len(p.data), said)
		if err := r.archive(p, shared); err != nil {
			return err
		}
		if t.hasPackage() {
			if err := r.debian(p, shared); err != nil {
				return err
			}
		}
		built = append(built, p)
	}
	if err := errors.Join(r.image(built, authorities), r.materials(built), r.formula()); err != nil {
		return err
	}
	if err := r.list(); err != nil {
		return err
	}
	fmt.Fprintf(log, "spec %s: %d files in %s\n", r.version, len(r.sums)+1, out)
	return nil
}

// releaseDate is SOURCE_DATE_EPOCH, seconds since 1970, or else the time of the commit.
func releaseDate(epoch, commit string) (time.Time, error) {
	if epoch == "" && commit == "" {
		return time.Time{}, errors.New("the go command finds no commit here (a worktree is none to it): set SOURCE_DATE_EPOCH")
	}
	if epoch == "" {
		return time.Parse(time.RFC3339, commit)
	}
	s, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || s < 0 || s > 1<<33 {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH %q: not a number of seconds since 1970", epoch)
	}
	return time.Unix(s, 0).UTC(), nil
}

// sharedFiles are those that are the same in all archives; the program of this machine writes most of them.
func sharedFiles(host *program, work string) ([]file, error) {
	var files []file
	for _, name := range []string{"LICENSE", "README.md", "CHANGELOG.md"} {
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		files = append(files, file{name, 0o644, data})
	}
	dir := filepath.Join(work, "man")
	if err := exec.Command(host.path, "man", dir).Run(); err != nil {
		return nil, fmt.Errorf("spec man: %w", err)
	}
	pages, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, page := range pages {
		data, err := os.ReadFile(filepath.Join(dir, page.Name()))
		if err != nil {
			return nil, err
		}
		files = append(files, file{"man/" + page.Name(), 0o644, data})
	}
	for _, c := range completions {
		data, err := exec.Command(host.path, "completion", c.shell).Output()
		if err != nil {
			return nil, fmt.Errorf("spec completion %s: %w", c.shell, err)
		}
		files = append(files, file{c.archived, 0o644, data})
	}
	return files, nil
}

// completions are the places of what completes the words of a shell's line, in archives and on Debian.
var completions = []struct{ shell, archived, installed string }{
	{"bash", "completions/spec.bash", "usr/share/bash-completion/completions/spec"},
	{"zsh", "completions/_spec", "usr/share/zsh/vendor-completions/_spec"},
	{"fish", "completions/spec.fish", "usr/share/fish/vendor_completions.d/spec.fish"},
}

// write writes a file of the release.
func (r *release) write(name string, data []byte) error {
	r.sums = append(r.sums, sum{name, sha256.Sum256(data)})
	return os.WriteFile(filepath.Join(r.out, name), data, 0o644)
}

// list writes the sums of all files, for "sha256sum -c".
func (r *release) list() error {
	var b strings.Builder
	for _, s := range r.sums {
		fmt.Fprintf(&b, "%x  %s\n", s.of, s.name)
	}
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), []byte(b.String()), 0o644)
}
