package auth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/exposure"
)

// RemoteKeys fetches an issuer's keys over HTTP. It is a [KeySource], safe for concurrent use.
//
// Keys are fetched independently of the requests that need them: a client that disconnects does not cancel a fetch.
// Known keys are returned at once, even during a fetch or while the issuer cannot be reached. They are fetched again
// each hour. A token with an unknown key starts a fetch as well, which all waiting tokens share. Since anyone can send
// such tokens, one key ID starts at most one fetch a minute, and all key IDs together one in five seconds.
type RemoteKeys struct {
	issuer, url string
	client      *http.Client

	mu   sync.Mutex
	keys KeySet    // guarded by mu; nil before the first success
	read time.Time // guarded by mu: start time of the fetch that returned keys
	last time.Time // guarded by mu: start time of the last fetch
	err  error     // guarded by mu: error of the last fetch
	// fetching is closed when the current fetch ends; nil while no fetch runs. Guarded by mu.
	fetching chan struct{}
	// unknown has key IDs that the issuer did not have, and when each last started a fetch. Guarded by mu.
	unknown map[string]time.Time
}

// NewRemoteKeys returns the keys of an issuer. It finds them through the issuer's
// .well-known/openid-configuration, or at keysURL if that is not empty. URLs must use https, or a loopback address.
func NewRemoteKeys(issuer, keysURL string) (*RemoteKeys, error) {
	for _, s := range []string{issuer, keysURL} {
		if s == "" {
			continue
		}
		if err := checkURL(s); err != nil {
			return nil, err
		}
	}
	if issuer == "" && keysURL == "" {
		return nil, errors.New("neither an issuer nor the address of its keys is given")
	}
	// Redirects are not followed: they could lead to an address that checkURL refuses.
	return &RemoteKeys{issuer: issuer, url: keysURL, client: &http.Client{
		Timeout:       keysWait,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

func checkURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Host == "" {
		return fmt.Errorf("%q is not a URL", s)
	}
	if u.Scheme == "https" {
		return nil
	}
	if u.Scheme == "http" && exposure.Local(u.Hostname()) {
		return nil
	}
	return fmt.Errorf("%q must be https: otherwise anyone who can change the response could sign tokens", s)
}

const (
	keysGood   = time.Hour
	keysPause  = 5 * time.Second // between two fetches
	keysRetry  = time.Minute     // minimum time between two fetches for one unknown key
	maxUnknown = 1000            // maximum number of unknown key IDs kept; then all are removed
	keysWait   = 10 * time.Second
)

// Key implements [KeySource]. It waits for a fetch only if kid is unknown, at most until ctx is done.
func (k *RemoteKeys) Key(ctx context.Context, kid string, now time.Time) (PublicKey, error) {
	key, done, err := k.lookUp(ctx, kid, now)
	if done == nil {
		return key, err
	}
	select {
	case <-done:
	case <-ctx.Done():
		return PublicKey{}, ctx.Err()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	// A fetch that failed leaves the former keys in use.
	if k.keys == nil {
		return PublicKey{}, k.err
	}
	return k.keys.Key(ctx, kid, now)
}

// lookUp returns a known key or an error; or, if a fetch may return the key, a channel that is closed when the fetch
// ends.
func (k *RemoteKeys) lookUp(ctx context.Context, kid string, now time.Time) (key PublicKey, done <-chan struct{},
	err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	err = ErrUnknownKey
	if k.keys != nil {
		if key, err = k.keys.Key(ctx, kid, now); err == nil {
			// Old keys are used while new ones are fetched: a request waits for an unknown key alone.
			if passed(k.read, now, keysGood) {
				k.fetchLater(now)
			}
			return key, nil, nil
		}
	}
	// Anyone can send tokens with invented key IDs: such an ID causes one fetch in keysRetry at most.
	if k.keys != nil && !passed(k.unknown[kid], now, keysRetry) {
		return key, nil, err
	}
	if done = k.fetchLater(now); done == nil && k.keys == nil {
		err = k.err
	}
	if done != nil {
		if len(k.unknown) >= maxUnknown || k.unknown == nil {
			k.unknown = make(map[string]time.Time)
		}
		k.unknown[kid] = now
	}
	return key, done, err
}

// passed reports whether d has passed since a time. It is true if the clock was set back.
func passed(since, now time.Time, d time.Duration) bool {
	return since.IsZero() || now.Sub(since) >= d || now.Before(since)
}

// fetchLater starts a fetch unless one is running or has just ended. It returns the channel of the running fetch, or
// nil. The caller holds mu.
func (k *RemoteKeys) fetchLater(now time.Time) <-chan struct{} {
	if k.fetching != nil {
		return k.fetching
	}
	if !passed(k.last, now, keysPause) {
		return nil
	}
	done := make(chan struct{})
	k.fetching, k.last = done, now
	go func() {
		// The fetch is for all requests that wait, and does not end with the one that began it.
		ctx, cancel := context.WithTimeout(context.Background(), keysWait)
		defer cancel()
		keys, err := k.fetch(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.err = err; err == nil {
			k.keys, k.read = keys, now
		}
		k.fetching = nil
		close(done)
	}()
	return done
}

// fetch fetches the issuer's configuration and keys.
func (k *RemoteKeys) fetch(ctx context.Context) (KeySet, error) {
	at := k.url
	if at == "" {
		text, err := k.get(ctx, strings.TrimSuffix(k.issuer, "/")+"/.well-known/openid-configuration")
		if err != nil {
			return nil, err
		}
		var doc struct {
			JWKSURI string `json:"jwks_uri"`
		}
		if err := json.Unmarshal(text, &doc); err != nil {
			return nil, errors.New("the issuer's configuration is not valid JSON")
		}
		if err := checkURL(doc.JWKSURI); err != nil {
			return nil, fmt.Errorf("jwks_uri: %w", err)
		}
		at = doc.JWKSURI
	}
	text, err := k.get(ctx, at)
	if err != nil {
		return nil, err
	}
	return ParseJWKS(text)
}

func (k *RemoteKeys) get(ctx context.Context, at string) ([]byte, error) {
	hr, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, err
	}
	resp, err := k.client.Do(hr)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", at, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxJWKS+1))
	if err == nil && len(text) > maxJWKS {
		err = errors.New("the answer is too large")
	}
	return text, err
}
