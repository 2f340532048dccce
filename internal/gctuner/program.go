package gctuner

import (
	"bufio"
	"io"
	"strconv"
	"strings"
)

// region is a part of the address space.
type region struct{ start, end uintptr }

// cleanRegions returns the regions of files that the process has mapped and can neither write nor has written, from the
// text of /proc/self/smaps (proc_pid_smaps(5)): those of the program, and if shared is set those that are mapped as
// databases are, for all processes alike. A region with pages of the process's own, such as relocated addresses, is
// left out.
func cleanRegions(smaps io.Reader, program string, shared bool) (regions []region, err error) {
	lines := bufio.NewScanner(smaps)
	var current region // the region of the lines that are read
	clean := false
	add := func() {
		if clean {
			regions = append(regions, current)
		}
		clean = false
	}
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 {
			continue
		}
		if name, ok := strings.CutSuffix(fields[0], ":"); ok {
			if (name == "Anonymous" || name == "Swap") && fields[1] != "0" {
				clean = false
			}
			continue
		}
		// A region begins: start-end permissions offset device inode path. A path may have spaces, and none is no file.
		add()
		start, end, ok := strings.Cut(fields[0], "-")
		from, err1 := strconv.ParseUint(start, 16, 64)
		to, err2 := strconv.ParseUint(end, 16, 64)
		clean = ok && err1 == nil && err2 == nil && len(fields) >= 6 && strings.HasPrefix(fields[1], "r-") &&
			(strings.HasSuffix(fields[1], "p") && len(fields) == 6 && fields[5] == program ||
				shared && strings.HasSuffix(fields[1], "s") && strings.HasPrefix(fields[5], "/"))
		current = region{uintptr(from), uintptr(to)}
	}
	add()
	return regions, lines.Err()
}
