package panels

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOnlyOurFilesAreListed: only our own files are listed.
func TestOnlyOurFilesAreListed(t *testing.T) {
	const stem = "0123456789abcdef0123456789abcdef"
	for name, ours := range map[string]bool{stem + ".panels": true, stem + ".panel": false, stem[1:] + ".panels": false,
		"g" + stem[1:] + ".panels": false, stem + ".panels.tmp-1": false, stem + ".panelsx": false} {
		if fileName(name) != ours {
			t.Errorf("%s: %v", name, !ours)
		}
	}
	for name, ours := range map[string]bool{stem + ".panels.tmp-12": true, stem + ".panels.tmp-": false,
		stem + ".panels.tmp-1x": false, "x.tmp-1": false, stem + ".panels": false} {
		if temporaryName(name) != ours {
			t.Errorf("%s: %v", name, !ours)
		}
	}
	dir := t.TempDir()
	older := filepath.Join(dir, stem[2:]+"00.panels") // of another version
	if err := os.WriteFile(older, append([]byte(magic), make([]byte, 100)...), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{stem + ".panels", "notes.txt", stem + ".panels.tmp-7"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("something else"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := Files(dir)
	if err != nil || len(list) != 2 || list[0].Complete() || filepath.Base(list[0].Name) != stem+".panels.tmp-7" ||
		!list[1].Complete() || list[1].Name != older || list[1].Text != otherText {
		t.Errorf("%v, %v", list, err)
	}
	if list, err := Files(filepath.Join(dir, "none")); err != nil || list != nil {
		t.Errorf("%v, %v", list, err)
	}
}

// A folder that is not there has no files; what is no folder is an error.
func TestFilesOfNoFolderAreAnError(t *testing.T) {
	dir := t.TempDir()
	if list, err := Files(filepath.Join(dir, "none")); len(list) != 0 || err != nil {
		t.Errorf("%v, %v", list, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if list, err := Files(file); err == nil {
		t.Errorf("%v of a file", list)
	}
}
