// Package bpe converts text to token ids and back, for the vocabularies of GGUF
// language models.
//
//	tok, err := bpe.New(config)                                     // what a file says; see Defaults
//	ids := tok.Encode("Hello", bpe.EncodeOptions{AddSpecial: true})
//	text := tok.Decode(ids)
//
// The package implements four kinds of byte-pair encoding (BPE) and two other
// tokenizers, named as in tokenizer.ggml.model:
//
//   - gpt2: byte-level BPE. A pre-tokenizer splits the text into words; the bytes of
//     each are merged by a ranked list of pairs. Radford et al., "Language Models are
//     Unsupervised Multitask Learners" (2019), section 2.2, after Sennrich et al.,
//     "Neural Machine Translation of Rare Words with Subword Units" (2016).
//   - llama: SentencePiece-style BPE. Characters are merged by the scores of the
//     tokens they make; what is not in the vocabulary becomes bytes. Kudo and
//     Richardson, "SentencePiece" (2018).
//   - gemma4: BPE on characters, with spaces written as U+2581, merged by a ranked
//     list of pairs, with the same fallback to bytes.
//   - whitespace: BPE on the characters of words, between which white space is dropped.
//   - t5: unigram. The text is normalized, and of all ways to cut it into tokens the
//     one with the highest sum of scores is taken. Kudo, "Subword Regularization"
//     (2018), section 3.2. XLM-R's vocabularies are of this kind too.
//   - bert: WordPiece. The text is normalized and cut into words, and each word into
//     the longest tokens from the left. Devlin et al., "BERT" (2019), section 3. Ids
//     are those of the published program, Hugging Face's tokenizers.
//
// Other kinds (those of RWKV, of PLaMo 2 and 3, HybriDNA's) are an error that names them. Where files leave a choice
// open, ids agree with llama.cpp's.
//
// A [Tokenizer] is immutable and safe for concurrent use. The package does not read
// files: fill in a [Config], starting from [Defaults]. Encoding takes
// O(n log n) time for n bytes, whatever the text.
//
// # Special tokens
//
// Control tokens (end of text, the marks of a chat template) are found in text only
// where [EncodeOptions].ParseSpecial or [Part].ParseSpecial allows it, and no merge
// makes one: a user's text, encoded without that option, cannot imitate the structure
// of a conversation. User-defined tokens are text with an id of their own and are
// found everywhere but in a [Part] marked Plain.
//
// # Lossless and lossy
//
// Byte-level BPE keeps every byte: the concatenated [Tokenizer.Bytes] of the encoding
// are the text, valid UTF-8 or not, unless the vocabulary lacks a token for one of the
// bytes. The other kinds decode U+2581 as a space, and drop spaces if
// [Config].RemoveExtraWhitespaces is set. A t5 text comes back as it was normalized,
// without the characters that the vocabulary lacks, and a bert text as its words.
// [Tokenizer.Decode] and [Decoder] always return valid UTF-8: each byte that is part of
// no character becomes U+FFFD, as when a Go program ranges over a string.
package bpe
