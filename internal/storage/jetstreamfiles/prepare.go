package jetstreamfiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/lazuli-storage/lazuli/internal/storage/disk"
)

// Prepare verifies all streams below a folder before the server reads them, and prevents the server from cutting off readable records. It
// returns the damage. For each stream with damage:
//
//   - A torn end is left to the server, which cuts it off. If it is a whole record, a copy is kept.
//   - A meta file that does not match its checksum is moved to keep. The server then does not load the stream; creating the stream again, with
//     the same configuration, restores its records.
//   - A damaged record of known length whose subject is certain (known) gets a new checksum of the server, so that the server delivers it. The
//     publisher's checksum tells readers that it is damaged.
//   - Otherwise the block is copied to keep and written again without the damaged part. The loss is recorded in keep; [Lost] returns it until
//     [Accept] is called.
func Prepare(streamsDir, keep string, known func(DamagedRecord) bool) ([]Damage, error) {
	entries, err := os.ReadDir(streamsDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("jetstreamfiles: %w", err)
	}
	var (
		mu    sync.Mutex // guards all
		all   []Damage
		group errgroup.Group
	)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, e := range entries {
		if !e.IsDir() || strings.HasPrefix(e.Name(), ".") { // the server removes those that begin with a dot
			continue
		}
		group.Go(func() error {
			p := preparer{dir: filepath.Join(streamsDir, e.Name()), keep: keep, known: known}
			err := p.run()
			mu.Lock()
			defer mu.Unlock()
			all = append(all, p.found...)
			return err
		})
	}
	err = group.Wait()
	slices.SortFunc(all, func(a, b Damage) int { return strings.Compare(a.Stream, b.Stream) })
	return all, err
}

// DamagedRecord is a record that does not match the server's checksum.
type DamagedRecord struct {
	Subject string
	// SubjectElsewhere is set if the block contains the subject more than once.
	SubjectElsewhere bool
	record           record
}

// Header returns the value of a header, or nil if the record has no header of that name.
func (r DamagedRecord) Header(name string) []byte { return r.record.header(name) }

// preparer prepares one stream.
type preparer struct {
	dir, keep string
	known     func(DamagedRecord) bool
	found     []Damage
}

func (p *preparer) run() error {
	wrong, err := verifyMeta(p.dir)
	if err != nil {
		return err
	}
	if wrong != "" {
		if err := p.setMetaAside(wrong); err != nil {
			return err
		}
	}
	found, err := Verify(p.dir)
	if errors.Is(err, fs.ErrNotExist) { // there are no blocks: the creation was interrupted
		return nil
	}
	if err != nil {
		return err
	}
	if len(found) == 0 {
		return nil
	}
	for i := 0; i < len(found); {
		j := i + 1
		for j < len(found) && found[j].Block == found[i].Block {
			j++
		}
		if err := p.block(found[i:j]); err != nil {
			return err
		}
		i = j
	}
	p.found = append(p.found, found...)
	// The server's index of the stream describes the old files. Without it, the server reads the blocks.
	if err := os.Remove(filepath.Join(p.dir, messagesFolder, indexFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("jetstreamfiles: %w", err)
	}
	return nil
}

// indexFile is the server's index of a stream, which the server can create again from the blocks.
const indexFile = "index.db"

func (p *preparer) setMetaAside(wrong string) error {
	stream := filepath.Base(p.dir)
	if err := disk.MkdirAll(p.keep, 0o700); err != nil {
		return fmt.Errorf("jetstreamfiles: %w", err)
	}
	d := Damage{Stream: stream, Meta: wrong}
	for _, name := range []string{metaFile, metaSumFile} {
		kept := filepath.Join(p.keep, stream+"."+name)
		switch err := os.Rename(filepath.Join(p.dir, name), kept); {
		case err == nil && name == metaFile:
			d.Kept = kept
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("jetstreamfiles: %w", err)
		}
	}
	p.found = append(p.found, d)
	return SyncFolders(p.keep, filepath.Dir(p.keep))
}

// block handles the damage in one block.
func (p *preparer) block(found []Damage) error {
	path := blockPath(p.dir, found[0].Block)
	buf, err := readBlock(path, nil)
	if err != nil {
		return fmt.Errorf("jetstreamfiles: %w", err)
	}
	var lost []*Damage
	sealed := false
	for i := range found {
		d := &found[i]
		switch {
		case d.Torn && d.Framed && d.Kept == "":
			if d.Kept, err = p.keepCopy(fmt.Sprintf("%s.%d.%d.record", d.Stream, d.Block, d.Offset), buf[d.Offset:d.Offset+d.Size]); err != nil {
				return err
			}
		case d.Torn:
		case d.Framed && p.seal(buf[d.Offset:d.Offset+d.Size], buf, d):
			sealed = true
		default:
			lost = append(lost, d)
		}
	}
	if !sealed && len(lost) == 0 {
		return nil
	}
	if original, err := readBlock(path, nil); err != nil {
		return fmt.Errorf("jetstreamfiles: %w", err)
	} else if kept, err := p.keepCopy(fmt.Sprintf("%s.%d.blk", filepath.Base(p.dir), found[0].Block), original); err != nil {
		return err
	} else {
		for i := range found {
			if !found[i].Torn {
				found[i].Kept = kept
			}
		}
	}
	if len(lost) > 0 {
		if err := p.noteLost(lost); err != nil {
			return err
		}
		buf = without(buf, lost)
	}
	return replaceFile(path, buf)
}

// seal gives a damaged record whose sequence and subject are plausible a checksum that matches.
func (p *preparer) seal(raw, block []byte, d *Damage) bool {
	hash := blockHash(filepath.Base(p.dir), d.Block)
	r, ok := parseRecord(raw, hash)
	if !ok || r.tombstone || r.erased || r.seq != d.First || r.headers == nil || !likeOthers(r.subject, block) ||
		!p.known(DamagedRecord{Subject: string(r.subject), SubjectElsewhere: bytes.Count(block, r.subject) > 1, record: r}) {
		return false
	}
	body := raw[recordHead+len(r.subject)+headerLengthAt : len(raw)-recordSum]
	copy(raw[len(raw)-recordSum:], checksum(hash, raw[4:20], r.subject, body))
	return true
}

// likeOthers reports whether a subject equals that of another record except for its last token.
func likeOthers(subject, block []byte) bool {
	at := bytes.LastIndexByte(subject, '.')
	return at > 0 && bytes.HasPrefix(subject, subjectStart) && bytes.Count(block, subject[:at+1]) > 1
}

// without returns a block without damaged parts.
func without(buf []byte, lost []*Damage) []byte {
	out := make([]byte, 0, len(buf))
	at := int64(0)
	for _, d := range lost {
		out = append(out, buf[at:d.Offset]...)
		at = d.Offset + d.Size
	}
	return append(out, buf[at:]...)
}

// Keep writes data to a new file in keep, and returns the file's path.
func Keep(keep, name string, data []byte) (string, error) {
	p := preparer{keep: keep}
	return p.keepCopy(name, data)
}

// keepCopy writes data to a file in keep, unless a file of that name exists, and returns the file's path.
func (p *preparer) keepCopy(name string, data []byte) (string, error) {
	if err := disk.MkdirAll(p.keep, 0o700); err != nil {
		return "", fmt.Errorf("jetstreamfiles: %w", err)
	}
	path := filepath.Join(p.keep, name)
	for n := 1; ; n++ {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
			break
		}
		path = filepath.Join(p.keep, fmt.Sprintf("%s.%d", name, n))
	}
	if err := replaceFile(path, data); err != nil {
		return "", err
	}
	return path, SyncFolders(p.keep, filepath.Dir(p.keep))
}

// replaceFile writes a new file, syncs it, and renames it to path. The new name is durable when it returns.
func replaceFile(path string, data []byte) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("jetstreamfiles: %w", err)
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err == nil {
		err = syncPath(filepath.Dir(path))
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("jetstreamfiles: %w", err)
	}
	return nil
}

// lostSuffix is the suffix of the files in keep that list a stream's losses: one JSON document per line.
const lostSuffix = ".lost"

// noteLost adds damage to the list of a stream's losses.
func (p *preparer) noteLost(lost []*Damage) error {
	path := filepath.Join(p.keep, filepath.Base(p.dir)+lostSuffix)
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("jetstreamfiles: %w", err)
	}
	for _, d := range lost {
		line, err := json.Marshal(d)
		if err != nil {
			return err
		}
		old = append(append(old, line...), '\n')
	}
	return replaceFile(path, old)
}

// NoteLost records a loss in keep that the files do not show.
func NoteLost(keep string, d Damage) error {
	if err := disk.MkdirAll(keep, 0o700); err != nil {
		return fmt.Errorf("jetstreamfiles: %w", err)
	}
	p := preparer{dir: d.Stream, keep: keep}
	if err := p.noteLost([]*Damage{&d}); err != nil {
		return err
	}
	return SyncFolders(keep, filepath.Dir(keep))
}

// Lost returns the losses of all streams that [Prepare] and [NoteLost] have recorded in keep, by stream.
func Lost(keep string) (map[string][]Damage, error) {
	entries, err := os.ReadDir(keep)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("jetstreamfiles: %w", err)
	}
	all := make(map[string][]Damage)
	for _, e := range entries {
		stream, ok := strings.CutSuffix(e.Name(), lostSuffix)
		if !ok {
			continue
		}
		text, err := os.ReadFile(filepath.Join(keep, e.Name()))
		if err != nil {
			return nil, fmt.Errorf("jetstreamfiles: %w", err)
		}
		for line := range bytes.Lines(text) {
			var d Damage
			if err := json.Unmarshal(line, &d); err != nil {
				d = Damage{Stream: stream} // even if the entry itself is damaged
			}
			all[stream] = append(all[stream], d)
		}
	}
	return all, nil
}

// Accept removes the recorded losses of a stream: an operator has decided to use the stream without the lost records. The copies stay.
func Accept(keep, stream string) error {
	path := filepath.Join(keep, stream+lostSuffix)
	if err := os.Rename(path, path+".accepted"); err != nil {
		return fmt.Errorf("jetstreamfiles: %w", err)
	}
	return syncPath(keep)
}

// Rewrite writes the last two blocks of a stream again, durably, after a sync of them failed: pages that the operating system could not write
// may be missing on the disk although they are in memory, and no later sync would write them. The server must not be running.
func Rewrite(streamDir string) error {
	numbers, err := Blocks(streamDir)
	if err != nil {
		return fmt.Errorf("jetstreamfiles: %w", err)
	}
	for _, n := range numbers[max(0, len(numbers)-2):] {
		buf, err := readBlock(blockPath(streamDir, n), nil)
		if err != nil {
			return fmt.Errorf("jetstreamfiles: %w", err)
		}
		if err := replaceFile(blockPath(streamDir, n), buf); err != nil {
			return err
		}
	}
	return nil
}
