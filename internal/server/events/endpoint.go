package events

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/httpserver/inproc"
)

// The host names of the services inside the process.
const (
	blobHost  = "blob.events"
	queueHost = "queue.events"
)

// The values of the header aeg-event-type.
const (
	typeHeader     = "Aeg-Event-Type"
	isNotification = "Notification"
	isValidation   = "SubscriptionValidation"
)

// Content types of requests.
const (
	gridContent       = "application/json; charset=utf-8"
	cloudContent      = "application/cloudevents+json; charset=utf-8"
	cloudBatchContent = "application/cloudevents-batch+json; charset=utf-8"
)

// maxDiscarded bounds the part of a response's body that is read so that its connection can be used again.
const maxDiscarded = 64 << 10

// couriers carry events to endpoints.
type couriers struct {
	web     *http.Client
	options policy.ClientOptions // of clients of the services in this process
}

func newCouriers(web *http.Client, blob, queue http.Handler) *couriers {
	transport := &inproc.Transport{Handlers: map[string]http.Handler{blobHost: blob, queueHost: queue}}
	return &couriers{web: web, options: azcore.ClientOptions{Transport: &http.Client{Transport: transport},
		Retry: policy.RetryOptions{MaxRetries: -1}}}
}

// deliver makes one attempt to deliver a batch.
func (c *couriers) deliver(ctx context.Context, s *Subscription, batch []*pending) result {
	ctx, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	if s.EndpointType == StorageQueue {
		return c.enqueue(ctx, s, batch[0].event)
	}
	bodies := make([]json.RawMessage, len(batch))
	for i, p := range batch {
		bodies[i] = p.event.render(s.DeliverySchema)
	}
	body, content := mustMarshal(bodies), gridContent
	switch {
	case s.DeliverySchema == CloudEvents && s.MaxEventsPerBatch == 1:
		body, content = bodies[0], cloudContent
	case s.DeliverySchema == CloudEvents:
		content = cloudBatchContent
	}
	h := http.Header{}
	h.Set("Content-Type", content)
	h.Set(typeHeader, isNotification)
	h.Set("Aeg-Subscription-Name", strings.ToUpper(s.Name))
	h.Set("Aeg-Delivery-Count", strconv.Itoa(batch[0].Attempts))
	if s.DeliverySchema == GridSchema {
		h.Set("Aeg-Metadata-Version", metadataVersion)
		h.Set("Aeg-Data-Version", "")
	}
	resp, err := c.request(ctx, http.MethodPost, s.Endpoint, body, h)
	if err != nil {
		return result{err: err}
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, maxDiscarded) // The status has the result.
	return result{status: resp.StatusCode}
}

// request sends a request. Its error does not have the URL, whose query often has the endpoint's key.
func (c *couriers) request(ctx context.Context, method, endpoint string, body []byte, h http.Header) (*http.Response,
	error) {
	req, err := http.NewRequestWithContext(ctx, method, endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, withoutURL(err)
	}
	req.Header = h
	resp, err := c.web.Do(req)
	return resp, withoutURL(err)
}

func withoutURL(err error) error {
	if failed := (*url.Error)(nil); errors.As(err, &failed) {
		return failed.Err
	}
	return err
}

// enqueue puts an event into the subscription's queue, in base64 as Event Grid does.
// https://learn.microsoft.com/azure/event-grid/handler-storage-queues
func (c *couriers) enqueue(ctx context.Context, s *Subscription, e *Event) result {
	queue, err := c.queue(s)
	if err == nil {
		_, err = queue.EnqueueMessage(wire.WithSystem(ctx), base64.StdEncoding.EncodeToString(e.render(s.DeliverySchema)),
			nil)
	}
	if err == nil {
		return result{status: http.StatusOK}
	}
	var refused *azcore.ResponseError
	if errors.As(err, &refused) {
		return result{status: refused.StatusCode}
	}
	return result{err: err}
}

func (c *couriers) queue(s *Subscription) (*azqueue.QueueClient, error) {
	client, err := azqueue.NewServiceClientWithNoCredential("http://"+queueHost+"/"+s.Account,
		&azqueue.ClientOptions{ClientOptions: c.options})
	if err != nil {
		return nil, err
	}
	return client.NewQueueClient(s.Endpoint), nil
}

func (c *couriers) blobs(s *Subscription) (*azblob.Client, error) {
	return azblob.NewClientWithNoCredential("http://"+blobHost+"/"+s.Account,
		&azblob.ClientOptions{ClientOptions: c.options})
}

// checkPlaces fails if the queue or the container of a subscription does not exist.
func (c *couriers) checkPlaces(ctx context.Context, s *Subscription) error {
	ctx = wire.WithSystem(ctx)
	if s.EndpointType == StorageQueue {
		queue, err := c.queue(s)
		if err == nil {
			_, err = queue.GetProperties(ctx, nil)
		}
		if err != nil {
			return invalid("endpoint: queue %s cannot be used: %s", s.Endpoint, reason(err))
		}
	}
	if s.DeadLetterContainer != "" {
		client, err := c.blobs(s)
		if err == nil {
			_, err = client.ServiceClient().NewContainerClient(s.DeadLetterContainer).GetProperties(ctx, nil)
		}
		if err != nil {
			return invalid("deadletterContainer: container %s cannot be used: %s", s.DeadLetterContainer, reason(err))
		}
	}
	return nil
}

// reason is the code of an error of the services, or its text.
func reason(err error) string {
	var refused *azcore.ResponseError
	if errors.As(err, &refused) && refused.ErrorCode != "" {
		return refused.ErrorCode
	}
	return err.Error()
}

// deadGridEvent and deadCloudEvent are dead letters.
// https://learn.microsoft.com/azure/event-grid/delivery-and-retry#delivery-event-formats
type deadGridEvent struct {
	gridEvent
	Reason      string `json:"deadLetterReason"`
	Attempts    int    `json:"deliveryAttempts"`
	Outcome     string `json:"lastDeliveryOutcome"`
	PublishTime string `json:"publishTime"`
	LastAttempt string `json:"lastDeliveryAttemptTime,omitempty"`
}

type deadCloudEvent struct {
	cloudEvent
	Reason      string `json:"deadletterreason"`
	Attempts    int    `json:"deliveryattempts"`
	Outcome     string `json:"lastdeliveryoutcome"`
	PublishTime string `json:"publishtime"`
	LastAttempt string `json:"lastdeliveryattempttime,omitempty"`
}

// storeDeadLetter writes p to the subscription's container. The blob's name follows from the event, so that a dead
// letter that is stored twice is one.
func (c *couriers) storeDeadLetter(ctx context.Context, s *Subscription, p *pending) error {
	ctx, cancel := context.WithTimeout(wire.WithSystem(ctx), responseTimeout)
	defer cancel()
	client, err := c.blobs(s)
	if err != nil {
		return err
	}
	published, last := p.event.Time.UTC().Format(timeFormat), ""
	if !p.Last.IsZero() {
		last = p.Last.UTC().Format(timeFormat)
	}
	var letter any = deadGridEvent{p.event.grid(), p.Dead, p.Attempts, p.Outcome, published, last}
	if s.DeliverySchema == CloudEvents {
		letter = deadCloudEvent{p.event.cloud(), p.Dead, p.Attempts, p.Outcome, published, last}
	}
	_, err = client.UploadBuffer(ctx, s.DeadLetterContainer, deadLetterName(s, p), mustMarshal([]any{letter}), nil)
	return err
}

// deadLetterName is the name of a dead letter's blob: its folder has the subscription's name in upper case and the
// hour, without zeros before the digits.
// https://learn.microsoft.com/azure/event-grid/manage-event-delivery#set-dead-letter-location
func deadLetterName(s *Subscription, p *pending) string {
	t := p.DeadSince.UTC()
	return fmt.Sprintf("%s/%d/%d/%d/%d/%s.json", strings.ToUpper(s.Name), t.Year(), t.Month(), t.Day(), t.Hour(),
		p.event.ID)
}
