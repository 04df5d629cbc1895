package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// signature is that of AWS Signature Version 4 for a request to S3 with the headers that it names as signed.
func signature(r *http.Request, secret, scope, signed, bodySum string) string {
	sum := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	canonical := r.Method + "\n" + r.URL.EscapedPath() + "\n" + r.URL.RawQuery + "\n"
	for name := range strings.SplitSeq(signed, ";") {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		canonical += name + ":" + value + "\n"
	}
	canonical += "\n" + signed + "\n" + bodySum
	of := sha256.Sum256([]byte(canonical))
	text := "AWS4-HMAC-SHA256\n" + r.Header.Get("X-Amz-Date") + "\n" + scope + "\n" + hex.EncodeToString(of[:])
	key := []byte("AWS4" + secret)
	for part := range strings.SplitSeq(scope, "/") {
		key = sum(key, part)
	}
	return hex.EncodeToString(sum(key, text))
}

// The check of signatures below knows the published one: the example "GET Object" of "Authenticating Requests: Using
// the Authorization Header (AWS Signature Version 4)" in Amazon's S3 API reference,
// https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html.
func TestTheBucketOfTheTestsKnowsThePublishedSignature(t *testing.T) {
	const none = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" // of an empty body
	r := httptest.NewRequest("GET", "https://examplebucket.s3.amazonaws.com/test.txt", nil)
	r.Header.Set("Range", "bytes=0-9")
	r.Header.Set("X-Amz-Content-Sha256", none)
	r.Header.Set("X-Amz-Date", "20130524T000000Z")
	got := signature(r, "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "20130524/us-east-1/s3/aws4_request",
		"host;range;x-amz-content-sha256;x-amz-date", none)
	if want := "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"; got != want {
		t.Errorf("%s, published is %s", got, want)
	}
}

// bucket is S3 with one bucket, which refuses what is not signed with its key for its region.
type bucket struct {
	name, access, secret, token, region string

	mu      sync.Mutex
	objects map[string][]byte
	counts  map[string]int // of requests that were right, by method, and of those that were refused
	why     string         // the last one was refused
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.why = b.refuses(r, body); b.why != "" || err != nil {
		b.counts["refused"]++
		http.Error(w, b.why, http.StatusForbidden)
		return
	}
	b.counts[r.Method]++
	switch data, ok := b.objects[r.URL.Path]; {
	case r.Method == http.MethodPut:
		b.objects[r.URL.Path] = body
	case !ok:
		http.Error(w, "<Code>NoSuchKey</Code>", http.StatusNotFound)
	case r.Method == http.MethodGet:
		_, _ = w.Write(data) // a client that has left needs none
	}
}

func (b *bucket) refuses(r *http.Request, body []byte) string {
	sum := sha256.Sum256(body)
	bodySum := hex.EncodeToString(sum[:])
	rest, ok := strings.CutPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential="+b.access+"/")
	scope, rest, ok1 := strings.Cut(rest, ",SignedHeaders=")
	signed, given, ok2 := strings.Cut(rest, ",Signature=")
	words := strings.Split(scope, "/")
	switch {
	case !ok || !ok1 || !ok2 || len(words) != 4:
		return "not signed by the key"
	case words[0] != r.Header.Get("X-Amz-Date")[:8] || !slices.Equal(words[1:], []string{b.region, "s3", "aws4_request"}):
		return "signed for " + scope
	case r.Header.Get("X-Amz-Content-Sha256") != bodySum:
		return "another body"
	case r.Header.Get("X-Amz-Security-Token") != b.token:
		return "another session"
	case !strings.HasPrefix(r.URL.Path, "/"+b.name+"/"):
		return "another bucket: " + r.URL.Path
	case given != signature(r, b.secret, scope, signed, bodySum):
		return "another signature"
	}
	return ""
}

// -cache-s3 BUCKET/PREFIX keeps what a worker has computed for prompts, signed with the environment's credentials for
// the region of -cache-region and sent to -cache-endpoint, or where the environment says; another worker goes on from
// it. With another secret nothing is stored or taken, and the answer is the same.
func TestPromptsAreKeptInTheBucketOfTheFlags(t *testing.T) {
	b := &bucket{name: "prompts", access: "AKIAIOSFODNN7EXAMPLE", secret: "of the test", token: "of a session",
		region: "eu-test-1", objects: map[string][]byte{}, counts: map[string]int{}}
	at := httptest.NewServer(b)
	t.Cleanup(at.Close)
	env := map[string]string{"AWS_ACCESS_KEY_ID": b.access, "AWS_SECRET_ACCESS_KEY": b.secret,
		"AWS_SESSION_TOKEN": b.token}
	body, err := json.Marshal(map[string]any{"prompt": strings.Repeat("func (r *Ring) Push(x int) { r.n++ }\n", 24),
		"max_tokens": 4, "temperature": 0})
	if err != nil {
		t.Fatal(err)
	}
	answer := func(flags ...string) (text string, cached int) {
		t.Helper()
		var c command
		get := func(name string) string { return env[name] }
		if err := c.parse(append(pair(), flags...), get, io.Discard); err != nil {
			t.Fatal(err)
		}
		server, _, free, err := c.open(t.Context(), get, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		defer free() // waits for what is stored
		status, data := server.Do(context.Background(), "/v1/completions", body)
		var a struct {
			Choices []struct{ Text string }
			Usage   struct {
				Details struct {
					Cached int `json:"cached_tokens"`
				} `json:"prompt_tokens_details"`
			}
		}
		if err := json.Unmarshal(data, &a); err != nil || status != 200 || len(a.Choices) != 1 {
			t.Fatalf("%d %s, %v", status, data, err)
		}
		return a.Choices[0].Text, a.Usage.Details.Cached
	}
	had := func(what string, puts, gets, refused bool) {
		t.Helper()
		b.mu.Lock()
		defer b.mu.Unlock()
		if n := b.counts; n["PUT"] > 0 != puts || n["GET"] > 0 != gets || n["refused"] > 0 != refused {
			t.Errorf("%s: %v, the last one: %s", what, b.counts, b.why)
		}
		clear(b.counts)
	}
	plain, _ := answer()
	had("no flag", false, false, false)
	flags := []string{"-cache-s3", "prompts/a/b", "-cache-endpoint", at.URL, "-cache-region", "eu-test-1"}
	first, cached := answer(flags...)
	had("the first worker", true, b.counts["GET"] > 0, false)
	for name := range b.objects {
		if !strings.HasPrefix(name, "/prompts/a/b/") {
			t.Errorf("an object %s", name)
		}
	}
	second, again := answer(flags...)
	had("the second worker", b.counts["PUT"] > 0, true, false)
	if first != plain || second != plain || cached != 0 || again < 200 {
		t.Errorf("%q with %d tokens from the bucket, %q with %d, without it %q", first, cached, second, again, plain)
	}
	env["AWS_ENDPOINT_URL_S3"], env["AWS_REGION"] = at.URL, "eu-test-1"
	if third, n := answer("-cache-s3", "prompts/a/b"); third != plain || n != again {
		t.Errorf("by the environment: %q with %d tokens", third, n)
	}
	had("the environment", b.counts["PUT"] > 0, true, false)
	for what, change := range map[string][2]string{"another secret": {"AWS_SECRET_ACCESS_KEY", "x"},
		"another region": {"AWS_REGION", "us-east-1"}} {
		kept := env[change[0]]
		env[change[0]] = change[1]
		if text, n := answer("-cache-s3", "prompts/a/b"); text != plain || n != 0 {
			t.Errorf("%s: %q with %d tokens", what, text, n)
		}
		had(what, false, false, true)
		env[change[0]] = kept
	}
}

// What cannot be a store is refused in one line, before the model is read.
func TestFlagsOfThePromptCacheAreChecked(t *testing.T) {
	keys := map[string]string{"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}
	for _, x := range []struct {
		env   map[string]string
		flags []string
		want  string
	}{
		{keys, []string{"-cache-endpoint", "http://x:1"}, "-cache-s3"},
		{keys, []string{"-cache-region", "x"}, "-cache-s3"},
		{nil, []string{"-cache-s3", "b"}, "AWS_ACCESS_KEY_ID"},
		{map[string]string{"AWS_ACCESS_KEY_ID": "a"}, []string{"-cache-s3", "b"}, "AWS_SECRET_ACCESS_KEY"},
		{keys, []string{"-cache-s3", "b", "-cache-endpoint", "x:1"}, "-cache-s3 b"},
		{keys, []string{"-cache-s3", "/p"}, "-cache-s3 /p"},
	} {
		err := run(t.Context(), append([]string{"-m", "none.gguf"}, x.flags...), func(n string) string { return x.env[n] },
			io.Discard)
		if err == nil || !strings.Contains(err.Error(), x.want) || strings.Contains(fmt.Sprint(err), "\n") {
			t.Errorf("%q: %v, want it to name %s", x.flags, err, x.want)
		}
	}
}
