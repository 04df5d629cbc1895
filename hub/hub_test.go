package hub

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

const (
	commitA = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
	commitB = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"
)

// hub is a server that speaks like the Hub, and can misbehave.
type hub struct {
	commit string
	files  map[string][]byte
	list   string // instead of the list of files

	tag      func(content []byte) string
	size     func(content []byte) string
	redirect string // of the content, to this server
	breaks   int    // bytes after which a connection is broken; 0: never
	content  func(w http.ResponseWriter, r *http.Request, content []byte) bool

	mu       sync.Mutex
	requests []*http.Request
}

func (h *hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	h.requests = append(h.requests, r)
	h.mu.Unlock()
	if r.URL.Path == "/api/models/owner/name/revision/main" {
		text := h.list
		if text == "" {
			var names []string
			for name := range h.files {
				names = append(names, fmt.Sprintf(`{"rfilename":%q}`, name))
			}
			text = fmt.Sprintf(`{"sha":%q,"siblings":[%s]}`, h.commit, strings.Join(names, ","))
		}
		w.Write([]byte(text))
		return
	}
	name, ok := strings.CutPrefix(r.URL.Path, "/owner/name/resolve/"+h.commit+"/")
	cdn, fromCDN := strings.CutPrefix(r.URL.Path, "/cdn/")
	if fromCDN {
		name, ok = cdn, true
	}
	content, found := h.files[name]
	if !ok || !found {
		http.NotFound(w, r)
		return
	}
	if !fromCDN {
		w.Header().Set("X-Linked-Etag", `"`+h.tag(content)+`"`)
		w.Header().Set("X-Linked-Size", h.size(content))
		if h.redirect != "" {
			http.Redirect(w, r, h.redirect+"/cdn/"+url.PathEscape(name), http.StatusFound)
			return
		}
	}
	if r.Method == http.MethodHead || h.content != nil && h.content(w, r, content) {
		return
	}
	if h.breaks > 0 {
		w = &breaking{w, h.breaks}
	}
	http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(content))
}

// breaking ends the connection after so many bytes.
type breaking struct {
	http.ResponseWriter
	left int
}

func (b *breaking) Write(p []byte) (int, error) {
	if len(p) > b.left {
		b.ResponseWriter.Write(p[:b.left])
		b.ResponseWriter.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	b.left -= len(p)
	return b.ResponseWriter.Write(p)
}

func sha(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func newHub(t *testing.T) (*hub, *Client) {
	t.Helper()
	h := &hub{commit: commitA, tag: sha, size: func(b []byte) string { return strconv.Itoa(len(b)) },
		files: map[string][]byte{"README.md": []byte("read me"), "m-Q8_0.gguf": content(1, 3000),
			"m-Q4_K_M.gguf": content(2, 300000), "mmproj-m-Q8_0.gguf": content(3, 10)}}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return h, &Client{Cache: Cache{t.TempDir()}, Endpoint: s.URL, Token: "secret",
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }}
}

func content(seed byte, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = seed + byte(i*i>>3)
	}
	return b
}

var reference = Reference{Owner: "owner", Name: "name"}

// check demands that the path holds the content, and that nothing half done lies around.
func check(t *testing.T, c *Client, paths []string, want ...[]byte) {
	t.Helper()
	if len(paths) != len(want) {
		t.Fatalf("%d paths, want %d", len(paths), len(want))
	}
	for i, p := range paths {
		if got, err := os.ReadFile(p); err != nil || !bytes.Equal(got, want[i]) {
			t.Errorf("%s: %d bytes, %v, want %d", p, len(got), err, len(want[i]))
		}
	}
	if left := leftovers(c); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func leftovers(c *Client) (list []string) {
	filepath.WalkDir(c.Cache.Dir, func(p string, d fs.DirEntry, err error) error {
		if strings.HasSuffix(p, incomplete) || strings.HasSuffix(p, ".part") {
			list = append(list, p)
		}
		return nil
	})
	return list
}
