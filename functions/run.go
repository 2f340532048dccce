package functions

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/lazuli-storage/lazuli/internal/httpserver"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/workers"
)

// Run may be called once. It starts the handler, and serves HTTP on l and the other triggers until ctx is done; then it
// drains. It closes l. It returns an error if the handler cannot be started, or if an invocation had to be given up.
func (h *Host) Run(ctx context.Context, l net.Listener) error {
	h.began = time.Now()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if _, ok := h.project.settings.Get("WEBSITE_HOSTNAME"); !ok {
		h.project.settings.Set("WEBSITE_HOSTNAME", "localhost:"+port)
	}
	h.process.Environ = h.project.settings.Values // A language worker has its environment since Load.
	h.origin = "http://localhost:" + port
	h.past.mu.Lock()
	h.past.origin = h.origin
	h.past.mu.Unlock()

	if h.messages {
		stop, err := h.durable.Listen()
		if err != nil {
			return errors.Join(fmt.Errorf("the endpoint of durable clients: %w", err), l.Close())
		}
		defer stop()
	}
	// The server of the storage services: it refuses requests with two lengths, which a proxy may have read otherwise.
	server := httpserver.New(h.httpHandler(), h.log, time.Minute)
	// The process of the app outlives ctx: the invocations that are drained at the stop need it.
	running, stopProcess := context.WithCancel(context.WithoutCancel(ctx))
	defer stopProcess()
	defer h.giveUp(nil)
	ended := make(chan error, 1)
	go func() { ended <- h.invoker.run(running) }()
	h.warmUp()
	serving := make(chan error, 1)
	go func() { serving <- httpserver.Serve(server, l, httpserver.Options{}) }()

	var err error
	if h.storage {
		go h.warnUnreachable(running)
		err = h.app.Start(context.WithoutCancel(ctx))
	}
	processEnded := false
	if err == nil {
		select {
		case <-ctx.Done():
		case err = <-ended:
			processEnded = true
		case err = <-serving:
		}
	}
	// From here on, no invocation waits for another attempt by its retry policy.
	h.beginStop()
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.drainTimeout())
	defer cancel()
	if processEnded {
		cancel() // The handler has ended and cannot respond.
	}
	// Triggers and HTTP drain at the same time, so that the timeout bounds both together.
	var wg sync.WaitGroup
	var stopErr, shutErr error
	wg.Go(func() { stopErr = h.app.Stop(drain) })
	wg.Go(func() {
		if shutErr = server.Shutdown(drain); shutErr != nil {
			shutErr = errors.Join(fmt.Errorf("HTTP invocations were interrupted: %w", shutErr), server.Close())
		}
		// What still runs at the end of the time is cancelled, so that Wait returns.
		stop := context.AfterFunc(drain, func() { h.giveUp(workers.ErrStopping) })
		h.calls.Wait()
		stop()
	})
	wg.Wait()
	stopProcess()
	if !processEnded {
		err = errors.Join(err, <-ended)
	} else {
		// The end of the process, which err says, is the reason of what was interrupted.
		shutErr = nil
	}
	h.client.CloseIdleConnections()
	h.worker.Close()
	return errors.Join(err, stopErr, shutErr)
}

// warnUnreachable logs a warning if no server listens at a local storage account, the most common mistake.
func (h *Host) warnUnreachable(ctx context.Context) {
	warned := map[string]bool{}
	for name, text := range h.connections() {
		account, err := connstr.Parse(text)
		if err != nil || !account.Local() {
			continue
		}
		for _, endpoint := range []string{account.BlobEndpoint, account.QueueEndpoint} {
			u, err := url.Parse(endpoint)
			if err != nil || u.Port() == "" || warned[u.Host] {
				continue
			}
			warned[u.Host] = true
			c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", u.Host)
			if err != nil {
				h.log.Warn("no server listens at the storage account; start one with `lazuli` in another terminal, or this "+
					"with --storage: triggers wait for it", "connection", name, "address", u.Host)
				return
			}
			_ = c.Close()
		}
	}
}

func (h *Host) drainTimeout() time.Duration {
	if h.config.DrainTimeout > 0 {
		return h.config.DrainTimeout
	}
	return 30 * time.Second
}
