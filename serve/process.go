package serve

import (
	"bytes"
	"io/fs"
	"os"
	"runtime"
	runtimemetrics "runtime/metrics"
	"strconv"
	"strings"
)

// goMetrics are what the Go runtime counts, under the names of Prometheus' client library.
var goMetrics = []struct{ name, kind, help, of string }{
	{"go_goroutines", "gauge", "Goroutines.", "/sched/goroutines:goroutines"},
	{"go_threads", "gauge", "Threads of the operating system.", "/sched/threads/total:threads"},
	{"go_sched_gomaxprocs_threads", "gauge", "Threads that may execute Go code at once.", "/sched/gomaxprocs:threads"},
	{"go_memstats_heap_alloc_bytes", "gauge", "Memory of the heap's objects, weights included.",
		"/memory/classes/heap/objects:bytes"},
	{"go_memstats_alloc_bytes_total", "counter", "Memory of objects that were made on the heap.", "/gc/heap/allocs:bytes"},
	{"go_memstats_sys_bytes", "gauge", "Memory that the runtime has from the system.", "/memory/classes/total:bytes"},
	{"go_memstats_next_gc_bytes", "gauge", "Size of the heap at which the next collection begins.", "/gc/heap/goal:bytes"},
	{"go_gc_gomemlimit_bytes", "gauge", "The memory limit of the runtime.", "/gc/gomemlimit:bytes"},
	{"go_gc_cycles_total", "counter", "Collections.", "/gc/cycles/total:gc-cycles"},
}

// writeProcess writes what is known of the program and its process. What the system does not tell is left out.
func (s *Server) writeProcess(b *exposition) {
	b.family("spec_build_info", "gauge", "The program: 1.")
	known := []string{"version", s.o.Version, "goversion", runtime.Version()}
	b.sample("spec_build_info", 1, append(known, s.o.Build...)...)
	b.family("go_info", "gauge", "The Go release: 1.")
	b.sample("go_info", 1, "version", runtime.Version())
	samples := make([]runtimemetrics.Sample, len(goMetrics))
	for i, g := range goMetrics {
		samples[i].Name = g.of
	}
	runtimemetrics.Read(samples)
	for i, g := range goMetrics {
		if samples[i].Value.Kind() == runtimemetrics.KindUint64 {
			b.one(g.name, g.kind, g.help, float64(samples[i].Value.Uint64()))
		}
	}
	b.one("process_start_time_seconds", "gauge", "When the server was made, in seconds since 1970.",
		float64(s.started.UnixMilli())/1000)
	if s.o.Proc != nil {
		writeProc(b, s.o.Proc)
	}
}

// writeProc writes what Linux tells of a process in its folder of /proc.
func writeProc(b *exposition, proc fs.FS) {
	const ( // proc_pid_stat(5), counted from the field behind the name
		userTime, systemTime, virtual, resident, fields = 11, 12, 20, 21, 22
		ticks                                           = 100 // a second, on every Linux that Go runs on
	)
	if data, err := fs.ReadFile(proc, "stat"); err == nil {
		words := strings.Fields(string(data[bytes.LastIndexByte(data, ')')+1:])) // the name may hold blanks
		if len(words) >= fields {
			value := func(i int) float64 {
				x, _ := strconv.ParseFloat(words[i], 64) // the kernel writes numbers
				return x
			}
			b.one("process_cpu_seconds_total", "counter", "Time of processors, user and system.",
				(value(userTime)+value(systemTime))/ticks)
			b.one("process_virtual_memory_bytes", "gauge", "Virtual memory.", value(virtual))
			b.one("process_resident_memory_bytes", "gauge", "Resident memory.", value(resident)*float64(os.Getpagesize()))
		}
	}
	if open, err := fs.ReadDir(proc, "fd"); err == nil {
		b.one("process_open_fds", "gauge", "Open files.", float64(len(open)))
	}
	data, err := fs.ReadFile(proc, "limits")
	if err != nil {
		return
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
			words := strings.Fields(rest)
			if most, err := strconv.ParseFloat(strings.Join(words[:min(1, len(words))], ""), 64); err == nil {
				b.one("process_max_fds", "gauge", "Most files that may be open.", most)
			}
		}
	}
}
