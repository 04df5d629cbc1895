//go:build !linux

package main

// machineMemory is the machine's memory in bytes, 0 if it is not known, as on this system.
func machineMemory() int64 { return 0 }
