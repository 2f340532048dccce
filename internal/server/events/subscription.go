package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
)

// The schemas of deliveries, by the names of `az eventgrid event-subscription create --event-delivery-schema`.
const (
	GridSchema  = "eventgridschema"
	CloudEvents = "cloudeventschemav1_0"
)

// The types of endpoints, by the names of --endpoint-type.
const (
	Webhook      = "webhook"
	StorageQueue = "storagequeue"
)

// Subscription says which events of an account are delivered, where, and how. Fields, defaults and limits are those of
// `az eventgrid event-subscription create`.
type Subscription struct {
	// Name has 3 to 64 letters, digits and hyphens.
	Name string `json:"name"`
	// Account is the account whose events are delivered.
	Account string `json:"account"`
	// EndpointType is webhook, the default, or storagequeue.
	EndpointType string `json:"endpointType,omitempty"`
	// Endpoint is the webhook's URL, or the name of a queue of the account.
	Endpoint string `json:"endpoint"`
	// DeliverySchema is eventgridschema, the default, or cloudeventschemav1_0.
	DeliverySchema string `json:"eventDeliverySchema,omitempty"`
	// IncludedEventTypes are some of AllTypes. Empty is DefaultTypes.
	IncludedEventTypes []string `json:"includedEventTypes,omitempty"`
	// SubjectBeginsWith and SubjectEndsWith select events by their subject, without regard to case unless
	// SubjectCaseSensitive is set.
	SubjectBeginsWith    string `json:"subjectBeginsWith,omitempty"`
	SubjectEndsWith      string `json:"subjectEndsWith,omitempty"`
	SubjectCaseSensitive bool   `json:"subjectCaseSensitive,omitempty"`
	// AdvancedFilters must all match: at most 25, with at most 25 values in sum.
	AdvancedFilters []AdvancedFilter `json:"advancedFilters,omitempty"`
	// MaxDeliveryAttempts is 1 to 30; 0 is 30.
	MaxDeliveryAttempts int `json:"maxDeliveryAttempts,omitempty"`
	// EventTTL is for how many minutes delivery of an event is tried: 1 to 1440; 0 is 1440.
	EventTTL int `json:"eventTtl,omitempty"`
	// MaxEventsPerBatch is 1 to 5000 events in a request; 0 is 1. PreferredBatchSize is 1 to 1024 KiB; 0 is 64.
	MaxEventsPerBatch  int `json:"maxEventsPerBatch,omitempty"`
	PreferredBatchSize int `json:"preferredBatchSizeInKilobytes,omitempty"`
	// DeadLetterContainer is the container of the account to which events go that cannot be delivered. They are dropped
	// without one.
	DeadLetterContainer string `json:"deadletterContainer,omitempty"`
}

// ErrInvalid means that a subscription is not valid. The error that wraps it names the field.
var ErrInvalid = errors.New("invalid event subscription")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{ErrInvalid}, args...)...)
}

var subscriptionName = lazyregexp.New(`^[A-Za-z0-9-]{3,64}$`)

// maxSubject is the maximum length of a filter by subject, and of a text in an advanced filter.
const maxSubject = 512

// Decode parses a subscription from JSON. Unknown fields are errors.
func Decode(text []byte) (s Subscription, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return s, invalid("%w", err)
	}
	if d.More() {
		return s, invalid("text follows the subscription")
	}
	return s, nil
}

// Check reports what is wrong with a subscription as far as that does not depend on the server: an error that wraps
// [ErrInvalid], or nil.
func (s Subscription) Check() error { return s.normalize() }

// normalize sets defaults and checks every field.
func (s *Subscription) normalize() error {
	// Defaults first: the checks below see what is stored.
	for _, d := range []struct {
		field *string
		value string
	}{{&s.EndpointType, Webhook}, {&s.DeliverySchema, GridSchema}} {
		if *d.field == "" {
			*d.field = d.value
		}
	}
	if !subscriptionName().MatchString(s.Name) {
		return invalid("name: want 3 to 64 letters, digits and hyphens")
	}
	for _, n := range []struct {
		name           string
		field          *int
		max, otherwise int
	}{
		{"maxDeliveryAttempts", &s.MaxDeliveryAttempts, 30, 30}, {"eventTtl", &s.EventTTL, 1440, 1440},
		{"maxEventsPerBatch", &s.MaxEventsPerBatch, 5000, 1},
		{"preferredBatchSizeInKilobytes", &s.PreferredBatchSize, 1024, 64},
	} {
		// 0 is "not given" in JSON; Event Grid has no zero among these either.
		if *n.field == 0 {
			*n.field = n.otherwise
		}
		if *n.field < 1 || *n.field > n.max {
			return invalid("%s: want 1 to %d", n.name, n.max)
		}
	}
	if !slices.Contains([]string{GridSchema, CloudEvents}, s.DeliverySchema) {
		return invalid("eventDeliverySchema: want %s or %s", GridSchema, CloudEvents)
	}
	for _, t := range s.IncludedEventTypes {
		if !slices.Contains(AllTypes, t) {
			return invalid("includedEventTypes: %q is not one of %s", t, strings.Join(AllTypes, ", "))
		}
	}
	if len(s.SubjectBeginsWith) > maxSubject || len(s.SubjectEndsWith) > maxSubject {
		return invalid("subjectBeginsWith, subjectEndsWith: want at most %d bytes", maxSubject)
	}
	if err := s.checkEndpoint(); err != nil {
		return err
	}
	return checkAdvanced(s.AdvancedFilters)
}

func (s *Subscription) checkEndpoint() error {
	switch s.EndpointType {
	case Webhook:
		u, err := url.Parse(s.Endpoint)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.Fragment != "" ||
			len(s.Endpoint) > 2048 {
			return invalid("endpoint: want the URL of a webhook, http or https, without a user and a fragment, of at most " +
				"2048 bytes")
		}
	case StorageQueue:
		if s.Endpoint == "" || strings.ContainsAny(s.Endpoint, "/?#") {
			return invalid("endpoint: want the name of a queue of the account")
		}
		if s.MaxEventsPerBatch > 1 {
			return invalid("maxEventsPerBatch: a message has one event")
		}
	default:
		return invalid("endpointType: want %s or %s", Webhook, StorageQueue)
	}
	return nil
}

func (s *Subscription) ttl() time.Duration { return time.Duration(s.EventTTL) * time.Minute }

// matches reports whether the subscription wants an event.
func (s *Subscription) matches(e *Event) bool {
	types := s.IncludedEventTypes
	if len(types) == 0 {
		types = DefaultTypes
	}
	if !slices.Contains(types, e.Type) {
		return false
	}
	// Its own dead letters would come back as events, and fail again.
	if s.DeadLetterContainer != "" &&
		strings.HasPrefix(e.Subject, "/blobServices/default/containers/"+s.DeadLetterContainer+"/") {
		return false
	}
	subject, begin, end := e.Subject, s.SubjectBeginsWith, s.SubjectEndsWith
	if !s.SubjectCaseSensitive {
		subject, begin, end = strings.ToLower(subject), strings.ToLower(begin), strings.ToLower(end)
	}
	return strings.HasPrefix(subject, begin) && strings.HasSuffix(subject, end) && matchAdvanced(s.AdvancedFilters, e)
}
