package main

import (
	"strings"
	"testing"
)

// The report as JSON has what the text has, and tells of the kernels and the bandwidth that were measured.
func TestDoctor(t *testing.T) {
	r := decode[doctorReport](t, done(t, "", "doctor", "--json", "-t", "1"))
	if r.Schema != 1 || r.Threads != 1 || r.Bandwidth <= 0 || r.Kernels == "" || len(r.Findings) < 3 {
		t.Errorf("%+v", r)
	}
	text := done(t, "", "doctor", "-t", "1")
	for _, f := range r.Findings {
		if !strings.Contains(text, " "+f.Subject+": ") {
			t.Errorf("no %s in\n%s", f.Subject, text)
		}
	}
}
