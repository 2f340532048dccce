package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/storage/crc32c"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// part is a file that the manifest lists.
type part struct {
	name string
	// holds describes what is lost with it.
	holds string
	// read returns what the manifest says about the file as it is now. usable is false for a file that its owner refuses
	// to open in any case.
	read func(path string) (e entry, usable bool, err error)
}

// parts are the files that the manifest lists, by their paths in the folder.
var parts = []part{
	{tablesFile, "all tables with their entities", readDatabase},
	{blobsFile, "all containers and blobs", readDatabase},
	{extentsFile, "the content of blobs", readExtents},
	{queuesFile, "all queues with their messages", readDatabase},
	{ScopesFile, "the keys of all encryption scopes, and with them the content of their blobs", readWhole},
	{NodeFile, "the identity of the node, and with it its place in the cluster", readWhole},
}

// Content are the files that [Dir.Forget] takes when other nodes have everything in them.
var Content = []string{tablesFile, blobsFile, extentsFile, queuesFile, ScopesFile, streamsFolder}

// partsOf are the files that the manifest of a folder with a number of shards lists: those of shard 0, and those of
// each other shard in its own folder.
func partsOf(shards int) []part {
	list := slices.Clone(parts)
	for n := 1; n < shards; n++ {
		for _, p := range parts {
			if p.name == NodeFile {
				continue // a node is one, however many shards it hosts
			}
			p.name, p.holds = ShardOf("", n).Name(p.name), fmt.Sprintf("%s of shard %d", p.holds, n)
			list = append(list, p)
		}
	}
	return list
}

// contents are the paths of all that tells that a folder has data.
func contents() []string {
	list := []string{extentsFolder, streamsFolder, shardsFolder}
	for _, p := range parts {
		list = append(list, p.name)
	}
	return list
}

// NodeFile is the path of the identity of a node of a cluster in its folder.
const NodeFile = clusterFolder + "/node.json"

const (
	extentsFile   = extentsFolder + "/" + extent.ManifestFile
	clusterFolder = "cluster"
)

// readDatabase reads the state of a database.
func readDatabase(path string) (e entry, usable bool, err error) {
	s, err := store.ReadState(path)
	if errors.Is(err, store.ErrDamaged) || errors.Is(err, store.ErrFormat) {
		return entry{Size: s.Size}, false, nil
	}
	return entry{ID: s.ID, View: s.Replicated, Generation: s.Generation, Exact: s.Closed, Size: s.Size, Sum: s.Sum}, true,
		err
}

// readExtents reads the state of the list of extents, which says more about each of them.
func readExtents(path string) (e entry, usable bool, err error) {
	s, err := extent.ReadState(filepath.Dir(path))
	if errors.Is(err, extent.ErrCorrupt) {
		return entry{Size: s.Size}, false, nil
	}
	return entry{ID: s.ID, Generation: s.Number, Exact: true, Size: s.Size, Sum: s.Sum}, true, err
}

// readWhole reads a file of some KiB that is replaced as a whole.
func readWhole(path string) (e entry, usable bool, err error) {
	p, err := os.ReadFile(path)
	return entry{Exact: true, Size: int64(len(p)), Sum: crc32c.Checksum(p)}, true, err
}

// Problem is a file that is not what the manifest says.
type Problem struct {
	// File is the path in the folder.
	File string
	// What describes the difference.
	What string
	// Foreign means that it is another file than the one of this folder, and Is names the one of this folder that it is.
	Foreign bool
	Is      string
	// Lost holds what may be lost.
	Lost string
}

// String returns the problem as a sentence without a full stop.
func (p Problem) String() string { return p.File + " " + p.What + ": " + p.Lost + " may be lost" }

// ContentError reports files that are missing, foreign, shorter or older than they were.
type ContentError struct {
	Path     string
	Problems []Problem
}

// Error names the files, what may be lost, and what to do.
func (e *ContentError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.String()
	}
	return fmt.Sprintf("data folder %s does not hold what it held: %s; put back the file or a backup of the whole "+
		"folder, or accept the loss with `lazuli fsck --repair %[1]s`",
		e.Path, strings.Join(texts, "; "))
}

// verify compares the files of a folder with its manifest.
func (m *manifest) verify(path string) (problems []Problem, err error) {
	found := map[string]entry{}
	for _, p := range partsOf(m.shards()) {
		want, listed := m.Files[p.name]
		e, usable, err := p.read(filepath.Join(path, p.name))
		problem := func(text string, args ...any) {
			problems = append(problems, Problem{File: p.name, What: fmt.Sprintf(text, args...), Lost: p.holds})
		}
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if listed && !want.View {
				problem("is missing")
			}
			continue
		case err != nil:
			return nil, fmt.Errorf("data folder: %w", err)
		case !usable && e.Size > 0:
			continue // its owner says more about the damage
		case !listed && !m.Open:
			problem("is not one of this folder's files")
			problems[len(problems)-1].Foreign = true
			continue
		case !listed || want.View:
			continue
		case e.Size == 0:
			problem("is empty")
			continue
		}
		found[p.name] = e
		if text := want.compare(e, m.Open); text != "" {
			problem("%s", text)
			problems[len(problems)-1].Foreign = e.ID != want.ID
		}
	}
	streams, err := m.verifyStreams(path)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(streams, func(a, b Problem) int { return strings.Compare(a.File, b.File) })
	problems = append(problems, streams...)
	for i, p := range problems {
		for other, e := range m.Files {
			if e.ID != "" && e.ID == found[p.File].ID && other != p.File {
				problems[i].What, problems[i].Is = "is in truth "+other, other
			}
		}
	}
	return problems, nil
}

// compare returns how a file differs from what the manifest says, "" if it does not. open is manifest.Open.
func (e entry) compare(now entry, open bool) string {
	switch {
	case now.ID != e.ID:
		return "is another file than the one of this folder"
	case now.Generation < e.Generation:
		return fmt.Sprintf("is an older copy: it has generation %d, and had %d", now.Generation, e.Generation)
	case open || !e.Exact:
		return ""
	case now.Size < e.Size:
		return fmt.Sprintf("is shorter than at the last stop: it has %d bytes, and had %d", now.Size, e.Size)
	case now.Generation > e.Generation:
		return fmt.Sprintf("is newer than the %s, which is an older copy", ManifestFile)
	case now.Size != e.Size || now.Sum != e.Sum || !now.Exact:
		return "is not what the last stop has left"
	}
	return ""
}

// update lists the files as they are now. A file that is missing, or is another one, stays listed as it was, unless
// adopt is set.
func (m *manifest) update(path string, adopt bool) error {
	for _, p := range partsOf(m.shards()) {
		was, listed := m.Files[p.name]
		e, usable, err := p.read(filepath.Join(path, p.name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if adopt || was.View {
				delete(m.Files, p.name)
			}
		case err != nil:
			return fmt.Errorf("data folder: %w", err)
		case !usable || listed && !adopt && !was.View && was.ID != e.ID || e.Size == 0 && !adopt:
		default:
			m.Files[p.name] = e
		}
	}
	return m.updateStreams(path, adopt)
}
