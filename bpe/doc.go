// Package bpe turns text into token ids and back, the two ways GGUF language
// models do it: byte-level BPE (GPT-2 and its descendants; the words of a
// pre-tokenizer are merged by a ranked list of pairs) and SentencePiece-style
// BPE (Llama 2 and its kin; pairs are merged by the scores of the tokens they
// make, and what is not in the vocabulary falls back to bytes).
//
// Byte-level BPE is described in Radford et al., "Language Models are
// Unsupervised Multitask Learners" (2019), section 2.2, after Sennrich et al.
// (2016); SentencePiece in Kudo and Richardson (2018). Where files leave a
// choice open, ids agree with llama.cpp's.
//
// A [Tokenizer] is immutable and safe for concurrent use. It knows nothing of
// files: whoever reads one fills a [Config], starting from [Defaults].
//
// # Special tokens
//
// Control tokens (end of text, the marks of a chat template) are found in text
// only where [EncodeOptions].ParseSpecial or [Part].ParseSpecial allows it, and
// no merge ever makes one: text from a user, encoded without that option,
// cannot forge a turn of a conversation. User-defined tokens are ordinary text
// with an id of their own and are found everywhere but in a [Part] marked Plain.
//
// # Lossless and lossy
//
// Byte-level BPE keeps every byte: the concatenated [Tokenizer.Bytes] of the
// encoding are the text, whether it is valid UTF-8 or not. (A vocabulary
// without tokens for some bytes loses those.) SentencePiece vocabularies write
// a space as U+2581, so that character comes back as a space. [Tokenizer.Decode]
// and [Decoder] return valid UTF-8 always: each byte that is part of no
// character becomes U+FFFD, as when a Go program ranges over a string.
package bpe
