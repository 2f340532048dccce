package queuesvc

import (
	"errors"
	"net/http"

	"github.com/lazuli-storage/lazuli/internal/azure/changes"
	"github.com/lazuli-storage/lazuli/internal/azure/longpoll"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// policyLetters are the permissions of a stored access policy: read, add, update, process.
const policyLetters = "raup"

// createQueue implements Create Queue: 201, or 204 if the queue exists with the same metadata.
// https://learn.microsoft.com/rest/api/storageservices/create-queue4
func (s *Service) createQueue(c *call) error {
	metadata, err := c.Metadata()
	if err != nil {
		return err
	}
	created := false
	e := s.queueEvent(c, changes.QueueCreated)
	err = s.record(c, e, func() (err error) {
		created, err = s.state.Create(c.Account, c.queue, toState(metadata))
		if e != nil {
			e.Unchanged = !created
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case created:
		return c.Status(http.StatusCreated)
	default:
		return c.Status(http.StatusNoContent)
	}
}

// deleteQueue implements Delete Queue. The name can be used again at once.
// https://learn.microsoft.com/rest/api/storageservices/delete-queue3
func (s *Service) deleteQueue(c *call) error {
	err := s.record(c, s.queueEvent(c, changes.QueueDeleted), func() error {
		return s.state.Delete(c.Account, c.queue)
	})
	if err != nil {
		return err
	}
	return c.Status(http.StatusNoContent)
}

// getQueueMetadata implements Get Queue Metadata, with the approximate number of messages, and, as an extension, of
// those set aside. https://learn.microsoft.com/rest/api/storageservices/get-queue-metadata
func (s *Service) getQueueMetadata(c *call) error {
	q := s.state.Queue(c.Account, c.queue)
	p, err := q.Properties(c.HTTP.Context(), c.Now, c.Header(longpoll.HiddenHeader) == longpoll.HiddenInclude)
	if err != nil {
		return err
	}
	c.SetMetadata(toWire(p.Metadata))
	c.SetInt("x-ms-approximate-messages-count", int64(p.Messages))
	if c.Header(longpoll.HiddenHeader) == longpoll.HiddenInclude {
		c.SetInt(longpoll.VisibleHeader, int64(p.Visible))
	}
	if p.Aside > 0 {
		c.SetInt(longpoll.SetAsideHeader, int64(p.Aside))
	}
	c.noCache()
	return c.Status(http.StatusOK)
}

// setQueueMetadata implements Set Queue Metadata; without headers it removes all.
// https://learn.microsoft.com/rest/api/storageservices/set-queue-metadata
func (s *Service) setQueueMetadata(c *call) error {
	metadata, err := c.Metadata()
	if err != nil {
		return err
	}
	if err := s.state.SetMetadata(c.Account, c.queue, toState(metadata)); err != nil {
		return err
	}
	return c.Status(http.StatusNoContent)
}

// getQueueACL implements Get Queue ACL.
// https://learn.microsoft.com/rest/api/storageservices/get-queue-acl
func (s *Service) getQueueACL(c *call) error {
	list, err := s.policiesOf(c.Account, c.queue)
	if err != nil {
		return err
	}
	c.noCache()
	return c.XML(http.StatusOK, properties.PoliciesXML(list))
}

// setQueueACL implements Set Queue ACL; an empty body removes all policies.
// https://learn.microsoft.com/rest/api/storageservices/set-queue-acl
func (s *Service) setQueueACL(c *call) error {
	body, err := c.ReadBody(properties.MaxPoliciesBytes)
	if err != nil {
		return err
	}
	list, err := properties.ParsePolicies(body, policyLetters)
	if errors.Is(err, wire.ErrInvalidXMLDocument) {
		return wire.ErrInvalidXMLDocument.With("LineNumber", "0").With("LinePosition", "0").With("Reason", "")
	}
	if err != nil {
		return err
	}
	if err := s.setPolicies(c.Account, c.queue, list); err != nil {
		return err
	}
	return c.Status(http.StatusNoContent)
}
