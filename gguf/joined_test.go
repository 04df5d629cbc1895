package gguf

import (
	"bytes"
	"io"
	"os"
	"testing"
	"time"
)

// asked is a part that counts its reads.
type asked struct {
	bytes.Reader
	reads int
}

func (a *asked) ReadAt(b []byte, off int64) (int, error) {
	a.reads++
	return a.Reader.ReadAt(b, off)
}

// A read asks the parts that it has bytes of, and no others: not the part that ends where the read begins.
func TestAReadAsksItsOwnParts(t *testing.T) {
	const text = "abcdefghij"
	for _, c := range []struct {
		from, to    int
		asks        [3]int
		end         error
		description string
	}{
		{0, 4, [3]int{1, 0, 0}, nil, "the first part, to its end"},
		{4, 7, [3]int{0, 1, 0}, nil, "the second part, from its begin to its end"},
		{4, 5, [3]int{0, 1, 0}, nil, "the begin of the second part"},
		{7, 10, [3]int{0, 0, 1}, nil, "the last part"},
		{3, 5, [3]int{1, 1, 0}, nil, "across a border"},
		{0, 10, [3]int{1, 1, 1}, nil, "everything"},
		{9, 11, [3]int{0, 0, 1}, io.EOF, "beyond the end"},
		{10, 11, [3]int{0, 0, 0}, io.EOF, "behind the end"},
	} {
		var parts [3]asked
		j := &joined{ends: []int64{4, 7, 10}}
		for i, part := range []string{text[:4], text[4:7], text[7:]} {
			parts[i].Reset([]byte(part))
			j.parts = append(j.parts, &parts[i])
		}
		got := make([]byte, c.to-c.from)
		n, err := j.ReadAt(got, int64(c.from))
		if string(got[:n]) != text[c.from:min(c.to, 10)] || err != c.end {
			t.Errorf("%s: %q, %v", c.description, got[:n], err)
		}
		for i := range parts {
			if parts[i].reads != c.asks[i] {
				t.Errorf("%s: part %d is asked %d times, want %d", c.description, i, parts[i].reads, c.asks[i])
			}
		}
	}
}

// A split model was last written when the last of its parts was: what belongs to its state (a panel file) sees each part.
func TestTheTimeOfAnyPartCounts(t *testing.T) {
	names, _ := splitModel(t, 3, nil)
	old := time.Unix(1_700_000_000, 0)
	for newest := range names {
		for i, name := range names {
			at := old.Add(time.Duration(i) * time.Second)
			if i == newest {
				at = old.Add(time.Hour)
			}
			if err := os.Chtimes(name, at, at); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range names {
			f, err := OpenFile(name)
			if err != nil {
				t.Fatal(err)
			}
			if !f.Modified.Equal(old.Add(time.Hour)) || len(f.Files) != len(names) {
				t.Errorf("part %d is the newest: %v, %d files", newest, f.Modified, len(f.Files))
			}
			f.Close()
		}
	}
}
