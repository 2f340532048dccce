package languageworker

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/lazuli-storage/lazuli/functions"
)

// findPython returns the interpreter: the one that is asked for, that of the virtual environment which is active, one
// in the app's folder or the folder above, or python3 on the path.
func findPython(wanted string, s functions.WorkerSettings) (string, error) {
	if wanted != "" {
		path, err := exec.LookPath(wanted)
		if err != nil {
			return "", fmt.Errorf("the Python interpreter %s: %w", wanted, err)
		}
		return filepath.Abs(path)
	}
	var environments []string
	if active := setting(s, "VIRTUAL_ENV"); active != "" {
		environments = append(environments, active)
	}
	for _, dir := range []string{s.Dir, filepath.Dir(s.Dir)} {
		for _, name := range []string{".venv", "venv", "env"} {
			environments = append(environments, filepath.Join(dir, name))
		}
	}
	// pyvenv.cfg makes a folder a virtual environment: a folder env with a program of that name is often something else.
	for _, e := range environments {
		python := filepath.Join(e, "bin", "python")
		if runtime.GOOS == "windows" {
			python = filepath.Join(e, "Scripts", "python.exe")
		}
		if _, err := os.Stat(filepath.Join(e, "pyvenv.cfg")); err == nil && exists(python) {
			return python, nil
		}
	}
	for _, name := range []string{"python3", "python"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("no Python was found: neither %s nor python3 on the path; install Python 3.10 or newer, then "+
		"`python3 -m venv .venv`, and start again to see which packages are missing", filepath.Join(s.Dir, ".venv"))
}
