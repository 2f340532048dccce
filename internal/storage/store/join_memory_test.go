package store

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/storage/replog"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// A node that joins applies a snapshot in transactions of bounded size: its memory does not grow with the snapshot. The
// test does not run beside others, whose memory would count.
func TestMemoryOfARestoredSnapshot(t *testing.T) {
	const snapshot, limit = 96 << 20, 40 << 20
	frames := &generatedFrames{left: snapshot}
	o := Options{Buckets: []Bucket{"b"}, Log: new(replog.Log)}
	before := liveHeap()
	frames.sample = func() { frames.most = max(frames.most, liveHeap()) }
	check.OK(t, restore(filepath.Join(t.TempDir(), "tables.db"), o, replog.Position{}, bufio.NewReader(frames)))
	if frames.samples < 20 {
		t.Errorf("%d samples show nothing", frames.samples)
	}
	if grown := int64(frames.most) - int64(before); grown > limit {
		t.Errorf("a snapshot of %d MiB needs %d MiB of memory, want at most %d", snapshot>>20, grown>>20, limit>>20)
	}
}

// liveHeap returns the bytes of the heap that are in use.
func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// generatedFrames is a snapshot in the form of writeFrames, which is made while it is read.
type generatedFrames struct {
	left    int
	next    int
	unread  []byte
	made    int
	sample  func() // called for every 4 MiB
	samples int
	most    uint64
}

func (g *generatedFrames) Read(p []byte) (int, error) {
	if len(g.unread) == 0 {
		if g.left <= 0 {
			return 0, io.EOF
		}
		g.frame()
	}
	n := copy(p, g.unread)
	g.unread = g.unread[n:]
	return n, nil
}

// frame makes the next frame.
func (g *generatedFrames) frame() {
	s := &WriteSet{}
	for s.bytes < frameSize {
		key := fmt.Appendf(nil, "%012d", g.next)
		s.put("b", key, make([]byte, 4000))
		g.next++
	}
	payload := s.appendPayload(nil)
	g.unread = append(binary.AppendUvarint(nil, uint64(len(payload))), payload...)
	g.left -= len(payload)
	if g.made += len(payload); g.made >= 4<<20 {
		g.made = 0
		g.samples++
		g.sample()
	}
}
