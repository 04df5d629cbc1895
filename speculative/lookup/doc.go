// Package lookup finds what followed the last tokens of a text in many other texts: an index on disk of token ids, a
// suffix array. [Build] writes one, in bounded memory; [Open] maps it, and any number of texts look up in it at once.
// It knows ids and files, not models.
//
//	err := lookup.Build(ctx, "index", []string{"texts"}, lookup.Options{Encode: encode, Vocab: vocab})
//	x, err := lookup.Open("index")
//	var m lookup.Match
//	err = x.Match(&m, ids, 0)               // the longest end of ids that is in the texts
//	id, count, places, err := x.Next(&m)    // what followed it most often
//	err = x.Step(&m, id)                    // and so on
//
// # The file
//
// Numbers are little endian. A header of 4,096 bytes holds, in this order: the magic "SPECLKUP", version (uint32, 1),
// width (uint32: bytes of a token, 2 to 4), vocab (uint32), depth (uint32), tokens (uint64), suffixes (uint64), texts
// (uint64), bytes of text (uint64), bytes of the description (uint64), the SHA-256 of the vocabulary (32 bytes), the
// CRC-32C of the sums (uint32), and the CRC-32C of all of that (uint32). The body follows: the tokens, width bytes
// each, with vocab as the end of each text; the suffixes, uint32 positions in the order of the first depth tokens from
// there, those that begin with an end left out; vocab + 1 uint32, where the suffixes of each first token begin; the
// description, JSON. Behind it are the sums: a CRC-32C of each 4,096 bytes of the body. A block's sum is checked when
// it is first read.
package lookup
