//go:build !linux

package systemd

// Reloading are the lines that tell of the beginning of a reload, whose end READY=1 tells.
func Reloading() []string { return []string{"RELOADING=1"} }
