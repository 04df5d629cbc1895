package promptcache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/specgo/spec/engine"
	"github.com/specgo/spec/gguf"
	"github.com/specgo/spec/internal/wholefile"
)

// fingerprintFolder is the folder of fingerprints that are kept in a folder of entries.
const fingerprintFolder = "fingerprints"

// known is a fingerprint and what its file was when it was made.
type known struct {
	Files       []fileState        `json:"files"` // of a split model several
	Rules       int                `json:"numeric_rules"`
	Version     int                `json:"version"` // engine.FingerprintVersion
	Fingerprint engine.Fingerprint `json:"fingerprint"`
}

// fileState tells one content of a file from another without reading it.
type fileState struct {
	Path     string `json:"path"`
	Bytes    int64  `json:"bytes"`
	Modified int64  `json:"modified_ns"`
	Changed  int64  `json:"changed_ns"` // 0 where the system does not say, like the following
	Inode    uint64 `json:"inode"`
	Device   uint64 `json:"device"`
}

// Fingerprint is [engine.ReadFingerprint] of a file, kept in a folder of entries: while the file's size, times and
// inode stay, it is not read again. A folder that cannot be written to keeps nothing, which is no error.
func Fingerprint(ctx context.Context, dir string, f *gguf.File) (engine.Fingerprint, error) {
	files := statesOf(f)
	if files == nil {
		return engine.ReadFingerprint(ctx, f)
	}
	sum := sha256.Sum256([]byte(files[0].Path))
	name := filepath.Join(dir, fingerprintFolder, hex.EncodeToString(sum[:16])+".json")
	var k known
	if data, err := os.ReadFile(name); err == nil && json.Unmarshal(data, &k) == nil &&
		k.Rules == engine.NumericRules && k.Version == engine.FingerprintVersion && slices.Equal(k.Files, files) &&
		len(k.Fingerprint.Model) == 64 {
		return k.Fingerprint, nil
	}
	print, err := engine.ReadFingerprint(ctx, f)
	if err != nil || !slices.Equal(statesOf(f), files) { // it was written to meanwhile
		return print, err
	}
	if data, err := json.Marshal(known{files, engine.NumericRules, engine.FingerprintVersion, print}); err == nil {
		if os.MkdirAll(filepath.Dir(name), 0o700) == nil {
			_ = wholefile.Write(name, data, 0o600)
		}
	}
	return print, nil
}

// statesOf is the state of the files, nil where they are not those that are open, or not in a file system. A file of
// the same size that has got the name since f was opened has another time, which may be an earlier one.
func statesOf(f *gguf.File) (list []fileState) {
	bytes, last := int64(0), time.Time{}
	for _, name := range f.Files {
		path, err := filepath.Abs(name)
		if err != nil {
			return nil
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil
		}
		if info.ModTime().After(last) {
			last = info.ModTime()
		}
		s := fileState{Path: path, Bytes: info.Size(), Modified: info.ModTime().UnixNano()}
		s.identify(info)
		list = append(list, s)
		bytes += s.Bytes
	}
	if bytes != f.Size() || !last.Equal(f.Modified) {
		return nil
	}
	return list
}
