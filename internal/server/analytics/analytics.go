package analytics

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/lazuli-storage/lazuli/internal/azure/frontend"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/httpserver/inproc"
)

// Config configures Storage Analytics.
type Config struct {
	// Settings returns a service's properties for an account. It is called for every request and must be quick.
	// Required.
	Settings func(wire.Service, string) *properties.Properties
	// Accounts lists the accounts, for the rows of intervals without requests and for retention. Required.
	Accounts func() []string
	// Every is the pause between two flushes; 0 is five seconds.
	Every time.Duration
	// Now is the clock; nil is time.Now.
	Now func() time.Time
	// Log is for failures to write; nil is slog.Default().
	Log *slog.Logger
}

// services are the services with analytics.
var services = [...]wire.Service{wire.Blob, wire.Queue, wire.Table}

// hosts are the host names of the services inside the process.
var hosts = map[wire.Service]string{wire.Blob: "blob.analytics", wire.Queue: "queue.analytics",
	wire.Table: "table.analytics"}

// Analytics collects the outcomes of requests and writes them from time to time. It is safe for concurrent use.
type Analytics struct {
	Config
	options policy.ClientOptions
	now     func() time.Time

	mu      sync.Mutex // guards the next fields
	pages   map[logKey]*page
	lost    int // lines that were dropped since the last flush
	periods map[periodKey]*period

	flushing  sync.Mutex // held by a flush; guards the next fields
	counters  map[logKey]int
	unwritten []interval
	logs      []*logBlob
	written   [2]time.Time // per resolution, the last interval whose idle rows were written
	expired   time.Time    // when retention was last enforced

	wake   chan struct{}
	cancel context.CancelFunc
	done   chan struct{}
	stop   sync.Once
}

// New returns an Analytics that observes and does not write yet: the services through which it writes are started with
// its Observe.
func New(c Config) *Analytics {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.Default()
	}
	if c.Every == 0 {
		c.Every = 5 * time.Second
	}
	return &Analytics{Config: c, now: c.Now, pages: make(map[logKey]*page), periods: make(map[periodKey]*period),
		counters: make(map[logKey]int), wake: make(chan struct{}, 1), done: make(chan struct{})}
}

// Observe records a request. It is for [frontend.Common.Observe].
func (a *Analytics) Observe(r *wire.Request, o frontend.Outcome) {
	if r.Account == "" || r.Operation == "" {
		return
	}
	p := a.Settings(r.Service, r.Account)
	if l := &p.Logging; (l.Read || l.Write || l.Delete) && !r.System() {
		a.log(p, r, o)
	}
	if p.HourMetrics.Enabled {
		a.count(&p.HourMetrics, hourly, r, o)
	}
	if p.MinuteMetrics.Enabled {
		a.count(&p.MinuteMetrics, minutely, r, o)
	}
}

// Start begins to write, through the handlers of the Blob and Table services.
func (a *Analytics) Start(blob, table http.Handler) {
	transport := &inproc.Transport{Handlers: map[string]http.Handler{hosts[wire.Blob]: blob, hosts[wire.Table]: table}}
	a.options = azcore.ClientOptions{Transport: &http.Client{Transport: transport},
		Retry: policy.RetryOptions{MaxRetries: -1}}
	ctx, cancel := context.WithCancel(context.Background())
	a.cancel = cancel
	go func() {
		defer close(a.done)
		tick := time.NewTicker(a.Every)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			case <-a.wake:
			}
			if err := a.Flush(ctx); err != nil && ctx.Err() == nil {
				a.Log.Warn("storage analytics", "err", err)
			}
		}
	}()
}

// Stop writes the buffered lines and ends. It may be called twice, and without Start.
func (a *Analytics) Stop(ctx context.Context) error {
	var err error
	a.stop.Do(func() {
		if a.cancel == nil {
			return
		}
		a.cancel()
		<-a.done
		ctx, cancel := context.WithTimeout(ctx, stopTimeout)
		defer cancel()
		for err = a.flush(ctx, true); a.waiting() && ctx.Err() == nil; err = a.flush(ctx, true) {
			select {
			case <-ctx.Done():
			case <-time.After(stopPause):
			}
		}
	})
	return err
}

const (
	// stopTimeout is the time that Stop tries to write while the services are not available, as during an election in a
	// cluster.
	stopTimeout = 5 * time.Second
	stopPause   = 100 * time.Millisecond
)

// waiting reports whether something waits until the services are available.
func (a *Analytics) waiting() bool {
	a.flushing.Lock()
	defer a.flushing.Unlock()
	return len(a.unwritten) > 0 || len(a.logs) > 0
}

// unavailable reports whether a write failed for a reason that goes away: not one that the request has.
func unavailable(err error) bool {
	var answer *azcore.ResponseError
	return err != nil && (!errors.As(err, &answer) || answer.StatusCode >= http.StatusInternalServerError)
}

// unknownOutcome reports whether a write that failed may have been made: the services answer 503 to one that was not.
func unknownOutcome(err error) bool {
	var answer *azcore.ResponseError
	return unavailable(err) && !(errors.As(err, &answer) && answer.StatusCode == http.StatusServiceUnavailable)
}

// Flush writes all log lines, and the metrics of the intervals that are over.
func (a *Analytics) Flush(ctx context.Context) error { return a.flush(ctx, false) }

// flush writes; last also writes the metrics of intervals that are not over.
func (a *Analytics) flush(ctx context.Context, last bool) error {
	a.flushing.Lock()
	defer a.flushing.Unlock()
	ctx = wire.WithSystem(ctx)
	return errors.Join(a.flushLogs(ctx), a.flushMetrics(ctx, last), a.expire(ctx))
}

// expire enforces retention, once an hour.
func (a *Analytics) expire(ctx context.Context) error {
	if a.now().Sub(a.expired) < time.Hour {
		return nil
	}
	a.expired = a.now()
	var errs []error
	for _, account := range a.Accounts() {
		for _, svc := range services {
			p := a.Settings(svc, account)
			if r := p.Logging.Retention; r.Enabled {
				errs = append(errs, a.expireLogs(ctx, account, svc, r.Days))
			}
			for res, m := range [...]*properties.Metrics{&p.HourMetrics, &p.MinuteMetrics} {
				if m.Retention.Enabled {
					errs = append(errs, a.expireMetrics(ctx, account, svc, resolution(res), m.Retention.Days))
				}
			}
		}
	}
	return errors.Join(errs...)
}

func (a *Analytics) url(svc wire.Service, account string) string {
	return "http://" + hosts[svc] + "/" + account
}
