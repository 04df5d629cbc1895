package panels

import (
	"os"

	"golang.org/x/sys/windows"
)

// openDirect opens a file for reads past the system's cache (FILE_FLAG_NO_BUFFERING). Others may delete or rename it
// meanwhile.
func openDirect(name string) (File, error) {
	path, err := windows.UTF16PtrFromString(name)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	const share = windows.FILE_SHARE_READ | windows.FILE_SHARE_WRITE | windows.FILE_SHARE_DELETE
	h, err := windows.CreateFile(path, windows.GENERIC_READ, share, nil, windows.OPEN_EXISTING,
		windows.FILE_FLAG_NO_BUFFERING, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(h), name), nil
}
