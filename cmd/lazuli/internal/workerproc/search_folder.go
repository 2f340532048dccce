package workerproc

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/server/config"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
)

// SearchFolder returns the folder of the index of the search-index role: the configured one, or by default one for each
// account and table. remove deletes a temporary folder.
type SearchFolder func() (path string, remove func() error, err error)

func keep() error { return nil }

// ServerSearchFolder is below the data folder, or temporary if the server keeps no data.
func ServerSearchFolder(c *config.Config, account string) SearchFolder {
	return func() (string, func() error, error) {
		switch {
		case c.Roles.SearchFolder != "":
			return c.Roles.SearchFolder, keep, nil
		case c.InMemory:
			path, err := os.MkdirTemp("", "lazuli-search-index-")
			return path, func() error { return os.RemoveAll(path) }, err
		}
		return filepath.Join(c.Location, datadir.SearchFolder, account, strings.ToLower(c.Roles.SearchTable)), keep, nil
	}
}

// WorkerSearchFolder is below the user's folder for caches, since a worker has no data folder and the index can be made
// again.
func WorkerSearchFolder(roles config.Roles, connectionString string) SearchFolder {
	return func() (string, func() error, error) {
		if roles.SearchFolder != "" {
			return roles.SearchFolder, keep, nil
		}
		settings, err := connstr.Parse(connectionString)
		if err != nil {
			return "", nil, err
		}
		cache, err := os.UserCacheDir()
		if err != nil {
			return "", nil, fmt.Errorf("set --search-index-folder: %w", err)
		}
		// A readable name, and a hash of the service and the account.
		endpoint, _, _ := strings.Cut(settings.TableEndpoint, "?") // without a signature
		sum := sha256.Sum256([]byte(strings.TrimSuffix(endpoint, "/")))
		return filepath.Join(cache, "lazuli", datadir.SearchFolder,
			strings.ToLower(roles.SearchTable)+"-"+hex.EncodeToString(sum[:8])), keep, nil
	}
}
