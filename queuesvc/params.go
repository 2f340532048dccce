package queuesvc

import (
	"strconv"
	"time"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// Limits and defaults of query parameters.
const (
	maxVisibility     = 7 * 24 * 60 * 60 // seconds
	defaultVisibility = 30
	maxTTL            = 1<<63 - 1
	weekTTL           = 7 * 24 * 60 * 60
	maxBatch          = 32
	maxListed         = 5000
)

// number parses an integer within inclusive limits; absent is the value of a missing parameter.
func (c *call) number(name string, absent, least, most int64) (int64, error) {
	if !c.Query.Has(name) {
		return absent, nil
	}
	text := c.Query.Get(name)
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		if numErr, ok := err.(*strconv.NumError); ok && numErr.Err == strconv.ErrRange {
			return 0, outOfRange(name, text, least, most)
		}
		return 0, wire.InvalidQuery(name, text, "Failed to parse "+name)
	}
	if n < least || n > most {
		return 0, outOfRange(name, text, least, most)
	}
	return n, nil
}

func outOfRange(name, text string, least, most int64) error {
	return wire.OutOfRangeQuery(name, text, strconv.FormatInt(least, 10), strconv.FormatInt(most, 10))
}

// seconds is like number for a duration in seconds.
func (c *call) seconds(name string, absent, least, most int64) (time.Duration, error) {
	n, err := c.number(name, absent, least, most)
	return time.Duration(n) * time.Second, err
}
