package tensor

import (
	"io/fs"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// usableCores is the number of physical cores this process may keep busy: by the affinity of its threads and the CPU
// quota of its control groups. Of cores of several sizes only the big ones count.
func usableCores() int {
	root := os.DirFS("/")
	return max(1, min(allowedCores(root, bigCPUs(root, allowedCPUs())), quotaCores(root)))
}

// allowedCPUs lists the logical CPUs of the affinity mask, or all if there is none to be read.
func allowedCPUs() []int {
	var list []int
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err == nil {
		for cpu := range len(set) * strconv.IntSize {
			if set.IsSet(cpu) {
				list = append(list, cpu)
			}
		}
	}
	if len(list) == 0 {
		for cpu := range runtime.NumCPU() {
			list = append(list, cpu)
		}
	}
	return list
}

// bigCPUs leaves of the CPUs those whose capacity, as the kernel puts it (1024 is the fastest of the machine), is
// more than two thirds of the greatest among them. That parts A76 from A55 (about 1 : 0.5) and keeps together big
// cores of which one may run a little faster. Without all their capacities, it leaves all: then the cores are equal,
// or the system does not tell.
func bigCPUs(root fs.FS, cpus []int) []int {
	capacity, most := make([]int, len(cpus)), 0
	for i, cpu := range cpus {
		text, err := fs.ReadFile(root, "sys/devices/system/cpu/cpu"+strconv.Itoa(cpu)+"/cpu_capacity")
		if err != nil {
			return cpus
		}
		if capacity[i], err = strconv.Atoi(strings.TrimSpace(string(text))); err != nil || capacity[i] < 1 ||
			capacity[i] > 1<<20 {
			return cpus
		}
		most = max(most, capacity[i])
	}
	var big []int
	for i, cpu := range cpus {
		if 3*capacity[i] > 2*most {
			big = append(big, cpu)
		}
	}
	return big
}

// allowedCores counts the cores the CPUs belong to. A CPU of unknown topology counts as a core.
func allowedCores(root fs.FS, cpus []int) int {
	cores := map[string]bool{}
	for _, cpu := range cpus {
		name := "cpu" + strconv.Itoa(cpu)
		siblings, err := fs.ReadFile(root, "sys/devices/system/cpu/"+name+"/topology/thread_siblings_list")
		if err == nil {
			name = strings.TrimSpace(string(siblings))
		}
		cores[name] = true
	}
	return len(cores)
}

// quotaCores is the least CPU quota, in whole cores, of the process's control groups and their parents, version 1 or 2.
func quotaCores(root fs.FS) int {
	least := float64(MaxThreads)
	groups, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return MaxThreads
	}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // number:controllers:path
		if len(parts) != 3 {
			continue
		}
		for dir := parts[2]; ; dir = path.Dir(dir) {
			if parts[1] == "" {
				for _, mount := range []string{"sys/fs/cgroup", "sys/fs/cgroup/unified"} {
					least = min(least, quota(root, path.Join(mount, dir, "cpu.max"), ""))
				}
			} else if strings.Contains(","+parts[1]+",", ",cpu,") {
				for _, mount := range []string{"cpu", "cpu,cpuacct"} {
					at := path.Join("sys/fs/cgroup", mount, dir)
					least = min(least, quota(root, path.Join(at, "cpu.cfs_quota_us"), path.Join(at, "cpu.cfs_period_us")))
				}
			}
			if dir == "/" || dir == "." {
				break
			}
		}
	}
	return max(1, int(least))
}

// quota reads "quota period", from one file or from two, as cores. No limit, or none that can be read, is MaxThreads.
func quota(root fs.FS, file, periodFile string) float64 {
	text, err := fs.ReadFile(root, file)
	if err == nil && periodFile != "" {
		var period []byte
		period, err = fs.ReadFile(root, periodFile)
		text = append(append(text, ' '), period...)
	}
	fields := strings.Fields(string(text))
	if err != nil || len(fields) != 2 {
		return MaxThreads
	}
	q, err1 := strconv.ParseFloat(fields[0], 64) // "max" and -1 are no limit
	p, err2 := strconv.ParseFloat(fields[1], 64)
	if err1 != nil || err2 != nil || !(q > 0 && p > 0) {
		return MaxThreads
	}
	return min(q/p, MaxThreads)
}
