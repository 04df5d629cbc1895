package serve

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/specgo/spec"
)

// status waits until a model's place in memory is no longer that of a load under way.
func (s *tester) status(name string) modelStatus {
	s.t.Helper()
	var status modelStatus
	s.wait(func() bool {
		_, status = s.models.statusOf(name)
		return status.Value != "loading"
	})
	return status
}

// Models are loaded and unloaded by llama.cpp's endpoints, and lists say which are in memory and which failed.
func TestRouter(t *testing.T) {
	var l loadLog
	s := newTester(t, func(o *Options) {
		o.Models = []Entry{l.entry(t, "a", 60, nil), l.entry(t, "b", 60, nil), l.entry(t, "bad", 1, errors.New("broken")),
			l.entry(t, "large", 101, nil)}
		o.Memory, o.AllowManage = 100, true
	})
	listed := func() string {
		var list []string
		for i := range s.o.Models {
			o := decode(t, s.page("/models"))
			status, _ := o.get(t, "data", i, "status").(map[string]any)
			list = append(list, fmt.Sprint(o.get(t, "data", i, "id"), ":", status["value"], status["failed"] == true))
		}
		return strings.Join(list, " ")
	}
	change := func(what, name string) {
		t.Helper()
		if got := s.post("/models/"+what, fmt.Sprintf(`{"model":%q}`, name), 200); got != `{"success":true}`+"\n" {
			t.Errorf("%s %s: %s", what, name, got)
		}
	}
	if got := listed(); got != "a:unloadedfalse b:unloadedfalse bad:unloadedfalse large:unloadedfalse" {
		t.Error(got)
	}
	for _, name := range []string{"a", "a", "bad", "large"} {
		change("load", name)
		s.status(name)
	}
	if got := listed(); got != "a:loadedfalse b:unloadedfalse bad:unloadedtrue large:unloadedtrue" {
		t.Error(got)
	}
	first := decode(t, s.page("/models"))
	m, _ := s.models.statusOf("a")
	for key, want := range map[string]int64{"n_ctx": int64(m.Context()), "n_params": m.Target().Parameters(),
		"n_ctx_train": int64(m.Target().Config().Context), "size": m.Target().Bytes()} {
		if got := first.get(t, "data", 0, "meta", key); got != float64(want) || want == 0 {
			t.Errorf("%s is %v, want %d", key, got, want)
		}
	}

	// One that is in use stays, and what is loaded meanwhile waits for its memory.
	_, release, err := s.models.acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	change("load", "b")
	change("load", "b")
	change("unload", "a")
	if got := listed(); got != "a:loadedfalse b:loadingfalse bad:unloadedtrue large:unloadedtrue" {
		t.Error(got)
	}
	release()
	s.status("b")
	change("unload", "bad") // it is in memory no more than before
	if got := listed(); got != "a:unloadedfalse b:loadedfalse bad:unloadedtrue large:unloadedtrue" {
		t.Error(got)
	}
	change("unload", "b")
	if got := fmt.Sprint(l.list()); got != "[+a -a +b -b]" {
		t.Error(got)
	}

	for _, what := range []string{"load", "unload"} {
		for body, status := range map[string]int{`{"model":"none"}`: 404, `{}`: 400, `{"model":null}`: 400, `{"model":7}`: 400,
			`{"model":"a","nonsense":1}`: 400} {
			s.post("/models/"+what, body, status)
		}
	}
}

// Everybody may have a model loaded, as every request does; unloading is for those who manage models.
func TestRouterRights(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Keys = []Key{{Secret: "boss", Admin: true}, {Secret: "guest"}} })
	for _, x := range []struct {
		what, key string
		status    int
	}{{"load", "guest", 200}, {"load", "", 401}, {"unload", "guest", 403}, {"unload", "", 401}, {"unload", "boss", 200}} {
		status, text, _ := s.do("POST", "/models/"+x.what, `{"model":"go"}`, "Authorization", "Bearer "+x.key)
		if status != x.status {
			t.Errorf("%s by %q: %d %s", x.what, x.key, status, text)
		}
		s.status("go")
	}
	if _, status := s.models.statusOf("go"); status.Value != "unloaded" {
		t.Error(status)
	}
}

// A model that is unloaded while it is being loaded, or waits for memory, is not there in the end, and has not failed.
// One that is loaded again before stays.
func TestUnloadWhileLoading(t *testing.T) {
	var l loadLog
	begun, let := make(chan bool, 9), make(chan bool)
	slow := l.entry(t, "a", 60, nil)
	load := slow.Load
	slow.Load = func(ctx context.Context) (*spec.Model, error) {
		begun <- true
		<-let
		return load(ctx)
	}
	s := newTester(t, func(o *Options) {
		o.Models, o.Memory, o.AllowManage = []Entry{slow, l.entry(t, "b", 60, nil)}, 100, true
	})
	change := func(what, name string) {
		t.Helper()
		s.post("/models/"+what, fmt.Sprintf(`{"model":%q}`, name), 200)
	}
	for _, again := range []bool{false, true} {
		change("load", "a")
		<-begun
		change("unload", "a")
		if again {
			change("load", "a")
		}
		let <- true
		want := modelStatus{Value: map[bool]string{false: "unloaded", true: "loaded"}[again]}
		s.wait(func() bool { _, got := s.models.statusOf("a"); return got == want })
	}
	_, release, err := s.models.acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	change("load", "b")
	change("unload", "b")
	s.wait(func() bool { return s.status("b") == modelStatus{Value: "unloaded"} })
	release()
	if got := fmt.Sprint(l.list()); got != "[+a -a +a]" {
		t.Error(got)
	}
}

// A server that is closed while a model waits to be loaded ends.
func TestRouterClosed(t *testing.T) {
	var l loadLog
	s := newTester(t, func(o *Options) {
		o.Models, o.Memory = []Entry{l.entry(t, "a", 60, nil), l.entry(t, "b", 60, nil)}, 100
	})
	_, release, err := s.models.acquire(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	s.post("/models/load", `{"model":"b"}`, 200)
	s.Close()
	release()
	if got := fmt.Sprint(l.list()); got != "[+a -a]" {
		t.Error(got)
	}
}
