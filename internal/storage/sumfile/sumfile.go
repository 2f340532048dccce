// Package sumfile reads and writes small files with a checksum, which are replaced as a whole: the lists of what a
// folder must hold.
//
// A file is text: a line with its kind and version, a JSON document, and a line with the CRC-32C of everything before.
// Write leaves the old content or the new one, whenever the process or the machine stops.
package sumfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/fault"
	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// Errors of Read.
var (
	// ErrDamaged means that the content is not what was written.
	ErrDamaged = errors.New("the file is damaged")
	// ErrVersion means that a newer program wrote the file.
	ErrVersion = errors.New("the file was written by a newer release")
)

// PartSuffix ends the name of a file that is being written.
const PartSuffix = ".part"

const sumHead = "crc32c "

// The moments at which tests kill a process that writes a file.
var (
	pointWritten = fault.Declare("sumfile/written")
	pointRenamed = fault.Declare("sumfile/renamed")
)

// Encode returns the content of a file. kind has no digits.
func Encode(kind string, version int, v any) ([]byte, error) {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return nil, err
	}
	return encode(kind, version, text), nil
}

// encode returns the content of a file with a JSON document.
func encode(kind string, version int, text []byte) []byte {
	p := make([]byte, 0, len(text)+len(kind)+64)
	p = append(append(p, kind+" "+strconv.Itoa(version)...), '\n')
	p = append(append(p, text...), '\n')
	return fmt.Appendf(p, "%s%08x\n", sumHead, crc32c.Checksum(p))
}

// Decode parses the content of a file of a kind and up to a version. Errors: ErrDamaged, ErrVersion.
func Decode(p []byte, kind string, version int, v any) error {
	head, rest, _ := bytes.Cut(p, []byte("\n"))
	number, ok := strings.CutPrefix(string(head), kind+" ")
	have, err := strconv.Atoi(number)
	if !ok || err != nil || have < 1 {
		return fmt.Errorf("%w: its first line is not that of a %s", ErrDamaged, kind)
	}
	if have > version {
		return fmt.Errorf("%w: it has version %d, and this program supports version %d", ErrVersion, have, version)
	}
	at := bytes.LastIndex(p, []byte(sumHead))
	if at < 0 || string(p[at:]) != fmt.Sprintf("%s%08x\n", sumHead, crc32c.Checksum(p[:at])) {
		return fmt.Errorf("%w: its checksum does not match", ErrDamaged)
	}
	if err := json.Unmarshal(rest[:at-len(head)-1], v); err != nil {
		return fmt.Errorf("%w: %v", ErrDamaged, err)
	}
	return nil
}

// Read reads a file. Errors: ErrDamaged, ErrVersion, or an error of the operating system.
func Read(path, kind string, version int, v any) error {
	p, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return Decode(p, kind, version, v)
}

// Write replaces a file, durably.
func Write(fsys disk.FS, path, kind string, version int, v any) error {
	p, err := Encode(kind, version, v)
	if err != nil {
		return err
	}
	return write(fsys, path, p)
}

// WriteText is [Write] of a JSON document, for one that is large.
func WriteText(fsys disk.FS, path, kind string, version int, text []byte) error {
	return write(fsys, path, encode(kind, version, text))
}

// write replaces a file by one with the content p, durably.
func write(fsys disk.FS, path string, p []byte) error {
	part := path + PartSuffix
	f, err := fsys.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(p, 0)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = fault.Point(pointWritten)
	}
	if err == nil {
		err = fsys.Rename(part, path)
	}
	if err == nil {
		err = fault.Point(pointRenamed)
	}
	if err != nil {
		return err
	}
	return fsys.SyncDir(filepath.Dir(path))
}
