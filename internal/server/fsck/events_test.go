package fsck

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/egress"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/server/events"
)

// subscriber is a webhook that notes the subjects of events, and refuses them while it is closed.
type subscriber struct {
	*httptest.Server
	mu     sync.Mutex // guards the rest
	open   bool
	bodies []string
}

func newSubscriber(t *testing.T) *subscriber {
	s := &subscriber{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodOptions {
			w.Header().Set("Webhook-Allowed-Origin", "*")
			return
		}
		text, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.open {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		s.bodies = append(s.bodies, string(text))
	}))
	t.Cleanup(s.Close)
	return s
}

// received returns which of the names occur in what was received.
func (s *subscriber) received(names ...string) (list []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := strings.Join(s.bodies, "\n")
	for _, name := range names {
		if strings.Contains(all, name) {
			list = append(list, name)
		}
	}
	return list
}

// A damaged event, and damaged progress of a subscription, are not delivered as something else: the server does not
// start, and fsck finds them. After a repair all events are delivered that are intact.
func TestDamagedEvents(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, text string // what is damaged
		want       string // the names of the blobs whose events arrive after the repair
	}{
		{"an event", "second", "first,third"},
		{"the progress of a subscription", `"pending":[`, "first,second,third"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ctx := t.Context()
			hook := newSubscriber(t)
			config := server.Config{Location: filepath.Join(t.TempDir(), "data"), Events: true,
				Log:        slog.New(slog.DiscardHandler),
				EventHosts: egress.Policy{Hosts: []string{strings.TrimPrefix(hook.URL, "http://")}, Private: true}}
			s, err := server.Start(config)
			if err != nil {
				t.Fatal(err)
			}
			c := connect(t, s)
			if _, err := c.blobs.CreateContainer(ctx, "box", nil); err != nil {
				t.Fatal(err)
			}
			if _, err := s.Events().Add(ctx,
				events.Subscription{Name: "hook", Account: auth.DevelopmentAccount, Endpoint: hook.URL,
					DeliverySchema: events.CloudEvents}); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"first", "second", "third"} {
				if _, err := c.blobs.UploadBuffer(ctx, "box", name, []byte(name), nil); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Stop(context.WithoutCancel(ctx)); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(config.Location, "blobs.db")
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if damaged := bytes.ReplaceAll(text, []byte(tc.text), []byte("\x01"+tc.text[1:])); bytes.Equal(damaged, text) {
				t.Fatalf("the file has no %q", tc.text)
			} else if err := os.WriteFile(path, damaged, 0o600); err != nil {
				t.Fatal(err)
			}
			hook.mu.Lock()
			hook.open = true
			hook.mu.Unlock()
			if s, err := server.Start(config); err == nil {
				t.Error("the server starts")
				_ = s.Stop(context.WithoutCancel(ctx))
			}
			if r, err := Check(ctx, config.Location, Options{}); err != nil || r.Errors == 0 {
				t.Errorf("fsck: %+v, %v", r, err)
			}
			if _, err := Check(ctx, config.Location, Options{Repair: true}); err != nil {
				t.Fatal(err)
			}
			if s, err = server.Start(config); err != nil {
				t.Fatalf("after the repair: %v", err)
			}
			if _, err := s.Events().Flush(ctx); err != nil {
				t.Error(err)
			}
			if got := strings.Join(hook.received("first", "second", "third"), ","); got != tc.want {
				t.Errorf("events of %s are delivered, want %s", got, tc.want)
			}
			if err := s.Stop(context.WithoutCancel(ctx)); err != nil {
				t.Error(err)
			}
		})
	}
}
