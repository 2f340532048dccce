package gctuner

import (
	"runtime"
	"slices"
	"strings"
	"testing"
)

// Only what the process cannot have changed may be released: the system would read it from the file again.
func TestCleanRegions(t *testing.T) {
	t.Parallel()
	const clean = "Size: 4 kB\nRss: 4 kB\nPrivate_Dirty: 4 kB\nAnonymous: 0 kB\nSwap: 0 kB\nVmFlags: rd ex mr mw me\n"
	written := strings.Replace(clean, "Anonymous: 0", "Anonymous: 4", 1)
	swapped := strings.Replace(clean, "Swap: 0", "Swap: 4", 1)
	text := "00400000-00500000 r-xp 00000000 fe:00 100      /bin/lazuli\n" + clean +
		"00500000-00600000 r--p 00100000 fe:00 100 /bin/lazuli\n" + clean +
		"00600000-00700000 rw-p 00200000 fe:00 100 /bin/lazuli\n" + clean +
		"00700000-00800000 r--p 00300000 fe:00 100 /bin/lazuli\n" + written +
		"00800000-00900000 r--p 00400000 fe:00 100 /bin/lazuli\n" + swapped +
		"00900000-00a00000 r--s 00500000 fe:00 100 /bin/lazuli\n" + clean +
		"00a00000-00b00000 r--p 00000000 fe:00 101 /bin/other\n" + clean +
		"00b00000-00c00000 r--s 00000000 fe:00 102 /data/a folder/tables.db (deleted)\n" + clean +
		"00c00000-00d00000 rw-s 00000000 fe:00 102 /data/tables.db\n" + clean +
		"00d00000-00e00000 r--s 00000000 00:0e 102 anon_inode:[perf_event]\n" + clean +
		"c000000000-c004000000 rw-p 00000000 00:00 0 \n" + clean +
		"7ffd0000-7ffe0000 r-xp 00000000 00:00 0 [vdso]\n" + clean
	program := []region{{0x400000, 0x500000}, {0x500000, 0x600000}}
	for shared, want := range map[bool][]region{
		false: program,
		true:  append(slices.Clip(program), region{0x900000, 0xa00000}, region{0xb00000, 0xc00000}),
	} {
		got, err := cleanRegions(strings.NewReader(text), "/bin/lazuli", shared)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%x, %v; want %x", got, err, want)
		}
	}
}

func TestReleaseProgram(t *testing.T) {
	t.Parallel()
	for _, shared := range []bool{false, true} {
		n, err := release(shared)
		if err != nil || runtime.GOOS == "linux" && n == 0 {
			t.Errorf("%d regions, %v", n, err)
		}
	}
	runtime.GC() // the program still runs
}
