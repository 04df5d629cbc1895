package hub

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// A split model says how many parts it has: none, and more than any has, are refused before one is asked for. So is a
// name with characters that a terminal would obey.
func TestListsOfFilesAreBounded(t *testing.T) {
	h, c := newHub(t)
	many := func(n int) string {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprintf(`{"rfilename":"m-%05d-of-%05d.gguf"}`, i+1, n))
		}
		return strings.Join(names, ",")
	}
	for what, x := range map[string]struct {
		list string
		want error
	}{
		"no parts": {`{"rfilename":"m-00001-of-00000.gguf"}`, ErrServer}, "many parts": {many(mostParts + 1), ErrServer},
		"a control character": {`{"rfilename":"a\u009b31m-Q8_0.gguf"}`, ErrNoFile},
	} {
		h.list = fmt.Sprintf(`{"sha":%q,"siblings":[%s]}`, commitA, x.list)
		c.Download = true
		path, err := c.Local(t.Context(), Scheme+"owner/name")
		if !errors.Is(err, x.want) || path != "" {
			t.Errorf("%s: %q, %v, want %v", what, path, err, x.want)
		}
	}
	var names []string
	for i := range mostParts {
		names = append(names, fmt.Sprintf("m-%05d-of-%05d.gguf", i+1, mostParts))
	}
	if list, err := parts(names, names[7]); err != nil || !slices.Equal(list, names) {
		t.Errorf("%d parts: %v", len(list), err)
	}
}

// statusLine answers every request with a status, as a server writes it.
type statusLine struct {
	code int
	text string
}

func (s statusLine) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: s.code, Status: s.text, Body: io.NopCloser(strings.NewReader("")), Request: r}, nil
}

// What a server says behind a status is not shown as it is.
func TestStatusOfAServerIsNotObeyed(t *testing.T) {
	for code, want := range map[int]string{401: "HF_TOKEN", 403: "HF_TOKEN", 404: "not found", 418: "418"} {
		_, c := newHub(t)
		c.HTTP = &http.Client{Transport: statusLine{code, fmt.Sprintf("%d \x1b[2J\x1b]0;x\a", code)}}
		_, err := c.Pull(t.Context(), reference)
		if err == nil || strings.ContainsAny(err.Error(), "\x1b\a") || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), fmt.Sprint(code)) {
			t.Errorf("%d: %q", code, fmt.Sprint(err))
		}
	}
}
