package batch

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/specgo/spec/internal/filelock"
	"github.com/specgo/spec/internal/strictjson"
)

// output is a file of answers. An answer is there when its line has its end.
type output struct {
	file   *os.File
	to     io.Writer // what answers are written to: file, in tests one that fails
	name   string
	unlock func()
	done   map[string]int // statuses by custom_id
	line   bytes.Buffer
	broken bool // a line may be there in part
	end    int64
	most   int // bytes of a line, as it is read again
}

// openOutput opens or makes a file of answers, and cuts a last line that was not written to its end.
func openOutput(name, input string) (*output, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	out := &output{file: f, to: f, name: name, done: map[string]int{}, most: longestAnswer}
	if err := out.open(input); err != nil {
		f.Close()
		return nil, err
	}
	return out, nil
}

func (out *output) open(input string) (err error) {
	info, err := out.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: a pipe or device: answers are written to a regular file, which is read to go on", out.name)
	}
	if in, err := os.Stat(input); err == nil && os.SameFile(in, info) {
		return fmt.Errorf("%s: %w: it is the input", out.name, ErrOutput)
	}
	if out.unlock, err = filelock.Lock(out.file); err != nil {
		return fmt.Errorf("%s: %w: another program writes it: %w", out.name, ErrOutput, err)
	}
	if now, err := os.Stat(out.name); err != nil || !os.SameFile(now, info) {
		return fmt.Errorf("%s: %w: another program has just put another file in its place", out.name, ErrOutput)
	}
	r := bufio.NewReaderSize(out.file, 1<<20)
	for number := 1; ; number++ {
		text, err := readLine(r, out.most)
		if err == io.EOF {
			if !torn(text) {
				return fmt.Errorf("%s: line %d: %w: no answer, and no beginning of one", out.name, number, ErrOutput)
			}
			break // what follows the last whole line
		}
		var a answered
		if err == nil {
			err = strictjson.Unmarshal(text, &a)
		}
		_, twice := out.done[a.CustomID]
		switch {
		case err != nil:
			return fmt.Errorf("%s: line %d: %w: %w", out.name, number, ErrOutput, err)
		case a.CustomID == "" || a.Response == nil:
			return fmt.Errorf("%s: line %d: %w: no answer with a custom_id", out.name, number, ErrOutput)
		case twice:
			return fmt.Errorf("%s: line %d: %w: a second answer to %q", out.name, number, ErrOutput, a.CustomID)
		}
		out.done[a.CustomID] = a.Response.Status
		out.end += int64(len(text))
	}
	return out.cut()
}

// without is the output without the lines of these requests, in a new file that takes its place: a program that is
// killed leaves the one or the other. out is closed, or comes back with the error. replace is os.Rename; tests look at
// the moment before.
func (out *output) without(ids map[string]bool, input string, replace func(old, new string) error) (*output, error) {
	path, err := filepath.EvalSymlinks(out.name)
	if err != nil {
		return out, err
	}
	dir, begin, end := filepath.Dir(path), "."+filepath.Base(path)+"-", ".part"
	filelock.Sweep(dir, func(name string) bool { // what a program that was killed here has left
		name, begins := strings.CutPrefix(name, begin)
		name, ends := strings.CutSuffix(name, end)
		return begins && ends && strings.Trim(name, "0123456789") == ""
	})
	f, err := os.CreateTemp(dir, begin+"*"+end)
	if err != nil {
		return out, err
	}
	_, _ = filelock.Lock(f) // until it is closed; where it cannot be marked, others tell by its age
	name := out.name
	if err = errors.Join(out.copy(f, ids), f.Sync(), f.Close()); err == nil && !filelock.Works {
		err, out = out.close(), nil // on some systems a file that is open keeps its name
	}
	if err == nil {
		err = replace(f.Name(), path)
	}
	if err != nil {
		return out, errors.Join(err, os.Remove(f.Name()))
	}
	if out != nil { // until now it was marked: another run would have gone on with a file that nobody finds any more
		_ = out.close() // its answers are in the other file
	}
	return openOutput(name, input)
}

// copy writes the lines of other requests.
func (out *output) copy(to *os.File, ids map[string]bool) error {
	info, err := out.file.Stat()
	if err == nil {
		err = to.Chmod(info.Mode().Perm())
	}
	if err == nil {
		_, err = out.file.Seek(0, io.SeekStart)
	}
	r, w := bufio.NewReaderSize(out.file, 1<<20), bufio.NewWriter(to)
	for err == nil {
		var text []byte
		if text, err = readLine(r, out.most); err == io.EOF {
			return w.Flush()
		}
		var a answered
		if err == nil {
			err = strictjson.Unmarshal(text, &a)
		}
		if err == nil && !ids[a.CustomID] {
			_, err = w.Write(text)
		}
	}
	return err
}

// answerBegins is how every line begins that write writes.
const answerBegins = `{"id":"batch_req_`

// torn reports whether bytes without the end of a line are what an interrupted run leaves: the beginning of an answer,
// or zeros where the machine failed. Spaces are those of another program that has written the answers anew.
func torn(text []byte) bool {
	head := bytes.ReplaceAll(text[:min(len(text), 2*len(answerBegins))], []byte(" "), nil)
	head = bytes.TrimRight(head, "\x00")
	n := min(len(head), len(answerBegins))
	return string(head[:n]) == answerBegins[:n]
}

// cut drops what follows the last whole line.
func (out *output) cut() error {
	if err := out.file.Truncate(out.end); err != nil {
		return err
	}
	_, err := out.file.Seek(out.end, io.SeekStart)
	return err
}

// write adds an answer, with one call of the operating system: a program that is killed leaves a whole line, a part of
// one, which the next run cuts, or none.
func (out *output) write(id string, status int, answer []byte) error {
	sum := sha256.Sum256([]byte(id))
	name := hex.EncodeToString(sum[:12])
	out.line.Reset()
	e := json.NewEncoder(&out.line)
	e.SetEscapeHTML(false)
	if err := e.Encode(answered{ID: "batch_req_" + name, CustomID: id,
		Response: &response{status, "req_" + name, answer}}); err != nil {
		return fmt.Errorf("answer to %q: %w", id, err)
	}
	if n := out.line.Len(); n > out.most {
		return fmt.Errorf("answer to %q: %d bytes, at most %d", id, n, out.most)
	}
	if _, err := out.to.Write(out.line.Bytes()); err != nil {
		out.broken = true
		return err
	}
	out.end += int64(out.line.Len())
	return nil
}

// close makes sure that the answers are on the disk.
func (out *output) close() error {
	var err error
	if out.broken { // a full disk
		err = out.cut()
	}
	if e := out.file.Sync(); err == nil {
		err = e
	}
	if out.unlock != nil {
		out.unlock()
	}
	if e := out.file.Close(); err == nil {
		err = e
	}
	return err
}
