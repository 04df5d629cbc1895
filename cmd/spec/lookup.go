package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/cmd/spec/internal/output"
	"github.com/specgo/spec/internal/terminal"
	"github.com/specgo/spec/speculative/lookup"
)

var lookupCommand = command{
	name:  "lookup",
	does:  "indexes of texts that drafts look up in",
	usage: "[build [-m FILE] PATH... | check PATH... | rm NAME... | list] [flags]",
	about: `Drafts may look up in other texts what followed the last tokens there: --lookup PATH of generate, chat, run, batch, serve, compare and eval, which makes an index of PATH where there is none. "build" makes it ahead: of a file or a folder of texts, or of a file .jsonl, whose values named text, content, completion, response, answer, output, output_text and reasoning_content are texts each (answers of spec batch are such a file). An index is for one vocabulary, so -m says which. It takes about 6 bytes for each token; making it takes 128 MiB and 2 bytes for each token, which are pages of the file.

Without a word, or with list, the indexes in the cache directory are listed; "rm" deletes those of these names, "check" reads an index and its sums. An index of files that have changed since is made anew, in the place of the one before.

The directory is lookup in that of spec cache.`,
	new: func() job { return &lookingUp{memory: lookup.UsualMemory} },
}

// lookingUp is the command's options.
type lookingUp struct {
	model  string
	output string
	memory int64
	json   bool
	what   string
	list   []string
}

func (l *lookingUp) flags() []group {
	build := func() bool { return l.what == "build" }
	return []group{{"index", []flag{
		modelRow(&l.model, "the target inside this program").when(build),
		fileFlag("-o, --output", &l.output, "FILE", "the index, which --lookup FILE then names").or("one in the cache " +
			"directory, which --lookup PATH finds").when(build),
		memoryRow(&l.memory, "memory for sorting, with build").or("128MiB").when(build),
	}}, {"output", []flag{jsonRow(&l.json).when(func() bool { return l.what == "" || l.what == "list" })}}}
}

func (*lookingUp) words() []string { return []string{"build", "check", "rm", "list"} }

func (l *lookingUp) operand(v string) error {
	if l.what != "" {
		l.list = append(l.list, v)
		return nil
	}
	if !slices.Contains(l.words(), v) {
		return errors.New("expected build, check, rm or list")
	}
	l.what = v
	return nil
}

func (l *lookingUp) check() error {
	switch {
	case (l.what == "" || l.what == "list") && len(l.list) > 0:
		return usagef("list takes no names")
	case l.what != "" && l.what != "list" && len(l.list) == 0:
		return usagef("%s: of what?", l.what)
	case l.what != "build" && (l.model != "" || l.output != "" || l.memory != lookup.UsualMemory):
		return usagef("-m, -o and --memory go with build")
	case l.json && l.what != "" && l.what != "list":
		return usagef("--json is for the list")
	}
	return nil
}

func (l *lookingUp) run(ctx context.Context, p *program) error {
	dir, err := lookupDir(p)
	if err != nil {
		return err
	}
	switch l.what {
	case "build":
		return l.build(ctx, p, dir)
	case "check":
		return l.checkAll(p, dir)
	case "rm":
		for _, name := range l.list {
			if filepath.Base(name) != name || !strings.HasSuffix(name, lookupEnd) {
				return fmt.Errorf("%s: no name of spec lookup list", shown(name))
			}
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
		return nil
	}
	return l.print(p, dir)
}

func (l *lookingUp) build(ctx context.Context, p *program, dir string) error {
	f, err := openGGUF(l.model)
	if err != nil {
		return err
	}
	defer f.Close()
	tok, err := readTokenizer(f)
	if err != nil {
		return err
	}
	if l.output != "" {
		if err := output.Distinct(l.output, slices.Concat(l.list, f.Files)...); err != nil {
			return err
		}
		if err := buildLookup(ctx, p, tok, l.output, l.list, l.memory); err != nil {
			return err
		}
		return printLookup(p, l.output)
	}
	for _, path := range l.list {
		file, err := lookupFile(ctx, p, dir, tok, path, l.memory)
		if err != nil {
			return err
		}
		if err := printLookup(p, file); err != nil {
			return err
		}
	}
	return nil
}

// checkAll reads indexes: files, or names of the list. Its error is of all that are damaged.
func (l *lookingUp) checkAll(p *program, dir string) error {
	var damaged []error
	for _, name := range l.list {
		if _, err := os.Stat(name); err != nil && filepath.Base(name) == name {
			name = filepath.Join(dir, name)
		}
		x, err := lookup.Open(name)
		if err == nil {
			err = x.Check()
			x.Close()
		}
		if err != nil {
			damaged = append(damaged, err)
			continue
		}
		if _, err := fmt.Fprintf(p.stdout, "%s: intact\n", terminal.Line(name, 0)); err != nil {
			return err
		}
	}
	return errors.Join(damaged...)
}

// printLookup describes an index.
func printLookup(p *program, file string) error {
	x, err := lookup.Open(file)
	if err != nil {
		return err
	}
	defer x.Close()
	a := x.About()
	var of []string
	for _, s := range a.Sources {
		of = append(of, s.Path)
	}
	_, err = fmt.Fprintf(p.stdout, "%10s  %s\n            %s of text, %d texts, %d tokens, of %s\n", size(a.File),
		terminal.Line(file, 0), size(a.Bytes), a.Texts, a.Tokens, terminal.Line(strings.Join(of, ", "), 300))
	return err
}

// print lists the indexes of the cache directory. Its error is of all that are damaged.
func (l *lookingUp) print(p *program, dir string) error {
	files := filesLike(dir, "*"+lookupEnd)
	type entry struct {
		File    string          `json:"file"`
		Bytes   int64           `json:"bytes"`
		Text    int64           `json:"text_bytes"`
		Texts   int64           `json:"n_texts"`
		Tokens  int64           `json:"n_tokens"`
		Sources []lookup.Source `json:"sources"`
	}
	list := []entry{}
	var failed []error // each names its file
	for _, file := range files {
		if !l.json {
			if err := printLookup(p, file); err != nil {
				failed = append(failed, err)
			}
			continue
		}
		x, err := lookup.Open(file)
		if err != nil {
			failed = append(failed, err)
			continue
		}
		a := x.About()
		x.Close()
		list = append(list, entry{file, a.File, a.Bytes, a.Texts, a.Tokens, a.Sources})
	}
	switch {
	case l.json:
		failed = append(failed, printJSON(p.stdout, struct {
			Schema int     `json:"schema"`
			Dir    string  `json:"dir"`
			Files  []entry `json:"files"`
		}{1, dir, list}))
	case len(files) == 0:
		_, err := fmt.Fprintf(p.stdout, "no indexes in %s\n", terminal.Line(dir, 0))
		failed = append(failed, err)
	}
	return errors.Join(failed...)
}

// filesLike are the files of a folder whose names match a pattern, which is no user's; of one that cannot be read there
// are none.
func filesLike(dir, pattern string) (paths []string) {
	names, _ := fs.Glob(os.DirFS(dir), pattern) // the pattern is well formed
	for _, name := range names {
		paths = append(paths, filepath.Join(dir, name))
	}
	return paths
}

// lookupEnd is the end of the names of indexes in the cache directory.
const lookupEnd = ".lookup"

func lookupDir(p *program) (string, error) {
	dir, err := panelCache(p)
	return filepath.Join(dir, "lookup"), err
}

// lookupFile is the index of a path in the cache directory, which is made if there is none of the files as they are
// now.
func lookupFile(ctx context.Context, p *program, dir string, tok *bpe.Tokenizer, path string, memory int64) (
	string, error) {
	whole, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	sources, err := lookup.Sources(ctx, []string{whole})
	if err != nil {
		return "", err
	}
	sum := lookup.Vocabulary(tok)
	what, _ := json.Marshal(sources)
	key := sha256.Sum256(append(sum[:], what...))
	file := filepath.Join(dir, lookupBeginning(whole)+hex.EncodeToString(key[:8])+lookupEnd)
	if x, err := lookup.Open(file); err == nil {
		err = x.Fits(sum)
		x.Close()
		return file, err
	} else if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, lookup.ErrIndex) {
		return "", err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	removeUnfinished(dir)
	if err := buildLookup(ctx, p, tok, file, []string{whole}, memory); err != nil {
		return "", err
	}
	removeOutdated(file, whole, sum)
	return file, nil
}

// lookupBeginning is how the names of indexes of a path begin: with its own name, cut where little room would be left
// for the rest of theirs.
func lookupBeginning(path string) string {
	const most = 128 // bytes, of the 255 that a name may have
	name := filepath.Base(path)
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most], "")
	}
	return name + "-"
}

// removeOutdated deletes the indexes in whose place a new one is: of the same path and vocabulary, of texts that have
// changed since.
func removeOutdated(file, path string, vocabulary [sha256.Size]byte) {
	dir := filepath.Dir(file)
	list, _ := os.ReadDir(dir) // what cannot be read stays
	for _, e := range list {
		name := filepath.Join(dir, e.Name())
		if name == file || !strings.HasPrefix(e.Name(), lookupBeginning(path)) ||
			!strings.HasSuffix(e.Name(), lookupEnd) {
			continue
		}
		x, err := lookup.Open(name)
		if err != nil {
			continue
		}
		of, fits := x.About().Sources, x.Fits(vocabulary) == nil
		x.Close()
		if fits && len(of) == 1 && of[0].Path == path {
			_ = os.Remove(name)
		}
	}
}

// abandonedLookup is the time without a write after which an unfinished index is one that a killed program has left.
const abandonedLookup = 24 * time.Hour

// removeUnfinished deletes what killed programs have left in the cache directory.
func removeUnfinished(dir string) {
	for _, file := range filesLike(dir, ".*"+lookupEnd+"-*") {
		info, err := os.Lstat(file)
		if err == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > abandonedLookup {
			_ = os.Remove(file)
		}
	}
}

// buildLookup makes an index, and says how long it took.
func buildLookup(ctx context.Context, p *program, tok *bpe.Tokenizer, file string, paths []string, memory int64) error {
	bar := terminal.NewBar(p.stderr, "index")
	defer bar.Clear()
	o := lookup.Options{Vocab: tok.Size(), Vocabulary: lookup.Vocabulary(tok), Memory: memory, Threads: runtime.NumCPU(),
		Encode: func(text string) []int32 { return tok.Encode(text, bpe.EncodeOptions{NoSpacePrefix: true}) }}
	if bar != nil {
		o.Progress = bar.Progress
	}
	begin := time.Now()
	if err := lookup.Build(ctx, file, paths, o); err != nil {
		return err
	}
	x, err := lookup.Open(file)
	if err != nil {
		return err
	}
	defer x.Close()
	bar.Clear()
	took := time.Since(begin).Seconds()
	_, err = fmt.Fprintf(p.stderr, "made an index of %s of text in %.1f s, %s: %s\n", size(x.About().Bytes), took,
		size(x.About().File), terminal.Line(file, 0))
	return err
}

// lookupRow is --lookup.
func lookupRow(list *[]string) flag {
	return listFlag("--lookup", list, "PATH", "other texts that drafts look up in: a file or folder of texts, lines of "+
		"JSON with earlier answers, or an index of spec lookup build; may be repeated; an index is made once, in the cache "+
		"directory")
}

// lookupOwnRow is --lookup-own.
func lookupOwnRow(bytes *int64) flag {
	return bytesFlag("--lookup-own", bytes, "drafts look up in the answers of the same key, too, of which so many bytes "+
		"are kept for each model, 16 a token").or("none are kept")
}

// openIndexes opens the indexes of --lookup.
func openIndexes(ctx context.Context, p *program, tok *bpe.Tokenizer, paths []string) (list []*lookup.Index,
	err error) {
	for _, path := range paths {
		x, err := lookup.Open(path)
		if errors.Is(err, lookup.ErrNoIndex) || isFolder(path) {
			var dir, file string
			if dir, err = lookupDir(p); err == nil {
				file, err = lookupFile(ctx, p, dir, tok, path, 0)
			}
			if err == nil {
				x, err = lookup.Open(file)
			}
		}
		if err == nil {
			if err = x.Fits(lookup.Vocabulary(tok)); err == nil {
				list = append(list, x)
				continue
			}
			x.Close()
		}
		closeIndexes(list)
		return nil, fmt.Errorf("--lookup %w", err)
	}
	return list, nil
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func closeIndexes(list []*lookup.Index) {
	for _, x := range list {
		x.Close()
	}
}

// openTexts opens the indexes of --lookup for a target, to be closed with its parts, and lists its draft vocabulary.
func (s *speculation) openTexts(ctx context.Context, p *program, to *library.Parts, o *library.Options) (err error) {
	o.Own = s.own
	tok := to.Target.Tokenizer()
	if len(s.texts) > 0 {
		if tok, err = tokenizerOf(to.Target, "--lookup: "+to.Target.Name()); err != nil {
			return err
		}
	}
	if o.DraftVocab, err = s.vocab.of(ctx, tok); err != nil {
		return err
	}
	if o.Texts, err = openIndexes(ctx, p, tok, s.texts); err != nil {
		return err
	}
	before, list := to.Close, o.Texts
	to.Close = func() { before(); closeIndexes(list) }
	return nil
}
