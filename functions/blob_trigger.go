package functions

import (
	"context"
	"errors"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"

	"github.com/lazuli-storage/lazuli/workers"
)

// callBlob calls a function for a blob in the state that triggered it.
func (h *Host) callBlob(ctx context.Context, f *function, client *blob.Client) error {
	inv := h.newInvocation(ctx, f, "")
	etag, path := "", ""
	if ic, ok := workers.FromContext(ctx); ok {
		etag, path = ic.TriggerMetadata["ETag"], ic.TriggerMetadata["BlobTrigger"]
	}
	inv.reason = "New blob detected(" + path + ")"
	// The ETag of the message says for which state the function is called. Another state has a message of its own.
	properties, err := client.GetProperties(ctx, nil)
	if err == nil {
		var text []byte
		// A function that binds a client reads the blob itself, which may be larger than what fits in memory.
		if !f.trigger.client {
			text, err = download(ctx, client, etag)
		}
		if err == nil {
			inv.fromBlob(path, client.URL(), properties, text, f.trigger)
		}
	}
	switch {
	case missing(err), bloberror.HasCode(err, bloberror.ConditionNotMet):
		return nil // Deleted, or changed again: that change has its own message.
	case errors.Is(err, errTooLarge):
		// No later attempt would find it smaller.
		return workers.Permanent(err)
	case err != nil:
		return err
	}
	_, err = h.call(ctx, inv)
	return err
}
