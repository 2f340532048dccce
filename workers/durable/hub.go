package durable

import (
	"context"

	"github.com/lazuli-storage/lazuli/internal/durable/hub"
	"github.com/lazuli-storage/lazuli/internal/durable/inflight"
	"github.com/lazuli-storage/lazuli/internal/durable/record"
)

// What the package has of the hub below it.
type (
	// Options are the settings of a [Backend].
	Options = hub.Options
	// WorkerOptions bound what one process does at once.
	WorkerOptions = hub.WorkerOptions
	// Backend stores one task hub in a storage account.
	Backend = hub.Backend
	// Client starts, watches and controls the instances of a hub.
	Client = hub.Client
	// StartOptions are the options of [Client.Start].
	StartOptions = hub.StartOptions
	// SignalOptions are the options of Client.SignalEntity.
	SignalOptions = hub.SignalOptions
	// CleanOptions are the options of Client.CleanEntities.
	CleanOptions = hub.CleanOptions
	// Cleaned holds what a call of CleanEntities has done.
	Cleaned = hub.Cleaned
	// Query selects instances.
	Query = hub.Query
	// Page is a part of a query's result.
	Page = hub.Page
	// EntityQuery selects entities.
	EntityQuery = hub.EntityQuery
	// EntityPage is a part of a query's result.
	EntityPage = hub.EntityPage
	// Reader reads the instances of a hub, of this engine or of DTFx.
	Reader = hub.Reader
	// ActivityInfo says which activity a context belongs to.
	ActivityInfo = hub.ActivityInfo
	// Instance is the state of an instance.
	Instance = record.Instance
	// EntityInfo is the state of an entity.
	EntityInfo = record.EntityInfo
	// Event is an entry of a workflow's history.
	Event = record.Event
	// Step is an event of a history for people.
	Step = record.Step
	// Status is the state of an instance.
	Status = record.Status
	// CorruptError means that what is stored of an instance cannot be read.
	CorruptError = record.CorruptError
	// Unmatched is work that no connected worker takes.
	Unmatched = inflight.Unmatched
)

// The engines of hubs.
const (
	EngineLazuli = hub.EngineLazuli
	EngineDTFx   = hub.EngineDTFx
)

// Errors of a Client, compared with errors.Is.
var (
	ErrInstanceNotFound = record.ErrInstanceNotFound
	ErrInstanceExists   = record.ErrInstanceExists
	ErrNotCompleted     = record.ErrNotCompleted
	ErrHubNotFound      = record.ErrHubNotFound
	ErrBadInstanceID    = record.ErrBadInstanceID
	ErrBadRequest       = record.ErrBadRequest
	ErrEntityNotFound   = hub.ErrEntityNotFound
	ErrForeignHub       = record.ErrForeignHub
	ErrNoClient         = record.ErrNoClient
	ErrNotFailed        = record.ErrNotFailed
	ErrTooLarge         = record.ErrTooLarge
)

// New returns a backend. It sends no request.
func New(options Options) (*Backend, error) { return hub.New(options) }

// NewClient opens a hub that exists; it returns ErrHubNotFound otherwise.
func NewClient(ctx context.Context, options Options) (*Client, error) {
	return hub.NewClient(ctx, options)
}

// NewReader opens a hub that exists; it returns ErrHubNotFound otherwise.
func NewReader(ctx context.Context, o Options) (*Reader, error) { return hub.NewReader(ctx, o) }

// StatusName returns a status as Durable Functions writes it.
func StatusName(s Status) string { return record.StatusName(s) }

// ParseStatus reads a status as Durable Functions writes it, in any case.
func ParseStatus(text string) (Status, error) { return record.ParseStatus(text) }

// Describe returns a history for people.
func Describe(events []*Event) []Step { return record.Describe(events) }

// EntityID returns the ID of an entity, "@name@key". Names do not differ by case; the SDKs write them in lower case.
func EntityID(name, key string) string { return hub.EntityID(name, key) }

// InfoFromContext returns the activity that runs with the context.
func InfoFromContext(ctx context.Context) (ActivityInfo, bool) { return hub.InfoFromContext(ctx) }
