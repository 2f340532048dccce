package queuepages

import (
	"context"
	"embed"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/chart"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/display"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/figures"
	"github.com/lazuli-storage/lazuli/internal/server/dashboard/frame"
)

//go:embed templates
var files embed.FS

// queuePages are the pages of queues, their jobs and schedules.
type queuePages struct {
	*frame.Site
	Figures *figures.History
}

// Add adds them to a site.
func Add(s *frame.Site, figures *figures.History) {
	d := &queuePages{s, figures}
	s.Templates(files)
	s.Route("accounts/{account}/queues", frame.With(s.QueueClient, d.queues), frame.With(s.QueueClient, d.changeQueues))
	s.Route("accounts/{account}/queues/{queue}", frame.With(s.QueueClient, d.queue), frame.With(s.QueueClient,
		d.changeQueue))
	s.Route("accounts/{account}/queues/{queue}/jobs", frame.With(s.TableClient, d.jobs), frame.With(s.TableClient,
		d.cancelJobs))
	s.Route("accounts/{account}/schedules", frame.With(s.TableClient, d.queueSchedules),
		frame.With(s.TableClient, d.changeQueueSchedules))
}

// queueRow is a queue in the list.
type queueRow struct {
	Name  string
	Count int
	// Visible and Hidden are the parts of Count; AtLeast says that more are visible, and Hidden is not known.
	Visible, Hidden int
	AtLeast         bool
	SetAside        int // of Count, those that cannot be read
	Oldest          time.Time
	Poison          bool
}

// queuesPage holds the queues of an account.
type queuesPage struct {
	Rows         []queueRow
	Prefix, Next string
	Now          time.Time
	Note         frame.OwnNote
}

func (queuesPage) Template() string { return "queues" }

// queues lists the queues of an account.
func (d *queuePages) queues(w http.ResponseWriter, r *http.Request, client *azqueue.ServiceClient) error {
	q := r.URL.Query()
	list, err := frame.ReadList(d.Site, r, wire.Queue, func(name string) string { return name },
		func(limit int32, marker string) (names []string, next string, err error) {
			got, err := client.NewListQueuesPager(&azqueue.ListQueuesOptions{MaxResults: &limit,
				Prefix: ptr.Text(q.Get("prefix")), Marker: ptr.Text(marker)}).NextPage(r.Context())
			for _, item := range got.Queues {
				names = append(names, ptr.Value(item.Name))
			}
			return names, ptr.Value(got.NextMarker), err
		})
	if err != nil {
		return err
	}
	var rows []queueRow
	for _, name := range list.Rows {
		row := queueRow{Name: name}
		row.Poison = strings.HasSuffix(row.Name, queuetool.PoisonSuffix)
		one := client.NewQueueClient(row.Name)
		n, err := queuetool.Count(r.Context(), one)
		if err != nil {
			continue // deleted meanwhile
		}
		row.Visible, row.Hidden, row.AtLeast = n.Visible, max(0, n.Total-n.Visible), n.Visible >= queuetool.MaxVisible
		row.Count, row.SetAside = n.Total, n.SetAside
		if n.Visible > 0 {
			if first, err := queuetool.Peek(r.Context(), one, 1); err == nil && len(first) > 0 {
				row.Oldest = first[0].Inserted
			}
		}
		rows = append(rows, row)
	}
	account := r.PathValue("account")
	return d.Show(w, r, "Queues", frame.CrumbsOf(account),
		queuesPage{Rows: rows, Prefix: q.Get("prefix"), Next: list.Next, Now: d.Now(),
			Note: frame.OwnNote{Hidden: list.Hidden, Own: list.Own, Prefix: q.Get("prefix")}})
}

// changeQueues creates a queue, or deletes those that are chosen.
func (d *queuePages) changeQueues(w http.ResponseWriter, r *http.Request, client *azqueue.ServiceClient) error {
	return frame.ChangeList(w, r, "queues", func(ctx context.Context, name string) error {
		_, err := client.CreateQueue(ctx, name, nil)
		return err
	}, func(ctx context.Context, name string) error {
		_, err := client.DeleteQueue(ctx, name, nil)
		return err
	})
}

// messageRow is a message on the page of a queue.
type messageRow struct {
	queuetool.Message
	Short, Text string // the beginning of the body, in a line and as people read it
	Cut         bool   // the body is longer
	Hidden      bool
	Reason      *poison.Record
}

// shownMessages is the number of messages that a page of a queue shows.
const shownMessages = 100

// queuePage holds a queue with a page of its messages.
type queuePage struct {
	Queue, URL             string
	Count, Visible, Hidden int
	AtLeast                bool // more messages are visible
	SetAside               int  // of Count, those that cannot be read
	Rows                   []messageRow
	After, Next            string // where the page and the next one begin
	Origin                 string // the queue of a poison queue
	Poison                 string // the poison queue of a queue
	Poisoned               int64  // messages that it got in the last hour
	Metadata               string
	Activity               bool          // there were messages in the span
	Span, SpanTitle        string        // of the plots: "hour", "last hour"
	Plots                  []*chart.Plot // messages, depth, age
	Tiles                  []tile
	Now                    time.Time
}

func (queuePage) Template() string { return "queue" }

// queue shows the messages of a queue, hidden ones included.
func (d *queuePages) queue(w http.ResponseWriter, r *http.Request, service *azqueue.ServiceClient) error {
	tables, err := d.TableClient(r)
	if err != nil {
		return err
	}
	account, name := r.PathValue("account"), r.PathValue("queue")
	client := service.NewQueueClient(name)
	metadata, err := queueMetadata(r.Context(), service, name)
	if err != nil {
		return err
	}
	after := r.URL.Query().Get("after")
	messages, next, err := queuetool.PeekPage(r.Context(), client, shownMessages, after)
	if err != nil {
		return err
	}
	// After the messages were read: by that the server learns which of them are damaged.
	n, err := queuetool.Count(r.Context(), client)
	if err != nil {
		return err
	}
	var reasons *queuetool.Reasons
	origin, err := queuetool.Origin(name)
	if err != nil {
		origin = ""
	} else if reasons = queuetool.NewReasons(tables, name); reasons.ReadOf(r.Context(), messages) != nil {
		reasons = nil // the page is of use without them
	}
	now := d.Now()
	if after == "" {
		// The page knows what the next sample would find.
		oldest := time.Duration(0)
		if len(messages) > 0 && !messages[0].NextVisible.After(now) {
			oldest = now.Sub(messages[0].Inserted)
		}
		d.Figures.Sampled(figures.Queue{Account: account, Name: name}, now, n.Total, oldest)
	}
	page := queuePage{Span: "hour"}
	if r.URL.Query().Get("span") == figures.LastDay.Name {
		page.Span = figures.LastDay.Name
	}
	draw(d.Figures, now, &page, figures.Queue{Account: account, Name: name}, origin == "")
	var rows []messageRow
	for _, m := range messages {
		row := messageRow{Message: m, Hidden: m.NextVisible.After(now)}
		row.Short, _ = display.Clip(m.Body, 200)
		row.Text, row.Cut = display.Readable(m.Body)
		if record, ok := reasons.Of(m.ID); ok {
			row.Reason = &record
		}
		rows = append(rows, row)
	}
	page.Queue, page.URL, page.Metadata, page.Origin = name, client.URL(), metadata, origin
	page.Count, page.Visible, page.Hidden, page.SetAside = n.Total, n.Visible, max(0, n.Total-n.Visible), n.SetAside
	page.AtLeast = n.Visible >= queuetool.MaxVisible
	page.Rows, page.After, page.Next, page.Now = rows, after, next, now
	return d.Show(w, r, name, frame.CrumbsOf(account, "queues"), page)
}

// changeQueue puts, requeues or deletes messages, sets the metadata, or deletes the queue.
func (d *queuePages) changeQueue(w http.ResponseWriter, r *http.Request, service *azqueue.ServiceClient) error {
	account, name := r.PathValue("account"), r.PathValue("queue")
	client := service.NewQueueClient(name)
	here := frame.Link("accounts", account, "queues", name)
	switch action := r.PostFormValue("action"); action {
	case "put":
		delay, err := seconds(r.PostFormValue("delay"))
		if err != nil {
			return err
		}
		return frame.Back(w, r, queuetool.Put(r.Context(), client, []byte(r.PostFormValue("body")),
			queuetool.PutOptions{Plain: r.PostFormValue("encoding") == "plain", Delay: delay}), here, "put")
	case "requeue", "purge", "requeueChosen", "purgeChosen":
		f, err := d.messageFilter(r, name)
		if err != nil {
			return err
		}
		if word, ok := strings.CutSuffix(action, "Chosen"); ok {
			// No message chosen must not become a filter that takes all of them.
			if f.IDs = r.PostForm["chosen"]; len(f.IDs) == 0 {
				return frame.ErrNothingChosen
			}
			action = word
		}
		if action == "purge" {
			_, err := queuetool.Purge(r.Context(), client, f)
			return frame.Back(w, r, err, here, "purged")
		}
		// Only a poison queue has a queue to go back to.
		origin, err := queuetool.Origin(name)
		if err != nil {
			return frame.NewProblem(http.StatusBadRequest, err.Error(), "")
		}
		to := service.NewQueueClient(origin)
		// The queue may be gone by now. One with metadata answers 409, as the request has none: it exists.
		if _, err := to.Create(r.Context(), nil); err != nil && !queueerror.HasCode(err, queueerror.QueueAlreadyExists) {
			return err
		}
		_, err = queuetool.Requeue(r.Context(), client, to, f, 0)
		return frame.Back(w, r, err, here, "requeued")
	case "metadata":
		m, err := frame.ParseMetadata(r.PostFormValue("metadata"))
		if err != nil {
			return err
		}
		_, err = client.SetMetadata(r.Context(), &azqueue.SetMetadataOptions{Metadata: m})
		return frame.Back(w, r, err, here, "saved")
	case "delete":
		_, err := client.Delete(r.Context(), nil)
		return frame.Back(w, r, err, frame.Link("accounts", account, "queues"), "deleted")
	}
	return frame.ErrAction
}

// messageFilter chooses the messages that the form names: one by its id, those with a text, or all.
func (d *queuePages) messageFilter(r *http.Request, queue string) (f queuetool.Filter, err error) {
	if id := r.PostFormValue("id"); id != "" {
		f.IDs = []string{id}
	}
	for _, p := range []struct {
		field string
		to    **regexp.Regexp
	}{{"match", &f.Match}, {"reason", &f.Reason}} {
		if text := r.PostFormValue(p.field); text != "" {
			if *p.to, err = regexp.Compile(text); err != nil {
				return f, frame.NewProblem(http.StatusBadRequest, "The pattern "+text+" is not a regular expression",
					"Plain text without ( [ { \\ * + ? . is one.")
			}
		}
	}
	if _, origin := queuetool.Origin(queue); origin == nil {
		tables, err := d.TableClient(r)
		if err != nil {
			return f, err
		}
		f.Reasons = queuetool.NewReasons(tables, queue)
	}
	return f, nil
}

// seconds reads a number of seconds from a form; nothing is 0.
func seconds(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 7*24*60*60 {
		return 0, frame.NewProblem(http.StatusBadRequest, "The delay is a number of seconds",
			"It may be up to seven days, 604800.")
	}
	return time.Duration(n) * time.Second, nil
}

// queueMetadata reads metadata from a list: in the headers of other answers, the SDK for Go does not keep the case of
// the names.
func queueMetadata(ctx context.Context, client *azqueue.ServiceClient, name string) (string, error) {
	got, err := client.NewListQueuesPager(&azqueue.ListQueuesOptions{Prefix: &name, MaxResults: to.Ptr(int32(1)),
		Include: azqueue.ListQueuesInclude{Metadata: true}}).NextPage(ctx)
	if err != nil || len(got.Queues) == 0 || ptr.Value(got.Queues[0].Name) != name {
		return "", err
	}
	return frame.MetadataText(got.Queues[0].Metadata), nil
}
