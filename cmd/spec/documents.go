package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/specgo/spec/internal/strictjson"
)

// A document is a text to embed, with where it comes from.
type document struct {
	text   string
	id     json.RawMessage // a text or a number; nil: none
	source string          // what messages call the file
	unit   string          // "line" or "text"; "": it is all of its source
	number int             // of the unit, from 1
}

// place is where the document stands, for messages.
func (d *document) place() string {
	if d.unit == "" {
		return d.source
	}
	return fmt.Sprintf("%s: %s %d", d.source, d.unit, d.number)
}

// cutting says how a file becomes documents.
type cutting struct {
	separator string // "": a line's end; of a folder's files, nothing: each is one document
	textField string // of a JSON object on each line; "": the input is plain text
	idField   string // "": defaultIDField, where a line has it
	inFolder  bool   // documents are those of a folder: they have the file's name as id
}

// defaultIDField is the field of JSON lines whose value is kept with the vector.
const defaultIDField = "id"

func (c *cutting) check() error {
	switch {
	case c.separator != "" && c.textField != "":
		return usagef("--embd-separator and --text-field exclude each other: a line of JSON is one text")
	case c.idField != "" && c.textField == "":
		return usagef("--id-field: only lines of JSON have one; --text-field says where their texts are")
	}
	return nil
}

// cut makes documents of a file's text. Empty ones are left out, but a line of JSON must have a text.
func (c *cutting) cut(source, text string) ([]document, error) {
	switch {
	case c.textField != "":
		return c.records(source, text)
	case c.separator == "" && c.inFolder:
		if strings.TrimSpace(text) == "" {
			return nil, nil
		}
		return []document{{text: text, source: source, id: c.label(source, 0)}}, nil
	}
	separator, unit := c.separator, "text"
	if separator == "" {
		separator = "\n"
	}
	if separator == "\n" {
		unit = "line"
	}
	var list []document
	number := 0
	for part := range strings.SplitSeq(text, separator) {
		number++
		if unit == "line" {
			part = strings.TrimSuffix(part, "\r")
		}
		if strings.Trim(part, "\r\n") != "" {
			list = append(list, document{part, c.label(source, number), source, unit, number})
		}
	}
	return list, nil
}

// label is the id of a document of a folder: its file, and its number there if it is not all of it.
func (c *cutting) label(source string, number int) json.RawMessage {
	if !c.inFolder {
		return nil
	}
	if number > 0 {
		source = fmt.Sprintf("%s:%d", source, number)
	}
	id, _ := json.Marshal(strings.ToValidUTF8(source, "\uFFFD")) // a text can be written
	return id
}

// records reads lines of JSON. Empty lines do not count.
func (c *cutting) records(source, text string) (list []document, err error) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		if strings.TrimSpace(line) == "" {
			continue
		}
		d := document{source: source, unit: "line", number: number}
		if d.text, d.id, err = c.record(line); err != nil {
			return nil, fmt.Errorf("%s: %w", d.place(), err)
		}
		list = append(list, d)
	}
	return list, nil
}

// record reads a line of JSON.
func (c *cutting) record(line string) (text string, id json.RawMessage, err error) {
	var fields map[string]json.RawMessage
	if err := strictjson.Unmarshal([]byte(line), &fields); err != nil {
		return "", nil, err
	}
	raw, ok := fields[c.textField]
	switch {
	case !ok:
		return "", nil, fmt.Errorf("%s: missing", shown(c.textField))
	case raw[0] != '"':
		return "", nil, fmt.Errorf("%s: not a text", shown(c.textField))
	}
	if err := strictjson.Unmarshal(raw, &text); err != nil {
		return "", nil, fmt.Errorf("%s: %w", shown(c.textField), err)
	}
	if strings.TrimSpace(text) == "" {
		return "", nil, fmt.Errorf("%s: empty", shown(c.textField))
	}
	name := c.idField
	if name == "" {
		name = defaultIDField
	}
	id, ok = fields[name]
	switch {
	case !ok && c.idField != "":
		return "", nil, fmt.Errorf("%s: missing", shown(name))
	case ok && id[0] != '"' && id[0] != '-' && (id[0] < '0' || id[0] > '9'):
		return "", nil, fmt.Errorf("%s: neither a text nor a number", shown(name))
	}
	return text, id, nil
}

// documents are the texts that the flags name: of -p, a file, standard input, or a folder's files.
func (e *embedding) documents(ctx context.Context, p *program) (list []document, err error) {
	if e.folder() {
		list, err = e.folderDocuments(ctx, p)
	} else {
		var source *source
		if source, err = e.text.open(ctx, p); err != nil {
			return nil, err
		}
		defer source.close()
		var text string
		if text, err = readText(ctx, source); err == nil {
			if source.name == "" {
				source.name = "-p"
			}
			list, err = e.cut(source.name, text)
		}
	}
	if err == nil && len(list) == 0 {
		err = errors.New("there is no text")
	}
	return list, err
}

// folder reports whether -f names a folder.
func (e *embedding) folder() bool {
	if e.text.given || e.text.file == "" || e.text.file == "-" {
		return false
	}
	info, err := os.Stat(e.text.file)
	return err == nil && info.IsDir()
}

// folderEntries is the most files and folders that are looked at.
const folderEntries = 1 << 18

// folderDocuments are those of the text files in a folder and the folders in it, in the order of their names. Files and
// folders whose names begin with a dot, links, and what is not text are left out.
func (e *embedding) folderDocuments(ctx context.Context, p *program) (list []document, err error) {
	c := e.cutting
	c.inFolder = true
	files, left, other, first, seen := os.DirFS(e.text.file), int64(textLimit), 0, "", 0
	err = fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if seen++; err == nil {
			err = ctx.Err()
		}
		switch {
		case err != nil:
			return err
		case seen > folderEntries:
			return fmt.Errorf("more than %d files and folders", folderEntries)
		case name != "." && entry.Name()[0] == '.' && entry.IsDir():
			return fs.SkipDir
		case entry.Name()[0] == '.' || !entry.Type().IsRegular():
			return nil
		}
		text, isText, err := readTextFile(ctx, files, name, left)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if !isText {
			if other++; other == 1 {
				first = name
			}
			return nil
		}
		left -= int64(len(text))
		some, err := c.cut(name, text)
		list = append(list, some...)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", e.text.file, err)
	}
	if other > 0 {
		fmt.Fprintf(p.stderr, "spec embed: %s: files that are no text (UTF-8) are left out: %d, the first is %s\n",
			e.text.file, other, shown(first))
	}
	return list, nil
}

// readTextFile reads a file of at most limit bytes. What has zeros or is not UTF-8 is no text.
func readTextFile(ctx context.Context, files fs.FS, name string, limit int64) (text string, isText bool, err error) {
	const head = 8 << 10
	f, err := files.Open(name)
	if err != nil {
		return "", false, err
	}
	begin, err := io.ReadAll(io.LimitReader(f, head))
	if err != nil || bytes.IndexByte(begin, 0) >= 0 {
		return "", false, errors.Join(err, f.Close())
	}
	rest, err := readInput(ctx, f, max(0, limit-int64(len(begin))))
	if errors.Is(err, errTooLong) || int64(len(begin)) > limit {
		return "", false, fmt.Errorf("the texts have more than %d MiB", textLimit>>20)
	}
	if err != nil {
		return "", false, err
	}
	text = string(append(begin, rest...))
	return text, utf8.ValidString(text) && strings.IndexByte(text, 0) < 0, nil
}

// liesIn reports whether a file is in a folder, or would be.
func liesIn(folder, file string) (bool, error) {
	whole := func(path string) (string, error) {
		path, err := filepath.Abs(path)
		if err != nil {
			return "", err
		}
		return filepath.EvalSymlinks(path)
	}
	folder, err := whole(folder)
	if err != nil {
		return false, err
	}
	parent, err := whole(filepath.Dir(file))
	if err != nil {
		return false, err
	}
	way, err := filepath.Rel(folder, parent)
	return err == nil && way != ".." && !strings.HasPrefix(way, ".."+string(filepath.Separator)), nil
}
