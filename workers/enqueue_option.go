package workers

import (
	"errors"
	"fmt"
	"time"

	"github.com/lazuli-storage/lazuli/workers/internal/queues"
)

// EnqueueOption is an option of Enqueue.
type EnqueueOption func(*enqueueSettings)

type enqueueSettings struct {
	encoding Encoding
	after    time.Duration
	ttl      time.Duration
	job      jobSettings
}

// validate checks the options of a message.
func (s enqueueSettings) validate() error {
	switch {
	case s.after < 0 || s.after > queues.MaxLease:
		return fmt.Errorf("a delay of %v is not within 0 to 7 days", s.after)
	case s.ttl == 0:
		return errors.New("a time to live of 0")
	case s.encoding != Base64 && s.encoding != NoEncoding:
		return fmt.Errorf("message encoding %q is neither %q nor %q", s.encoding, Base64, NoEncoding)
	}
	return nil
}

// jobSettings are the options of a job.
type jobSettings struct {
	key    *string
	period time.Duration
	keep   time.Duration
}

// refuseJob returns an error if options of jobs were given to a function that puts plain messages.
func (s enqueueSettings) refuseJob() error {
	if s.job != (jobSettings{}) {
		return errors.New("Unique, UniqueFor and Keep are options of EnqueueJob")
	}
	return nil
}
