package topology

import (
	"reflect"
	"testing"
	"testing/fstest"
)

func TestNodesAreThoseWithCPUs(t *testing.T) {
	const node = "sys/devices/system/node/"
	for name, c := range map[string]struct {
		files map[string]string
		want  []Node
	}{
		"none told": {nil, nil},
		"two, of which ten comes after two": {map[string]string{node + "node10/cpulist": "4-5,7\n",
			node + "node2/cpulist": "0-3\n", node + "has_cpu": "2,10\n"},
			[]Node{{2, []int{0, 1, 2, 3}}, {10, []int{4, 5, 7}}}},
		"memory alone": {map[string]string{node + "node0/cpulist": "0\n", node + "node1/cpulist": "\n"},
			[]Node{{0, []int{0}}}},
		"backwards":             {map[string]string{node + "node0/cpulist": "3-1\n"}, nil},
		"twice":                 {map[string]string{node + "node0/cpulist": "0-3,3\n"}, nil},
		"no number":             {map[string]string{node + "node0/cpulist": "0-x\n"}, nil},
		"more than there are":   {map[string]string{node + "node0/cpulist": "0-99999999\n"}, nil},
		"a node without a list": {map[string]string{node + "node0/cpulist": "0\n", node + "node1/meminfo": ""}, nil},
	} {
		root := fstest.MapFS{}
		for file, text := range c.files {
			root[file] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := Nodes(root); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
