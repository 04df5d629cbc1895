package main

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"strings"
	"time"
)

// debianVersion is a version of Go modules as Debian orders them: what is before a release is behind a tilde, and a
// hyphen would begin the revision of a package.
func debianVersion(version string) string { return strings.ReplaceAll(version, "-", "~") }

// debian writes a package for Debian and what descends from it.
func (r *release) debian(p *program, shared []file) error {
	files, err := installed(p, shared)
	if err != nil {
		return err
	}
	data, err := packed(p.processor, debianVersion(r.version), files, r.date)
	if err != nil {
		return err
	}
	// not with the version that Debian orders: GitHub renames files with a tilde, and their sums would be of other names
	return r.write("spec_"+r.version+"_"+p.processor+".deb", data)
}

// installed is where Debian has the files of an archive.
func installed(p *program, shared []file) ([]file, error) {
	files := []file{{"usr/bin/spec", 0o755, p.data}}
	places := map[string]string{"LICENSE": "usr/share/doc/spec/copyright", "README.md": "usr/share/doc/spec/README.md"}
	for _, c := range completions {
		places[c.archived] = c.installed
	}
	for _, f := range shared {
		page, isPage := strings.CutPrefix(f.name, "man/")
		switch {
		case isPage:
			data, err := compressed(f.data)
			if err != nil {
				return nil, err
			}
			files = append(files, file{"usr/share/man/man1/" + page + ".gz", f.mode, data})
		case places[f.name] != "":
			files = append(files, file{places[f.name], f.mode, f.data})
		}
	}
	return files, nil
}

// packed is a package: an ar file of the format's version, of what describes the package, and of its files (deb(5)).
func packed(processor, version string, files []file, date time.Time) ([]byte, error) {
	size := 0
	var sums strings.Builder
	for _, f := range named("", files) {
		size += len(f.data)
		fmt.Fprintf(&sums, "%x  %s\n", md5.Sum(f.data), f.name)
	}
	control := fmt.Sprintf(`Package: spec
Version: %s
Architecture: %s
Maintainer: the spec authors <noreply@github.com>
Installed-Size: %d
Section: science
Priority: optional
Homepage: https://github.com/specgo/spec
Description: language models with speculative decoding
 Runs GGUF models on the CPU: text, conversations on the terminal, and a
 server with OpenAI's and Ollama's APIs. Drafts make it faster and change
 nothing in the text.
`, version, processor, (size+1023)/1024)
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	member(&b, "debian-binary", []byte("2.0\n"), date)
	for _, part := range []struct {
		name  string
		files []file
	}{
		{"control.tar.gz", []file{{"control", 0o644, []byte(control)}, {"md5sums", 0o644, []byte(sums.String())}}},
		{"data.tar.gz", files},
	} {
		data, err := tarball("./", part.files, date)
		if err != nil {
			return nil, err
		}
		if data, err = compressed(data); err != nil {
			return nil, err
		}
		member(&b, part.name, data, date)
	}
	return b.Bytes(), nil
}

// member appends a file to an ar file: a header of 60 characters, and the data to an even length.
func member(b *bytes.Buffer, name string, data []byte, date time.Time) {
	fmt.Fprintf(b, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", name, date.Unix(), 0, 0, 0o100644, len(data))
	b.Write(data)
	if len(data)%2 != 0 {
		b.WriteByte('\n')
	}
}
