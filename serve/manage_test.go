package serve

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakeStore is a store whose models are the embedded pair, of names that it is asked for.
type fakeStore struct {
	t     *testing.T
	asked []string
	has   []Entry
	err   error                       // of everything
	late  error                       // of a download, behind its progress
	hold  func(context.Context) error // likewise
	bound bool                        // a download had a time by which it would have ended
}

func (f *fakeStore) did(what ...string) error {
	f.asked = append(f.asked, strings.Join(what, " "))
	return f.err
}

func (f *fakeStore) List() ([]Entry, error) { return f.has, f.err }

func (f *fakeStore) Pull(ctx context.Context, name string, progress func(file string, done, total int64)) (
	Entry, error) {
	_, f.bound = ctx.Deadline()
	err := f.did("pull", name)
	if err == nil {
		for _, done := range []int64{1, 2, 3, 10} {
			progress("a.gguf", done, 10)
		}
		if err = f.late; err == nil && f.hold != nil {
			err = f.hold(ctx)
		}
	}
	return entry(f.t, name), err
}

func (f *fakeStore) Delete(name string) error {
	err := f.did("delete", name)
	if err == nil {
		f.has = slices.DeleteFunc(slices.Clone(f.has), func(e Entry) bool {
			return e.Name == strings.TrimSuffix(name, latestTag)
		})
	}
	return err
}

func (f *fakeStore) Copy(from, to string) (Entry, error) {
	return entry(f.t, to), f.did("copy", from, to)
}

func (f *fakeStore) Create(name, from string, made Made) (Entry, error) {
	e := entry(f.t, name)
	e.System, e.Parameters = made.System, made.Parameters
	return e, f.did("create", name, from, made.System, made.Template, string(made.Parameters))
}

// managed is a server with a model of the command line, go, and one of a store, kept.
func managed(t *testing.T, change func(*Options)) (*tester, *fakeStore) {
	f := &fakeStore{t: t}
	return newTester(t, func(o *Options) {
		kept := entry(t, "kept")
		kept.Stored = true
		o.Models, o.Store, f.has = append(o.Models, kept), f, []Entry{kept}
		if change != nil {
			change(o)
		}
	}), f
}

// changes are requests that change which models there are.
var changes = [][3]string{
	{"POST", "/api/pull", `{"model":"new"}`}, {"DELETE", "/api/delete", `{"model":"kept"}`},
	{"POST", "/api/copy", `{"source":"kept","destination":"twin"}`},
	{"POST", "/api/create", `{"model":"made","from":"kept"}`},
	{"POST", "/api/generate", `{"model":"kept","keep_alive":0}`},
	{"POST", "/api/chat", `{"messages":[],"keep_alive":"0s"}`},
}

// Only an admin's key, or any client where the server says so, changes which models there are; what is refused says
// how it is allowed, and has changed nothing.
func TestWhoMayManage(t *testing.T) {
	keys := func(o *Options) { o.Keys = []Key{{Secret: "boss", Admin: true}, {Secret: "guest"}} }
	for name, c := range map[string]struct {
		change func(*Options)
		key    string
		want   int
	}{
		"nobody's server": {nil, "", 403}, "a guest": {keys, "guest", 403}, "an admin": {keys, "boss", 200},
		"no key":              {keys, "", 401},
		"the flag":            {func(o *Options) { o.AllowManage = true }, "", 200},
		"the flag, a guest":   {func(o *Options) { keys(o); o.AllowManage = true }, "guest", 200},
		"the flag and no key": {func(o *Options) { keys(o); o.AllowManage = true }, "", 401},
	} {
		for _, x := range changes {
			s, f := managed(t, c.change)
			status, text, _ := s.do(x[0], x[1], x[2], "Authorization", "Bearer "+c.key)
			if status != c.want || status == 403 && !strings.Contains(text, "--allow-manage") {
				t.Errorf("%s: %v: %d %s", name, x, status, text)
			}
			status, text, _ = s.do("GET", "/props", "", "Authorization", "Bearer "+c.key)
			if status == 200 && decode(t, text)["may_manage"] != (c.want == 200) {
				t.Errorf("%s: props say %s", name, text)
			}
			if c.want != 200 && (f.asked != nil || len(s.models.slots) != 2) {
				t.Errorf("%s: %v: %q, %d models", name, x, f.asked, len(s.models.slots))
			}
		}
	}
	s := newTester(t, func(o *Options) { o.AllowManage = true })
	for _, x := range changes[:4] {
		if status, text, _ := s.do(x[0], x[1], x[2]); status != 501 || !strings.Contains(text, "--models-dir") {
			t.Errorf("no store: %v: %d %s", x, status, text)
		}
	}
}

// A model that is deleted or replaced while a request uses it ends with that request; others no longer find it.
func TestModelsLeaveBehindTheirUsers(t *testing.T) {
	s, _ := managed(t, func(o *Options) { o.AllowManage = true })
	m, release, err := s.models.acquire(t.Context(), "kept")
	if err != nil {
		t.Fatal(err)
	}
	slot := s.models.named("kept")
	if status, text, _ := s.do("DELETE", "/api/delete", `{"name":"kept:latest"}`); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	if _, _, err := s.models.acquire(t.Context(), "kept"); err == nil && len(s.models.slots) != 1 {
		t.Error("a deleted model is offered")
	}
	if slot.model != m || m.Context() == 0 {
		t.Error("a model in use is gone")
	}
	release()
	if slot.model != nil {
		t.Error("a deleted model stays in memory")
	}
	s.post("/api/pull", `{"model":"new"}`, 200)
	if _, release, err = s.models.acquire(t.Context(), "new"); err != nil {
		t.Fatal(err)
	}
	slot = s.models.named("new")
	// Unloading waits for the last user too.
	s.post("/api/generate", `{"model":"new","keep_alive":0}`, 200)
	if slot.model == nil {
		t.Error("unloaded under a request")
	}
	release()
	if slot.model != nil {
		t.Error("not unloaded")
	}
	s.post("/api/generate", `{"model":"new","prompt":"func","raw":true,"options":{"num_predict":1}}`, 200)
	if slot.model == nil {
		t.Fatal("not loaded again")
	}
	s.post("/api/generate", `{"model":"new","prompt":"func","raw":true,"keep_alive":"0","options":{"num_predict":1}}`, 200)
	if slot.model != nil {
		t.Error("not unloaded behind an answer")
	}
	s.post("/v1/chat/completions", `{"model":"new","messages":[{"role":"user","content":"x"}],"max_tokens":1,`+
		`"keep_alive":0}`, 200)
	if slot.model != nil {
		t.Error("not unloaded behind an answer in a conversation")
	}
	s.post("/api/copy", `{"source":"new","destination":"new"}`, 200)
	if s.models.named("new") != slot {
		t.Error("a model of the same files is replaced")
	}
	other := slot.Entry
	other.Bytes++
	s.models.put(other)
	if s.models.named("new") == slot || len(s.models.slots) != 2 {
		t.Error("a model is not replaced")
	}
	if status, text, _ := s.do("DELETE", "/api/delete", `{"model":"go"}`); status != 400 ||
		!strings.Contains(text, "models' folder") {
		t.Errorf("a model of the command line: %d %s", status, text)
	}
	s.post("/api/copy", `{"source":"new","destination":"go"}`, 409)
}

// A download's progress comes line by line and ends with success or an error; without a stream there is one object.
func TestPullTellsItsProgress(t *testing.T) {
	s, f := managed(t, func(o *Options) { o.AllowManage = true })
	text := s.post("/api/pull", `{"model":"new"}`, 200)
	want := `{"status":"pulling a.gguf","total":10,"completed":1}` + "\n" +
		`{"status":"pulling a.gguf","total":10,"completed":10}` + "\n" + `{"status":"success"}` + "\n"
	if text != want {
		t.Errorf("%s", text)
	}
	if text := s.post("/api/pull", `{"model":"new","stream":false}`, 200); strings.TrimSpace(text) != `{"status":"success"}` {
		t.Errorf("%s", text)
	}
	f.late = errors.New("the line is cut")
	if text := s.post("/api/pull", `{"model":"late"}`, 200); !strings.HasSuffix(text, `{"error":"the line is cut"}`+"\n") {
		t.Errorf("%s", text)
	}
	if text := s.post("/api/pull", `{"model":"late","stream":false}`, 500); !strings.Contains(text, "the line is cut") {
		t.Errorf("%s", text)
	}
	f.err = &Error{Status: 409, Message: "busy"}
	for _, x := range changes[:4] {
		if status, text, _ := s.do(x[0], x[1], x[2]); status != 409 || !strings.Contains(text, `"busy"`) {
			t.Errorf("%v: %d %s", x, status, text)
		}
	}
}

// Fields of the changes: what is wrong is refused by name before the store is asked, and what is right reaches it.
func TestManageFields(t *testing.T) {
	s, f := managed(t, func(o *Options) { o.AllowManage = true })
	for _, c := range [][4]string{
		{"POST", "/api/pull", `{"model":1}`, "model"}, {"POST", "/api/pull", `{}`, "name"},
		{"POST", "/api/pull", `{"model":"a","insecure":true}`, "insecure"}, {"POST", "/api/pull", `{"model":"a","stream":1}`, "stream"},
		{"DELETE", "/api/delete", `{}`, "name"}, {"DELETE", "/api/delete", `{"model":"a","from":"b"}`, "from"},
		{"POST", "/api/copy", `{"source":"a"}`, "name"}, {"POST", "/api/copy", `{"source":1,"destination":"b"}`, "source"},
		{"POST", "/api/copy", `{"source":"a","destination":[]}`, "destination"},
		{"POST", "/api/create", `{"model":"a"}`, "name"}, {"POST", "/api/create", `{"model":"a","from":1}`, "from"},
		{"POST", "/api/create", `{"model":"a","from":"b","system":1}`, "system"},
		{"POST", "/api/create", `{"model":"a","from":"b","template":1}`, "template"},
		{"POST", "/api/create", `{"model":"a","from":"b","template":"{{ .Prompt }}"}`, "template"},
		{"POST", "/api/create", `{"model":"a","from":"b","parameters":[]}`, "parameters"},
		{"POST", "/api/create", `{"model":"a","from":"b","parameters":{"seeds":1}}`, "parameters.seeds"},
		{"POST", "/api/create", `{"model":"a","from":"b","parameters":{"top_p":2}}`, "parameters.top_p"},
		{"POST", "/api/create", `{"model":"a","from":"b","quantize":"q4_0"}`, "quantize"},
		{"POST", "/api/create", `{"model":"a","modelfile":"FROM b"}`, "modelfile"},
	} {
		if status, text, _ := s.do(c[0], c[1], c[2]); status != 400 || !strings.Contains(text, c[3]) {
			t.Errorf("%v: %d %s", c, status, text)
		}
	}
	if f.asked != nil {
		t.Errorf("%q", f.asked)
	}
	s.post("/api/create", `{"model":"a","from":"kept","system":"S","template":"T","parameters":{"top_k":3,"stop":["x","y"]}}`, 200)
	if want := `create a kept S T {"top_k":3,"stop":["x","y"]}`; len(f.asked) != 1 || f.asked[0] != want {
		t.Errorf("%q", f.asked)
	}
}

// The parameters and the system message of a model hold where a request does not say otherwise.
func TestParametersOfAModel(t *testing.T) {
	s := newTester(t, func(o *Options) {
		o.Models[0].System, o.Models[0].Parameters = "Be brief.", []byte(`{"num_predict":2,"stop":"zzz","seed":7}`)
		o.Models = append(o.Models, entry(t, "other"))
	})
	count := func(path, body string) float64 {
		t.Helper()
		return decode(t, s.post(path, body, 200)).get(t, "usage", "completion_tokens").(float64)
	}
	for body, want := range map[string]float64{
		`{"prompt":"func main"}`: 2, `{"prompt":"func main","max_tokens":3}`: 3, `{"model":"go","prompt":"func main"}`: 2,
		`{"model":"other","prompt":"func main","max_tokens":4}`: 4,
	} {
		if got := count("/v1/completions", body); got != want {
			t.Errorf("%s: %v tokens", body, got)
		}
	}
	for body, want := range map[string]bool{
		`{"messages":[{"role":"user","content":"x"}]}`:                                            true,
		`{"messages":[{"role":"system","content":"Y"},{"role":"user","content":"x"}]}`:            false,
		`{"model":"other","messages":[{"role":"user","content":"x"}]}`:                            false,
		`{"model":"go","messages":[{"role":"user","content":"x"}],"add_generation_prompt":false}`: true,
	} {
		if text := s.post("/apply-template", body, 200); strings.Contains(text, "Be brief.") != want {
			t.Errorf("%s: %s", body, text)
		}
	}
}

// A download may take longer than requests: it ends by itself where no more of it comes.
func TestDownloadsHaveNoRequestTime(t *testing.T) {
	s, f := managed(t, func(o *Options) { o.AllowManage, o.RequestTime = true, time.Hour })
	s.post("/api/pull", `{"model":"new"}`, 200)
	if f.bound || len(f.asked) != 1 {
		t.Errorf("%q, with a time: %v", f.asked, f.bound)
	}
}
