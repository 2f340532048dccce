package durablefunc

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/lazuli-storage/lazuli/internal/durable/protocol"
	"github.com/lazuli-storage/lazuli/internal/sdk/ncrontab"
	"github.com/lazuli-storage/lazuli/workers"
)

// The HTTP requests of orchestrations (callHttp) are made by an activity of a reserved name. While the response is 202
// with a Location, a timer and another request follow. The packages' code is to see one task with the last response:
// the timers and further requests have numbers from firstHidden on, and are left out of the history that the code gets.
// https://learn.microsoft.com/azure/azure-functions/durable/durable-functions-http-features

// httpActivity is the activity's name, that of the extension of Durable Functions.
const httpActivity = "BuiltIn::HttpActivity"

// firstHidden is larger than any number that a task of the code has.
const firstHidden = 1 << 30

const (
	// httpTimeout bounds one request, as .NET's HttpClient does.
	httpTimeout = 100 * time.Second
	// maxHTTPContent bounds the content of a response, in bytes.
	maxHTTPContent = 8 << 20
	// defaultHTTPSleep is the time between two requests if the response names none.
	defaultHTTPSleep = 30 * time.Second
)

// headerValues are the values of a header: a text, or a list of texts if they are several.
type headerValues []string

// UnmarshalJSON implements json.Unmarshaler.
func (v *headerValues) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*v = headerValues{one}
		return nil
	}
	var list []string
	err := json.Unmarshal(text, &list)
	*v = list
	return err
}

// MarshalJSON implements json.Marshaler.
func (v headerValues) MarshalJSON() ([]byte, error) {
	if len(v) == 1 {
		return json.Marshal(v[0])
	}
	return json.Marshal([]string(v))
}

// httpRequest is the input of the activity: DurableHttpRequest of the packages.
type httpRequest struct {
	Method      string                  `json:"method"`
	URI         string                  `json:"uri"`
	Headers     map[string]headerValues `json:"headers,omitempty"`
	Content     *string                 `json:"content,omitempty"`
	TokenSource json.RawMessage         `json:"tokenSource,omitempty"`
	// Polls, if false, leaves a response 202 to the code. The package for Python does not set it.
	Polls *bool `json:"asynchronousPatternEnabled,omitempty"`
	// Task is the number of the task that a further request belongs to; nil for the first request.
	Task *int32 `json:"task,omitempty"`
	// Timeout bounds the request; it is a TimeSpan of .NET, such as 00:00:30. RetryOptions make the activity fail with
	// the responses that the package for .NET is to try again.
	Timeout      *string           `json:"timeout,omitempty"`
	RetryOptions *httpRetryOptions `json:"retryOptions,omitempty"`
}

// httpRetryOptions say which responses fail the activity: those with these codes, or all errors without any.
type httpRetryOptions struct {
	StatusCodes []int `json:"statusCodesToRetry"`
}

func (o *httpRetryOptions) retries(status int) bool {
	switch {
	case o == nil:
		return false
	case len(o.StatusCodes) == 0:
		return status >= http.StatusMultipleChoices
	}
	return slices.Contains(o.StatusCodes, status)
}

// httpResponse is the activity's result: DurableHttpResponse of the packages.
type httpResponse struct {
	StatusCode int                     `json:"statusCode"`
	Headers    map[string]headerValues `json:"headers"`
	Content    string                  `json:"content"`
}

func (r *httpRequest) action() *protocol.OrchestratorAction_ScheduleTask {
	input, _ := json.Marshal(r) // Of a request that was read from JSON.
	return &protocol.OrchestratorAction_ScheduleTask{
		ScheduleTask: &protocol.ScheduleTaskAction{Name: httpActivity, Input: wrapperspb.String(string(input))}}
}

// next returns the request that follows a response, and the time to wait for before it; nil if the response is the
// last. now is the time of the response.
func (r *httpRequest) next(result string, sleep time.Duration, now time.Time) (*httpRequest, time.Duration) {
	var response httpResponse
	if r.Polls != nil && !*r.Polls || json.Unmarshal([]byte(result), &response) != nil ||
		response.StatusCode != http.StatusAccepted {
		return nil, 0
	}
	header := http.Header{}
	for name, values := range response.Headers {
		header[http.CanonicalHeaderKey(name)] = values
	}
	from, err := url.Parse(r.URI)
	if err != nil || header.Get("Location") == "" {
		return nil, 0
	}
	to, err := from.Parse(header.Get("Location"))
	if err != nil {
		return nil, 0
	}
	if after := header.Get("Retry-After"); after != "" {
		if n, err := strconv.Atoi(after); err == nil && n >= 0 {
			sleep = time.Duration(min(n, maxRetryAfter)) * time.Second
		} else if at, err := http.ParseTime(after); err == nil {
			sleep = max(0, at.Sub(now))
		}
	}
	next := &httpRequest{Method: http.MethodGet, URI: to.String(), Headers: maps.Clone(r.Headers), Polls: r.Polls}
	maps.DeleteFunc(next.Headers, func(name string, _ headerValues) bool {
		switch strings.ToLower(name) {
		case "x-functions-key", "content-type": // The key may be of the first function only.
			return true
		case "authorization", "cookie", "proxy-authorization":
			return from.Scheme != to.Scheme || from.Host != to.Host
		}
		return false
	})
	return next, sleep
}

// maxRetryAfter bounds the seconds of a Retry-After.
const maxRetryAfter = 30 * 24 * 60 * 60

// poll handles what has happened to an HTTP call: a response, or the timer before the next request.
func (m *simulation) poll(t *task, result string) {
	if t.waits {
		t.waits = false
		m.hide(t, t.request.action())
		return
	}
	next, sleep := t.request.next(result, m.httpSleep, m.now)
	if next == nil {
		t.done = true
		return
	}
	next.Task, t.request, t.waits = &t.number, next, true
	action := &protocol.OrchestratorAction{OrchestratorActionType: timerAction(m.now.Add(sleep))}
	m.hideAction(t, action)
}

func (m *simulation) hide(t *task, request *protocol.OrchestratorAction_ScheduleTask) {
	m.hideAction(t, &protocol.OrchestratorAction{OrchestratorActionType: request})
}

// hideAction gives a task an action that the code does not know of.
func (m *simulation) hideAction(t *task, a *protocol.OrchestratorAction) {
	// The code counts its own tasks, and not the timers and requests of a poll. Those have numbers that no task reaches.
	a.Id = m.hidden
	m.hidden++
	m.tasks[a.Id] = t
	if !m.scheduled[a.Id] {
		m.actions = append(m.actions, a)
	}
}

// polls are the HTTP calls in a history, by the number of each request.
type polls map[int32]*httpRequest

// shown returns an event as the code is to see it; nil if it is not to.
func (p polls) shown(e *protocol.HistoryEvent) *protocol.HistoryEvent {
	switch {
	case e.GetTaskScheduled() != nil:
		if e.GetTaskScheduled().Name == httpActivity {
			var r *httpRequest
			if json.Unmarshal([]byte(e.GetTaskScheduled().Input.GetValue()), &r) != nil || r == nil {
				return e
			}
			if r.Task == nil {
				r.Task = &e.EventId
			}
			p[e.EventId] = r
		}
		if e.EventId >= firstHidden {
			return nil
		}
	case e.GetTimerCreated() != nil && e.EventId >= firstHidden, e.GetTimerFired().GetTimerId() >= firstHidden:
		return nil
	case e.GetTaskCompleted() != nil:
		c := e.GetTaskCompleted()
		r := p[c.TaskScheduledId]
		if r == nil {
			return e
		}
		// Only whether another request follows matters here. Then the call is not complete for the code, which sees the
		// last response alone, under the number of its own task.
		if next, _ := r.next(c.Result.GetValue(), 0, time.Time{}); next != nil {
			return nil
		}
		return &protocol.HistoryEvent{EventId: e.EventId, Timestamp: e.Timestamp,
			EventType: &protocol.HistoryEvent_TaskCompleted{TaskCompleted: &protocol.TaskCompletedEvent{
				TaskScheduledId: *r.Task, Result: c.Result}}}
	case e.GetTaskFailed() != nil:
		f := e.GetTaskFailed()
		if r := p[f.TaskScheduledId]; r != nil {
			return &protocol.HistoryEvent{EventId: e.EventId, Timestamp: e.Timestamp,
				EventType: &protocol.HistoryEvent_TaskFailed{TaskFailed: &protocol.TaskFailedEvent{
					TaskScheduledId: *r.Task, FailureDetails: f.FailureDetails}}}
		}
	}
	return e
}

// httpClient makes the requests.
var httpClient = &http.Client{Timeout: httpTimeout}

// readHTTPRequest reads the input of the activity. The package for .NET has it in a list of one.
func readHTTPRequest(input []byte) (r httpRequest, err error) {
	var list []json.RawMessage
	if json.Unmarshal(input, &list) == nil && len(list) == 1 {
		input = list[0]
	}
	if err := json.Unmarshal(input, &r); err != nil {
		return r, workers.Permanent(fmt.Errorf("the request of callHttp cannot be read: %w", err))
	}
	return r, nil
}

// callHTTP is the activity.
// https://github.com/Azure/azure-functions-durable-extension (TaskHttpActivityShim)
func callHTTP(ctx context.Context, input []byte) ([]byte, error) {
	r, err := readHTTPRequest(input)
	if err != nil {
		return nil, err
	}
	if r.Timeout != nil {
		limit, err := ncrontab.ParseTimeSpan(*r.Timeout)
		if err != nil || limit <= 0 {
			// The text comes from the orchestration and is the same at each attempt.
			return nil, workers.Permanent(fmt.Errorf("callHttp: the timeout %.50q is not a time", *r.Timeout))
		}
		bounded, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no response within %v, the timeout", limit))
		defer cancel()
		ctx = bounded
	}
	request, err := r.make(ctx)
	if err != nil {
		return nil, workers.Permanent(fmt.Errorf("callHttp: %w", err))
	}
	got, err := httpClient.Do(request)
	if err != nil {
		// Do returns its own text for a deadline; the cause says whose limit it was.
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return nil, fmt.Errorf("callHttp: %w", err)
	}
	defer got.Body.Close()
	// An error without Permanent lets the runtime repeat the activity by its policy, which came with the request.
	if r.RetryOptions.retries(got.StatusCode) {
		return nil, fmt.Errorf("callHttp: the response is %s, which is to be tried again", got.Status)
	}
	text, err := io.ReadAll(io.LimitReader(got.Body, maxHTTPContent+1))
	if err != nil {
		return nil, fmt.Errorf("callHttp: read the response: %w", err)
	}
	// The result becomes part of the history, which is read at each step.
	if len(text) > maxHTTPContent {
		return nil, workers.Permanent(fmt.Errorf("callHttp: the response has more than %d MiB", maxHTTPContent>>20))
	}
	response := httpResponse{StatusCode: got.StatusCode, Headers: map[string]headerValues{},
		// A result is JSON text; other bytes could not be in it.
		Content: string(bytes.ToValidUTF8(text, []byte("\ufffd")))}
	for name, values := range got.Header {
		response.Headers[name] = values
	}
	return json.Marshal(response)
}

func (r *httpRequest) make(ctx context.Context) (*http.Request, error) {
	if len(r.TokenSource) > 0 && string(r.TokenSource) != "null" {
		return nil, errors.New("a tokenSource is not supported: get the token in an activity, and set the header " +
			"Authorization")
	}
	if u, err := url.Parse(r.URI); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("the uri %.200q is not an absolute one of http or https", r.URI)
	}
	var body io.Reader
	if r.Content != nil {
		body = strings.NewReader(*r.Content)
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, r.URI, body)
	if err != nil {
		return nil, err
	}
	for name, values := range r.Headers {
		request.Header[http.CanonicalHeaderKey(name)] = slices.Clone(values)
	}
	switch kind := request.Header.Get("Content-Type"); {
	case strings.Contains(kind, "multipart"):
		return nil, errors.New("multipart content is not supported")
	case kind == "" && body != nil:
		request.Header.Set("Content-Type", "text/plain")
	}
	return request, nil
}
