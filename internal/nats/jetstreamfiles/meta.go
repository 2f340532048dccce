package jetstreamfiles

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	metaFile    = "meta.inf"
	metaSumFile = "meta.sum"
)

// verifyMeta checks a stream's meta file against its checksum, as the server does at its start. The server does not
// load a stream whose file does not match. verifyMeta returns a description of the problem, or "".
func verifyMeta(streamDir string) (string, error) {
	text, err := os.ReadFile(filepath.Join(streamDir, metaFile))
	if errors.Is(err, fs.ErrNotExist) {
		return "the file is missing", nil
	}
	if err != nil {
		return "", fmt.Errorf("jetstreamfiles: %w", err)
	}
	want, err := os.ReadFile(filepath.Join(streamDir, metaSumFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("jetstreamfiles: %w", err)
	}
	sum := hashOf(filepath.Base(streamDir))
	sum.Write(text)
	switch {
	case hex.EncodeToString(sum.Sum(nil)) != string(want):
		return "the checksum does not match", nil
	case !json.Valid(text):
		return "the file is no JSON document", nil
	}
	return "", nil
}
