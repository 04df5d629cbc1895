// Package gguf reads and writes GGUF, the file format in which language models
// for CPUs are published: typed metadata, a table of tensors, and their data.
//
// The package knows the format and nothing of what the numbers mean. It reads
// versions 2 and 3 (little endian) and writes version 3; the format is described at
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
//
// [Open] reads the header through an [io.ReaderAt], front to back, and never the
// tensors: a file of any size opens with little memory. Reading a tensor is
//
//	t, ok := f.Tensor("output_norm.weight")
//	r := io.NewSectionReader(f.Reader(), t.Offset, t.Size)
//
// # What may be relied on
//
// A file is not trusted. Lengths and counts are checked against the bytes that
// remain before anything is allocated, so a short file cannot ask for much
// memory. After Open has returned without an error, keys and tensor names are
// unique, every tensor has at most four dimensions (none of them zero), a known
// [Type] and whole blocks in each row, and the data of the tensors fills the file in
// the table's order: each begins where the one before it ends, rounded up to the
// alignment, and after the last there is nothing but its padding, whole or in part.
// So a wrong type, shape or offset is an error, unless it changes no size. (ggml
// refuses the same offsets; it does not look at what follows the last tensor.)
//
// Getters never guess: a key that is missing is [ErrMissing], one of another type
// is [ErrType], a number that does not fit is [ErrRange], and none of them is ever a
// silent zero.
//
// Keys, strings and tensor names may hold any bytes. The package's errors quote
// and cut them; whoever prints them elsewhere has [Printable].
//
// A [File] does not change once opened and may be used by several goroutines at
// once. Slices that getters return belong to the File and must not be written to.
package gguf
