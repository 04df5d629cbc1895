package serve

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
)

// encode is v as JSON, without the escapes that HTML would need.
func encode(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // the package's own types always encode
	}
	return b.Bytes()[:b.Len()-1]
}

// validText is text that JSON can hold: bytes that are part of no character become U+FFFD.
func validText(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

// writeJSON answers with v.
func writeJSON(w http.ResponseWriter, status int, v any) {
	body := encode(v)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	w.Write(append(body, '\n'))
}
