package jetstreamfiles_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/nats/jetstreamfiles"
	"github.com/lazuli-storage/lazuli/internal/nats/natsserver"
)

// What this package knows of nats-server's files is compared with a real server: a version of it that keeps them
// otherwise fails here.

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
		Name: streamName, Subjects: []string{"lazuli.test.*"}, AllowDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	return &server{t, dir, n, js, stream}
}

func (s *server) streamDir() string {
	return filepath.Join(s.dir, "jetstream", "$G", "streams", streamName)
}

// publish publishes a record and returns its sequence.
func (s *server) publish(subject string, body []byte) uint64 {
	s.t.Helper()
	ack, err := s.js.PublishMsg(s.t.Context(),
		&nats.Msg{Subject: subject, Data: body, Header: nats.Header{"Note": {"for " + subject}}})
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

// An acknowledged record is in the stream's blocks, readable by this package, before anything else happens.
func TestAcknowledgedRecordsAreInTheirBlocks(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir())
	for i := range 40 {
		seq := s.publish(fmt.Sprintf("lazuli.test.%d", i%5), body(i, 700<<10))
		s.verify(0)
		if err := s.nats.Settle(streamName); err != nil {
			t.Fatal(err)
		}
		var last uint64
		found, err := jetstreamfiles.Read(s.streamDir(), func(r jetstreamfiles.Record) error {
			n := int(r.Sequence) - 1
			if r.Sequence != last+1 || r.Subject != fmt.Sprintf("lazuli.test.%d", n%5) ||
				!bytes.Equal(r.Payload, body(n, 700<<10)) ||
				!strings.Contains(string(r.Header), "Note: for lazuli.test.") {
				t.Errorf("record %d is %s with %d bytes", r.Sequence, r.Subject, len(r.Payload))
			}
			last = r.Sequence
			return nil
		})
		if err != nil || len(found) > 0 || last != seq {
			t.Fatalf("read up to %d of %d, %v, %v", last, seq, found, err)
		}
	}
	if numbers, _ := jetstreamfiles.Blocks(s.streamDir()); len(numbers) < 3 {
		t.Errorf("the blocks are %v: a server that fills larger blocks than this test expects", numbers)
	}
}

// What a purge leaves can be read: whole blocks are removed, and the first one may keep records that the server has
// removed.
func TestReadAfterPurge(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir())
	var last uint64
	for i := range 60 {
		last = s.publish(fmt.Sprintf("lazuli.test.%d", i%5), body(i, 700<<10))
	}
	before, _ := jetstreamfiles.Blocks(s.streamDir())
	if err := s.stream.Purge(t.Context(), jetstream.WithPurgeSequence(last-15)); err != nil {
		t.Fatal(err)
	}
	s.publish("lazuli.test.more", nil)
	if err := s.nats.Settle(streamName); err != nil {
		t.Fatal(err)
	}
	s.verify(0)
	var first, seen uint64
	if _, err := jetstreamfiles.Read(s.streamDir(), func(r jetstreamfiles.Record) error {
		if first == 0 {
			first = r.Sequence
		}
		seen = r.Sequence
		return nil
	}); err != nil || first > last-15 || seen != last+1 {
		t.Errorf("read %d to %d, %v; want from %d at the latest, to %d", first, seen, err, last-15, last+1)
	}
	if after, _ := jetstreamfiles.Blocks(s.streamDir()); len(after) >= len(before) {
		t.Errorf("the blocks are %v after the purge, and %v before", after, before)
	}
}

// damage changes a file at an offset from the begin of a text in it.
func damage(t *testing.T, path string, text []byte, at int) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	i := bytes.Index(data, text)
	if i < 0 {
		t.Fatalf("%q is not in %s", text, path)
	}
	data[i+at] ^= 0x10
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// filled is the folder of a stopped server with records 1 to n.
func filled(t *testing.T, n int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	s := startServer(t, dir)
	for i := 1; i <= n; i++ {
		s.publish(fmt.Sprintf("lazuli.test.%d", i), body(i, 200))
	}
	s.nats.Close()
	return dir
}

// sequences returns the records of a stream up to the first damage.
func sequences(t *testing.T, dir string) (list []uint64) {
	t.Helper()
	if _, err := jetstreamfiles.Read(dir,
		func(r jetstreamfiles.Record) error { list = append(list, r.Sequence); return nil }); err != nil {
		t.Fatal(err)
	}
	return list
}

func sequence(from, to int) (list []uint64) {
	for i := from; i <= to; i++ {
		list = append(list, uint64(i))
	}
	return list
}

// The server itself would cut a block off at the first record that it cannot read, whatever follows. What a crash
// cannot have left stops the start.
func TestDamageAtStart(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, text string
		at         int // which byte of the block is changed, from the beginning of text
		relaxed    bool
		want       []uint64 // the records that can be read before the start
		refused    bool
	}{
		{"body in the middle", "lazuli.test.30", 150, false, sequence(1, 29), true},
		{"subject in the middle", "lazuli.test.30", 13, false, sequence(1, 29), true},
		{"length in the middle", "lazuli.test.30", -22, false, sequence(1, 29), true},
		{"last record", "lazuli.test.60", 150, false, sequence(1, 59), false},
		{"records that were not synced", "lazuli.test.30", -22, true, sequence(1, 29), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := filled(t, 60)
			stream := filepath.Join(dir, "jetstream", "$G", "streams", streamName)
			damage(t, filepath.Join(stream, "msgs", "1.blk"), []byte(c.text), c.at)
			if got := sequences(t, stream); !slices.Equal(got, c.want) {
				t.Errorf("read %v, want %v", got, c.want)
			}
			before := sequences(t, stream)
			n, err := natsserver.Start(natsserver.Config{Dir: dir, Relaxed: c.relaxed, Log: slog.New(slog.DiscardHandler)})
			if err == nil {
				n.Close()
			}
			if errors.Is(err, natsserver.ErrDamaged) != c.refused || err != nil && !c.refused {
				t.Fatalf("started with %v; refused is wanted: %v", err, c.refused)
			}
			if c.refused && (!strings.Contains(err.Error(), "1.blk") && !strings.Contains(err.Error(), "block 1 ") ||
				!strings.Contains(err.Error(), "records 30 to 30")) {
				t.Errorf("the error does not say what is lost: %v", err)
			}
			if got := sequences(t, stream); !slices.Equal(got, before) {
				t.Errorf("after the start %v can be read, and %v before", got, before)
			}
			if c.relaxed {
				if kept, err := filepath.Glob(filepath.Join(stream, "cut-*", "1.blk")); err != nil || len(kept) != 1 {
					t.Errorf("the block that was cut is kept in %v, %v", kept, err)
				}
			}
		})
	}
}

// Without a meta file that matches its checksum, the server would leave the stream out.
func TestDamagedMetaFile(t *testing.T) {
	t.Parallel()
	dir := filled(t, 20)
	stream := filepath.Join(dir, "jetstream", "$G", "streams", streamName)
	damage(t, filepath.Join(stream, "meta.inf"), []byte("lazuli.test.*"), 3)
	if _, err := natsserver.Start(natsserver.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)}); !errors.Is(err,
		natsserver.ErrDamaged) {
		t.Errorf("started with %v", err)
	}
	if got := sequences(t, stream); !slices.Equal(got, sequence(1, 20)) {
		t.Errorf("read %v, want 1 to 20", got)
	}
}
