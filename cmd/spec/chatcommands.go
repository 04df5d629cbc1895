package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	library "github.com/specgo/spec"
	"github.com/specgo/spec/chat"
	"github.com/specgo/spec/cmd/spec/internal/output"
	"github.com/specgo/spec/engine/sampling"
	"github.com/specgo/spec/internal/strictjson"
	"github.com/specgo/spec/internal/terminal"
)

// slashCommand is one of the commands that a message may be instead.
type slashCommand struct {
	names []string
	arg   string
	does  string
	run   func(d *dialog, ctx context.Context, arg string) error
}

// slashCommands is a function because help lists all of them.
func slashCommands() []slashCommand {
	return []slashCommand{
		{names("help, ?"), "", "this list", (*dialog).help},
		{names("system"), "[TEXT]", "show the system message, or set it for the answers to come", (*dialog).system},
		{names("regen, retry"), "", "answer the last message anew, with another seed", (*dialog).regen},
		{names("undo"), "", "take back the last message and its answer", (*dialog).undo},
		{names("clear, new"), "", "forget all messages but the system message", (*dialog).clear},
		{names("save"), "FILE", "write the conversation as JSON", (*dialog).saveCommand},
		{names("load"), "FILE", "replace the conversation by a saved one", (*dialog).loadCommand},
		{names("show"), "", "write the conversation so far", (*dialog).show},
		{names("raw"), "", "write the last answer as it is, without styles", (*dialog).raw},
		{names("edit"), "[TEXT]", "write the next message in $EDITOR, beginning with a text or the last message",
			(*dialog).rewrite},
		{names("file"), "FILE", "put a file's text in front of the next message", (*dialog).attach},
		{names("model"), "[FILE]", "show what answers, or have another model answer: a file or OWNER/NAME[:QUANT]",
			(*dialog).model},
		{names("draft"), "[NAME]", "show what drafts, or choose it for the answers to come: auto, none, a drafter's name",
			(*dialog).chooseDrafter},
		{names("stats"), "", "what the last answer took", (*dialog).stats},
		{names("set"), "[NAME VALUE]", "show the settings, or change one", (*dialog).set},
		{names("exit, quit, bye"), "", "end", func(*dialog, context.Context, string) error { return errEnd }},
	}
}

// command runs a line that began with a slash.
func (d *dialog) command(ctx context.Context, line string) error {
	name, arg, _ := strings.Cut(line, " ")
	arg = strings.TrimSpace(arg)
	var known []string
	for _, c := range slashCommands() {
		if slices.Contains(c.names, strings.ToLower(name)) {
			if c.arg == "" && arg != "" {
				return fmt.Errorf("/%s takes no argument", name)
			}
			if strings.Contains(c.arg, "FILE") {
				arg = d.p.atHome(arg)
			}
			return c.run(d, ctx, arg)
		}
		known = append(known, c.names...)
	}
	return fmt.Errorf("unknown command /%s%s; /help lists them, and // begins a message with a slash",
		terminal.Line(name, 60), suggest(name, known))
}

func (d *dialog) help(context.Context, string) error {
	width := terminal.Width(d.p.stderr)
	var b strings.Builder
	for _, c := range slashCommands() {
		left := "  /" + strings.Join(c.names, ", /")
		if c.arg != "" {
			left += " " + c.arg
		}
		b.WriteString(terminal.Columns(left+" ", c.does, 26, width))
	}
	b.WriteString(terminal.Columns(`  """ ... """ `, `a message of several lines; or end each line but the last with \`,
		26, width))
	b.WriteString(terminal.Columns("  Ctrl-C ", "stop the answer", 26, width))
	d.note("%s", strings.TrimSuffix(b.String(), "\n"))
	return nil
}

func (d *dialog) setSystem(text string) {
	if len(d.messages) > 0 && d.messages[0].Role == "system" {
		d.messages = d.messages[1:]
	}
	if text != "" {
		d.messages = append([]chat.Message{{Role: "system", Content: text}}, d.messages...)
	}
}

func (d *dialog) system(_ context.Context, text string) error {
	if text != "" {
		d.setSystem(text)
		return nil
	}
	if len(d.messages) == 0 || d.messages[0].Role != "system" {
		d.note("(no system message)")
		return nil
	}
	d.note("%s", terminal.Text(d.messages[0].Content))
	return nil
}

// lastUser is the index of the user's last message, -1 if there is none.
func (d *dialog) lastUser() int {
	for i := len(d.messages) - 1; i >= 0; i-- {
		if d.messages[i].Role == "user" {
			return i
		}
	}
	return -1
}

var errNoMessage = errors.New("there is no message yet")

func (d *dialog) regen(ctx context.Context, _ string) error {
	i := d.lastUser()
	if i < 0 {
		return errNoMessage
	}
	before := slices.Clone(d.messages)
	if n := len(d.messages); n > i+1 {
		d.request.Previous = library.Prompt{Text: d.messages[n-1].Content}
	}
	d.messages = d.messages[:i+1]
	d.request.Sampling.Seed++
	err := d.answer(ctx)
	d.request.Previous = library.Prompt{} // also of an answer that never began
	if err != nil || d.unanswered() {     // stopped before the answer
		d.messages = before
	}
	return err
}

func (d *dialog) undo(context.Context, string) error {
	i := d.lastUser()
	if i < 0 {
		return errNoMessage
	}
	d.messages = d.messages[:i]
	return nil
}

func (d *dialog) clear(context.Context, string) error {
	n := 0
	if len(d.messages) > 0 && d.messages[0].Role == "system" {
		n = 1
	}
	d.messages = d.messages[:n]
	return nil
}

// savedChat is the form of a saved conversation.
type savedChat struct {
	Schema   int            `json:"schema"`
	Messages []chat.Message `json:"messages"`
}

func (d *dialog) saveCommand(ctx context.Context, path string) error {
	if path == "" {
		return errors.New("/save needs the name of a file")
	}
	if err := replaceable(path); err != nil {
		return err
	}
	saved := savedChat{Schema: 1, Messages: d.messages}
	if saved.Messages == nil {
		saved.Messages = []chat.Message{}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(saved); err != nil {
		return err
	}
	file, err := output.Create(ctx, path, nil)
	if err != nil {
		return err
	}
	defer file.Abort()
	if _, err := file.Write(b.Bytes()); err != nil {
		return err
	}
	if err := file.Commit(); err != nil {
		return err
	}
	replaced := ""
	if slices.ContainsFunc(d.messages, func(m chat.Message) bool { return !utf8.ValidString(m.Content + m.Reasoning) }) {
		replaced = "; what is not UTF-8 in them, as half of a character, is \ufffd there"
	}
	d.note("(saved %d messages to %s%s)", len(d.messages), terminal.Line(path, 0), replaced)
	return nil
}

// replaceable refuses a file that is no saved conversation, as the model's own: what it holds would be lost. Of what is
// no regular file, and of an empty one, nothing is.
func replaceable(path string) error {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return nil // writing it says what is wrong
	}
	if _, err := readChat(path); err != nil {
		return fmt.Errorf("/save replaces a saved conversation alone: %w", err)
	}
	return nil
}

func (d *dialog) loadCommand(_ context.Context, path string) error {
	if path == "" {
		return errors.New("/load needs the name of a file")
	}
	if err := d.load(path); err != nil {
		return err
	}
	d.note("(loaded %d messages)", len(d.messages))
	return nil
}

// longestChat is the most bytes of a saved conversation.
const longestChat = 64 << 20

// load takes over what /save wrote.
func (d *dialog) load(path string) error {
	messages, err := readChat(path)
	if err == nil {
		d.messages = messages
	}
	return err
}

// readChat reads what /save wrote.
func readChat(path string) ([]chat.Message, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > longestChat {
		return nil, fmt.Errorf("%s: a conversation must be a regular file of at most %d bytes", path, longestChat)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var saved savedChat
	if err := strictjson.Unmarshal(data, &saved); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if saved.Schema != 1 || saved.Messages == nil {
		return nil, fmt.Errorf("%s: no conversation of schema 1", path)
	}
	return saved.Messages, nil
}

func (d *dialog) stats(context.Context, string) error {
	t := &d.last
	if t.prompt == 0 {
		return errors.New("there is no answer yet")
	}
	s := t.stats
	line := fmt.Sprintf("prompt of %d tokens, %d of them reused, %.2f s; %d tokens in %.2f s", t.prompt, s.Reused,
		s.Prefill, t.generated, t.took.Seconds()-s.Prefill)
	if rate := float64(t.generated) / (t.took.Seconds() - s.Prefill); t.generated > 0 && !math.IsInf(rate, 0) {
		line += fmt.Sprintf(" (%.1f/s)", rate)
	}
	line += fmt.Sprintf(", %d target passes", s.TargetPasses)
	if s.Drafted > 0 {
		line += fmt.Sprintf(", %d of %d drafted tokens accepted (%.0f %%)", s.Accepted, s.Drafted,
			100*float64(s.Accepted)/float64(s.Drafted))
	}
	if x := d.estimate.speedup(s); !math.IsNaN(x) {
		line += fmt.Sprintf(", estimated speedup %.2fx", x)
	}
	line += fmt.Sprintf("; context of %d tokens, %d used", d.Context(), t.prompt+t.generated)
	if d.request.Sampling.MaxTemperature() > 0 {
		line += fmt.Sprintf("; seed %d", d.request.Sampling.Seed)
	}
	d.note("%s", line)
	return nil
}

// setting is what /set shows and changes.
type setting struct {
	name   string
	show   func(d *dialog) string
	set    func(d *dialog, value string) error
	values []string // that it takes, nil: they cannot be listed
}

// numberSetting is what a flag sets, with its bounds.
func numberSetting(name string, at func(d *dialog) *float32, row func(p *float32, standard string) flag) setting {
	return setting{name: name,
		show: func(d *dialog) string {
			if *at(d) == sampling.Zero {
				return "0"
			}
			return strconv.FormatFloat(float64(*at(d)), 'g', -1, 32)
		},
		set: func(d *dialog, v string) error {
			f := row(at(d), "")
			return f.set(v)
		}}
}

// countSetting is likewise of a whole number.
func countSetting(name string, at func(d *dialog) *int, row func(p *int) flag) setting {
	return setting{name: name,
		show: func(d *dialog) string { return strconv.Itoa(*at(d)) },
		set: func(d *dialog, v string) error {
			n := *at(d) // which a value that is refused leaves as it is
			f := row(&n)
			err := f.set(v)
			if err == nil {
				*at(d) = n
			}
			return err
		}}
}

// showSetting is "show" or a word for its contrary.
func showSetting(name string, at func(d *dialog) *bool, hidden string) setting {
	words := []string{"show", hidden}
	return setting{name,
		func(d *dialog) string {
			if *at(d) {
				return "show"
			}
			return hidden
		},
		func(d *dialog, v string) error {
			v, err := choose(words, v)
			if err == nil {
				*at(d) = v == "show"
			}
			return err
		}, words}
}

// settings are those of generate's flags that may change between answers.
func settings() []setting {
	full := []string{fullAsk, fullDrop, fullStop}
	return []setting{
		numberSetting("temp", func(d *dialog) *float32 { return &d.request.Sampling.Temperature }, temperatureRow),
		countSetting("top-k", func(d *dialog) *int { return &d.request.Sampling.TopK },
			func(p *int) flag { return topKRow(p, "") }),
		numberSetting("top-p", func(d *dialog) *float32 { return &d.request.Sampling.TopP }, topPRow),
		numberSetting("min-p", func(d *dialog) *float32 { return &d.request.Sampling.MinP }, minPRow),
		numberSetting("repeat-penalty", func(d *dialog) *float32 { return &d.request.Sampling.RepeatPenalty },
			repeatPenaltyRow),
		countSetting("predict", func(d *dialog) *int { return &d.predict },
			func(p *int) flag { return predictRow(p, "", "") }),
		{name: "seed", show: func(d *dialog) string {
			return strconv.FormatUint(d.request.Sampling.Seed, 10)
		}, set: func(d *dialog, v string) error {
			var n int64
			if err := seedRow(&n, "").set(v); err != nil {
				return err
			}
			d.request.Sampling.Seed = seedOf(n)
			return nil
		}},
		showSetting("markdown", func(d *dialog) *bool { return &d.markdown }, "raw"),
		showSetting("reasoning", func(d *dialog) *bool { return &d.showReasoning }, "hide"),
		{"when-full", func(d *dialog) string { return d.whenFull }, func(d *dialog, v string) error {
			v, err := choose(full, v)
			if err == nil {
				d.whenFull = v
			}
			return err
		}, full},
	}
}

func (d *dialog) set(_ context.Context, arg string) error {
	if arg == "" {
		for _, s := range settings() {
			d.note("  %-16s %s", s.name, s.show(d))
		}
		return nil
	}
	name, value, _ := strings.Cut(arg, " ")
	var known []string
	for _, s := range settings() {
		if s.name == name {
			if err := s.set(d, strings.TrimSpace(value)); err != nil {
				return fmt.Errorf("/set %s %s: %w", name, shown(strings.TrimSpace(value)), err)
			}
			return nil
		}
		known = append(known, s.name)
	}
	return fmt.Errorf("/set: there is no setting %s%s", shown(name), suggest(name, known))
}
