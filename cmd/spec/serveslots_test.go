package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A server keeps the texts of slots in the folder of --slot-save-path, which it makes; without it there are no files.
func TestServeSavesSlots(t *testing.T) {
	cache, dir := t.TempDir(), filepath.Join(t.TempDir(), "new", "slots")
	env := func(k string) string { return map[string]string{"SPEC_CACHE": cache}[k] }
	url, _ := startedIn(t, env, "--slot-save-path", dir, "--log-format", "off", "-t", "1")
	for _, x := range [][3]string{
		{"/completion", `{"prompt":"func main","n_predict":2,"id_slot":1}`, `"id_slot":1`},
		{"/slots/1?action=save", `{"filename":"a.bin"}`, `"n_saved":`},
		{"/slots/0?action=restore", `{"filename":"a.bin"}`, `"n_restored":`},
		{"/slots/0?action=erase", ``, `"n_erased":`},
	} {
		if status, text := askAs(t, "", "POST", url+x[0], x[1]); status != 200 || !strings.Contains(text, x[2]) {
			t.Errorf("%s: %d %s", x[0], status, text)
		}
	}
	for pattern, want := range map[string]int{filepath.Join(dir, "*"): 1, filepath.Join(cache, "fingerprints", "*"): 0} {
		if files, err := filepath.Glob(pattern); err != nil || len(files) != want {
			t.Errorf("%s: %q, %v", pattern, files, err)
		}
	}
	url, _ = startedIn(t, env, "--log-format", "off", "-t", "1")
	if status, text := askAs(t, "", "POST", url+"/slots/0?action=erase", ""); status != 501 ||
		!strings.Contains(text, "--slot-save-path") {
		t.Errorf("%d %s", status, text)
	}
}

// A service may have no home: then nothing but its own folders is there to keep anything in.
func TestServeSavesSlotsWithoutAHome(t *testing.T) {
	t.Setenv("HOME", "")
	t.Setenv("XDG_CACHE_HOME", "")
	url, _ := started(t, "--slot-save-path", t.TempDir(), "--log-format", "off", "-t", "1")
	if status, text := askAs(t, "", "GET", url+"/readyz", ""); status != 200 {
		t.Errorf("%d %s", status, text)
	}
}
