package longpoll

import (
	"strconv"
	"time"
)

const (
	// WaitHeader is how many seconds a request may wait for a change, 1 to [MaxWait]. In an answer: the request could have
	// waited, or has.
	WaitHeader = "X-Lazuli-Wait"
	// AfterHeader is the position of a feed after which changes are asked for; empty is the beginning of one.
	AfterHeader = "X-Lazuli-After"
	// PositionHeader is the position of an answer, to ask for what comes after it.
	PositionHeader = "X-Lazuli-Position"
	// HiddenHeader asks, with the value [HiddenInclude], for messages that are hidden as well, and says that they are there.
	HiddenHeader = "X-Lazuli-Hidden"
	// FeedHeader says what an answer holds: [FeedChanges] or [FeedEverything].
	FeedHeader = "X-Lazuli-Feed"
)

// HiddenInclude is the only value of HiddenHeader.
const HiddenInclude = "include"

// StatesHeader asks, with the value [StatesInclude], for the states of entities around each change of a table, and says that they are there.
const (
	StatesHeader  = "X-Lazuli-States"
	StatesInclude = "include"
)

// The values of FeedHeader.
const (
	// FeedChanges: what has changed after the position that was asked for, and nothing else.
	FeedChanges = "changes"
	// FeedEverything: the position is not known any more, or none was given; the answer is the ordinary one.
	FeedEverything = "everything"
)

// MaxWait bounds a wait. Proxies and clients tend to break off what takes longer than a minute.
const MaxWait = 50 * time.Second

// ParseWait reads the value of WaitHeader. A value that is none is as good as no header: the extension must not break a client
// that means something else by it.
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
