package searchindex

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
	"github.com/lazuli-storage/lazuli/internal/storage/secretfile"
)

// bleve does not check what it reads: a flipped bit in a stored index could hide documents, or end the process in one
// of bleve's goroutines. So the files are verified before they are opened:
//
//   - a segment (store/*.zap) ends with the CRC-32 of what precedes it, big-endian. One without it is damaged, or was
//     being written when the process
//     was killed. It gets another name; if the index refers to it, bleve cannot load that state of the index, and uses the one before or none.
//   - the other files have checksums in sums.json, which close writes and open removes. A kill leaves no sums.json, and
//     they are not verified then.

// sumsFile is the name of the file with checksums, in the folder of a generation.
const sumsFile = "sums.json"

// aside is the end of the names of damaged segments.
const aside = ".damaged"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// summed are the files of which sumsFile has the CRC-32C.
func (g *generation) summed() []string {
	return []string{metaFile, filepath.Join(storeFolder, "root.bolt")}
}

// writeSums stores the checksums of the files of a generation that was closed.
func (g *generation) writeSums() error {
	sums := map[string]uint32{}
	for _, name := range g.summed() {
		sum, _, err := sumFile(filepath.Join(g.path, name), crc32.New(castagnoli), 0)
		if err != nil {
			return fmt.Errorf("searchindex: %w", err)
		}
		sums[filepath.ToSlash(name)] = sum
	}
	text, err := json.Marshal(sums)
	if err != nil {
		return err
	}
	return secretfile.Write(filepath.Join(g.path, sumsFile), append(text, '\n'))
}

// verify compares the files of a generation with their checksums, and removes sumsFile, since bleve is about to change
// them.
func (g *generation) verify() error {
	// Always: a segment has its own checksum, so a kill does not excuse it.
	if err := g.verifySegments(); err != nil {
		return err
	}
	path := filepath.Join(g.path, sumsFile)
	text, err := secretfile.Read(path, maxStateSize)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var sums map[string]uint32
	if err == nil {
		err = json.Unmarshal(text, &sums)
	}
	if err != nil {
		return fmt.Errorf("searchindex: checksums: %w", err)
	}
	for _, name := range g.summed() {
		sum, _, err := sumFile(filepath.Join(g.path, name), crc32.New(castagnoli), 0)
		if err != nil {
			return fmt.Errorf("searchindex: %w", err)
		}
		if want, ok := sums[filepath.ToSlash(name)]; !ok || want != sum {
			return fmt.Errorf("searchindex: %s is damaged: its checksum does not match", filepath.Join(g.path, name))
		}
	}
	// Before bleve opens the files. With sums that are older than the files, the next start would find damage.
	if err := os.Remove(path); err != nil {
		return fmt.Errorf("searchindex: %w", err)
	}
	return disk.SyncDir(g.path)
}

// verifySegments renames the segments of which the checksum does not match.
func (g *generation) verifySegments() error {
	folder := filepath.Join(g.path, storeFolder)
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("searchindex: %w", err)
	}
	renamed := false
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".zap") {
			continue
		}
		path := filepath.Join(folder, e.Name())
		sum, end, err := sumFile(path, crc32.NewIEEE(), 4)
		if err != nil {
			return fmt.Errorf("searchindex: %w", err)
		}
		if len(end) == 4 && binary.BigEndian.Uint32(end) == sum {
			continue
		}
		// bleve must not see it, and an operator may want it. bleve removes names that it does not know only if they end in
		// .zap.
		if err := os.Rename(path, path+aside); err != nil {
			return fmt.Errorf("searchindex: %w", err)
		}
		renamed = true
	}
	if renamed {
		return disk.SyncDir(folder)
	}
	return nil
}

// sumFile returns the checksum of a file without its last n bytes, and these.
func sumFile(path string, h hash.Hash32, n int64) (sum uint32, end []byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, nil, err
	}
	if _, err := io.CopyN(h, f, max(info.Size()-n, 0)); err != nil {
		return 0, nil, err
	}
	end, err = io.ReadAll(io.LimitReader(f, n))
	return h.Sum32(), end, err
}
