package main

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machineMemory is the memory, in bytes, that this process may use: the machine's, or less where its control group
// has a limit. 0 if it is not known.
func machineMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	n := int64(uint64(info.Totalram) * uint64(info.Unit))
	for _, file := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		data, err := os.ReadFile(file)
		if limit, e := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil && e == nil && limit > 0 {
			n = min(n, limit)
		}
	}
	return n
}
