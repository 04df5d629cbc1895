//go:build !purego && amd64

package asm

import (
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"unsafe"
)

// needTiles skips a test where the tile unit is not used.
func needTiles(t *testing.T) {
	t.Helper()
	if !slices.Contains(Available(), "amx") {
		t.Skip("no AMX here: ", tilesRequested())
	}
}

// refuse installs a seccomp filter, for all threads, that answers the request for tiles with an error, or with 0 and
// nothing done. It says whether that was possible.
func refuse(e syscall.Errno) bool {
	type instruction struct {
		code   uint16
		jt, jf uint8
		k      uint32
	}
	filter := []instruction{
		{0x20, 0, 0, 0},                      // load the number of the system call
		{0x15, 0, 3, syscall.SYS_ARCH_PRCTL}, // another one: allow
		{0x20, 0, 0, 16},                     // load the first argument
		{0x15, 0, 1, archRequest},
		{0x06, 0, 0, 0x00050000 | uint32(e)}, // return an error
		{0x06, 0, 0, 0x7fff0000},             // allow
	}
	program := struct {
		n uint16
		_ [6]byte
		p *instruction
	}{n: uint16(len(filter)), p: &filter[0]}
	const noNewPrivileges, setFilter, seccomp, allThreads = 38, 1, 317, 1
	if _, _, e := syscall.AllThreadsSyscall6(syscall.SYS_PRCTL, noNewPrivileges, 1, 0, 0, 0, 0); e != 0 {
		return false
	}
	_, _, e = syscall.RawSyscall(seccomp, setFilter, allThreads, uintptr(unsafe.Pointer(&program)))
	return e == 0
}

// Where the system refuses tiles, or says that it gives them and does not, the set amx does not exist, and the error
// says why; the best set is the one without. Each case is a process of its own.
func TestTilesRefused(t *testing.T) {
	const variable = "SPEC_TEST_TILES"
	answers := map[string]syscall.Errno{"operation not permitted": syscall.EPERM,
		"function not implemented": syscall.ENOSYS, "its permissions are": 0}
	if says := os.Getenv(variable); says != "" {
		if !refuse(answers[says]) {
			fmt.Print("no filter")
			return
		}
		best, err := Select("")
		_, amx := Select("amx")
		fmt.Printf("%s %s %v %v|%v|%v", Vector().Name, best.Name, err, errors.Is(amx, ErrUnavailable), TileUnit(),
			Available())
		return
	}
	needTiles(t)
	for says := range answers {
		c := exec.Command("/proc/self/exe", "-test.run=^TestTilesRefused$")
		c.Env = append(os.Environ(), variable+"="+says)
		out, err := c.CombinedOutput()
		if strings.Contains(string(out), "no filter") {
			t.Skip("no seccomp filters here")
		}
		part := strings.Split(string(out), "|")
		if err != nil || len(part) != 3 || part[0] != "avx512 avx512 <nil> true" || !strings.Contains(part[1], says) ||
			strings.Contains(part[2], "amx") {
			t.Errorf("%s: %v %s", says, err, out)
		}
	}
	if err := TileUnit(); err != nil {
		t.Error(err)
	}
}

// Tiles survive what happens to goroutines between and in the middle of kernels: signals to all threads, garbage
// collections, other threads.
func TestTilesStorm(t *testing.T) {
	needTiles(t)
	k, err := Select("amx")
	if err != nil {
		t.Fatal(err)
	}
	const cols, tokens, panels, stride, rounds = 1024, 64, 2, 2 * PanelRows, 150
	size := Q6_K.PanelBytes(cols)
	r := newRand(91)
	w := make([]byte, panels*size)
	for p := range panels {
		Pack(Q6_K, k.Offset, w[p*size:][:size], randomRows(r, Q6_K, PanelRows, cols), PanelRows, cols)
	}
	var tiles []Tile
	for range tokens / k.TilesTokens {
		x, _ := newTile(t, &k, r, k.TilesTokens, cols)
		tiles = append(tiles, *x)
	}
	want := make([]float32, tokens*stride)
	k.Weights[Q6_K].MatMulTiles(w, panels, tiles, tokens, want, stride, make([]byte, k.TilesBytes), Prefetch{})
	var stop atomic.Bool
	var disturbing, working sync.WaitGroup
	var kills atomic.Int64
	disturbing.Go(func() {
		pid := os.Getpid()
		for !stop.Load() {
			threads, _ := os.ReadDir("/proc/self/task")
			for _, th := range threads {
				var tid int
				fmt.Sscan(th.Name(), &tid)
				for range 20 {
					syscall.RawSyscall(syscall.SYS_TGKILL, uintptr(pid), uintptr(tid), uintptr(syscall.SIGURG))
					kills.Add(1)
				}
			}
		}
	})
	disturbing.Go(func() {
		for !stop.Load() {
			runtime.GC()
		}
	})
	var moves, wrong atomic.Int64
	for range 4 * runtime.GOMAXPROCS(0) { // more than there are processors
		working.Go(func() {
			got, buffer := make([]float32, len(want)), make([]byte, k.TilesBytes)
			last := 0
			for range rounds {
				clear(got)
				k.Weights[Q6_K].MatMulTiles(w, panels, tiles, tokens, got, stride, buffer, Prefetch{})
				for i, v := range got {
					if math.Float32bits(v) != math.Float32bits(want[i]) {
						wrong.Add(1)
						break
					}
				}
				if id := syscall.Gettid(); id != last {
					moves.Add(1)
					last = id
				}
				runtime.Gosched()
			}
		})
	}
	working.Wait()
	stop.Store(true)
	disturbing.Wait()
	t.Logf("%d signals, %d changes of thread", kills.Load(), moves.Load())
	if wrong.Load() > 0 || kills.Load() == 0 {
		t.Errorf("%d products were wrong, %d signals", wrong.Load(), kills.Load())
	}
}
