package auth_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
)

// keyServer answers with a key set of one Ed25519 key, "known".
type keyServer struct {
	*httptest.Server
	fetches atomic.Int64
	begun   chan struct{} // receives one for each request
	hold    atomic.Pointer[chan struct{}]
	fails   atomic.Bool
}

func newKeyServer(t *testing.T) (*keyServer, *auth.RemoteKeys) {
	t.Helper()
	s := &keyServer{begun: make(chan struct{}, 100)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.fetches.Add(1)
		s.begun <- struct{}{}
		if hold := s.hold.Load(); hold != nil {
			<-*hold
		}
		if s.fails.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = io.WriteString(w, `{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"known","use":"sig","x":"`+
			strings.Repeat("A", 43)+`"}]}`)
	}))
	t.Cleanup(s.Close)
	keys, err := auth.NewRemoteKeys("", s.URL)
	check(t, err)
	return s, keys
}

// A client that leaves while keys are fetched ends no fetch, and keeps no other client out.
func TestKeysAreFetchedApartFromRequests(t *testing.T) {
	t.Parallel()
	s, keys := newKeyServer(t)
	hold := make(chan struct{})
	s.hold.Store(&hold)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-s.begun
		cancel()
	}()
	if _, err := keys.Key(ctx, "anything", now); !errors.Is(err, context.Canceled) {
		t.Errorf("the client that left: %v", err)
	}
	close(hold)
	if _, err := keys.Key(t.Context(), "known", now); err != nil {
		t.Errorf("the next client: %v", err)
	}
	if n := s.fetches.Load(); n != 1 {
		t.Errorf("%d fetches, want 1", n)
	}
}

// Known keys are returned while others are fetched.
func TestKnownKeysDoNotWait(t *testing.T) {
	t.Parallel()
	s, keys := newKeyServer(t)
	_, err := keys.Key(t.Context(), "known", now)
	check(t, err)
	<-s.begun
	hold := make(chan struct{})
	s.hold.Store(&hold)
	later := now.Add(time.Minute)
	waited := make(chan error, 1)
	go func() {
		_, err := keys.Key(context.Background(), "new", later)
		waited <- err
	}()
	<-s.begun
	if _, err := keys.Key(t.Context(), "known", later); err != nil {
		t.Error(err)
	}
	select {
	case err := <-waited:
		t.Errorf("the known key had to wait for the unknown one, which ended with %v", err)
	default:
	}
	close(hold)
	if err := <-waited; !errors.Is(err, auth.ErrUnknownKey) {
		t.Errorf("the unknown key: %v", err)
	}
}

// Old keys stay good while the issuer cannot be reached.
func TestOldKeysStayGood(t *testing.T) {
	t.Parallel()
	s, keys := newKeyServer(t)
	_, err := keys.Key(t.Context(), "known", now)
	check(t, err)
	<-s.begun
	s.fails.Store(true)
	if _, err := keys.Key(t.Context(), "known", now.Add(48*time.Hour)); err != nil {
		t.Error(err)
	}
	// asked for again, in the background
	<-s.begun
	// waits for that
	if _, err := keys.Key(t.Context(), "unknown", now.Add(48*time.Hour)); !errors.Is(err, auth.ErrUnknownKey) {
		t.Error(err)
	}
	if _, err := keys.Key(t.Context(), "known", now.Add(48*time.Hour)); err != nil {
		t.Errorf("after the issuer could not be reached: %v", err)
	}
}

// What an issuer answers is read up to a limit, and an answer that leads elsewhere is not followed.
func TestIssuersAnswersAreBounded(t *testing.T) {
	t.Parallel()
	var sent, followed atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/endless", func(w http.ResponseWriter, r *http.Request) {
		chunk := []byte(strings.Repeat(" ", 64<<10))
		for r.Context().Err() == nil {
			n, err := w.Write(chunk)
			if sent.Add(int64(n)); err != nil {
				return
			}
		}
	})
	mux.Handle("/moved", http.RedirectHandler("/elsewhere", http.StatusFound))
	mux.HandleFunc("/elsewhere", func(w http.ResponseWriter, _ *http.Request) {
		followed.Add(1)
		_, _ = io.WriteString(w, `{"keys":[]}`)
	})
	s := httptest.NewServer(mux)
	defer s.Close()
	for _, path := range []string{"/endless", "/moved"} {
		keys, err := auth.NewRemoteKeys("", s.URL+path)
		check(t, err)
		if _, err := keys.Key(t.Context(), "known", now); err == nil || errors.Is(err, auth.ErrUnknownKey) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if n := sent.Load(); n > 64<<20 {
		t.Errorf("%d bytes were read", n)
	}
	if followed.Load() > 0 {
		t.Error("the redirect was followed")
	}
}

// Tokens with unknown keys make few requests to the issuer, and do not keep each other from being looked up.
func TestUnknownKeysAreLimited(t *testing.T) {
	t.Parallel()
	s, keys := newKeyServer(t)
	at := now
	ask := func(kid string, fetches int64) {
		t.Helper()
		before := s.fetches.Load()
		_, err := keys.Key(t.Context(), kid, at)
		if kid == "known" && err != nil || kid != "known" && !errors.Is(err, auth.ErrUnknownKey) {
			t.Errorf("%s: %v", kid, err)
		}
		if n := s.fetches.Load() - before; n != fetches {
			t.Errorf("%s at %s: %d fetches, want %d", kid, at.Sub(now), n, fetches)
		}
	}
	ask("a", 1)
	ask("a", 0)
	ask("b", 0)
	ask("known", 0)
	at = now.Add(6 * time.Second)
	ask("a", 0) // within its minute
	ask("b", 1)
	ask("c", 0)
	at = now.Add(12 * time.Second)
	ask("c", 1)
	at = now.Add(61 * time.Second)
	ask("a", 1)
}

// An issuer that could not be reached is asked again after a pause, and not before.
func TestUnreachableIssuer(t *testing.T) {
	t.Parallel()
	s, keys := newKeyServer(t)
	s.fails.Store(true)
	for range 3 {
		if _, err := keys.Key(t.Context(), "known", now); err == nil || errors.Is(err, auth.ErrUnknownKey) {
			t.Errorf("without keys: %v", err)
		}
	}
	s.fails.Store(false)
	if _, err := keys.Key(t.Context(), "known", now.Add(6*time.Second)); err != nil {
		t.Error(err)
	}
	if n := s.fetches.Load(); n != 2 {
		t.Errorf("%d fetches, want 2", n)
	}
}
