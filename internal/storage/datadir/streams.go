package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// streamsFolder has the streams of a single server.
const streamsFolder = "queues"

// lostStreams holds what is lost with a stream's file.
const lostStreams = "queues and messages"

// streamFiles returns the sizes of the files of JetStream that hold records, or say how to read them, by their paths.
// It leaves out what JetStream makes again, and copies of damaged files.
func streamFiles(path string) (map[string]int64, error) {
	sizes := map[string]int64{}
	err := filepath.WalkDir(filepath.Join(path, streamsFolder, "jetstream"),
		func(name string, e fs.DirEntry, err error) error {
			base := filepath.Base(name)
			if err != nil || e.IsDir() || !strings.HasSuffix(base, ".blk") && base != "meta.inf" && base != "meta.sum" ||
				strings.Contains(name, "obs") {
				return err
			}
			info, err := e.Info()
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(path, name)
			sizes[filepath.ToSlash(rel)] = info.Size()
			return err
		})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return sizes, err
}

// verifyStreams compares the files of JetStream with the manifest: all of them after a stop, and that there are any
// after a crash. What they hold then, the views of the streams know.
func (m *manifest) verifyStreams(path string) (problems []Problem, err error) {
	if len(m.Streams) == 0 {
		return nil, nil
	}
	have, err := streamFiles(path)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if len(have) == 0 {
		return []Problem{{File: streamsFolder, What: "is missing or empty", Lost: "all queues and messages"}}, nil
	}
	if m.Open {
		return nil, nil
	}
	for name, size := range m.Streams {
		now, ok := have[name]
		switch {
		case !ok:
			problems = append(problems, Problem{File: name, What: "is missing", Lost: lostStreams})
		case now < size:
			problems = append(problems, Problem{File: name, Lost: lostStreams,
				What: fmt.Sprintf("is shorter than at the last stop: it has %d bytes, and had %d", now, size)})
		}
	}
	return problems, nil
}

// updateStreams lists the files of JetStream as they are now. Those that are all gone stay listed, unless adopt is set.
func (m *manifest) updateStreams(path string, adopt bool) error {
	have, err := streamFiles(path)
	if err != nil {
		return fmt.Errorf("data folder: %w", err)
	}
	if _, gone := os.Lstat(filepath.Join(path, streamsFolder)); len(have) > 0 || adopt || gone == nil &&
		len(m.Streams) == 0 {
		m.Streams = have
	}
	return nil
}
