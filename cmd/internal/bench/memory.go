package bench

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// Memory is the memory use of a process in bytes; all zero if unknown.
type Memory struct {
	// RSS is resident memory. It includes File.
	RSS int64 `json:"rss"`
	// Anon is the part that only this process can give back: heap and stacks.
	Anon int64 `json:"anon"`
	// File is the part that is a cache of mapped files, which the kernel drops when it needs room.
	File int64 `json:"file"`
	// Peak is the largest RSS since the process started.
	Peak int64 `json:"peak"`
}

// ReadMemory returns the memory use of a process, from /proc/PID/status; zeros where that does not exist.
func ReadMemory(pid int) Memory {
	if pid <= 0 {
		return Memory{}
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Memory{}
	}
	return parseMemory(string(b))
}

// parseMemory understands the Vm and Rss lines of proc_pid_status(5), whose unit is always kB.
func parseMemory(status string) Memory {
	var m Memory
	sc := bufio.NewScanner(strings.NewReader(status))
	for sc.Scan() {
		name, value, _ := strings.Cut(sc.Text(), ":")
		kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
		if err != nil {
			continue
		}
		switch name {
		case "VmRSS":
			m.RSS = kb << 10
		case "VmHWM":
			m.Peak = kb << 10
		case "RssAnon":
			m.Anon = kb << 10
		case "RssFile":
			m.File = kb << 10
		}
	}
	return m
}

// clockTick is the unit of CPU times in /proc: Linux shows them to user space at 100 Hz on every architecture that Go
// supports.
const clockTick = 10 * time.Millisecond

// ProcessorTime returns the time that a process has computed so far, in user and kernel mode; 0 when unknown.
func ProcessorTime(pid int) time.Duration {
	if pid <= 0 {
		return 0
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	return parseCPU(string(b))
}

// parseCPU reads utime and stime of proc_pid_stat(5): the 12th and 13th field after the command's name, which stands in
// parentheses and may hold anything.
func parseCPU(stat string) time.Duration {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0
	}
	var total time.Duration
	for _, field := range fields[11:13] {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			return 0
		}
		total += time.Duration(n) * clockTick
	}
	return total
}
