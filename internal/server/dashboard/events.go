package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
	"github.com/lazuli-storage/lazuli/internal/server/events"
)

// flushPatience is the time that a flush waits.
const flushPatience = 8 * time.Second

// errNoEvents is the answer where event subscriptions are not allowed.
var errNoEvents = frame.NewProblem(http.StatusForbidden, "Event subscriptions are not allowed",
	"Start lazuli with --events. In a cluster, use the dashboard of the node that delivers events; lazuli event ls "+
		"names it.")

// eventsPage holds the event subscriptions.
type eventsPage struct {
	On    bool // subscriptions are allowed
	Types []string
	Rows  []events.Status
	Hosts string
	Now   time.Time
}

func (eventsPage) Template() string { return "events" }

// events shows the event subscriptions and what became of their events.
func (d *dashboard) events(w http.ResponseWriter, r *http.Request) error {
	data := eventsPage{Now: d.Now(), Types: events.AllTypes}
	if m := d.options.Backend().Events(); m != nil {
		data.On, data.Rows, data.Hosts = true, m.List(), m.Hosts.String()
	}
	return d.Show(w, r, "Events", nil, data)
}

// changeEvents adds or removes a subscription, or delivers all events at once.
func (d *dashboard) changeEvents(w http.ResponseWriter, r *http.Request) error {
	m := d.options.Backend().Events()
	if m == nil {
		return errNoEvents
	}
	var err error
	outcome := ""
	switch r.PostFormValue("action") {
	case "add":
		outcome = "subscribed"
		_, err = m.Add(r.Context(), subscriptionOf(r))
	case "remove":
		outcome = "removed"
		err = m.Remove(r.PostFormValue("account"), r.PostFormValue("name"))
	case "flush":
		outcome = "flushed"
		err = flush(r.Context(), m)
	default:
		return frame.ErrAction
	}
	if err != nil {
		return eventProblem(err)
	}
	return frame.Back(w, r, nil, frame.Link("events"), outcome)
}

// flush delivers all events so far, or says which subscriptions are not done.
func flush(ctx context.Context, m *events.Manager) error {
	ctx, cancel := context.WithTimeout(ctx, flushPatience)
	defer cancel()
	left, err := m.Flush(ctx)
	if !errors.Is(err, events.ErrUndelivered) {
		return err
	}
	text := "These subscriptions still have events:"
	for name, last := range left.Undelivered {
		text += " " + name
		if last != "" {
			text += " (" + last + ")"
		}
	}
	return frame.NewProblem(http.StatusGatewayTimeout, "Not all events were delivered in "+flushPatience.String(), text)
}

// subscriptionOf reads a subscription from the form.
func subscriptionOf(r *http.Request) events.Subscription {
	text := func(name string) string { return strings.TrimSpace(r.PostFormValue(name)) }
	return events.Subscription{Account: text("account"), Name: text("name"), EndpointType: text("endpointType"),
		Endpoint:       text("endpoint"),
		DeliverySchema: text("schema"), IncludedEventTypes: r.PostForm["type"], SubjectBeginsWith: text("begins"),
		SubjectEndsWith:     text("ends"),
		DeadLetterContainer: text("deadletter")}
}

// eventProblem is the page of an error of event subscriptions.
func eventProblem(err error) error {
	if errors.Is(err, events.ErrNotFound) {
		return frame.NewProblem(http.StatusNotFound, "There is no such subscription", "It may have been removed meanwhile.")
	}
	for _, known := range []struct {
		err    error
		status int
		help   string
	}{
		{events.ErrInvalid, http.StatusBadRequest, "docs/events.md describes the fields."},
		{events.ErrHandshake, http.StatusBadRequest,
			"The endpoint must run and answer the handshake; docs/events.md describes it."},
		{events.ErrHost, http.StatusForbidden, ""}, {events.ErrExists, http.StatusConflict, "Choose another name."},
		{events.ErrTooMany, http.StatusConflict, "Remove one first."},
	} {
		if errors.Is(err, known.err) {
			return frame.NewProblem(known.status, err.Error(), known.help)
		}
	}
	return err
}
