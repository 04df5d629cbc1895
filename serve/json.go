package serve

import (
	"bufio"
	"bytes"
	"encoding/json"
	"iter"
	"net/http"
	"strings"
)

// pieces is JSON text in pieces: of an answer that takes much more memory as text than as it is kept.
type pieces iter.Seq[[]byte]

// arrayText is the text of n values, each of which is made in its turn. It may be pieces.
func arrayText(n int, value func(i int) any) pieces {
	return joined("[", n, func(i int) (string, any) { return "", value(i) }, "]")
}

// objectText is the text of names and values in turn, which may be pieces.
func objectText(fields ...any) pieces {
	return joined("{", len(fields)/2, func(i int) (string, any) {
		return string(encode(fields[2*i])) + ":", fields[2*i+1]
	}, "}")
}

// joined is the text of n values with what stands in front of each.
func joined(begin string, n int, value func(i int) (before string, v any), end string) pieces {
	return func(yield func([]byte) bool) {
		for i := range n {
			before, v := value(i)
			if !yield([]byte(begin + before)) {
				return
			}
			begin = ","
			list, ok := v.(pieces)
			if !ok {
				list = func(yield func([]byte) bool) { yield(encode(v)) }
			}
			for piece := range list {
				if !yield(piece) {
					return
				}
			}
		}
		if n == 0 {
			end = begin + end
		}
		yield([]byte(end))
	}
}

// encode is v as JSON, without the escapes that HTML would need.
func encode(v any) []byte {
	var b bytes.Buffer
	if list, ok := v.(pieces); ok {
		for piece := range list {
			b.Write(piece)
		}
		return b.Bytes()
	}
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
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	list, ok := v.(pieces)
	if !ok {
		body := encode(v)
		w.WriteHeader(status)
		w.Write(append(body, '\n'))
		return
	}
	w.WriteHeader(status)
	to := bufio.NewWriterSize(w, writePiece)
	for piece := range list {
		if _, err := to.Write(piece); err != nil {
			return // the client has left
		}
	}
	to.WriteByte('\n') // Flush has its error, which is the client's
	to.Flush()
}
