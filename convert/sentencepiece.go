package convert

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
)

// readSentencePiece reads tokenizer.model, or T5's spiece.model: a protocol buffer, ModelProto, of which these fields
// matter:
//
//	1 pieces           repeated: 1 piece (text), 2 score (float), 3 type (1 by default)
//	2 trainer_spec     3 model_type (1 unigram, 2 BPE), 24 treat_whitespace_as_suffix
//	3 normalizer_spec  2 precompiled_charsmap, and, true by default, 3 add_dummy_prefix, 4 remove_extra_whitespaces,
//	                   5 escape_whitespaces
//
// Of a BPE model's normalizer only the prefix counts, with a note where the file says more; a unigram model is read
// where unigram is set.
func readSentencePiece(file string, unigram bool) (*words, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	w, err := parseSentencePiece(data, unigram)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return w, nil
}

func parseSentencePiece(data []byte, unigram bool) (*words, error) {
	w := &words{model: "llama", pre: "default", scores: []float32{}}
	kind, suffix, prefix, squeeze, escape := uint64(1), false, true, true, true
	err := fields(data, func(number int, value uint64, text []byte) error {
		switch number {
		case 1:
			piece, score, typ := "", float32(0), int32(typeNormal)
			err := fields(text, func(number int, value uint64, text []byte) error {
				switch number {
				case 1:
					piece = string(text)
				case 2:
					score = math.Float32frombits(uint32(value))
				case 3:
					typ = int32(value)
				}
				return nil
			})
			if err == nil && (typ < typeNormal || typ > typeByte || score != score || piece == "") {
				err = fmt.Errorf("piece %d: %q, score %v, type %d", len(w.tokens), piece, score, typ)
			}
			w.tokens, w.scores, w.types = append(w.tokens, piece), append(w.scores, score), append(w.types, typ)
			return err
		case 2:
			return fields(text, func(number int, value uint64, _ []byte) error {
				switch number {
				case 3:
					kind = value
				case 24:
					suffix = value != 0
				}
				return nil
			})
		case 3:
			return fields(text, func(number int, value uint64, text []byte) error {
				switch number {
				case 2:
					w.charsmap = text
				case 3:
					prefix = value != 0
				case 4:
					squeeze = value != 0
				case 5:
					escape = value != 0
				}
				return nil
			})
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case len(w.tokens) == 0 || len(w.tokens) > largest:
		return nil, fmt.Errorf("a vocabulary of %d pieces", len(w.tokens))
	case kind == 1 && unigram && (!prefix || !squeeze):
		return nil, fmt.Errorf("normalizer_spec: add_dummy_prefix %v, remove_extra_whitespaces %v: GGUF's t5 writes "+
			"spaces as this tokenizer does only if both are true", prefix, squeeze)
	case !escape || suffix:
		return nil, errors.New("normalizer_spec: spaces that are not marks in front of words are not supported")
	case kind == 1 && unigram:
		return w, w.makeUnigram()
	case kind != 2:
		return nil, fmt.Errorf("model_type %d is not supported (2, BPE, is)", kind)
	}
	if len(w.charsmap) > 0 || squeeze {
		w.note = "tokenizer.model maps characters, or makes one of several spaces (normalizer_spec), which is left out: " +
			"GGUF's llama takes a text as it is"
	}
	w.charsmap = nil
	w.addPrefix = &prefix
	return w, nil
}

var errProtobuf = errors.New("not a SentencePiece model: a field is cut off or has an unknown wire type")

// fields calls use for each field of a protocol buffer message: with its value if it is a number, else with its bytes.
func fields(data []byte, use func(number int, value uint64, text []byte) error) error {
	for len(data) > 0 {
		tag, n := binary.Uvarint(data)
		if n <= 0 || tag>>3 == 0 || tag>>3 > 1<<29 {
			return errProtobuf
		}
		data = data[n:]
		var value uint64
		var text []byte
		switch tag & 7 {
		case 0:
			if value, n = binary.Uvarint(data); n <= 0 {
				return errProtobuf
			}
			data = data[n:]
		case 1:
			if len(data) < 8 {
				return errProtobuf
			}
			value, data = binary.LittleEndian.Uint64(data), data[8:]
		case 2:
			size, n := binary.Uvarint(data)
			if n <= 0 || size > uint64(len(data)-n) {
				return errProtobuf
			}
			text, data = data[n:n+int(size)], data[n+int(size):]
		case 5:
			if len(data) < 4 {
				return errProtobuf
			}
			value, data = uint64(binary.LittleEndian.Uint32(data)), data[4:]
		default:
			return errProtobuf
		}
		if err := use(int(tag>>3), value, text); err != nil {
			return err
		}
	}
	return nil
}
