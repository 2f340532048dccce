// Command lazuli-search has the full-text index of the role search-index, in a process that lazuli starts: see package
// searchproc. It is a program of its own so that only those who search have the libraries of the index.
package main

import (
	"os"

	"github.com/lazuli-storage/lazuli/cmd/internal/searchserver"
)

func main() { os.Exit(searchserver.Main()) }
