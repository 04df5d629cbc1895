package speculative

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/specgo/spec/bpe"
	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/speculative/lookup"
)

// BenchmarkLookupDraft measures what a draft of ten tokens takes from the index SPEC_LOOKUP_INDEX, for texts of the
// files SPEC_LOOKUP_TEXTS (separated as in PATH), whose tokens are those of the model SPEC_LOOKUP_MODEL: microseconds
// of the median and of the 99th percentile of 3,000 drafts, each at another place of a text, and how many tokens were
// drafted and would have been accepted. "first" has just opened the index: its pages are not mapped and its sums not
// checked. "again" makes the same drafts after that. Whether the file is in the page cache is the caller's business.
//
//	SPEC_LOOKUP_INDEX=… SPEC_LOOKUP_MODEL=… SPEC_LOOKUP_TEXTS=a.go:b.txt \
//		go test ./speculative -run '^$' -bench LookupDraft -benchtime 1x
func BenchmarkLookupDraft(b *testing.B) {
	index := os.Getenv("SPEC_LOOKUP_INDEX")
	if index == "" {
		b.Skip("SPEC_LOOKUP_INDEX names no index")
	}
	f, err := gguf.OpenFile(os.Getenv("SPEC_LOOKUP_MODEL"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	tok, err := engine.ReadTokenizer(f)
	if err != nil {
		b.Fatal(err)
	}
	const drafts, tokens = 3000, 10
	for _, name := range filepath.SplitList(os.Getenv("SPEC_LOOKUP_TEXTS")) {
		text, err := os.ReadFile(name)
		if err != nil {
			b.Fatal(err)
		}
		ids := tok.Encode(string(text), bpe.EncodeOptions{NoSpacePrefix: true})
		for passes, how := range []string{"first", "again"} {
			b.Run(filepath.Base(name)+"/"+how, func(b *testing.B) {
				var took []float64
				drafted, right, n := 0, 0, min(drafts, len(ids)/2)
				for range b.N {
					x, err := lookup.Open(index)
					if err != nil {
						b.Fatal(err)
					}
					if err := x.Fits(lookup.Vocabulary(tok)); err != nil {
						b.Fatal(err)
					}
					source := IndexSource(x)
					path := make([]int32, 0, len(ids)+tokens)
					for range 1 + passes {
						took, drafted, right = took[:0], 0, 0
						for i := range n {
							at := 1 + (len(ids)-1)*i/n
							path = append(path[:0], ids[:at]...)
							begin := time.Now()
							source.Begin(path)
							for k := range tokens {
								id, match := source.Next(path, k)
								if match == 0 {
									break
								}
								path = append(path, id)
							}
							took = append(took, float64(time.Since(begin).Nanoseconds())/1e3)
							drafted += len(path) - at
							for k := at; k < min(len(path), len(ids)) && path[k] == ids[k]; k++ {
								right++
							}
						}
					}
					if err := source.(interface{ Err() error }).Err(); err != nil {
						b.Fatal(err)
					}
					x.Close()
				}
				slices.Sort(took)
				b.ReportMetric(took[n/2], "median-us")
				b.ReportMetric(took[n*99/100], "p99-us")
				b.ReportMetric(float64(drafted)/float64(n), "drafted")
				b.ReportMetric(float64(right)/float64(n), "accepted")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
