// Package hub downloads GGUF models from the Hugging Face Hub, or a server that speaks like it, into the
// Hub's own cache, and lists and removes what is there. Names, tags and sizes that come from the network are
// checked before they are used. An interrupted download is continued.
//
//	cache, err := hub.DefaultCache(os.Getenv)
//	client := hub.Client{Cache: cache, Token: os.Getenv("HF_TOKEN"), Download: true}
//	ref, err := hub.ParseReference("Qwen/Qwen3-0.6B-GGUF:Q8_0")
//	paths, err := client.Find(ctx, ref)
package hub

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"
)

// Reference names a model: owner/name, and which of its files.
type Reference struct {
	Owner, Name string
	File        string // a quantization as in file names ("Q4_K_M"), or the name of a file; "" is the default
}

var (
	// ErrReference: not owner/name or owner/name:quantization.
	ErrReference = errors.New("not a model of the form OWNER/NAME[:QUANTIZATION]")
	// ErrNoFile: the repository has no such file.
	ErrNoFile = errors.New("no such file in the repository")
	// ErrNotCached: the cache lacks the model, and the client may not download it.
	ErrNotCached = errors.New("not in the cache")
	// ErrNotFound: the server has no such repository, or not this file of it.
	ErrNotFound = errors.New("not found")
	// ErrDenied: the server refuses access. The Hub says so of a model that does not exist, too.
	ErrDenied = errors.New("access denied")
	// ErrUnreachable: the server does not answer, or says that it cannot answer now. The text is that of the reason.
	ErrUnreachable = errors.New("the server cannot be reached")
	// ErrServer: the server's answer makes no sense, or is one that must not be used.
	ErrServer = errors.New("unusable answer of the server")
)

// component is a valid owner or name on the Hub.
var component = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,94}[A-Za-z0-9_])?$`)
})

// ParseReference reads OWNER/NAME[:QUANTIZATION], also where the file is given as NAME.gguf.
func ParseReference(s string) (Reference, error) {
	repo, file, hasFile := strings.Cut(s, ":")
	owner, name, _ := strings.Cut(repo, "/")
	r := Reference{owner, name, file}
	for _, part := range []string{owner, name} {
		if !component().MatchString(part) || strings.Contains(part, "..") || strings.Contains(part, "--") {
			return r, fmt.Errorf("%w: %.100q", ErrReference, s)
		}
	}
	if hasFile && (file == "" || checkFile(file) != nil) {
		return r, fmt.Errorf("%w: %.100q", ErrReference, s)
	}
	return r, nil
}

// String is OWNER/NAME[:FILE].
func (r Reference) String() string {
	if r.File == "" {
		return r.Repo()
	}
	return r.Repo() + ":" + r.File
}

// Repo is OWNER/NAME.
func (r Reference) Repo() string { return r.Owner + "/" + r.Name }

// folder is the repository's folder in the cache.
func (r Reference) folder() string { return "models--" + r.Owner + "--" + r.Name }

// Scheme begins a path that is a model of the Hub: hf://OWNER/NAME[:QUANTIZATION].
const Scheme = "hf://"

// CutScheme is the model of the Hub that a path names; ok is false for the path of a file.
func CutScheme(path string) (r Reference, ok bool, err error) {
	name, ok := strings.CutPrefix(path, Scheme)
	if ok {
		r, err = ParseReference(name)
	}
	return r, ok, err
}

// addresses begin the URLs of the Hub's pages and files.
var addresses = []string{DefaultEndpoint + "/", "https://hf.co/", "huggingface.co/", "hf.co/"}

// CutURL is the model that a URL of the Hub names, or one of another endpoint's, "" being none: a repository's page, a
// file's, or what downloads the file; also without https://, with a quantization behind a colon. ok is false for what
// is no URL of them.
func CutURL(s, endpoint string) (r Reference, ok bool, err error) {
	begins := addresses
	if endpoint != "" {
		begins = append(slices.Clone(begins), strings.TrimSuffix(endpoint, "/")+"/")
	}
	i := slices.IndexFunc(begins, func(b string) bool { return strings.HasPrefix(s, b) })
	if i < 0 {
		return r, false, nil
	}
	rest, _, _ := strings.Cut(s[len(begins[i]):], "?")
	rest, _, _ = strings.Cut(strings.TrimSuffix(rest, "/"), "#")
	part := strings.SplitN(rest, "/", 5) // OWNER, NAME, blob, main, FILE
	switch {
	case len(part) < 2:
	case len(part) == 2, len(part) == 4 && part[2] == "tree" && part[3] == "main":
		r, err = ParseReference(part[0] + "/" + part[1])
		return r, true, err
	case len(part) == 5 && (part[2] == "blob" || part[2] == "resolve") && part[3] == "main":
		name, err := url.PathUnescape(part[4])
		if err != nil {
			name = ""
		}
		r, err = ParseReference(part[0] + "/" + part[1] + ":" + name)
		return r, true, err
	case len(part) > 3 && part[3] != "main":
		return r, true, fmt.Errorf("%w: %.200q: the branch main is what can be had", ErrReference, s)
	}
	return r, true, fmt.Errorf("%w: %.200q: neither a model's page nor a file of it", ErrReference, s)
}

// checkFile refuses names that could lead out of a folder, or that a file system could take for another.
func checkFile(name string) error {
	const longest = 255
	bad := func(why string) error { return fmt.Errorf("%w: file name %.100q: %s", ErrServer, name, why) }
	switch {
	case name == "" || len(name) > 4*longest:
		return bad("its length")
	case path.Clean(name) != name || !filepath.IsLocal(filepath.FromSlash(name)):
		return bad("not a plain relative path")
	}
	for _, c := range name {
		if unicode.IsControl(c) || strings.ContainsRune(`\:*?"<>|`, c) {
			return bad("a character that is not allowed")
		}
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > longest || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".") ||
			strings.HasSuffix(part, " ") {
			return bad("a part that is hidden or too long")
		}
	}
	return nil
}

// preferences are the quantizations by which a file is chosen where none is named, the best first.
var preferences = []string{"Q4_K_M", "Q4_K_S", "Q4_K", "Q4_0", "Q4_K_L", "Q4_K_XL", "Q5_K_M", "Q5_K_S", "Q5_K", "Q5_0",
	"Q5_K_L", "Q5_K_XL", "IQ4_XS", "IQ4_NL", "MXFP4", "Q6_K", "Q6_K_L", "Q6_K_XL", "Q8_0", "Q8_K_XL", "Q3_K_M", "Q3_K_L",
	"Q3_K_XL", "Q3_K_S", "IQ3_M", "IQ3_S", "IQ3_XS", "IQ3_XXS", "Q2_K", "Q2_K_L", "Q2_K_XL", "F16", "BF16", "F32",
	"IQ2_M", "Q2_K_S", "IQ2_S", "IQ2_XS", "IQ2_XXS", "IQ1_M", "IQ1_S"}

// isModel reports whether a GGUF file is a model by its name: neither a projector nor an importance matrix.
func isModel(file string) bool {
	base := strings.ToLower(path.Base(file))
	return !strings.Contains(base, "mmproj") && !strings.Contains(base, "imatrix")
}

// hasName reports whether a file is called so, with its folder or without.
func hasName(file, want string) bool {
	return strings.EqualFold(file, want) || strings.EqualFold(path.Base(file), want)
}

// choose returns the files of a model among those of a repository: one, or all parts of a split one. What is no model
// is chosen by its whole name alone.
func choose(files []string, want string) ([]string, error) {
	var all, models []string
	for _, f := range files {
		if strings.HasSuffix(strings.ToLower(f), ".gguf") {
			all = append(all, f)
		}
	}
	// Short names first: they are the plain ones.
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b)) })
	for _, f := range all {
		if hasName(f, want) {
			return parts(all, f)
		}
		if isModel(f) {
			models = append(models, f)
		}
	}
	if len(models) == 0 {
		return nil, fmt.Errorf("%w: it holds no GGUF model", ErrNoFile)
	}
	if want != "" {
		for _, f := range models {
			if hasQuant(f, want) {
				return parts(models, f)
			}
		}
		return nil, fmt.Errorf("%w: %s (there are: %s)", ErrNoFile, want,
			strings.Join(models[:min(len(models), 20)], ", "))
	}
	for _, quant := range preferences {
		for _, f := range models {
			if hasQuant(f, quant) {
				return parts(models, f)
			}
		}
	}
	return parts(models, models[0])
}

// wholeQuant is how the name of a quantization begins: Q4_K, IQ3_S, BF16. K_M is the end of one.
var wholeQuant = regexp.MustCompile(`^[A-Z]+[0-9]`)

// hasQuant reports whether a file's name has the quantization as a part of its own: between hyphens or dots, or behind
// an underscore. One behind it would be of the quantization's name.
func hasQuant(file, quant string) bool {
	name, quant := strings.ToUpper(strings.TrimSuffix(path.Base(file), path.Ext(file))), strings.ToUpper(quant)
	before, behind := "-.", "-."
	if wholeQuant.MatchString(quant) {
		before = "-._"
	}
	for at := 0; ; {
		i := strings.Index(name[at:], quant)
		if i < 0 {
			return false
		}
		i += at
		end := i + len(quant)
		if (i == 0 || strings.IndexByte(before, name[i-1]) >= 0) &&
			(end == len(name) || strings.IndexByte(behind, name[end]) >= 0) {
			return true
		}
		at = i + 1
	}
}

var partName = regexp.MustCompile(`^(.*)-(\d{5})-of-(\d{5})\.gguf$`)

// sameModel reports whether two names are of one file, or of parts of one split model.
func sameModel(a, b string) bool {
	x, y := partName.FindStringSubmatch(a), partName.FindStringSubmatch(b)
	return strings.EqualFold(a, b) || x != nil && y != nil && x[1] == y[1] && x[3] == y[3]
}

// mostParts is the most parts of a split model: the largest ones have some dozens.
const mostParts = 1 << 10

// parts lists all parts of a split model in order, or the file itself.
func parts(files []string, file string) ([]string, error) {
	m := partName.FindStringSubmatch(file)
	if m == nil {
		return []string{file}, nil
	}
	total, err := strconv.Atoi(m[3])
	if err != nil || total < 1 || total > mostParts {
		return nil, fmt.Errorf("%w: file name %.100q: %s parts, from 1 to %d", ErrServer, file, m[3], mostParts)
	}
	there := map[string]bool{}
	for _, f := range files {
		there[f] = true
	}
	var list []string
	for i := range total {
		name := fmt.Sprintf("%s-%05d-of-%s.gguf", m[1], i+1, m[3])
		if !there[name] {
			return nil, fmt.Errorf("%w: part %s", ErrNoFile, name)
		}
		list = append(list, name)
	}
	return list, nil
}
