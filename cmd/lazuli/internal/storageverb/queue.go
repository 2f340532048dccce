package storageverb

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"
	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
	"github.com/lazuli-storage/lazuli/workers"
)

// NewQueue makes `lazuli queue`, which looks into queues and moves messages. environ is the environment, for the
// data folder.
func NewQueue(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "List and create queues; show, put, requeue and purge messages",
		Long: `List and create queues; show, put, requeue and purge messages, on Lazuli, Azurite or Azure.

Only visible messages can be moved. Hidden messages, which a worker is handling or which are delayed, are counted; on Lazuli,
"peek --hidden" shows them.

In a poison queue, --reason, --function and --older-than select messages by what Lazuli's workers have recorded about them in the
table lazulipoison.`,
	}
	cmd.AddCommand(newQueueListCommand(), newQueueCreateCommand(), newQueuePeekCommand(), newQueuePutCommand(),
		newQueueRemoveCommand(), newQueueRequeueCommand(), newQueuePurgeCommand(), newQueueLogCommand(environ))
	return cmd
}

// queueService adds --connection-string to cmd and returns how to open the account.
func queueService(cmd *cobra.Command) target.Opener[azqueue.ServiceClient] {
	return target.ServiceFlag(cmd, "queue", func(s *workers.Storage) *azqueue.ServiceClient { return s.Queues })
}

// queueStorage is queueService for verbs that also read what was recorded of poisoned messages.
func queueStorage(cmd *cobra.Command) target.Opener[workers.Storage] {
	return target.ServiceFlag(cmd, "queue", func(s *workers.Storage) *workers.Storage {
		if s.Queues == nil {
			return nil
		}
		return s
	})
}

func newQueueListCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ls [PREFIX]", Short: "List queues with the number of messages and the age of the oldest",
		Long: `List queues with the number of messages, of unreadable messages that the server has set aside, and the age
of the oldest visible message. Messages set aside are included in the number of messages; lazuli fsck shows them.`,
		Args: cobra.MaximumNArgs(1)}
	open, output := queueService(cmd), console.ListOutput(cmd)
	cmd.RunE = open.Run(func(cmd *cobra.Command, args []string, service *azqueue.ServiceClient) error {
		queues, err := queuetool.List(cmd.Context(), service, strings.Join(args, ""))
		if err != nil {
			return err
		}
		out := output("QUEUE", "MESSAGES", "SET ASIDE", "OLDEST VISIBLE")
		if out.Or("the account has no queues; lazuli queue create QUEUE makes one"); len(args) > 0 {
			out.Or("there are no queues whose names begin with %s", args[0])
		}
		for _, q := range queues {
			// One queue that cannot be read must not hide the others; its row says why.
			if q.Unavailable != "" {
				err = errors.Join(err, out.Add(q, q.Name, "-", "-", q.Unavailable))
				continue
			}
			age := "-"
			// Oldest is zero if no message is visible.
			if !q.Oldest.IsZero() {
				age = time.Since(q.Oldest).Round(time.Second).String()
			}
			err = errors.Join(err, out.Add(q, q.Name, q.Messages, q.SetAside, age))
		}
		return out.End(err)
	})
	return cmd
}

func newQueuePutCommand() *cobra.Command {
	var o queuetool.PutOptions
	cmd := &cobra.Command{
		Use: "put QUEUE BODY", Short: "Put a message; the body - is read from standard input", Args: cobra.ExactArgs(2),
		Example: `  lazuli queue put archive '{"PartitionKey": "Sales", "RowKey": "0001"}'
  lazuli queue put --create orders '{"id": 7}'`,
	}
	open := queueService(cmd)
	cmd.Flags().BoolVar(&o.Create, "create", false, "create the queue if it does not exist")
	cmd.Flags().BoolVar(&o.Plain, "plain", false,
		"put the text unencoded (default: base64, as Azure Functions and the workers expect)")
	cmd.Flags().DurationVar(&o.Delay, "delay", 0, "how long the message stays invisible")
	cmd.Flags().DurationVar(&o.TTL, "ttl", 0, "time to live; -1s: the message does not expire (default: 7 days)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if o.Delay < 0 || o.Delay%time.Second != 0 || o.TTL%time.Second != 0 {
			return console.Usagef("--delay and --ttl must be in whole seconds")
		}
		body := []byte(args[1])
		if args[1] == "-" {
			// A message holds 64 KiB at most; one byte more is enough to be refused.
			var err error
			if body, err = io.ReadAll(io.LimitReader(cmd.InOrStdin(), 64<<10+1)); err != nil {
				return err
			}
		}
		service, err := open(cmd.Context())
		if err != nil {
			return err
		}
		return queuetool.Put(cmd.Context(), service.NewQueueClient(args[0]), body, o)
	}
	return cmd
}

func newQueueRequeueCommand() *cobra.Command {
	var to string
	var delay time.Duration
	cmd := &cobra.Command{
		Use: "requeue QUEUE", Short: "Move messages back from a poison queue, or from any queue to another",
		Args: cobra.ExactArgs(1),
		Long: `Move messages from a queue to another one, by default from NAME-poison to NAME, and from the poison queues of blob and table triggers
to the queues of their functions, which then handle the blob or entity again if it has not changed since.

Each message is put into the target before it is deleted from the source: if the command is interrupted, a message can be in both
queues, but is never lost. The dequeue count restarts at zero.`,
		Example: `  lazuli queue requeue orders-poison --match '"customer": *42' --limit 10
  lazuli queue requeue orders-poison --reason 'connection refused' --older-than 1h --delay 10s`,
	}
	open, filter, output := queueStorage(cmd), filterFlags(cmd), console.LineOutput(cmd)
	cmd.Flags().DurationVar(&delay, "delay", 0, "how long the moved messages stay invisible")
	cmd.Flags().StringVar(&to, "to", "", "target queue (default: the queue of the poison queue)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := filter.read()
		if err != nil {
			return err
		}
		if delay < 0 || delay%time.Second != 0 {
			return console.Usagef("--delay must be in whole seconds")
		}
		// The poison queues of blob and table triggers are shared by all functions: each message says where it came from.
		shared := to == "" && queuetool.Shared(args[0])
		if to == "" && !shared {
			if to, err = queuetool.Origin(args[0]); err != nil {
				return console.Usage(err)
			}
		}
		if to == args[0] {
			return console.Usagef("%s cannot be requeued to itself", to)
		}
		storage, err := open(cmd.Context())
		if err != nil {
			return err
		}
		f.Reasons = reasons(storage, args[0])
		var n int
		if shared {
			to = "the queues of their functions"
			n, err = queuetool.RequeueToSources(cmd.Context(), storage.Queues, args[0], f, delay)
		} else {
			n, err = queuetool.Requeue(cmd.Context(), storage.Queues.NewQueueClient(args[0]), storage.Queues.NewQueueClient(to),
				f, delay)
		}
		// Moved messages are moved, also if the next one failed.
		if n > 0 || err == nil {
			err = errors.Join(err, output(struct {
				Moved int    `json:"moved"`
				From  string `json:"from"`
				To    string `json:"to"`
			}{n, args[0], to}, "moved %s from %s to %s", console.Count(n, "message"), args[0], to))
		}
		return err
	}
	return cmd
}

func newQueueRemoveCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "rm QUEUE ...", Short: "Delete queues with their messages", Args: cobra.MinimumNArgs(1)}
	open, confirm := queueService(cmd), console.Confirmation(cmd)
	cmd.RunE = open.Run(func(cmd *cobra.Command, args []string, service *azqueue.ServiceClient) error {
		for _, name := range args {
			if err := confirm(fmt.Sprintf("Delete the queue %s with all its messages?", name)); err != nil {
				return err
			}
			if _, err := service.DeleteQueue(cmd.Context(), name, nil); err != nil {
				return err
			}
		}
		return nil
	})
	return cmd
}

func newQueuePurgeCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use: "purge QUEUE", Short: "Delete messages", Args: cobra.ExactArgs(1),
		Example: `  lazuli queue purge orders-poison --match test --yes
  lazuli queue purge orders-poison --all --yes`,
	}
	open, filter, confirm, output := queueStorage(cmd), filterFlags(cmd), console.Confirmation(cmd),
		console.LineOutput(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "all messages, including hidden ones")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := filter.read()
		if err != nil {
			return err
		}
		// All messages need the word for it: a filter that was forgotten must not empty the queue.
		if f.All() != all {
			return console.Usagef("purge: select messages with --all, or with filters and --limit")
		}
		question := "Delete the messages of %s that match?"
		if all {
			question = "Delete all messages of %s, also those that workers have?"
		}
		if err := confirm(fmt.Sprintf(question, args[0])); err != nil {
			return err
		}
		storage, err := open(cmd.Context())
		if err != nil {
			return err
		}
		f.Reasons = reasons(storage, args[0])
		n, err := queuetool.Purge(cmd.Context(), storage.Queues.NewQueueClient(args[0]), f)
		switch {
		// A negative number stands for a queue that was cleared as a whole, without a count.
		case n > 0 || n == 0 && err == nil:
			return errors.Join(err, output(purgeRow{args[0], &n}, "deleted %s from %s", console.Count(n, "message"), args[0]))
		case err == nil:
			return output(purgeRow{args[0], nil}, "cleared %s", args[0])
		}
		return err
	}
	return cmd
}

// purgeRow is the JSON of `lazuli queue purge`.
type purgeRow struct {
	Queue string `json:"queue"`
	// Deleted is the number of messages; nil if the queue was cleared, which does not count them.
	Deleted *int `json:"deleted,omitempty"`
}
