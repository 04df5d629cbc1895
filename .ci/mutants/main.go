// Mutants puts small faults into the code, one at a time, and reports those that the quick tests of the package do not notice.
//
//	go run ./.ci/mutants [NAME...]      from the project's root; names are those of mutants.json, or their beginnings
//
// It works on a copy. A fault whose text is no longer in the code is an error: port it. Exit code 1 if one lives.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

type mutant struct{ Name, File, Old, New string }

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

func run(names []string) error {
	data, err := os.ReadFile(".ci/mutants/mutants.json")
	if err != nil {
		return err
	}
	var all []mutant
	if err := json.Unmarshal(data, &all); err != nil {
		return err
	}
	// Beside the checkout, so that ../shared is where tests look for it.
	dir, err := os.MkdirTemp("..", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if out, err := exec.Command("sh", "-c", "git ls-files -z | xargs -0 cp --parents -t '"+dir+"'").CombinedOutput(); err != nil {
		return fmt.Errorf("copying: %v: %s", err, out)
	}
	var lived, gone []string
	for _, m := range all {
		if len(names) > 0 && !slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(m.Name, n) }) {
			continue
		}
		file := filepath.Join(dir, m.File)
		clean, err := os.ReadFile(file)
		if err != nil || strings.Count(string(clean), m.Old) != 1 {
			fmt.Printf("%-55s its text is in %s %d times: port it\n", m.Name, m.File, strings.Count(string(clean), m.Old))
			gone = append(gone, m.Name)
			continue
		}
		if err := os.WriteFile(file, []byte(strings.Replace(string(clean), m.Old, m.New, 1)), 0o666); err != nil {
			return err
		}
		start := time.Now()
		test := exec.Command("go", "test", "-short", "-failfast", "-vet=off", "./"+filepath.Dir(m.File))
		test.Dir = dir
		out, err := test.CombinedOutput()
		if err := os.WriteFile(file, clean, 0o666); err != nil {
			return err
		}
		verdict := "LIVES"
		if err == nil {
			lived = append(lived, m.Name)
		} else {
			verdict = "caught by " + failed(string(out))
		}
		fmt.Printf("%-55s %s (%.0f s)\n", m.Name, verdict, time.Since(start).Seconds())
	}
	if len(lived)+len(gone) > 0 {
		return fmt.Errorf("%d live: %s; %d to port: %s", len(lived), strings.Join(lived, ", "), len(gone), strings.Join(gone, ", "))
	}
	return nil
}

// failed is the first failing test in go test's output.
func failed(out string) string {
	for line := range strings.Lines(out) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: "); ok {
			name, _, _ = strings.Cut(name, " ")
			return name
		}
	}
	if strings.Contains(out, "[build failed]") {
		return "the compiler: port it"
	}
	return strings.TrimSpace(out[max(0, len(out)-200):])
}
