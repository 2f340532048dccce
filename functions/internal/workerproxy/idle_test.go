package workerproxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A request that is passed on to a worker ends when nothing happens, and nothing of a response was sent then.
func TestForwardedRequestsThatAreIdle(t *testing.T) {
	t.Parallel()
	for _, begins := range []bool{false, true} {
		t.Run(fmt.Sprint("begins ", begins), func(t *testing.T) {
			t.Parallel()
			worker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body) // Otherwise the server does not notice the end of the connection.
				if begins {
					_, _ = io.WriteString(w, "a part")
					_ = http.NewResponseController(w).Flush()
				}
				<-r.Context().Done()
			}))
			proxy, out := New(time.Second, slog.New(slog.DiscardHandler)), httptest.NewRecorder()
			proxy.idle = 2 * time.Second
			r := httptest.NewRequest(http.MethodPost, "/api/x", strings.NewReader("body"))
			begun, err := proxy.Pass(t.Context(), out, r, "one", worker.URL, make(chan error))
			if err == nil || !begins && !errors.Is(err, errIdle) || begun != begins {
				t.Errorf("begins %t: %v, begun %t", begins, err, begun)
			}
			if want := map[bool]string{true: "a part"}[begins]; out.Body.String() != want {
				t.Errorf("begins %t: body %q", begins, out.Body)
			}
			worker.Close()
		})
	}
}

// both is a connection whose other end reads and writes at once.
type both struct{ io.Reader }

func (both) Write(b []byte) (int, error) { return len(b), nil }
func (both) Close() error                { return nil }

// Bytes of the request and of the response, and the response's head, are activity.
func TestIdleLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		limit := limitIdle(time.Minute, cancel)
		defer limit.stop()
		endless := func() both { return both{strings.NewReader(strings.Repeat("x", 100))} }
		plain := &http.Response{StatusCode: http.StatusOK, Body: endless()}
		upgraded := &http.Response{StatusCode: http.StatusSwitchingProtocols, Body: endless()}
		request := limit.request(io.NopCloser(endless()))
		one := make([]byte, 1)
		for name, act := range map[string]func() error{
			"request":  func() error { _, err := request.Read(one); return err },
			"head":     func() error { limit.response(plain); return nil },
			"response": func() error { _, err := plain.Body.Read(one); return err },
			"upgrade":  func() error { limit.response(upgraded); return nil },
			"from":     func() error { _, err := upgraded.Body.Read(one); return err },
			"to":       func() error { _, err := upgraded.Body.(io.Writer).Write(one); return err },
		} {
			limit.response(plain)
			limit.response(upgraded)
			for range 3 {
				time.Sleep(40 * time.Second)
				if err := act(); err != nil || ctx.Err() != nil {
					t.Fatalf("%s: %v, %v", name, err, context.Cause(ctx))
				}
			}
		}
		time.Sleep(61 * time.Second)
		if !errors.Is(context.Cause(ctx), errIdle) {
			t.Errorf("after a minute: %v", context.Cause(ctx))
		}
		if body := limit.request(http.NoBody); body != http.NoBody {
			t.Error("a request without a body has one")
		}
	})
}
