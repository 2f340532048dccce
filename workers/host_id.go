package workers

import (
	"fmt"
	"hash/fnv"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
)

// hostIDs are the values that Config.HostID accepts: they become parts of blob names.
var hostIDs = lazyregexp.New(`^[A-Za-z0-9_.-]{1,100}$`)

// defaultHostID derives a host ID from the program: the same for all instances of it, wherever they run, and different
// for others.
func defaultHostID() string {
	importPath := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		importPath = info.Path
	}
	executable, _ := os.Executable()
	return hostIDOf(importPath, executable)
}

// hostIDOf makes a host ID of at most 32 characters, the limit of Azure Functions: the last element of the main
// package's import path and a hash of the whole. A program that was built from a list of files has the import path
// "command-line-arguments"; its executable's base name is used.
func hostIDOf(importPath, executable string) string {
	const commandLine = "command-line-arguments"
	if importPath == "" || importPath == commandLine {
		importPath = strings.TrimSuffix(filepath.Base(executable), ".exe")
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(importPath))
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(path.Base(importPath)))
	return strings.Trim(name[:min(len(name), 23)], "-") + fmt.Sprintf("-%08x", h.Sum32())
}
