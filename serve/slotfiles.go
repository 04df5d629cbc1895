package serve

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"

	"github.com/specgo/spec"
)

// SlotFiles says where clients may keep what was computed for the text of a slot: POST /slots/ID with the action save
// or restore. The zero value is nowhere; then no slot is erased either.
type SlotFiles struct {
	Dir   string // which exists; files have the names that clients give them
	Bytes int64  // most of all files; 0 is DefaultSlotBytes
}

// DefaultSlotBytes is the bound of SlotFiles.
const DefaultSlotBytes = 16 << 30

// maxFileName is the most bytes of the name of a slot's file.
const maxFileName = 200

// slotFields are the fields of /slots/ID.
func slotFields() []field {
	return []field{
		{"filename", honored, formSlots, "with save and restore: the name of a file, without a folder",
			func(r *request, v value) (e *Error) {
				if r.filename, e = v.text(); e == nil && !fileName(r.filename) {
					e = v.bad("must be the name of a file: no folder, no \":\" or control character, not hidden, at most %d bytes",
						maxFileName)
				}
				return
			}},
		{"lora", honored, formSlots, "with restore: the adapters that the text was computed with, where they are not " +
			"the model's", readLora},
	}
}

// fileName reports whether a name is that of a file in a folder on every system, and none that is hidden.
func fileName(name string) bool {
	if name == "" || len(name) > maxFileName || strings.HasPrefix(name, ".") || strings.HasSuffix(name, ".") ||
		strings.TrimSpace(name) != name || strings.ContainsAny(name, `/\:*?"<>|`) ||
		strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		return false
	}
	base, _, _ := strings.Cut(strings.ToUpper(name), ".")
	digit := len(base) == 4 && base[3] >= '0' && base[3] <= '9'
	device := base == "CON" || base == "PRN" || base == "AUX" || base == "NUL" ||
		digit && (strings.HasPrefix(base, "COM") || strings.HasPrefix(base, "LPT"))
	return !device && filepath.IsLocal(name)
}

// slotSaved and slotRestored are what has become of a slot, under llama.cpp's names.
type slotSaved struct {
	Slot    int    `json:"id_slot"`
	File    string `json:"filename"`
	Tokens  int    `json:"n_saved"`
	Bytes   int64  `json:"n_written"`
	Timings struct {
		MS float64 `json:"save_ms"`
	} `json:"timings"`
}

type slotRestored struct {
	Slot    int    `json:"id_slot"`
	File    string `json:"filename"`
	Tokens  int    `json:"n_restored"`
	Bytes   int64  `json:"n_read"`
	Timings struct {
		MS float64 `json:"restore_ms"`
	} `json:"timings"`
}

// changeSlot answers POST /slots/ID: it saves, restores or erases the text of a slot. A slot that is in use is waited
// for. What was computed under another key, or another cache_salt, is not there.
func (s *Server) changeSlot(r *http.Request, body []byte, log *record) (any, error) {
	if s.o.SlotFiles.Dir == "" {
		return nil, &Error{Status: http.StatusNotImplemented, Type: typeNotSupported,
			Message: "this server keeps no files of slots (--slot-save-path)"}
	}
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || id < 0 {
		return nil, badField("id_slot", "must be the number of a slot, not %q", clip(r.PathValue("id")))
	}
	action := r.URL.Query().Get("action")
	f := map[string]func(context.Context, *loaded, *request, int) (any, error){
		"save": s.saveSlot, "restore": s.restoreSlot, "erase": s.eraseSlot}[action]
	if f == nil {
		return nil, badField("action", "must be save, restore or erase, not %q", clip(action))
	}
	ctx, q := r.Context(), s.newRequest()
	if q.client = log.client; len(body) > 0 || action != "erase" {
		if err := s.read(ctx, formSlots, q, body, true); err != nil {
			return nil, err
		}
	}
	if q.filename == "" && action != "erase" {
		return nil, badField("filename", "missing")
	}
	if q.model == "" {
		q.model = r.URL.Query().Get("model")
	}
	m, release, err := s.models.acquire(ctx, q.model)
	if err != nil {
		return nil, err
	}
	defer release()
	if _, err := m.slots.idle(ctx, id); err != nil { // nobody else waits for that
		return nil, err
	}
	_, leave, err := s.slotting.enter(ctx, &q.client.slotting, 1, true) // one at a time
	if err != nil {
		return nil, err
	}
	defer leave()
	v, err := f(ctx, m, q, id)
	return v, slotError(q.filename, err)
}

// slotError is an error about a slot's file as the API tells it.
func slotError(name string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &Error{Status: http.StatusNotFound, Type: typeNotFound, Param: "filename",
			Message: "filename: there is no file " + clip(name) + " of this key"}
	case errors.Is(err, spec.ErrSavedFile):
		return badField("filename", "%s: %v", clip(name), err)
	case errors.Is(err, spec.ErrNoSpace):
		return &Error{Status: http.StatusInsufficientStorage, Type: typeUnavailable, Code: "slot_files",
			Message: "the files of slots take all that they may (--slot-save-size)"}
	case errors.Is(err, spec.ErrOptions), errors.Is(err, spec.ErrNotKept):
		return &Error{Status: http.StatusNotImplemented, Type: typeNotSupported, Cause: err,
			Message: "this server keeps nothing in memory for texts that begin alike, so slots have no state (--cache-ram)"}
	}
	return err
}

func (s *Server) saveSlot(ctx context.Context, m *loaded, q *request, id int) (any, error) {
	held, err := m.slots.idle(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(held.Tokens) == 0 || held.Salt != q.salt(s) {
		return nil, badField("id_slot", "slot %d holds no text of this key", id)
	}
	_, leave, err := s.queue.enter(ctx, &q.client.places, 1, true) // what is no longer in memory is computed
	if err != nil {
		return nil, err
	}
	defer leave()
	left := s.o.SlotFiles.Bytes - folderBytes(s.o.SlotFiles.Dir)
	if left <= 0 {
		return nil, spec.ErrNoSpace
	}
	begun := s.now()
	saved, err := m.SaveHeld(ctx, filepath.Join(s.o.SlotFiles.Dir, q.filename), left, held)
	if err != nil {
		return nil, err
	}
	out := slotSaved{Slot: id, File: q.filename, Tokens: saved.Tokens, Bytes: saved.Bytes}
	out.Timings.MS = milliseconds(s.now().Sub(begun).Seconds())
	return out, nil
}

func (s *Server) restoreSlot(ctx context.Context, m *loaded, q *request, id int) (any, error) {
	like, err := m.HeldOf(nil, q.salt(s), q.lora)
	if err != nil {
		return nil, err
	}
	if _, err := m.slots.idle(ctx, id); err != nil {
		return nil, err
	}
	begun := s.now()
	held, restored, err := m.RestoreHeld(ctx, filepath.Join(s.o.SlotFiles.Dir, q.filename), like)
	if err != nil {
		return nil, err
	}
	m.slots.put(id, held)
	out := slotRestored{Slot: id, File: q.filename, Tokens: restored.Tokens, Bytes: restored.Bytes}
	out.Timings.MS = milliseconds(s.now().Sub(begun).Seconds())
	return out, nil
}

func (s *Server) eraseSlot(ctx context.Context, m *loaded, q *request, id int) (any, error) {
	held, shared, err := m.slots.take(ctx, id, q.salt(s))
	if err != nil {
		return nil, err
	}
	out := struct {
		Slot   int `json:"id_slot"`
		Tokens int `json:"n_erased"`
	}{Slot: id}
	if len(held.Tokens) == 0 {
		return out, nil
	}
	if err := m.ForgetHeld(held, shared); err != nil {
		return nil, err
	}
	out.Tokens = len(held.Tokens)
	return out, nil
}

// folderBytes is what the files of a folder take, without folders in it.
func folderBytes(dir string) (n int64) {
	list, _ := os.ReadDir(dir) // an error is that of the file, too
	for _, e := range list {
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			n += info.Size()
		}
	}
	return n
}
