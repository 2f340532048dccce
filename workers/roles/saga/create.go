package saga

import (
	"context"
	"errors"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2/queueerror"
)

// Create makes the tables, the queue and the container where they are missing.
func (s *Saga) Create(ctx context.Context) error {
	var errs []error
	for _, table := range []string{s.Orders, s.Archive} {
		if _, err := s.Storage.Tables.CreateTable(ctx, table, nil); err != nil && !hasCode(err, "TableAlreadyExists") {
			errs = append(errs, err)
		}
	}
	if _, err := s.Storage.Queues.CreateQueue(ctx, s.Payments, nil); err != nil &&
		!queueerror.HasCode(err, queueerror.QueueAlreadyExists) {
		errs = append(errs, err)
	}
	if _, err := s.Storage.Blobs.CreateContainer(ctx, s.Receipts, nil); err != nil &&
		!bloberror.HasCode(err, bloberror.ContainerAlreadyExists) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
