package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/speculative/lookup"
)

// BenchmarkLookupBuild measures an index of the files and folders SPEC_LOOKUP_PATHS (separated as in PATH) with the
// vocabulary of SPEC_LOOKUP_MODEL: megabytes of text per second, of reading and tokenizing alone and of all, and on
// Linux the most memory: of the process itself (anonymous), and with the pages of files that it has mapped. The latter
// are the tokens, which the system may drop. SPEC_LOOKUP_INDEX keeps the index, SPEC_LOOKUP_MEMORY is --memory in
// bytes.
//
//	SPEC_LOOKUP_PATHS=… SPEC_LOOKUP_MODEL=… go test ./cmd/spec -run '^$' -bench LookupBuild -benchtime 1x
func BenchmarkLookupBuild(b *testing.B) {
	paths := filepath.SplitList(os.Getenv("SPEC_LOOKUP_PATHS"))
	if len(paths) == 0 {
		b.Skip("SPEC_LOOKUP_PATHS names no texts")
	}
	f, err := openGGUF(os.Getenv("SPEC_LOOKUP_MODEL"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	tok, err := engine.ReadTokenizer(f)
	if err != nil {
		b.Fatal(err)
	}
	index := os.Getenv("SPEC_LOOKUP_INDEX")
	if index == "" {
		index = filepath.Join(b.TempDir(), "index")
	}
	defer debug.SetGCPercent(debug.SetGCPercent(100)) // as the command has it
	anonymous, all, last := int64(0), int64(0), time.Time{}
	o := lookup.Options{Vocab: tok.Size(), Vocabulary: lookup.Vocabulary(tok), Encode: func(text string) []int32 {
		return tok.Encode(text, bpe.EncodeOptions{NoSpacePrefix: true})
	}}
	fmt.Sscan(os.Getenv("SPEC_LOOKUP_MEMORY"), &o.Memory)
	b.Run("tokens", func(b *testing.B) {
		for range b.N {
			begin := time.Now()
			counts, err := lookup.Count(b.Context(), paths, o, math.MaxInt64)
			if err != nil {
				b.Fatal(err)
			}
			n := uint64(0)
			for _, c := range counts {
				n += c
			}
			b.ReportMetric(float64(n)/time.Since(begin).Seconds()/1e6, "Mtokens/s")
			b.ReportMetric(0, "ns/op")
		}
	})
	b.Run("build", func(b *testing.B) {
		o.Progress = func(done, total int64) {
			if time.Since(last) > 100*time.Millisecond {
				last = time.Now()
				a, r := resident()
				anonymous, all = max(anonymous, a), max(all, r)
			}
		}
		for range b.N {
			begin := time.Now()
			if err := lookup.Build(b.Context(), index, paths, o); err != nil {
				b.Fatal(err)
			}
			took := time.Since(begin).Seconds()
			x, err := lookup.Open(index)
			if err != nil {
				b.Fatal(err)
			}
			a := x.About()
			x.Close()
			b.Logf("%d bytes of text, %d tokens, %d texts, index of %d bytes", a.Bytes, a.Tokens, a.Texts, a.File)
			b.ReportMetric(float64(a.Bytes)/took/1e6, "MB/s")
			b.ReportMetric(float64(anonymous)/1e6, "anonymous-MB")
			b.ReportMetric(float64(all)/1e6, "resident-MB")
			b.ReportMetric(0, "ns/op")
		}
	})
}

// resident is the memory of the process: of its own, and with the pages of files; 0 where the system does not say.
func resident() (anonymous, all int64) {
	text, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(text)) {
		var kb int64
		if n, _ := fmt.Sscanf(line, "RssAnon: %d kB", &kb); n == 1 {
			anonymous = kb << 10
		}
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kb); n == 1 {
			all = kb << 10
		}
	}
	return anonymous, all
}
