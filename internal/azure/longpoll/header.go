package longpoll

import (
	"strconv"
	"time"
)

const (
	// WaitHeader is the number of seconds that a request may wait for a change, 1 to [MaxWait]. In an answer it means that
	// the service supports waiting.
	WaitHeader = "X-Lazuli-Wait"
	// AfterHeader is the position in a feed after which the client wants changes; empty begins a feed.
	AfterHeader = "X-Lazuli-After"
	// FromCreation is the position, in the feed of a table, before its first change. It is known if a client asked for
	// changes, in the week before the creation of the table.
	FromCreation = "0"
	// PositionHeader is the position of an answer, from which the client continues.
	PositionHeader = "X-Lazuli-Position"
	// HiddenHeader, with the value [HiddenInclude], asks for hidden messages too; the answer has it if they are included.
	HiddenHeader = "X-Lazuli-Hidden"
	// VisibleHeader is the number of visible messages of a queue, at most 10,000, in answers of Get Queue Metadata to
	// requests with HiddenHeader.
	VisibleHeader = "X-Lazuli-Visible"
	// SetAsideHeader is the number of messages of a queue that cannot be read, in answers of Get Queue Metadata; absent if
	// the number is 0.
	SetAsideHeader = "X-Lazuli-Set-Aside"
	// NameHeader is the client's name of a request with WaitHeader, so that ReleaseHeader can end its wait.
	NameHeader = "X-Lazuli-Wait-Name"
	// ReleaseHeader, in Peek Messages, is the name of a waiting Get Messages on the same queue. Its wait ends, and it
	// answers with what it has received. The answer has the header if such a request waited at this server.
	ReleaseHeader = "X-Lazuli-Release"
	// AlsoHeader, in Delete Message, has up to [MaxAlso] further messages of the queue to delete, each as ID:RECEIPT,
	// separated by commas. The answer has the header with an outcome for each, in this order: [AlsoDeleted] or Azure's
	// error code.
	//
	// In Put Message, whose text then is that of several messages one after the other, it has the length of each further
	// text in bytes of UTF-8 and its visibility timeout in seconds, as LENGTH:SECONDS, the last texts of the body. All are
	// put, or none. The answer has the messages in this order, and in the header the number of the further ones. The value
	// [AlsoNone] asks whether the service supports this.
	AlsoHeader = "X-Lazuli-Also"
	// FeedHeader is the kind of an answer: [FeedChanges] or [FeedEverything].
	FeedHeader = "X-Lazuli-Feed"
)

// MaxAlso is the maximum number of messages in AlsoHeader.
const MaxAlso = 31

// AlsoNone is the value of AlsoHeader for no further messages, in Put Message.
const AlsoNone = "0"

// MaxAlsoText is the maximum length of the texts of one Put Message, in bytes of UTF-8.
const MaxAlsoText = 1 << 20

// AlsoDeleted is the outcome in AlsoHeader of a message that was deleted.
const AlsoDeleted = "Deleted"

// HiddenInclude is the only value of HiddenHeader.
const HiddenInclude = "include"

// StatesHeader, with the value [StatesInclude], asks for the states of entities before and after each change of a
// table; the answer has it if they are included.
const (
	StatesHeader  = "X-Lazuli-States"
	StatesInclude = "include"
)

// The values of FeedHeader.
const (
	// FeedChanges: the answer has only the changes after the requested position.
	FeedChanges = "changes"
	// FeedEverything: the requested position is unknown or missing; the answer is the same as without it.
	FeedEverything = "everything"
)

// MaxWait is the maximum wait. Proxies and clients often cancel requests that take longer than a minute.
const MaxWait = 50 * time.Second

// ParseWait parses the value of WaitHeader. It ignores other values: the extension must not break a client that uses
// the header for something else.
func ParseWait(text string) (time.Duration, bool) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, false
	}
	if n > int(MaxWait/time.Second) {
		return MaxWait, true
	}
	return time.Duration(n) * time.Second, true
}
