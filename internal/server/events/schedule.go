package events

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strconv"
	"time"
)

// responseTimeout is the time that an endpoint may take for its response.
const responseTimeout = 30 * time.Second

// schedule has the pauses before the second attempt, the third, and so on; the last one repeats.
// https://learn.microsoft.com/azure/event-grid/delivery-and-retry#retry-schedule
var schedule = []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute, 10 * time.Minute,
	30 * time.Minute,
	time.Hour, 3 * time.Hour, 6 * time.Hour, 12 * time.Hour}

// jitterShare is the largest part of a pause that is added to it at random.
const jitterShare = 0.1

// result is the result of one attempt.
type result struct {
	// status is the HTTP status; 0 if there was no response.
	status int
	err    error
}

// ok reports whether the endpoint has accepted the events.
func (r result) ok() bool {
	return r.err == nil && r.status >= http.StatusOK && r.status <= http.StatusNoContent
}

// final reports whether another attempt would be useless, as Event Grid sees it.
func (r result) final(endpointType string) bool {
	switch r.status {
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusForbidden:
		return true
	case http.StatusUnauthorized:
		return endpointType == Webhook
	}
	return false
}

// pause is the time to wait after an attempt. attempts counts it; jitter is from 0 to 1.
func (r result) pause(endpointType string, attempts int, jitter float64) time.Duration {
	pause := schedule[min(max(attempts, 1), len(schedule))-1]
	least := time.Duration(0)
	switch r.status {
	case http.StatusRequestTimeout:
		least = 2 * time.Minute
	case http.StatusServiceUnavailable:
		least = 30 * time.Second
	case http.StatusUnauthorized, http.StatusNotFound:
		if endpointType != Webhook {
			least = 5 * time.Minute
		}
	}
	pause = max(pause, least)
	return pause + time.Duration(jitter*jitterShare*float64(pause))
}

// outcome is the result in the words of lastDeliveryOutcome.
// https://learn.microsoft.com/azure/event-grid/delivery-and-retry#dead-letter-events
func (r result) outcome() string {
	var dns *net.DNSError
	switch {
	case r.ok():
		return "Delivered"
	// Names before times, as a resolver that does not answer is both.
	case errors.As(r.err, &dns):
		return "ResolutionError"
	case errors.Is(r.err, context.DeadlineExceeded) || isTimeout(r.err):
		return "TimedOut"
	case r.err != nil:
		return "SocketError"
	}
	switch r.status {
	case http.StatusBadRequest:
		return "BadRequest"
	case http.StatusUnauthorized:
		return "Unauthorized"
	case http.StatusForbidden:
		return "Forbidden"
	case http.StatusNotFound:
		return "NotFound"
	case http.StatusRequestTimeout:
		return "TimedOut"
	case http.StatusPreconditionFailed:
		return "PreconditionFailed"
	case http.StatusRequestEntityTooLarge:
		return "RequestEntityTooLarge"
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return "Busy"
	}
	return "GenericError"
}

func isTimeout(err error) bool {
	var t interface{ Timeout() bool }
	return errors.As(err, &t) && t.Timeout()
}

// text is the result for people.
func (r result) text() string {
	switch {
	case r.ok():
		return ""
	case r.err != nil:
		return r.err.Error()
	}
	return "the endpoint answered " + strconv.Itoa(r.status)
}
