package languageworker

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/lazuli-storage/lazuli/functions"
	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
)

// unset matches the name of a variable between percent signs.
var unset = lazyregexp.New(`%[^%\s]+%`)

// unknown matches a token in braces, of those that are left.
var unknown = lazyregexp.New(`\{[^{}\s/]*\}`)

// rootToken begins the path of an executable in the worker's folder, as that of a self-contained .NET app is.
const rootToken = "{WorkerRoot}"

// executable finds the program that runs a worker.
func (c *workerConfig) executable(r Runtime, s functions.WorkerSettings, name string) (string, error) {
	if rest, ok := strings.CutPrefix(name, rootToken); ok {
		path := filepath.Join(c.folder, filepath.FromSlash(rest))
		if runtime.GOOS == "windows" && filepath.Ext(path) == "" {
			path += ".exe"
		}
		if !exists(path) {
			return "", fmt.Errorf("the program %s, which %s names, does not exist: publish the app for this system (%s/%s)",
				path, filepath.Join(c.folder, configFile), runtime.GOOS, runtime.GOARCH)
		}
		return path, nil
	}
	// The name python in a config means the app's virtual environment, where its packages are, and not the system's.
	python := strings.EqualFold(s.Runtime, "python")
	if python && r.Python != "" || python && name == "python" {
		return findPython(r.Python, s)
	}
	where := filepath.Join(c.folder, configFile)
	if token := unknown().FindString(name); token != "" {
		return "", fmt.Errorf("%s: the token %s in defaultExecutablePath is not known; there are %s for the worker's folder "+
			"and %%NAME%% for a variable", where, token, rootToken)
	}
	path := filepath.FromSlash(expand(name, s))
	missing := ""
	if token := unset().FindString(path); token != "" {
		path = filepath.Base(path) // As %JAVA_HOME%/bin/java without that variable: the one on the path.
		missing = " (" + token + " is not set)"
	}
	// A path with a separator is looked at as it is, and a name on the path of the host.
	found, err := exec.LookPath(path)
	failed := (*exec.Error)(nil)
	switch {
	case err == nil:
		return filepath.Abs(found)
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("the program %s, which runs the worker for %s, does not exist (defaultExecutablePath of %s, or "+
			"languageWorkers__%s__defaultExecutablePath)", path, s.Runtime, where, s.Runtime)
	case !errors.Is(err, exec.ErrNotFound) && errors.As(err, &failed):
		return "", fmt.Errorf("the program %s, which runs the worker for %s, cannot be run: %w", path, s.Runtime, failed.Err)
	case !errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("the program of the worker for %s: %w", s.Runtime, err)
	case path == "node":
		return "", errors.New("this is an app in JavaScript or TypeScript, and there is no node on the path: install " +
			"Node.js 18 or later")
	case path == "dotnet":
		return "", errors.New("this is a .NET app that needs an installed .NET, and there is no dotnet on the path: install " +
			"the .NET runtime, or publish the app with --self-contained")
	case path == "java":
		return "", errors.New("this is an app in Java, and there is no java on the path: install a JDK of version 8 to 21, " +
			"or set JAVA_HOME")
	}
	return "", fmt.Errorf("there is no %s on the path%s, which runs the worker for %s: install it, or set "+
		"languageWorkers__%s__defaultExecutablePath", path, missing, s.Runtime, s.Runtime)
}
