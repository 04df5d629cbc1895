package tensor

import (
	"fmt"
	"slices"
	"testing"
	"testing/fstest"
)

func files(m map[string]string) fstest.MapFS {
	fs := fstest.MapFS{}
	for name, text := range m {
		fs[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fs
}

func TestAllowedCores(t *testing.T) {
	const dir = "sys/devices/system/cpu/cpu"
	root := files(map[string]string{
		dir + "0/topology/thread_siblings_list": "0,4\n", dir + "4/topology/thread_siblings_list": "0,4\n",
		dir + "1/topology/thread_siblings_list": "1,5\n", dir + "5/topology/thread_siblings_list": "1,5\n",
	})
	for _, c := range []struct {
		cpus []int
		want int
	}{{[]int{0, 1, 4, 5}, 2}, {[]int{0, 4}, 1}, {[]int{0, 5}, 2}, {[]int{0, 4, 8, 9}, 3}} {
		if got := allowedCores(root, c.cpus); got != c.want {
			t.Errorf("CPUs %v: %d cores, want %d", c.cpus, got, c.want)
		}
	}
}

func TestBigCPUs(t *testing.T) {
	machine := func(capacities ...string) fstest.MapFS {
		m := map[string]string{}
		for i, c := range capacities {
			if c != "" {
				m[fmt.Sprintf("sys/devices/system/cpu/cpu%d/cpu_capacity", i)] = c + "\n"
			}
		}
		return files(m)
	}
	rk3588 := machine("530", "530", "530", "530", "1024", "1024", "1024", "1024")
	phone := machine("325", "325", "325", "847", "847", "847", "847", "1024")
	for _, c := range []struct {
		name       string
		root       fstest.MapFS
		cpus, want []int
	}{
		{"little and big", rk3588, []int{0, 1, 2, 3, 4, 5, 6, 7}, []int{4, 5, 6, 7}},
		{"affinity to some of each", rk3588, []int{2, 3, 6}, []int{6}},
		{"affinity to little ones", rk3588, []int{1, 2}, []int{1, 2}},
		{"big ones, one of them faster", phone, []int{0, 1, 2, 3, 4, 5, 6, 7}, []int{3, 4, 5, 6, 7}},
		{"equal", machine("1024", "1024"), []int{0, 1}, []int{0, 1}},
		{"not told", machine(), []int{0, 1, 5}, []int{0, 1, 5}},
		{"told of some", machine("1024", "", "512"), []int{0, 1, 2}, []int{0, 1, 2}},
		{"nonsense", machine("1024", "big"), []int{0, 1}, []int{0, 1}},
		{"nothing", machine("0", "0"), []int{0, 1}, []int{0, 1}},
	} {
		if got := bigCPUs(c.root, c.cpus); !slices.Equal(got, c.want) {
			t.Errorf("%s: CPUs %v, want %v", c.name, got, c.want)
		}
	}
}

func TestQuotaCores(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  int
	}{
		{"no control groups", nil, MaxThreads},
		{"v2 without a limit", map[string]string{
			"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "max 100000\n"}, MaxThreads},
		{"v2", map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "250000 100000\n"}, 2},
		{"v2, less than a core", map[string]string{
			"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "20000 100000\n"}, 1},
		{"v2, the parent's", map[string]string{"proc/self/cgroup": "0::/a/b/c\n",
			"sys/fs/cgroup/a/cpu.max":   "300000 100000\n",
			"sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, 3},
		{"v2 in a container, path of the host", map[string]string{
			"proc/self/cgroup": "0::/docker/x\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4},
		{"v2, path outside", map[string]string{"proc/self/cgroup": "0::/../x\n",
			"sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4},
		{"v1", map[string]string{"proc/self/cgroup": "4:cpu,cpuacct:/a\n3:cpuset:/\n0::/\n",
			"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us":  "600000\n",
			"sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us": "100000\n"}, 6},
		{"v1 without a limit", map[string]string{"proc/self/cgroup": "1:cpu:/\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, MaxThreads},
		{"nonsense", map[string]string{"proc/self/cgroup": "x\n0::/\n", "sys/fs/cgroup/cpu.max": "NaN 0 7\n"}, MaxThreads},
		{"a period of zero", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "1 0\n"}, MaxThreads},
	} {
		if got := quotaCores(files(c.files)); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	if n := usableCores(); n < 1 {
		t.Errorf("%d usable cores here", n)
	}
}
