package serve

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Bodies that are no requests: an error that names the place, and the server goes on.
func TestMalformedBodies(t *testing.T) {
	s := newTester(t, nil)
	const rest = `"prompt":"func","max_tokens":3`
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	for _, c := range []struct {
		body  string
		names string // what the message has
	}{
		{"", "empty"}, {" \n", "empty"}, {"{", "ends early"}, {
			"[]", "not a JSON object",
		}, {`"x"`, "not a JSON object"}, {"null", "not a JSON object"}, {"5", "not a JSON object"},
		{`{"prompt":`, "prompt"}, {
			`{"prompt":"x`, "prompt",
		}, {`{"prompt":"x"`, "ends early"}, {`{"prompt":"x"}}`, "follows"}, {`{"prompt":"x"} {}`, "follows"},
		{
			`{"prompt":"x","prompt":"y"}`, "prompt: given twice",
		}, {`{"prompt":"x",}`, "JSON"}, {`{prompt:"x"}`, "JSON"}, {`{"prompt":'x'}`, "prompt"},
		{
			"{" + rest + ",\"stop\":\"a\xff\"}", "stop",
		}, {
			"{" + rest + ",\"user\":\"\xc3\"}", "user",
		}, {"\xef\xbb\xbf{}", "JSON"}, {"{" + rest + ",\"\xff\":1}", "UTF-8"},
		{
			"{" + rest + `,"metadata":` + deep + "}", "metadata",
		}, {
			"{" + rest + `,"logit_bias":` + strings.Repeat(`{"1":`, 4000) + "1" + strings.Repeat("}", 4000) + "}",
			"logit_bias",
		},
		{
			"{" + rest + `,"temperature":NaN}`, "temperature",
		}, {"{" + rest + `,"temperature":-0.5}`, "temperature"}, {"{" + rest + `,"temperature":1e400}`, "temperature"},
		{
			"{" + rest + `,"top_k":123456789012345678901234567890}`, "top_k",
		}, {"{" + rest + `,"seed":1e300}`, "seed"}, {"{" + rest + `,"n":-9223372036854775808}`, "n"},
		{
			"{" + rest + `,"` + strings.Repeat("x", 100000) + `":1}`, "xxxxxxxx…",
		}, {"{" + rest + ",\"a\\u0000b\":1}", "a?b"}, {`{"max_tokens":3}`, "prompt: missing"},
		{
			`{"prompt":[1,2,-3],"max_tokens":3}`, "prompt[2]",
		}, {
			`{"prompt":[4096],"max_tokens":3}`, "prompt",
		}, {`{"prompt":["a",1.5],"max_tokens":3}`, "prompt[1]"}, {`{"prompt":[],"max_tokens":3}`, "prompt"},
		{`{"prompt":"` + strings.Repeat("x y ", 2000) + `"}`, "exceeds the available context size, 1024"},
	} {
		status, text, _ := s.do("POST", "/v1/completions", c.body)
		if status != 400 || !strings.Contains(text, c.names) || len(text) > 1000 {
			t.Errorf("%.60q: %d %.300s, want %q", c.body, status, text, c.names)
		}
		want := typeInvalid
		if strings.Contains(text, "exceeds the available context") {
			want = typeContext
		}
		if o := decode(t, text); o.get(t, "error", "type") != want {
			t.Errorf("%.60q: %v", c.body, o)
		}
	}
	s.post("/v1/completions", "{"+rest+"}", 200)
}

// A body that is too long is refused, whether its length is told before or not.
func TestBodiesOverTheLimit(t *testing.T) {
	s := newTester(t, nil)
	long := func() io.Reader {
		return io.MultiReader(
			strings.NewReader(`{"prompt":"`), io.LimitReader(zeros{}, 24<<20), strings.NewReader(`"}`),
		)
	}
	for name, body := range map[string]io.Reader{
		"unknown length": io.NopCloser(long()), "known length": bytes.NewReader(bytes.Repeat([]byte("x"), 24<<20)),
	} {
		r, err := http.NewRequest("POST", s.web.URL+"/v1/completions", body)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := s.web.Client().Do(r)
		if err != nil {
			continue // the connection was closed while the body was sent
		}
		text, _ := io.ReadAll(answer.Body)
		answer.Body.Close()
		if answer.StatusCode != 413 || !strings.Contains(string(text), fmt.Sprint(DefaultLimits().BodyBytes)) {
			t.Errorf("%s: %d %s", name, answer.StatusCode, text)
		}
	}
	s.post("/v1/completions", `{"prompt":"func","max_tokens":3}`, 200)
}

// What a program around the server allows of a body is told as what it is.
func TestBodyOverTheProgramsLimit(t *testing.T) {
	s := newTester(t, nil)
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "http://localhost/v1/completions", strings.NewReader(`{"prompt":"func"}`))
	http.MaxBytesHandler(s.Server, 9).ServeHTTP(w, r)
	if w.Code != 413 || !strings.Contains(w.Body.String(), "longer than 9 bytes") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}

// A chunked body with a broken frame is the client's mistake: 400, and no body that has not arrived.
func TestBrokenChunks(t *testing.T) {
	s := newTester(t, nil)
	for frames, says := range map[string]string{
		"zz\r\n{}\r\n0\r\n\r\n": "framed", "2\r\n{}xx0\r\n\r\n": "framed",
		"fffffffffffffffff\r\n{}\r\n": "framed", "2\r\n{}\r\n0\r\n\r\n": "prompt: missing",
	} {
		c, err := net.Dial("tcp", s.web.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n%s", frames)
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(r.Body)
		c.Close()
		if r.StatusCode != 400 || !strings.Contains(string(answer), says) {
			t.Errorf("%q: %d %s", frames, r.StatusCode, answer)
		}
	}
}

// A body that does not come is waited for no longer than Limits.BodyTime.
func TestSlowBody(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Limits.BodyTime = 50 * time.Millisecond })
	c, err := net.Dial("tcp", s.web.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(
		c,
		"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "+
			"100\r\n\r\n{\"prompt\":",
	)
	answer, err := io.ReadAll(c) // until the server closes it
	if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.1 408 ")) {
		t.Errorf("%q, %v", answer, err)
	}
}

func TestContentType(t *testing.T) {
	s := newTester(t, nil)
	const body = `{"prompt":"func","max_tokens":3}`
	for kind, want := range map[string]int{
		"application/json": 200, "application/json; charset=utf-8": 200, "text/html": 415,
		"multipart/form-data; boundary=x": 415, "Application/JSON": 200,
	} {
		if status, text, _ := s.do("POST", "/v1/completions", body, "Content-Type", kind); status != want {
			t.Errorf("%s: %d %s", kind, status, text)
		}
	}
	for coding, want := range map[string]int{"gzip": 415, "zstd": 415, "Identity": 200} {
		status, text, _ := s.do("POST", "/v1/completions", body, "Content-Encoding", coding)
		if status != want || status == 415 && decode(t, text).get(t, "error", "param") != "Content-Encoding" {
			t.Errorf("%s: %d %s", coding, status, text)
		}
	}
}

// No body makes the server fail: an answer in the API's shape, no panic.
func FuzzBody(f *testing.F) {
	for _, m := range base {
		var list []string
		for k, v := range m {
			list = append(list, fmt.Sprintf("%q:%s", k, v))
		}
		f.Add("{" + strings.Join(list, ",") + "}")
	}
	f.Add(`{"messages":[{"role":"user","content":[{"type":"text","text":"x"}]}],"tools":` + aTool +
		`,"tool_choice":{"type":"function","function":{"name":"f"}},"max_tokens":3}`)
	f.Add(`{"prompt":[1,2],"logit_bias":{"5":-100},"stop":["a"],"max_tokens":2,"speculation":{"drafter":"model",` +
		`"verify":"block"},"temperature":1}`)
	f.Add(`{"prompt":"x","max_tokens":2,"json_schema":{"type":"object","properties":{"a":{"enum":[1,2]}}}}`)
	s, err := New(Options{Models: []Entry{entry(f, "go")}, MaxTokens: 4})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(s.Close)
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{
			"/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings", "/completion", "/infill",
		} {
			status, answer := s.Do(t.Context(), path, []byte(body))
			o := decode(t, string(answer))
			switch {
			case status == 200 && o["error"] == nil:
			case status == 400 && o["error"] != nil && o.get(t, "error", "message") != "":
			case status == 404 && o.get(t, "error", "param") == "model":
			default:
				t.Errorf("%s %q: %d %s", path, body, status, answer)
			}
		}
		if n := s.metrics.panics.Load(); n > 0 {
			t.Fatalf("%d panics", n)
		}
	})
}
