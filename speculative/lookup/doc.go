// Package lookup finds what followed the last tokens of a text in many other texts: an index on disk of token ids, the
// suffix array of the texts read backwards. [Build] writes one, in bounded memory; [Open] maps it, and any number of
// texts look up in it at once. It knows ids and files, not models.
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
// Numbers are little endian. A header of 4,096 bytes holds, in this order: the magic "SPECLKUP", version (uint32, 2),
// bits (uint32: of a token, as many as vocab has), vocab (uint32), depth (uint32), tokens (uint64), places (uint64),
// texts (uint64), bytes of text (uint64), bytes of the description (uint64), the SHA-256 of the vocabulary (32 bytes),
// the CRC-32C of the sums (uint32), and the CRC-32C of all of that (uint32). The body follows:
//
//   - the tokens, from the lowest bit of the first byte on, to a multiple of 8 bytes: vocab, which is the end of a
//     text, 128 times, then each text and its end;
//   - the places, uint32: the positions of all tokens but ends, in the order of the last depth tokens up to there, the
//     last of them first;
//   - the fences, uint64, of every 64th place from the first on: the tokens before its last one, as many as 57 bits
//     have and the last of them highest;
//   - vocab + 1 uint32: where the places of each token begin;
//   - the description, JSON.
//
// Behind it are the sums: a CRC-32C of each 4,096 bytes of the body. A block's sum is checked when it is first read.
//
// So the longest end of a text that occurs is found by one search: for the place where the text read backwards would
// be.
package lookup
