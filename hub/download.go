package hub

import (
	"cmp"
	"context"
	"crypto/sha1" // of git's own names, no signature
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/specgo/spec/internal/filelock"
)

// ErrChecksum: what arrived is not what the tag names.
var ErrChecksum = errors.New("checksum is wrong")

// download fetches a blob. The part that is there from an attempt before is of the same tag, for the tag is
// its name, so only the rest is asked for; the checksum at the end covers both.
func (c *Client) download(ctx context.Context, r Reference, commit, file string, what remote, blob string) error {
	part, err := os.OpenFile(blob+incomplete, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer part.Close()
	unlock, err := filelock.Lock(part)
	if err != nil {
		return fmt.Errorf("%s: another program is downloading it: %w", filepath.Base(part.Name()), err)
	}
	defer unlock()
	if info, err := os.Stat(blob); err == nil && info.Size() == what.size { // another program has just finished it
		os.Remove(part.Name())
		return nil
	}
	have, err := part.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if have > what.size {
		if have, err = 0, part.Truncate(0); err != nil {
			return err
		}
	}
	again := have > 0 // a part whose origin is an earlier run may be damaged: then all is fetched once more
	for failed := 0; ; {
		before := have
		have, err = c.attempt(ctx, r, commit, file, what, part, have)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil && have == what.size {
			if err = verify(ctx, part, what); err == nil {
				break
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if !again {
				part.Close()
				os.Remove(part.Name())
				return err
			}
			again, have, before = false, 0, 0
			if err := part.Truncate(0); err != nil {
				return err
			}
			continue
		}
		var final *finalError
		if errors.As(err, &final) {
			return final.err
		}
		if failed++; have > before {
			failed = 0
		}
		if failed >= attempts {
			return fmt.Errorf("after %d attempts, with %d of %d bytes: %w", attempts, have, what.size, unreachable{err})
		}
		if err := c.wait(ctx, time.Second<<min(failed, 5)); err != nil {
			return err
		}
	}
	if err := part.Sync(); err != nil {
		return err
	}
	if err := part.Close(); err != nil {
		return err
	}
	return os.Rename(part.Name(), blob)
}

// finalError is an answer that another attempt will not change.
type finalError struct{ err error }

func (e *finalError) Error() string { return e.err.Error() }

// attempt fetches what is missing, as far as it comes, and returns how many bytes there are then.
func (c *Client) attempt(ctx context.Context, r Reference, commit, file string, what remote, part *os.File,
	have int64) (int64, error) {
	if have == what.size {
		return have, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	req, err := c.request(ctx, http.MethodGet, r.Owner, r.Name, "resolve", commit, file)
	if err != nil {
		return have, &finalError{err}
	}
	req.Header.Set("Accept-Encoding", "identity")
	if have > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", have))
	}
	resp, err := c.client().Do(req)
	if err != nil {
		if errors.Is(err, ErrServer) {
			err = &finalError{err}
		}
		return have, err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusPartialContent && have > 0:
		var first, last, total int64
		if n, _ := fmt.Sscanf(resp.Header.Get("Content-Range"), "bytes %d-%d/%d", &first, &last, &total); n != 3 ||
			first != have || last != what.size-1 || total != what.size {
			return have, &finalError{fmt.Errorf("%w: range %.60q, asked for %d to the end of %d bytes", ErrServer,
				resp.Header.Get("Content-Range"), have, what.size)}
		}
	case resp.StatusCode == http.StatusOK: // all of it, from the beginning
		have = 0
	case later(resp.StatusCode):
		return have, failure(resp)
	default:
		return have, &finalError{failure(resp)}
	}
	if n := resp.ContentLength; n >= 0 && n != what.size-have {
		return have, &finalError{fmt.Errorf("%w: %d bytes announced, %d expected", ErrServer, n, what.size-have)}
	}
	if _, err := part.Seek(have, io.SeekStart); err != nil {
		return have, &finalError{err}
	}
	body := c.watch(resp.Body, cancel)
	defer body.timer.Stop()
	buf := make([]byte, 1<<17)
	for {
		n, err := body.Read(buf)
		if have+int64(n) > what.size {
			return have, &finalError{fmt.Errorf("%w: more than the %d bytes it said", ErrServer, what.size)}
		}
		if n > 0 {
			if _, err := part.Write(buf[:n]); err != nil {
				return have, &finalError{err}
			}
			have += int64(n)
			if c.Progress != nil {
				c.Progress(file, have, what.size)
			}
		}
		switch {
		case errors.Is(err, io.EOF) && have < what.size:
			return have, io.ErrUnexpectedEOF
		case errors.Is(err, io.EOF):
			return have, nil
		case err != nil:
			return have, err
		}
	}
}

// watched is the body of an answer that is given up when no byte of it has come for the time of Client.Stall.
type watched struct {
	body  io.Reader
	stall time.Duration
	timer *time.Timer // to be stopped
	late  atomic.Bool
}

// watch watches a body; end ends its reading.
func (c *Client) watch(body io.Reader, end func()) *watched {
	w := &watched{body: body, stall: cmp.Or(c.Stall, time.Minute)}
	w.timer = time.AfterFunc(w.stall, func() {
		w.late.Store(true)
		end()
	})
	return w
}

func (w *watched) Read(b []byte) (int, error) {
	n, err := w.body.Read(b)
	w.timer.Reset(w.stall)
	if err != nil && !errors.Is(err, io.EOF) && w.late.Load() {
		err = fmt.Errorf("no byte came for %v", w.stall)
	}
	return n, err
}

// verify compares the content with its tag, by whose length its kind is known (tagName).
func verify(ctx context.Context, part *os.File, what remote) error {
	h := sha256.New()
	if len(what.tag) == 2*sha1.Size {
		h = sha1.New()
		fmt.Fprintf(h, "blob %d\x00", what.size)
	}
	const piece = 64 << 20 // bytes between two looks at the context
	for at := int64(0); at < what.size; at += piece {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, err := io.Copy(h, io.NewSectionReader(part, at, min(piece, what.size-at))); err != nil {
			return err
		}
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != what.tag {
		return fmt.Errorf("%w: %s, expected %s", ErrChecksum, got, what.tag)
	}
	return nil
}

func (c *Client) wait(ctx context.Context, d time.Duration) error {
	if c.Wait != nil {
		return c.Wait(ctx, d)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
