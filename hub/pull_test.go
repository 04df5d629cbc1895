package hub

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/specgo/spec/internal/filelock"
)

// The layout is that of Hugging Face's own tools.
func TestLayout(t *testing.T) {
	h, c := newHub(t)
	var last int64
	c.Progress = func(file string, done, total int64) {
		if file != "m-Q4_K_M.gguf" || done <= last || total != 300000 {
			t.Errorf("progress %s %d of %d after %d", file, done, total, last)
		}
		last = done
	}
	paths, err := c.Pull(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	want := h.files["m-Q4_K_M.gguf"]
	check(t, c, paths, want)
	root := filepath.Join(c.Cache.Dir, "models--owner--name")
	if paths[0] != filepath.Join(root, "snapshots", commitA, "m-Q4_K_M.gguf") || last != 300000 {
		t.Errorf("path %s, progress %d", paths[0], last)
	}
	if link, err := os.Readlink(paths[0]); err != nil || filepath.ToSlash(link) != "../../blobs/"+sha(want) {
		t.Errorf("link %s, %v", link, err)
	}
	if ref, err := os.ReadFile(filepath.Join(root, "refs", "main")); err != nil || string(ref) != commitA {
		t.Errorf("refs/main %q, %v", ref, err)
	}
	// What is there is not fetched again, and is found without the network.
	h.requests = nil
	again, err := c.Pull(t.Context(), reference)
	if err != nil || !slices.Equal(again, paths) {
		t.Errorf("%v, %v", again, err)
	}
	for _, r := range h.requests {
		if r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/api/") {
			t.Errorf("%s %s", r.Method, r.URL)
		}
	}
	for file, want := range map[string][]string{"": paths, "q4_k_m": paths, "m-Q4_K_M.gguf": paths, "Q8_0": nil} {
		r := reference
		r.File = file
		if got, err := c.Cache.Find(r); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is found at %v, %v", file, got, err)
		}
	}
	if got, err := (Cache{t.TempDir()}).Find(reference); got != nil || err != nil {
		t.Errorf("in an empty cache: %v, %v", got, err)
	}
}

// A new commit with the same content links to the same blob.
func TestNewCommit(t *testing.T) {
	h, c := newHub(t)
	if _, err := c.Pull(t.Context(), reference); err != nil {
		t.Fatal(err)
	}
	h.commit, h.requests = commitB, nil
	paths, err := c.Pull(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	check(t, c, paths, h.files["m-Q4_K_M.gguf"])
	if blobs, _ := os.ReadDir(filepath.Join(c.Cache.Dir, "models--owner--name", "blobs")); len(blobs) != 1 ||
		!strings.Contains(paths[0], commitB) {
		t.Errorf("%d blobs, path %s", len(blobs), paths[0])
	}
	h.commit, h.files["m-Q4_K_M.gguf"] = commitA, content(9, 5000)
	if paths, err = c.Pull(t.Context(), reference); err != nil {
		t.Fatal(err)
	}
	check(t, c, paths, h.files["m-Q4_K_M.gguf"])
}

// A connection that breaks again and again: every attempt goes on where the last ended.
func TestResume(t *testing.T) {
	h, c := newHub(t)
	h.breaks = 70000
	paths, err := c.Pull(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	check(t, c, paths, h.files["m-Q4_K_M.gguf"])
	var ranges []string
	for _, r := range h.requests {
		if r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/api/") {
			ranges = append(ranges, r.Header.Get("Range"))
		}
	}
	if len(ranges) < 4 || len(ranges) > 8 || ranges[0] != "" || ranges[1] == "" || ranges[1] == ranges[2] {
		t.Errorf("ranges %q", ranges)
	}
}

// What an earlier run left is used if the tag is the same, thrown away if it is damaged or too long, and not
// touched if the tag is another.
func TestResumeLater(t *testing.T) {
	want := content(2, 300000)
	damaged := append(slices.Clone(want[:1000]), 1)
	for name, part := range map[string][]byte{"half": want[:150000], "all": want, "damaged": damaged,
		"too long": append(slices.Clone(want), 1), "empty": {}} {
		h, c := newHub(t)
		blobs := filepath.Join(c.Cache.Dir, "models--owner--name", "blobs")
		if err := os.MkdirAll(blobs, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(blobs, sha(want)+incomplete), part, 0o644); err != nil {
			t.Fatal(err)
		}
		paths, err := c.Pull(t.Context(), reference)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		check(t, c, paths, want)
		if name == "half" {
			if got := h.requests[len(h.requests)-1].Header.Get("Range"); got != "bytes=150000-" {
				t.Errorf("range %q", got)
			}
		}
	}
	_, c := newHub(t)
	blobs := filepath.Join(c.Cache.Dir, "models--owner--name", "blobs")
	os.MkdirAll(blobs, 0o755)
	other := filepath.Join(blobs, sha([]byte("other"))+incomplete)
	os.WriteFile(other, want[:10], 0o644)
	if _, err := c.Pull(t.Context(), reference); err != nil {
		t.Fatal(err)
	}
	if left := leftovers(c); !slices.Equal(left, []string{other}) {
		t.Errorf("left %v", left)
	}
}

// A file is asked for by its own name, whatever characters that has.
func TestNamesWithPercentSigns(t *testing.T) {
	h, c := newHub(t)
	h.files = map[string][]byte{"mA-Q8_0.gguf": content(1, 30), "m%41-Q8_0.gguf": content(2, 30),
		"a b/100%-F16.gguf": content(3, 30), "c#+&~-Q6_K.gguf": content(4, 30)}
	for name, want := range h.files {
		paths, err := c.Pull(t.Context(), Reference{"owner", "name", name})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		check(t, c, paths, want)
	}
}

// A server that does not know ranges starts from the beginning.
func TestNoRanges(t *testing.T) {
	h, c := newHub(t)
	calls := 0
	h.content = func(w http.ResponseWriter, r *http.Request, content []byte) bool {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		if calls++; calls == 1 {
			(&breaking{w, 1000}).Write(content)
		}
		w.Write(content)
		return true
	}
	paths, err := c.Pull(t.Context(), reference)
	if err != nil || calls != 2 {
		t.Fatalf("%d calls, %v", calls, err)
	}
	check(t, c, paths, h.files["m-Q4_K_M.gguf"])
}

// The content may lie on another server, which must not see the token.
func TestRedirect(t *testing.T) {
	h, c := newHub(t)
	cdn := &hub{files: h.files, tag: func([]byte) string { return "another-tag" }, size: h.size}
	s := httptest.NewServer(cdn)
	defer s.Close()
	h.redirect = strings.Replace(s.URL, "127.0.0.1", "localhost", 1) // another host name
	paths, err := c.Pull(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	check(t, c, paths, h.files["m-Q4_K_M.gguf"])
	if len(cdn.requests) != 1 {
		t.Errorf("%d requests to the second server", len(cdn.requests))
	}
	for _, r := range cdn.requests {
		if r.Header.Get("Authorization") != "" {
			t.Error("the token went to another server")
		}
	}
	for _, r := range h.requests {
		if r.Header.Get("Authorization") != "Bearer secret" {
			t.Errorf("%s %s without the token", r.Method, r.URL)
		}
	}
	// From https to http is refused.
	secure := httptest.NewTLSServer(h)
	defer secure.Close()
	c.Endpoint, c.HTTP, c.Cache = secure.URL, secure.Client(), Cache{t.TempDir()}
	cdn.requests = nil
	if _, err := c.Pull(t.Context(), reference); err == nil || !strings.Contains(err.Error(), "https to http") ||
		len(cdn.requests) > 0 {
		t.Errorf("%v, %d requests", err, len(cdn.requests))
	}
	// In circles, too.
	h.redirect = ""
	h.content = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
		http.Redirect(w, r, r.URL.Path, http.StatusFound)
		return true
	}
	if _, err := c.Pull(t.Context(), reference); err == nil || !strings.Contains(err.Error(), "too many redirects") {
		t.Errorf("%v", err)
	}
}

// Answers that must not be used: nothing appears in the cache, and nothing outside of it.
func TestLies(t *testing.T) {
	send := func(header func(http.Header), status int, body []byte) func(http.ResponseWriter, *http.Request,
		[]byte) bool {
		return func(w http.ResponseWriter, r *http.Request, content []byte) bool {
			header(w.Header())
			w.WriteHeader(status)
			w.Write(body)
			return true
		}
	}
	none := func(http.Header) {}
	chunked := func(h http.Header) { h.Set("Transfer-Encoding", "chunked") }
	for name, c := range map[string]struct {
		lie  func(h *hub)
		want error
	}{
		"other content": {func(h *hub) { h.tag = func([]byte) string { return sha([]byte("other")) } },
			ErrChecksum},
		"tag is a path": {func(h *hub) { h.tag = func([]byte) string { return "../../../../evil" } }, ErrServer},
		"tag is empty":  {func(h *hub) { h.tag = func([]byte) string { return "" } }, ErrServer},
		"tag is endless": {func(h *hub) { h.tag = func([]byte) string { return strings.Repeat("a", 200) } },
			ErrServer},
		"size is none":     {func(h *hub) { h.size = func([]byte) string { return "x" } }, ErrServer},
		"size is negative": {func(h *hub) { h.size = func([]byte) string { return "-5" } }, ErrServer},
		"size is zero":     {func(h *hub) { h.size = func([]byte) string { return "0" } }, ErrServer},
		"size is endless": {func(h *hub) { h.size = func([]byte) string { return "9223372036854775807" } },
			ErrServer},
		"size is too small": {func(h *hub) { h.size = func(b []byte) string { return strconv.Itoa(len(b) - 1) } },
			ErrServer},
		"size is too large": {func(h *hub) { h.size = func(b []byte) string { return strconv.Itoa(len(b) + 1) } },
			ErrServer},
		"sends more":          {func(h *hub) { h.content = send(chunked, 200, content(2, 300001)) }, ErrServer},
		"sends without end":   {func(h *hub) { h.content = send(chunked, 200, make([]byte, 1<<22)) }, ErrServer},
		"sends an error page": {func(h *hub) { h.content = send(none, 418, []byte("<html>")) }, ErrServer},
		"wrong range": {func(h *hub) {
			h.breaks = 1000
			h.content = func(w http.ResponseWriter, r *http.Request, content []byte) bool {
				if r.Header.Get("Range") == "" {
					return false
				}
				w.Header().Set("Content-Range", "bytes 999-299999/300000")
				w.WriteHeader(http.StatusPartialContent)
				w.Write(content[1000:])
				return true
			}
		}, ErrServer},
		"list is no JSON": {func(h *hub) { h.list = "<html>" }, ErrServer},
		"commit is a path": {func(h *hub) { h.list = `{"sha":"../../..","siblings":[{"rfilename":"m.gguf"}]}` },
			ErrServer},
		"list without models": {func(h *hub) {
			h.list = `{"sha":"` + commitA +
				`","siblings":[{"rfilename":"README.md"}]}`
		}, ErrNoFile},
		"names that lead out": {func(h *hub) {
			h.list = `{"sha":"` + commitA +
				`","siblings":[{"rfilename":"../../../evil.gguf"},{"rfilename":"/evil.gguf"},{"rfilename":".hidden/a.gguf"},` +
				`{"rfilename":"a\\..\\b.gguf"},{"rfilename":"a/./b.gguf"},{"rfilename":"C:b.gguf"},{"rfilename":"a\n.gguf"}]}`
		}, ErrNoFile},
		"a list without end": {func(h *hub) { h.list = strings.Repeat(" ", listLimit+1) }, ErrServer},
		"a file that is a dir": {func(h *hub) {
			h.list = `{"sha":"` + commitA +
				`","siblings":[{"rfilename":"x/m.gguf"}]}`
		}, nil},
	} {
		h, client := newHub(t)
		above := client.Cache.Dir
		client.Cache.Dir = filepath.Join(above, "a", "b", "cache")
		c.lie(h)
		paths, err := client.Pull(t.Context(), reference)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || len(paths) > 0 {
			t.Errorf("%s: %v, %v", name, paths, err)
		}
		if name == "size is too large" && !strings.Contains(err.Error(), "announced") {
			t.Errorf("%s: %v", name, err)
		}
		if list, _ := client.Cache.List(); len(list) > 0 {
			t.Errorf("%s: %v is in the cache", name, list)
		}
		filepath.WalkDir(above, func(p string, d fs.DirEntry, err error) error {
			if !d.IsDir() && !strings.HasPrefix(p, filepath.Join(client.Cache.Dir, "models--owner--name")) {
				t.Errorf("%s: %s was written", name, p)
			}
			return nil
		})
	}
}

// Errors of a server are tried again, those of the request are not.
func TestStatus(t *testing.T) {
	for status, want := range map[int]struct {
		calls int
		says  string
		is    error
	}{503: {attempts, "503", ErrUnreachable}, 429: {attempts, "429", ErrUnreachable}, 403: {1, "HF_TOKEN", ErrDenied},
		404: {1, "not found", ErrNotFound}, 416: {1, "416", ErrServer}} {
		h, c := newHub(t)
		calls := 0
		h.content = func(w http.ResponseWriter, r *http.Request, _ []byte) bool {
			calls++
			w.WriteHeader(status)
			return true
		}
		_, err := c.Pull(t.Context(), reference)
		if calls != want.calls || !errors.Is(err, want.is) || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%d: %d calls, %v", status, calls, err)
		}
		if errors.Is(err, ErrUnreachable) != (want.is == ErrUnreachable) {
			t.Errorf("%d: %v", status, err)
		}
	}
	_, c := newHub(t)
	if _, err := c.Pull(t.Context(), Reference{Owner: "nobody", Name: "nothing"}); !errors.Is(err, ErrNotFound) ||
		!strings.Contains(err.Error(), "nobody/nothing: not found") {
		t.Errorf("%v", err)
	}
	refused := roundTrip(func(*http.Request) (*http.Response, error) { return nil, errors.New("no route") })
	c.HTTP = &http.Client{Transport: refused}
	if _, err := c.Pull(t.Context(), reference); !errors.Is(err, ErrUnreachable) ||
		!strings.Contains(err.Error(), "no route") {
		t.Errorf("%v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Pull(ended, reference); errors.Is(err, ErrUnreachable) || err == nil {
		t.Errorf("the context has ended: %v", err)
	}
	c.HTTP = nil
	c.Endpoint = "ftp://x"
	if _, err := c.Pull(t.Context(), reference); err == nil || !strings.Contains(err.Error(), "endpoint") {
		t.Errorf("%v", err)
	}
}

// A server that says nothing more is given up, and so is a download when the context ends.
func TestStall(t *testing.T) {
	h, c := newHub(t)
	c.Stall = 20 * time.Millisecond
	calls := 0
	h.content = func(w http.ResponseWriter, r *http.Request, content []byte) bool {
		calls++
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		w.Write(content[:100])
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	}
	if _, err := c.Pull(t.Context(), reference); !errors.Is(err, ErrUnreachable) || errors.Is(err, context.Canceled) ||
		!strings.Contains(err.Error(), "after 5 attempts, ") || !strings.Contains(err.Error(), ": no byte came for 20ms") {
		t.Errorf("%v after %d calls", err, calls)
	}
	c.Stall = 0
	ctx, cancel := context.WithCancel(t.Context())
	c.Progress = func(string, int64, int64) { cancel() }
	if _, err := c.Pull(ctx, reference); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if left := leftovers(c); len(left) != 1 {
		t.Errorf("the part that came is not kept: %v", left)
	}
}

// A whole download is kept where the context ends while its checksum is computed.
func TestVerifyingEndsWithTheContext(t *testing.T) {
	part, err := os.Create(filepath.Join(t.TempDir(), "part"))
	if err != nil {
		t.Fatal(err)
	}
	defer part.Close()
	all := content(2, 1000)
	if _, err := part.Write(all); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := verify(ctx, part, remote{sha(all), 1000}); err != nil {
		t.Error(err)
	}
	if cancel(); !errors.Is(verify(ctx, part, remote{sha(all), 1000}), context.Canceled) {
		t.Error("it goes on")
	}
}

// Who has waited for the mark of a download that another program has finished meanwhile takes what is there.
func TestWhatAnotherProgramHasFinishedIsTaken(t *testing.T) {
	h, c := newHub(t)
	all := h.files["m-Q4_K_M.gguf"]
	blob := filepath.Join(c.Cache.Dir, sha(all))
	if err := os.WriteFile(blob, all, 0o600); err != nil {
		t.Fatal(err)
	}
	err := c.download(t.Context(), reference, commitA, "m-Q4_K_M.gguf", remote{sha(all), int64(len(all))}, blob)
	if list, _ := os.ReadDir(c.Cache.Dir); err != nil || len(h.requests) > 0 || len(list) != 1 {
		t.Errorf("%v, %d requests, %v", err, len(h.requests), list)
	}
}

// Small files are named by git: the SHA-1 of a header and the content.
func TestGitTag(t *testing.T) {
	h, c := newHub(t)
	git := func(b []byte) string {
		s := sha1.New()
		fmt.Fprintf(s, "blob %d\x00", len(b))
		s.Write(b)
		return hex.EncodeToString(s.Sum(nil))
	}
	h.tag = git
	paths, err := c.Pull(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	check(t, c, paths, h.files["m-Q4_K_M.gguf"])
	h.tag, c.Cache = func(b []byte) string { return git(b[1:]) }, Cache{t.TempDir()}
	if _, err := c.Pull(t.Context(), reference); !errors.Is(err, ErrChecksum) {
		t.Errorf("%v", err)
	}
}

// A tag of another kind is refused before anything is downloaded: what it names could not be checked.
func TestUnknownChecksums(t *testing.T) {
	good := strings.Repeat("0123456789abcdef", 8)
	for _, tag := range []string{
		"some-other-tag_1", good[:32], good[:39], good[:41], good[:63], good[:65], good[:96], good[:128],
		strings.ToUpper(good[:64]), good[:63] + "g", "sha256-" + good[:64],
	} {
		h, c := newHub(t)
		h.tag = func([]byte) string { return tag }
		_, err := c.Pull(t.Context(), reference)
		if !errors.Is(err, ErrServer) || !strings.Contains(err.Error(), "checksum") ||
			!strings.Contains(err.Error(), tag[:16]) {
			t.Errorf("%s: %v", tag, err)
		}
		for _, r := range h.requests {
			if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/resolve/") {
				t.Errorf("%s: the file was asked for", tag)
			}
		}
	}
}

// The token goes to the endpoint's scheme, host and port alone: not to another port or name of the same machine, not
// to a subdomain, not to https of an http endpoint, and not back to the endpoint by way of one of them.
func TestTheTokenStaysWithTheEndpoint(t *testing.T) {
	const path = "/owner/name/resolve/" + commitA + "/m-Q4_K_M.gguf"
	for name, chain := range map[string][]struct {
		origin string
		token  bool
	}{
		"no redirect": {{"https://hub.test", true}},
		"the endpoint itself": {{"https://hub.test", true}, {"https://hub.test:443", true},
			{"https://hub.test", true}},
		"another port":     {{"https://hub.test", true}, {"https://hub.test:444", false}},
		"a subdomain":      {{"https://hub.test", true}, {"https://cdn.hub.test", false}},
		"another host":     {{"https://hub.test", true}, {"https://other.test", false}},
		"localhost":        {{"http://127.0.0.1:80", true}, {"http://localhost", false}},
		"http to https":    {{"http://hub.test", true}, {"https://hub.test", false}},
		"https on port 80": {{"http://hub.test", true}, {"https://hub.test:80", false}},
		"back to the endpoint": {{"https://hub.test:8443", true}, {"https://hub.test", false},
			{"https://hub.test:8443", false}},
	} {
		h := &hub{commit: commitA, tag: sha, size: func(b []byte) string { return strconv.Itoa(len(b)) }}
		h.files = map[string][]byte{"m-Q4_K_M.gguf": content(2, 1000)}
		at := 0 // of the chain: redirects followed
		c := &Client{Cache: Cache{t.TempDir()}, Endpoint: chain[0].origin, Token: "secret"}
		c.HTTP = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			if want := at == 0 || chain[at].token; (r.Header.Get("Authorization") == "Bearer secret") != want {
				t.Errorf("%s: %s %s: token %q", name, r.Method, r.URL, r.Header.Get("Authorization"))
			}
			if at+1 < len(chain) && r.URL.Path == path && r.Method == http.MethodGet {
				at++
				http.Redirect(w, r, chain[at].origin+path, http.StatusFound)
			} else {
				h.ServeHTTP(w, r)
			}
			return w.Result(), nil
		})}
		if _, err := c.Pull(t.Context(), reference); err != nil || at != len(chain)-1 {
			t.Errorf("%s: %d redirects, %v", name, at, err)
		}
	}
}

type roundTrip func(r *http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A download that takes long but goes on is one request; one that stands still for the time of Stall is asked for
// again.
func TestStallIsATimeWithoutBytes(t *testing.T) {
	for gap, want := range map[time.Duration]int{59 * time.Second: 1, 61 * time.Second: 5} {
		synctest.Test(t, func(t *testing.T) {
			h := &hub{commit: commitA, tag: sha, size: func(b []byte) string { return strconv.Itoa(len(b)) }}
			h.files = map[string][]byte{"m-Q4_K_M.gguf": content(2, 1000)}
			gets := 0
			c := &Client{Cache: Cache{t.TempDir()}, Endpoint: "http://hub.test"}
			c.Wait = func(context.Context, time.Duration) error { return nil }
			c.HTTP = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				w := httptest.NewRecorder()
				h.ServeHTTP(w, r)
				answer := w.Result()
				if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "resolve") {
					gets++
					answer.Body = &steady{ctx: r.Context(), from: answer.Body, gap: gap}
				}
				return answer, nil
			})}
			if paths, err := c.Pull(t.Context(), reference); err != nil {
				t.Errorf("%v: %v", gap, err)
			} else {
				check(t, c, paths, h.files["m-Q4_K_M.gguf"])
			}
			if gets != want {
				t.Errorf("%v between bytes: %d requests, want %d", gap, gets, want)
			}
		})
	}
}

// steady gives 200 bytes, the first at once, more after each gap.
type steady struct {
	ctx   context.Context
	from  io.ReadCloser
	gap   time.Duration
	begun bool
}

func (s *steady) Read(b []byte) (int, error) {
	if s.begun {
		select {
		case <-time.After(s.gap):
		case <-s.ctx.Done():
			return 0, s.ctx.Err()
		}
	}
	s.begun = true
	return s.from.Read(b[:min(len(b), 200)])
}

func (s *steady) Close() error { return s.from.Close() }

func TestChoose(t *testing.T) {
	files := []string{"README.md", "m-F16.gguf", "m-Q8_0.gguf", "m.Q4_K_M.gguf", "sub/m-Q4_K_M.gguf", "m-IQ4_XS.gguf",
		"mmproj-m-F16.gguf", "imatrix.gguf",
		"big-Q6_K-00001-of-00002.gguf", "big-Q6_K-00002-of-00002.gguf", "torn-Q2_K-00001-of-00002.gguf"}
	for want, expected := range map[string][]string{
		"":                  {"m.Q4_K_M.gguf"},
		"q4_k_m":            {"m.Q4_K_M.gguf"},
		"F16":               {"m-F16.gguf"},
		"Q6_K":              {"big-Q6_K-00001-of-00002.gguf", "big-Q6_K-00002-of-00002.gguf"},
		"m-iq4_xs.GGUF":     {"m-IQ4_XS.gguf"},
		"sub/m-Q4_K_M.gguf": {"sub/m-Q4_K_M.gguf"},
		"mmproj-M-F16.gguf": {"mmproj-m-F16.gguf"},
		"imatrix.gguf":      {"imatrix.gguf"},
	} {
		if got, err := choose(files, want); err != nil || !slices.Equal(got, expected) {
			t.Errorf("%q: %v, %v", want, got, err)
		}
	}
	for _, want := range []string{"Q4_K", "Q4", "Q2_K", "K_M", "README.md", "mmproj-m-F16", "mmproj"} {
		if got, err := choose(files, want); !errors.Is(err, ErrNoFile) {
			t.Errorf("%q: %v, %v", want, got, err)
		}
	}
	for _, c := range [][2]string{{"m-F16.gguf,m-Q8_0.gguf", "m-Q8_0.gguf"}, {"b.gguf,a.gguf", "a.gguf"},
		{"x-Q5_K_S.gguf,x-Q6_K.gguf", "x-Q5_K_S.gguf"},
		{"m-UD-IQ1_M.gguf,m-UD-Q2_K_XL.gguf,m-UD-Q4_K_XL.gguf", "m-UD-Q4_K_XL.gguf"},
		{"m_v2_F16.gguf,m_v2_Q8_0.gguf,m_v2_Q4_K_M.gguf,m_v2_Q4_K_S.gguf", "m_v2_Q4_K_M.gguf"},
		{"m-IQ1_S.gguf,m-IQ3_XXS.gguf,m-IQ2_M.gguf", "m-IQ3_XXS.gguf"}, {"m-IQ1_S.gguf,m-BF16.gguf", "m-BF16.gguf"}} {
		if got, err := choose(strings.Split(c[0], ","), ""); err != nil || got[0] != c[1] {
			t.Errorf("of %s: %v, %v", c[0], got, err)
		}
	}
}

// In names with underscores a quantization is found whole: no part of one is.
func TestQuantizationsBehindUnderscores(t *testing.T) {
	files := []string{"m_F16.gguf", "m_K_Q8_0.gguf", "m_UD_IQ4_XS.gguf", "m_Q4_K_M-00001-of-00001.gguf",
		"M_BF16_Q3_K.gguf"}
	for want, expected := range map[string]string{"F16": files[0], "q8_0": files[1], "iq4_xs": files[2],
		"Q4_K_M": files[3], "Q3_K": files[4], "Q4_K": "", "K_M": "", "M": "", "Q4": "", "XS": "", "8_0": "", "BF16": "",
		"K": ""} {
		if got, err := choose(files, want); err == nil && got[0] != expected || err != nil && expected != "" {
			t.Errorf("%s: %v, %v", want, got, err)
		}
	}
	if _, err := choose([]string{"mmproj-F16.gguf"}, ""); !errors.Is(err, ErrNoFile) {
		t.Errorf("a projector alone: %v", err)
	}
}

// A model's quantization is not that of the projector beside it, which is removed by its name.
func TestRemoveLeavesProjectors(t *testing.T) {
	h, c := newHub(t)
	h.files = map[string][]byte{"m-F16.gguf": content(2, 300), "mmproj-F16.gguf": content(3, 5)}
	for _, file := range []string{"F16", "mmproj-F16.gguf"} {
		if _, err := c.Pull(t.Context(), Reference{"owner", "name", file}); err != nil {
			t.Fatal(err)
		}
	}
	for _, x := range [][2]string{{"F16", "m-F16.gguf"}, {"mmproj-F16.gguf", "mmproj-F16.gguf"}} {
		removed, err := c.Cache.Remove(Reference{"owner", "name", x[0]})
		if err != nil || len(removed) != 1 || removed[0].File != x[1] {
			t.Errorf("%s: removed %+v, %v", x[0], removed, err)
		}
	}
}

func TestParseReference(t *testing.T) {
	for s, want := range map[string]Reference{
		"a/b": {"a", "b", ""}, "TheOrg/Some-Model_1.1B-GGUF:Q4_K_M": {"TheOrg", "Some-Model_1.1B-GGUF", "Q4_K_M"},
		"a/b:c/d.gguf": {"a", "b", "c/d.gguf"},
	} {
		if got, err := ParseReference(s); err != nil || got != want || got.String() != s {
			t.Errorf("%s: %+v, %v", s, got, err)
		}
	}
	for _, s := range []string{"", "a", "a/", "/b", "a/b/c", "../b", "a/..", "a/b:", "a/b:../c", "a/b:/c", "a--b/c",
		"a/b c", "a/-b", ".a/b", "a/b\n", "a/b:c\x00", "a/" + strings.Repeat("b", 200), "https://x/y"} {
		if got, err := ParseReference(s); !errors.Is(err, ErrReference) {
			t.Errorf("%q: %+v, %v", s, got, err)
		}
	}
}

// A URL of a page, a file or a download is the model; others are none, or an error.
func TestCutURL(t *testing.T) {
	plain, file := Reference{"Own", "Name-GGUF", ""}, Reference{"Own", "Name-GGUF", "dir/a b.gguf"}
	for s, want := range map[string]Reference{
		"https://huggingface.co/Own/Name-GGUF":                                           plain,
		"https://huggingface.co/Own/Name-GGUF/":                                          plain,
		"https://huggingface.co/Own/Name-GGUF/tree/main":                                 plain,
		"https://hf.co/Own/Name-GGUF?library=x":                                          plain,
		"hf.co/Own/Name-GGUF:Q8_0":                                                       {"Own", "Name-GGUF", "Q8_0"},
		"huggingface.co/Own/Name-GGUF#card":                                              plain,
		"http://hub.local:80/Own/Name-GGUF":                                              plain,
		"https://huggingface.co/Own/Name-GGUF/blob/main/dir/a%20b.gguf":                  file,
		"https://huggingface.co/Own/Name-GGUF/resolve/main/dir/a%20b.gguf?download=true": file,
	} {
		if r, ok, err := CutURL(s, "http://hub.local:80"); err != nil || !ok || r != want {
			t.Errorf("%s: %+v, %v, %v", s, r, ok, err)
		}
	}
	for _, s := range []string{"Own/Name", "/home/x.gguf", "https://example.com/Own/Name", "http://hub.local/Own/Name",
		""} {
		if r, ok, err := CutURL(s, ""); ok || err != nil {
			t.Errorf("%s: %+v, %v, %v", s, r, ok, err)
		}
	}
	for _, s := range []string{
		"https://huggingface.co/", "https://huggingface.co/Own", "hf.co/Own/Name/blob/main", "hf.co/Own/Name/discussions",
		"hf.co/Own/Name/blob/other/a.gguf", "hf.co/Own/Name/tree/dev", "hf.co/Own/Name/blob/main/../a.gguf",
		"hf.co/Own/Name/blob/main/%zz", "hf.co/-/Name",
	} {
		if r, ok, err := CutURL(s, ""); !ok || !errors.Is(err, ErrReference) {
			t.Errorf("%s: %+v, %v, %v", s, r, ok, err)
		}
	}
}

// What a download would take is known without it: all parts of a split model.
func TestSize(t *testing.T) {
	h, c := newHub(t)
	h.files = map[string][]byte{"a-Q8_0.gguf": content(1, 100), "b-F16-00001-of-00002.gguf": content(2, 300),
		"b-F16-00002-of-00002.gguf": content(3, 5)}
	for file, want := range map[string]int64{"Q8_0": 100, "F16": 305} {
		if n, err := c.Size(t.Context(), Reference{"owner", "name", file}); n != want || err != nil {
			t.Errorf("%s: %d, %v", file, n, err)
		}
	}
	if _, err := c.Size(t.Context(), Reference{"owner", "name", "Q4_0"}); !errors.Is(err, ErrNoFile) {
		t.Error(err)
	}
	for _, r := range h.requests {
		if r.Method == http.MethodGet && !strings.HasPrefix(r.URL.Path, "/api/") {
			t.Errorf("a download: %s", r.URL)
		}
	}
}

func FuzzReference(f *testing.F) {
	f.Add("a/b:c", "x/../y.gguf")
	f.Fuzz(func(t *testing.T, s, file string) {
		if r, err := ParseReference(s); err == nil && (!filepath.IsLocal(r.folder()) ||
			strings.ContainsAny(r.folder(), `/\`)) {
			t.Errorf("%q leads to %q", s, r.folder())
		}
		if checkFile(file) == nil && (!filepath.IsLocal(filepath.FromSlash(file)) ||
			strings.ContainsAny(file, "\\\n\x00:")) {
			t.Errorf("%q is taken", file)
		}
	})
}

// Blobs go when the last snapshot that links to them goes; other files of the repository stay.
func TestRemove(t *testing.T) {
	h, c := newHub(t)
	q8 := Reference{"owner", "name", "Q8_0"}
	for _, r := range []Reference{reference, q8} {
		if _, err := c.Pull(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	h.commit = commitB
	if _, err := c.Pull(t.Context(), q8); err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(c.Cache.Dir, "models--owner--name")
	count := func(folder string) int {
		list, _ := os.ReadDir(filepath.Join(root, folder))
		return len(list)
	}
	list, err := c.Cache.List()
	if err != nil || len(list) != 3 || count("blobs") != 2 || list[0].Repo != "owner/name" || list[0].Bytes == 0 {
		t.Fatalf("%+v, %v, %d blobs", list, err, count("blobs"))
	}
	if removed, err := c.Cache.Remove(Reference{"owner", "name", "Q2_K"}); err != nil || len(removed) != 0 ||
		count("blobs") != 2 {
		t.Errorf("%v, %v", removed, err)
	}
	if removed, err := c.Cache.Remove(Reference{"owner", "name", "q4_k_m"}); err != nil || len(removed) != 1 ||
		count("blobs") != 1 || count("snapshots") != 2 {
		t.Errorf("%v, %v, %d blobs, %d snapshots", removed, err, count("blobs"), count("snapshots"))
	}
	// Another tool's file, and a blob that a snapshot that is left still links to.
	config := filepath.Join(root, "snapshots", commitB, "config.json")
	if err := os.WriteFile(config, []byte("{}"), 0o644); err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(root, "snapshots", commitA, "m-Q8_0.gguf"))
	if _, err := sweep(root); err != nil || count("blobs") != 1 {
		t.Errorf("%v, %d blobs: one of them is still linked to", err, count("blobs"))
	}
	if removed, err := c.Cache.Remove(reference); err != nil || len(removed) != 1 || count("blobs") != 0 {
		t.Errorf("%v, %v, %d blobs", removed, err, count("blobs"))
	}
	if _, err := os.Stat(config); err != nil {
		t.Error("a file that is none of ours was removed")
	}
	os.Remove(config)
	if _, err := sweep(root); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(root); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty folder is left: %v", err)
	}
	if list, err := (Cache{filepath.Join(c.Cache.Dir, "none")}).List(); err != nil || list != nil {
		t.Errorf("%v, %v", list, err)
	}
}

// Removing a repository's last model leaves the download that another program is at; one that nobody is at goes.
func TestRemoveLeavesRunningDownloads(t *testing.T) {
	if !filelock.Works {
		t.Skip("files cannot be locked here")
	}
	_, c := newHub(t)
	part := filepath.Join(c.Cache.Dir, "models--owner--name", "blobs", strings.Repeat("a", 64)+incomplete)
	for _, running := range []bool{true, false} {
		if _, err := c.Pull(t.Context(), reference); err != nil {
			t.Fatal(err)
		}
		f, err := os.Create(part)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		unlock := func() {}
		if running {
			if unlock, err = filelock.Lock(f); err != nil {
				t.Fatal(err)
			}
		}
		want := 2
		if running {
			want = 1
		}
		if removed, err := c.Cache.Remove(reference); err != nil || len(removed) != want {
			t.Errorf("%v, %v", removed, err)
		}
		if _, err := os.Stat(part); (err == nil) != running {
			t.Errorf("a download that runs, %t: %v", running, err)
		}
		unlock()
	}
}

// A download that was given up before anything of its repository was there can be removed, by the repository's name.
func TestRemoveWhatWasGivenUp(t *testing.T) {
	h, c := newHub(t)
	h.content = func(w http.ResponseWriter, r *http.Request, content []byte) bool {
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		(&breaking{w, 1000}).Write(content)
		return true
	}
	if _, err := c.Pull(t.Context(), reference); err == nil || len(leftovers(c)) != 1 {
		t.Fatalf("%v, left: %v", err, leftovers(c))
	}
	for file, want := range map[string]int{"Q4_K_M": 0, "": 1} {
		removed, err := c.Cache.Remove(Reference{"owner", "name", file})
		if err != nil || len(removed) != want || want > 0 && removed[0].Repo != "owner/name" {
			t.Errorf("%q: %+v, %v", file, removed, err)
		}
	}
	if list, err := os.ReadDir(c.Cache.Dir); err != nil || len(list) > 0 {
		t.Errorf("left: %v, %v", list, err)
	}
	if removed, err := c.Cache.Remove(reference); err != nil || len(removed) > 0 {
		t.Errorf("of nothing: %v, %v", removed, err)
	}
}

// A link that another program makes at the same moment is as good as our own: the blob stays where other commits link
// to it. Where there are no links the blob is moved.
func TestLinksOfTwoPrograms(t *testing.T) {
	dir := t.TempDir()
	blob, to := filepath.Join(dir, "blob"), filepath.Join(dir, "m.gguf")
	if err := os.WriteFile(blob, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("blob", filepath.Join(dir, "try")); err != nil {
		t.Skip(err)
	}
	err := place(blob, "blob", to, func(link, name string) error {
		return errors.Join(os.Symlink(link, name), os.Symlink(link, name))
	})
	if info, e := os.Lstat(to); err != nil || e != nil || info.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("%v, %v, %v", info, e, err)
	}
	if _, err := os.Stat(blob); err != nil {
		t.Error(err)
	}
	os.Remove(to)
	if err := place(blob, "blob", to, func(string, string) error { return errors.ErrUnsupported }); err != nil {
		t.Error(err)
	}
	if data, err := os.ReadFile(to); err != nil || string(data) != "content" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestDefaultCache(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		want string
	}{
		{map[string]string{"HF_HUB_CACHE": "/a", "HF_HOME": "/b"}, "/a"},
		{map[string]string{"HF_HOME": "/b", "XDG_CACHE_HOME": "/c"}, filepath.Join("/b", "hub")},
		{map[string]string{"XDG_CACHE_HOME": "/c"}, filepath.Join("/c", "huggingface", "hub")},
	} {
		if got, err := DefaultCache(func(k string) string { return c.env[k] }); err != nil || got.Dir != c.want {
			t.Errorf("%v: %v, %v", c.env, got, err)
		}
	}
}

// Find takes what the cache has, and downloads the rest only where it may.
func TestFindDownloadsOnlyWhenTold(t *testing.T) {
	h, c := newHub(t)
	asked := func() int {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.requests)
	}
	if paths, err := c.Find(t.Context(), reference); !errors.Is(err, ErrNotCached) || paths != nil || asked() != 0 {
		t.Fatalf("%q, %v, %d requests", paths, err, asked())
	}
	c.Download = true
	want, err := c.Find(t.Context(), reference)
	if err != nil || asked() == 0 {
		t.Fatalf("%v, %d requests", err, asked())
	}
	before := asked()
	c.Download = false
	if got, err := c.Find(t.Context(), reference); err != nil || !slices.Equal(got, want) || asked() != before {
		t.Errorf("%q, %v, %d requests more", got, err, asked()-before)
	}
}

// A token with the end of a line, as it comes from a file or a Secret, is the token without.
func TestTokenWithALineEnd(t *testing.T) {
	h, c := newHub(t)
	c.Token = "secret\r\n"
	if _, err := c.Pull(t.Context(), reference); err != nil {
		t.Fatal(err)
	}
	if got := h.requests[0].Header.Get("Authorization"); got != "Bearer secret" {
		t.Errorf("%q", got)
	}
}

// Where there are no links, and the cache has the content itself under the file's name, it is not fetched again: nor
// are the first parts of a split model whose download goes on.
func TestWhatWasMovedIsNotFetchedAgain(t *testing.T) {
	h, c := newHub(t)
	paths, err := c.Pull(t.Context(), reference)
	if err != nil {
		t.Fatal(err)
	}
	blob, err := filepath.EvalSymlinks(paths[0])
	if err == nil {
		err = os.Remove(paths[0])
	}
	if err == nil {
		err = os.Rename(blob, paths[0])
	}
	if err != nil {
		t.Fatal(err)
	}
	h.requests = nil
	again, err := c.Pull(t.Context(), reference)
	if err != nil || !slices.Equal(again, paths) {
		t.Fatalf("%q, %v", again, err)
	}
	check(t, c, again, h.files["m-Q4_K_M.gguf"])
	for _, r := range h.requests {
		if r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/resolve/") {
			t.Error("the file was fetched")
		}
	}
}

// The name of a part of a split model stands for all of it, where it is removed as where it is pulled.
func TestRemoveTakesAllParts(t *testing.T) {
	h, c := newHub(t)
	h.files = map[string][]byte{"b-F16-00001-of-00002.gguf": content(2, 300), "b-F16-00002-of-00002.gguf": content(3, 5),
		"b-F32-00001-of-00002.gguf": content(4, 9), "b-F32-00002-of-00002.gguf": content(5, 9)}
	for _, file := range []string{"F16", "F32"} {
		if _, err := c.Pull(t.Context(), Reference{"owner", "name", file}); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := c.Cache.Remove(Reference{"owner", "name", "b-F16-00001-of-00002.gguf"})
	left, e := c.Cache.List()
	if err != nil || e != nil || len(removed) != 2 || len(left) != 2 || !strings.HasPrefix(left[0].File, "b-F32") {
		t.Errorf("removed %+v, %v; left %+v, %v", removed, err, left, e)
	}
}

// What cannot be deleted keeps nothing else from being so, and what was removed is told beside the error.
func TestRemoveGoesOn(t *testing.T) {
	h, c := newHub(t)
	h.files = map[string][]byte{"a/m-F16.gguf": content(2, 300), "b/m-F32.gguf": content(3, 5)}
	for _, file := range []string{"F16", "F32"} {
		if _, err := c.Pull(t.Context(), Reference{"owner", "name", file}); err != nil {
			t.Fatal(err)
		}
	}
	root := filepath.Join(c.Cache.Dir, "models--owner--name")
	locked := filepath.Join(root, "snapshots", commitA, "a")
	if err := os.Chmod(locked, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Chmod(locked, 0o755) })
	if f, err := os.Create(filepath.Join(locked, "probe")); err == nil {
		f.Close()
		t.Skip("this user may write where nobody may")
	}
	removed, err := c.Cache.Remove(Reference{"owner", "name", ""})
	blobs, _ := os.ReadDir(filepath.Join(root, "blobs"))
	if !errors.Is(err, fs.ErrPermission) || len(removed) != 1 || removed[0].File != "b/m-F32.gguf" || len(blobs) != 1 {
		t.Errorf("removed %+v, %v; %d blobs are left", removed, err, len(blobs))
	}
}

// Models of one repository may be pulled at once, also by processes with the same number in containers of their own.
func TestPullsAtOnceSayWhichCommitIsMain(t *testing.T) {
	c := Cache{t.TempDir()}
	failed := make(chan error, 2)
	for range cap(failed) {
		go func() {
			var err error
			for range 40 {
				err = errors.Join(err, c.setMain(reference, commitA))
			}
			failed <- err
		}()
	}
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}

// A program may have put a transport of another kind, as one that traces requests, in the place of net/http's.
func TestDefaultTransportOfAnotherKind(t *testing.T) {
	_, c := newHub(t)
	before, asked := http.DefaultTransport, 0
	defer func() { http.DefaultTransport = before }()
	http.DefaultTransport = roundTrip(func(r *http.Request) (*http.Response, error) {
		asked++
		return before.RoundTrip(r)
	})
	if _, err := c.Pull(t.Context(), reference); err != nil || asked == 0 {
		t.Errorf("%d requests, %v", asked, err)
	}
}

// A Hub that cannot say now which files there are, or what they are, is asked again, as it is for the files.
func TestAnswersThatComeLater(t *testing.T) {
	const list, file = "/api/models/owner/name/revision/main", "/owner/name/resolve/" + commitA + "/m-Q4_K_M.gguf"
	for status, want := range map[int]struct {
		calls int
		says  string
	}{503: {attempts, "503"}, 429: {attempts, "429"}, 404: {1, "not found"}} {
		for _, path := range []string{list, file} {
			for _, fails := range []int{attempts, attempts - 1} {
				h, c := newHub(t)
				calls := 0
				c.HTTP = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
					if r.URL.Path == path && (path == list || r.Method == http.MethodHead) {
						if calls++; calls <= fails {
							return &http.Response{StatusCode: status, Status: strconv.Itoa(status), Header: http.Header{},
								Body: http.NoBody, Request: r}, nil
						}
					}
					return http.DefaultTransport.RoundTrip(r)
				})}
				paths, err := c.Pull(t.Context(), reference)
				if fails < want.calls {
					check(t, c, paths, h.files["m-Q4_K_M.gguf"])
				} else if err == nil || calls != want.calls || !strings.Contains(err.Error(), want.says) {
					t.Errorf("%s, %d: %d calls, %v", path, status, calls, err)
				}
			}
		}
	}
}

// A list of files of which no more comes is given up, and is an error that says so.
func TestStalledListIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Client{Cache: Cache{t.TempDir()}, Endpoint: "http://hub.test"}
		c.HTTP = &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			body := &steady{ctx: r.Context(), from: io.NopCloser(strings.NewReader(`{"sha":"`)), gap: time.Hour}
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: body, Request: r}, nil
		})}
		if _, err := c.Pull(t.Context(), reference); err == nil ||
			!strings.Contains(err.Error(), "owner/name: no byte came for 1m0s") {
			t.Error(err)
		}
	})
}
