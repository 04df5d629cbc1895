package s3cache

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/promptcache"
	"github.com/specgo/spec/internal/randommodel"
)

var example = Credentials{AccessKey: "AKIAIOSFODNN7EXAMPLE", SecretKey: "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}

// The examples of "Authenticating Requests: Using the Authorization Header" in Amazon's S3 API reference.
func TestSignaturesArePublishedOnes(t *testing.T) {
	for _, x := range []struct{ method, url, headers, body, want string }{
		{"GET", "/test.txt", "Range: bytes=0-9", "", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
		{"PUT", "/test$file.text", "Date: Fri, 24 May 2013 00:00:00 GMT|X-Amz-Storage-Class: REDUCED_REDUNDANCY",
			"Welcome to Amazon S3.", "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd"},
		{"GET", "/?lifecycle", "", "", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"},
		{"GET", "/?max-keys=2&prefix=J", "", "", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
	} {
		r := httptest.NewRequest(x.method, "https://examplebucket.s3.amazonaws.com"+x.url, nil)
		for h := range strings.SplitSeq(x.headers, "|") {
			if name, value, ok := strings.Cut(h, ": "); ok {
				r.Header.Set(name, value)
			}
		}
		sum := sha256.Sum256([]byte(x.body))
		example.sign(r, "us-east-1", hex.EncodeToString(sum[:]), time.Date(2013, 5, 24, 0, 0, 0, 0, time.UTC))
		if got := r.Header.Get("Authorization"); !strings.HasSuffix(got, "Signature="+x.want) {
			t.Errorf("%s %s: %s, want %s", x.method, x.url, got, x.want)
		}
	}
}

// server is an S3 server of one bucket, which checks signatures of what has come over the wire.
type server struct {
	mu      sync.Mutex
	objects map[string][]byte
	asked   []string
	answer  func(w http.ResponseWriter, r *http.Request) bool // instead; may be nil
}

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, r.Method)
	if why := unsigned(r, body); why != "" {
		http.Error(w, why, http.StatusForbidden)
		return
	}
	if s.answer != nil && s.answer(w, r) {
		return
	}
	data, ok := s.objects[r.URL.Path]
	switch {
	case r.Method == http.MethodPut:
		s.objects[r.URL.Path] = body
	case r.Method == http.MethodDelete:
		delete(s.objects, r.URL.Path)
		w.WriteHeader(http.StatusNoContent)
	case !ok:
		http.Error(w, "<Code>NoSuchKey</Code>", http.StatusNotFound)
	case r.Method == http.MethodGet:
		_, _ = w.Write(data)
	}
}

// unsigned says what is wrong with a request's signature.
func unsigned(r *http.Request, body []byte) string {
	sum := sha256.Sum256(body)
	if r.Header.Get("X-Amz-Content-Sha256") != hex.EncodeToString(sum[:]) {
		return "another body"
	}
	stamp, err := time.Parse("20060102T150405Z", r.Header.Get("X-Amz-Date"))
	if err != nil || time.Since(stamp).Abs() > 15*time.Minute {
		return "another time"
	}
	auth := strings.NewReplacer(",", " ", "=", " ").Replace(r.Header.Get("Authorization"))
	f := strings.Fields(auth)
	if len(f) != 7 {
		return "no signature"
	}
	scope := strings.SplitN(f[2], "/", 2)
	day := stamp.Format("20060102")
	if scope[0] != example.AccessKey || scope[1] != day+"/eu-test-1/s3/aws4_request" {
		return "another key or scope"
	}
	canonical := r.Method + "\n" + r.URL.EscapedPath() + "\n\n"
	for name := range strings.SplitSeq(f[4], ";") {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		canonical += name + ":" + value + "\n"
	}
	canonical += "\n" + f[4] + "\n" + hex.EncodeToString(sum[:])
	for _, must := range []string{"host", "x-amz-content-sha256", "x-amz-date", "x-amz-security-token"} {
		if !strings.Contains(";"+f[4]+";", ";"+must+";") {
			return must + " is not signed"
		}
	}
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	of := sha256.Sum256([]byte(canonical))
	text := "AWS4-HMAC-SHA256\n" + r.Header.Get("X-Amz-Date") + "\n" + scope[1] + "\n" + hex.EncodeToString(of[:])
	key := mac(mac(mac(mac([]byte("AWS4"+example.SecretKey), day), "eu-test-1"), "s3"), "aws4_request")
	if hex.EncodeToString(mac(key, text)) != f[6] {
		return "another signature"
	}
	return ""
}

// open starts a server, and opens a store there.
func open(t *testing.T, change func(*Options)) (*Store, *server) {
	t.Helper()
	s := &server{objects: map[string][]byte{}}
	at := httptest.NewServer(s)
	t.Cleanup(at.Close)
	o := Options{Endpoint: at.URL, Region: "eu-test-1", Bucket: "prompts", Prefix: "a/b_c", Credentials: example}
	o.Credentials.SessionToken = "token+/="
	if change != nil {
		change(&o)
	}
	store, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return store, s
}

// Entries come back as they were put; those that are damaged, cut short or another's are missing, and gone.
func TestEntries(t *testing.T) {
	ctx := t.Context()
	store, at := open(t, nil)
	key, other := promptcache.Key{1, 2}, promptcache.Key{3}
	name := "/prompts/a/b_c/" + key.String()
	if _, err := store.Get(ctx, key); !errors.Is(err, promptcache.ErrMissing) || store.Has(ctx, key) {
		t.Errorf("before it is there: %v", err)
	}
	data := bytes.Repeat([]byte("entry"), 1000)
	for _, data := range [][]byte{data, {}} {
		if err := store.Put(ctx, key, data); err != nil {
			t.Fatal(err)
		}
		if got, err := store.Get(ctx, key); err != nil || !bytes.Equal(got, data) || !store.Has(ctx, key) {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	}
	if err := store.Put(ctx, key, data); err != nil {
		t.Fatal(err)
	}
	good := bytes.Clone(at.objects[name])
	for what, bad := range map[string][]byte{"empty": {}, "short": good[:len(good)-1],
		"long": append(bytes.Clone(good), 0), "turned": append(bytes.Clone(good[:len(good)-1]), good[len(good)-1]^1)} {
		at.objects[name] = bad
		if _, err := store.Get(ctx, key); !errors.Is(err, promptcache.ErrMissing) {
			t.Errorf("%s: %v", what, err)
		}
		if _, ok := at.objects[name]; ok {
			t.Errorf("%s: it is still there", what)
		}
	}
	at.objects["/prompts/a/b_c/"+other.String()] = good
	if _, err := store.Get(ctx, other); !errors.Is(err, promptcache.ErrMissing) {
		t.Errorf("another's entry: %v", err)
	}
}

// A store that hangs, refuses, redirects or sends without end costs its timeout or its bound, and its error says why.
func TestBounds(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	key := promptcache.Key{7}
	fails := func(what string, change func(*Options), answer func(http.ResponseWriter, *http.Request) bool) {
		t.Helper()
		store, at := open(t, change)
		at.answer = answer
		begin := time.Now()
		_, err := store.Get(t.Context(), key)
		if err == nil || !strings.Contains(err.Error(), what) || time.Since(begin) > 20*time.Second {
			t.Errorf("%s: %v after %v", what, err, time.Since(begin))
		}
		if strings.Contains(err.Error(), example.SecretKey) {
			t.Error("the secret is told")
		}
	}
	fails("deadline", func(o *Options) { o.Timeout = 50 * time.Millisecond },
		func(w http.ResponseWriter, r *http.Request) bool {
			select {
			case <-release:
			case <-r.Context().Done():
			}
			return true
		})
	fails("403", func(o *Options) { o.Credentials.SecretKey = "wrong" }, nil)
	fails("another key", func(o *Options) { o.Region = "elsewhere" }, nil)
	fails("307", nil, func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		return true
	})
	fails("slow down", nil, func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "slow \n down"+strings.Repeat("!", 1<<20), http.StatusServiceUnavailable)
		return true
	})
	fails("more than 100 bytes", func(o *Options) { o.MaxBytes = 100 }, func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodGet {
			return false
		}
		for range 1 << 10 {
			if _, err := w.Write(make([]byte, 1<<10)); err != nil {
				break
			}
		}
		return true
	})
	store, at := open(t, func(o *Options) { o.MaxBytes = 10 })
	if err := store.Put(t.Context(), key, make([]byte, 11)); err == nil || len(at.asked) > 0 {
		t.Errorf("an entry that is too large: %v, %v", err, at.asked)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := store.Put(ctx, key, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A server that does not answer is asked once in the time that a request may take, whoever asks. One that refuses is
// asked again, and who gives up himself says nothing about it.
func TestSilentServersAreNotAsked(t *testing.T) {
	asked, fails := 0, errors.New("connection refused")
	store, _ := open(t, func(o *Options) {
		o.Transport = transport(func(r *http.Request) (*http.Response, error) {
			if asked++; fails != nil {
				return nil, fails
			}
			return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody}, nil
		})
	})
	at := time.Now()
	store.now = func() time.Time { return at }
	key := promptcache.Key{7}
	given, cancel := context.WithCancel(t.Context())
	cancel()
	if store.Has(given, key) || store.Has(t.Context(), key) || store.Has(t.Context(), key) || asked < 2 {
		t.Errorf("a server that refuses is asked %d times", asked)
	}
	asked, fails = 0, context.DeadlineExceeded
	for range 3 {
		if _, err := store.Get(t.Context(), key); err == nil || store.Has(t.Context(), key) {
			t.Error("a server that does not answer has an entry")
		}
	}
	if asked != 1 {
		t.Errorf("it is asked %d times", asked)
	}
	at, fails = at.Add(DefaultTimeout), nil
	if !store.Has(t.Context(), key) || asked != 2 {
		t.Errorf("asked %d times after the time of a request", asked)
	}
}

// A server that stops in the middle of an entry is one that does not answer.
func TestServersThatStopAreNotAsked(t *testing.T) {
	asked := 0
	store, _ := open(t, func(o *Options) {
		o.Transport = transport(func(r *http.Request) (*http.Response, error) {
			asked++
			body := io.NopCloser(iotest.ErrReader(context.DeadlineExceeded))
			return &http.Response{StatusCode: http.StatusOK, Body: body}, nil
		})
	})
	at := time.Now()
	store.now = func() time.Time { return at }
	for range 3 {
		if _, err := store.Get(t.Context(), promptcache.Key{7}); err == nil {
			t.Error("an entry that has not come")
		}
	}
	if asked != 1 {
		t.Errorf("it is asked %d times", asked)
	}
}

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestOptions(t *testing.T) {
	good := Options{Endpoint: "https://s3.example.com", Bucket: "prompts", Credentials: example}
	if s, err := New(good); err != nil || s.o.Region != "us-east-1" || s.o.Timeout != DefaultTimeout {
		t.Errorf("%+v, %v", s, err)
	}
	for _, change := range []func(*Options){
		func(o *Options) { o.Endpoint = "s3.example.com" }, func(o *Options) { o.Endpoint = "https://s3.example.com/x" },
		func(o *Options) { o.Endpoint = "file:///x" }, func(o *Options) { o.Endpoint = "https://a:b@s3.example.com" },
		func(o *Options) { o.Bucket = "a/b" }, func(o *Options) { o.Bucket = "" }, func(o *Options) { o.Prefix = "../x" },
		func(o *Options) { o.Prefix = "x/" }, func(o *Options) { o.Credentials.SecretKey = "" },
		func(o *Options) { o.Timeout = -1 }, func(o *Options) { o.MaxBytes = -1 },
	} {
		o := good
		if change(&o); func() error { _, err := New(o); return err }() == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

// A prompt that one process has put there another one goes on from, and nobody with another salt does.
func TestPromptsOfASalt(t *testing.T) {
	ctx := t.Context()
	store, at := open(t, nil)
	rt, err := engine.NewRuntime(engine.RuntimeOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	file := randommodel.Llama().File(t)
	m, err := engine.New(ctx, rt, bytes.NewReader(file), int64(len(file)), engine.Options{Name: "random.gguf"})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	s, err := m.NewSession(engine.SessionOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tokens := make([]int32, 100)
	for i := range tokens {
		tokens[i] = int32(i * 7 % 60)
	}
	if _, err := s.Eval(ctx, tokens, nil, engine.None); err != nil {
		t.Fatal(err)
	}
	mine := promptcache.LineageOf("model", engine.SessionOptions{}, "mine")
	if _, err := promptcache.Save(ctx, store, mine, s, promptcache.Unread{}); err != nil || len(at.objects) == 0 {
		t.Fatalf("%d objects, %v", len(at.objects), err)
	}
	for salt, want := range map[string]int{"mine": len(tokens), "other": 0, "": 0} {
		l := promptcache.LineageOf("model", engine.SessionOptions{}, salt)
		got, err := promptcache.Load(ctx, store, l, m.NewSession, engine.SessionOptions{}, tokens, 1)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		if got != nil {
			n = got.Session.Len()
			got.Session.Close()
		}
		if n != want {
			t.Errorf("salt %q: %d tokens restored, want %d", salt, n, want)
		}
	}
}
