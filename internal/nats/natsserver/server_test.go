package natsserver

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
)

// start starts a server that the test's end stops.
func start(t *testing.T, c Config) *Server {
	t.Helper()
	s, err := Start(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func makeStream(t *testing.T, s *Server, storage jetstream.StorageType) jetstream.JetStream {
	t.Helper()
	return makeNamed(t, s, storage, "s")
}

func makeNamed(t *testing.T, s *Server, storage jetstream.StorageType, name string) jetstream.JetStream {
	t.Helper()
	js, err := jetstream.New(s.Conn())
	if err != nil {
		t.Fatal(err)
	}
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{name + ".*"},
		Storage: storage, MaxMsgsPerSubject: 1})
	if err != nil {
		t.Fatal(err)
	}
	return js
}

func TestEmbeddedKeepsItsStateOverRestarts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "nats")
	s, err := Start(Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	js := makeStream(t, s, jetstream.FileStorage)
	if _, err := js.Publish(t.Context(), "s.a", []byte("kept")); err != nil {
		t.Fatal(err)
	}
	if s.Shared() || s.InMemory() || s.ClientURL() != "" || s.Healthy() != nil {
		t.Errorf("shared %v, in memory %v, URL %q, healthy %v", s.Shared(), s.InMemory(), s.ClientURL(), s.Healthy())
	}
	s.Close()
	s.Close()

	s = start(t, Config{Dir: dir})
	js, _ = jetstream.New(s.Conn())
	stream, err := js.Stream(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if m, err := stream.GetLastMsgForSubject(t.Context(), "s.a"); err != nil || string(m.Data) != "kept" {
		t.Errorf("got %v, %v after a restart, want the message", m, err)
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("folder: %v, %v: want mode 0700", info.Mode(), err)
	}
}

func TestInMemoryLeavesNothing(t *testing.T) {
	s := start(t, Config{})
	if !s.InMemory() {
		t.Error("not in memory")
	}
	js := makeStream(t, s, jetstream.MemoryStorage)
	if _, err := js.Publish(t.Context(), "s.a", nil); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := os.Stat(s.scratch); !os.IsNotExist(err) {
		t.Errorf("scratch folder after Close: %v", err)
	}
}

// What Store stores and what clients publish is one sequence of messages, also after a restart, and after the stream
// was deleted and created again.
func TestStore(t *testing.T) {
	for _, c := range []Config{{Dir: filepath.Join(t.TempDir(), "nats")}, {}} {
		s := start(t, c)
		storage := jetstream.FileStorage
		if s.InMemory() {
			storage = jetstream.MemoryStorage
		}
		// When the last stream goes, nats-server removes their folder a moment later, and that of a stream which is created
		// in that moment may be in it.
		makeNamed(t, s, storage, "other")
		if _, err := s.Store("s", "s.a", nil, nil); err == nil {
			t.Error("stored in a stream that does not exist")
		}
		for range 2 {
			js := makeStream(t, s, storage)
			var last uint64
			for i := range uint64(6) {
				var err error
				if i%3 == 2 {
					var ack *jetstream.PubAck
					if ack, err = js.Publish(t.Context(), fmt.Sprint("s.", i), []byte{byte(i)}); err == nil {
						last = ack.Sequence
					}
				} else {
					last, err = s.Store("s", fmt.Sprint("s.", i), []byte("NATS/1.0\r\nK: v\r\n\r\n"), []byte{byte(i)})
				}
				if err != nil || last != i+1 {
					t.Fatalf("message %d: sequence %d, %v", i, last, err)
				}
			}
			stream, err := js.Stream(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			m, err := stream.GetMsg(t.Context(), 5)
			if err != nil || len(m.Data) != 1 || m.Data[0] != 4 || m.Header.Get("K") != "v" {
				t.Errorf("message 5: %+v, %v", m, err)
			}
			if err := js.DeleteStream(t.Context(), "s"); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Store("s", "s.a", nil, nil); err == nil {
				t.Error("stored in a stream that was deleted")
			}
		}
		s.Close()
		if _, err := s.Store("s", "s.a", nil, nil); err == nil {
			t.Error("stored in a server that was closed")
		}
	}
}

func TestListenOpensAPortForOthers(t *testing.T) {
	s := start(t, Config{Listen: "127.0.0.1:0"})
	if !s.Shared() || s.ClientURL() == "" {
		t.Fatalf("shared %v, URL %q", s.Shared(), s.ClientURL())
	}
	other := start(t, Config{URL: s.ClientURL()})
	if !other.Shared() || other.InMemory() {
		t.Errorf("shared %v, in memory %v", other.Shared(), other.InMemory())
	}
	if _, err := other.Conn().Request("$JS.API.INFO", nil, time.Minute); err != nil {
		t.Error(err)
	}
	// A taken port is an error, and does not end the process.
	address := s.ClientURL()[len("nats://"):]
	if _, err := Start(Config{Listen: address}); err == nil {
		t.Error("started on a taken port")
	}
}

func TestConfigErrors(t *testing.T) {
	for name, c := range map[string]Config{
		"replicas out of range":      {URL: "nats://127.0.0.1:1", Replicas: 6},
		"replicas without a cluster": {Replicas: 3},
		"certificate without key":    {URL: "nats://127.0.0.1:1", CertFile: "x"},
		"credentials when embedded":  {Credentials: "x"},
		"folder with URL":            {URL: "nats://127.0.0.1:1", Dir: "x"},
		"bad address":                {Listen: "nonsense"},
		"bad port":                   {Listen: "127.0.0.1:x"},
		"nobody there":               {URL: "nats://127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			if s, err := Start(c); err == nil {
				s.Close()
				t.Error("started")
			}
		})
	}
}

// TestPeerID compares the computed ID of a server with the one that a real server has.
func TestPeerID(t *testing.T) {
	t.Parallel()
	s := start(t, Config{})
	if got, want := PeerID("lazuli"), s.embedded.Node(); got != want {
		t.Errorf("got %q, the server has %q", got, want)
	}
}

// A start that fails says at once why.
func TestStartThatFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, server.JetStreamStoreDir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Server{config: Config{Log: slog.New(slog.DiscardHandler)}}
	began := time.Now()
	if err := s.StartIn(dir); err == nil || !strings.Contains(err.Error(), "did not start") {
		t.Errorf("%v after %v, want that it did not start", err, time.Since(began))
	}
}
