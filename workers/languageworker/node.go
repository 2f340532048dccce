package languageworker

import (
	"errors"

	"github.com/lazuli-storage/lazuli/workers/customhandler"
)

// nodeCommand starts the worker of JavaScript and TypeScript.
func nodeCommand(_ Runtime, _ customhandler.WorkerSettings, _ string) (*command, error) {
	return nil, errors.New("there is no worker for JavaScript and TypeScript yet")
}
