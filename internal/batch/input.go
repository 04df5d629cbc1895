package batch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/specgo/spec/internal/strictjson"
)

// Paths are the endpoints that a request may be for.
var Paths = []string{"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings"}

const (
	longestLine   = 64 << 20 // bytes of a request
	longestAnswer = 1 << 30  // bytes of an answer: 2,048 vectors of 4,096 numbers are a tenth of that
	longestID     = 512      // bytes of a custom_id, which are kept in memory
)

// input is a file of requests. Only where they are is kept in memory.
type input struct {
	file     *os.File
	name     string
	requests []request
}

type request struct {
	id     string // custom_id
	offset int64
	length int
}

// line is a request as the file has it.
type line struct {
	CustomID *string         `json:"custom_id"`
	Method   *string         `json:"method"`
	URL      *string         `json:"url"`
	Body     json.RawMessage `json:"body"`
}

// Readable refuses an input that is no regular file: requests are read more than once, and a pipe has them once.
func Readable(name string) error {
	info, err := os.Stat(name)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w: not a regular file, and requests are read more than once", name, ErrInput)
	}
	return err
}

// openInput checks every line of a file.
func openInput(name string) (*input, error) {
	if err := Readable(name); err != nil { // to open a pipe could wait for ever
		return nil, err
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	in := &input{file: f, name: name}
	if err := in.scan(); err != nil {
		f.Close()
		return nil, err
	}
	return in, nil
}

func (in *input) close() { in.file.Close() }

// scan finds the requests. Empty lines do not count.
func (in *input) scan() error {
	seen := map[string]int{}
	r := bufio.NewReaderSize(in.file, 1<<20)
	for offset, number := int64(0), 1; ; number++ {
		text, err := readLine(r, longestLine)
		if err != nil && err != io.EOF {
			return fmt.Errorf("%s: line %d: %w", in.name, number, err)
		}
		begin := offset
		if offset += int64(len(text)); number == 1 { // without the mark of UTF-8 that editors of Windows write
			text = bytes.TrimPrefix(text, []byte("\ufeff"))
			begin = offset - int64(len(text))
		}
		if len(bytes.TrimSpace(text)) > 0 {
			l, err := parseLine(text)
			if err != nil {
				return fmt.Errorf("%s: line %d: %w: %w", in.name, number, ErrInput, err)
			}
			id := strings.Clone(*l.CustomID)
			if before, ok := seen[id]; ok {
				return fmt.Errorf("%s: line %d: %w: custom_id %q is that of line %d too", in.name, number, ErrInput, id, before)
			}
			seen[id] = number
			in.requests = append(in.requests, request{id, begin, len(text)})
		}
		if err == io.EOF {
			return nil
		}
	}
}

// readLine reads a line with its end, of bounded length. The last one may lack its end; then err is io.EOF.
func readLine(r *bufio.Reader, most int) (text []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(text)+len(part) > most {
			return nil, fmt.Errorf("longer than %d bytes", most)
		}
		text = append(text, part...)
		if err != bufio.ErrBufferFull {
			return text, err
		}
	}
}

// parseLine reads a request. What it does not know it refuses.
func parseLine(text []byte) (*line, error) {
	var l line
	if err := strictjson.Unmarshal(text, &l); err != nil {
		return nil, err
	}
	switch {
	case l.CustomID == nil || *l.CustomID == "":
		return nil, errors.New("custom_id: missing")
	case len(*l.CustomID) > longestID:
		return nil, fmt.Errorf("custom_id: %d bytes, at most %d", len(*l.CustomID), longestID)
	case l.Method != nil && *l.Method != "POST":
		return nil, fmt.Errorf("method: %q, only POST is answered", *l.Method)
	case l.URL == nil:
		return nil, errors.New("url: missing")
	case !slices.Contains(Paths, *l.URL):
		return nil, fmt.Errorf("url: %q, not one of %s", *l.URL, strings.Join(Paths, ", "))
	case len(l.Body) == 0 || l.Body[0] != '{':
		return nil, errors.New("body: missing, or no object")
	}
	return &l, nil
}

// read reads a request again. Several goroutines may call it.
func (in *input) read(i int) (Request, error) {
	r := in.requests[i]
	text := make([]byte, r.length)
	if _, err := in.file.ReadAt(text, r.offset); err != nil && err != io.EOF {
		return Request{}, err
	}
	l, err := parseLine(text)
	if err != nil || *l.CustomID != r.id {
		return Request{}, fmt.Errorf("%s: request %q is no longer where it was: the file has changed", in.name, r.id)
	}
	return Request{r.id, *l.URL, l.Body}, nil
}
