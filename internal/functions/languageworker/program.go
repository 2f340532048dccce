package languageworker

import (
	"embed"
	"io/fs"
	"os"
	"path/filepath"

	rpc "github.com/lazuli-storage/lazuli/internal/functions/languageworker/internal/functionrpc"
)

// programs are the workers, one folder of files for each language.
//
//go:embed node python
var programs embed.FS

// writeProgram writes the program of a language to a folder, and beside it the messages of the protocol in both of the
// forms from which libraries make types.
func writeProgram(language, folder string) error {
	sub, err := fs.Sub(programs, language)
	if err != nil {
		return err
	}
	if err := os.CopyFS(folder, sub); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "functionrpc.proto"), rpc.Source, 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "functionrpc.binpb"), rpc.Descriptor(), 0o600)
}
