package cluster

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/specgo/spec/internal/batch"
	"github.com/specgo/spec/speculative"
)

// Request is a line of a batch: a request with its custom_id, path and body.
type Request = batch.Request

// member is a name of a JSON object with its value.
type member struct {
	name  string
	value json.RawMessage
}

// members reads an object. A name that stands twice is refused.
func members(object []byte) (list []member, err error) {
	d := json.NewDecoder(bytes.NewReader(object))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errors.New("body: no object")
	}
	seen := map[string]bool{}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("body: %w", err)
		}
		m := member{name: t.(string)}
		if seen[m.name] {
			return nil, fmt.Errorf("body: %q stands twice", m.name)
		}
		seen[m.name] = true
		if err := d.Decode(&m.value); err != nil {
			return nil, fmt.Errorf("body.%s: %w", m.name, err)
		}
		list = append(list, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("body: %w", err)
	}
	return list, nil
}

// object writes members as a compact JSON object.
func object(list []member) ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range list {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		if err := json.Compact(&b, m.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// drawn are the paths whose answers are drawn with a seed, and dated those of them with a template, which may read the
// clock.
var (
	drawn = []string{"/v1/chat/completions", "/v1/completions", "/v1/responses"}
	dated = []string{"/v1/chat/completions", "/v1/responses"}
)

// ofDrafts is what a drafter needs that workers of one identity need not have in common.
const ofDrafts = speculative.NeedsDraft | speculative.NeedsForeign | speculative.NeedsHead | speculative.NeedsBlock

// Complete writes into a line's body what its answer would depend on otherwise: a seed, which follows from the line's
// id, path and body, and the clock that templates read. What is there stays. A line whose answer depends on more than
// that is refused: speculation by the verifiers rejection and block, whose tokens depend on what was drafted, and
// drafters that are of a draft model or head, which not every worker has.
func Complete(r Request, clock time.Time) (Request, error) {
	list, err := members(r.Body)
	if err != nil {
		return r, err
	}
	body, err := object(list)
	if err != nil {
		return r, err
	}
	for _, m := range list {
		if m.name != "speculation" {
			continue
		}
		var s struct {
			Verify  string `json:"verify"`
			Drafter string `json:"drafter"`
		}
		if json.Unmarshal(m.value, &s) != nil {
			continue // the answer says what is wrong
		}
		if s.Verify == "rejection" || s.Verify == "block" {
			return r, fmt.Errorf("speculation.verify: with %q an answer depends on drafts, and a repeated one may be another",
				s.Verify)
		}
		if slices.ContainsFunc(speculative.Drafters(), func(d speculative.Named[speculative.Drafter]) bool {
			return d.Name == s.Drafter && d.Needs&ofDrafts != 0
		}) {
			return r, fmt.Errorf("speculation.drafter: %q is of a draft model or head, and a worker without it would refuse "+
				"the request; workers draft as they are started", s.Drafter)
		}
	}
	set := func(name, value string, lacks func(json.RawMessage) bool) {
		i := slices.IndexFunc(list, func(m member) bool { return m.name == name })
		switch {
		case i < 0:
			list = append(list, member{name, json.RawMessage(value)})
		case lacks(list[i].value):
			list[i].value = json.RawMessage(value)
		}
	}
	if slices.Contains(drawn, r.Path) {
		h := sha256.New()
		for _, part := range []string{r.ID, r.Path, string(body)} {
			h.Write(strconv.AppendQuote(nil, part))
		}
		seed := binary.BigEndian.Uint32(h.Sum(nil))
		set("seed", strconv.FormatUint(uint64(seed), 10), func(v json.RawMessage) bool {
			return string(v) == "null" || string(v) == "-1" // the server draws one
		})
	}
	if slices.Contains(dated, r.Path) {
		text, err := json.Marshal(clock.UTC().Format(time.RFC3339))
		if err != nil {
			return r, err
		}
		set("clock", string(text), func(v json.RawMessage) bool { return string(v) == "null" })
	}
	r.Body, err = object(list)
	return r, err
}

// Key identifies what is asked of whom: SHA-256, in lower-case hexadecimal, of an identity ([spec.Identity.Sum]), the
// path and the body as [Complete] writes it. Two lines with the same key have the same answer.
func Key(identity string, r Request) string {
	h := sha256.New()
	for _, part := range []string{identity, r.Path, string(r.Body)} {
		h.Write(strconv.AppendQuote(nil, part))
	}
	return hex.EncodeToString(h.Sum(nil))
}
