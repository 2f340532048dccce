package functions

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/lazuli-storage/lazuli/functions/internal/expression"
	"github.com/lazuli-storage/lazuli/workers"
)

// invocation is one call of a function.
type invocation struct {
	id       string
	function *function
	reason   string
	began    time.Time
	data     expression.Data
	// trigger is the trigger's value for Data.
	trigger any
	// returned is the ReturnValue of the answer.
	returned Value
	retry    *RetryContext
	// forward passes the HTTP request of an HTTP trigger on to an address, and the response back; nil for other triggers.
	forward func(ctx context.Context, address string, returned <-chan error) error
	// gone is closed when the client of an HTTP trigger has disconnected; nil for other triggers.
	gone <-chan struct{}
	// forwarded: there was a response to pass back; broken: it ended too early.
	forwarded, broken bool
	// bytes: what is no text is passed as bytes, not as text with replacement characters.
	bytes bool
	trace workers.TraceContext
	about string // the message or workflow instance that it is about
	log   *slog.Logger
	// kept is for Status, which must not hold what the invocation was called with.
	kept *invocationPast
}

// maxBody is the maximum length of a blob, a request's body and a response that are kept in memory.
const maxBody = 256 << 20

var errTooLarge = fmt.Errorf("it has more than %d MiB", maxBody>>20)

// readBounded reads all of a body of at most maxBody bytes.
func readBounded(r io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(r, maxBody+1))
	if err == nil && len(text) > maxBody {
		err = errTooLarge
	}
	return text, err
}

// traceOf takes the trace that a request belongs to.
func (inv *invocation) traceOf(r *http.Request) {
	inv.trace = workers.TraceContext{TraceParent: r.Header.Get("Traceparent"), TraceState: r.Header.Get("Tracestate")}
}

// stateKey is the entry of a tracestate that names an invocation, and behind a slash its message or workflow instance.
const stateKey = "lazuli="

// beginTrace begins a trace if the invocation belongs to none, as the host of Azure does: handlers and workers send it
// with their requests, by which these are found. Its ID is that of the invocation. The flags say that it is not
// recorded: middleware that records has begun a trace by now. An entry of the tracestate names the invocation, which is
// not in the trace of a message. The tracestate of the caller of an HTTP function stays as it was sent, since functions
// read it: the workers of Node.js and Python add the entry to what they send.
// https://www.w3.org/TR/trace-context/
func (inv *invocation) beginTrace() {
	id, err := uuid.Parse(inv.id)
	if inv.trace.TraceParent == "" && err == nil {
		inv.trace.TraceParent = fmt.Sprintf("00-%x-%x-00", id[:], id[:8])
	}
	if strings.Contains(inv.trace.TraceState, stateKey+inv.id) || inv.trace.TraceState != "" && inv.about == "" {
		return // an earlier attempt, or a caller's
	}
	entry := stateKey + inv.id
	if whole := entry + "/" + inv.about; inv.about != "" && len(whole) <= 256 && stateText(inv.about) {
		entry = whole
	}
	list := []string{entry}
	for other := range strings.SplitSeq(inv.trace.TraceState, ",") {
		// A list has up to 32 entries, and each key once.
		if other = strings.TrimSpace(other); other != "" && !strings.HasPrefix(other, stateKey) && len(list) < 32 {
			list = append(list, other)
		}
	}
	inv.trace.TraceState = strings.Join(list, ",")
}

// stateText reports whether a text can be in the value of an entry of a tracestate.
func stateText(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == ',' || r == '=' })
}

// addInput makes a trigger's text the value for Data, and its members known to expressions if it is a JSON object.
func (inv *invocation) addInput(text []byte, binary bool) {
	if binary || inv.bytes && !utf8.Valid(text) {
		inv.trigger = text
		return
	}
	s := string(bytes.ToValidUTF8(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), []byte("\ufffd")))
	inv.trigger = s
	inv.data.AddPayload(s)
}

// invoker calls functions: in the web server of a custom handler, or in language workers.
type invoker interface {
	// run keeps the processes that are called running until ctx is done.
	run(ctx context.Context) error
	// invoke calls a function, with the values of its trigger and input bindings.
	invoke(ctx context.Context, inv *invocation, inputs map[string]any) (*response, error)
}
