package serve

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// reader is a client that takes an answer; told is called with what it has got.
type reader struct {
	*httptest.ResponseRecorder
	told func(text string) error
}

func (r *reader) Write(b []byte) (int, error) {
	n, _ := r.ResponseRecorder.Write(b)
	return n, r.told(r.Body.String())
}

func (r *reader) FlushError() error { return nil }

// A request whose client left before its answer had ended counts and is logged with status 499, whatever was sent
// before; one whose answer is complete with 200, as one that the server ended.
func TestClientsThatLeave(t *testing.T) {
	const openAI, ollama = "/v1/completions", "/api/generate"
	for name, x := range map[string]struct {
		path string
		does func(s *tester, leave func()) error // when the first piece has come; answers are held until then
		want string
	}{
		"leaves a stream":   {openAI, func(_ *tester, leave func()) error { leave(); return nil }, "499"},
		"leaves JSON lines": {ollama, func(_ *tester, leave func()) error { leave(); return nil }, "499"},
		"takes no more":     {openAI, func(*tester, func()) error { return errors.New("broken pipe") }, "499"},
		"stays":             {openAI, func(*tester, func()) error { return nil }, "200"},
		"the server ends":   {openAI, func(s *tester, _ func()) error { s.cancel(); return nil }, "200"},
		"leaves a download": {"/api/pull", func(_ *tester, leave func()) error {
			leave()
			return errors.New("reset")
		}, "499"},
		"takes a download's line": {"/api/pull", func(*tester, func()) error { return nil }, "200"},
	} {
		t.Run(name, func(t *testing.T) {
			var text bytes.Buffer
			s, store := managed(t, func(o *Options) {
				o.AllowManage, o.Log = true, slog.New(slog.NewTextHandler(&text, nil))
			})
			m, release, err := s.models.acquire(t.Context(), "go")
			if err != nil {
				t.Fatal(err)
			}
			release()
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			store.hold = func(ctx context.Context) error { return ctx.Err() }
			came, passes := make(chan struct{}), 0
			hookOf(m).set(func() {
				if passes++; passes > 4 { // a token is there
					select {
					case <-came:
					case <-time.After(10 * time.Second):
					}
				}
			})
			var once sync.Once
			w := &reader{httptest.NewRecorder(), func(string) (err error) {
				once.Do(func() { err = x.does(s, leave); close(came) })
				return err
			}}
			r := httptest.NewRequestWithContext(ctx, "POST", x.path,
				strings.NewReader(`{"model":"go","prompt":"func","stream":true,"speculation":{"off":true}}`))
			if x.path == "/api/pull" {
				r = httptest.NewRequestWithContext(ctx, "POST", x.path, strings.NewReader(`{"model":"new"}`))
			}
			r.Host = "localhost"
			s.ServeHTTP(w, r)
			if w.Code != http.StatusOK || w.Body.Len() == 0 {
				t.Fatalf("no stream has begun: %d %s", w.Code, w.Body)
			}
			want := `spec_requests_total{path="` + x.path + `",status="` + x.want + `"} 1` + "\n"
			if _, all, _ := s.do("GET", "/metrics", ""); !strings.Contains(all, want) {
				t.Errorf("no %s in\n%s", want, all)
			}
			if !strings.Contains(text.String(), " path="+x.path+" status="+x.want+" ") {
				t.Error(text.String())
			}
		})
	}
}
