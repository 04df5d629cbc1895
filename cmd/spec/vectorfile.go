package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/specgo/spec/internal/filelock"
	"github.com/specgo/spec/internal/strictjson"
)

// vectorFile is a file that vectors are written to, in the order of the texts. A vector is there when all of its bytes
// are.
type vectorFile struct {
	file   *os.File
	name   string
	unlock func()

	kept        int  // vectors that an interrupted run has left
	first, last span // the bytes of the first and the last of them
	torn        span // where there are none: what it has left of the first
	end         int64
}

// span is a part of a file.
type span struct {
	at     int64
	length int
}

// errVectors is of a file that does not hold the vectors of the texts.
var errVectors = errors.New("not the vectors of these texts")

// openVectorFile opens or makes the file. One that holds something is for resume alone. input is a file that is read.
func openVectorFile(name, input string, resume bool) (*vectorFile, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	v := &vectorFile{file: f, name: name}
	if err := v.open(input, resume); err != nil {
		f.Close()
		return nil, err
	}
	return v, nil
}

func (v *vectorFile) open(input string, resume bool) error {
	info, err := v.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: a pipe or device; vectors are written to a regular file, or without -o", v.name)
	}
	if in, err := os.Stat(input); input != "" && err == nil && os.SameFile(in, info) {
		return fmt.Errorf("%s: %w: it is the input", v.name, errVectors)
	}
	if v.unlock, err = filelock.Lock(v.file); err != nil {
		return fmt.Errorf("%s: another program writes it: %w", v.name, err)
	}
	if info.Size() > 0 && !resume {
		return fmt.Errorf("%s: the file exists; --resume adds the vectors that are missing", v.name)
	}
	return nil
}

// resume finds what is there of the vectors of texts, each of size numbers. What follows the last whole one is for cut.
func (v *vectorFile) resume(format string, size int, texts []document) error {
	header := vectorHeader(format, len(texts), size)
	begin := make([]byte, len(header))
	n, err := v.file.ReadAt(begin, 0)
	if err != nil && err != io.EOF {
		return err
	}
	switch {
	case !bytes.Equal(begin[:n], header[:n]):
		return fmt.Errorf("%s: %w: it begins in another way than %d vectors of %d numbers in the format %s", v.name,
			errVectors, len(texts), size, format)
	case n < len(header):
		return v.cut() // of nothing
	}
	v.end = int64(n)
	if row := vectorBytes(format, size); row > 0 {
		err = v.rows(row, len(texts))
	} else {
		err = v.lines(format, size, texts)
	}
	if err != nil || v.kept > 0 {
		return err
	}
	info, err := v.file.Stat()
	if err == nil {
		v.torn = span{v.end, int(info.Size() - v.end)}
	}
	return err
}

// rows counts vectors of so many bytes.
func (v *vectorFile) rows(row, texts int) error {
	info, err := v.file.Stat()
	if err != nil {
		return err
	}
	n := (info.Size() - v.end) / int64(row)
	if n > int64(texts) || n == int64(texts) && info.Size() > v.end+n*int64(row) {
		return fmt.Errorf("%s: %w: it has more than %d vectors", v.name, errVectors, texts)
	}
	v.kept = int(n)
	v.first = span{v.end, row}
	v.last = span{v.end + (n-1)*int64(row), row}
	v.end += n * int64(row)
	return nil
}

// longestNumber is more bytes than a number has in text, with what separates it.
const longestNumber = 32

// lines counts vectors that are lines, and compares their ids.
func (v *vectorFile) lines(format string, size int, texts []document) error {
	const spare = 4096 // around numbers and id
	longest := 0
	for i := range texts {
		longest = max(longest, len(texts[i].id))
	}
	s := bufio.NewScanner(io.NewSectionReader(v.file, 0, 1<<62))
	s.Buffer(nil, longest+size*longestNumber+spare)
	s.Split(wholeLines)
	for ; s.Scan(); v.kept++ {
		if v.kept == len(texts) {
			return fmt.Errorf("%s: %w: it has more than %d vectors", v.name, errVectors, len(texts))
		}
		if err := checkVectorLine(format, s.Bytes(), size, texts[v.kept].id); err != nil {
			return fmt.Errorf("%s: line %d: %w: %w", v.name, v.kept+1, errVectors, err)
		}
		v.last = span{v.end, len(s.Bytes())}
		if v.kept == 0 {
			v.first = v.last
		}
		v.end += int64(len(s.Bytes()))
	}
	if err := s.Err(); err != nil {
		return fmt.Errorf("%s: line %d: %w: %w", v.name, v.kept+1, errVectors, err)
	}
	return nil
}

// wholeLines cuts lines with their ends; what follows the last end is dropped.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF {
		return len(data), nil, nil
	}
	return 0, nil, nil
}

// checkVectorLine says why a line is not one of a vector of size numbers with the id.
func checkVectorLine(format string, line []byte, size int, id json.RawMessage) error {
	n := len(bytes.Fields(line))
	if format == "jsonl" {
		var l vectorLine
		if err := strictjson.Unmarshal(line, &l); err != nil {
			return err
		}
		if !bytes.Equal(l.ID, id) {
			return fmt.Errorf("its id is %s, the text's %s", shown(string(l.ID)), shown(string(id)))
		}
		n = len(l.Embedding)
	}
	if n != size {
		return fmt.Errorf("%d numbers, not %d", n, size)
	}
	return nil
}

// same reports whether a part of the file is this; what is torn, whether it begins so, with zeros where the machine has
// failed.
func (v *vectorFile) same(part span, as []byte) (bool, error) {
	b := make([]byte, part.length)
	if _, err := v.file.ReadAt(b, part.at); err != nil {
		return false, err
	}
	if part == v.torn {
		return bytes.HasPrefix(as, bytes.TrimRight(b, "\x00")), nil
	}
	return bytes.Equal(b, as), nil
}

// cut drops what follows the last whole vector.
func (v *vectorFile) cut() error {
	if err := v.file.Truncate(v.end); err != nil {
		return err
	}
	_, err := v.file.Seek(v.end, io.SeekStart)
	return err
}

// close makes sure that the vectors are on the disk.
func (v *vectorFile) close() error {
	err := v.file.Sync()
	v.unlock()
	return errors.Join(err, v.file.Close())
}
