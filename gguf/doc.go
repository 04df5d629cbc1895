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
// [Type] and whole blocks in each row, and its bytes lie inside the file, aligned,
// and apart from those of all other tensors.
//
// Getters never guess: a key that is missing is [ErrMissing], one of another type
// is [ErrType], and neither is ever a silent zero.
//
// A [File] does not change once opened and may be used by several goroutines at
// once. Slices that getters return belong to the File and must not be written to.
package gguf
