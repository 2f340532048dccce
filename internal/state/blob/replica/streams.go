package replica

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/internal/cluster/contentstream"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
	"github.com/lazuli-storage/lazuli/internal/storage/extent"
	"github.com/lazuli-storage/lazuli/internal/storage/secretfile"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// Servers on an external NATS have no role of their own: they come and go, and lose their folders. A folder of extents
// has a name, which is lost with it, and the name has a number, which begins the ids of the extents that the server
// writes. Each process that opens the folder begins a session of the number, and only the process with the newest
// session may write its extents.
//
//	node:<name>         number in 8 bytes
//	session:<number>    newest session in 8 bytes
//	retired:<number>    1: no session may follow
//
// When no process has answered for a number for absentAfter, another server retires it. A newer session and the
// retirement are fences: from then on every change by the earlier process fails (checkOwner), also if it was only
// paused. So the extents of a retired number get no further references but from the metadata itself, and those without
// references are deleted. A process that has met a fence opens its state again, and takes another number if its own is
// retired or in use.

// Streams configures content in streams of an external NATS.
type Streams struct {
	contentstream.Config
	// AbsentAfter is the time that no process must have answered for a number before it is retired; 0 means ten minutes.
	AbsentAfter time.Duration
	// Every is the interval of looking for streams to delete; 0 means one minute.
	Every time.Duration
}

// folderFile has the name of a folder of extents.
const folderFile = "folder"

// retiredPrefix begins the keys of retired numbers in the meta bucket; the number in 8 bytes follows.
var retiredPrefix = []byte("retired:")

// sessionPrefix begins the keys of sessions in the meta bucket; the number in 8 bytes follows.
var sessionPrefix = []byte("session:")

func retiredKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64(bytes.Clone(retiredPrefix), number)
}

func sessionKey(number uint64) []byte {
	return binary.BigEndian.AppendUint64(bytes.Clone(sessionPrefix), number)
}

// errRetired means that this process may not change anything any more until it has opened its state again.
var errRetired = fmt.Errorf("%w: other servers have not heard of this one for some time, or another process uses a "+
	"copy of its folder", store.ErrUnavailable)

// owner is the number of this process as the owner of extents.
type owner struct {
	number  atomic.Uint64 // 0 before it is known
	session atomic.Uint64 // set before number
	retired atomic.Bool
}

// checkOwner is the Guard of the database.
func (s *Node) checkOwner(tx *store.Tx) error {
	// Before the number is known this process has no extents that a fence could protect, and its first writes draw the
	// number and the session.
	n := s.owner.number.Load()
	if n == 0 {
		return nil
	}
	if session, err := readSession(tx, n); err != nil || session != s.owner.session.Load() {
		// This also sets the state that Replication reports; a process with a fence against it opens its state again.
		s.owner.retired.Store(true)
		return cmp.Or(err, errRetired)
	}
	return nil
}

// readSession returns the newest session of a number, 0 if there was none. Errors: errRetired.
func readSession(tx *store.Tx, number uint64) (session uint64, err error) {
	if tx.Get(record.MetaBucket, retiredKey(number)) != nil {
		return 0, errRetired
	}
	v := tx.Get(record.MetaBucket, sessionKey(number))
	if v != nil && len(v) != 8 {
		return 0, fmt.Errorf("blob state: the session of number %d has %d bytes", number, len(v))
	}
	if v != nil {
		session = binary.BigEndian.Uint64(v)
	}
	return session, nil
}

// beginSession begins a session of a number, which ends that of any other process.
func (s *Node) beginSession(number uint64) error {
	var session uint64
	err := s.DB.Update(func(tx *store.Tx) (err error) {
		if session, err = readSession(tx, number); err != nil {
			return err
		}
		session++
		tx.Put(record.MetaBucket, sessionKey(number), binary.BigEndian.AppendUint64(nil, session))
		return nil
	})
	// The number is set last. checkOwner compares as soon as it knows a number, and would else take the old session of
	// this process for a fence.
	s.owner.session.Store(session)
	if err == nil {
		s.owner.number.Store(number)
	}
	return err
}

// followOwner notes a change of the meta bucket that ends the session of this process.
func (s *Node) followOwner(w store.Write) {
	// This tells the process early that it has met a fence. checkOwner alone decides about writes. The own record of a
	// session comes by here as well, so only a later one counts.
	own := s.owner.number.Load()
	if number, ok := bytes.CutPrefix(w.Key, retiredPrefix); ok && len(number) == 8 &&
		binary.BigEndian.Uint64(number) == own {
		s.owner.retired.Store(true)
	}
	if number, ok := bytes.CutPrefix(w.Key, sessionPrefix); ok && len(number) == 8 &&
		binary.BigEndian.Uint64(number) == own &&
		len(w.Value) == 8 && binary.BigEndian.Uint64(w.Value) > s.owner.session.Load() {
		s.owner.retired.Store(true)
	}
}

// openStreams gives this server a number, and its extents the streams.
func (s *Node) openStreams(extents string) error {
	c := s.cluster.Streams
	number, err := s.numberFolder(filepath.Join(extents, folderFile))
	if err != nil {
		return err
	}
	// The session precedes the streams: each stream has the session in its configuration, and one of an earlier session
	// may not be written to any more.
	if err := s.beginSession(number); err != nil {
		return err
	}
	config := c.Config
	config.Extents = s.Extents
	config.Owner = number
	config.Session = s.owner.session.Load()
	streams, err := contentstream.Open(config)
	if err != nil {
		return err
	}
	t := &tended{Streams: streams, store: s, absent: map[uint64]time.Time{},
		absentAfter: cmp.Or(c.AbsentAfter, 10*time.Minute)}
	t.life, t.end = context.WithCancel(context.Background())
	t.done.Go(func() { t.run(cmp.Or(c.Every, time.Minute)) })
	s.mirror = t
	return nil
}

// numberFolder returns the number of the folder, which gets a name and a number when it is first opened, and others if
// it is a copy of a folder that is in use.
func (s *Node) numberFolder(path string) (number uint64, err error) {
	name, err := secretfile.Read(path, maxFolderName)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, fmt.Errorf("blob state: %w", err)
	}
	for {
		if len(name) == 0 {
			host, _ := os.Hostname()
			name = newFolderName(host)
			// The name is on disk before it has a number. After a crash in between the next start finds the name and numbers
			// it; in the other order each crash would leave a number that no folder has.
			if err := secretfile.Write(path, name); err != nil {
				return 0, fmt.Errorf("blob state: %w", err)
			}
		}
		s.cluster.Node = string(name)
		if number, err = s.numberNode(); err != nil {
			return 0, err
		}
		// without an answer, it was cut off
		used, _ := contentstream.Alive(context.Background(), s.cluster.Streams.Conn, number)
		if !used {
			return number, nil
		}
		// A process answers for the number, so the folder is a copy of that process's folder: it needs a name of its own.
		name = nil
	}
}

// maxFolderName is the length of the longest name of a folder, in bytes.
const maxFolderName = 256

// newFolderName returns a name that begins with that of the machine, for people.
func newFolderName(host string) []byte {
	host, _, _ = strings.Cut(host, ".")
	if len(host) > 63 || !utf8.ValidString(host) {
		host = ""
	}
	return []byte(cmp.Or(host, "server") + "." + uuid.NewString())
}

// tended are the streams with the goroutine that looks after them.
type tended struct {
	*contentstream.Streams
	store       *Node
	life        context.Context
	end         context.CancelFunc
	done        sync.WaitGroup
	absentAfter time.Duration
	absent      map[uint64]time.Time // since when no process has answered for a number
}

// Behind implements copies: content is fetched on demand alone.
func (t *tended) Behind() (missing int64, known bool) { return 0, true }

// Close implements copies.
func (t *tended) Close() {
	t.end()
	t.Streams.Close()
	t.done.Wait()
}

func (t *tended) run(every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	var problem string
	for {
		select {
		case <-t.life.Done():
			return
		case <-tick.C:
		}
		err := t.tend(t.life)
		if text := fmt.Sprint(err); err != nil && text != problem && t.life.Err() == nil {
			t.store.cluster.Streams.Log.Warn("cannot delete the content of blobs that are gone; trying again", "err", err)
			problem = text
		}
	}
}

// tend retires the numbers of servers that are gone, and deletes streams.
func (t *tended) tend(ctx context.Context) error {
	// The retirements come first: Collect reads references from a state that has them, and no process that they fence
	// can add one after that. See the proof in docs/design/cluster-content.md.
	retired, err := t.retire(ctx)
	if err != nil {
		return err
	}
	_, err = t.Collect(ctx, t.store.References, func(owner uint64) bool { return retired[owner] })
	return err
}

// retire retires the numbers for which no process has answered, and returns all retired ones.
func (t *tended) retire(ctx context.Context) (retired map[uint64]bool, err error) {
	retired, others, err := t.store.numbers()
	if err != nil {
		return nil, err
	}
	for _, n := range others {
		alive, err := t.Alive(ctx, n)
		// An error means that it is not known whether the process is there. The time of absence begins again after it, so
		// that a cut connection of this server retires no other.
		if alive || err != nil {
			delete(t.absent, n)
			continue
		}
		if _, known := t.absent[n]; !known {
			t.absent[n] = time.Now()
		}
		// The pause is not what makes the deletion safe, which the fence does. It spares a server that restarts a new
		// number.
		if time.Since(t.absent[n]) < t.absentAfter {
			continue
		}
		if err := t.store.DB.Update(func(tx *store.Tx) error {
			tx.Put(record.MetaBucket, retiredKey(n), []byte{1})
			return nil
		}); err != nil {
			return nil, err
		}
		delete(t.absent, n)
		retired[n] = true
		t.store.cluster.Streams.Log.Info(
			"a server has not answered for some time; its content without references is deleted from now on", "number", n)
	}
	return retired, nil
}

// numbers returns the retired numbers, and those of the other servers.
func (s *Node) numbers() (retired map[uint64]bool, others []uint64, err error) {
	retired = map[uint64]bool{}
	err = s.DB.View(func(tx *store.Tx) error {
		c := tx.Cursor(record.MetaBucket)
		for k, _ := c.Seek(retiredPrefix); bytes.HasPrefix(k, retiredPrefix); k, _ = c.Next() {
			if n := k[len(retiredPrefix):]; len(n) == 8 {
				retired[binary.BigEndian.Uint64(n)] = true
			}
		}
		for k, v := c.Seek(nodePrefix); bytes.HasPrefix(k, nodePrefix); k, v = c.Next() {
			if len(v) != 8 {
				continue
			}
			// A number above MaxOwner is in the id of no extent.
			if n := binary.BigEndian.Uint64(v); n != s.owner.number.Load() && !retired[n] && n <= extent.MaxOwner {
				others = append(others, n)
			}
		}
		return nil
	})
	return retired, others, err
}
