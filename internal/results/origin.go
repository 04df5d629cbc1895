// Package results is what all measurements of this project have in common: where and with what they were made
// ([Origin]), and one list of columns for every form that they are written in.
//
// A result is a struct for what is common to a run, which embeds an Origin, and rows that are structs. Their fields are
// the list of columns: JSON writes them under the names of their tags, [CSV] in the same order under the same names,
// and tables, pages and charts show some of them. A field that is added to the struct is in all files.
package results

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/cpuid/v2"
)

// Origin says what measured, where, and of what. Every file of results has it.
type Origin struct {
	Version string `json:"version"` // of the program: a tag, or what stands for a commit
	Commit  string `json:"commit"`  // the revision that it was built of, "+" behind it: with changes; "": unknown
	Date    string `json:"date"`    // when measuring began: RFC 3339, UTC
	CPU     string `json:"cpu"`     // as the processor calls itself, with family and model
	Cores   int    `json:"n_cpus"`  // that the process may use
	System  string `json:"system"`  // as linux/amd64
	Go      string `json:"go"`
	SIMD    string `json:"simd"` // kernels; several that were measured in turn, separated by commas
	Threads int    `json:"threads"`
	// runnable tasks of the machine over the last minute, when measuring began: what else it did; null: unknown
	Load    *float64 `json:"load_average"`
	Models  []File   `json:"models"`      // the target, then those that draft
	Prompts []File   `json:"prompt_sets"` // or texts
}

// File is an input of a measurement.
type File struct {
	Name string `json:"name"` // without its folder
	// in lower-case hexadecimal: of a model what engine.Fingerprint has, of texts that of their bytes; "": random weights
	SHA256 string `json:"sha256"`
}

// String is "name sha256:…".
func (f File) String() string {
	if f.SHA256 == "" {
		return f.Name
	}
	return f.Name + " sha256:" + f.SHA256
}

// TextFile is a text with its hash.
func TextFile(name string, text []byte) File {
	sum := sha256.Sum256(text)
	return File{name, hex.EncodeToString(sum[:])}
}

// Here is an Origin of this program and machine, now; kernels, threads, models and prompts are the caller's.
func Here() Origin {
	o := Origin{Version: Version(), Commit: Commit(), Date: time.Now().UTC().Format(time.RFC3339), CPU: CPU(),
		Cores: runtime.GOMAXPROCS(0), System: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version(),
		Models: []File{}, Prompts: []File{}}
	if load, ok := loadOf(os.DirFS("/")); ok {
		o.Load = &load
	}
	return o
}

// Version is the version that the go command wrote into the program: a tag, or what stands for a commit.
func Version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// Commit is the revision that the go command noted, "+" behind it where there were changes; "" where it noted none.
func Commit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	commit, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = "+"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + changed
}

// CommitTime is when that revision was made; zero where the go command noted none.
func CommitTime() (at time.Time) {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.time" {
				at, _ = time.Parse(time.RFC3339, s.Value) // the go command's own form
			}
		}
	}
	return at
}

// CPU is what the processor calls itself, with its family and model: names of virtual machines say little.
func CPU() string {
	c := cpuid.CPU
	name := strings.TrimSpace(c.BrandName)
	if name == "" {
		return runtime.GOARCH
	}
	return name + " (family " + strconv.Itoa(c.Family) + ", model " + strconv.Itoa(c.Model) + ")"
}

// loadOf is Linux's load average of one minute.
func loadOf(root fs.FS) (float64, bool) {
	text, err := fs.ReadFile(root, "proc/loadavg")
	if err != nil {
		return 0, false
	}
	first, _, _ := strings.Cut(string(text), " ")
	load, err := strconv.ParseFloat(first, 64)
	return load, err == nil
}
