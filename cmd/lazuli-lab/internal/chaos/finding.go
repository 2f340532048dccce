package chaos

import (
	"errors"
	"fmt"
	"sync"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// Kind sorts findings by what is broken.
type Kind string

const (
	// Lost is acknowledged data that is not there.
	Lost Kind = "lost"
	// Stale is data that an acknowledged write replaced.
	Stale Kind = "stale"
	// Doubled is a write that took effect twice, or a message that was delivered while it was hidden.
	Doubled Kind = "doubled"
	// Resurrected is data that an acknowledged request deleted.
	Resurrected Kind = "resurrected"
	// Wrong is data that no request wrote, also one half of an atomic write.
	Wrong Kind = "wrong"
	// Refused is an answer or an end of the process that the model does not allow.
	Refused Kind = "refused"
	// Nonlinear is a history that no order of its requests explains.
	Nonlinear Kind = "not linearizable"
	// Unclean is a data folder in which fsck finds errors.
	Unclean Kind = "fsck errors"
)

var kinds = []Kind{Lost, Stale, Doubled, Resurrected, Wrong, Nonlinear, Refused, Unclean}

// Finding is one broken promise. It is an error, so that a client can return it.
type Finding struct {
	Round int
	Kind  Kind
	What  string
}

func (f *Finding) Error() string { return fmt.Sprintf("%s: %s", f.Kind, f.What) }

func broken(k Kind, format string, args ...any) error {
	return &Finding{Kind: k, What: fmt.Sprintf(format, args...)}
}

// checker collects what a comparison of a server with the models finds. Many clients use it at the same time.
type checker struct {
	// damaged is set for a server on a damaged folder: errors of reads are counted, not found.
	damaged bool

	mu       sync.Mutex // guards what follows
	findings []*Finding
	errors   int
}

func (c *checker) found(k Kind, format string, args ...any) { c.add(broken(k, format, args...)) }

// add adds an error: a Finding as it is, others as errors of reads.
func (c *checker) add(err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var f *Finding
	switch {
	case errors.As(err, &f):
	case c.damaged:
		c.errors++
		return
	default:
		f = &Finding{Kind: Refused, What: err.Error()}
	}
	c.findings = append(c.findings, f)
}

// has reports whether there is a finding of a kind; no kinds means any.
func (c *checker) has(of ...Kind) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.findings {
		if len(of) == 0 {
			return true
		}
		for _, k := range of {
			if f.Kind == k {
				return true
			}
		}
	}
	return false
}

// status returns the HTTP status of a refused request, or 0.
func status(err error) int {
	var r *azcore.ResponseError
	if errors.As(err, &r) {
		return r.StatusCode
	}
	return 0
}

// expect turns the answer to a request that must fail into nil, and any other into a Finding.
func expect(err error, what string, statuses ...int) error {
	if err == nil {
		return broken(Wrong, "%s was accepted", what)
	}
	for _, s := range statuses {
		if status(err) == s {
			return nil
		}
	}
	return err
}
