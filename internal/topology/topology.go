// Package topology reads from Linux' /sys which CPUs read which memory fast.
package topology

import (
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

// Node is a memory node: memory, and the CPUs that read it fast. A socket has one or more.
type Node struct {
	Number int
	CPUs   []int // ascending
}

// Limits of what is believed: Linux has at most 1,024 nodes and 8,192 CPUs.
const (
	mostNodes = 1 << 10
	mostCPUs  = 1 << 13
)

const folder = "sys/devices/system/node"

// Nodes lists the nodes that have CPUs, by number. It is empty where the system does not tell of them, or nonsense.
func Nodes(root fs.FS) (list []Node) {
	names, err := fs.Glob(root, folder+"/node[0-9]*")
	if err != nil || len(names) > mostNodes {
		return nil
	}
	for _, name := range names {
		n, err := strconv.Atoi(strings.TrimPrefix(name, folder+"/node"))
		if err != nil {
			continue // no node: nodelist, node0x
		}
		text, err := fs.ReadFile(root, name+"/cpulist")
		if err != nil {
			return nil
		}
		cpus, ok := CPUs(string(text))
		if !ok {
			return nil
		}
		if len(cpus) > 0 { // some nodes are memory alone
			list = append(list, Node{n, cpus})
		}
	}
	slices.SortFunc(list, func(a, b Node) int { return a.Number - b.Number })
	return list
}

// CPUs reads a list as Linux writes it, "0-3,8,10-11": ascending, each once.
func CPUs(text string) (list []int, ok bool) {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil, true
	}
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || from < 0 || to < from || to >= mostCPUs ||
			len(list) > 0 && from <= list[len(list)-1] {
			return nil, false
		}
		for cpu := from; cpu <= to; cpu++ {
			list = append(list, cpu)
		}
	}
	return list, true
}
