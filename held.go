package spec

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/engine/promptcache"
	"github.com/specgo/spec/engine/shared"
)

// Held is what a sequence of a model held when its answer ended: tokens, and what decides beside them about the keys,
// values and states that were computed for them. See [Run].Ended.
type Held struct {
	Tokens []int32
	Salt   string
	set    engine.AdapterSet
}

// Alike reports whether two texts that begin alike have the same keys, values and states there.
func (h *Held) Alike(o *Held) bool { return h.Salt == o.Salt && h.set == o.set }

// HeldOf is a text with these tokens under the adapters that a request names, nil: those of the model.
func (m *Model) HeldOf(tokens []int32, salt string, adapters []AdapterScale) (Held, error) {
	set, err := m.adapterSet(adapters)
	return Held{tokens, salt, set}, err
}

// ErrNotKept is wrapped by errors about sequences that cannot be restored, since none are kept.
var ErrNotKept = shared.ErrNotKept

// SavedFile is what became of a text in a file.
type SavedFile struct {
	Tokens int   // of the text
	Bytes  int64 // of the file, or those that were read of it
}

// ErrSavedFile is wrapped by errors about files that are not what SaveHeld wrote of this model, under these options:
// damaged ones, those of other models, options and salts, and others. There is one reason for each.
var ErrSavedFile = errors.New("not a saved text that can be gone on from")

// scheduledTarget is what the target's sequences come from, for saved texts.
func (m *Model) scheduledTarget() (*scheduled, error) {
	target, ok := m.target.(*scheduled)
	switch {
	case !ok:
		return nil, fmt.Errorf("%w: saved texts are for sequences that share passes: Options.Parallel is not 1", ErrOptions)
	case m.parts.Target.Encodes():
		return nil, fmt.Errorf("%w: saved texts: %s is an encoder-decoder model", ErrOptions, m.name)
	case m.parts.Target.Identity() == "":
		return nil, fmt.Errorf("%w: saved texts, and %s was opened without engine.Options.Fingerprint", ErrOptions, m.name)
	}
	return target, nil
}

// of are the options of a scheduler's sequences of a text: the target's, or a draft's.
func (s *scheduled) of(t *Held, draft bool) shared.SessionOptions {
	o := shared.SessionOptions{SessionOptions: s.o, Salt: t.Salt}
	switch {
	case !draft:
		o.Adapters = t.set
	case s.Model().Head() != nil:
		o.Salt = readSalt(t.Salt, &t.set)
	}
	return o
}

// eachDraft calls f with what the sequences of each draft model come from whose tokens are the target's.
func (m *Model) eachDraft(f func(*scheduled) error) error {
	for _, d := range m.drafts {
		if s, ok := d.own.(*scheduled); ok && d.foreign == nil {
			if err := f(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// SaveHeld writes what the target computes of a text, and what its drafts have computed of it, to a file: for
// RestoreHeld, of this process or of another one, on any machine. What is no longer in memory of the target's is
// computed. most is the most bytes of the file for what it does not have yet, beside the text's tokens; 0: any number,
// beyond it the error wraps ErrNoSpace. A file of that name is replaced, when all is written, if it is one of the same
// salt that is not damaged; else the error wraps ErrSavedFile.
func (m *Model) SaveHeld(ctx context.Context, path string, most int64, t Held) (saved SavedFile, err error) {
	target, err := m.scheduledTarget()
	if err != nil {
		return saved, err
	}
	n := len(t.Tokens)
	if n == 0 || n > m.context {
		return saved, fmt.Errorf("%w: a text of %d tokens in a context of %d", ErrOptions, n, m.context)
	}
	lineage, err := target.Lineage(target.of(&t, false))
	if err != nil {
		return saved, err
	}
	f, err := openSaved(path)
	if err != nil {
		return saved, err
	}
	defer f.Close()
	if had := f.Contents().Lineage; !f.New() && (had.Model == "" || had.Salt != t.Salt) {
		return saved, fmt.Errorf("%w: there is a file of that name that is damaged, or another's", ErrSavedFile)
	}
	var store promptcache.Store = f
	if most > 0 {
		store = &boundedStore{Store: f, left: most}
	}
	f.Renew()
	if err := target.save(ctx, store, &t); err != nil {
		return saved, err
	}
	err = m.eachDraft(func(d *scheduled) error {
		_, err := d.SaveKept(ctx, store, d.of(&t, true), t.Tokens)
		return err
	})
	if err != nil {
		return saved, err
	}
	saved.Tokens = n
	saved.Bytes, err = f.Commit(promptcache.Contents{Lineage: lineage, Tokens: t.Tokens})
	return saved, err
}

// save stores a text, and computes what is not there. The last token is computed in any case: so what recurrent layers
// have after it is known.
func (s *scheduled) save(ctx context.Context, store promptcache.Store, t *Held) error {
	session, err := s.NewSession(ctx, s.of(t, false))
	if err != nil {
		return err
	}
	defer session.Close()
	before := t.Tokens[:len(t.Tokens)-1]
	session.Recall(ctx, before)
	for _, part := range [][]int32{before, t.Tokens[len(before):]} {
		if len(part) == 0 {
			continue
		}
		if _, err := session.Eval(ctx, part, nil, engine.None); err != nil {
			return err
		}
	}
	saved, err := session.Save(ctx, store)
	if err == nil && saved.Tokens < len(t.Tokens) {
		err = fmt.Errorf("%s: %d of %d tokens were saved", s.Model().Name(), saved.Tokens, len(t.Tokens))
	}
	return err
}

// openSaved opens a file of SaveHeld, or one that is to become one.
func openSaved(path string) (*promptcache.File, error) {
	f, err := promptcache.OpenFile(path)
	if errors.Is(err, promptcache.ErrNotCache) {
		err = fmt.Errorf("%w: it is another kind of file", ErrSavedFile)
	}
	return f, err
}

// ErrNoSpace is wrapped by errors about more bytes than may be written.
var ErrNoSpace = errors.New("more bytes than may be written")

// boundedStore is a store that takes so many bytes more.
type boundedStore struct {
	promptcache.Store
	left int64
}

func (b *boundedStore) Put(ctx context.Context, key promptcache.Key, data []byte) error {
	if b.left -= promptcache.EntryBytes(len(data)); b.left < 0 {
		return ErrNoSpace
	}
	return b.Store.Put(ctx, key, data)
}

// RestoreHeld has the model go on from what SaveHeld wrote to a file: the sequences of the target and of its drafts
// are kept as if their answers had just ended. like has the salt and the adapters that the file must be of; the text
// has its tokens too. Where there is no file, or one of another salt, the error wraps fs.ErrNotExist; where it is not
// one to go on from as a whole, ErrSavedFile; where no memory is for it, ErrNotKept or engine.ErrKVBudget.
func (m *Model) RestoreHeld(ctx context.Context, path string, like Held) (t Held, restored SavedFile, err error) {
	target, err := m.scheduledTarget()
	if err != nil {
		return t, restored, err
	}
	want, err := target.Lineage(target.of(&like, false))
	if err != nil {
		return t, restored, err
	}
	f, err := openSaved(path)
	if err != nil {
		return t, restored, err
	}
	defer f.Close()
	c := f.Contents()
	if f.New() || c.Lineage.Model != "" && c.Lineage.Salt != want.Salt {
		return t, restored, fs.ErrNotExist
	}
	if why := m.differs(c, want); why != "" {
		return t, restored, fmt.Errorf("%w: %s", ErrSavedFile, why)
	}
	t = Held{c.Tokens, like.Salt, like.set}
	n, read, err := target.Load(ctx, f, target.of(&t, false), t.Tokens, len(t.Tokens))
	if err != nil {
		return t, restored, err
	}
	if n < len(t.Tokens) {
		return t, restored, fmt.Errorf("%w: it is damaged", ErrSavedFile)
	}
	err = m.eachDraft(func(d *scheduled) error {
		_, more, err := d.Load(ctx, f, d.of(&t, true), t.Tokens, 1)
		read += more
		if errors.Is(err, engine.ErrKVBudget) || errors.Is(err, shared.ErrNotKept) {
			err = nil // it computes the text again
		}
		return err
	})
	return t, SavedFile{n, read}, err
}

// differs is why a file's contents are not to be gone on from; "": they are.
func (m *Model) differs(c promptcache.Contents, want promptcache.Lineage) string {
	had := c.Lineage
	switch {
	case had.Model == "" || len(c.Tokens) == 0:
		return "it is damaged"
	case had.Model != want.Model:
		return "it was saved by another model, or by this one with other weights or another rotary table"
	case had.KV != want.KV:
		return fmt.Sprintf("it has keys and values as %s, the model here as %s", had.KV, want.KV)
	case had.Adapters != want.Adapters:
		return "it was saved with other adapters, or other scales of them"
	case had != want:
		return "it was saved with other options"
	case len(c.Tokens) > m.context:
		return fmt.Sprintf("it has %d tokens, the context %d", len(c.Tokens), m.context)
	}
	return ""
}

// ForgetHeld gives up what is kept of a text, beyond its first rest tokens, which other texts have in common with it.
// Sequences that go on behind the text stay, and so does what [Stored] has.
func (m *Model) ForgetHeld(t Held, rest int) error {
	target, ok := m.target.(*scheduled)
	if !ok {
		return nil // nothing is kept
	}
	if err := target.Forget(target.of(&t, false), t.Tokens, rest); err != nil {
		return err
	}
	return m.eachDraft(func(d *scheduled) error { return d.Forget(d.of(&t, true), t.Tokens, rest) })
}
