package killrig

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Build builds the command lazuli of this module in a folder, and returns the file's path. It uses go run with a copy
// in place of a run, since go run, unlike go build, keeps what it links in the build cache. Without tables for
// debuggers a link takes two thirds of the time.
func Build(folder string) (string, error) {
	const command = "github.com/lazuli-storage/lazuli/cmd/lazuli"
	binary := filepath.Join(folder, "lazuli")
	build := exec.Command("go", "run", "-ldflags=-s -w", "-exec", "cp", command, binary)
	if runtime.GOOS == "windows" {
		binary += ".exe"
		build = exec.Command("go", "build", "-o", binary, command)
	}
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build lazuli: %w\n%s", err, out)
	}
	return binary, nil
}
