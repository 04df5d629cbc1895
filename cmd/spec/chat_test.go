package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/chat"
)

// greedyChat is a conversation with the embedded pair that always says the same.
var greedyChat = []string{"chat", "--chat-template", "plain", "--temp", "0", "-n", "16"}

func with(args []string, more ...string) []string {
	return append(append([]string{}, args...), more...)
}

func savedMessages(t *testing.T, path string) []chat.Message {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var saved savedChat
	if err := json.Unmarshal(data, &saved); err != nil || saved.Schema != 1 {
		t.Fatalf("%s: %v", data, err)
	}
	return saved.Messages
}

// A scripted session: answers are what generate writes for the same prompt, turns follow each other, and
// drafts change nothing.
func TestChatSession(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chat.json")
	script := "func main() {\n/save " + file + "\nfunc Add(a, b int) int {\n/stats\n"
	stdout, stderr, code := spec(t, script, greedyChat...)
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	messages := savedMessages(t, file)
	if len(messages) != 2 || messages[0].Content != "func main() {" || messages[1].Role != "assistant" ||
		messages[1].Content == "" {
		t.Fatalf("saved %+v", messages)
	}
	first, _, code := spec(t, "", "generate", "-p", "User: func main() {\nAssistant:", "--no-escape", "--temp", "0", "-n",
		"16", "--stop", "\nUser:")
	if code != exitDone || !strings.HasPrefix(stdout, first) || messages[1].Content != first {
		t.Errorf("the first answer is %q, generate writes %q", messages[1].Content, first)
	}
	second, _, _ := spec(t, "", "generate", "-p", "User: func main() {\nAssistant:"+first+"\nUser: func Add(a, b int) "+
		"int {\nAssistant:", "--no-escape", "--temp", "0", "-n", "16", "--stop", "\nUser:")
	if !strings.Contains(stdout[len(first):], second) || second == "" {
		t.Errorf("the second answer is not %q: %q", second, stdout)
	}
	plain, _, _ := spec(t, script, with(greedyChat, "--drafter", "none")...)
	if plain != stdout {
		t.Errorf("without drafts:\n%q\nwith:\n%q", plain, stdout)
	}
	if !strings.Contains(stderr, "drafted tokens accepted") {
		t.Errorf("no drafts: %s", stderr)
	}
	run, _, _ := spec(t, script, with([]string{"run"}, greedyChat[1:]...)...)
	generate, _, _ := spec(t, script, with([]string{"generate", "-cnv"}, greedyChat[1:]...)...)
	if run != stdout || generate != stdout {
		t.Error("run or generate -cnv writes something else than chat")
	}
}

// The budget may end where the text could be the beginning of a stop string: what was held back is on the screen, in
// the history and in what /save writes, and /set changes the budget of the turns to come.
func TestChatBudgetShowsWhatWasHeldBack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chat.json")
	plain, _, _ := spec(t, "func main() {\n", greedyChat...)
	begin := plain[strings.LastIndexByte(strings.TrimRight(plain, "\n"), '\n')+1:] // the last line of the answer
	begin = strings.TrimRight(begin, "\n")
	if begin == "" {
		t.Fatalf("no last line in %q", plain)
	}
	stops := with(greedyChat, "--stop", begin+"\x00")
	for _, args := range [][]string{stops, with(stops, "--drafter", "none")} {
		stdout, stderr, code := spec(t, "func main() {\n/save "+file+"\n/clear\n/set predict 3\nfunc main() {\n/stats\n",
			args...)
		if code != exitDone || !strings.HasPrefix(stdout, plain) {
			t.Errorf("%s: exit %d, %q, without --stop %q", args, code, stdout, plain)
		}
		if got := savedMessages(t, file)[1].Content; got != strings.TrimRight(plain, "\n") && got != plain {
			t.Errorf("%s: saved %q of %q", args, got, plain)
		}
		if !strings.Contains(stderr, "3 tokens") {
			t.Errorf("/set predict 3: %s", stderr)
		}
	}
}

// The second turn computes only what is new.
func TestChatReuse(t *testing.T) {
	_, stderr, code := spec(t, "func main() {\n/stats\nfunc Add(a, b int) int {\n/stats\n", greedyChat...)
	found := regexp.MustCompile(`prompt of (\d+) tokens, (\d+) of them reused.*, (\d+) used`).FindAllStringSubmatch(
		stderr, -1)
	if code != exitDone || len(found) != 2 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	number := func(turn, i int) int {
		n, _ := strconv.Atoi(found[turn][i])
		return n
	}
	if number(0, 2) != 0 {
		t.Errorf("the first prompt is reused: %s", stderr)
	}
	// All of the first turn but at most the answer's last token, which is never fed, and its neighbor.
	if used, reused := number(0, 3), number(1, 2); reused < used-2 || reused <= number(0, 1) {
		t.Errorf("%d tokens of the first turn's %d are reused: %s", reused, used, stderr)
	}
}

func TestChatCommands(t *testing.T) {
	dir := t.TempDir()
	a, b, c, e := filepath.Join(dir, "a.json"), filepath.Join(dir, "b.json"), filepath.Join(dir, "c.json"),
		filepath.Join(dir, "e.json")
	script := strings.Join([]string{
		"/system You write Go.", "/system", "one\\", "two", `"""three`, "", `four"""`, "//five", "/save " + a,
		"/undo", "/save " + b, "/set temp 0.9", "/set seed 7", "six", "/regen", "/save " + c, "/load " + a, "/clear",
		"/save " + e, "/set", "/help", "/quit", "never",
	}, "\n")
	_, stderr, code := spec(t, script, greedyChat...)
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	users := func(path string) string {
		var all []string
		for _, m := range savedMessages(t, path) {
			if m.Role != "assistant" {
				all = append(all, m.Content)
			}
		}
		return strings.Join(all, "|")
	}
	for path, want := range map[string]string{
		a: "You write Go.|one\ntwo|three\n\nfour|/five", b: "You write Go.|one\ntwo|three\n\nfour",
		c: "You write Go.|one\ntwo|three\n\nfour|six", e: "You write Go.",
	} {
		if got := users(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if n := len(savedMessages(t, c)); n != 7 {
		t.Errorf("%d messages after /regen, want 7", n)
	}
	for _, want := range []string{"You write Go.\n", "(saved 7 messages", "(loaded 7 messages)", "temp             0.9",
		"seed             8", "/regen", "when-full        stop"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("standard error lacks %q: %s", want, stderr)
		}
	}
	if _, stderr, code := spec(t, "/save "+e+"\n",
		with(greedyChat, "--load", a)...); code != exitDone || users(e) != users(a) {
		t.Errorf("--load: exit %d: %s", code, stderr)
	}
}

// A template brings the texts that begin the user's turn: they end an answer, beside those of --stop.
func TestChatTemplateStops(t *testing.T) {
	m := target(t)
	for name, want := range map[string]string{
		"plain": "[x \nUser:]", "vicuna": "[x \nUSER:]", "alpaca": "[x \n### Instruction:]", "chatml": "[x]"} {
		g := options[*converse](t, "chat", "--chat-template", name, "--stop", "x", "-n", "5")
		_, stops, err := g.templateSource(m, "m")
		if err != nil {
			t.Fatal(err)
		}
		r, err := g.request()
		if got := fmt.Sprint(append(r.Stop, stops...)); err != nil || got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

// /regen draws anew, the same line typed again does not.
func TestChatRegen(t *testing.T) {
	args := []string{"chat", "--chat-template", "plain", "-n", "12", "-s", "3"}
	stdout, _, _ := spec(t, "func main() {\n/regen\n", args...)
	once, _, _ := spec(t, "func main() {\n", args...)
	again, _, _ := spec(t, "func main() {\n/undo\nfunc main() {\n", args...)
	if !strings.HasPrefix(stdout, once) || stdout == once+once {
		t.Errorf("regenerated: %q", stdout)
	}
	if again != once+once {
		t.Errorf("undone and said again: %q, want %q twice", again, once)
	}
	for _, said := range []string{"/draft none\nfunc main() {\n/regen\n", "func main() {\n/draft none\n/regen\n"} {
		if got, errs, code := spec(t, said, args...); got != stdout || code != exitDone {
			t.Errorf("%q, without drafts: exit %d, %q, want %q: %s", said, code, got, stdout, errs)
		}
	}
	earlier := filepath.Join(t.TempDir(), "earlier")
	write(t, earlier, once)
	for _, c := range []struct {
		more       []string
		said, want string
	}{{[]string{"--drafter", "none"}, "func main() {\n/regen\n", stdout},
		{[]string{"--draft-from", earlier}, "/draft none\nfunc main() {\n", once}} {
		if got, errs, code := spec(t, c.said, append(args, c.more...)...); got != c.want || code != exitDone {
			t.Errorf("%q: exit %d, %q, want %q: %s", c.more, code, got, c.want, errs)
		}
	}
}

// Without drafts /regen answers anew too, and so do the messages behind it: the earlier answer, which drafts follow, is
// of no use then.
func TestChatRegenWithoutDrafts(t *testing.T) {
	args := []string{"chat", "--chat-template", "plain", "-n", "12", "-s", "3"}
	want, _, _ := spec(t, "func main() {\n/regen\nfunc Add(\n", args...)
	for script, more := range map[string][]string{
		"func main() {\n/regen\nfunc Add(\n":                      {"--drafter", "none"},
		"func main() {\n/draft none\n/regen\nfunc Add(\n":         nil,
		"/draft none\nfunc main() {\n/regen\n/draft\nfunc Add(\n": nil,
	} {
		if got, stderr, code := spec(t, script, with(args, more...)...); code != exitDone || got != want {
			t.Errorf("%q: exit %d, %q, want %q: %s", script, code, got, want, stderr)
		}
	}
}

// stoppedAtOnce gives the conversation the embedded target. While stops says so, Ctrl-C comes as an answer begins.
func stoppedAtOnce(t *testing.T, d *dialog, stops func() bool) {
	t.Helper()
	source, _ := chat.Builtin("plain")
	m, err := library.New(library.Parts{Target: target(t)}, library.Options{Template: source, Parallel: 1,
		Around: func(s library.Sequence) library.Sequence {
			if stops() {
				d.stop.interrupt()
			}
			return s
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	d.writing = &writing{Model: m, prefill: &watched{}}
	if d.template, err = m.Template(); err != nil {
		t.Fatal(err)
	}
}

// A message whose answer is stopped before its first token is taken back, with the files in front of it, which go with
// the next one; an answer that another one was to replace stays then.
func TestChatStoppedBeforeTheAnswer(t *testing.T) {
	d, _, stderr := newDialog("")
	stops := false
	stoppedAtOnce(t, d, func() bool { return stops })
	d.predict, d.attached = 3, "a.go:\nx\n\n"
	if err := d.say(t.Context(), "func main() {"); err != nil || len(d.messages) != 2 || d.attached != "" {
		t.Fatalf("%v, %+v, %q", err, d.messages, d.attached)
	}
	stops, d.attached = true, "b.go:\ny\n\n"
	before := slices.Clone(d.messages)
	for name, f := range map[string]func() error{
		"a message": func() error { return d.say(t.Context(), "more") },
		"/regen":    func() error { return d.regen(t.Context(), "") },
	} {
		if err := f(); err != nil || !reflect.DeepEqual(d.messages, before) || d.attached == "" {
			t.Errorf("%s: %v, %+v, %q", name, err, d.messages, d.attached)
		}
	}
	if n := strings.Count(stderr.String(), "(stopped)\n"); n != 2 {
		t.Errorf("stopped %d times: %s", n, stderr)
	}
}

// Ctrl-C during the only answer, or before its first token, ends the program as an interrupted one.
func TestSingleTurnInterrupted(t *testing.T) {
	for _, c := range []struct{ stdin, first string }{{"", "func main() {"}, {"func main() {\nmore\n", ""}} {
		d, _, stderr := newDialog(c.stdin)
		stoppedAtOnce(t, d, func() bool { return true })
		d.singleTurn, d.predict = true, 4
		if err := d.run(t.Context(), c.first); !errors.Is(err, errInterrupted) ||
			strings.Count(stderr.String(), "(stopped)\n") != 1 {
			t.Errorf("%q: %v, %s", c.first, err, stderr)
		}
	}
}

func TestChatMistakes(t *testing.T) {
	dir := t.TempDir()
	bad, template := filepath.Join(dir, "bad.json"), filepath.Join(dir, "t.jinja")
	os.WriteFile(bad, []byte(`{"messages":[]}`), 0o666)
	os.WriteFile(template, []byte("a\n{{ b | nosuchfilter }}"), 0o666)
	for _, c := range []struct {
		stdin, want string
		code        int
		args        []string
	}{
		{"", "neither a file nor one of", exitFailed, []string{"chat", "--chat-template", "nosuch"}},
		{"", "line 2: the filter", exitFailed, []string{"chat", "--chat-template", template}},
		{"", "line 2: the filter", exitFailed, []string{"chat", "--chat-template-file", template}},
		{"", "-cnv", exitUsage, []string{"generate", "-sys", "x"}},
		{"", "-cnv", exitUsage, []string{"generate", "--chat-template", "plain"}},
		{"", "-st needs a conversation: -cnv", exitUsage, []string{"generate", "-p", "x", "-st"}},
		{"", "--when-full needs a conv", exitUsage, []string{"generate", "-p", "x", "--when-full", "drop"}},
		{"", "--hide-reasoning needs", exitUsage, []string{"generate", "-p", "x", "--hide-reasoning"}},
		{"", "exclude each other", exitUsage, []string{"chat", "--chat-template", "plain", "--chat-template-file", template}},
		{"", "--json", exitUsage, []string{"generate", "-cnv", "--json"}},
		{"", "unknown flag --json", exitUsage, []string{"chat", "--json"}},
		{"", "a second model; -p TEXT is the first message", exitUsage, []string{"run", "a", "b"}},
		{"", "a second model", exitUsage, []string{"run", "a", "-m", "b"}},
		{"", "a second model", exitUsage, []string{"run", "-hf", "a/b", "c"}},
		{"", "one file at a time", exitUsage, []string{"inspect", "a", "-m", "b"}},
		{"", "one file at a time", exitUsage, []string{"inspect", "-m", "b", "a"}},
		{"", "not a JSON object", exitUsage, []string{"chat", "--chat-template-kwargs", "3"}},
		{"", "standard input", exitUsage, []string{"chat", "-f", "-"}},
		{"", "schema", exitFailed, with(greedyChat, "--load", bad)},
		{"/nosuch\n", "unknown command /nosuch", exitFailed, greedyChat},
		{"/sav\n", "did you mean save?", exitFailed, greedyChat},
		{"/undo\n", "no message", exitFailed, greedyChat},
		{"/regen\n", "no message", exitFailed, greedyChat},
		{"/stats\n", "no answer", exitFailed, greedyChat},
		{"/set nosuch 3\n", "no setting", exitFailed, greedyChat},
		{"/set top-k -2\n", "not between -1 and", exitFailed, greedyChat},
		{"/set predict -2\n", "not between -1 and", exitFailed, greedyChat},
		{"/set top-k -1\n/set\n", "top-k            0\n", exitDone, greedyChat},
		{"/set top-p 3\n", "not between 0 and 1", exitFailed, greedyChat},
		{"/set repeat-penalty 0\n", "not between 1e-06", exitFailed, greedyChat},
		{"/undo now\n", "takes no argument", exitFailed, greedyChat},
		{"/load " + bad + "\n", "schema", exitFailed, greedyChat},
		{`"""open`, "does not end", exitFailed, greedyChat},
		{"hello\n", "refused", exitFailed, []string{"chat", "--chat-template", "{{ raise_exception('never') }}"}},
		{"hello\n", "--reasoning-budget: it and --grammar exclude each other", exitFailed, []string{"chat", "--chat-template",
			"{{ messages[-1].content }}{% if false %}<think></think>{% endif %}", "--reasoning-budget", "9", "--grammar",
			`root ::= "a"`}},
	} {
		_, stderr, code := spec(t, c.stdin, c.args...)
		if code != c.code || !strings.Contains(stderr, c.want) {
			t.Errorf("%q %v: exit %d: %s", c.stdin, c.args, code, stderr)
		}
	}
}

// A full context: the conversation stops, or goes on without its oldest turns.
func TestChatFull(t *testing.T) {
	file := filepath.Join(t.TempDir(), "chat.json")
	line := strings.Repeat("x := y + z; ", 4)
	script := "/system S\n" + strings.Repeat(line+"\n", 8)
	args := with(greedyChat, "-c", "200")
	if _, stderr, code := spec(t, script, args...); code != exitFailed ||
		!strings.Contains(stderr, "the context holds 200") {
		t.Errorf("exit %d: %s", code, stderr)
	}
	_, stderr, code := spec(t, script+"/save "+file+"\n", with(args, "--when-full", "drop")...)
	if code != exitDone || !strings.Contains(stderr, "oldest of") {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	messages := savedMessages(t, file)
	if n := len(messages); n < 3 || n >= 17 || messages[0].Content != "S" || messages[1].Role != "user" ||
		messages[n-1].Role != "assistant" {
		t.Errorf("%d messages left: %+v", n, messages)
	}
	if _, stderr, code := spec(t, strings.Repeat(line, 20)+"\n",
		with(args, "--when-full", "drop")...); code != exitFailed ||
		!strings.Contains(stderr, "the message makes a prompt of") {
		t.Errorf("one long message: exit %d: %s", code, stderr)
	}
}

// -p is the first message, -st ends after its answer, -sys is the system message.
func TestChatFirstMessage(t *testing.T) {
	one, _, code := spec(t, "", with(greedyChat, "-p", "func main() {", "-st")...)
	if code != exitDone || one == "" {
		t.Fatalf("exit %d: %q", code, one)
	}
	both, _, _ := spec(t, "more\n", with(greedyChat, "-p", "func main() {")...)
	if !strings.HasPrefix(both, one) || both == one {
		t.Errorf("%q does not go on from %q", both, one)
	}
	single, _, _ := spec(t, "func main() {\nmore\n", with(greedyChat, "-st")...)
	if single != one {
		t.Errorf("-st: %q", single)
	}
	plain, _, _ := spec(t, "func main() {\n", with(greedyChat, "-st", "-sys", "x")...)
	if asked, _, _ := spec(t, "/system\nfunc main() {\nmore\n", with(greedyChat, "-st", "-sys", "x")...); asked != plain {
		t.Errorf("-st, a command first: %q, want %q", asked, plain)
	}
	system, _, _ := spec(t, "/system\n", with(greedyChat, "-sys", `a\tb`)...)
	_, stderr, _ := spec(t, "/system\n", with(greedyChat, "-sys", `a\tb`)...)
	if system != "" || stderr != "a\tb\n" {
		t.Errorf("-sys: %q", stderr)
	}
	// It counts before that of a conversation that is loaded.
	saved := filepath.Join(t.TempDir(), "saved.json")
	write(t, saved, `{"schema": 1, "messages": [{"role": "system", "content": "old"}, {"role": "user", "content": "x"}]}`)
	for line, want := range map[string]string{"": "old\n", "-sys new": "new\n"} {
		_, stderr, _ := spec(t, "/system\n", with(greedyChat, append(strings.Fields(line), "--load", saved)...)...)
		if stderr != want {
			t.Errorf("%s --load: %q", line, stderr)
		}
	}
	// A file is taken as it stands, but for the end of its last line.
	file := filepath.Join(t.TempDir(), "system.txt")
	write(t, file, "a\\tb\n\n")
	if _, stderr, _ := spec(t, "/system\n", with(greedyChat, "-sysf", file)...); stderr != "a\\tb\n\n" {
		t.Errorf("-sysf: %q", stderr)
	}
	thinks := "{{ 'yes' if enable_thinking else 'no' if enable_thinking is defined }}"
	for line, same := range map[string]string{"": "", "-rea on": "yes", "-rea off": "no", "--reasoning-budget 0": "no",
		"-rea auto": ""} {
		got, _, _ := spec(t, "b\n", append([]string{"chat", "--chat-template", thinks + "{{ x }}", "--temp", "0", "-n", "8",
			"--chat-template-kwargs", `{"x": "func"}`}, strings.Fields(line)...)...)
		want, _, _ := spec(t, "b\n", "chat", "--chat-template", same+"{{ x }}", "--temp", "0", "-n", "8",
			"--chat-template-kwargs", `{"x": "func"}`)
		if got != want || got == "" {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	// A template without a system role: its text goes in front of the first message.
	bare := `{% for m in messages %}{{ raise_exception("no") if m.role == "system" }}{{ m.content }}{% endfor %}`
	got, stderr, _ := spec(t, "b\n", "chat", "--chat-template", bare, "-sys", "a", "--temp", "0", "-n", "8")
	want, _, _ := spec(t, "a\\\n\\\nb\n", "chat", "--chat-template", bare, "--temp", "0", "-n", "8")
	if got != want || got == "" || !strings.Contains(stderr, "no system message") {
		t.Errorf("without a system role: %q, want %q: %s", got, want, stderr)
	}
	kwargs, _, _ := spec(t, "b\n", "chat", "--chat-template", "{{ x }}", "--chat-template-kwargs",
		`{"x": "func main() {"}`, "--temp", "0", "-n", "8")
	want, _, _ = spec(t, "", "generate", "-p", "func main() {", "--temp", "0", "-n", "8")
	if kwargs != want+"\n" {
		t.Errorf("--chat-template-kwargs: %q, want %q", kwargs, want)
	}
}

// Ctrl-C stops the answer and not the program; where nobody types, at the prompt it ends it.
func TestChatInterrupt(t *testing.T) {
	needInterrupts(t)
	in, script, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer script.Close()
	cmd, stdout, stderr := start(t, in, "chat", "--chat-template", "plain", "--ignore-eos", "--drafter",
		"none", "--no-kv-cache")
	text := &firstByte{Writer: stdout, given: make(chan struct{})}
	cmd.Stdout = text
	launch(t, cmd)
	in.Close()
	fmt.Fprintln(script, "func main() {")
	<-text.given
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "chat.json")
	fmt.Fprintln(script, "/save "+file) // read when the answer has been stopped
	script.Close()
	if code := finish(t, cmd, stderr); code != exitDone {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	if !strings.HasPrefix(stderr.String(), "(stopped)\n") {
		t.Errorf("standard error: %s", stderr)
	}
	if messages := savedMessages(t, file); len(messages) != 2 || messages[1].Content == "" {
		t.Errorf("saved %+v", messages)
	}
}

// Ctrl-C at the prompt ends the program with its own exit code and without a message.
func TestChatInterruptPrompt(t *testing.T) {
	in, script := io.Pipe()
	defer script.Close()
	var stderr bytes.Buffer
	p := &program{stdin: in, stdout: io.Discard, stderr: &stderr, env: func(string) string { return "" }}
	done := make(chan int)
	go func() { done <- p.main(t.Context(), greedyChat) }()
	var handle *func() bool
	for handle == nil {
		handle = p.interrupted.Load()
		runtime.Gosched()
	}
	if !(*handle)() {
		t.Error("a conversation does not take Ctrl-C")
	}
	if code := <-done; code != exitInterrupted || stderr.Len() > 0 {
		t.Errorf("exit %d: %s", code, &stderr)
	}
	if p.interrupted.Load() != nil {
		t.Error("Ctrl-C is still taken when the conversation is over")
	}
}

// newDialog is a dialog in which somebody types.
func newDialog(stdin string) (d *dialog, stdout, stderr *bytes.Buffer) {
	stdout, stderr = new(bytes.Buffer), new(bytes.Buffer)
	d = &dialog{p: &program{stdin: strings.NewReader(stdin), stdout: stdout, stderr: stderr}, typed: true,
		shown: true, showReasoning: true}
	d.lines = newLineReader(d.p.stdin)
	d.stop.waiting = make(chan struct{}, 1)
	return d, stdout, stderr
}

// withModel gives a dialog the embedded target with a template and a context; 0: the model's.
func withModel(t *testing.T, d *dialog, template string, context int) {
	t.Helper()
	m, err := library.New(library.Parts{Target: target(t)},
		library.Options{Template: template, Context: context, Parallel: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	d.writing = &writing{Model: m, prefill: &watched{}}
	if d.template, err = m.Template(); err != nil {
		t.Fatal(err)
	}
}

func TestChatRead(t *testing.T) {
	d, stdout, _ := newDialog("a\n\n  \nb\\\nc\n\"\"\"d\ne\n\"\"\" \t\r\nf\r\n\"\"\"g\"\"\"\n" +
		"\"\"\"h\"\"\" tail\n\"\"\"i\"\"\"\nlast\\")
	var got []string
	for {
		text, err := d.read(t.Context())
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, text)
	}
	// What stands behind quotes in their line is part of the message.
	if want := `["a" "" "" "b\nc" "d\ne\n" "f" "g" "h\"\"\" tail\n\"\"\"i" "last"]`; fmt.Sprintf("%q", got) != want {
		t.Errorf("got %q, want %s", got, want)
	}
	if !strings.HasPrefix(stdout.String(), "> > > > . > . . > ") {
		t.Errorf("prompts: %q", stdout)
	}
	d, _, _ = newDialog(strings.Repeat("x", longestMessageText+1) + "\n")
	if _, err := d.read(t.Context()); !errors.Is(err, errLongLine) {
		t.Errorf("a line that is too long: %v", err)
	}
}

// Ctrl-C at the prompt once drops what was typed, twice it ends; during an answer it stops that.
func TestChatStopper(t *testing.T) {
	d, _, stderr := newDialog("")
	pr, pw := io.Pipe()
	defer pw.Close()
	d.lines = newLineReader(pr)
	done := make(chan error)
	go func() {
		_, err := d.read(t.Context())
		done <- err
	}()
	d.stop.interrupt()
	for len(d.stop.waiting) > 0 { // the first must be taken before the second counts
		runtime.Gosched()
	}
	d.stop.interrupt()
	if err := <-done; !errors.Is(err, errInterrupted) || !strings.Contains(stderr.String(), "once more") {
		t.Errorf("%v: %s", err, stderr)
	}
	ctx, finish := d.stop.answering(t.Context())
	if d.stop.interrupt(); ctx.Err() == nil || !d.stop.stopped() || len(d.stop.waiting) > 0 {
		t.Error("Ctrl-C does not stop an answer")
	}
	finish()
	_, finish = d.stop.answering(t.Context())
	if d.stop.stopped() {
		t.Error("an answer is stopped by the Ctrl-C before it")
	}
	finish()
	if d.stop.interrupt(); len(d.stop.waiting) != 1 {
		t.Error("Ctrl-C behind an answer is lost")
	}
	// Where nobody types, one at the prompt is enough.
	d.typed = false
	d.lines = newLineReader(pr)
	if _, err := d.read(t.Context()); !errors.Is(err, errInterrupted) {
		t.Errorf("without a terminal: %v", err)
	}
}

// A turn that fails on a terminal is told, and its message is taken back.
func TestChatFailedTurn(t *testing.T) {
	d, stdout, stderr := newDialog("one\n/save\n")
	withModel(t, d, "{{ raise_exception('not today') }}", 0)
	if err := d.run(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if len(d.messages) != 0 || !strings.Contains(stderr.String(), "not today") ||
		!strings.Contains(stderr.String(), "/save needs") {
		t.Errorf("%d messages, %q, %q", len(d.messages), stdout, stderr)
	}
}

// Reasoning is faint, or marked where nothing can be faint, or hidden; it is kept apart from the answer.
func TestChatReasoning(t *testing.T) {
	events := []library.Event{{Reasoning: "hm"}, {Reasoning: " so", Text: "4"}, {Text: "2\x1b"}}
	for _, c := range []struct {
		color, show bool
		want        string
	}{
		{true, true, "\x1b[2mhm\x1b[0m\x1b[2m so\x1b[0m\n\n42\\x1b\n"},
		{false, true, "[reasoning]\nhm so\n[answer]\n42\\x1b\n"},
		{true, false, "42\\x1b\n"},
		{false, false, "42\\x1b\n"},
	} {
		d, stdout, _ := newDialog("")
		d.color, d.showReasoning = c.color, c.show
		a := &answerWriter{d: d}
		for _, e := range events {
			if err := a.write(&e); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.end(); err != nil {
			t.Fatal(err)
		}
		if stdout.String() != c.want || a.message.Reasoning != "hm so" || a.message.Content != "42\x1b" {
			t.Errorf("%+v: %q, %+v", c, stdout, a.message)
		}
	}
}

// On a terminal a full context is a question.
func TestChatAsksWhenFull(t *testing.T) {
	for answer, dropped := range map[string]bool{"d\n": true, "Drop\n": true, "s\n": false, "\n": false} {
		d, _, stderr := newDialog(answer)
		source, _ := chat.Builtin("plain")
		withModel(t, d, source, 100)
		d.whenFull = fullAsk
		for range 10 {
			d.messages = append(d.messages, chat.Message{Role: "user", Content: "x := y + z; x := y + z"},
				chat.Message{Role: "assistant", Content: "ok"})
		}
		d.messages = append(d.messages, chat.Message{Role: "user", Content: "last"})
		task, err := d.fit(t.Context())
		last := d.messages[len(d.messages)-1].Content
		if dropped != (err == nil) || dropped && (len(task.Prompt(0)) > 50 || last != "last") ||
			!dropped && len(d.messages) != 21 {
			t.Errorf("%q: %d messages, %v: %s", answer, len(d.messages), err, stderr)
		}
	}
}

// A message that is not answered leaves the conversation as it was: one that is too long, also where turns were to be
// dropped for it, and one that Ctrl-C stops before its answer begins. So does an answer that was to be given anew.
func TestChatUnanswered(t *testing.T) {
	d, _, stderr := newDialog("")
	source, _ := chat.Builtin("plain")
	stop := false
	m, err := library.New(library.Parts{Target: target(t)}, library.Options{Template: source, Context: 100, Parallel: 1,
		Around: func(s library.Sequence) library.Sequence {
			if stop {
				d.stop.interrupt()
			}
			return s
		}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	d.writing = &writing{Model: m, prefill: &watched{}}
	if d.template, err = m.Template(); err != nil {
		t.Fatal(err)
	}
	d.whenFull, d.predict, d.attached = fullDrop, 4, "a file: "
	d.messages = []chat.Message{chat.User("one"), chat.Assistant("1"), chat.User("two"), chat.Assistant("2")}
	same := func(what string) {
		t.Helper()
		if n := len(d.messages); n != 4 || d.messages[0].Content != "one" || d.messages[3].Content != "2" ||
			d.attached != "a file: " {
			t.Errorf("%s: %q is attached to %+v", what, d.attached, d.messages)
		}
	}
	if err := d.say(t.Context(), strings.Repeat("x := y + z; ", 99)); err == nil ||
		!strings.Contains(err.Error(), "the message makes a prompt of") {
		t.Error(err)
	}
	same("too long")
	for what, f := range map[string]func() error{
		"stopped":     func() error { return d.say(t.Context(), "three") },
		"regenerated": func() error { return d.regen(t.Context(), "") },
	} {
		stop = true
		if err := f(); err != nil || !strings.Contains(stderr.String(), "(stopped)") {
			t.Errorf("%s: %v, %s", what, err, stderr)
		}
		same(what)
	}
	stop = false
	if err := d.say(t.Context(), "three"); err != nil || len(d.messages) != 6 ||
		d.messages[4].Content != "a file: three" || d.attached != "" {
		t.Errorf("%v: %q is attached to %+v", err, d.attached, d.messages)
	}
}

// -st ends behind the first answer, and not behind a command in front of it.
func TestChatSingleTurnAnswers(t *testing.T) {
	args := with(greedyChat, "-sys", "S")
	want, _, code := spec(t, "func main() {\n", args...)
	if code != exitDone || want == "" {
		t.Fatalf("exit %d: %q", code, want)
	}
	if got, errs, code := spec(t, "/set seed 7\nfunc main() {\nmore\n", with(args, "-st")...); code != exitDone ||
		got != want {
		t.Errorf("exit %d: %q, want %q: %s", code, got, want, errs)
	}
}

// /set seed -1 is another seed each time, as -s -1 is; less is refused, and leaves the seed as it was.
func TestChatSeedOfNoNumber(t *testing.T) {
	d, _, _ := newDialog("")
	withModel(t, d, "{{ messages[0].content }}", 0)
	seen := map[uint64]bool{}
	for range 3 {
		if err := d.set(t.Context(), "seed -1"); err != nil {
			t.Fatal(err)
		}
		seen[d.request.Sampling.Seed] = true
	}
	if len(seen) == 1 {
		t.Errorf("the seed is %d three times", d.request.Sampling.Seed)
	}
	was := d.request.Sampling.Seed
	if err := d.set(t.Context(), "seed -2"); err == nil || d.request.Sampling.Seed != was {
		t.Errorf("-2: %v, seed %d", err, d.request.Sampling.Seed)
	}
}
