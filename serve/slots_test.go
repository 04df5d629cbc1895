package serve

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/specgo/spec"
)

// slotPrompt is a prompt of some tokens.
const slotPrompt = "package main\\n\\nimport (\\n\\t\\\"fmt\\\"\\n)\\n\\nfunc main() " +
	"{\\n\\tfmt.Println(\\\"hello\\\")\\n}\\n\\nfunc add(a, b int) int {"

// ask sends a prompt to /completion and returns the answer.
func (s *tester) ask(prompt, more string, header ...string) object {
	s.t.Helper()
	status, text, _ := s.do("POST", "/completion", `{"prompt":"`+prompt+`","n_predict":8,"temperature":0`+more+`}`,
		header...)
	if status != 200 {
		s.t.Fatal(status, text)
	}
	return decode(s.t, text)
}

// slot does something to a slot.
func (s *tester) slot(id int, action, body string, want int, header ...string) object {
	s.t.Helper()
	status, text, _ := s.do("POST", fmt.Sprintf("/slots/%d?action=%s", id, action), body, header...)
	if status != want {
		s.t.Fatalf("%s of slot %d: %d %s, want %d", action, id, status, text, want)
	}
	return decode(s.t, text)
}

// number is a number of an answer.
func (o object) number(t testing.TB, path ...any) int {
	t.Helper()
	return int(o.get(t, path...).(float64))
}

// What one server has saved of a slot another one goes on from, and the draft model too: the same text, of which
// nothing is computed again. An erased slot's prompt is computed anew.
func TestSlotsAreSavedAndRestored(t *testing.T) {
	dir := t.TempDir()
	files := func(o *Options) { o.SlotFiles.Dir = dir }
	const draft = `,"speculation":{"drafter":"model","schedule":"constant","max":2},"id_slot":1`
	a := newTester(t, files)
	first := a.ask(slotPrompt, draft)
	n, said := first.number(t, "tokens_evaluated"), first.get(t, "content").(string)
	if first.number(t, "id_slot") != 1 || first.number(t, "timings", "cache_n") != 0 {
		t.Fatalf("%v", first)
	}
	saved := a.slot(1, "save", `{"filename":"one.bin"}`, 200)
	info, err := os.Stat(filepath.Join(dir, "one.bin"))
	if err != nil {
		t.Fatal(err)
	}
	held := saved.number(t, "n_saved")
	if held < n+7 || held > n+10 || saved.number(t, "id_slot") != 1 || saved.get(t, "filename") != "one.bin" ||
		int64(saved.number(t, "n_written")) != info.Size() || saved.get(t, "timings", "save_ms") == nil {
		t.Errorf("saved: %v; a prompt of %d tokens, a file of %d bytes", saved, n, info.Size())
	}
	longer := slotPrompt + strings.NewReplacer("\n", `\n`, "\t", `\t`, `"`, `\"`).Replace(said) + " // and"
	want := newTester(t, nil).ask(longer, draft).get(t, "content")

	b := newTester(t, files)
	restored := b.slot(0, "restore", `{"filename":"one.bin"}`, 200)
	if restored.number(t, "n_restored") != held || restored.number(t, "n_read") < held ||
		restored.get(t, "timings", "restore_ms") == nil || restored.number(t, "id_slot") != 0 {
		t.Errorf("restored: %v", restored)
	}
	got := b.ask(longer, draft)
	if got.get(t, "content") != want {
		t.Errorf("%q, want %q", got.get(t, "content"), want)
	}
	if c := got.number(t, "timings", "cache_n"); c < n {
		t.Errorf("%d of %d tokens are from the file", c, held)
	}
	if x := b.models.resident()[0].Stats().Draft; x.PrefixTokens < int64(n)-4 || x.Restored == 0 {
		t.Errorf("the draft model goes on from %d of %d tokens", x.PrefixTokens, n)
	}
	b.slot(2, "restore", `{"filename":"one.bin"}`, 200)
	again := b.slot(2, "save", `{"filename":"two.bin"}`, 200) // of a slot that was restored, and has computed nothing
	if again.number(t, "n_saved") != held {
		t.Errorf("saved again: %v", again)
	}
	shorter := b.ask("func main", `,"id_slot":2`)
	b.slot(2, "save", `{"filename":"two.bin"}`, 200)
	if r := b.slot(3, "restore", `{"filename":"two.bin"}`, 200); r.number(t, "n_restored") >= n ||
		r.number(t, "n_restored") < shorter.number(t, "tokens_evaluated") {
		t.Errorf("a file that was written anew: %v", r)
	}

	c := newTester(t, files)
	c.ask(slotPrompt, draft)
	if x := c.ask(slotPrompt, draft); x.number(t, "timings", "prompt_n") > 1 {
		t.Errorf("the prompt is computed again: %v", x)
	}
	erased := c.slot(1, "erase", "", 200)
	if erased.number(t, "n_erased") < n || erased.number(t, "id_slot") != 1 {
		t.Errorf("erased: %v", erased)
	}
	if x := c.ask(slotPrompt, draft); x.number(t, "timings", "cache_n") != 0 || x.get(t, "content") != said {
		t.Errorf("after it was erased: %v", x)
	}
	c.ask(slotPrompt, `,"id_slot":2`) // another slot holds the same
	c.slot(1, "erase", "", 200)
	if x := c.ask(slotPrompt, `,"id_slot":3`); x.number(t, "timings", "cache_n") < n-1 {
		t.Errorf("what another slot holds is gone: %v", x)
	}
	if x := c.slot(7, "erase", "{}", 200); x.number(t, "n_erased") == 0 || x.number(t, "id_slot") != 7 { // the fourth
		t.Errorf("a slot beyond the last: %v", x)
	}
}

// A slot's text belongs to the key, and the cache_salt, that it was computed with, and so do files.
func TestSlotsAreTheKeysOwn(t *testing.T) {
	dir := t.TempDir()
	keys := func(o *Options) { o.SlotFiles.Dir, o.Keys = dir, []Key{{Secret: "one"}, {Secret: "two"}} }
	a, b := newTester(t, keys), newTester(t, keys)
	one, two := []string{"X-Api-Key", "one"}, []string{"X-Api-Key", "two"}
	a.ask(slotPrompt, `,"id_slot":1`, one...)
	a.slot(1, "save", `{"filename":"two.bin"}`, 400, two...)
	if x := a.slot(1, "erase", "", 200, two...); x.number(t, "n_erased") != 0 {
		t.Errorf("another's slot is erased: %v", x)
	}
	a.slot(1, "save", `{"filename":"one.bin","cache_salt":"x"}`, 400, one...)
	a.slot(1, "save", `{"filename":"one.bin"}`, 200, one...)
	b.slot(1, "restore", `{"filename":"one.bin"}`, 404, two...)
	b.slot(1, "restore", `{"filename":"one.bin","cache_salt":"x"}`, 404, one...)
	a.ask(slotPrompt, `,"id_slot":1`, two...)
	a.slot(1, "save", `{"filename":"one.bin"}`, 400, two...) // it would replace the other's
	a.slot(1, "save", `{"filename":"two.bin"}`, 200, two...)
	b.slot(1, "restore", `{"filename":"one.bin"}`, 200, one...)
	if x := b.ask(slotPrompt, "", two...); x.number(t, "timings", "cache_n") != 0 {
		t.Errorf("another key goes on from it: %v", x)
	}
	if x := b.ask(slotPrompt, "", one...); x.number(t, "timings", "cache_n") == 0 {
		t.Errorf("its own key does not: %v", x)
	}
	if status, _, _ := a.do("POST", "/slots/1?action=erase", ""); status != 401 {
		t.Errorf("without a key: %d", status)
	}
}

// Names do not leave the folder, and what is no slot's file of this model stays as it is, with an error that says what
// is wrong.
func TestSlotFilesAreRefused(t *testing.T) {
	dir := t.TempDir()
	inner := filepath.Join(dir, "slots")
	if err := os.Mkdir(inner, 0o700); err != nil {
		t.Fatal(err)
	}
	files := func(o *Options) { o.SlotFiles.Dir, o.Parallel = inner, 2 }
	a := newTester(t, files)
	a.slot(0, "save", `{"filename":"empty.bin"}`, 400)
	a.ask(slotPrompt, `,"id_slot":0`)
	for _, name := range []string{"", ".", "..", "../x", "/tmp/x", "a/b", `a\b`, ".hidden", "x.", "x ", " x", "c:x",
		"a\nb",
		"a\x00b", "nul", "COM1.bin", "a*", strings.Repeat("x", 201), "\u202ex"} {
		body := string(encode(map[string]any{"filename": name}))
		for _, action := range []string{"save", "restore"} {
			if x := a.slot(0, action, body, 400); x.get(t, "error", "param") != "filename" {
				t.Errorf("%q: %v", name, x)
			}
		}
	}
	if list, _ := os.ReadDir(dir); len(list) != 1 {
		t.Errorf("files beside the folder: %v", list)
	}
	for body, param := range map[string]string{`{"filename":1}`: "filename", `{"file":"x"}`: "file", `{}`: "filename",
		`{"filename":"x","lora":[{"id":0,"scale":1}]}`: "lora"} {
		if x := a.slot(0, "restore", body, 400); x.get(t, "error", "param") != param {
			t.Errorf("%s: %v", body, x)
		}
	}
	for path, want := range map[string]int{"/slots/x?action=save": 400, "/slots/-1?action=save": 400, "/slots/0": 400,
		"/slots/0?action=drop": 400, "/slots/0?action=restore": 404, "/slots/0/1?action=save": 404} {
		if status, text, _ := a.do("POST", path, `{"filename":"none.bin"}`); status != want {
			t.Errorf("%s: %d %s, want %d", path, status, text, want)
		}
	}
	a.slot(0, "save", `{"filename":"good.bin"}`, 200)
	whole, err := os.ReadFile(filepath.Join(inner, "good.bin"))
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)/3] ^= 1
	for what, data := range map[string][]byte{"another kind": []byte(strings.Repeat("GGUF", 99)), "damaged": flipped,
		"cut": whole[:len(whole)/2], "no contents": whole[:len(whole)-len(whole)/8]} {
		if err := os.WriteFile(filepath.Join(inner, "bad.bin"), data, 0o600); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(a.slot(1, "restore", `{"filename":"bad.bin"}`, 400).get(t, "error", "message"))
		if word := strings.Fields(what)[0]; word == "another" && !strings.Contains(text, "another kind") ||
			word != "another" && !strings.Contains(text, "damaged") {
			t.Errorf("%s: %s", what, text)
		}
		if what == "another kind" {
			a.slot(0, "save", `{"filename":"bad.bin"}`, 400)
			if now, _ := os.ReadFile(filepath.Join(inner, "bad.bin")); string(now) != string(data) {
				t.Error("another program's file is overwritten")
			}
		}
	}
	q8 := newTester(t, func(o *Options) {
		files(o)
		with(t, func(o *spec.Options) { o.KV = "q8_0" })(o)
	})
	if x := q8.slot(0, "restore", `{"filename":"good.bin"}`, 400); !strings.Contains(fmt.Sprint(x), "q8_0") {
		t.Errorf("another storage: %v", x)
	}
	short := newTester(t, func(o *Options) { files(o); with(t, func(o *spec.Options) { o.Context = 20 })(o) })
	if x := short.slot(0, "restore", `{"filename":"good.bin"}`, 400); !strings.Contains(fmt.Sprint(x), "context") {
		t.Errorf("a shorter context: %v", x)
	}
	none := newTester(t, func(o *Options) { files(o); with(t, func(o *spec.Options) { o.Memory.Cache = -1 })(o) })
	none.slot(0, "restore", `{"filename":"good.bin"}`, 501)
	if err := os.Remove(filepath.Join(inner, "bad.bin")); err != nil {
		t.Fatal(err)
	}
	full := newTester(t, func(o *Options) { files(o); o.SlotFiles.Bytes = int64(len(whole)) * 3 / 2 })
	full.ask(slotPrompt, `,"id_slot":0`)
	full.slot(0, "save", `{"filename":"more.bin"}`, 507)
	if _, err := os.Stat(filepath.Join(inner, "more.bin")); err == nil {
		t.Error("a file beyond the bound")
	}
	if list, _ := filepath.Glob(filepath.Join(inner, ".*")); len(list) > 0 {
		t.Errorf("left behind: %v", list)
	}
	off := newTester(t, nil)
	off.slot(0, "save", `{"filename":"x"}`, 501)
	off.slot(0, "erase", "", 501)
}

// /slots shows what is computed, as monitors of llama.cpp's server read it. A prompt is shown to the key that has sent
// it, and to nobody where there are no keys.
func TestSlotsShowAnswers(t *testing.T) {
	s := newTester(t, func(o *Options) {
		o.SlotFiles.Dir, o.Keys, o.Parallel = t.TempDir(), []Key{{Secret: "one"}, {Secret: "two"}}, 2
	})
	show := func(query, key string) []any {
		t.Helper()
		status, text, _ := s.do("GET", "/slots"+query, "", "X-Api-Key", key)
		if status != 200 {
			t.Fatal(status, text)
		}
		return decode(t, `{"list":`+text+`}`).get(t, "list").([]any)
	}
	at := func(list []any, i int) object { return list[i].(map[string]any) }
	if list := show("", "one"); len(list) != 2 || at(list, 1)["params"] != nil || at(list, 1)["is_processing"] != false {
		t.Errorf("before any answer: %v", list)
	}
	release, h := s.hold()
	done := make(chan object, 2)
	for _, key := range []string{"one", "two"} {
		go func() {
			done <- s.ask("func main() {\\n\\tx", `,"id_slot":1,"seed":7,"top_k":5,"n_keep":3,"stream":false`, "X-Api-Key", key)
		}()
		<-h.entered
	}
	list := show("?fail_on_no_slot=", "one")
	mine := at(list, 1)
	if mine["prompt"] == nil && at(list, 0)["prompt"] != nil {
		mine = at(list, 0)
	}
	if text := fmt.Sprint(mine["prompt"]); !strings.Contains(text, "func main() {\n\tx") {
		t.Errorf("the prompt: %q", text)
	}
	if a, b := at(list, 0), at(list, 1); a["is_processing"] != true || b["is_processing"] != true ||
		(a["prompt"] == nil) == (b["prompt"] == nil) || a["id"] != 0. || b["id"] != 1. {
		t.Errorf("two answers of two keys: %v", list)
	}
	if mine.get(t, "params", "top_k") != 5. || mine.get(t, "params", "n_predict") != 8. ||
		mine.get(t, "params", "seed") != 7. ||
		mine.get(t, "params", "n_keep") != 3. ||
		mine.get(t, "params", "n_discard") != 0. || mine.get(t, "params", "min_keep") != 0. ||
		mine.get(t, "params", "samplers", 0) != "penalties" ||
		mine.get(t, "params", "stream") != false || mine["n_ctx"] == 0. || mine["speculative"] != true ||
		mine.number(t, "id_task") < 1 || mine.get(t, "next_token", 0, "has_next_token") != true ||
		mine.get(t, "next_token", 0, "n_remain") != 8. || mine.get(t, "next_token", 0, "n_decoded") != 0. {
		t.Errorf("%v", mine)
	}
	if status, text, _ := s.do("GET", "/slots?fail_on_no_slot=1", "", "X-Api-Key", "one"); status != 503 ||
		!strings.Contains(text, "no slot available") {
		t.Errorf("no slot: %d %s", status, text)
	}
	release()
	for range 2 {
		if o := <-done; o["id_slot"] != 1. {
			t.Errorf("a slot that was asked for: %v", o["id_slot"])
		}
	}
	last := at(show("?fail_on_no_slot=1", "one"), 1)
	if last["is_processing"] != false || last.get(t, "next_token", 0, "n_decoded") != 8. ||
		last.get(t, "next_token", 0, "n_remain") != 0. || last.get(t, "next_token", 0, "has_next_token") != false ||
		last.number(t, "n_prompt_tokens") != last.number(t, "n_prompt_tokens_processed")+
			last.number(t, "n_prompt_tokens_cache") {
		t.Errorf("behind the answers: %v", last)
	}
	if status, _, _ := s.do("GET", "/slots?model=go", "", "X-Api-Key", "one"); status != 200 {
		t.Errorf("the model by its name: %d", status)
	}
	open := newTester(t, nil)
	open.ask("func", "")
	if text := open.page("/slots"); strings.Contains(text, `"prompt"`) || !strings.Contains(text, `"params"`) {
		t.Errorf("without keys: %s", text)
	}
}

// Who waits for a slot that is in use keeps nobody from another one, and gets what the answer leaves.
func TestBusySlotsAreWaitedFor(t *testing.T) {
	s := newTester(t, func(o *Options) { o.SlotFiles.Dir = t.TempDir() })
	s.ask(slotPrompt, `,"id_slot":1`)
	release, h := s.hold()
	defer release()
	asked, saved := make(chan object, 1), make(chan object, 1)
	go func() { asked <- s.ask("func main", `,"id_slot":0`) }()
	<-h.entered
	go func() { saved <- s.slot(0, "save", `{"filename":"busy.bin"}`, 200) }()
	s.wait(func() bool { return s.inside.Load() == 2 })
	if x := s.slot(1, "erase", "", 200); x.number(t, "n_erased") == 0 {
		t.Errorf("erased: %v", x)
	}
	select {
	case x := <-saved:
		t.Errorf("saved while the slot is in use: %v", x)
	default:
	}
	release()
	n := (<-asked).number(t, "tokens_evaluated")
	if x := <-saved; x.number(t, "n_saved") <= n {
		t.Errorf("saved: %v of a prompt of %d tokens and its answer", x, n)
	}
}

// An answer that asks for no slot gets the one whose text it goes on with, else the one that was used longest ago.
func TestSlotsAreChosen(t *testing.T) {
	s := newTester(t, func(o *Options) { o.Parallel = 3 })
	for i, x := range []struct {
		prompt, more string
		want         int
	}{
		{slotPrompt, "", 0}, {"func main", "", 1}, {slotPrompt + " x", "", 0}, {"type T struct {", "", 2},
		{"type T struct {", `,"cache_salt":"s"`, 1}, {slotPrompt, `,"id_slot":5`, 2}, {"var x", "", 0},
	} {
		if got := s.ask(x.prompt, x.more).number(t, "id_slot"); got != x.want {
			t.Errorf("request %d is in slot %d, want %d", i, got, x.want)
		}
	}
}

// A text that comes into a slot while the one before it is erased is not lost: it is the one that is erased, or still
// there. Who waits for a lock longer than a millisecond gets it in turn, so that it most likely comes in between.
func TestOnlyWhatIsFoundIsErased(t *testing.T) {
	table := newSlotTable(1)
	for round := range int32(10) {
		table.put(0, spec.Held{Tokens: []int32{-1}})
		var erased spec.Held
		var wait sync.WaitGroup
		table.mu.Lock()
		for _, f := range []func(){
			func() { erased, _, _ = table.take(t.Context(), 0, "") },
			func() { table.put(0, spec.Held{Tokens: []int32{round}}) },
		} {
			wait.Go(f)
			time.Sleep(3 * time.Millisecond)
		}
		table.mu.Unlock()
		table.mu.Lock() // before who was woken, which asks for its turn then
		time.Sleep(3 * time.Millisecond)
		table.mu.Unlock()
		wait.Wait()
		if left := table.list[0].held; !slices.Contains(slices.Concat(erased.Tokens, left.Tokens), round) {
			t.Fatalf("round %d: erased %d, left %d", round, erased.Tokens, left.Tokens)
		}
	}
}

// What is erased is told with what others have of it: other slots' texts of the same salt, not one of another.
func TestWhatIsErasedIsTheSalts(t *testing.T) {
	table := newSlotTable(3)
	put := func(id int, salt string, tokens ...int32) { table.put(id, spec.Held{Tokens: tokens, Salt: salt}) }
	put(0, "a", 1, 2, 3, 4)
	put(1, "a", 1, 2, 9)
	put(2, "b", 1, 2, 3, 4)
	for _, x := range []struct {
		id           int
		salt         string
		held, shared int
	}{{0, "b", 0, 0}, {3, "a", 4, 2}, {0, "a", 0, 0}, {1, "a", 3, 0}, {2, "b", 4, 0}} {
		held, shared, err := table.take(t.Context(), x.id, x.salt)
		if err != nil || len(held.Tokens) != x.held || shared != x.shared {
			t.Errorf("%+v: %+v, %d shared, %v", x, held, shared, err)
		}
	}
}
