package functions

import (
	"context"
	"crypto/rand"
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/lazuli-storage/lazuli/functions/internal/handlerproc"
	"github.com/lazuli-storage/lazuli/functions/internal/jsonfile"
	"github.com/lazuli-storage/lazuli/functions/internal/keys"
	"github.com/lazuli-storage/lazuli/functions/internal/settings"
	"github.com/lazuli-storage/lazuli/functions/internal/workerproxy"
	"github.com/lazuli-storage/lazuli/internal/sdk/hostrow"
	"github.com/lazuli-storage/lazuli/workers"
)

// idleConnection is the idle timeout of connections to the handler. It is shorter than that of common servers (Node: 5
// s): a request on a connection that the handler is closing would fail, and count as an attempt.
const idleConnection = 3 * time.Second

// Load reads the folder, and starts a language worker, if the app needs one, which tells what functions there are. An
// error names every file and field that is wrong or not supported. A Host that is not run must be closed.
func Load(ctx context.Context, c Config) (*Host, error) {
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.Stdout == nil {
		c.Stdout = io.Discard
	}
	if c.Stderr == nil {
		c.Stderr = io.Discard
	}
	var store *keys.Store
	if c.Keys != "" {
		var err error
		if store, err = keys.Open(c.Keys); err != nil {
			return nil, err
		}
	}
	p, err := loadProject(ctx, c)
	if err != nil {
		return nil, err
	}
	h := &Host{
		keys: store, durableSecret: rand.Text(),
		project: p, config: c, log: slog.New(leveled{c.Logger.Handler(), p.host.levels}),
		accounts: map[string]*workers.Storage{},
		past:     past{functions: map[string]*functionPast{}},
		client: &http.Client{
			Transport: &http.Transport{MaxIdleConnsPerHost: 256, IdleConnTimeout: idleConnection, DisableCompression: true},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return http.ErrUseLastResponse // A redirect is not a 2xx status: the invocation failed.
			},
		},
	}
	h.worker = workerproxy.New(idleConnection, h.log)
	h.process = handlerproc.New(p.host.handler, p.settings.Values, h.log, c.Stdout, c.Stderr)
	h.keep = h.process.Run
	h.invoker = handlerInvoker{h}
	if p.worker != nil {
		h.invoker = &languageInvoker{host: h, app: p.worker}
	}
	h.hard, h.giveUp = context.WithCancelCause(context.Background())
	h.stopping, h.beginStop = context.WithCancel(context.Background())
	config := workers.Config{
		Connections: h.connections(), HostID: p.hostID(), Logger: h.log, DrainTimeout: c.DrainTimeout,
		LockPeriod: p.host.lock, Heartbeat: hostrow.Every, About: p.about(),
	}
	if h.durable, err = h.openDurable(); err != nil {
		h.Close()
		return nil, err
	}
	if h.durable != nil {
		config.Durable = h.durable
	}
	h.app = workers.New(config)
	for _, m := range c.Middleware {
		h.app.Use(m)
	}
	for _, f := range p.functions {
		h.register(f)
	}
	return h, nil
}

// LocalPort is the port that local.settings.json of a folder asks for, or 0. Load reports what is wrong with the file.
func LocalPort(dir string) int {
	_, local := settings.Read(&jsonfile.Report{}, dir, nil)
	return local.Port
}
