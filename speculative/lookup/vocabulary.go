package lookup

import (
	"crypto/sha256"
	"encoding/binary"
)

// Tokens is a vocabulary, such as a tokenizer of package bpe.
type Tokens interface {
	Size() int
	Token(id int32) string
}

// Vocabulary is the sum of a vocabulary: of its tokens in the order of their ids.
func Vocabulary(t Tokens) (sum [sha256.Size]byte) {
	h := sha256.New()
	var n [8]byte
	for id := range int32(t.Size()) {
		s := t.Token(id)
		binary.LittleEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	return [sha256.Size]byte(h.Sum(nil))
}
