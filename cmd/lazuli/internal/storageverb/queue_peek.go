package storageverb

import (
	"errors"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/sdk/poison"
	"github.com/lazuli-storage/lazuli/internal/sdk/queuetool"
	"github.com/lazuli-storage/lazuli/workers"
)

// maxHidden is the number of messages that Lazuli shows at once where hidden ones are.
const maxHidden = 1000

func newQueuePeekCommand() *cobra.Command {
	var poison, hidden bool
	cmd := &cobra.Command{
		Use: "peek QUEUE", Short: "Show messages without changing them", Args: cobra.ExactArgs(1),
		Long: `Show up to 32 visible messages without changing them. On Lazuli, --hidden shows up to 1,000 messages, including those that a worker is
handling and those that wait for their next attempt or the end of their delay.

For poisoned messages that Lazuli's workers have recorded, the output has the reason, the time and the function that moved them
to the poison queue.`,
		Example: `  lazuli queue peek orders --poison --reason 'connection refused'
  lazuli queue peek orders --hidden`,
	}
	open, filter := queueStorage(cmd), filterFlags(cmd)
	cmd.Flags().BoolVar(&poison, "poison", false, "show the messages of the poison queue")
	cmd.Flags().BoolVar(&hidden, "hidden", false, "show hidden messages as well (Lazuli only)")
	begin := console.ListOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		f, err := filter.read()
		if err != nil {
			return err
		}
		most := 32
		if hidden {
			most = maxHidden
		}
		if f.Limit > most {
			return console.Usagef("--limit is %d, not 1 to %d", f.Limit, most)
		}
		name := args[0]
		// So that the name may be that of the queue or of its poison queue.
		if poison && !strings.HasSuffix(name, queuetool.PoisonSuffix) {
			name += queuetool.PoisonSuffix
		}
		storage, err := open(cmd.Context())
		if err != nil {
			return err
		}
		f.Reasons = reasons(storage, name)
		client := storage.Queues.NewQueueClient(name)
		peek := queuetool.Peek
		if hidden {
			peek = queuetool.PeekAll
		}
		messages, err := peek(cmd.Context(), client, most)
		if err != nil {
			return err
		}
		// Before the filter, which may select by the reason.
		if err := f.Reasons.ReadOf(cmd.Context(), messages); err != nil {
			return err
		}
		messages = f.Of(messages)
		return writeMessages(begin, messages, f.Reasons, hidden, time.Now())
	}
	return cmd
}

// reasons hold what was recorded of a poison queue; other queues have none.
func reasons(storage *workers.Storage, queue string) *queuetool.Reasons {
	if !strings.HasSuffix(queue, queuetool.PoisonSuffix) {
		return nil
	}
	return queuetool.NewReasons(storage.Tables, queue)
}

func writeMessages(begin func(...string) *console.List, messages []queuetool.Message, r *queuetool.Reasons, hidden bool,
	now time.Time) (err error) {
	titles := []string{"ID", "INSERTED", "ATTEMPTS"}
	if hidden {
		titles = append(titles, "VISIBLE")
	}
	if r != nil {
		titles = append(titles, "FUNCTION", "REASON")
	}
	out := begin(append(titles, "BODY")...).Or("there are no messages to show")
	for _, m := range messages {
		object := struct {
			queuetool.Message
			Poison *poisoned `json:",omitempty"`
		}{Message: m}
		record, known := r.Of(m.ID)
		attempts := m.Attempts
		if known { // of the message that failed, not of its copy in the poison queue
			object.Poison, attempts = &poisoned{Record: record}, record.Attempts
			object.Attempts = attempts
		} else {
			record = poison.Record{Function: "-", Reason: "-"}
		}
		cells := []any{m.ID, console.ClockText(m.Inserted), attempts}
		if hidden {
			when := "now"
			if m.NextVisible.After(now) {
				when = "in " + m.NextVisible.Sub(now).Round(time.Second).String()
			}
			cells = append(cells, when)
		}
		if r != nil {
			cells = append(cells, record.Function, console.OneLine(record.Reason))
		}
		err = errors.Join(err, out.Add(console.InStyle(object), append(cells, console.OneLine(m.Body))...))
	}
	return out.End(err)
}

// poisoned is the record of a poisoned message without its attempts, which are those of the message.
type poisoned struct {
	poison.Record
	Attempts *int64 `json:",omitempty"` // In place of the record's, and never set.
}

// queueFilter are the flags that choose messages.
type queueFilter struct {
	match, reason, function, id string
	olderThan                   time.Duration
	limit                       int
}

// filterFlags adds the flags that choose messages.
func filterFlags(cmd *cobra.Command) *queueFilter {
	f := &queueFilter{}
	fl := cmd.Flags()
	fl.StringVarP(&f.match, "match", "m", "", "only messages whose decoded body matches this regular expression (RE2)")
	fl.StringVar(&f.id, "id", "", "only the message with this id")
	fl.StringVar(&f.reason, "reason", "",
		"only poisoned messages whose recorded reason, last error or stack matches this regular expression")
	fl.StringVar(&f.function, "function", "", "only messages that this function moved to the poison queue")
	fl.DurationVar(&f.olderThan, "older-than", 0,
		"only messages that were moved to the poison queue at least this long ago")
	fl.IntVarP(&f.limit, "limit", "n", 0, "maximum number of messages (default: all available)")
	return f
}

func (f *queueFilter) read() (queuetool.Filter, error) {
	chosen := queuetool.Filter{Limit: f.limit, Function: f.function}
	if f.id != "" {
		chosen.IDs = []string{f.id}
	}
	switch {
	case f.limit < 0:
		return chosen, console.Usagef("--limit must not be negative, but is %d", f.limit)
	case f.olderThan < 0:
		return chosen, console.Usagef("--older-than must not be negative, but is %v", f.olderThan)
	// The border is computed once: computed for each message it would move while the queue is read.
	case f.olderThan > 0:
		chosen.Before = time.Now().Add(-f.olderThan)
	}
	// Both expressions are compiled before the first request, so that an error in one costs no messages a dequeue.
	for _, e := range []struct {
		flag, text string
		to         **regexp.Regexp
	}{{"--match", f.match, &chosen.Match}, {"--reason", f.reason, &chosen.Reason}} {
		if e.text == "" {
			continue
		}
		var err error
		if *e.to, err = regexp.Compile(e.text); err != nil {
			return chosen, console.Usagef("%s: %w", e.flag, err)
		}
	}
	return chosen, nil
}
