package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A clock counts the processor time of a group's processes, and else the time in which none of their threads wants a
// processor: waiting for one that other work has is free.
func TestClockCountsWorkAndWaitingButNoQueueing(t *testing.T) {
	c := newClock(7)
	c.proc = t.TempDir()
	process := func(pid, group, hundredths int, states ...string) {
		text := fmt.Sprintf("%d (a (b) R) S 1 %d 0 0 0 0 0 0 0 0 %d %d 10 10 20 0\n", pid, group, hundredths-30, 10)
		for i, state := range append([]string{"S"}, states...) {
			dir := filepath.Join(c.proc, fmt.Sprint(pid), "task", fmt.Sprint(pid+i))
			if err := os.MkdirAll(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			thread := fmt.Sprintf("%d (a) %s 1 %d 0 0 0 0 0 0 0 0 1 1 0 0 20 0\n", pid+i, state, group)
			if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(thread), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(c.proc, fmt.Sprint(pid), "stat"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	now := c.last
	for i, step := range []struct {
		set  func()
		want time.Duration
	}{
		{func() { process(100, 7, 100); process(200, 8, 500, "R") }, 1000 * time.Millisecond}, // of group 7 alone
		{func() { process(100, 7, 150); process(300, 7, 50) }, 2000 * time.Millisecond},       // of both its processes
		{func() { process(300, 7, 50, "R") }, 2000 * time.Millisecond},                        // ready, and not run
		{func() { process(300, 7, 50, "D") }, 2000 * time.Millisecond},                        // reading
		{func() { process(300, 7, 50, "S") }, 7000 * time.Millisecond},                        // asleep
	} {
		step.set()
		now = now.Add(5 * time.Second)
		if c.advance(now); c.taken != step.want {
			t.Errorf("step %d: %v, not %v", i, c.taken, step.want)
		}
	}
}

// What sleeps for ever and what computes for ever are both ended.
func TestClockEndsSleepersAndSpinners(t *testing.T) {
	for _, script := range []string{"sleep 100", "while :; do :; done"} {
		test := exec.Command("sh", "-c", script)
		test.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		if err := test.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan struct{})
		go func() {
			test.Wait()
			close(done)
		}()
		taken, hangs := newClock(test.Process.Pid).watch(done, 300*time.Millisecond, func() {
			syscall.Kill(-test.Process.Pid, syscall.SIGKILL)
		})
		if !hangs || taken <= 300*time.Millisecond {
			t.Errorf("%s: ended after %v, hangs %v", script, taken, hangs)
		}
	}
}
