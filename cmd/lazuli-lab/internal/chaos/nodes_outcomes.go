package chaos

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// outcomes counts the requests to one service of a cluster, and has what was found wrong.
type outcomes struct {
	mu       sync.Mutex // guards the rest
	unknown  int64      // requests without an answer
	refused  int64      // requests that were answered 503
	findings []*Finding
	when     time.Time     // of the last acknowledged request
	gap      time.Duration // the longest time between two acknowledged requests
	recent   time.Duration // the same, since gapSince
}

// gapSince returns the longest time between two acknowledged requests since the call before.
func (o *outcomes) gapSince() time.Duration {
	o.mu.Lock()
	defer o.mu.Unlock()
	gap := o.recent
	o.recent = 0
	return gap
}

// answered counts a request. It returns true if it was acknowledged.
func (o *outcomes) answered(err error, count *int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch s := status(err); {
	case err == nil:
		*count++
		now := time.Now()
		if !o.when.IsZero() {
			o.recent = max(o.recent, now.Sub(o.when))
			o.gap = max(o.gap, o.recent)
		}
		o.when = now
		return true
	case s == http.StatusServiceUnavailable, s == http.StatusInsufficientStorage:
		o.refused++
	case s == http.StatusInternalServerError && errorCode(err) == "OperationTimedOut":
		o.unknown++
	case s != 0:
		o.found(Refused, "%v", err)
	default:
		o.unknown++
	}
	return false
}

func (o *outcomes) found(k Kind, format string, args ...any) {
	o.findings = append(o.findings, &Finding{Kind: k, What: fmt.Sprintf(format, args...)})
}

// add adds the numbers to the report. The caller holds mu.
func (o *outcomes) add(r *NodesReport, noun string) {
	r.Unknown += o.unknown
	r.Unavailable += o.refused
	r.gap(noun, o.gap)
	r.Findings = append(r.Findings, o.findings...)
}

// errorCode returns the code of a refused request, "" for another error.
func errorCode(err error) string {
	var r *azcore.ResponseError
	if errors.As(err, &r) {
		return r.ErrorCode
	}
	return ""
}
