package inproc_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/httpserver/inproc"
)

var errNext = errors.New("over the network")

type network struct{}

func (network) RoundTrip(*http.Request) (*http.Response, error) { return nil, errNext }

// Here reaches what is served, until stop, which waits for requests under way; all others go over the network.
func TestHere(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan bool), make(chan bool)
	stop := inproc.Serve(map[string]http.Handler{"served:1": http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			entered <- true
			<-leave
			_, _ = io.WriteString(w, "here")
		})})
	c := &http.Client{Transport: inproc.Here{Next: network{}}}
	get := func(url string) (string, error) {
		resp, err := c.Get(url)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		return string(text), err
	}
	for _, url := range []string{"https://served:1/", "http://served:2/"} {
		if _, err := get(url); !errors.Is(err, errNext) {
			t.Errorf("%s: %v", url, err)
		}
	}
	answered, stopped := make(chan string), make(chan bool)
	go func() {
		text, err := get("http://served:1/")
		if err != nil {
			text = err.Error()
		}
		answered <- text
	}()
	<-entered
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	stop(impatient) // returns although a request is under way
	if _, err := get("http://served:1/"); !errors.Is(err, errNext) {
		t.Errorf("after the stop: %v", err)
	}
	go func() {
		stop(t.Context())
		close(stopped)
	}()
	select {
	case <-stopped:
		t.Error("stop has not waited")
	default:
	}
	close(leave)
	if text := <-answered; text != "here" {
		t.Error(text)
	}
	<-stopped
}

// An address that another server has by now stays its own.
func TestHereAgain(t *testing.T) {
	t.Parallel()
	answer := func(status int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	}
	first := inproc.Serve(map[string]http.Handler{"again:1": answer(http.StatusAccepted)})
	second := inproc.Serve(map[string]http.Handler{"again:1": answer(http.StatusTeapot)})
	defer second(t.Context())
	first(t.Context())
	resp, err := (&http.Client{Transport: inproc.Here{Next: network{}}}).Get("http://again:1/")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusTeapot {
		t.Error(resp.Status)
	}
}
