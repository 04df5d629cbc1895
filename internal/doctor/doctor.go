// Package doctor examines whether a machine is set up to run models fast, and says what to change. It reads Linux'
// /proc and /sys under a root that the caller gives; what is not there is not told.
package doctor

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/specgo/spec/internal/topology"
)

// State is what a finding means.
type State string

const (
	Good    State = "ok"
	Warning State = "warning" // something to change
	Unknown State = "unknown" // the system does not tell
)

// Finding is what was found about one subject.
type Finding struct {
	Subject string `json:"subject"`
	State   State  `json:"state"`
	Found   string `json:"found"`
	Advice  string `json:"advice,omitempty"` // what to change
}

// Machine is what the program itself knows.
type Machine struct {
	Kernels   string // the kernel set that was selected
	Threads   int    // that compute
	CPUs      int    // that the process may use
	Bandwidth float64
	MustBe    string // a kernel set that was asked for by hand; "": none
}

// Examine examines a machine.
func Examine(root fs.FS, m Machine) []Finding {
	x := examination{root, m, field(read(root, "proc/cpuinfo"), "flags", "Features")}
	return slices.Concat(
		x.processor(), x.kernels(), x.bandwidth(), x.pages(), x.governor(), x.groups(), x.nodes(), x.load(),
	)
}

type examination struct {
	root fs.FS
	Machine
	flags string // of the processor
}

func read(root fs.FS, file string) string {
	data, err := fs.ReadFile(root, file)
	if err != nil {
		return "" // what is not there is not told
	}
	return strings.TrimSpace(string(data))
}

// field is the first value of one of some keys in lines of "key : value".
func field(text string, keys ...string) string {
	for line := range strings.Lines(text) {
		key, value, ok := strings.Cut(line, ":")
		if ok && slices.Contains(keys, strings.TrimSpace(key)) {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func (x *examination) has(flag string) bool { return slices.Contains(strings.Fields(x.flags), flag) }

// virtual reports whether the machine is a virtual one.
func (x *examination) virtual() bool { return x.has("hypervisor") }

func (x *examination) processor() []Finding {
	name := field(read(x.root, "proc/cpuinfo"), "model name", "Model")
	if name == "" {
		return []Finding{{"processor", Unknown, "not told", ""}}
	}
	if x.virtual() {
		name += ", a virtual machine's share of it"
	}
	return []Finding{{"processor", Good, fmt.Sprintf("%s: %d CPUs, %d threads compute", name, x.CPUs, x.Threads), ""}}
}

// best are kernel sets of amd64 and arm64 with the flag of the processor that each needs most, the best first.
var best = []struct{ set, flag string }{
	{"amx", "amx_int8"}, {"avx512", "avx512_vnni"}, {"avxvnni", "avx_vnni"}, {"avx2", "avx2"},
	{"i8mm", "i8mm"}, {"dotprod", "asimddp"}, {"neon", "asimd"},
}

func (x *examination) kernels() []Finding {
	f := Finding{"kernels", Good, x.Kernels, ""}
	rank := func(set string) int {
		for i, b := range best {
			if b.set == set {
				return i
			}
		}
		return len(best)
	}
	switch {
	case x.MustBe != "":
		f.State, f.Advice = Warning, "SPEC_SIMD is set; without it the best set is selected"
	case x.Kernels == "scalar":
		f.State, f.Advice = Warning, "the processor, or its virtual machine, offers neither AVX2 nor NEON: models run "+
			"several times slower; give the machine the host's CPU type"
	default:
		for i, b := range best {
			if x.has(b.flag) && i < rank(x.Kernels) {
				f.State, f.Advice = Warning, "the processor tells of "+b.flag+", and "+b.set+" was not selected: "+
					"features that it needs beside that are hidden, or the system refuses it (\"spec version\" says why); "+
					"give a virtual machine the host's CPU type"
				break
			}
		}
	}
	return []Finding{f}
}

// sockets are what a processor's memory can read at most, all channels filled, in GB/s: channels by transfers of 8
// bytes, from the makers' data sheets. Names are beginnings; the first that fits counts.
var sockets = []struct {
	name string
	gbps float64
}{
	{"AMD EPYC 9", 12 * 38.4}, {"AMD EPYC 8", 6 * 38.4}, {"AMD EPYC 7", 8 * 25.6},
	{"Intel(R) Xeon(R) Platinum 85", 8 * 44.8}, {"Intel(R) Xeon(R) Platinum 84", 8 * 38.4},
	{"Intel(R) Xeon(R) Platinum 83", 8 * 25.6}, {"AMD Ryzen Threadripper PRO 7", 8 * 41.6},
	{"AMD Ryzen 9 9", 2 * 44.8}, {"AMD Ryzen 7 9", 2 * 44.8}, {"AMD Ryzen 9 7", 2 * 41.6}, {"AMD Ryzen 7 7", 2 * 41.6},
	{"AMD Ryzen 9 5", 2 * 25.6}, {"AMD Ryzen 7 5", 2 * 25.6}, {"AMD Ryzen 5 5", 2 * 25.6},
	{"12th Gen Intel", 2 * 38.4}, {"13th Gen Intel", 2 * 44.8}, {"Intel(R) Core(TM) Ultra", 2 * 44.8},
	{"Neoverse-N1", 8 * 25.6}, {"Neoverse-V1", 8 * 38.4}, {"Neoverse-V2", 12 * 44.8},
}

// lowShare is the part of a socket's bandwidth below which memory modules are missing or slow: with half of the
// channels a machine reads at most half.
const lowShare = 0.5

func (x *examination) bandwidth() []Finding {
	if x.Bandwidth == 0 {
		return nil
	}
	f := Finding{"memory bandwidth", Good, fmt.Sprintf("%.0f GB/s measured", x.Bandwidth), ""}
	name := field(read(x.root, "proc/cpuinfo"), "model name")
	at := slices.IndexFunc(sockets, func(s struct {
		name string
		gbps float64
	}) bool {
		return strings.HasPrefix(name, s.name)
	})
	if at < 0 {
		f.Found += "; what this processor's memory can read is not known here"
		return []Finding{f}
	}
	most := sockets[at].gbps
	f.Found += fmt.Sprintf("; a socket of this processor reads at most %.0f GB/s", most)
	switch {
	case x.virtual():
		f.Found += ", which the machine's neighbors share"
	case x.Bandwidth < lowShare*most:
		f.State, f.Advice = Warning, "less than half: fill every memory channel with modules of the fastest speed, and "+
			"look whether other programs read memory; a token of a dense model takes as long as all its weights are read"
	}
	return []Finding{f}
}

func (x *examination) pages() []Finding {
	text := read(x.root, "sys/kernel/mm/transparent_hugepage/enabled")
	_, rest, _ := strings.Cut(text, "[")
	mode, _, _ := strings.Cut(rest, "]")
	switch mode {
	case "":
		return []Finding{{"huge pages", Unknown, "not told", ""}}
	case "never":
		return []Finding{{"huge pages", Warning, mode,
			"echo madvise > /sys/kernel/mm/transparent_hugepage/enabled: weights then take pages of 2 MiB"}}
	}
	return []Finding{{"huge pages", Good, mode, ""}}
}

func (x *examination) governor() []Finding {
	files, err := fs.Glob(x.root, "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor")
	if err != nil || len(files) == 0 {
		return []Finding{{"frequency governor", Unknown, "not told (usual in virtual machines)", ""}}
	}
	var names []string
	slow := false
	for _, file := range files {
		name, driver := read(x.root, file), read(x.root, path.Join(path.Dir(file), "scaling_driver"))
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
		// Drivers that choose frequencies by themselves call their usual mode powersave.
		own := strings.HasPrefix(driver, "intel_pstate") || strings.HasPrefix(driver, "amd-pstate-epp")
		slow = slow || name == "conservative" || name == "powersave" && !own
	}
	f := Finding{"frequency governor", Good, strings.Join(names, ", "), ""}
	if slow {
		f.State, f.Advice = Warning, "cpupower frequency-set -g performance: the clock stays low under load"
	}
	return []Finding{f}
}

// groups examines the limits of the process's control groups and their parents, of version 2 and of version 1, which
// has one hierarchy for processors and another for memory.
func (x *examination) groups() (list []Finding) {
	found := false
	for line := range strings.Lines(read(x.root, "proc/self/cgroup")) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // number:controllers:path
		if len(parts) != 3 {
			continue
		}
		mount, limits := "sys/fs/cgroup", (*examination).group
		switch controllers := strings.Split(parts[1], ","); {
		case parts[1] == "":
		case slices.Contains(controllers, "cpu"):
			mount, limits = path.Join(mount, "cpu"), (*examination).oldProcessors
			if _, err := fs.Stat(x.root, mount); err != nil {
				mount += ",cpuacct"
			}
		case slices.Contains(controllers, "memory"):
			mount, limits = path.Join(mount, "memory"), (*examination).oldMemory
		default:
			continue
		}
		found = true
		for dir := parts[2]; ; dir = path.Dir(dir) {
			list = append(list, limits(x, path.Join(mount, dir))...)
			if dir == "/" || dir == "." {
				break
			}
		}
	}
	if !found {
		return []Finding{{"control group", Unknown, "not told", ""}}
	}
	if list == nil {
		return []Finding{{"control group", Good, "no limits", ""}}
	}
	return list
}

// oldProcessors examines the quota of a control group of version 1.
func (x *examination) oldProcessors(dir string) []Finding {
	quota, err1 := strconv.ParseFloat(read(x.root, path.Join(dir, "cpu.cfs_quota_us")), 64)
	period, err2 := strconv.ParseFloat(read(x.root, path.Join(dir, "cpu.cfs_period_us")), 64)
	if err1 != nil || err2 != nil || !(quota > 0 && period > 0) { // -1 is none
		return nil
	}
	return []Finding{x.quota(dir, quota/period)}
}

// oldMemory examines the memory of a control group of version 1.
func (x *examination) oldMemory(dir string) []Finding {
	const none = 1 << 60 // about: the greatest number of whole pages stands for no limit
	most, err := strconv.ParseInt(read(x.root, path.Join(dir, "memory.limit_in_bytes")), 10, 64)
	if err != nil || most >= none {
		return nil
	}
	return []Finding{{"memory of the control group", Good, gibibytes(most), ""}}
}

func gibibytes(n int64) string { return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30)) }

// group examines the limits of one control group of version 2.
func (x *examination) group(dir string) (list []Finding) {
	words := strings.Fields(read(x.root, path.Join(dir, "cpu.max")))
	if len(words) == 2 && words[0] != "max" {
		quota, err1 := strconv.ParseFloat(words[0], 64)
		period, err2 := strconv.ParseFloat(words[1], 64)
		if err1 == nil && err2 == nil && period > 0 {
			list = append(list, x.quota(dir, quota/period))
		}
	}
	most, err1 := strconv.ParseInt(read(x.root, path.Join(dir, "memory.max")), 10, 64) // "max": no limit
	high, err2 := strconv.ParseInt(read(x.root, path.Join(dir, "memory.high")), 10, 64)
	slowed := err2 == nil && (err1 != nil || high < most)
	if err1 != nil && !slowed {
		return list
	}
	f := Finding{"memory of the control group", Good, "no limit", ""}
	if err1 == nil {
		f.Found = gibibytes(most)
	}
	if slowed {
		f.State, f.Found = Warning, f.Found+", slowed down from "+gibibytes(high)+" on"
		f.Advice = "raise memory.high to memory.max: a process above it is held back at every allocation"
	}
	return append(list, f)
}

// quota examines how many cores a control group may use.
func (x *examination) quota(dir string, cores float64) Finding {
	f := Finding{"processors of the control group", Good, fmt.Sprintf("%.4g cores", cores), ""}
	throttled := ""
	for line := range strings.Lines(read(x.root, path.Join(dir, "cpu.stat"))) {
		if n, ok := strings.CutPrefix(line, "nr_throttled "); ok && strings.TrimSpace(n) != "0" {
			throttled = strings.TrimSpace(n)
		}
	}
	switch {
	case cores < 1:
		f.State, f.Advice = Warning, "give one whole core at least: below that threads stand still for a part of the time"
	case float64(x.Threads) > cores:
		f.State, f.Advice = Warning, fmt.Sprintf("%d threads compute: give at least as many whole cores, or -t %d", x.Threads,
			int(cores))
	case throttled != "":
		f.State, f.Found = Warning, f.Found+", stopped for lack of quota "+throttled+" times"
		f.Advice = "give one core more than threads, or whole cores without a quota (the kubelet's static CPU manager)"
	}
	return f
}

func (x *examination) nodes() []Finding {
	list := topology.Nodes(x.root)
	if len(list) < 2 {
		return nil
	}
	return []Finding{{"memory nodes", Warning, fmt.Sprintf("%d", len(list)),
		"without --numa, cores read weights that lie in another node slowly: --numa distribute binds threads and " +
			"weights to nodes; or run one process for each node (numactl --cpunodebind=N --membind=N)"}}
}

// idle is the load, as a part of the CPUs, above which others take time from the program.
const idle = 0.5

func (x *examination) load() []Finding {
	words := strings.Fields(read(x.root, "proc/loadavg"))
	if len(words) == 0 {
		return nil
	}
	load, err := strconv.ParseFloat(words[0], 64)
	if err != nil {
		return nil
	}
	f := Finding{"load", Good, fmt.Sprintf("%.1f in the last minute, %d CPUs", load, x.CPUs), ""}
	if load > idle*float64(x.CPUs) {
		f.State, f.Advice = Warning, "other programs use the processors: what is measured now is less than the machine has"
	}
	return []Finding{f}
}
