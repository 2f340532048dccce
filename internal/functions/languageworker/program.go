package languageworker

import (
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	rpc "github.com/lazuli-storage/lazuli/internal/functions/languageworker/internal/functionrpc"
)

// programs are the workers of this package, one folder of files for each language, with a configFile.
//
//go:embed node python
var programs embed.FS

// programFolders are the folders of programs, by runtime.
var programFolders = map[string]string{"python": "python", "node": "node"}

// writeProgram writes the program of a language to a folder, and beside it the messages of the protocol in both of the
// forms from which libraries make types.
func writeProgram(language, folder string) error {
	sub, err := fs.Sub(programs, language)
	if err != nil {
		return err
	}
	if err := os.CopyFS(folder, sub); err != nil {
		return fmt.Errorf("write the worker's program: %w", err)
	}
	if err := os.WriteFile(filepath.Join(folder, "functionrpc.proto"), rpc.Source, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "functionrpc.binpb"), rpc.Descriptor(), 0o600)
}
