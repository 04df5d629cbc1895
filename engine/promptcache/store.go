package promptcache

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
)

// Key is the name of an entry: SHA-256 of what decides about its bytes.
type Key [sha256.Size]byte

// String is the key in hexadecimal.
func (k Key) String() string { return hex.EncodeToString(k[:]) }

// Store keeps entries by their keys. It is safe for concurrent use; other processes may use what is behind it. An
// entry may be gone at any time.
type Store interface {
	// Has reports whether there seems to be such an entry. Get may find that it is damaged.
	Has(ctx context.Context, key Key) bool
	// Get returns an entry's bytes as they were put. The error wraps ErrMissing where there is none, or a damaged one,
	// which is not there any more then.
	Get(ctx context.Context, key Key) ([]byte, error)
	// Put stores an entry, in place of one of the same key: as a whole or not at all. data is the caller's again when
	// Put returns.
	Put(ctx context.Context, key Key, data []byte) error
	// Used says that these entries are of use now, the first of them the most.
	Used(ctx context.Context, keys []Key)
}

// ErrMissing is wrapped by errors about entries that are not there, or are damaged.
var ErrMissing = errors.New("no such entry in the prompt cache")

// An entry's bytes stand behind a head: entryMagic, the key, their number (64 bits, little-endian), and SHA-256 of
// key, number and bytes.
const (
	entryMagic = "spec-kv1"
	headBytes  = len(entryMagic) + 2*sha256.Size + 8
)

// mostEntry is the most bytes of an entry in a file: the states of the largest recurrent models have less than half of
// it. What says to have more is damaged: a file may seem to be far larger than its disk.
const mostEntry = 1 << 30

// EntryBytes is what an entry of so many bytes takes in a [File] and in a [Folder], with its head.
func EntryBytes(data int) int64 { return int64(headBytes) + int64(data) }

// entryHead is the head of an entry.
func entryHead(key Key, data []byte) []byte {
	head := append([]byte(entryMagic), key[:]...)
	head = binary.LittleEndian.AppendUint64(head, uint64(len(data)))
	sum := entrySum(head, data)
	return append(head, sum[:]...)
}

// entrySum is the checksum of an entry whose head begins like this.
func entrySum(head, data []byte) (sum Key) {
	h := sha256.New()
	h.Write(head[len(entryMagic) : headBytes-sha256.Size])
	h.Write(data)
	h.Sum(sum[:0])
	return sum
}

// headOf reads a head: the key, and the number of bytes that follow.
func headOf(head []byte) (key Key, n uint64, ok bool) {
	if len(head) < headBytes || string(head[:len(entryMagic)]) != entryMagic {
		return key, 0, false
	}
	copy(key[:], head[len(entryMagic):])
	return key, binary.LittleEndian.Uint64(head[len(entryMagic)+len(key):]), true
}

// intact reports whether the bytes are those that a head was made for, and the key that of the head.
func intact(key Key, head, data []byte) bool {
	k, n, ok := headOf(head)
	return ok && k == key && n == uint64(len(data)) &&
		entrySum(head, data) == Key(head[headBytes-sha256.Size:headBytes])
}
