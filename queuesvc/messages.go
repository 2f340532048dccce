package queuesvc

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/queue"
)

// Service versions that changed the message operations.
const (
	v20110818 wire.Version = 20110818 // visibility of up to a week; two hours before
	v20160531 wire.Version = 20160531 // Put Message answers with the message
	v20170729 wire.Version = 20170729 // messages may live longer than a week
)

// before reports whether the request asks for the behaviour before a version.
func (c *call) before(v wire.Version) bool { return c.Version != 0 && c.Version < v }

// putMessage implements Put Message.
// https://learn.microsoft.com/rest/api/storageservices/put-message
//
// With [longpoll.AlsoHeader], an extension, it puts further messages in the same transaction.
func (s *Service) putMessage(c *call) error {
	visibility, err := c.seconds("visibilitytimeout", 0, 0, maxVisibility)
	if err != nil {
		return err
	}
	ttl, err := c.messageTTL()
	if err != nil {
		return err
	}
	// The texts are parts of the body, and are copied when they are stored.
	body := bodies.Get().(*[]byte)
	defer func() {
		if cap(*body) <= maxPooledBody {
			bodies.Put(body)
		}
	}()
	list, also, err := c.newMessages(visibility, body)
	if err != nil {
		return err
	}
	q := s.state.Queue(c.Account, c.queue)
	var put []state.Message
	var events []*changes.Event
	for i := range list {
		if e := s.putEvent(c, len(list[i].Body)); e != nil {
			events = append(events, e)
		}
	}
	err = s.recordAll(c, events, func() (err error) {
		put, err = q.PutAll(list, ttl, c.Now)
		for i, e := range events {
			if err == nil {
				describe(e, c.queue, &put[i])
			}
		}
		if errors.Is(err, state.ErrPastExpiry) {
			return wire.InvalidQuery("visibilitytimeout", c.Query.Get("visibilitytimeout"),
				"messagettl must be greater than visibilitytimeout")
		}
		return err
	})
	if err != nil {
		return err
	}
	for i := range put {
		c.Touch(wire.MessagePut, put[i].ID, 0)
	}
	// Only a message that is visible now can end a wait at once. For the others, waitForMessages waits until they become
	// visible.
	if slices.ContainsFunc(list, func(m state.NewMessage) bool { return m.Visibility == 0 }) {
		s.common.Board.Touch(longpoll.Key(c.Account, c.queue))
	}
	if also {
		c.Set(longpoll.AlsoHeader, strconv.Itoa(len(list)-1))
	}
	if c.before(v20160531) {
		return c.Status(http.StatusCreated)
	}
	x := wire.NewXML(512 * len(put)).Open("QueueMessagesList")
	for i := range put {
		openMessage(x, &put[i], withReceipts).Close("QueueMessage")
	}
	return c.XML(http.StatusCreated, x.Close("QueueMessagesList"))
}

// newMessages reads the messages of Put Message: one, whose visibility timeout is given, and those of
// [longpoll.AlsoHeader]. also reports whether the request has the header. The texts of the messages are parts of room,
// which grows as needed.
func (c *call) newMessages(visibility time.Duration, room *[]byte) (list []state.NewMessage, also bool, err error) {
	header := c.Header(longpoll.AlsoHeader)
	if header == "" {
		body, err := c.messageBody(*room, maxMessage)
		if err != nil {
			return nil, false, err
		}
		*room = body
		text, err := parseMessage(body, maxMessage)
		return []state.NewMessage{{Body: text, Visibility: visibility}}, false, err
	}
	parts := []string(nil)
	if header != longpoll.AlsoNone {
		if parts = strings.SplitN(header, ",", longpoll.MaxAlso+1); len(parts) > longpoll.MaxAlso {
			return nil, true, wire.InvalidHeader(longpoll.AlsoHeader, header)
		}
	}
	lengths, total := make([]int, len(parts)), 0
	list = make([]state.NewMessage, 1+len(parts))
	list[0].Visibility = visibility
	for i, part := range parts {
		length, seconds, _ := strings.Cut(part, ":")
		n, err := strconv.ParseUint(length, 10, 31)
		hidden, notNumber := strconv.ParseUint(seconds, 10, 31)
		if err != nil || notNumber != nil || n > maxMessage || hidden > maxVisibility {
			return nil, true, wire.InvalidHeader(longpoll.AlsoHeader, header)
		}
		lengths[i], list[1+i].Visibility = int(n), time.Duration(hidden)*time.Second
		total += int(n)
	}
	most := maxMessage
	if len(parts) > 0 {
		most = longpoll.MaxAlsoText
	}
	body, err := c.messageBody(*room, most)
	if err != nil {
		return nil, true, err
	}
	*room = body
	text, err := parseMessage(body, most)
	switch {
	case err != nil:
		return nil, true, err
	case total > len(text):
		return nil, true, wire.InvalidHeader(longpoll.AlsoHeader, header)
	case len(text)-total > maxMessage:
		return nil, true, errMessageTooLarge
	}
	// The lengths are those of the further messages. The first one has what they leave, at the beginning of the text.
	rest := text
	for i := range list {
		n := len(text) - total
		if i > 0 {
			n = lengths[i-1]
		}
		list[i].Body, rest = rest[:n:n], rest[n:]
		if !utf8.Valid(list[i].Body) { // a length ends within a character
			return nil, true, wire.InvalidHeader(longpoll.AlsoHeader, header)
		}
	}
	return list, true, nil
}

// messageTTL reads messagettl: seconds, -1 for never, a week by default.
func (c *call) messageTTL() (time.Duration, error) {
	const name = "messagettl"
	if c.before(v20170729) {
		return c.seconds(name, weekTTL, 1, weekTTL)
	}
	switch c.Query.Get(name) {
	case "-1":
		return state.Forever, nil
	case "0": // neither -1 nor positive
		return 0, outOfRange(name, "0", 1, maxTTL)
	}
	n, err := c.number(name, weekTTL, 1, maxTTL)
	if err == nil && n > lastExpiry-c.Now.Unix() {
		return state.Forever, nil
	}
	return time.Duration(n) * time.Second, err
}

// lastExpiry is the last expiry time that is kept, in seconds since 1970: messages that expire after the year 2261 do
// not expire.
const lastExpiry = 9214646399

// getMessages implements Get Messages: it makes up to 32 messages invisible and returns them.
// https://learn.microsoft.com/rest/api/storageservices/get-messages
func (s *Service) getMessages(c *call) error {
	if c.Secondary { // Get Messages changes the messages
		return wire.ErrInsufficientAccountPermissions
	}
	n, err := c.number("numofmessages", 1, 1, maxBatch)
	if err != nil {
		return err
	}
	most := int64(maxVisibility)
	if c.before(v20110818) {
		most = 2 * 60 * 60
	}
	visibility, err := c.seconds("visibilitytimeout", defaultVisibility, 1, most)
	if err != nil {
		return err
	}
	q := s.state.Queue(c.Account, c.queue)
	list, err := s.waitForMessages(c, q, func(now time.Time) ([]state.Message, error) {
		return q.Get(int(n), visibility, now)
	})
	if err != nil {
		return err
	}
	for i := range list {
		c.Touch(wire.MessageReceived, list[i].ID, int(list[i].DequeueCount))
	}
	return c.messages(list, withReceipts)
}

// waitForMessages calls get repeatedly, for as long as the client wants to wait, until it returns messages. See
// [longpoll.WaitHeader].
func (s *Service) waitForMessages(c *call, q *state.Queue,
	get func(now time.Time) ([]state.Message, error)) (list []state.Message, err error) {
	now, polled := c.Now, false
	err = s.common.Wait(c.Request, longpoll.Key(c.Account, c.queue),
		func() time.Duration {
			d := min(q.NextVisible(now), time.Second)
			if d == 0 { // another request got it, or it cannot be read
				d = retryVisible
			}
			return d
		},
		func() (bool, error) {
			// The first look is at the time of the request, as without a wait. The later ones are at the time at which they
			// happen.
			if polled {
				now = s.now()
			}
			polled = true
			var err error
			list, err = get(now)
			return len(list) > 0, err
		})
	return list, err
}

// retryVisible is the time until a waiting request looks again at a message that is visible and was not received.
const retryVisible = 20 * time.Millisecond

// peekMessages implements Peek Messages: it returns up to 32 visible messages.
// https://learn.microsoft.com/rest/api/storageservices/peek-messages
//
// With [longpoll.HiddenHeader], an extension, it also returns hidden messages, up to 1,000, and the time at which each
// becomes visible. With [longpoll.AfterHeader] besides, it returns those after a position, and in
// [longpoll.PositionHeader] the position of the last one if more follow. With [longpoll.ReleaseHeader] it ends the wait
// of a Get Messages.
func (s *Service) peekMessages(c *call) error {
	most, hidden := int64(maxBatch), c.Header(longpoll.HiddenHeader) == longpoll.HiddenInclude
	if hidden {
		most = maxHidden
		c.Set(longpoll.HiddenHeader, longpoll.HiddenInclude)
	}
	n, err := c.number("numofmessages", 1, 1, most)
	if err != nil {
		return err
	}
	after, paged, err := hiddenAfter(c, hidden)
	if err != nil {
		return err
	}
	// Before anything is read: the caller has ended a wait of its own and asks what is left.
	s.common.ReleaseWait(c.Request, longpoll.Key(c.Account, c.queue))
	q := s.state.Queue(c.Account, c.queue)
	list, err := s.waitForMessages(c, q, func(now time.Time) (list []state.Message, err error) {
		if paged {
			list, after, err = q.PeekAll(int(n), after, now)
			return list, err
		}
		// Without paging the position is of no use, and the answer has no header for it.
		if hidden {
			list, _, err = q.PeekAll(int(n), state.Position{}, now)
			return list, err
		}
		return q.Peek(int(n), now)
	})
	if err != nil {
		return err
	}
	if paged && after != (state.Position{}) {
		c.Set(longpoll.PositionHeader, fmt.Sprintf("%d.%d", after.Visible, after.Sequence))
	}
	if hidden {
		return c.messages(list, withTimes)
	}
	return c.messages(list, bare)
}

// hiddenAfter returns the position after which a client wants hidden messages, and whether it asks for pages.
func hiddenAfter(c *call, hidden bool) (p state.Position, paged bool, err error) {
	values := c.HTTP.Header.Values(longpoll.AfterHeader)
	if !hidden || len(values) == 0 {
		return p, false, nil
	}
	if values[0] == "" {
		return p, true, nil
	}
	visible, sequence, ok := strings.Cut(values[0], ".")
	if p.Visible, err = strconv.ParseInt(visible, 10, 64); err == nil {
		p.Sequence, err = strconv.ParseUint(sequence, 10, 64)
	}
	if !ok || err != nil {
		return p, true, wire.InvalidHeader(longpoll.AfterHeader, values[0])
	}
	return p, true, nil
}

// clearMessages implements Clear Messages.
// https://learn.microsoft.com/rest/api/storageservices/clear-messages
func (s *Service) clearMessages(c *call) error {
	q := s.state.Queue(c.Account, c.queue)
	err := s.record(c, s.queueEvent(c, changes.MessagesCleared), func() error { return q.Clear() })
	if err != nil {
		return err
	}
	return c.Status(http.StatusNoContent)
}

// maxHidden is the maximum number of messages in an answer with hidden messages.
const maxHidden = 1000

// detail selects the fields of a message in an answer.
type detail uint8

const (
	bare         detail = iota
	withTimes           // the time at which it becomes visible
	withReceipts        // that time, and the pop receipt
)

// messages writes messages of a queue to the response.
func (c *call) messages(list []state.Message, d detail) error {
	size := 128
	for i := range list {
		size += 512 + len(list[i].Body)
	}
	x := wire.NewXML(size)
	if len(list) == 0 {
		x.Empty("QueueMessagesList")
	} else {
		x.Open("QueueMessagesList")
		for i := range list {
			m := &list[i]
			openMessage(x, m, d)
			if !c.before(wire.V20090919) {
				x.Int("DequeueCount", int64(m.DequeueCount))
			}
			x.TextBytes("MessageText", m.Body).Close("QueueMessage")
		}
		x.Close("QueueMessagesList")
	}
	c.noCache()
	return c.XML(http.StatusOK, x)
}

// neverExpires is the expiry of messages that never expire in answers.
var neverExpires = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)

// openMessage begins the element of a message, without its text.
func openMessage(x *wire.XML, m *state.Message, d detail) *wire.XML {
	expires := neverExpires
	if m.Expires != state.Never {
		expires = time.Unix(0, m.Expires)
	}
	x.Open("QueueMessage").Text("MessageId", m.ID.String()).Time("InsertionTime", time.Unix(0, m.Inserted))
	x.Time("ExpirationTime", expires)
	if d == withReceipts {
		x.Text("PopReceipt", m.Receipt.String())
	}
	if d != bare {
		x.Time("TimeNextVisible", time.Unix(0, m.NextVisible))
	}
	return x
}

// requiredSeconds is like seconds for a required parameter.
func (c *call) requiredSeconds(name string, least, most int64) (time.Duration, error) {
	if !c.Query.Has(name) {
		return 0, wire.MissingQuery(name)
	}
	if c.Query.Get(name) == "" {
		return 0, wire.InvalidQuery(name, "", "Failed to parse "+name)
	}
	return c.seconds(name, 0, least, most)
}

// formatSeconds formats a duration as a client sends it.
func formatSeconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }
