package azurite

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/service"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
)

// unreadable is the error for an item that the folder has in part, or in a form that cannot be read.
type unreadable struct{ error }

func (u unreadable) Unwrap() error { return u.error }

// errReported is the error of a step whose item was noted as missing by an earlier one.
var errReported = errors.New("reported")

// refusal reports whether an error concerns one item: the folder cannot give it, or the service refuses it.
func refusal(err error) bool {
	var u unreadable
	var response *azcore.ResponseError
	return errors.Is(err, errReported) || errors.As(err, &u) || errors.As(err, &response) && response.StatusCode >= 400 &&
		response.StatusCode < 500 &&
		response.StatusCode != http.StatusForbidden && response.StatusCode != http.StatusUnauthorized
}

func (i *importer) planQueues() {
	first := map[[2]string]time.Time{} // message of each queue
	for _, m := range i.messages {
		queue := [2]string{m.Account, m.Queue}
		first[queue] = earliest(first[queue], m.Inserted)
	}
	for _, q := range i.queues {
		a := i.Targets[q.Account]
		if a.Queues == nil {
			continue
		}
		client, item := a.Queues.NewQueueClient(q.Name), "queue "+q.Name
		created := earliest(q.Meta.created(), first[[2]string{q.Account, q.Name}])
		i.plan(created, item, &i.result.Queues, func(ctx context.Context) error {
			_, err := client.Create(ctx, &azqueue.CreateOptions{Metadata: ptr.Values(q.Metadata)})
			if queueerror.HasCode(err, queueerror.QueueAlreadyExists) {
				return errExists
			}
			return err
		})
		if len(q.ACL) == 0 {
			continue
		}
		i.plan(created, item, nil, func(ctx context.Context) error {
			var list []*azqueue.SignedIdentifier
			for _, p := range q.ACL {
				start, expiry, err := p.times()
				if err != nil {
					return unreadable{err}
				}
				list = append(list, &azqueue.SignedIdentifier{ID: &p.ID,
					AccessPolicy: &azqueue.AccessPolicy{Start: start, Expiry: expiry,
						Permission: ptr.Text(p.AccessPolicy.Permission)}})
			}
			_, err := client.SetAccessPolicy(ctx, &azqueue.SetAccessPolicyOptions{QueueACL: list})
			return err
		})
	}
	for n, m := range i.messages {
		if a := i.Targets[m.Account]; a.Queues != nil {
			i.planMessage(a.Queues.NewQueueClient(m.Queue), m, fmt.Sprintf("message %d of queue %s", n+1, m.Queue))
		}
	}
}

// maxDelay is the longest time for which a message can be hidden
// (https://learn.microsoft.com/rest/api/storageservices/put-message).
const maxDelay = 7 * 24 * time.Hour

// never is the expiry of messages that do not expire.
var never = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

func (i *importer) planMessage(client *azqueue.QueueClient, m messageDoc, item string) {
	if !m.Expires.After(i.now) {
		i.result.Expired++
		return
	}
	// at is the time at which the target puts the message: when it was put, or later if it was received since then and is
	// hidden for longer than a message can be when it is put. Without a clock that is the present.
	at := m.Inserted
	if i.SetTime == nil || at.After(i.now) {
		at = i.now
	}
	if hidden := m.Visible.Add(-maxDelay); at.Before(hidden) {
		at = hidden
	}
	o := &azqueue.EnqueueMessageOptions{TimeToLive: to.Ptr[int32](-1)}
	if m.Expires.Before(never) {
		o.TimeToLive = to.Ptr(int32(min(m.Expires.Sub(at)/time.Second, 1<<31-1)))
	}
	if m.Visible.After(i.now) {
		// Less than the time to live, as the service demands.
		o.VisibilityTimeout = to.Ptr(int32(m.Visible.Sub(at) / time.Second))
	}
	i.plan(at, item, &i.result.Messages, func(ctx context.Context) error {
		body, file, err := i.messageText.open(m.Content)
		if err != nil {
			return unreadable{err}
		}
		defer file.Close()
		text, err := io.ReadAll(body)
		if err != nil {
			return unreadable{err}
		}
		_, err = client.EnqueueMessage(ctx, string(text), o)
		return err
	})
}

func (i *importer) planTables() {
	for _, t := range i.tables {
		a := i.Targets[t.Account]
		if a.Tables == nil {
			continue
		}
		client, item := a.Tables.NewClient(t.Name), "table "+t.Name
		entities := i.entities[t.collection()]
		created := t.Meta.created()
		// The steps of an import run in the order of their times, and Azurite's clock may have given an entity an earlier
		// one than its table.
		for _, e := range entities {
			created = earliest(created, e.Modified)
		}
		i.plan(created, item, &i.result.Tables, func(ctx context.Context) error {
			_, err := client.CreateTable(ctx, nil)
			var response *azcore.ResponseError
			if errors.As(err, &response) && response.ErrorCode == string(aztables.TableAlreadyExists) {
				// The import ends: it would mix the entities of two tables.
				return errExists
			}
			return err
		})
		if len(t.ACL) > 0 {
			i.plan(created, item, nil, func(ctx context.Context) error {
				var list []*aztables.SignedIdentifier
				for _, p := range t.ACL {
					start, expiry, err := p.times()
					if err != nil {
						// The item is reported as not imported, and the import goes on.
						return unreadable{err}
					}
					list = append(list, &aztables.SignedIdentifier{ID: &p.ID,
						AccessPolicy: &aztables.AccessPolicy{Start: start, Expiry: expiry,
							Permission: ptr.Text(p.AccessPolicy.Permission)}})
				}
				_, err := client.SetAccessPolicy(ctx, &aztables.SetAccessPolicyOptions{TableACL: list})
				return err
			})
		}
		for _, e := range entities {
			item := fmt.Sprintf("entity %q, %q of table %s", e.PartitionKey, e.RowKey, t.Name)
			i.plan(e.Modified, item, &i.result.Entities, func(ctx context.Context) error {
				text, err := e.json()
				if err != nil {
					return unreadable{err}
				}
				_, err = client.AddEntity(ctx, text, nil)
				return err
			})
		}
	}
}

// json returns the entity as the Table service takes it: with the types of properties, and without Timestamp, which the
// service sets.
func (e entityDoc) json() ([]byte, error) {
	out := map[string]any{}
	for name, value := range e.Properties {
		if name == "Timestamp" || name == "Timestamp@odata.type" || strings.HasPrefix(name, "odata.") {
			continue
		}
		out[name] = value
		if string(e.Properties[name+"@odata.type"]) == `"Edm.Guid"` {
			text, err := guid(value)
			if err != nil {
				return nil, fmt.Errorf("property %s: %w", name, err)
			}
			out[name] = text
		}
	}
	out["PartitionKey"], out["RowKey"] = e.PartitionKey, e.RowKey
	return json.Marshal(out)
}

// guid returns a GUID's text, which Azurite stores in base64, and early releases as it is.
func guid(value json.RawMessage) (string, error) {
	var text string
	if err := json.Unmarshal(value, &text); err != nil || strings.Contains(text, "-") {
		return text, err
	}
	b, err := base64.StdEncoding.DecodeString(text)
	return string(b), err
}

// planProperties sets the properties of the services. Their names in Azurite's files are those of the SDK's structs,
// but for one.
func (i *importer) planProperties() {
	for account, services := range i.properties {
		a := i.Targets[account]
		for name, text := range services {
			// The name in Azurite's file differs from the SDK's here alone.
			text = bytes.ReplaceAll(text, []byte(`"deleteProperty":`), []byte(`"delete":`))
			var set func(context.Context) error
			switch {
			case name == "blob" && a.Blobs != nil:
				set = func(ctx context.Context) error {
					return decoded(text, func(o *service.SetPropertiesOptions) error {
						_, err := a.Blobs.ServiceClient().SetProperties(ctx, o)
						return err
					})
				}
			case name == "queue" && a.Queues != nil:
				set = func(ctx context.Context) error {
					return decoded(text, func(o *azqueue.SetPropertiesOptions) error {
						_, err := a.Queues.SetProperties(ctx, o)
						return err
					})
				}
			case name == "table" && a.Tables != nil:
				set = func(ctx context.Context) error {
					return decoded(text, func(p *aztables.ServiceProperties) error {
						_, err := a.Tables.SetProperties(ctx, *p, nil)
						return err
					})
				}
			// A service without a target, such as one that the command line left out.
			default:
				continue
			}
			i.plan(i.now, fmt.Sprintf("properties of the %s service of %s", name, account), nil, set)
		}
	}
}

// decoded calls set with the properties that text has.
func decoded[P any](text json.RawMessage, set func(*P) error) error {
	p := new(P)
	if err := json.Unmarshal(text, p); err != nil {
		return unreadable{err}
	}
	return set(p)
}
