package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// A clock measures what a group of processes takes: the processor seconds of all of them, and the time in which all of
// them wait for something else than a processor. So other work on the machine stretches nothing, and a test that waits
// for ever still ends. A system without /proc has the time on the wall.
type clock struct {
	group int
	proc  string // where /proc is
	cpu   time.Duration
	last  time.Time
	taken time.Duration
}

// Often enough for a limit of seconds; a look at all processes takes a few milliseconds.
const tick = 250 * time.Millisecond

func newClock(group int) *clock { return &clock{group: group, proc: "/proc", last: time.Now()} }

// advance counts what has passed since the last call.
func (c *clock) advance(now time.Time) {
	cpu, waits := c.used()
	if used := cpu - c.cpu; used > 0 {
		c.taken += used
		c.cpu = cpu
	} else if waits {
		c.taken += now.Sub(c.last)
	}
	c.last = now
}

// used is the processor time of the group, with that of its processes' children that have ended, and whether no thread
// of it runs, is ready to run, or reads from a disk.
func (c *clock) used() (cpu time.Duration, waits bool) {
	waits = true
	group := strconv.Itoa(c.group)
	stats, _ := filepath.Glob(c.proc + "/[0-9]*/stat") // the pattern is well formed
	for _, name := range stats {
		stat := statFields(name)
		if stat == nil || stat[statGroup] != group {
			continue
		}
		for _, at := range []int{statUser, statSystem, statChildrenUser, statChildrenSystem} {
			n, _ := strconv.Atoi(stat[at]) // the kernel writes numbers
			cpu += time.Duration(n) * time.Second / 100
		}
		threads, _ := filepath.Glob(filepath.Dir(name) + "/task/[0-9]*/stat")
		for _, thread := range threads {
			if stat := statFields(thread); stat != nil && (stat[statState] == "R" || stat[statState] == "D") {
				waits = false
			}
		}
	}
	return cpu, waits
}

// Fields of a stat file (man 5 proc_pid_stat), counted from that after the name. Times are in hundredths of a second.
const (
	statState          = 0
	statGroup          = 2
	statUser           = 11
	statSystem         = 12
	statChildrenUser   = 13
	statChildrenSystem = 14
)

// statFields is nil when the process has ended.
func statFields(name string) []string {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	var fields []string
	for _, f := range bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:]) {
		fields = append(fields, string(f))
	}
	if len(fields) <= statChildrenSystem {
		return nil
	}
	return fields
}

// watch counts until done is closed, or calls kill once more than limit was taken. It returns what was taken and
// whether that was too much.
func (c *clock) watch(done <-chan struct{}, limit time.Duration, kill func()) (time.Duration, bool) {
	ticks := time.NewTicker(tick)
	defer ticks.Stop()
	for {
		select {
		case <-done:
			return c.taken, false
		case now := <-ticks.C:
			if c.advance(now); c.taken > limit {
				kill()
				<-done
				return c.taken, true
			}
		}
	}
}
