package lookup

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

const (
	pieceBytes = 64 << 10 // of a text that is encoded at once, to the end of a line
	mostLine   = 16 << 20 // bytes of a line of JSON
	sniffed    = 8 << 10  // bytes at the beginning of a file that say whether it is text
)

// jsonTexts are the names of values in lines of JSON that are texts: of answers, as chats, batches and data sets have
// them.
var jsonTexts = map[string]bool{"text": true, "content": true, "completion": true, "response": true, "answer": true,
	"output": true, "output_text": true, "reasoning_content": true}

// file is one to read.
type file struct {
	path  string
	lines bool // of JSON
}

// find lists the files of paths: files as they are given, of folders the regular files that begin as text, without
// those whose names begin with a dot.
func find(ctx context.Context, paths []string) (list []file, about About, err error) {
	for _, path := range paths {
		s := Source{Path: path}
		var last time.Time
		add := func(path string, info fs.FileInfo) {
			s.Files++
			s.Bytes += info.Size()
			if info.ModTime().After(last) {
				last = info.ModTime()
			}
			list = append(list, file{path, strings.HasSuffix(path, ".jsonl")})
		}
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, about, err
		case !info.IsDir() && !info.Mode().IsRegular():
			return nil, about, fmt.Errorf("%s: neither a file nor a folder", path)
		case !info.IsDir():
			if ok, err := isText(path); err != nil {
				return nil, about, err
			} else if !ok {
				return nil, about, fmt.Errorf("%s: no text", path)
			}
			add(path, info)
		default:
			err = filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
				switch {
				case err != nil:
					return err
				case ctx.Err() != nil:
					return ctx.Err()
				case name != path && strings.HasPrefix(d.Name(), "."):
					if d.IsDir() {
						return filepath.SkipDir
					}
					return nil
				case !d.Type().IsRegular():
					return nil
				}
				info, err := d.Info()
				if err != nil {
					return err
				}
				if ok, err := isText(name); err != nil {
					return err
				} else if !ok {
					about.Left++
					return nil
				}
				add(name, info)
				return nil
			})
			if err != nil {
				return nil, about, err
			}
		}
		s.Changed = last.UTC().Format(time.RFC3339Nano)
		about.Sources = append(about.Sources, s)
	}
	return list, about, nil
}

// Sources are what [Build] would read, without reading it.
func Sources(ctx context.Context, paths []string) ([]Source, error) {
	_, about, err := find(ctx, paths)
	return about.Sources, err
}

// isText reports whether a file begins as UTF-8 without zeros.
func isText(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	b := make([]byte, sniffed)
	n, err := io.ReadFull(f, b)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return false, err
	}
	b = b[:n]
	if n == sniffed { // a rune may be cut
		b = b[:n-utf8.UTFMax]
		for len(b) > 0 && !utf8.Valid(b) && n-len(b) < 2*utf8.UTFMax {
			b = b[:len(b)-1]
		}
	}
	return utf8.Valid(b) && bytes.IndexByte(b, 0) < 0, nil
}

// texts reads the files. A text comes in pieces to the end of lines, the last with ends; in lines of JSON, the names of
// files that end in .jsonl, every value named as in jsonTexts is a text.
func texts(ctx context.Context, list []file, take func(text string, ends bool) error) error {
	buffer := make([]byte, pieceBytes)
	for _, x := range list {
		if err := ctx.Err(); err != nil {
			return err
		}
		f, err := os.Open(x.path)
		if err != nil {
			return err
		}
		if x.lines {
			err = jsonLines(f, take)
		} else {
			err = pieces(f, buffer, take)
		}
		if f.Close(); err != nil {
			return fmt.Errorf("%s: %w", x.path, err)
		}
	}
	return nil
}

// pieces reads a text by a buffer of pieceBytes.
func pieces(f io.Reader, buffer []byte, take func(text string, ends bool) error) error {
	kept := 0
	for {
		n, err := io.ReadFull(f, buffer[kept:])
		end := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		if err != nil && !end {
			return err
		}
		n += kept
		cut := n
		if !end {
			if i := bytes.LastIndexByte(buffer[:n], '\n'); i >= 0 {
				cut = i + 1
			} else {
				for cut > n-utf8.UTFMax && !utf8.RuneStart(buffer[cut-1]) {
					cut--
				}
				cut--
			}
		}
		if err := take(string(buffer[:cut]), end); err != nil || end {
			return err
		}
		kept = copy(buffer, buffer[cut:n])
	}
}

// jsonLines reads the texts of lines of JSON.
func jsonLines(f io.Reader, take func(text string, ends bool) error) error {
	s := bufio.NewScanner(f)
	s.Buffer(make([]byte, 0, 1<<20), mostLine)
	n := 0
	for s.Scan() {
		n++
		if len(bytes.TrimSpace(s.Bytes())) == 0 {
			continue
		}
		var v any
		if err := json.Unmarshal(s.Bytes(), &v); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if err := jsonValue("", v, take); err != nil {
			return err
		}
	}
	if errors.Is(s.Err(), bufio.ErrTooLong) {
		return fmt.Errorf("line %d: more than %d bytes", n+1, mostLine)
	}
	return s.Err()
}

// jsonValue takes the texts of a value with a name, those of objects in the order of their names.
func jsonValue(name string, v any, take func(text string, ends bool) error) error {
	switch v := v.(type) {
	case string:
		if jsonTexts[name] && v != "" {
			return take(v, true)
		}
	case []any:
		for _, x := range v {
			if err := jsonValue(name, x, take); err != nil {
				return err
			}
		}
	case map[string]any:
		for name := range jsonNames(v) {
			if err := jsonValue(name, v[name], take); err != nil {
				return err
			}
		}
	}
	return nil
}

func jsonNames(v map[string]any) iter.Seq[string] { return slices.Values(slices.Sorted(maps.Keys(v))) }
