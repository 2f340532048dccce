package check

import (
	"bytes"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

const (
	// memoryFolder is the folder of a file system in memory.
	memoryFolder = "/dev/shm"
	// plenty is how much memory has to be left, in bytes: the tests of a package have files of some 100 MB, and several
	// packages are tested at a time.
	plenty = 6 << 30
)

// FilesInMemory puts temporary files of this process, and of those that it starts, in memory, if there is plenty. Call
// it in TestMain of a package whose tests open many folders and sync often: a third of the processor time of such a
// package was the file system's. With [FullVariable], and where TMPDIR is set, the files are where they are
// otherwise. It calls [CollectRarely].
func FilesInMemory() {
	CollectRarely()
	if os.Getenv(FullVariable) == "" && os.Getenv("TMPDIR") == "" && memoryLeft() >= plenty {
		_ = os.Setenv("TMPDIR", memoryFolder)
	}
}

// memoryLeft returns how many bytes of files memory can take, 0 where that is not known.
func memoryLeft() (left int64) {
	var s unix.Statfs_t
	if unix.Statfs(memoryFolder, &s) != nil || s.Type != unix.TMPFS_MAGIC {
		return 0
	}
	left = int64(s.Bavail) * s.Bsize
	text, err := os.ReadFile("/proc/meminfo")
	at := bytes.Index(text, []byte("MemAvailable:"))
	if err != nil || at < 0 {
		return 0
	}
	var available int64
	if _, err := fmt.Sscanf(string(text[at:]), "MemAvailable: %d kB", &available); err != nil {
		return 0
	}
	return min(left, available<<10, groupLeft())
}

// groupLeft returns how many bytes the control group of a container may still take.
func groupLeft() int64 {
	read := func(name string) (n int64, ok bool) {
		text, err := os.ReadFile("/sys/fs/cgroup/" + name)
		if err != nil {
			return 0, false
		}
		_, err = fmt.Sscan(string(text), &n) // "max" is no limit
		return n, err == nil
	}
	for _, version := range [][2]string{{"memory.max", "memory.current"},
		{"memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"}} {
		limit, limited := read(version[0])
		used, known := read(version[1])
		if limited && known {
			return limit - used
		}
	}
	return math.MaxInt64
}
