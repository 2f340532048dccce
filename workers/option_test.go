package workers

import (
	"reflect"
	"slices"
	"testing"
	"time"
)

// optionTypes are the option types of the triggers.
var optionTypes = map[string]reflect.Type{
	queueTrigger: reflect.TypeFor[QueueOption](),
	blobTrigger:  reflect.TypeFor[BlobOption](),
	tableTrigger: reflect.TypeFor[TableOption](),
	timerTrigger: reflect.TypeFor[TimerOption](),
}

// The result type of a With function decides at compile time which registrations accept it.
func TestOptionsCompileOnlyForTheirTriggers(t *testing.T) {
	t.Parallel()
	messages := []string{blobTrigger, queueTrigger, tableTrigger}
	all := []string{blobTrigger, queueTrigger, tableTrigger, timerTrigger}
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
		"WithQueueName":          {WithQueueName, []string{queueTrigger}},
		"WithMessageEncoding":    {WithMessageEncoding, []string{queueTrigger}},
		"ConcurrencyPerKey":      {ConcurrencyPerKey[string], []string{queueTrigger}},
		"WithPath":               {WithPath, []string{blobTrigger}},
		"WithTable":              {WithTable, []string{tableTrigger}},
		"WithExisting":           {WithExisting, []string{tableTrigger}},
		"WithSchedule":           {WithSchedule, []string{timerTrigger}},
		"WithTimeZone":           {WithTimeZone, []string{timerTrigger}},
		"WithRunOnStartup":       {WithRunOnStartup, []string{timerTrigger}},
		"WithMaxRetryCount":      {WithMaxRetryCount, []string{timerTrigger}},
		"WithMonitor":            {WithMonitor, []string{timerTrigger}},
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
	queue := a.Queue("queue", nil).settings
	blob := a.Blob("blob", nil).settings
	table := a.Table("table", nil).settings
	timer := a.Timer("timer", nil).settings
	for name, c := range map[string]struct{ got, want any }{
		"lease of the queue trigger":      {queue.lease, 7 * time.Second},
		"lease of the blob trigger":       {blob.lease, 7 * time.Second},
		"lease of the table trigger":      {table.lease, 7 * time.Second},
		"lease of the timer":              {timer.lease, time.Minute},
		"timeout of the queue trigger":    {queue.timeout, 3 * time.Second},
		"timeout of the timer":            {timer.timeout, 3 * time.Second},
		"encoding of the queue trigger":   {queue.encoding, NoEncoding},
		"encoding of the blob trigger":    {blob.encoding, Base64},
		"retries of the timer":            {timer.maxRetries, 4},
		"retries of the queue trigger":    {queue.maxRetries, 0},
		"existing rows, table trigger":    {table.existing, true},
		"path of the blob trigger":        {blob.path, "in/{name}"},
		"path of the queue trigger":       {queue.path, ""},
		"existing rows, the blob trigger": {blob.existing, false},
	} {
		if c.got != c.want {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
}
