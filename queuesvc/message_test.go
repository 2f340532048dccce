package queuesvc_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azqueue/v2"

	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
)

func TestPutMessage(t *testing.T) {
	t.Parallel()
	f := start(t)
	q := f.queue(t, "orders")
	now := f.clock.Now().UTC().Truncate(time.Second)
	m := must(q.EnqueueMessage(t.Context(), "hello",
		&azqueue.EnqueueMessageOptions{TimeToLive: ptr(int32(3600)), VisibilityTimeout: ptr(int32(30))}))(t).Messages[0]
	if !m.InsertionTime.Equal(now) || !m.ExpirationTime.Equal(now.Add(time.Hour)) ||
		!m.TimeNextVisible.Equal(now.Add(30*time.Second)) ||
		len(*m.MessageID) != 36 || *m.PopReceipt == "" {
		t.Errorf("%v %v %v %s %s", m.InsertionTime, m.ExpirationTime, m.TimeNextVisible, *m.MessageID, *m.PopReceipt)
	}
	if list := must(q.DequeueMessages(t.Context(), nil))(t); len(list.Messages) != 0 {
		t.Error("a delayed message is visible")
	}
	f.clock.Advance(30 * time.Second)
	if list := must(q.DequeueMessages(t.Context(), nil))(t); len(list.Messages) != 1 {
		t.Error("a delayed message does not become visible")
	}
	week := must(q.EnqueueMessage(t.Context(), "x", nil))(t).Messages[0]
	if d := week.ExpirationTime.Sub(*week.InsertionTime); d != 7*24*time.Hour {
		t.Errorf("lives for %v by default", d)
	}
	never := must(q.EnqueueMessage(t.Context(), "x", &azqueue.EnqueueMessageOptions{TimeToLive: ptr(int32(-1))}))(
		t).Messages[0]
	if never.ExpirationTime.Year() != 9999 {
		t.Errorf("expires %v, want never", never.ExpirationTime)
	}
	// The receipt of Put is good until the message is dequeued.
	if _, err := q.DeleteMessage(t.Context(), *never.MessageID, *never.PopReceipt, nil); err != nil {
		t.Error(err)
	}

	_, err := q.EnqueueMessage(t.Context(), strings.Repeat("a", 64<<10+1), nil)
	wantCode(t, err, 413, "RequestBodyTooLarge")
	if _, err := q.EnqueueMessage(t.Context(), strings.Repeat("<", 64<<10), nil); err != nil {
		t.Errorf("64 KiB that grow by escaping: %v", err)
	}
	for _, o := range []azqueue.EnqueueMessageOptions{{TimeToLive: ptr(int32(0))}, {TimeToLive: ptr(int32(-2))},
		{VisibilityTimeout: ptr(int32(-1))}, {VisibilityTimeout: ptr(int32(7*24*3600 + 1))}} {
		_, err := q.EnqueueMessage(t.Context(), "x", &o)
		wantCode(t, err, 400, "OutOfRangeQueryParameterValue")
	}
	_, err = q.EnqueueMessage(t.Context(), "x",
		&azqueue.EnqueueMessageOptions{TimeToLive: ptr(int32(30)), VisibilityTimeout: ptr(int32(30))})
	wantCode(t, err, 400, "InvalidQueryParameterValue")
	_, err = f.sdk.NewQueueClient("none").EnqueueMessage(t.Context(), "x", nil)
	wantCode(t, err, 404, "QueueNotFound")
}

func TestMessageTexts(t *testing.T) {
	t.Parallel()
	q := start(t).queue(t, "orders")
	for _, text := range []string{"", " ", "\n\t x \n", "a<b>&\"'c", "]]>", "啊齄丂狛狜", "\U0001F600", "<QueueMessage>&amp;",
		strings.Repeat("é", 32<<10)} {
		must(q.EnqueueMessage(t.Context(), text, nil))(t)
		m := must(q.DequeueMessage(t.Context(), nil))(t).Messages[0]
		got := ""
		if m.MessageText != nil {
			got = *m.MessageText
		}
		if got != text {
			t.Errorf("put %.40q, got %.40q", text, got)
		}
	}
}

func TestGetMessages(t *testing.T) {
	t.Parallel()
	f := start(t)
	q := f.queue(t, "orders")
	for range 40 {
		must(q.EnqueueMessage(t.Context(), "x", nil))(t)
	}
	now := f.clock.Now().UTC().Truncate(time.Second)
	if list := must(q.DequeueMessages(t.Context(), nil))(t).Messages; len(list) != 1 || *list[0].DequeueCount != 1 ||
		!list[0].TimeNextVisible.Equal(now.Add(30*time.Second)) || *list[0].MessageText != "x" {
		t.Errorf("by default: %d messages", len(list))
	}
	many := &azqueue.DequeueMessagesOptions{NumberOfMessages: ptr(int32(32)), VisibilityTimeout: ptr(int32(60))}
	if list := must(q.DequeueMessages(t.Context(), many))(t).Messages; len(list) != 32 ||
		!list[31].TimeNextVisible.Equal(now.Add(time.Minute)) {
		t.Errorf("%d messages", len(list))
	}
	if list := must(q.DequeueMessages(t.Context(), many))(t).Messages; len(list) != 7 {
		t.Errorf("%d messages, want the last 7", len(list))
	}
	if list := must(q.DequeueMessages(t.Context(), many))(t).Messages; len(list) != 0 {
		t.Errorf("%d messages of none", len(list))
	}
	f.clock.Advance(time.Minute)
	if list := must(q.DequeueMessages(t.Context(), many))(t).Messages; len(list) != 32 || *list[0].DequeueCount != 2 {
		t.Errorf("%d messages came back", len(list))
	}
	for _, n := range []int32{0, 33, -1} {
		_, err := q.DequeueMessages(t.Context(), &azqueue.DequeueMessagesOptions{NumberOfMessages: ptr(n)})
		wantCode(t, err, 400, "OutOfRangeQueryParameterValue")
	}
	for _, v := range []int32{0, 7*24*3600 + 1} {
		_, err := q.DequeueMessages(t.Context(), &azqueue.DequeueMessagesOptions{VisibilityTimeout: ptr(v)})
		wantCode(t, err, 400, "OutOfRangeQueryParameterValue")
	}
	_, err := f.sdk.NewQueueClient("none").DequeueMessages(t.Context(), nil)
	wantCode(t, err, 404, "QueueNotFound")
}

func TestPeekMessages(t *testing.T) {
	t.Parallel()
	f := start(t)
	q := f.queue(t, "orders")
	if list := must(q.PeekMessages(t.Context(), nil))(t).Messages; len(list) != 0 {
		t.Errorf("%d messages of none", len(list))
	}
	must(q.EnqueueMessage(t.Context(), "a", nil))(t)
	f.clock.Advance(time.Second)
	must(q.EnqueueMessage(t.Context(), "b", nil))(t)
	for range 2 { // it changes nothing
		list := must(q.PeekMessages(t.Context(), &azqueue.PeekMessagesOptions{NumberOfMessages: ptr(int32(32))}))(t).Messages
		if len(list) != 2 || *list[0].MessageText != "a" || *list[1].MessageText != "b" || *list[0].DequeueCount != 0 {
			t.Errorf("%d messages", len(list))
		}
	}
	if list := must(q.PeekMessages(t.Context(), nil))(t).Messages; len(list) != 1 {
		t.Errorf("by default: %d messages", len(list))
	}
	_, err := q.PeekMessages(t.Context(), &azqueue.PeekMessagesOptions{NumberOfMessages: ptr(int32(33))})
	wantCode(t, err, 400, "OutOfRangeQueryParameterValue")
	_, err = f.sdk.NewQueueClient("none").PeekMessages(t.Context(), nil)
	wantCode(t, err, 404, "QueueNotFound")
}

func TestUpdateMessage(t *testing.T) {
	t.Parallel()
	f := start(t)
	q := f.queue(t, "orders")
	put := must(q.EnqueueMessage(t.Context(), "old", &azqueue.EnqueueMessageOptions{TimeToLive: ptr(int32(100))}))(
		t).Messages[0]
	got := must(q.DequeueMessage(t.Context(), nil))(t).Messages[0]
	id := *got.MessageID
	update := func(receipt, text string, visibility int32) (azqueue.UpdateMessageResponse, error) {
		return q.UpdateMessage(t.Context(), id, receipt, text, &azqueue.UpdateMessageOptions{VisibilityTimeout: &visibility})
	}
	_, err := update(*put.PopReceipt, "x", 0)
	wantCode(t, err, 404, "MessageNotFound")
	now := f.clock.Now().UTC().Truncate(time.Second)
	first := must(update(*got.PopReceipt, "new", 10))(t)
	if !first.TimeNextVisible.Equal(now.Add(10*time.Second)) || *first.PopReceipt == *got.PopReceipt {
		t.Errorf("%v, %s", first.TimeNextVisible, *first.PopReceipt)
	}
	_, err = update(*got.PopReceipt, "x", 0)
	wantCode(t, err, 404, "MessageNotFound")
	_, err = update(*first.PopReceipt, "x", 101)
	wantCode(t, err, 400, "InvalidQueryParameterValue")
	_, err = update(*first.PopReceipt, "x", 7*24*3600+1)
	wantCode(t, err, 400, "OutOfRangeQueryParameterValue")
	_, err = update(*first.PopReceipt, strings.Repeat("x", 64<<10+1), 0)
	wantCode(t, err, 413, "RequestBodyTooLarge")
	_, err = update("invalid", "x", 0)
	wantCode(t, err, 400, "InvalidQueryParameterValue")

	// Without a body only the visibility changes, also where that shows only once it was read.
	receipt := *first.PopReceipt
	for _, headers := range [][]string{nil, {"Transfer-Encoding", "chunked"}} {
		r := f.raw(t, "PUT", "/orders/messages/"+id+"?visibilitytimeout=0&popreceipt="+escape(receipt), ptr(""), headers...)
		if receipt = r.header.Get("x-ms-popreceipt"); r.status != 204 || receipt == "" {
			t.Fatalf("%v: %d %s", headers, r.status, r.body)
		}
	}
	again := must(q.DequeueMessage(t.Context(), nil))(t).Messages[0]
	if *again.MessageText != "new" || *again.DequeueCount != 2 || !again.ExpirationTime.Equal(*put.ExpirationTime) {
		t.Errorf("%q, dequeued %d times", *again.MessageText, *again.DequeueCount)
	}
	f.clock.Advance(100 * time.Second)
	_, err = update(*again.PopReceipt, "x", 0)
	wantCode(t, err, 404, "MessageNotFound")
	_, err = f.sdk.NewQueueClient("none").UpdateMessage(t.Context(), id, *again.PopReceipt, "x",
		&azqueue.UpdateMessageOptions{VisibilityTimeout: ptr(int32(0))})
	wantCode(t, err, 404, "QueueNotFound")
}

func TestDeleteMessage(t *testing.T) {
	t.Parallel()
	f := start(t)
	q := f.queue(t, "orders")
	must(q.EnqueueMessage(t.Context(), "x", nil))(t)
	first := must(q.DequeueMessage(t.Context(), nil))(t).Messages[0]
	f.clock.Advance(30 * time.Second)
	second := must(q.DequeueMessage(t.Context(), nil))(t).Messages[0]
	id := *first.MessageID
	_, err := q.DeleteMessage(t.Context(), id, *first.PopReceipt, nil)
	wantCode(t, err, 404, "MessageNotFound")
	f.clock.Advance(30 * time.Second) // its time ran out, but no other caller got it
	must(q.DeleteMessage(t.Context(), id, *second.PopReceipt, nil))(t)
	_, err = q.DeleteMessage(t.Context(), id, *second.PopReceipt, nil)
	wantCode(t, err, 404, "MessageNotFound")
	_, err = q.DeleteMessage(t.Context(), id, "invalid", nil)
	wantCode(t, err, 400, "InvalidQueryParameterValue")
	_, err = q.DeleteMessage(t.Context(), "not-an-id", *second.PopReceipt, nil)
	wantCode(t, err, 404, "MessageNotFound")
	_, err = q.DeleteMessage(t.Context(), "not-an-id", "invalid", nil)
	wantCode(t, err, 400, "InvalidQueryParameterValue")
	// Base64 that the service did not issue, of another length and of the same.
	for _, receipt := range []string{"bkotggobrtswewdlauhh", "AAAAAAAAAAAAAAAAAAAAAAAAAAA="} {
		_, err = q.DeleteMessage(t.Context(), "test-message-1", receipt, nil)
		wantCode(t, err, 404, "MessageNotFound")
		_, err = q.UpdateMessage(t.Context(), id, receipt, "x",
			&azqueue.UpdateMessageOptions{VisibilityTimeout: ptr(int32(1))})
		wantCode(t, err, 404, "MessageNotFound")
		_, err = f.sdk.NewQueueClient("none").DeleteMessage(t.Context(), id, receipt, nil)
		wantCode(t, err, 404, "QueueNotFound")
	}
	_, err = f.sdk.NewQueueClient("none").DeleteMessage(t.Context(), id, *second.PopReceipt, nil)
	wantCode(t, err, 404, "QueueNotFound")
}

// Delete Message deletes further messages, each with an outcome of its own; an invalid list deletes nothing.
func TestDeleteMessageAlso(t *testing.T) {
	t.Parallel()
	f := start(t)
	q := f.queue(t, "orders")
	for range 40 {
		must(q.EnqueueMessage(t.Context(), "x", nil))(t)
	}
	var held []*azqueue.DequeuedMessage
	for range 2 {
		most := &azqueue.DequeueMessagesOptions{NumberOfMessages: ptr(int32(32)), VisibilityTimeout: ptr(int32(600))}
		held = append(held, must(q.DequeueMessages(t.Context(), most))(t).Messages...)
	}
	also := func(list ...*azqueue.DequeuedMessage) (text string) {
		for _, m := range list {
			text += "," + *m.MessageID + ":" + *m.PopReceipt
		}
		return strings.TrimPrefix(text, ",")
	}
	remove := func(first *azqueue.DequeuedMessage, header string) (string, error) {
		var answer *http.Response
		ctx := policy.WithHTTPHeader(policy.WithCaptureResponse(t.Context(), &answer),
			http.Header{longpoll.AlsoHeader: {header}})
		_, err := q.DeleteMessage(ctx, *first.MessageID, *first.PopReceipt, nil)
		return answer.Header.Get(longpoll.AlsoHeader), err
	}
	count := func() int { return int(*must(q.GetProperties(t.Context(), nil))(t).ApproximateMessagesCount) }
	for name, header := range map[string]string{
		"one too many":      also(held[1:33]...),
		"no receipt":        *held[1].MessageID,
		"an empty part":     also(held[1]) + ",",
		"another separator": strings.ReplaceAll(also(held[1:3]...), ",", ";"),
		"no such ID":        "x:" + *held[1].PopReceipt,
	} {
		outcomes, err := remove(held[0], header)
		wantCode(t, err, 400, "InvalidHeaderValue")
		if outcomes != "" || count() != 40 {
			t.Errorf("%s: outcomes %q, %d messages are left", name, outcomes, count())
		}
	}
	stale := *held[3]
	stale.PopReceipt = held[4].PopReceipt
	outcomes, err := remove(held[0], also(held[1], held[2], &stale, held[2]))
	if outcomes != "Deleted,Deleted,MessageNotFound,MessageNotFound" || err != nil || count() != 37 {
		t.Errorf("outcomes %q, %v, %d messages are left", outcomes, err, count())
	}
	// The status is that of the message in the path, whatever happens to the others.
	outcomes, err = remove(held[0], also(held[5:36]...))
	wantCode(t, err, 404, "MessageNotFound")
	if outcomes != strings.TrimSuffix(strings.Repeat("Deleted,", 31), ",") || count() != 6 {
		t.Errorf("outcomes %q, %d messages are left", outcomes, count())
	}
}

// Put Message puts further messages, all or none; an invalid list puts nothing.
func TestPutMessageAlso(t *testing.T) {
	t.Parallel()
	f := start(t)
	q := f.queue(t, "orders")
	put := func(text, header string) (string, []*azqueue.EnqueuedMessage, error) {
		var answer *http.Response
		ctx := policy.WithHTTPHeader(policy.WithCaptureResponse(t.Context(), &answer),
			http.Header{longpoll.AlsoHeader: {header}})
		got, err := q.EnqueueMessage(ctx, text, &azqueue.EnqueueMessageOptions{VisibilityTimeout: ptr(int32(5)),
			TimeToLive: ptr(int32(100))})
		return answer.Header.Get(longpoll.AlsoHeader), got.Messages, err
	}
	count := func() int { return int(*must(q.GetProperties(t.Context(), nil))(t).ApproximateMessagesCount) }
	large := strings.Repeat("x", 64<<10)
	for name, tc := range map[string]struct{ text, header, code string }{
		"longer than the text":    {"abc", "4:0", "InvalidHeaderValue"},
		"no number":               {"abc", "one:0", "InvalidHeaderValue"},
		"no time":                 {"abc", "1", "InvalidHeaderValue"},
		"an empty part":           {"abc", "1:0,", "InvalidHeaderValue"},
		"negative":                {"abc", "-1:0", "InvalidHeaderValue"},
		"a time of over a week":   {"abc", "1:604801", "InvalidHeaderValue"},
		"within a character":      {"aä", "1:0", "InvalidHeaderValue"},
		"too many":                {"abc", strings.Repeat("0:0,", 31) + "0:0", "InvalidHeaderValue"},
		"hidden beyond its life":  {"abc", "1:0,1:101", "InvalidQueryParameterValue"},
		"the first one too large": {large + "xy", "1:0", "RequestBodyTooLarge"},
		"another one too large":   {large + "xy", "65537:0", "InvalidHeaderValue"},
		"all too large": {strings.Repeat(large, 16) + "x", strings.Repeat(",65536:0", 16)[1:],
			"RequestBodyTooLarge"},
	} {
		status := 400
		if tc.code == "RequestBodyTooLarge" {
			status = 413
		}
		answer, _, err := put(tc.text, tc.header)
		wantCode(t, err, status, tc.code)
		if answer != "" || count() != 0 {
			t.Errorf("%s: the answer has %q, %d messages were put", name, answer, count())
		}
	}
	if answer, list, err := put("one", longpoll.AlsoNone); answer != "0" || len(list) != 1 || err != nil {
		t.Errorf("one: the answer has %q and %d messages, %v", answer, len(list), err)
	}
	answer, list, err := put("firstzwölf<&>\r\n", "6:0,0:0,5:7")
	if answer != "3" || len(list) != 4 || err != nil {
		t.Fatalf("the answer has %q and %d messages, %v", answer, len(list), err)
	}
	// Each has an identity, a receipt and a time of its own.
	must(q.UpdateMessage(t.Context(), *list[3].MessageID, *list[3].PopReceipt, "changed",
		&azqueue.UpdateMessageOptions{VisibilityTimeout: ptr(int32(0))}))(t)
	var texts []string
	for range 2 {
		got := must(q.DequeueMessages(t.Context(), &azqueue.DequeueMessagesOptions{NumberOfMessages: ptr(int32(32))}))(t)
		for _, m := range got.Messages {
			texts = append(texts, *m.MessageText)
		}
		f.clock.Advance(5 * time.Second)
	}
	if want := []string{"zwölf", "", "changed", "one", "first"}; !slices.Equal(texts, want) {
		t.Errorf("received %q, want %q", texts, want)
	}
}

func TestClearMessages(t *testing.T) {
	t.Parallel()
	f := start(t)
	q := f.queue(t, "orders")
	for range 5 {
		must(q.EnqueueMessage(t.Context(), "x", nil))(t)
	}
	must(q.DequeueMessage(t.Context(), nil))(t)
	must(q.ClearMessages(t.Context(), nil))(t)
	f.clock.Advance(time.Minute)
	if p := must(q.GetProperties(t.Context(), nil))(t); *p.ApproximateMessagesCount != 0 {
		t.Errorf("%d messages", *p.ApproximateMessagesCount)
	}
	if list := must(q.DequeueMessages(t.Context(), nil))(t).Messages; len(list) != 0 {
		t.Errorf("%d messages", len(list))
	}
	_, err := f.sdk.NewQueueClient("none").ClearMessages(t.Context(), nil)
	wantCode(t, err, 404, "QueueNotFound")
}
