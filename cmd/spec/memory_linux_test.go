package main

import (
	"math"
	"testing"
	"testing/fstest"
)

// The limit of a service's own control group counts, and those of the groups that it is in, as a container's does.
func TestMemoryOfControlGroups(t *testing.T) {
	const v2, v1 = "0::/system.slice/spec.service\n", "9:cpu:/a\n4:blkio,memory:/a/b\n"
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"none":        {nil, math.MaxInt64},
		"a container": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "5\n"}, 5},
		"a service": {map[string]string{"proc/self/cgroup": v2,
			"sys/fs/cgroup/system.slice/spec.service/memory.max": "3\n",
			"sys/fs/cgroup/system.slice/memory.max":              "max\n"}, 3},
		"its slice": {map[string]string{"proc/self/cgroup": v2,
			"sys/fs/cgroup/system.slice/spec.service/memory.max": "max\n",
			"sys/fs/cgroup/system.slice/memory.max":              "7\n"}, 7},
		"version 1": {map[string]string{"proc/self/cgroup": v1,
			"sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "4\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes":   "9\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712\n"}, 4},
		"other files": {map[string]string{"proc/self/cgroup": "x\n0::/../..\n",
			"sys/fs/cgroup/memory.max": "much"}, math.MaxInt64},
	} {
		root := fstest.MapFS{}
		for file, text := range c.files {
			root[file] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := groupMemory(root); got != c.want {
			t.Errorf("%s: %d, not %d", name, got, c.want)
		}
	}
}
