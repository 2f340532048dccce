package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/server/events"
)

// newEventCommand makes `lazuli event`, which manages the event subscriptions of a running server.
func newEventCommand(m *Main) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "event",
		Short: "Subscribe webhooks and queues to the events of blobs, as Azure Event Grid does",
		Long: `Create, list and remove the event subscriptions of a running server that was started with --events, and wait until
events are delivered. The flags of create have the names of "az eventgrid event-subscription create"; docs/events.md
describes the events. Subscriptions are stored with the data. --admin-host and --admin-port say where the server's
admin listener is.`,
	}
	ask := target.AdminFlags(m.Environ, cmd, "/admin/events")
	cmd.AddCommand(newEventCreate(ask), newEventList(ask), newEventRemove(ask), newEventFlush(ask))
	return cmd
}

func newEventCreate(ask target.AdminCaller) *cobra.Command {
	var s events.Subscription
	var filters []string
	cmd := &cobra.Command{
		Use:     "create",
		Aliases: []string{"add"},
		Short:   "Create a subscription after its endpoint has passed validation",
		Example: `  lazuli event create --name thumbs --endpoint http://localhost:7071/runtime/webhooks/EventGrid?functionName=Thumbnail
  lazuli event create --name audit --endpoint-type storagequeue --endpoint events --included-event-types Microsoft.Storage.BlobDeleted
  lazuli event create --name large --endpoint http://localhost:8080/hook --subject-begins-with /blobServices/default/containers/photos/ \
    --advanced-filter "data.contentLength NumberGreaterThan 1000000" --deadletter-container dead
  lazuli event create --name orders --endpoint http://localhost:8080/hook --event-delivery-schema cloudeventschemav1_0 \
    --included-event-types Lazuli.Storage.MessagePut,Lazuli.Storage.EntityUpdated`,
		Args: cobra.NoArgs,
	}
	output := console.ReportOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		// Parsed here and not by the server, since the form is that of the flag; the server checks what it means.
		for _, text := range filters {
			f, err := parseAdvancedFilter(text)
			if err != nil {
				return console.Usage(err)
			}
			s.AdvancedFilters = append(s.AdvancedFilters, f)
		}
		answer, added, err := target.Create[events.Status](cmd, ask, &s, "an event subscription")
		if err != nil {
			return err
		}
		return output(answer, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, added.Name, added.State)
			return err
		})
	}
	f := cmd.Flags()
	f.StringVar(&s.Name, "name", "", "name of the subscription: 3 to 64 letters, digits and hyphens")
	f.StringVar(&s.Account, "account", auth.DevelopmentAccount, "account whose events are delivered")
	f.StringVar(&s.EndpointType, "endpoint-type", events.Webhook, "webhook or storagequeue")
	f.StringVar(&s.Endpoint, "endpoint", "", "URL of the webhook, or name of a queue of the account")
	f.StringVar(&s.DeliverySchema, "event-delivery-schema", events.GridSchema, "eventgridschema or cloudeventschemav1_0")
	f.StringSliceVar(&s.IncludedEventTypes, "included-event-types", nil,
		"types of events (default: those that Event Grid has for blobs)")
	f.StringVar(&s.SubjectBeginsWith, "subject-begins-with", "",
		"prefix of the subjects, such as /blobServices/default/containers/NAME/blobs/PREFIX or "+
			"/queueServices/default/queues/NAME/")
	f.StringVar(&s.SubjectEndsWith, "subject-ends-with", "", "suffix of the subjects, such as .jpg")
	f.BoolVar(&s.SubjectCaseSensitive, "subject-case-sensitive", false, "match the case of subjects")
	f.StringArrayVar(&filters, "advanced-filter", nil,
		`"KEY OPERATOR VALUE ...", such as "data.api StringIn PutBlob CopyBlob"; can be given several times`)
	f.IntVar(&s.MaxDeliveryAttempts, "max-delivery-attempts", 30, "maximum number of delivery attempts, 1 to 30")
	f.IntVar(&s.EventTTL, "event-ttl", 1440, "time to live of an event in minutes, 1 to 1440")
	f.IntVar(&s.MaxEventsPerBatch, "max-events-per-batch", 1, "maximum number of events in a request, 1 to 5000")
	f.IntVar(&s.PreferredBatchSize, "preferred-batch-size-in-kilobytes", 64,
		"preferred size of a request in KiB, 1 to 1024")
	f.StringVar(&s.DeadLetterContainer, "deadletter-container", "",
		"dead-letter container of the account for undeliverable events (default: they are dropped)")
	return cmd
}

// parseAdvancedFilter parses "KEY OPERATOR VALUE ...". Values that are JSON are taken as such: numbers, booleans,
// ranges [1,5].
func parseAdvancedFilter(text string) (f events.AdvancedFilter, err error) {
	words := strings.Fields(text)
	if len(words) < 2 {
		return f, fmt.Errorf("--advanced-filter %q: want KEY, OPERATOR and values", text)
	}
	f.Key, f.OperatorType = words[0], words[1]
	for _, w := range words[2:] {
		var v any = w
		if !strings.HasPrefix(f.OperatorType, "String") {
			if err := json.Unmarshal([]byte(w), &v); err != nil {
				return f, fmt.Errorf("--advanced-filter %q: %s is not a number, true, false or a range [LOW,HIGH]", text, w)
			}
		}
		f.Values = append(f.Values, v)
	}
	if len(f.Values) == 1 && events.TakesOneValue(f.OperatorType) {
		f.Value, f.Values = f.Values[0], nil
	}
	return f, nil
}

func newEventList(ask target.AdminCaller) *cobra.Command {
	cmd := &cobra.Command{Use: "ls", Short: "List the subscriptions with counts of their events", Args: cobra.NoArgs}
	begin := console.ListOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		list, err := target.AskAdmin[[]events.Status](cmd, ask, "", "a list of event subscriptions")
		out := begin("ACCOUNT", "NAME", "STATE", "DELIVERED", "PENDING", "FAILED", "DEAD", "DROPPED", "ENDPOINT",
			"LAST ERROR").Or("there are no event subscriptions; lazuli event create makes one")
		for _, s := range list {
			err = errors.Join(err, out.Add(s, s.Account, s.Name, s.State, s.Delivered, s.Pending, s.Failed, s.DeadLettered,
				s.Dropped, s.Endpoint, console.OneLine(s.LastError)))
		}
		return out.End(err)
	}
	return cmd
}

func newEventRemove(ask target.AdminCaller) *cobra.Command {
	var account string
	cmd := &cobra.Command{Use: "rm SUBSCRIPTION ...",
		Short: "Remove subscriptions with their undelivered events", Args: cobra.MinimumNArgs(1),
		Example: "  lazuli event rm audit --yes"}
	confirm := console.Confirmation(cmd)
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		for _, name := range names {
			if err := confirm(fmt.Sprintf("Remove the subscription %s, with the events that it has not delivered?",
				name)); err != nil {
				return err
			}
			if _, err := ask(cmd, http.MethodDelete, "/"+url.PathEscape(account)+"/"+url.PathEscape(name), nil); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		return nil
	}
	cmd.Flags().StringVar(&account, "account", auth.DevelopmentAccount, "account of the subscriptions")
	return cmd
}

func newEventFlush(ask target.AdminCaller) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{Use: "flush", Short: "Wait until all events so far are delivered, dead-lettered or dropped",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := ask(cmd, http.MethodPost, "/flush?timeout="+url.QueryEscape(timeout.String()), nil)
			return err
		}}
	cmd.Flags().DurationVar(&timeout, "timeout", 8*time.Second, "maximum time to wait")
	return cmd
}
