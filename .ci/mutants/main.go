// Mutants puts small faults into the code, one at a time, and reports those that the quick tests of their package do
// not notice. The working tree is not touched: a fault is an overlay of one file (go help build, -overlay).
//
//	go run ./.ci/mutants [NAME...]            the faults of mutants.json, or those whose names begin so
//	go run ./.ci/mutants -sample 20 -seed 7   faults that the program draws by itself (operators.go says which kinds)
//
// A fault of mutants.json must be caught, and a fault whose text is no longer in the code is an error: port it. The
// field "test" names the tests that catch it, which run first; -record writes it. Drawn faults are a report, which
// fails nothing. With -log FILE each verdict is appended to FILE, and the faults that FILE has are not run again;
// FILE.reach keeps which tests reach which statements (reach.go).
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

func main() {
	sample := flag.Int("sample", 0, "draw this `many` faults instead of using mutants.json")
	seed := flag.Uint64("seed", 1, "of the drawing")
	log := flag.String("log", "", "append verdicts to `FILE`, and go on where it ends")
	kind := flag.String("kind", "", "draw faults of this `kind` alone: "+strings.Join(kinds, ", "))
	in := flag.String("in", "engine speculative serve grammar chat gguf", "the `packages` to draw from, with those below")
	until := flag.Duration("for", 24*time.Hour, "draw no more faults after this time")
	short := flag.Bool("short", false, "drawn faults: the tests of go test -short alone")
	anchors := flag.Bool("anchors", false, "only check that the text of each listed fault is in the code")
	record := flag.Bool("record", false, "write the tests that catch the faults into mutants.json")
	flag.Parse()
	var err error
	if *sample > 0 {
		err = drawn(*sample, *seed, *kind, strings.Fields(*in), *log, time.Now().Add(*until), *short)
	} else {
		err = listed(flag.Args(), *anchors, *record)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

// A fault of mutants.json: Old, which stands in File once, becomes New.
type mutant struct {
	Name   string `json:"name"`
	File   string `json:"file"`
	Old    string `json:"old"`
	New    string `json:"new"`
	Effect string `json:"effect,omitempty"` // what a user would see of it
	Test   string `json:"test,omitempty"`   // the test that catches it
}

const list = ".ci/mutants/mutants.json"

func listed(names []string, anchors, record bool) error {
	var all []mutant
	data, err := os.ReadFile(list)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	r, err := newRunner("")
	if err != nil {
		return err
	}
	defer r.close()
	// By package: what is compiled for one fault is not compiled for the next.
	order := make([]int, len(all))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return strings.Compare(
			path.Dir(all[a].File), path.Dir(all[b].File))
	})
	var lived, gone []string
	for _, i := range order {
		m := &all[i]
		if len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(m.Name, n) }) {
			continue
		}
		clean, err := os.ReadFile(m.File)
		if n := bytes.Count(clean, []byte(m.Old)); err != nil || n != 1 {
			fmt.Printf("%-55s its text is in %s %d times: port it%s\n", m.Name, m.File, n, elsewhere(m))
			gone = append(gone, m.Name)
			continue
		}
		if anchors {
			continue
		}
		v, err := r.try(m.File, bytes.Replace(clean, []byte(m.Old), []byte(m.New), 1), false, false, m.Test)
		if err != nil {
			return err
		}
		fmt.Printf("%-55s %s\n", m.Name, v)
		switch {
		case v.Lives:
			fmt.Printf("\t%s\n", m.Effect)
			lived = append(lived, m.Name)
		case v.Broken:
			gone = append(gone, m.Name)
		case v.Test != "":
			m.Test = v.Test
		}
	}
	if record {
		if err := write(all); err != nil {
			return err
		}
	}
	if len(lived)+len(gone) > 0 {
		return fmt.Errorf("%d live: %s; %d to port: %s", len(lived), strings.Join(lived, ", "), len(gone),
			strings.Join(gone, ", "))
	}
	return nil
}

func write(all []mutant) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	if err := e.Encode(all); err != nil {
		return err
	}
	return os.WriteFile(list, b.Bytes(), 0o666)
}

// elsewhere says in which file a fault's text is now.
func elsewhere(m *mutant) string {
	files, err := trackedFiles()
	if err != nil {
		return ""
	}
	for _, file := range files {
		if text, err := os.ReadFile(file); err == nil && bytes.Count(text, []byte(m.Old)) == 1 {
			return ", " + file + " has it"
		}
	}
	return ""
}

// A verdict of a log.
type line struct {
	Kind, At, Old, New string // At is FILE:LINE
	Verdict            verdict
}

func (l line) same(o line) bool {
	return l.Kind == o.Kind && l.At == o.At && l.Old == o.Old && l.New == o.New
}

func (l line) String() string {
	return fmt.Sprintf("%-10s %s\n\t- %s\n\t+ %s\n\t%s", l.Kind, l.At, l.Old, l.New, l.Verdict)
}

// drawn tries n faults, or those for which there is time. A fault that does not compile is no fault, and another is
// drawn in its place.
func drawn(n int, seed uint64, kind string, roots []string, log string, until time.Time, short bool) error {
	reach := ""
	if log != "" {
		reach = log + ".reach"
	}
	r, err := newRunner(reach)
	if err != nil {
		return err
	}
	defer r.close()
	var known []line
	var out *os.File
	if log != "" {
		if out, err = os.OpenFile(log, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o666); err != nil {
			return err
		}
		defer out.Close()
		scan := bufio.NewScanner(out)
		for scan.Scan() {
			var l line
			if err := json.Unmarshal(scan.Bytes(), &l); err != nil {
				return fmt.Errorf("%s: %w", log, err)
			}
			known = append(known, l)
		}
	}
	code, err := load(roots)
	if err != nil {
		return err
	}
	fmt.Printf("%d places for a fault in %s, seed %d\n", len(code.sites), strings.Join(roots, ", "), seed)
	caught, tried := map[string]int{}, map[string]int{}
	var lived []line
	for s := range draw(code.sites, seed, kind) {
		content, ok := code.apply(s)
		if !ok {
			continue
		}
		l := line{Kind: s.kind, At: s.at()}
		l.Old, l.New = s.lines(content)
		if i := slices.IndexFunc(known, l.same); i >= 0 {
			l = known[i]
		} else {
			// A lock that is left out shows under the race detector alone.
			if l.Verdict, err = r.try(s.file.name, content, s.kind == "lock", short, ""); err != nil {
				return err
			}
			if out != nil {
				if err := json.NewEncoder(out).Encode(l); err != nil {
					return err
				}
			}
		}
		if l.Verdict.Broken {
			continue
		}
		fmt.Println(l)
		tried[s.kind]++
		if l.Verdict.Lives {
			lived = append(lived, l)
		} else {
			caught[s.kind]++
		}
		if n--; n == 0 || time.Now().After(until) {
			break
		}
	}
	fmt.Println()
	total, all := 0, 0
	for _, k := range kinds {
		if tried[k] > 0 {
			fmt.Printf("%-10s %d of %d caught\n", k, caught[k], tried[k])
			total, all = total+caught[k], all+tried[k]
		}
	}
	fmt.Printf("%-10s %d of %d caught; these live:\n", "all", total, all)
	for _, l := range lived {
		fmt.Println(l)
	}
	return nil
}
