package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"

	"github.com/specgo/spec/gguf"
)

// NumericRules is the version of the rules by which logits follow from weights and tokens, and tokens from logits
// (package comment of tensor; noise and order of filters of sampling). It changes when any model's logits or any
// sampled token may change.
const NumericRules = 2

// FingerprintVersion is the version of what a [Fingerprint] is made of. It changes when that of any file may change, so
// that who keeps one beside its file makes it anew.
const FingerprintVersion = 2

// Fingerprint identifies what a GGUF file computes: SHA-256 in lower-case hexadecimal. It depends neither on the
// order of keys and tensors in the file nor on what describes it (general.*, the chat template).
type Fingerprint struct {
	Model     string // architecture, its hyperparameters, and every tensor's name, type, shape and bytes
	Tokenizer string // the keys tokenizer.ggml.*
}

// Identity says, for people and programs, what of a model decides about the logits, keys and values of its sessions
// beside the sessions' options: "" where the model was opened without Options.Fingerprint. Models of the same identity
// compute the same bits on every machine. That of a draft head names its target's too, "" where that has none.
func (m *Model) Identity() string {
	p := m.fingerprint
	if p.Model == "" {
		return ""
	}
	s := fmt.Sprintf("%s %s, tokenizer %s, weights %q, angles %q, numeric rules %d", m.kind.is, p.Model, p.Tokenizer,
		m.weights, m.config.RopeFactors, NumericRules)
	if m.target == nil {
		return s
	}
	target := m.target.Identity()
	if target == "" {
		return ""
	}
	return s + ", for " + target
}

// ReadFingerprint reads a file from its first byte to its last. It is not needed to run a model.
func ReadFingerprint(ctx context.Context, f *gguf.File) (Fingerprint, error) {
	arch, err := f.String("general.architecture")
	if err != nil {
		return Fingerprint{}, err
	}
	tokenizer, err := hashKeys(f, func(key string) bool { return strings.HasPrefix(key, "tokenizer.ggml.") })
	if err != nil {
		return Fingerprint{}, err
	}
	k := kinds[arch]
	model, err := hashKeys(f, func(key string) bool { return key == "general.architecture" || k.key(arch, key) })
	if err != nil {
		return Fingerprint{}, err
	}
	if err := hashTensors(ctx, model, f); err != nil {
		return Fingerprint{}, err
	}
	return Fingerprint{Model: hexSum(model), Tokenizer: hexSum(tokenizer)}, nil
}

// hashTensors hashes every tensor's name, type, shape and bytes, in the order of the names.
func hashTensors(ctx context.Context, h hash.Hash, f *gguf.File) error {
	tensors := slices.SortedFunc(slices.Values(f.Tensors),
		func(a, b gguf.Tensor) int { return cmp.Compare(a.Name, b.Name) })
	for _, t := range tensors {
		number(h, uint64(len(t.Name)))
		io.WriteString(h, t.Name)
		number(h, uint64(t.Type))
		number(h, uint64(len(t.Dims)))
		for _, d := range t.Dims {
			number(h, d)
		}
		number(h, uint64(t.Size))
		if err := hashTensor(ctx, h, f, t); err != nil {
			return err
		}
	}
	return nil
}

// hashKeys hashes the chosen keys with their values, in the order of the keys, as a GGUF file that has nothing else.
func hashKeys(f *gguf.File, chosen func(key string) bool) (hash.Hash, error) {
	var kvs []gguf.KV
	for _, kv := range f.KVs {
		if chosen(kv.Key) {
			kvs = append(kvs, kv)
		}
	}
	slices.SortFunc(kvs, func(a, b gguf.KV) int { return cmp.Compare(a.Key, b.Key) })
	h := sha256.New()
	return h, gguf.Write(h, kvs, nil)
}

// hashTensor hashes a tensor's bytes.
func hashTensor(ctx context.Context, h hash.Hash, f *gguf.File, t gguf.Tensor) error {
	const piece = 64 << 20 // bytes between two looks at the context
	for at := int64(0); at < t.Size; at += piece {
		if err := ctx.Err(); err != nil {
			return err
		}
		n := min(piece, t.Size-at)
		if copied, err := io.Copy(h, io.NewSectionReader(f.Reader(), t.Offset+at, n)); err != nil || copied != n {
			return fmt.Errorf("%s: tensor %q: %d of %d bytes: %w", f.Name, t.Name, at+copied, t.Size,
				cmp.Or(err, io.ErrUnexpectedEOF))
		}
	}
	return nil
}

func number(h hash.Hash, n uint64) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], n)
	h.Write(b[:])
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }
