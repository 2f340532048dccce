package workers

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/workers/internal/trigger"
)

// optionTypes are the option types of the triggers.
var optionTypes = map[string]reflect.Type{
	trigger.QueueTrigger: reflect.TypeFor[QueueOption](),
	trigger.BlobTrigger:  reflect.TypeFor[BlobOption](),
	trigger.TableTrigger: reflect.TypeFor[TableOption](),
	trigger.TimerTrigger: reflect.TypeFor[TimerOption](),
}

// The result type of a With function decides at compile time which registrations accept it.
func TestOptionsCompileOnlyForTheirTriggers(t *testing.T) {
	t.Parallel()
	messages := []string{trigger.BlobTrigger, trigger.QueueTrigger, trigger.TableTrigger}
	all := []string{trigger.BlobTrigger, trigger.QueueTrigger, trigger.TableTrigger, trigger.TimerTrigger}
	for name, c := range map[string]struct {
		option   any // the function that makes it
		triggers []string
	}{
		"WithConnection":         {WithConnection, all},
		"WithRetry":              {WithRetry, all},
		"WithTimeout":            {WithTimeout, all},
		"WithBatchSize":          {WithBatchSize, messages},
		"WithNewBatchThreshold":  {WithNewBatchThreshold, messages},
		"WithConcurrency":        {WithConcurrency, messages},
		"WithMaxDequeueCount":    {WithMaxDequeueCount, messages},
		"WithVisibilityTimeout":  {WithVisibilityTimeout, messages},
		"WithMaxPollingInterval": {WithMaxPollingInterval, messages},
		"WithLease":              {WithLease, messages},
		"WithQueueName":          {WithQueueName, []string{trigger.QueueTrigger}},
		"WithMessageEncoding":    {WithMessageEncoding, []string{trigger.QueueTrigger}},
		"ConcurrencyPerKey":      {ConcurrencyPerKey[string], []string{trigger.QueueTrigger}},
		"WithPath":               {WithPath, []string{trigger.BlobTrigger}},
		"WithTable":              {WithTable, []string{trigger.TableTrigger}},
		"WithExisting":           {WithExisting, []string{trigger.TableTrigger}},
		"WithSchedule":           {WithSchedule, []string{trigger.TimerTrigger}},
		"WithTimeZone":           {WithTimeZone, []string{trigger.TimerTrigger}},
		"WithRunOnStartup":       {WithRunOnStartup, []string{trigger.TimerTrigger}},
		"WithMaxRetryCount":      {WithMaxRetryCount, []string{trigger.TimerTrigger}},
		"WithMonitor":            {WithMonitor, []string{trigger.TimerTrigger}},
	} {
		result := reflect.TypeOf(c.option).Out(0)
		for trigger, wanted := range optionTypes {
			if got := result.Implements(wanted); got != slices.Contains(c.triggers, trigger) {
				t.Errorf("%s compiles for %s: %v", name, trigger, got)
			}
		}
	}
}

// Every value implements what its type promises: Config.Defaults selects by the value's type.
func TestDefaultsApplyToTheTriggersThatHaveThem(t *testing.T) {
	t.Parallel()
	a := New(Config{Defaults: []Option{
		WithLease(7 * time.Second), WithTimeout(3 * time.Second), WithMessageEncoding(NoEncoding), WithMaxRetryCount(4),
		WithExisting(true), WithPath("in/{name}"),
	}})
	queue := a.Queue("queue", nil).core.Settings
	blob := a.Blob("blob", nil).core.Settings
	table := a.Table("table", nil).core.Settings
	timer := a.Timer("timer", nil).core.Settings
	for name, c := range map[string]struct{ got, want any }{
		"lease of the queue trigger":      {queue.Lease, 7 * time.Second},
		"lease of the blob trigger":       {blob.Lease, 7 * time.Second},
		"lease of the table trigger":      {table.Lease, 7 * time.Second},
		"lease of the timer":              {timer.Lease, time.Minute},
		"timeout of the queue trigger":    {queue.Timeout, 3 * time.Second},
		"timeout of the timer":            {timer.Timeout, 3 * time.Second},
		"encoding of the queue trigger":   {queue.Encoding, trigger.NoEncoding},
		"encoding of the blob trigger":    {blob.Encoding, trigger.Base64Encoding},
		"retries of the timer":            {timer.MaxRetries, 4},
		"retries of the queue trigger":    {queue.MaxRetries, 0},
		"existing rows, table trigger":    {table.Existing, true},
		"path of the blob trigger":        {blob.Path, "in/{name}"},
		"path of the queue trigger":       {queue.Path, ""},
		"existing rows, the blob trigger": {blob.Existing, false},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}

func TestExponential(t *testing.T) {
	t.Parallel()
	p := Exponential(time.Second, time.Minute)
	for attempts, want := range map[int64]time.Duration{0: time.Second, 1: time.Second, 2: 2 * time.Second,
		4: 8 * time.Second, 60: time.Minute, 5000: time.Minute} {
		for range 50 {
			got := p.Delay(attempts)
			if got < want*8/10 || got > want*12/10 || got > time.Minute {
				t.Fatalf("after %d attempts: %v, want %v give or take a fifth, and at most a minute", attempts, got, want)
			}
		}
	}
}
