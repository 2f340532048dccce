package azurehosts

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// SDK is the path that the modules of the Azure SDK for Go begin with.
const SDK = "github.com/Azure/azure-sdk-for-go/sdk/"

// CopyModule downloads a module, "path@version", and copies it into the folder, since tests read and write files beside
// them. It returns the copy.
func CopyModule(module, folder string) (string, error) {
	out, err := exec.Command("go", "mod", "download", "-json", module).Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w", module, err)
	}
	m := regexp.MustCompile(`"Dir": "([^"]+)"`).FindSubmatch(out)
	if m == nil {
		return "", errors.New("no folder of " + module)
	}
	to := filepath.Join(folder, strings.ReplaceAll(strings.TrimPrefix(module, SDK), "/", "-"))
	if err := os.RemoveAll(to); err != nil {
		return "", err
	}
	if err := os.CopyFS(to, os.DirFS(string(m[1]))); err != nil {
		return "", err
	}
	return to, filepath.WalkDir(to, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chmod(path, 0o755) // modules are read-only
	})
}
