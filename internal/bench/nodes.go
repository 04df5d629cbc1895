package bench

// Nodes is a machine of several memory nodes by what its parts do at most, for predictions: nothing of it is measured
// here.
type Nodes struct {
	Count       int
	MemoryGBPS  float64 // 10^9 bytes per second that a node's memory is read with, by any cores
	LinkGBPS    float64 // that go from a node to another one
	IntegerGPS  float64 // 10^9 products per second of a node's cores
	FirstByLoad bool    // the weights lie in one node, as where one thread has loaded them
	Bound       bool    // each node's cores read what lies in its memory, as with --numa
}

// Pass is the least time, in seconds, of a pass that reads so many bytes of weights and makes so many products, of
// which each node's cores have an equal part, and what takes it: memory, link or integer. It is the bound of a Reach,
// of a machine of several nodes. Where cores are not bound, and the weights do not lie in one node, each node has an
// equal part of what each node's cores read.
func (n *Nodes) Pass(bytes, products float64) (seconds float64, by string) {
	count := float64(n.Count)
	node, link := bytes/count, bytes/count/count // read from one memory, and from it over one link
	switch {
	case n.Bound:
		link = 0
	case n.FirstByLoad:
		node, link = bytes, bytes/count
	}
	if n.Count == 1 {
		link = 0
	}
	for _, x := range []struct {
		by           string
		amount, giga float64
	}{{"memory", node, n.MemoryGBPS}, {"link", link, n.LinkGBPS}, {"integer", products / count, n.IntegerGPS}} {
		if s := x.amount / (x.giga * 1e9); s > seconds {
			seconds, by = s, x.by
		}
	}
	return seconds, by
}
