package findtool

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/sdk/jobrow"
	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
)

// namesPage is the number of names in one listing.
const namesPage = 1000

// paged asks for pages until one has no token, from s.at.Token on. Each page is a request of its own.
func (s *search) paged(page func(token string) (next string, err error)) error {
	for {
		if err := s.next(); err != nil {
			return err
		}
		next, err := page(s.at.Token)
		if err != nil {
			return err
		}
		if s.at.Token = next; next == "" {
			return nil
		}
	}
}

// each calls do for the names of a listing, in its order, from s.at.Name on.
func (s *search) each(names []string, do func(name string) error) error {
	for _, name := range names {
		if name < s.at.Name {
			continue
		}
		if name != s.at.Name {
			s.at = position{Stage: s.at.Stage, Name: name}
		}
		if err := do(name); err != nil {
			return err
		}
	}
	return nil
}

// resourcePrefix is the beginning of names of containers and queues, which are in lower case.
func (s *search) resourcePrefix() (prefix string, ok bool) {
	return s.lower, len(s.lower) <= 63 && !strings.ContainsFunc(s.lower, func(r rune) bool {
		return r != '-' && r != '$' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
}

func (s *search) containerNames(ctx context.Context) error {
	prefix, ok := s.resourcePrefix()
	if s.Blobs == nil || !ok {
		return nil
	}
	return s.paged(func(token string) (string, error) {
		got, err := s.Blobs.NewListContainersPager(&service.ListContainersOptions{MaxResults: to.Ptr(int32(s.left())),
			Prefix: &prefix, Marker: ptr.Text(token)}).NextPage(ctx)
		if err != nil {
			return "", s.skip("the containers", err)
		}
		for _, c := range got.ContainerItems {
			s.read(1, *c.Name)
			s.found(Found{Kind: Container, Name: *c.Name})
		}
		return ptr.Value(got.NextMarker), nil
	})
}

func (s *search) queueNames(ctx context.Context) error {
	prefix, ok := s.resourcePrefix()
	if s.Queues == nil || !ok {
		return nil
	}
	return s.paged(func(token string) (string, error) {
		got, err := s.Queues.NewListQueuesPager(&azqueue.ListQueuesOptions{MaxResults: to.Ptr(int32(s.left())),
			Prefix: &prefix, Marker: ptr.Text(token)}).NextPage(ctx)
		if err != nil {
			return "", s.skip("the queues", err)
		}
		for _, q := range got.Queues {
			s.read(1, *q.Name)
			s.found(Found{Kind: Queue, Name: *q.Name})
		}
		return ptr.Value(got.NextMarker), nil
	})
}

// tableNames compares the names here: they differ in case, and their filter does not.
func (s *search) tableNames(ctx context.Context) error {
	names, err := s.tables(ctx)
	if err != nil {
		return err
	}
	return s.each(names, func(name string) error {
		if err := s.next(); err != nil {
			return err
		}
		if strings.HasPrefix(strings.ToLower(name), s.lower) {
			s.found(Found{Kind: Table, Name: name})
		}
		return nil
	})
}

// tables are the names of all tables.
func (s *search) tables(ctx context.Context) (names []string, err error) {
	if s.Tables == nil {
		return nil, nil
	}
	pages := s.Tables.NewListTablesPager(&aztables.ListTablesOptions{Top: to.Ptr(int32(namesPage))})
	for pages.More() {
		got, err := pages.NextPage(ctx)
		if err != nil {
			return nil, s.skip("the tables", err)
		}
		for _, t := range got.Tables {
			names = append(names, *t.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// The ends of the names of a task hub's tables; see package durable.
const (
	instances = "Instances"
	history   = "History"
)

// hubOf returns the task hub whose instances a table has. A hub has a table of histories as well.
func hubOf(table string, tables []string) (hub string, ok bool) {
	hub, ok = strings.CutSuffix(table, instances)
	return hub, ok && hub != "" && slices.Contains(tables, hub+history)
}

// histories reports whether a table has the histories of a task hub.
func histories(table string, tables []string) bool {
	hub, ok := strings.CutSuffix(table, history)
	return ok && hub != "" && slices.Contains(tables, hub+instances)
}

// How workflow instances are written as keys: workers/durable does it so.
var (
	escaper = strings.NewReplacer("^", "^^", "/", "^0", `\`, "^1", "#", "^2", "?", "^3", "'", "^4", "%", "^5",
		"+", "^6")
	unescaper = strings.NewReplacer("^^", "^", "^0", "/", "^1", `\`, "^2", "#", "^3", "?", "^4", "'", "^5", "%", "^6", "+")
)

// keys looks for workflow instances, and for PartitionKeys, which are the order of a table.
func (s *search) keys(ctx context.Context) error {
	names, err := s.tables(ctx)
	if err != nil {
		return err
	}
	return s.each(names, func(table string) error {
		hub, isHub := hubOf(table, names)
		switch {
		case histories(table, names): // of the instances that are found
			return nil
		case table == jobrow.Table:
			return s.jobs(ctx)
		case isHub:
			return s.query(ctx, table, beginsWith("PartitionKey", escaper.Replace(s.text)), func(pk, _ string) {
				s.found(Found{Kind: Instance, In: hub, Name: unescaper.Replace(pk)})
			})
		}
		return s.query(ctx, table, beginsWith("PartitionKey", s.text), func(pk, rk string) {
			s.found(Found{Kind: Entity, In: table, PartitionKey: pk, RowKey: rk})
		})
	})
}

// jobPrefix begins the RowKeys of jobs; see package jobrow.
const jobPrefix = "j-"

// jobs looks for jobs by their IDs, which begin with the name of the queue.
func (s *search) jobs(ctx context.Context) error {
	queue, id, ok := strings.Cut(s.text, ".")
	if !ok {
		return nil
	}
	filter := "PartitionKey eq '" + strings.ReplaceAll(queue, "'", "''") + "' and " + beginsWith("RowKey", jobPrefix+id)
	return s.query(ctx, jobrow.Table, filter, func(pk, rk string) {
		s.found(Found{Kind: Job, In: pk, Name: pk + "." + strings.TrimPrefix(rk, jobPrefix)})
	})
}

// rows looks for RowKeys. Entities whose PartitionKey matches too were found by keys.
func (s *search) rows(ctx context.Context) error {
	names, err := s.tables(ctx)
	if err != nil {
		return err
	}
	return s.each(names, func(table string) error {
		if _, isHub := hubOf(table, names); isHub || histories(table, names) || table == jobrow.Table {
			return nil
		}
		return s.query(ctx, table, beginsWith("RowKey", s.text), func(pk, rk string) {
			if !strings.HasPrefix(pk, s.text) {
				s.found(Found{Kind: Entity, In: table, PartitionKey: pk, RowKey: rk})
			}
		})
	})
}

// beginsWith is a filter for the keys with a beginning: U+FFFF is the last character in the order of keys.
func beginsWith(key, text string) string {
	quoted := strings.ReplaceAll(text, "'", "''")
	return key + " ge '" + quoted + "' and " + key + " lt '" + quoted + "\uffff'"
}

// The headers by which Lazuli says how many entities a query read; other services do not.
const (
	headerExplain = "X-Lazuli-Explain"
	headerScanned = "X-Lazuli-Entities-Scanned"
)

// keysAfter is the continuation of a query.
type keysAfter struct{ Partition, Row string }

// query calls found with the keys of the entities that a filter chooses.
func (s *search) query(ctx context.Context, table, filter string, found func(pk, rk string)) error {
	var response *http.Response
	ctx = policy.WithHTTPHeader(policy.WithCaptureResponse(ctx, &response), http.Header{headerExplain: {"true"}})
	return s.paged(func(token string) (string, error) {
		o := &aztables.ListEntitiesOptions{Filter: &filter, Select: to.Ptr("PartitionKey,RowKey"),
			Top: to.Ptr(int32(min(s.left(), namesPage))), Format: to.Ptr(aztables.MetadataFormatNone)}
		if token != "" {
			var after keysAfter
			if json.Unmarshal([]byte(token), &after) != nil {
				return "", ErrAfter
			}
			o.NextPartitionKey, o.NextRowKey = &after.Partition, &after.Row
		}
		got, err := s.Tables.NewClient(table).NewListEntitiesPager(o).NextPage(ctx)
		if err != nil {
			return "", s.skip("table "+table, err)
		}
		// Only Lazuli says how many entities it read for the page. On other services the found ones count, and the time
		// bounds a search in a large table.
		scanned := len(got.Entities)
		if n, err := strconv.Atoi(response.Header.Get(headerScanned)); err == nil {
			scanned = n
		}
		s.read(scanned)
		for _, e := range got.Entities {
			var keys struct{ PartitionKey, RowKey string }
			if err := json.Unmarshal(e, &keys); err != nil {
				return "", err
			}
			s.read(0, string(e))
			found(keys.PartitionKey, keys.RowKey)
		}
		if got.NextPartitionKey == nil && got.NextRowKey == nil {
			return "", nil
		}
		next, err := json.Marshal(keysAfter{ptr.Value(got.NextPartitionKey), ptr.Value(got.NextRowKey)})
		return string(next), err
	})
}

func (s *search) blobs(ctx context.Context) error {
	if s.Blobs == nil {
		return nil
	}
	var names []string
	pages := s.Blobs.NewListContainersPager(&service.ListContainersOptions{MaxResults: to.Ptr(int32(namesPage))})
	for pages.More() {
		got, err := pages.NextPage(ctx)
		if err != nil {
			return s.skip("the containers", err)
		}
		for _, c := range got.ContainerItems {
			names = append(names, *c.Name)
		}
	}
	slices.Sort(names)
	return s.each(names, func(name string) error {
		return s.paged(func(token string) (string, error) {
			got, err := s.Blobs.NewContainerClient(name).NewListBlobsFlatPager(&container.ListBlobsFlatOptions{
				Prefix: &s.text, MaxResults: to.Ptr(int32(s.left())), Marker: ptr.Text(token)}).NextPage(ctx)
			if err != nil {
				return "", s.skip("container "+name, err)
			}
			for _, b := range got.Segment.BlobItems {
				s.read(1, ptr.Value(b.Name))
				s.found(Found{Kind: Blob, In: name, Name: ptr.Value(b.Name)})
			}
			return ptr.Value(got.NextMarker), nil
		})
	})
}

// messages looks at every message of each queue. A service that is not Lazuli shows the first 32 of a queue.
func (s *search) messages(ctx context.Context) error {
	if s.Queues == nil {
		return nil
	}
	var names []string
	pages := s.Queues.NewListQueuesPager(&azqueue.ListQueuesOptions{MaxResults: to.Ptr(int32(namesPage))})
	for pages.More() {
		got, err := pages.NextPage(ctx)
		if err != nil {
			return s.skip("the queues", err)
		}
		for _, q := range got.Queues {
			names = append(names, *q.Name)
		}
	}
	slices.Sort(names)
	return s.each(names, func(name string) error {
		client := s.Queues.NewQueueClient(name)
		return s.paged(func(token string) (string, error) {
			// A page has no more messages than the answer takes: the next one begins behind the whole page.
			list, next, err := queuetool.PeekPage(ctx, client, min(s.left(), 32), token)
			if errors.Is(err, queuetool.ErrNoHidden) {
				if list, err = queuetool.Peek(ctx, client, 32); len(list) == 32 {
					s.note("queue %s: this service shows the first 32 messages alone", name)
				}
			}
			if err != nil {
				return "", s.skip("queue "+name, err)
			}
			for _, m := range list {
				s.read(1, m.Body)
				if text, ok := s.around(m.Body); ok || strings.EqualFold(m.ID, s.text) {
					s.found(Found{Kind: Message, In: name, Name: m.ID, Text: text, After: token})
				}
			}
			return next, nil
		})
	})
}

// shownText is the part of a message that an answer has, in bytes.
const shownText = 160

// around returns the part of a body around the text, and whether it has the text.
func (s *search) around(body string) (text string, ok bool) {
	at := strings.Index(body, s.text)
	if at < 0 {
		lower := strings.ToLower(body)
		if at = strings.Index(lower, s.lower); at >= 0 && len(lower) != len(body) {
			at = 0 // the places differ
		}
	}
	// As far before the text as shows where it is.
	from := max(0, at-shownText/4)
	for from > 0 && !utf8.RuneStart(body[from]) {
		from--
	}
	to := min(len(body), from+shownText)
	for to < len(body) && !utf8.RuneStart(body[to]) {
		to--
	}
	text = strings.ToValidUTF8(body[from:to], "\uFFFD")
	if from > 0 {
		text = "…" + text
	}
	if to < len(body) {
		text += "…"
	}
	return text, at >= 0
}
