package nodebench

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// period is the time within which a node may use its share. The kernel's usual one is ten times as long: then a node
// with a fifth of a processor would stand still for 80 ms at a time, as no slower machine does.
const period = 10 * time.Millisecond

// The folders of groups: those of version 2, and those that bound processors of version 1.
const (
	groups    = "/sys/fs/cgroup"
	groupsOne = groups + "/cpu"
)

// limit gives a process a share of one processor. The function that it returns removes the group of the process, which
// must have ended.
func limit(pid int, name string, share float64) (end func() error, err error) {
	quota := int64(share * float64(period.Microseconds()))
	set := map[string]string{"cpu.max": fmt.Sprint(quota, " ", period.Microseconds())}
	parent := groups
	if _, err := os.Stat(filepath.Join(groups, "cgroup.controllers")); err != nil {
		parent = groupsOne
		set = map[string]string{"cpu.cfs_period_us": fmt.Sprint(period.Microseconds()),
			"cpu.cfs_quota_us": fmt.Sprint(quota)}
	} else if err := write(parent, "cgroup.subtree_control", "+cpu"); err != nil {
		return nil, err
	}
	folder := filepath.Join(parent, fmt.Sprintf("lazuli-lab-%d-%s", os.Getpid(), name))
	if err := os.Mkdir(folder, 0o755); err != nil {
		return nil, fmt.Errorf("a group of processes: %w", err)
	}
	end = func() error { return os.Remove(folder) }
	for file, value := range set {
		err = errors.Join(err, write(folder, file, value))
	}
	if err = errors.Join(err, write(folder, "cgroup.procs", strconv.Itoa(pid))); err != nil {
		return nil, errors.Join(err, end())
	}
	return end, nil
}

func write(folder, file, value string) error {
	if err := os.WriteFile(filepath.Join(folder, file), []byte(value), 0); err != nil {
		return fmt.Errorf("a group of processes: %w", err)
	}
	return nil
}
