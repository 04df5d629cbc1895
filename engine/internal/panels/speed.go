package panels

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/specgo/spec/tensor"
)

// ErrTooSmall is of files that are shorter than a single read.
var ErrTooSmall = errors.New("too small to measure the disk with")

// ReadSpeed measures how fast a file is read from its beginning on, in bytes per second: at most so many bytes, past
// the system's cache where that is possible, with as many reads under way as streaming has. A file on a disk that
// caches by itself, or that a virtual machine's host does, is read faster the second time.
func ReadSpeed(ctx context.Context, name string, most int64) (float64, error) {
	info, err := os.Stat(name)
	if err != nil {
		return 0, err
	}
	n := min(most, info.Size()) / pieceBytes
	if n < 1 {
		return 0, fmt.Errorf("%s: %w", name, ErrTooSmall)
	}
	f, err := openDirect(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	memory, err := tensor.NewBuffer(readDepth * pieceBytes)
	if err != nil {
		return 0, err
	}
	defer memory.Close()
	var next atomic.Int64
	var wait sync.WaitGroup
	var failed [readDepth]error
	begin := time.Now()
	for i := range readDepth {
		wait.Go(func() {
			dst := memory.Data[i*pieceBytes:][:pieceBytes]
			for at := next.Add(1) - 1; at < n && failed[i] == nil; at = next.Add(1) - 1 {
				if failed[i] = ctx.Err(); failed[i] == nil {
					_, failed[i] = f.ReadAt(dst, at*pieceBytes)
				}
			}
		})
	}
	wait.Wait()
	took := time.Since(begin)
	for _, err := range failed {
		if err != nil {
			return 0, fmt.Errorf("%s: %w", name, err)
		}
	}
	return float64(n*pieceBytes) / max(took.Seconds(), 1e-9), nil
}
