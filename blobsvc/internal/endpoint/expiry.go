package endpoint

import (
	"errors"
	"net/http"
	"strconv"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/storage/ticks"
)

// expiry reads x-ms-expiry-option and x-ms-expiry-time, which may be relative to now.
func expiry(h wire.Headers, now ticks.Ticks) (e state.Expiry, err error) {
	value := h.Get("X-Ms-Expiry-Time")
	option, err := h.Word("X-Ms-Expiry-Option", "NeverExpire", "Absolute", "RelativeToNow", "RelativeToCreation")
	if err != nil {
		return e, err
	}
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
		t, err := wire.ParseRFC1123(value)
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
		// When the blob was created is known only in the transaction that changes it.
		if option == "RelativeToCreation" {
			e.AfterCreation = d
		} else {
			e.At = now + d
		}
	}
	return e, nil
}

// maxExpiryIn is the longest relative expiry time in milliseconds that leaves room for the sum; the sum has a lower
// limit.
const maxExpiryIn = 1 << 62 / (ticks.Second / 1000)

// NewExpiry reads the expiry time of a new blob; 0 is never.
func (c *Call) NewExpiry() (ticks.Ticks, error) {
	h, now := c.Headers(), c.Ticks()
	e, err := expiry(h, now)
	if err != nil {
		return 0, err
	}
	if h.Get("X-Ms-Expiry-Option") != "" {
		if err := c.checkExpiry(); err != nil {
			return 0, err
		}
	}
	at, err := e.Of(now, now)
	return at, expiryError(h, err)
}

// checkExpiry refuses expiry times in accounts that have none. The status is recorded; clients call Set Blob Expiry to
// learn whether an account has a hierarchical namespace.
func (c *Call) checkExpiry() error {
	if set := c.Accounts.Blob(c.Account); set.Expiry || set.Hierarchical {
		return nil
	}
	return errNoHierarchy
}

// expiryError names the header with an expiry time that is out of range.
func expiryError(h wire.Headers, err error) error {
	if errors.Is(err, state.ErrExpiry) {
		return wire.InvalidHeader("x-ms-expiry-time", h.Get("X-Ms-Expiry-Time"))
	}
	return err
}

// SetBlobExpiry: https://learn.microsoft.com/rest/api/storageservices/set-blob-expiry
func (c *Call) SetBlobExpiry() error {
	if err := c.checkExpiry(); err != nil {
		return err
	}
	if c.Header("X-Ms-Expiry-Option") == "" {
		return wire.MissingHeader("x-ms-expiry-option")
	}
	w, err := c.NewWrite()
	if err != nil {
		return err
	}
	e, err := expiry(c.Headers(), c.Ticks())
	if err != nil {
		return err
	}
	result, err := c.State.Blobs.SetExpiry(&w, e)
	if err != nil {
		return expiryError(c.Headers(), err)
	}
	c.SendChanged(result.Changed)
	return c.Status(http.StatusOK)
}
