package webhook

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/hubname"
	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

// Path is the place where the API is.
const Path = "/runtime/webhooks/durabletask/"

// DefaultConnection is the name of the connection setting that Durable Functions use by default.
const DefaultConnection = "Storage"

// Options are the settings of a handler made by [New].
type Options struct {
	// Client returns the client of the hub: the method WaitClient of a durable.Engine, or a function that returns a
	// hub.Client. Its context is the request's, for 10 s at most. Requests are answered with 503 if it returns an
	// error.
	Client func(context.Context) (*hub.Client, error)
	// Hub is the hub's name, for links and the parameter taskHub. Default "default".
	Hub string
	// Connection is the name of the connection setting, for links and the parameter connection. Default
	// DefaultConnection.
	Connection string
	// Workflows are the names of the workflows that can be started; nil: any.
	Workflows []string
	// ReplaceRunning lets a start replace an instance with the same ID that still runs. One that does not run any more is
	// always replaced.
	ReplaceRunning bool
	// Unmatched returns the pending work that no connected worker takes. Nil: nothing is known of it.
	Unmatched func() []inflight.Unmatched
	// MaxBody bounds the body of a request, in bytes. Default 10 MiB.
	MaxBody int64
	// Logger takes the causes of responses with status 500. Default: slog.Default.
	Logger *slog.Logger
}

// New returns the API of a hub. Requests for other hubs or connections are refused with 501.
func New(o Options) http.Handler {
	if o.Hub == "" {
		o.Hub = hubname.Default
	}
	if o.Connection == "" {
		o.Connection = DefaultConnection
	}
	if o.MaxBody == 0 {
		o.MaxBody = 10 << 20
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return &handler{o}
}

// clientPatience is the time for which a request waits for the hub of an app that has just started.
const clientPatience = 10 * time.Second

type handler struct{ o Options }

// call is one request to the API.
type call struct {
	*handler
	w      http.ResponseWriter
	r      *http.Request
	query  parameters
	client *hub.Client
}

// ServeHTTP implements http.Handler.
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &call{handler: h, w: w, r: r}
	if err := c.serve(); err != nil {
		c.fail(err)
	}
}

func (c *call) serve() error {
	// Names and IDs can hold escaped slashes: the path is split before it is unescaped.
	rest, ok := strings.CutPrefix(c.r.URL.EscapedPath(), strings.TrimSuffix(Path, "/"))
	if !ok {
		return status(http.StatusNotFound)
	}
	var path []string
	if rest = strings.Trim(rest, "/"); rest != "" {
		path = strings.Split(rest, "/")
	}
	for i, p := range path {
		// Each part by itself, after the split: an ID may have an escaped slash.
		text, err := url.PathUnescape(p)
		if err != nil {
			return badRequest("the path %q is not escaped correctly", p)
		}
		path[i] = text
	}
	do := c.route(path)
	if do == nil {
		return status(http.StatusNotFound)
	}
	var err error
	if c.query, err = parseParameters(c.r.URL.RawQuery); err != nil {
		return err
	}
	// Before the client is opened, which takes up to clientPatience in an app that has just started.
	if err := c.ownHub(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), clientPatience)
	defer cancel()
	if c.client, err = c.o.Client(ctx); err != nil {
		return &apiError{status: http.StatusServiceUnavailable, message: "The task hub is not open yet.", cause: err}
	}
	return do()
}

// route returns the operation of a path and method, or nil.
func (c *call) route(path []string) func() error {
	is := func(method, word string, n int) bool {
		// Words without regard to case, as the routes of the Functions host.
		return c.r.Method == method && len(path) > 0 && len(path) == n && strings.EqualFold(path[0], word)
	}
	switch {
	case is(http.MethodPost, "entities", 3):
		return func() error { return c.signalEntity(path[1], path[2]) }
	case is(http.MethodGet, "entities", 3):
		return func() error { return c.getEntity(path[1], path[2]) }
	case is(http.MethodGet, "entities", 2):
		return func() error { return c.listEntities(path[1]) }
	case is(http.MethodGet, "entities", 1):
		return func() error { return c.listEntities("") }
	case is(http.MethodGet, "unmatched", 1):
		return c.unmatched
	case is(http.MethodGet, "summary", 1):
		return c.summarize
	case len(path) == 1 && strings.EqualFold(path[0], "makeprimary"):
		return func() error {
			// For any method: 404 would say that the instance is unknown.
			return notImplemented("App leases are not supported: every process of a hub takes part in its work.")
		}
	case is(http.MethodPost, "orchestrators", 2):
		return func() error { return c.start(path[1], "") }
	case is(http.MethodPost, "orchestrators", 3):
		return func() error { return c.start(path[1], path[2]) }
	case is(http.MethodGet, "instances", 1):
		return c.list
	case is(http.MethodDelete, "instances", 1):
		return c.purgeAll
	case is(http.MethodGet, "tree", 2):
		return func() error { return c.tree(path[1]) }
	case is(http.MethodGet, "instances", 2):
		return func() error { return c.get(path[1]) }
	case is(http.MethodDelete, "instances", 2):
		return func() error { return c.purge(path[1]) }
	case is(http.MethodPost, "instances", 3):
		return c.operation(path[1], path[2])
	case is(http.MethodPost, "instances", 4) && strings.EqualFold(path[2], "raiseEvent"):
		return func() error { return c.raiseEvent(path[1], path[3]) }
	}
	return nil
}

// operation returns an operation on one instance by its name, or nil.
func (c *call) operation(id, name string) func() error {
	switch strings.ToLower(name) {
	case "terminate":
		return func() error {
			return c.steer(id, func(reason string) error { return c.client.Terminate(c.r.Context(), id, reason, true) })
		}
	case "suspend":
		return func() error {
			return c.steer(id, func(reason string) error { return c.client.Suspend(c.r.Context(), id, reason) })
		}
	case "resume":
		return func() error {
			return c.steer(id, func(reason string) error { return c.client.Resume(c.r.Context(), id, reason) })
		}
	case "rewind":
		return func() error { return c.rewind(id) }
	case "restart":
		return func() error { return c.restart(id) }
	}
	return nil
}

// ownHub refuses requests for what this handler does not serve.
func (c *call) ownHub() error {
	if hub := c.query.text("taskHub"); hub != "" && !strings.EqualFold(hub, c.o.Hub) {
		return notImplemented(fmt.Sprintf("The task hub %q is not served here; %q is.", hub, c.o.Hub))
	}
	name := strings.TrimPrefix(c.query.text("connection"), "AzureWebJobs")
	if name != "" && !strings.EqualFold(name, strings.TrimPrefix(c.o.Connection, "AzureWebJobs")) {
		return notImplemented(fmt.Sprintf("The connection %q is not served here; %q is.", name, c.o.Connection))
	}
	return nil
}

// fail answers a request with an error.
func (c *call) fail(err error) {
	var own *apiError
	switch {
	case errors.As(err, &own):
	case errors.Is(err, record.ErrBadInstanceID):
		own = &apiError{status: http.StatusBadRequest, message: "The instance ID cannot be used.", cause: err}
	case errors.Is(err, record.ErrTooLarge):
		own = &apiError{status: http.StatusRequestEntityTooLarge, message: "The content is too large.", cause: err}
	case errors.Is(err, record.ErrInstanceNotFound):
		own = &apiError{status: http.StatusNotFound}
	default:
		// A client that has gone is no failure of the API.
		if c.r.Context().Err() == nil {
			c.o.Logger.Error("a request to the management API of durable functions failed", "method", c.r.Method, "path",
				c.r.URL.Path, "err", err)
		}
		own = &apiError{status: http.StatusInternalServerError,
			message: "Something went wrong while processing your request",
			cause:   err}
	}
	own.write(c.w)
}
