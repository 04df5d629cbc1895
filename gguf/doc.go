// Package gguf reads and writes GGUF, the file format of llama.cpp and other
// engines that run language models on CPUs. A file holds typed metadata (keys and
// values), a table of tensors, and the tensors' data.
//
//	f, err := gguf.OpenFile("model.gguf")
//	defer f.Close()
//	layers, err := f.Uint32("llama.block_count")
//	t, ok := f.Tensor("output_norm.weight") // type, dimensions, where its bytes are
//
// The package implements the format and does not interpret the values. It reads
// versions 2 and 3 (little endian) and writes version 3. The format is specified at
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
//
// [Open] reads the header (everything before the tensor data) through an
// [io.ReaderAt], once, from its first byte to its last. It does not read tensor
// data, so a file of any size opens with little memory. To read a tensor:
//
//	t, ok := f.Tensor("output_norm.weight")
//	r := io.NewSectionReader(f.Reader(), t.Offset, t.Size)
//
// [OpenFile] joins the parts of a split model: offsets are then into the files one after the other.
//
// # Guarantees
//
// Files are untrusted input. Every length and count is checked against the bytes
// that remain in the file before memory is allocated for it, so a short file cannot
// cause a large allocation. After Open has returned without an error, keys and tensor names are
// unique, every tensor has at most four dimensions (none of them zero), a known
// [Type] and whole blocks in each row, and the data of the tensors fills the file in
// the table's order: each begins where the one before it ends, rounded up to the
// alignment, and after the last there is nothing but its padding, whole or in part.
// So a wrong type, shape or offset is an error, unless it changes no size. (ggml
// refuses the same offsets; it does not look at what follows the last tensor.)
//
// Getters have no default values: a missing key is [ErrMissing], a value of another
// type is [ErrType], and a number that does not fit the requested type is [ErrRange].
//
// Keys, strings and tensor names may hold any bytes. The package's errors quote
// and cut them; whoever prints them elsewhere has [Printable].
//
// A [File] is immutable and safe for concurrent use. Slices that getters return
// belong to the File and must not be modified.
package gguf
