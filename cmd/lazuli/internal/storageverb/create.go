package storageverb

import (
	"context"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/workerproc"
)

// newTableCreateCommand makes `lazuli table create`.
func newTableCreateCommand() *cobra.Command {
	return createCommand("table", tableService, func(ctx context.Context, s *aztables.ServiceClient, name string) error {
		_, err := s.CreateTable(ctx, name, nil)
		return err
	})
}

// newQueueCreateCommand makes `lazuli queue create`.
func newQueueCreateCommand() *cobra.Command {
	return createCommand("queue", queueService, func(ctx context.Context, s *azqueue.ServiceClient, name string) error {
		var answer *http.Response
		_, err := s.CreateQueue(policy.WithCaptureResponse(ctx, &answer), name, nil)
		// Create Queue succeeds for a queue with the same metadata.
		if err == nil && answer.StatusCode == http.StatusNoContent {
			err = &azcore.ResponseError{StatusCode: http.StatusConflict, ErrorCode: "QueueAlreadyExists", RawResponse: answer}
		}
		return err
	})
}

// newBlobCreateCommand makes `lazuli blob create`.
func newBlobCreateCommand() *cobra.Command {
	return createCommand("container", blobService, func(ctx context.Context, s *azblob.Client, name string) error {
		_, err := s.CreateContainer(ctx, name, nil)
		return err
	})
}

// createCommand makes a verb that creates the resources that its arguments name.
func createCommand[C any](noun string, service func(*cobra.Command) target.Opener[C],
	create func(context.Context, *C, string) error) *cobra.Command {
	var quiet bool
	cmd := &cobra.Command{Use: "create " + strings.ToUpper(noun) + " ...", Short: "Create " + noun + "s",
		Args: cobra.MinimumNArgs(1)}
	open := service(cmd)
	cmd.Flags().BoolVar(&quiet, "if-absent", false, "do not fail for a "+noun+" that exists")
	cmd.RunE = open.Run(func(cmd *cobra.Command, args []string, client *C) error {
		for _, name := range args {
			if err := create(cmd.Context(), client, name); err != nil && !(quiet && workerproc.ExistsAlready(err)) {
				return err
			}
		}
		return nil
	})
	return cmd
}
