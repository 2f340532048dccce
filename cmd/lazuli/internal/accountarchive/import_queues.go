package accountarchive

import (
	"context"
	"encoding/json"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/sdk/ptr"
)

func (i *importer) createQueue(ctx context.Context, r *Resource) error {
	client := i.account.Queues.NewQueueClient(r.Name)
	if _, err := client.Create(ctx, &azqueue.CreateOptions{Metadata: ptr.Values(r.Metadata)}); err != nil {
		return err
	}
	if len(r.Policies) == 0 {
		return nil
	}
	var list []*azqueue.SignedIdentifier
	for _, p := range r.Policies {
		list = append(list, &azqueue.SignedIdentifier{ID: &p.ID,
			AccessPolicy: &azqueue.AccessPolicy{Start: optional(p.Start), Expiry: optional(p.Expiry),
				Permission: &p.Permission}})
	}
	_, err := client.SetAccessPolicy(ctx, &azqueue.SetAccessPolicyOptions{QueueACL: list})
	return err
}

// maxDelay is the longest time in seconds for which a message can be hidden.
const maxDelay = 7 * 24 * 3600

// queueSegment puts the messages of a segment. What is left of their time to live, and of the time until they are
// visible, is kept.
func (i *importer) queueSegment(ctx context.Context, r *Resource, s Segment) error {
	client := i.account.Queues.NewQueueClient(r.Name)
	return readLines(i.dir, s, func(line []byte) error {
		var m Message
		if err := json.Unmarshal(line, &m); err != nil {
			return invalid("no message: %w", err)
		}
		now := i.Now()
		// -1: a message without expiry keeps having none; left out it would be seven days.
		o := &azqueue.EnqueueMessageOptions{TimeToLive: to.Ptr[int32](-1)}
		if !m.Expires.IsZero() {
			left := remaining(m.Expires, now)
			// It would have expired in its queue, too.
			if left <= 0 {
				i.result.Expired++
				return nil
			}
			o.TimeToLive = to.Ptr(int32(min(left, 1<<31-1)))
		}
		// The service refuses a message that becomes visible after it expires.
		if left := min(remaining(m.Visible, now), maxDelay); left > 0 && (*o.TimeToLive < 0 || left < int64(*o.TimeToLive)) {
			o.VisibilityTimeout = to.Ptr(int32(left))
		}
		if _, err := client.EnqueueMessage(ctx, m.Text, o); err != nil {
			return err
		}
		i.result.Items++
		return nil
	})
}
