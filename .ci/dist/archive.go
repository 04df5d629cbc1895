package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"io/fs"
	"slices"
	"strings"
	"time"
)

// A file is one of an archive; its name has slashes and begins at the archive's root.
type file struct {
	name string
	mode fs.FileMode
	data []byte
}

// named returns the files below a folder, which is "" or ends with a slash, in the order of their names.
func named(folder string, files []file) []file {
	files = slices.Clone(files)
	for i := range files {
		files[i].name = folder + files[i].name
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.name, b.name) })
	return files
}

// tarball packs files and the folders that they are in, owned by root.
func tarball(folder string, files []file, date time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	made := map[string]bool{}
	for _, f := range named(folder, files) {
		for i, c := range f.name {
			dir := f.name[:i+1]
			if c != '/' || made[dir] {
				continue
			}
			made[dir] = true
			h := &tar.Header{Typeflag: tar.TypeDir, Name: dir, Mode: 0o755, ModTime: date, Uname: "root", Gname: "root"}
			if err := w.WriteHeader(h); err != nil {
				return nil, err
			}
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: f.name, Mode: int64(f.mode), Size: int64(len(f.data)), ModTime: date,
			Uname: "root", Gname: "root"}
		if err := w.WriteHeader(h); err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// compressed is gzip's form of data, without a name or a time.
func compressed(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	err = w.Close()
	return b.Bytes(), err
}

// zipped packs files for Windows.
func zipped(folder string, files []file, date time.Time) ([]byte, error) {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, f := range named(folder, files) {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: date}
		h.SetMode(f.mode)
		to, err := w.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := to.Write(f.data); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return b.Bytes(), err
}

// archiveName is the name of a target's archive without its ending, and of the folder in it.
func (r *release) archiveName(t target) string {
	return "spec_" + r.version + "_" + t.system + "_" + t.processor
}

// archive writes a program with the files that are shared.
func (r *release) archive(p *program, shared []file) error {
	name := r.archiveName(p.target)
	if p.system == "windows" {
		data, err := zipped(name+"/", append([]file{{"spec.exe", 0o755, p.data}}, shared...), r.date)
		if err != nil {
			return err
		}
		return r.write(name+".zip", data)
	}
	data, err := tarball(name+"/", append([]file{{"spec", 0o755, p.data}}, shared...), r.date)
	if err != nil {
		return err
	}
	if data, err = compressed(data); err != nil {
		return err
	}
	return r.write(name+".tar.gz", data)
}
