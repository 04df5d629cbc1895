package main

import (
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// machineMemory is the memory, in bytes, that this process may use: the machine's, or less where its control groups
// have a limit. 0 if it is not known.
func machineMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return min(int64(uint64(info.Totalram)*uint64(info.Unit)), groupMemory(os.DirFS("/")))
}

// groupMemory is the least limit of the process's control groups and their parents, version 1 or 2, in bytes;
// math.MaxInt64: there is none. In a container what is mounted is the process's own group, whatever its path says.
func groupMemory(root fs.FS) int64 {
	files := []string{"sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes"}
	groups, _ := fs.ReadFile(root, "proc/self/cgroup") // it is not there where there are no control groups
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // number:controllers:path
		if len(parts) != 3 {
			continue
		}
		for dir := path.Clean("/" + parts[2]); dir != "/"; dir = path.Dir(dir) {
			switch {
			case parts[1] == "":
				files = append(files, path.Join("sys/fs/cgroup", dir, "memory.max"),
					path.Join("sys/fs/cgroup/unified", dir, "memory.max"))
			case slices.Contains(strings.Split(parts[1], ","), "memory"):
				files = append(files, path.Join("sys/fs/cgroup/memory", dir, "memory.limit_in_bytes"))
			}
		}
	}
	least := int64(math.MaxInt64)
	for _, file := range files {
		data, err := fs.ReadFile(root, file)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(data)), 10, 64); err == nil && n > 0 { // "max" is no limit
			least = min(least, n)
		}
	}
	return least
}
