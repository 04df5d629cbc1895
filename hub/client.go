package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// DefaultEndpoint is the Hub.
const DefaultEndpoint = "https://huggingface.co"

// Client finds models in a cache and downloads them into it. It reads no environment.
type Client struct {
	Cache    Cache
	Endpoint string // "" is DefaultEndpoint
	Token    string // of an account, for models that need one; sent to the endpoint alone (scheme, host and port)

	// Find may download what the cache lacks.
	Download bool

	HTTP     *http.Client                               // nil: one of http.DefaultTransport, with a timeout for headers
	Progress func(file string, done, total int64)       // may be nil
	Wait     func(context.Context, time.Duration) error // between attempts; nil waits
	// without a byte, after which an attempt, or the list of files, is given up; 0: a minute
	Stall time.Duration
}

const (
	attempts  = 5       // without a byte of progress, before a download, or a request about one, fails
	listLimit = 8 << 20 // bytes of a repository's list of files
	largest   = 1 << 42 // bytes of a file: more is no model
)

// Find returns the paths of a model's files: those in the cache, or else, where c.Download allows it, those that Pull
// downloads. Without it a model that the cache lacks is [ErrNotCached].
func (c *Client) Find(ctx context.Context, r Reference) ([]string, error) {
	paths, err := c.Cache.Find(r)
	switch {
	case err != nil || len(paths) > 0:
		return paths, err
	case c.Download:
		return c.Pull(ctx, r)
	}
	return nil, fmt.Errorf("%s: %w", r, ErrNotCached)
}

// Local is the file of a path: the path itself, or where it names a model of the Hub (see [Scheme]) the first of the
// files that Find returns. So a Client is what package spec takes as Options.Hub.
func (c *Client) Local(ctx context.Context, path string) (string, error) {
	r, ok, err := CutScheme(path)
	if err != nil || !ok {
		return path, err
	}
	paths, err := c.Find(ctx, r)
	if err != nil {
		return "", err
	}
	return paths[0], nil
}

// Pull downloads the files of a model that the cache lacks and returns their paths. A file appears when it is
// whole and its checksum is right.
func (c *Client) Pull(ctx context.Context, r Reference) ([]string, error) {
	var paths []string
	commit, err := c.each(ctx, r, func(commit, file string) error {
		p, err := c.file(ctx, r, commit, file)
		paths = append(paths, p)
		return err
	})
	if err != nil {
		return nil, err
	}
	return paths, c.Cache.setMain(r, commit)
}

// Size is the bytes of a model's files, as the server says, without a download.
func (c *Client) Size(ctx context.Context, r Reference) (all int64, err error) {
	_, err = c.each(ctx, r, func(commit, file string) error {
		what, err := c.describe(ctx, r, commit, file)
		all += what.size
		return err
	})
	return all, err
}

// each calls do for the files of a model, and returns the commit that they are of.
func (c *Client) each(ctx context.Context, r Reference, do func(commit, file string) error) (commit string, err error) {
	commit, files, err := c.list(ctx, r)
	if err != nil {
		return "", err
	}
	chosen, err := choose(files, r.File)
	if err != nil {
		return "", fmt.Errorf("%s: %w", r.Repo(), err)
	}
	for _, file := range chosen {
		if err := do(commit, file); err != nil {
			return "", fmt.Errorf("%s: %s: %w", r.Repo(), file, err)
		}
	}
	return commit, nil
}

// client is the one to use. It follows redirects, but never from https to http, and the token never goes elsewhere
// than the first request: net/http itself would send it to subdomains, other ports and from http to https, and back
// again.
func (c *Client) client() *http.Client {
	h := http.Client{}
	if c.HTTP != nil {
		h = *c.HTTP
	} else if t, ok := http.DefaultTransport.(*http.Transport); ok { // a program may have put one of another kind there
		t = t.Clone()
		t.ResponseHeaderTimeout = time.Minute
		h.Transport = t
	}
	h.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		const most = 10
		switch {
		case len(via) >= most:
			return errors.New("too many redirects")
		case via[0].URL.Scheme == "https" && req.URL.Scheme != "https":
			return fmt.Errorf("%w: a redirect from https to %s", ErrServer, req.URL.Scheme)
		}
		for _, v := range append(via[1:len(via):len(via)], req) {
			if origin(v.URL) != origin(via[0].URL) {
				req.Header.Del("Authorization")
			}
		}
		return nil
	}
	return &h
}

// origin is scheme, host and port.
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"https": "443", "http": "80"}[u.Scheme]
	}
	return u.Scheme + "://" + strings.ToLower(u.Hostname()) + ":" + port
}

// request makes a request to the endpoint, with the token. parts are of the path, as they are called.
func (c *Client) request(ctx context.Context, method string, parts ...string) (*http.Request, error) {
	endpoint := c.Endpoint
	if endpoint == "" {
		endpoint = DefaultEndpoint
	}
	u, err := url.Parse(endpoint)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return nil, fmt.Errorf("endpoint %.100q: not an http or https address", endpoint)
	}
	for i, part := range parts { // a name is no escaped one: what is behind a % in it is its own
		parts[i] = strings.ReplaceAll(part, "%", "%25")
	}
	req, err := http.NewRequestWithContext(ctx, method, u.JoinPath(parts...).String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", "spec")
	if token := strings.TrimSpace(c.Token); token != "" { // what comes from a file may end with its line
		req.Header.Set("Authorization", "Bearer "+token)
	}
	return req, nil
}

// ask sends a request without a body, again where the server says that it cannot answer now.
func (c *Client) ask(h *http.Client, req *http.Request) (*http.Response, error) {
	for failed := 1; ; failed++ {
		resp, err := h.Do(req)
		if err != nil {
			return nil, unreached(req.Context(), err)
		}
		if !later(resp.StatusCode) || failed == attempts {
			return resp, nil
		}
		resp.Body.Close()
		if err := c.wait(req.Context(), time.Second<<min(failed, 5)); err != nil {
			return nil, fmt.Errorf("%v: %w", failure(resp), err)
		}
	}
}

// later reports whether a status says that the same request may be answered later.
func later(status int) bool {
	return status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout
}

// failure is the error of a status that is not what was asked for.
func failure(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("%w (status %d): the model may not exist, or need an account: set HF_TOKEN", ErrDenied,
			resp.StatusCode)
	case http.StatusNotFound:
		return fmt.Errorf("%w (status %d)", ErrNotFound, resp.StatusCode)
	}
	err := fmt.Errorf("%w: status %.60q", ErrServer, resp.Status)
	if later(resp.StatusCode) {
		return unreachable{err}
	}
	return err
}

// unreachable is an error that is ErrUnreachable too.
type unreachable struct{ error }

func (e unreachable) Unwrap() []error { return []error{e.error, ErrUnreachable} }

// unreached is the error of a request without an answer. Neither the end of the context nor an answer that the client
// refuses says that the server cannot be reached.
func unreached(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, ErrServer) {
		return err
	}
	return unreachable{err}
}

// list returns the newest commit of a repository and its files.
func (c *Client) list(ctx context.Context, r Reference) (commit string, files []string, err error) {
	reading, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := c.request(reading, http.MethodGet, "api", "models", r.Owner, r.Name, "revision", "main")
	if err != nil {
		return "", nil, err
	}
	resp, err := c.ask(c.client(), req)
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", r.Repo(), err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", nil, fmt.Errorf("%s: %w", r.Repo(), failure(resp))
	}
	body := c.watch(resp.Body, cancel)
	defer body.timer.Stop()
	text, err := io.ReadAll(io.LimitReader(body, listLimit+1))
	if err != nil {
		return "", nil, fmt.Errorf("%s: %w", r.Repo(), unreached(ctx, err))
	}
	var info struct {
		SHA      string `json:"sha"`
		Siblings []struct {
			Name string `json:"rfilename"`
		} `json:"siblings"`
	}
	if len(text) > listLimit || json.Unmarshal(text, &info) != nil || !commitName().MatchString(info.SHA) {
		return "", nil, fmt.Errorf("%s: %w: no list of files", r.Repo(), ErrServer)
	}
	for _, s := range info.Siblings {
		if strings.HasSuffix(strings.ToLower(s.Name), ".gguf") && checkFile(s.Name) == nil {
			files = append(files, s.Name)
		}
	}
	return info.SHA, files, nil
}

// remote is what the server says about a file before it sends it.
type remote struct {
	tag  string // the content's checksum
	size int64
}

// tagName are the checksums that the Hub names a content by: git's name, a SHA-1, of small files, the SHA-256 of
// others.
var tagName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`) })

// describe asks for a file's tag and size. Redirects to another server are not followed: what the endpoint
// says of the content counts.
func (c *Client) describe(ctx context.Context, r Reference, commit, file string) (remote, error) {
	req, err := c.request(ctx, http.MethodHead, r.Owner, r.Name, "resolve", commit, file)
	if err != nil {
		return remote{}, err
	}
	req.Header.Set("Accept-Encoding", "identity") // else the size would be another
	h := c.client()
	follow := h.CheckRedirect
	h.CheckRedirect = func(req *http.Request, via []*http.Request) error {
		if origin(req.URL) != origin(via[0].URL) {
			return http.ErrUseLastResponse
		}
		return follow(req, via)
	}
	resp, err := c.ask(h, req)
	if err != nil {
		return remote{}, err
	}
	resp.Body.Close()
	if resp.StatusCode >= 400 || resp.StatusCode < 200 {
		return remote{}, failure(resp)
	}
	tag := resp.Header.Get("X-Linked-Etag")
	if tag == "" {
		tag = resp.Header.Get("ETag")
	}
	tag = strings.Trim(strings.TrimPrefix(tag, "W/"), `"`)
	if !tagName().MatchString(tag) {
		return remote{}, fmt.Errorf("%w: tag %.60q: not a kind of checksum that is known (SHA-256, git's SHA-1)",
			ErrServer, tag)
	}
	length := resp.Header.Get("X-Linked-Size")
	if length == "" {
		length = resp.Header.Get("Content-Length")
	}
	size, err := strconv.ParseInt(length, 10, 64)
	if err != nil || size <= 0 || size > largest {
		return remote{}, fmt.Errorf("%w: size %.30q", ErrServer, length)
	}
	return remote{tag, size}, nil
}

// incomplete ends the name of a blob that is still being downloaded.
const incomplete = ".incomplete"

// file downloads one file, unless its content is in the cache, and returns its path.
func (c *Client) file(ctx context.Context, r Reference, commit, file string) (string, error) {
	what, err := c.describe(ctx, r, commit, file)
	if err != nil {
		return "", err
	}
	to := c.Cache.snapshot(r, commit, file)
	if info, err := os.Lstat(to); err == nil && info.Mode().IsRegular() && info.Size() == what.size {
		return to, nil // where there are no links the content itself is there
	}
	blobs := filepath.Join(c.Cache.Dir, r.folder(), "blobs")
	if err := os.MkdirAll(blobs, 0o755); err != nil {
		return "", err
	}
	blob := filepath.Join(blobs, what.tag)
	if info, err := os.Stat(blob); err != nil || info.Size() != what.size {
		if err := c.download(ctx, r, commit, file, what, blob); err != nil {
			return "", err
		}
	}
	return c.Cache.install(r, commit, file, what.tag)
}
