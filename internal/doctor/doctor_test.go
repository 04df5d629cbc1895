package doctor

import (
	"maps"
	"strings"
	"testing"
	"testing/fstest"
)

// host is a well set up machine: its files.
var host = map[string]string{
	"proc/cpuinfo":     "processor\t: 0\nmodel name\t: AMD EPYC 9354 32-Core Processor\nflags\t\t: fpu avx2 avx512_vnni\n",
	"proc/loadavg":     "0.10 0.20 0.30 1/200 77\n",
	"proc/self/cgroup": "0::/a/b\n",
	"sys/kernel/mm/transparent_hugepage/enabled":           "always [madvise] never\n",
	"sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
	"sys/devices/system/cpu/cpu0/cpufreq/scaling_driver":   "amd-pstate-epp\n",
	"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "performance\n",
	"sys/devices/system/node/node0/cpulist":                "0-31\n",
	"sys/fs/cgroup/a/cpu.max":                              "max 100000\n",
	"sys/fs/cgroup/a/b/memory.max":                         "max\n",
}

var program = Machine{Kernels: "avx512", Threads: 32, CPUs: 32, Bandwidth: 400}

// find are the findings of the host with other files, by subject.
func find(files map[string]string, m Machine) map[string]Finding {
	root := fstest.MapFS{}
	all := maps.Clone(host)
	maps.Copy(all, files)
	for name, text := range all {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	found := map[string]Finding{}
	for _, f := range Examine(root, m) {
		found[f.Subject] = f
	}
	return found
}

// A machine that is set up well has nothing to change.
func TestNothingToChange(t *testing.T) {
	for _, f := range find(nil, program) {
		if f.State != Good || f.Advice != "" {
			t.Errorf("%+v", f)
		}
	}
	if f := find(nil, program)["memory bandwidth"]; !strings.Contains(f.Found, "400 GB/s") ||
		!strings.Contains(f.Found, "461 GB/s") {
		t.Errorf("%+v", f)
	}
}

// Each thing that is wrong is a warning that says what to change, and the only one.
func TestWhatToChange(t *testing.T) {
	for name, c := range map[string]struct {
		files   map[string]string
		change  func(*Machine)
		subject string
		says    string
	}{
		"no huge pages": {map[string]string{"sys/kernel/mm/transparent_hugepage/enabled": "always madvise [never]"}, nil,
			"huge pages", "madvise"},
		"a governor that saves": {map[string]string{"sys/devices/system/cpu/cpu1/cpufreq/scaling_governor": "powersave"}, nil,
			"frequency governor", "performance"},
		"a quota of the parent": {map[string]string{"sys/fs/cgroup/a/cpu.max": "350000 100000"}, nil,
			"processors of the control group", "-t 3"},
		"less than a core": {map[string]string{"sys/fs/cgroup/a/cpu.max": "50000 100000"}, func(m *Machine) { m.Threads = 1 },
			"processors of the control group", "one whole core"},
		"stopped for quota": {map[string]string{"sys/fs/cgroup/a/b/cpu.max": "3200000 100000",
			"sys/fs/cgroup/a/b/cpu.stat": "usage_usec 5\nnr_periods 9\nnr_throttled 4\n"}, nil,
			"processors of the control group", "one core more"},
		"a quota in version 1": {map[string]string{"proc/self/cgroup": "4:cpu,cpuacct:/k/x\n3:memory:/k\n0::/\n",
			"sys/fs/cgroup/cpu,cpuacct/k/x/cpu.cfs_quota_us":  "-1\n",
			"sys/fs/cgroup/cpu,cpuacct/k/x/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/k/cpu.cfs_quota_us":    "350000\n",
			"sys/fs/cgroup/cpu,cpuacct/k/cpu.cfs_period_us":   "100000\n",
		}, nil, "processors of the control group", "-t 3"},
		"memory held back": {map[string]string{"sys/fs/cgroup/a/memory.max": "2147483648",
			"sys/fs/cgroup/a/memory.high": "1073741824"}, nil, "memory of the control group", "memory.high"},
		"memory held back without a limit": {map[string]string{"sys/fs/cgroup/a/memory.max": "max",
			"sys/fs/cgroup/a/memory.high": "1073741824"}, nil, "memory of the control group", "memory.high"},
		"two nodes": {map[string]string{"sys/devices/system/node/node1/cpulist": "32-63"}, nil, "memory nodes",
			"--numa"},
		"others":               {map[string]string{"proc/loadavg": "17.00 1 1 1/1 1"}, nil, "load", "other programs"},
		"half of the channels": {nil, func(m *Machine) { m.Bandwidth = 200 }, "memory bandwidth", "channel"},
		"hidden features":      {nil, func(m *Machine) { m.Kernels = "avx2" }, "kernels", "avx512_vnni"},
		"tiles refused": {map[string]string{"proc/cpuinfo": "model name : X\nflags : avx512_vnni amx_int8\n"}, nil,
			"kernels", "refuses"},
		"scalar":  {nil, func(m *Machine) { m.Kernels = "scalar" }, "kernels", "several times slower"},
		"by hand": {nil, func(m *Machine) { m.MustBe = "avx512" }, "kernels", "SPEC_SIMD"},
	} {
		m := program
		if c.change != nil {
			c.change(&m)
		}
		for subject, f := range find(c.files, m) {
			if warned := f.State == Warning; warned != (subject == c.subject) || warned && !strings.Contains(f.Advice, c.says) {
				t.Errorf("%s: %+v", name, f)
			}
		}
		if f := find(c.files, m)[c.subject]; f.State != Warning {
			t.Errorf("%s: %+v", name, f)
		}
	}
}

// Of a virtual machine less bandwidth is no fault of its own, and where the system tells nothing nothing is advised.
func TestWhatIsNotTold(t *testing.T) {
	m := program
	m.Bandwidth = 20
	shared := map[string]string{"proc/cpuinfo": "model name : AMD EPYC 9354\nflags : avx512_vnni hypervisor\n"}
	if f := find(shared, m)["memory bandwidth"]; f.State != Good || !strings.Contains(f.Found, "neighbors") {
		t.Errorf("%+v", f)
	}
	for _, f := range Examine(fstest.MapFS{}, program) {
		if f.State == Warning {
			t.Errorf("%+v", f)
		}
	}
}

// Version 1 of control groups, alone or beside an empty hierarchy of version 2, has limits too.
func TestControlGroupsOfVersion1(t *testing.T) {
	files := map[string]string{"proc/self/cgroup": "5:cpuset,cpu:/k\n3:memory:/k\n0::/\n",
		"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "4000000", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
		"sys/fs/cgroup/cpu/cpu.stat":                   "nr_periods 9\nnr_throttled 4\nthrottled_time 5\n",
		"sys/fs/cgroup/memory/k/memory.limit_in_bytes": "2147483648\n",
		"sys/fs/cgroup/memory/memory.limit_in_bytes":   "9223372036854771712\n"}
	found := find(files, program)
	if f := found["memory of the control group"]; f.State != Good || f.Found != "2.0 GiB" {
		t.Errorf("%+v", f)
	}
	if f := found["processors of the control group"]; f.State != Warning || !strings.Contains(f.Found, "40 cores") ||
		!strings.Contains(f.Found, "4 times") {
		t.Errorf("%+v", f)
	}
	delete(files, "sys/fs/cgroup/cpu/cpu.cfs_quota_us")
	delete(files, "sys/fs/cgroup/memory/k/memory.limit_in_bytes")
	if f := find(files, program)["control group"]; f.Found != "no limits" {
		t.Errorf("%+v", f)
	}
}
