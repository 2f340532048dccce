package logstore

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/lazyregexp"
)

// Record is one line of a log. In JSON, as a message of the role's queue, it is
//
//	{"service":"orders","time":"2026-03-01T02:03:04.5Z","level":"ERROR","message":"out of stock","id":"7f-12","attrs":{"sku":"A7"}}
//
// of which service and message are required. Level is parsed by ParseLevel. See UnmarshalJSON for members that a Record
// does not have.
type Record struct {
	// Service begins the name of the record's blob: letters, digits, dashes and underscores, up to 63.
	Service string
	// Time decides in which blob the record is kept. Zero means now, or, from a queue, when the message was put.
	Time time.Time
	// Level is one of slog's, or LevelTrace, LevelNotice, LevelCritical or LevelFatal.
	Level slog.Level
	// Message is the text.
	Message string
	// ID distinguishes records with the same time. Records with the same time and ID are duplicates. Empty means a new ID,
	// or, for a record from a queue, the message's ID.
	ID string
	// Attrs is a JSON object with further values, or nil.
	Attrs json.RawMessage
}

// MaxLine is the longest line that is written or read, in bytes.
const MaxLine = 1 << 20

// serviceName are the services that a blob's name may begin with.
var serviceName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_-]{0,62}$`)

// ErrRecord is wrapped by the error for a record that can never be written.
var ErrRecord = errors.New("logstore: the record is not valid")

// line returns the record as stored in a blob, with its newline.
func (r Record) line() ([]byte, error) {
	switch {
	case !serviceName().MatchString(r.Service):
		return nil, fmt.Errorf("%w: the service %.80q must have only letters, digits, dashes and underscores", ErrRecord,
			r.Service)
	case r.Time.Year() < 1 || r.Time.Year() > 9999:
		return nil, fmt.Errorf("%w: the year %d", ErrRecord, r.Time.Year())
	}
	r.Service = "" // the blob's name has it
	b, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRecord, err)
	}
	if len(b) >= MaxLine {
		return nil, fmt.Errorf("%w: %d bytes; the maximum is %d", ErrRecord, len(b), MaxLine)
	}
	return append(b, '\n'), nil // The JSON has no newline: Marshal also compacts Attrs
}

func parseRecord(line []byte) (Record, error) {
	var r Record
	err := json.Unmarshal(line, &r)
	if err == nil && r.Time.IsZero() {
		err = errors.New("no time")
	}
	return r, err
}

// The names of a blob's metadata, which are those of Storage Analytics.
const (
	metaStart   = "StartTime"
	metaEnd     = "EndTime"
	metaType    = "LogType"
	metaVersion = "LogVersion"
)

// version is the LogVersion of lines that are Records in JSON.
const version = "json-1"

// timeLayout is the form of StartTime and EndTime; Storage Analytics has no fraction.
const timeLayout = "2006-01-02T15:04:05.000000000Z"

// metadata returns a value whatever the case of its name, which HTTP does not keep.
func metadata(m map[string]*string, name string) string {
	for n, v := range m {
		if strings.EqualFold(n, name) && v != nil {
			return *v
		}
	}
	return ""
}
