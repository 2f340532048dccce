package blobsvc

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// expiry reads x-ms-expiry-option and x-ms-expiry-time.
func (c *call) expiry() (e state.Expiry, err error) {
	option, value := c.Header("X-Ms-Expiry-Option"), c.Header("X-Ms-Expiry-Time")
	invalid := wire.InvalidHeader("x-ms-expiry-time", value)
	switch option {
	case "":
		if value != "" {
			return e, wire.MissingHeader("x-ms-expiry-option")
		}
	case "NeverExpire":
		if value != "" {
			return e, invalid
		}
	case "Absolute":
		t, err := http.ParseTime(value)
		if err != nil {
			return e, invalid
		}
		e.At = ticks.Of(t)
	case "RelativeToNow", "RelativeToCreation":
		ms, err := strconv.ParseInt(value, 10, 64)
		if err != nil || ms <= 0 || ms > maxExpiryIn {
			return e, invalid
		}
		d := ticks.Ticks(ms) * ticks.Second / 1000
		if option == "RelativeToCreation" {
			e.AfterCreation = d
		} else {
			e.At = c.now() + d
		}
	default:
		return e, wire.InvalidHeader("x-ms-expiry-option", option)
	}
	return e, nil
}

// maxExpiryIn is the longest relative expiry time in milliseconds that leaves room for the sum; the sum has a lower limit.
const maxExpiryIn = 1 << 62 / (ticks.Second / 1000)

// newExpiry reads the expiry time of a new blob; 0 is never.
func (c *call) newExpiry() (ticks.Ticks, error) {
	e, err := c.expiry()
	if err != nil {
		return 0, err
	}
	at, err := e.Of(c.now(), c.now())
	return at, c.expiryError(err)
}

// expiryError names the header with an expiry time that is out of range.
func (c *call) expiryError(err error) error {
	if errors.Is(err, state.ErrExpiry) {
		return wire.InvalidHeader("x-ms-expiry-time", c.Header("X-Ms-Expiry-Time"))
	}
	return err
}

// setBlobExpiry: https://learn.microsoft.com/rest/api/storageservices/set-blob-expiry
func (s *Service) setBlobExpiry(c *call) error {
	if c.Header("X-Ms-Expiry-Option") == "" {
		return wire.MissingHeader("x-ms-expiry-option")
	}
	w, err := s.write(c)
	if err != nil {
		return err
	}
	e, err := c.expiry()
	if err != nil {
		return err
	}
	result, err := s.state.SetExpiry(&w, e)
	if err != nil {
		return c.expiryError(err)
	}
	c.sendChanged(result.Changed)
	return c.Status(http.StatusOK)
}
