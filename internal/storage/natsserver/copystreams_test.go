package natsserver

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lazuli-storage/lazuli/internal/test/check"
)

func streamsOf(t *testing.T) (*Server, jetstream.JetStream) {
	t.Helper()
	s := check.Must(Start(Config{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}))(t)
	t.Cleanup(s.Close)
	return s, check.Must(jetstream.New(s.Conn()))(t)
}

func TestCopyStreamsKeepsSequences(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	from, source := streamsOf(t)
	stream := check.Must(source.CreateStream(ctx, jetstream.StreamConfig{Name: "queue_a", Subjects: []string{"a.*"}, Metadata: map[string]string{"k": "v"}}))(t)
	for i := range 1000 {
		m := nats.NewMsg(fmt.Sprint("a.", i%7))
		m.Header.Set("Lazuli-Message", fmt.Sprint("record ", i))
		m.Header.Set(HeaderSynced, "1")
		m.Header.Set("Nats-Expected-Last-Sequence", fmt.Sprint(i))
		m.Data = fmt.Append(nil, "body ", i)
		check.Must(source.PublishMsg(ctx, m))(t)
	}
	check.OK(t, stream.Purge(ctx, jetstream.WithPurgeSequence(101)))
	check.OK(t, stream.DeleteMsg(ctx, 500))
	check.OK(t, stream.DeleteMsg(ctx, 501))
	empty := check.Must(source.CreateStream(ctx, jetstream.StreamConfig{Name: "queue_b", Subjects: []string{"b.*"}}))(t)
	check.Must(source.Publish(ctx, "b.1", nil))(t)
	check.OK(t, empty.Purge(ctx))
	check.Must(source.CreateStream(ctx, jetstream.StreamConfig{Name: "LAZULI_LOG_tables", Subjects: []string{"c"}}))(t)

	to, target := streamsOf(t)
	check.OK(t, to.CopyStreams(ctx, from))
	if _, err := target.Stream(ctx, "LAZULI_LOG_tables"); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("a log was copied: %v", err)
	}
	copied := check.Must(target.Stream(ctx, "queue_a"))(t)
	if s := copied.CachedInfo().State; s.FirstSeq != 101 || s.LastSeq != 1000 || s.Msgs != 900 || copied.CachedInfo().Config.Metadata["k"] != "v" {
		t.Errorf("the copy is %+v", s)
	}
	for seq := uint64(101); seq <= 1000; seq++ {
		want := seq
		if seq == 500 || seq == 501 { // the records are gone: the next one takes their places
			want = 502
		}
		m := check.Must(copied.GetMsg(ctx, seq))(t)
		i := want - 1
		if m.Subject != fmt.Sprint("a.", i%7) || string(m.Data) != fmt.Sprint("body ", i) || m.Header.Get("Lazuli-Message") != fmt.Sprint("record ", i) || len(m.Header) != 1 {
			t.Fatalf("record %d is %q of %s with %v", seq, m.Data, m.Subject, m.Header)
		}
	}
	if s := check.Must(target.Stream(ctx, "queue_b"))(t).CachedInfo().State; s.LastSeq != 1 || s.Msgs != 0 {
		t.Errorf("the copy of the empty stream is %+v", s)
	}
	if err := to.CopyStreams(ctx, from); !errors.Is(err, ErrStreamExists) {
		t.Errorf("a second copy: %v", err)
	}
}
