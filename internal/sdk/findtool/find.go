package findtool

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
)

// Account has the clients of an account. A nil client leaves its service out.
type Account struct {
	Blobs  *service.Client
	Queues *azqueue.ServiceClient
	Tables *aztables.ServiceClient
}

// Bounds bound one call of [Find]. It ends at the first that is reached, between two requests.
type Bounds struct {
	Results int
	Rows    int   // entities, messages and names that are read
	Bytes   int64 // of what is read
	Time    time.Duration
}

// Usual are bounds for a person who waits.
var Usual = Bounds{Results: 100, Rows: 200_000, Bytes: 32 << 20, Time: 3 * time.Second}

// MaxText is the longest text that is looked for, in bytes: that of a blob's name.
const MaxText = 1024

// Kinds of what is found.
const (
	Container = "container"
	Queue     = "queue"
	Table     = "table"
	Instance  = "workflow instance"
	Job       = "job"
	Entity    = "entity"
	Blob      = "blob"
	Message   = "message"
)

// Found is a thing that matches.
type Found struct {
	Kind string `json:"kind"`
	// In is the container, queue, table or task hub of it; empty for these themselves.
	In string `json:"in,omitempty"`
	// Name is that of a container, queue, table or blob, or the ID of a message, job or workflow instance.
	Name         string `json:"name,omitempty"`
	PartitionKey string `json:"partitionKey,omitempty"`
	RowKey       string `json:"rowKey,omitempty"`
	// Text is the part of a message around what matches.
	Text string `json:"text,omitempty"`
	// After is the position in a queue behind which a message is, for queuetool.PeekPage.
	After string `json:"-"`
}

// Answer is what a call of [Find] has found.
type Answer struct {
	Found []Found       `json:"found"`
	Rows  int           `json:"rows"`
	Bytes int64         `json:"bytes"`
	Took  time.Duration `json:"-"`
	// Stopped says which bound ended the search, and Where it was then; both are empty if it looked at everything. Next
	// goes on from there.
	Stopped string `json:"stopped,omitempty"`
	Where   string `json:"where,omitempty"`
	Next    string `json:"next,omitempty"`
	// Notes say what could not be looked at.
	Notes []string `json:"notes,omitempty"`
}

// maxNotes bounds the notes of an answer.
const maxNotes = 10

// Failures, for errors.Is.
var (
	ErrText  = errors.New("the text cannot be looked for")
	ErrAfter = errors.New("the position is not one that a search has returned")
)

// position is where a search goes on: a stage, a resource in it, and the service's token in that. It is never shown to
// a person but as a text.
type position struct {
	Stage int
	Name  string `json:",omitempty"`
	Token string `json:",omitempty"`
}

func (p position) String() string {
	text, err := json.Marshal(p)
	if err != nil {
		panic("findtool: " + err.Error()) // strings and a number always encode
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func parsePosition(text string) (p position, err error) {
	if text == "" {
		return p, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(raw, &p) != nil || p.Stage < 0 || p.Stage >= len(stages) {
		return p, ErrAfter
	}
	return p, nil
}

// search is a call of Find.
type search struct {
	Account
	text   string
	lower  string
	bounds Bounds
	began  time.Time
	at     position // where the search is: every request begins there
	made   int      // requests that looked at something
	answer Answer
}

// stage looks at one kind of place, from s.at on. It returns errStopped at a bound.
type stage struct {
	name string
	run  func(*search, context.Context) error
}

// stages are in the order of their cost. It is set in init, since the stages refer to what parses their positions.
var stages []stage

func init() {
	stages = []stage{
		{"names of containers", (*search).containerNames},
		{"names of queues", (*search).queueNames},
		{"names of tables", (*search).tableNames},
		{"keys", (*search).keys},
		{"blobs", (*search).blobs},
		{"messages", (*search).messages},
		{"rows", (*search).rows},
	}
}

// errStopped ends a search at a bound.
var errStopped = errors.New("stopped")

// patience is how long a request may take beyond the time of a search: a service ends a long query by itself.
const patience = 10 * time.Second

// Find looks for a text from a position on, which an earlier answer returned; "" begins.
func Find(ctx context.Context, a Account, text, after string, b Bounds) (Answer, error) {
	switch {
	case strings.TrimSpace(text) == "":
		return Answer{}, fmt.Errorf("%w: it is empty", ErrText)
	case len(text) > MaxText:
		return Answer{}, fmt.Errorf("%w: it has %d bytes; %d are allowed", ErrText, len(text), MaxText)
	case !utf8.ValidString(text) || strings.ContainsRune(text, 0):
		return Answer{}, fmt.Errorf("%w: it is not UTF-8 without NUL", ErrText)
	}
	at, err := parsePosition(after)
	if err != nil {
		return Answer{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, b.Time+patience)
	defer cancel()
	s := &search{Account: a, text: text, lower: strings.ToLower(text), bounds: b, began: time.Now(), at: at}
	// Everything before s.at was searched. A stage that ends without an error has reached its end, so
	// the next one begins at its own beginning. The last position stays, as Next is only for a search that was stopped.
	for err == nil {
		if err = stages[s.at.Stage].run(s, ctx); err != nil {
			break
		}
		if s.at.Stage+1 == len(stages) {
			break
		}
		s.at = position{Stage: s.at.Stage + 1}
	}
	s.answer.Took = time.Since(s.began)
	switch {
	case errors.Is(err, errStopped):
		s.answer.Where, s.answer.Next = stages[s.at.Stage].name, s.at.String()
		if s.at.Name != "" {
			s.answer.Where += " of " + s.at.Name
		}
		return s.answer, nil
	case ctx.Err() != nil:
		return s.answer, context.Cause(ctx)
	}
	return s.answer, err
}

// next returns errStopped if a bound is reached. A search that has just begun makes one request at least, so that going
// on always comes further.
func (s *search) next() error {
	b, a := s.bounds, &s.answer
	switch {
	case len(a.Found) >= b.Results:
		a.Stopped = plural(b.Results, "result")
	case a.Rows >= b.Rows:
		a.Stopped = plural(a.Rows, "row") + " read"
	case a.Bytes >= b.Bytes:
		a.Stopped = fmt.Sprintf("%d KiB read", a.Bytes>>10)
	case time.Since(s.began) >= b.Time && s.made > 0:
		a.Stopped = b.Time.String() + " passed"
	default:
		s.made++
		return nil
	}
	return errStopped
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// left is the number of results that the answer still takes.
func (s *search) left() int { return s.bounds.Results - len(s.answer.Found) }

// read counts what a request returned.
func (s *search) read(rows int, texts ...string) {
	s.answer.Rows += rows
	for _, t := range texts {
		s.answer.Bytes += int64(len(t))
	}
}

func (s *search) found(f Found) { s.answer.Found = append(s.answer.Found, f) }

// note says that something could not be looked at.
func (s *search) note(format string, args ...any) {
	if len(s.answer.Notes) < maxNotes {
		s.answer.Notes = append(s.answer.Notes, fmt.Sprintf(format, args...))
	}
}

// skip decides about a failed request for one resource: one that is gone, or that the caller may not read, is left out.
func (s *search) skip(what string, err error) error {
	var r *azcore.ResponseError
	if !errors.As(err, &r) {
		return err
	}
	switch r.StatusCode {
	case http.StatusNotFound: // deleted meanwhile
		return nil
	case http.StatusForbidden:
		// A signature that permits less. One that is wrong is refused everywhere: AuthenticationFailed.
		if !strings.HasPrefix(r.ErrorCode, "Authorization") {
			return err
		}
		fallthrough
	case http.StatusBadRequest, http.StatusConflict:
		s.note("%s: %s", what, r.ErrorCode)
		return nil
	}
	return err
}
