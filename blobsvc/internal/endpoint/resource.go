package endpoint

import (
	"net/url"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// SetContainer reads the container's name as the path of the request has it.
func (c *Call) SetContainer(escaped string) (err error) {
	if c.Container, err = url.PathUnescape(escaped); err != nil {
		return wire.ErrInvalidURI
	}
	return record.CheckContainerName(c.Container)
}

// SetBlob reads what follows the container in the path, and the headers that all requests for a blob may have. clean
// checks the name and returns its canonical form.
func (c *Call) SetBlob(escaped string, clean func(name string) (string, error)) error {
	name, err := url.PathUnescape(escaped)
	if err != nil {
		return wire.ErrInvalidURI
	}
	if c.Blob, err = clean(name); err != nil {
		return err
	}
	if err := c.readKeys(); err != nil {
		return err
	}
	return c.refuseStructured()
}
