package events

import (
	"encoding/json"
	"testing"
	"time"
)

// Every operator compares as Azure documents it, and a key that the event does not have matches the negative operators
// alone. https://learn.microsoft.com/azure/event-grid/event-filtering#operators
func TestAdvancedOperators(t *testing.T) {
	t.Parallel()
	e := &Event{ID: "id1", Subject: "/containers/photos/blobs/a.jpg", Type: BlobCreated, Topic: "topic",
		Data: json.RawMessage(`{"api":"PutBlob","contentLength":100,"flag":true,"nothing":null,"inner":{"Deep":"x"}}`)}
	for _, c := range []struct {
		filter        string
		match, absent bool // absent: for a key that the event does not have
	}{
		{`"operatorType":"StringIn","values":["copyblob","PUTBLOB"]`, true, false},
		{`"operatorType":"StringIn","values":["CopyBlob"]`, false, false},
		{`"operatorType":"StringNotIn","values":["CopyBlob"]`, true, true},
		{`"operatorType":"StringNotIn","values":["CopyBlob","PutBlob"]`, false, true},
		{`"operatorType":"StringBeginsWith","values":["put"]`, true, false},
		{`"operatorType":"StringNotBeginsWith","values":["put"]`, false, true},
		{`"operatorType":"StringEndsWith","values":["BLOB"]`, true, false},
		{`"operatorType":"StringNotEndsWith","values":["list"]`, true, true},
		{`"operatorType":"StringContains","values":["tbl"]`, true, false},
		{`"operatorType":"StringNotContains","values":["tbl"]`, false, true},
		{`"operatorType":"IsNullOrUndefined"`, false, true},
		{`"operatorType":"IsNotNull"`, true, false},
		{`"operatorType":"NumberIn","key":"data.contentLength","values":[99,100]`, true, false},
		{`"operatorType":"NumberNotIn","key":"data.contentLength","values":[99,100]`, false, true},
		{`"operatorType":"NumberLessThan","key":"data.contentLength","value":100`, false, false},
		{`"operatorType":"NumberLessThanOrEquals","key":"data.contentLength","value":100`, true, false},
		{`"operatorType":"NumberGreaterThan","key":"data.contentLength","value":100`, false, false},
		{`"operatorType":"NumberGreaterThanOrEquals","key":"data.contentLength","value":100`, true, false},
		{`"operatorType":"NumberInRange","key":"data.contentLength","values":[[1,2],[50,100]]`, true, false},
		{`"operatorType":"NumberNotInRange","key":"data.contentLength","values":[[1,2],[50,100]]`, false, true},
		{`"operatorType":"BoolEquals","key":"data.flag","value":true`, true, false},
		{`"operatorType":"BoolEquals","key":"data.flag","value":false`, false, false},
		{`"operatorType":"IsNullOrUndefined","key":"data.nothing"`, true, true},
		{`"operatorType":"StringIn","key":"data.inner.deep","values":["x"]`, true, false},
		{`"operatorType":"StringEndsWith","key":"Subject","values":[".JPG"]`, true, false},
		{`"operatorType":"StringIn","key":"eventType","values":["Microsoft.Storage.BlobCreated"]`, true, false},
		{`"operatorType":"StringIn","key":"source","values":["topic"]`, true, false},
		{`"operatorType":"NumberIn","values":[1]`, false, false},
	} {
		var f AdvancedFilter
		if err := json.Unmarshal([]byte(`{`+c.filter+`}`), &f); err != nil {
			t.Fatalf("%s: %v", c.filter, err)
		}
		if f.Key == "" {
			f.Key = "data.api"
		}
		if err := checkAdvanced([]AdvancedFilter{f}); err != nil {
			t.Errorf("%s: %v", c.filter, err)
			continue
		}
		if got := matchAdvanced([]AdvancedFilter{f}, e); got != c.match {
			t.Errorf("%s: matches %v", c.filter, got)
		}
		f.Key = "data.absent.value"
		if got := matchAdvanced([]AdvancedFilter{f}, e); got != c.absent {
			t.Errorf("%s of an absent key: matches %v", c.filter, got)
		}
	}
}

func TestInvalidAdvancedFilters(t *testing.T) {
	t.Parallel()
	many := make([]any, maxAdvancedValues+1)
	for i := range many {
		many[i] = 1.
	}
	for name, list := range map[string][]AdvancedFilter{
		"operator":        {{OperatorType: "StringLike", Key: "subject", Values: []any{"a"}}},
		"key":             {{OperatorType: "StringIn", Key: "name", Values: []any{"a"}}},
		"no value":        {{OperatorType: "StringIn", Key: "subject"}},
		"needless value":  {{OperatorType: "IsNotNull", Key: "subject", Value: "a"}},
		"list for one":    {{OperatorType: "NumberLessThan", Key: "data.n", Values: []any{1.}}},
		"one for a list":  {{OperatorType: "NumberIn", Key: "data.n", Value: 1.}},
		"text for number": {{OperatorType: "NumberIn", Key: "data.n", Values: []any{"1"}}},
		"half a range":    {{OperatorType: "NumberInRange", Key: "data.n", Values: []any{[]any{1.}}}},
		"long text":       {{OperatorType: "StringIn", Key: "subject", Values: []any{string(make([]byte, maxSubject+1))}}},
		"many values":     {{OperatorType: "NumberIn", Key: "data.n", Values: many}},
		"many filters":    make([]AdvancedFilter, maxAdvanced+1),
	} {
		if err := checkAdvanced(list); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// The pauses are Azure's, with the minimums of some statuses.
func TestSchedule(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status, attempts int
		endpoint         string
		want             time.Duration
	}{
		{500, 1, Webhook, 10 * time.Second}, {500, 2, Webhook, 30 * time.Second}, {500, 3, Webhook, time.Minute},
		{500, 4, Webhook, 5 * time.Minute},
		{500, 5, Webhook, 10 * time.Minute}, {500, 6, Webhook, 30 * time.Minute}, {500, 7, Webhook, time.Hour},
		{500, 8, Webhook, 3 * time.Hour},
		{500, 9, Webhook, 6 * time.Hour}, {500, 10, Webhook, 12 * time.Hour}, {500, 29, Webhook, 12 * time.Hour},
		{408, 1, Webhook, 2 * time.Minute}, {503, 1, Webhook, 30 * time.Second}, {503, 3, Webhook, time.Minute},
		{404, 1, Webhook, 10 * time.Second},
		{404, 1, StorageQueue, 5 * time.Minute}, {401, 1, StorageQueue, 5 * time.Minute}, {0, 1, Webhook, 10 * time.Second},
	} {
		r := result{status: c.status}
		if got := r.pause(c.endpoint, c.attempts, 0); got != c.want {
			t.Errorf("status %d, attempt %d, %s: %v, want %v", c.status, c.attempts, c.endpoint, got, c.want)
		}
		if got, most := r.pause(c.endpoint, c.attempts, 1), c.want+c.want/10; got != most {
			t.Errorf("status %d with all jitter: %v, want %v", c.status, got, most)
		}
	}
}
