package tensor

import (
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/specgo/spec/internal/topology"
)

// place is the placement of threads on this machine; of 0 threads, as many as there are cores in it.
func place(mode string, threads int) (placement, error) {
	root := os.DirFS("/")
	if mode != "" {
		return placeOn(root, mode, threads, allowedCPUs(), runtime.GOMAXPROCS(0), linuxAffinity{})
	}
	if threads == 0 {
		threads = max(1, min(usableCores(), runtime.GOMAXPROCS(0)))
	}
	return unplaced(threads), nil
}

// placeOn is place on the machine under root, for a process that may use those CPUs and threads that run Go at once.
func placeOn(root fs.FS, mode string, threads int, allowed []int, most int, system affinity) (placement, error) {
	nodes := topology.Nodes(root)
	for i := range nodes {
		nodes[i].CPUs = slices.DeleteFunc(nodes[i].CPUs, func(c int) bool { return !slices.Contains(allowed, c) })
	}
	nodes = slices.DeleteFunc(nodes, func(n topology.Node) bool { return len(n.CPUs) == 0 })
	one := len(nodes) < 2
	if !one && mode == "isolate" {
		at, err := runningOn(root)
		if err != nil {
			return placement{}, fmt.Errorf("%q: %w: %w", mode, ErrNUMA, err)
		}
		nodes = slices.DeleteFunc(nodes, func(n topology.Node) bool { return !slices.Contains(n.CPUs, at) })
		if len(nodes) == 0 {
			return placement{}, fmt.Errorf("%q: %w: CPU %d, on which the process runs, is of no memory node", mode, ErrNUMA,
				at)
		}
	}
	cpus, cores := [][]int{}, []int{0} // of all nodes before
	for _, n := range nodes {
		big := bigCPUs(root, n.CPUs)
		cpus = append(cpus, big)
		cores = append(cores, cores[len(cores)-1]+allowedCores(root, big))
	}
	all := cores[len(cores)-1]
	if one {
		all = allowedCores(root, bigCPUs(root, allowed))
	}
	if threads == 0 {
		threads = max(1, min(all, quotaCores(root), most))
	}
	if one { // nothing to choose
		return unplaced(threads), nil
	}
	p := placement{cpus: cpus, started: allowed, system: system}
	for _, c := range cores {
		p.first = append(p.first, threads*c/all)
	}
	return p, nil
}

// runningOn is the CPU that the calling thread, or another one of the process, ran on last.
func runningOn(root fs.FS) (int, error) {
	const file = "proc/self/stat"
	text, err := fs.ReadFile(root, file)
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may have anything in it; the third field is behind it, the CPU is the 39th.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	if len(fields) < 37 {
		return 0, fmt.Errorf("/%s: %d fields behind the name, expected 37 or more", file, len(fields))
	}
	cpu, err := strconv.Atoi(fields[36])
	if err != nil {
		return 0, fmt.Errorf("/%s: %q is no CPU", file, fields[36])
	}
	return cpu, nil
}

// linuxAffinity is Linux' call.
type linuxAffinity struct{}

func (linuxAffinity) set(cpus []int) error {
	var set unix.CPUSet
	for _, c := range cpus {
		set.Set(c) // those that the set has no room for are left out; they were read from such a set
	}
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return fmt.Errorf("binding a thread to CPUs: %w", err)
	}
	return nil
}
