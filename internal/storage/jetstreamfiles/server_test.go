package jetstreamfiles_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/storage/jetstreamfiles"
	"github.com/lazuli-storage/lazuli/internal/storage/natsserver"
)

// What this package knows of nats-server's files is compared with a real server: a version of it that keeps them otherwise fails here.

const streamName = "queue_test"

// server is an embedded server with one stream.
type server struct {
	t      *testing.T
	dir    string
	nats   *natsserver.Server
	js     jetstream.JetStream
	stream jetstream.Stream
}

func startServer(t *testing.T, dir string) *server {
	t.Helper()
	n, err := natsserver.Start(natsserver.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	js, err := jetstream.New(n.Conn())
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{
		Name: streamName, Subjects: []string{"lazuli.test.*"}, MaxMsgsPerSubject: -1, AllowDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	return &server{t, dir, n, js, stream}
}

func (s *server) streamDir() string {
	return filepath.Join(s.dir, "jetstream", "$G", "streams", streamName)
}

// publish publishes a record and returns its sequence.
func (s *server) publish(subject string, synced uint64, body []byte) uint64 {
	s.t.Helper()
	m := &nats.Msg{Subject: subject, Data: body, Header: nats.Header{
		jetstreamfiles.HeaderSynced: {strconv.FormatUint(synced, 10)}, natsserver.HeaderRecord: {"r"},
		natsserver.HeaderSum: {natsserver.Sum(subject[strings.LastIndexByte(subject, '.')+1:], "r")}}}
	ack, err := s.js.PublishMsg(s.t.Context(), m)
	if err != nil {
		s.t.Fatal(err)
	}
	return ack.Sequence
}

func body(i, size int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("%06d.", i)), size/7+1)[:size] }

func (s *server) verify(want int) []jetstreamfiles.Damage {
	s.t.Helper()
	found, err := jetstreamfiles.Verify(s.streamDir())
	if err != nil {
		s.t.Fatal(err)
	}
	if len(found) != want {
		s.t.Fatalf("found %v, want %d damages", found, want)
	}
	return found
}

// An acknowledged record is in the stream's last block, readable by this package, before anything else happens.
func TestAcknowledgedRecordsAreInTheirBlocks(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir())
	for i := range 40 {
		seq := s.publish(fmt.Sprintf("lazuli.test.%d", i%5), 0, body(i, 700<<10))
		s.verify(0)
		if err := s.nats.Sync(streamName); err != nil {
			t.Fatal(err)
		}
		firsts, err := jetstreamfiles.FirstSequences(s.streamDir())
		if err != nil || len(firsts) == 0 || firsts[0] != 1 || !slices.IsSorted(firsts) || firsts[len(firsts)-1] > seq {
			t.Fatalf("after record %d the blocks begin with %v, %v", seq, firsts, err)
		}
	}
	if firsts, _ := jetstreamfiles.FirstSequences(s.streamDir()); len(firsts) < 3 {
		t.Errorf("the blocks begin with %v: a server that fills larger blocks than this test expects", firsts)
	}
}

// files returns the names, sizes and identities of a stream's blocks.
func (s *server) files() map[string]os.FileInfo {
	s.t.Helper()
	paths, err := filepath.Glob(filepath.Join(s.streamDir(), "msgs", "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	all := make(map[string]os.FileInfo)
	for _, path := range paths {
		if filepath.Ext(path) != ".blk" {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			s.t.Fatal(err)
		}
		all[filepath.Base(path)] = info
	}
	return all
}

// A purge up to a cut point removes whole blocks and changes no other.
func TestACutLeavesTheOtherBlocksAlone(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir())
	var last uint64
	for i := range 60 {
		last = s.publish(fmt.Sprintf("lazuli.test.%d", i%5), 0, body(i, 700<<10))
	}
	before := s.files()
	if cut, err := s.nats.CutPoint(streamName, 1); cut != 0 || err != nil {
		t.Errorf("the cut point below the first record is %d, %v", cut, err)
	}
	cut, err := s.nats.CutPoint(streamName, last-15)
	if err != nil || cut <= 1 || cut > last-15 {
		t.Fatalf("the cut point is %d, %v", cut, err)
	}
	if err := s.stream.Purge(t.Context(), jetstream.WithPurgeSequence(cut)); err != nil {
		t.Fatal(err)
	}
	info, err := s.stream.Info(t.Context())
	if err != nil || info.State.FirstSeq != cut || info.State.LastSeq != last {
		t.Fatalf("after a cut at %d: %+v, %v", cut, info, err)
	}
	after := s.files()
	if len(after) == 0 || len(after) >= len(before) {
		t.Errorf("%d blocks became %d", len(before), len(after))
	}
	for name, info := range after {
		if old := before[name]; old == nil || !os.SameFile(old, info) || old.Size() != info.Size() || !old.ModTime().Equal(info.ModTime()) {
			t.Errorf("block %s was changed by the cut", name)
		}
	}
	if err := s.nats.Sync(streamName); err != nil {
		t.Errorf("after a cut: %v", err)
	}
	s.verify(0)
}

// damage changes a file at an offset from the begin of a text in it.
func damage(t *testing.T, path string, text []byte, at int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	i := bytes.Index(data, text)
	if i < 0 || bytes.Contains(data[i+1:], text) {
		t.Fatalf("%q is not in %s, or more than once", text, path)
	}
	data[i+at] ^= 0x10
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// filled is the folder of a stopped server with records 1 to n, each of which says that those before it were synced.
func filled(t *testing.T, n int, proof bool) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s := startServer(t, dir)
	for i := 1; i <= n; i++ {
		synced := uint64(0)
		if proof {
			synced = uint64(i - 1)
		}
		s.publish(fmt.Sprintf("lazuli.test.%d", i), synced, body(i, 200))
	}
	s.nats.Close()
	return dir
}

// records returns the sequences of the records that the server delivers.
func (s *server) records() (list []uint64) {
	s.t.Helper()
	info, err := s.stream.Info(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
		if m, err := s.stream.GetMsg(context.Background(), seq); err == nil {
			list = append(list, m.Sequence)
		}
	}
	return list
}

func sequence(from, to int, without ...int) (list []uint64) {
	for i := from; i <= to; i++ {
		if !slices.Contains(without, i) {
			list = append(list, uint64(i))
		}
	}
	return list
}

// The server itself cuts a block off at the first record that it cannot read. What a start makes of damage is decided before.
func TestDamageAtStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		proof bool
		// text and at say which byte of the block is changed.
		text       string
		at         int
		want       []uint64 // the records that are delivered
		torn, lost bool
	}{
		{"body in the middle", true, "lazuli.test.30", 150, sequence(1, 60), false, false},      // delivered, for its publisher to see
		{"subject in the middle", true, "lazuli.test.30", 13, sequence(1, 60, 30), false, true}, // of what slot it was is not known
		{"length in the middle", true, "lazuli.test.30", -22, sequence(1, 60, 30), false, true},
		{"last record", true, "lazuli.test.60", 150, sequence(1, 59), true, false},
		{"length in the middle, nothing was synced", false, "lazuli.test.30", -22, sequence(1, 29), true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filled(t, 60, c.proof)
			damage(t, filepath.Join(dir, "jetstream", "$G", "streams", streamName, "msgs", "1.blk"), []byte(c.text), c.at)
			s := startServer(t, dir)
			found := s.nats.Damaged()
			if len(found) != 1 || found[0].Torn != c.torn {
				t.Fatalf("found %v", found)
			}
			if lost := s.nats.Lost(streamName); len(lost) > 0 != c.lost {
				t.Errorf("losses %v, want %v", lost, c.lost)
			}
			if c.lost && (found[0].First != 30 || found[0].Last != 30 || found[0].Kept == "") {
				t.Errorf("lost records %d to %d, copy %q; want 30", found[0].First, found[0].Last, found[0].Kept)
			}
			if got := s.records(); !slices.Equal(got, c.want) {
				t.Errorf("delivered %v, want %v", got, c.want)
			}
			s.publish("lazuli.test.more", 0, nil)
			s.nats.Close()
			again := startServer(t, dir)
			if found := again.nats.Damaged(); len(found) > 0 {
				t.Errorf("after one more start: %v", found)
			}
			if lost := again.nats.Lost(streamName); len(lost) > 0 != c.lost {
				t.Errorf("losses after one more start: %v, want %v", lost, c.lost)
			}
			if err := again.nats.Accept(streamName); err != nil || len(again.nats.Lost(streamName)) > 0 {
				t.Errorf("after accepting: %v, %v", again.nats.Lost(streamName), err)
			}
		})
	}
}

// A meta file that does not match its checksum makes the server leave the stream out. Making the stream anew brings its records back.
func TestDamagedMetaFile(t *testing.T) {
	t.Parallel()
	dir := filled(t, 20, true)
	damage(t, filepath.Join(dir, "jetstream", "$G", "streams", streamName, "meta.inf"), []byte("lazuli.test.*"), 3)
	s := startServer(t, dir)
	if found := s.nats.Damaged(); len(found) != 1 || found[0].Meta == "" || found[0].Kept == "" {
		t.Fatalf("found %v", found)
	}
	if got := s.records(); !slices.Equal(got, sequence(1, 20)) {
		t.Errorf("delivered %v, want 1 to 20", got)
	}
}
