package figures

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/httpserver/inproc"
	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/sumfile"
)

const (
	sampleEvery = time.Minute
	// saveEvery is how many samples lie between two writes of the file, and between two looks at queues in which nothing
	// happens but that messages expire.
	saveEvery = 5
)

// source is the server whose queues are sampled.
type source interface {
	URL(service wire.Service, account string) string
	Transport() *inproc.Transport
}

// Keep samples the queues that are used, once a minute, and keeps their figures of a day in the data folder; a
// folder of "" keeps nothing on disk. It returns what ends it, which writes the file a last time. A file that cannot be
// read is set aside, and one of a newer release is left as it is: then nothing is written.
func (h *History) Keep(b source, folder string, log *slog.Logger) (stop func()) {
	path := ""
	if folder != "" {
		path = filepath.Join(folder, datadir.HistoryFile)
		switch err := h.load(path); {
		// Renamed and not removed: the figures are of no use to the dashboard, but may be to someone who looks for the
		// cause.
		case errors.Is(err, sumfile.ErrDamaged):
			aside := path + ".damaged-" + strconv.FormatInt(h.now().Unix(), 10)
			log.Warn("the figures of the dashboard cannot be read and were set aside", "file", aside, "err", err,
				"rename", os.Rename(path, aside))
		case err != nil:
			log.Warn("the figures of the dashboard are not kept", "file", path, "err", err)
			// It is of a newer release: written over, a return to that release would lose its figures.
			path = ""
		}
	}
	save := func() {
		if path == "" {
			return
		}
		if err := h.save(path); err != nil {
			log.Warn("the figures of the dashboard were not written", "file", path, "err", err)
		}
	}
	// The sampler's own requests must not appear among those that the pages show.
	ctx, cancel := context.WithCancel(wire.WithSystem(context.Background()))
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(sampleEvery)
		defer tick.Stop()
		for n := 1; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			h.sample(ctx, b, n%saveEvery == 0)
			// A file write a minute would be most of what an idle server does.
			if n%saveEvery == 0 {
				save()
			}
		}
	})
	return func() {
		cancel()
		// The goroutine may be writing; two writers of one file would leave a mixture.
		done.Wait()
		save()
	}
}

// sample asks the queues whose messages have changed, and with idle those that had messages, how many they have.
func (h *History) sample(ctx context.Context, b source, idle bool) {
	ctx, cancel := context.WithTimeout(ctx, sampleEvery/2)
	defer cancel()
	options := &azqueue.ClientOptions{ClientOptions: azcore.ClientOptions{
		Transport: &http.Client{Transport: b.Transport()}, Retry: policy.RetryOptions{MaxRetries: -1}}}
	for _, name := range h.due(idle) {
		client, err := azqueue.NewServiceClientWithNoCredential(b.URL(wire.Queue, name.Account), options)
		if err != nil {
			continue
		}
		q, err := queuetool.Read(ctx, client, name.Name)
		if ctx.Err() != nil {
			return
		}
		now, age := h.now(), time.Duration(0)
		if err != nil || q.Unavailable != "" {
			q.Messages = 0 // it is deleted, or cannot be read
		} else if !q.Oldest.IsZero() {
			age = now.Sub(q.Oldest)
		}
		h.Sampled(name, now, q.Messages, age)
	}
}
