package main

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
)

// What disturbs a measurement: other processes, a host that takes the CPUs away, memory that changes its speed.
const (
	mostOthers = 0.05 // of the CPUs' time that others and the host may take during a cell
	// seconds of it that are never counted: the clock of /proc ticks every 10 ms, and a desktop is never quite idle
	leastOther = 0.10
	mostTries  = 3 // measurements of a cell that is disturbed each time; then the least disturbed one stays, marked
	quietBytes = 1 << 28
)

// load is the time that the machine's CPUs spent, in seconds since it started. Where the system does not tell, all is
// 0.
type load struct {
	busy   float64 // all processes, and the kernel
	own    float64 // this process
	stolen float64 // by the host of a virtual machine
	cpus   int
}

// tick is the unit of /proc on Linux.
const tick = 0.01

// readLoad reads /proc.
func readLoad() (l load) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return load{}
	}
	self, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return load{}
	}
	return parseLoad(string(stat), string(self))
}

// parseLoad reads the texts of /proc/stat (user, nice, system, idle, iowait, irq, softirq, steal) and
// /proc/self/stat, whose 14th and 15th fields are this process's times; its 2nd, in parentheses, may hold spaces.
func parseLoad(stat, self string) (l load) {
	for i, line := range strings.Split(stat, "\n") {
		f := strings.Fields(line)
		if len(f) < 9 || !strings.HasPrefix(f[0], "cpu") {
			continue
		}
		if i > 0 {
			l.cpus++
			continue
		}
		for _, n := range []int{1, 2, 3, 6, 7} {
			l.busy += seconds(f[n])
		}
		l.stolen = seconds(f[8])
	}
	if end := strings.LastIndex(self, ") "); end >= 0 {
		if f := strings.Fields(self[end+1:]); len(f) > 12 {
			l.own = seconds(f[11]) + seconds(f[12])
		}
	}
	return l
}

func seconds(ticks string) float64 {
	n, err := strconv.ParseFloat(ticks, 64)
	if err != nil {
		return 0
	}
	return n * tick
}

// shares are what others and the host took of the CPUs' time in so many seconds. ok is false where nothing is known.
func shares(before, after load, took float64) (others, stolen float64, ok bool) {
	all := took * float64(after.cpus)
	if before.cpus == 0 || all <= 0 {
		return 0, 0, false
	}
	others = max(0, (after.busy-before.busy)-(after.own-before.own)) / all
	return others, max(0, after.stolen-before.stolen) / all, true
}

// quiet is what surrounded the measurement of a cell.
type quiet struct {
	Others float64 `json:"others"` // shares of the CPUs' time
	Stolen float64 `json:"stolen"`
	Before float64 `json:"before,omitempty"` // memory, GB/s
	After  float64 `json:"after,omitempty"`
}

// disturbance says what disturbed a cell that took so many seconds, "" if nothing did. Runs that are compared with
// plain decoding just before and after them are checked for memory one by one (run.steady); other cells need memory
// that is as fast afterwards as before.
func (q *quiet) disturbance(took float64, cpus int, interleaved bool) string {
	var why []string
	if least := leastOther / (took * float64(max(1, cpus))); q.Others+q.Stolen > max(mostOthers, least) {
		why = append(why, fmt.Sprintf("others took %.0f %% of the CPUs and the host %.0f %%", 100*q.Others, 100*q.Stolen))
	}
	if !interleaved && q.Before > 0 && max(q.Before, q.After) > steadyWithin*min(q.Before, q.After) {
		why = append(why, fmt.Sprintf("memory %.0f GB/s before and %.0f after", q.Before, q.After))
	}
	return strings.Join(why, "; ")
}

// worse orders disturbances.
func (q *quiet) worse(than *quiet) bool {
	jump := func(q *quiet) float64 {
		if q.Before <= 0 || q.After <= 0 {
			return 0
		}
		return math.Abs(math.Log(q.After / q.Before))
	}
	return q.Others+q.Stolen+jump(q) > than.Others+than.Stolen+jump(than)
}

// observed runs a measurement and says what surrounded it.
func (l *lab) observed(x *experiment, f func() error) (q quiet, why string, took float64, err error) {
	if x.counts {
		start := l.now()
		err = f()
		return q, "", l.now().Sub(start).Seconds(), err
	}
	if q.Before, err = l.measure(l, l.column); err != nil {
		return q, "", 0, err
	}
	before, start := l.load(), l.now()
	err = f()
	took = l.now().Sub(start).Seconds()
	after := l.load()
	if err != nil {
		return q, "", took, err
	}
	if q.After, err = l.measure(l, l.column); err != nil {
		return q, "", took, err
	}
	var known bool
	if q.Others, q.Stolen, known = shares(before, after, took); known {
		q.Others, q.Stolen = math.Round(q.Others*1000)/1000, math.Round(q.Stolen*1000)/1000
	}
	q.Before, q.After = digits(q.Before), digits(q.After)
	return q, q.disturbance(took, after.cpus, x.special == nil), took, nil
}

// cell measures one cell, again while it is disturbed and time is left.
func (l *lab) cell(x *experiment, k key) error {
	tries := l.journal.tries[k]
	var best *cell
	for {
		// The first cell of an experiment makes its decoders and warms them up, so it may take twice as long as the others.
		if err := l.ready(l.took[x.name]*5/4 + time.Second); err != nil {
			if best != nil {
				break
			}
			return err
		}
		c := &cell{key: k}
		quiet, why, took, err := l.observed(x, func() error {
			if x.special != nil {
				return x.special(l, x, c)
			}
			return l.texts(x, c)
		})
		if err != nil {
			return fmt.Errorf("%s, %s, prompt %q: %w", x.name, k.Column, k.Prompt, err)
		}
		tries++
		l.took[x.name] = time.Duration(took * float64(time.Second))
		c.Took, c.Disturbed, c.Tries = digits(took), why, tries
		if !x.counts {
			c.Quiet = &quiet
		}
		fmt.Fprintf(l.log, "%s  %-12s %-10s %-5s %-14s %-6s T %-3v repeat %d  %.1f s  %s\n", l.date(), x.name, k.Column,
			k.Set, k.Prompt, k.Drafter, k.Temperature, k.Repeat, took, why)
		if best == nil || why == "" || best.Quiet.worse(c.Quiet) {
			best = c
		}
		best.Tries = tries
		if why == "" {
			break
		}
		delete(l.benches, x.kind(k)) // what its schedules learned meanwhile is of a disturbed machine
		if tries >= mostTries {
			break
		}
	}
	return l.journal.add(*best)
}
