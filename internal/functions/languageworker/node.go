package languageworker

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/functions"
)

// nodeCommand starts the worker of JavaScript and TypeScript. Settings name another node and arguments for it, as they
// do for the Functions host.
// https://learn.microsoft.com/azure/azure-functions/functions-app-settings#languageworkers__arguments
func nodeCommand(r Runtime, s functions.WorkerSettings, folder string) (*command, error) {
	name := setting(s, "languageWorkers__node__defaultExecutablePath")
	if name == "" {
		name = "node"
	}
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) && name == "node" {
		return nil, errors.New("this is an app in JavaScript or TypeScript, and there is no node on the path: install " +
			"Node.js 18 or later")
	}
	if err != nil {
		return nil, fmt.Errorf("languageWorkers__node__defaultExecutablePath: %w", err)
	}
	if err := writeProgram("node", folder); err != nil {
		return nil, err
	}
	c := &command{path: path, arguments: strings.Fields(setting(s, "languageWorkers__node__arguments")),
		environ: []string{"AzureWebJobsScriptRoot=" + s.Dir}}
	c.arguments = append(c.arguments, filepath.Join(folder, "worker.cjs"))
	if r.Debug != 0 {
		c.environ = append(c.environ, "LAZULI_DEBUG_PORT="+strconv.Itoa(r.Debug))
	}
	return c, nil
}
