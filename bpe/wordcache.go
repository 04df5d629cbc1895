package bpe

import "hash/maphash"

// wordCache holds the tokens of words that came lately. Most words of a long text come again, and a look takes less
// than merging. Tokens depend on the word alone, so it changes nothing but the time.
type wordCache struct {
	seed  maphash.Seed
	slots []cachedWord // a power of two
}

const (
	cachedText  = 16 << 10 // bytes of a text from which it is worth having
	cachedWords = 1 << 13
	cachedBytes = 22 // of a word
	cachedIDs   = 6
)

// cachedWord is a word with its tokens; length 0: none.
type cachedWord struct {
	length, n uint8
	word      [cachedBytes]byte
	ids       [cachedIDs]int32
}

func newWordCache(slots int) *wordCache {
	return &wordCache{seed: maphash.MakeSeed(), slots: make([]cachedWord, slots)}
}

// slot is where a word is, or would be.
func (c *wordCache) slot(word string) *cachedWord {
	return &c.slots[maphash.String(c.seed, word)&uint64(len(c.slots)-1)]
}

func (w *cachedWord) holds(word string) bool {
	return int(w.length) == len(word) && string(w.word[:w.length]) == word
}

// set keeps a word, unless it has more tokens than there is room for.
func (w *cachedWord) set(word string, ids []int32) {
	if len(ids) <= cachedIDs {
		w.length, w.n = uint8(copy(w.word[:], word)), uint8(copy(w.ids[:], ids))
	}
}
