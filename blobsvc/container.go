package blobsvc

import (
	"net/http"
	"strconv"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/encryption"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// publicAccess reads x-ms-blob-public-access.
func (c *call) publicAccess() (string, error) {
	switch s := c.Header("X-Ms-Blob-Public-Access"); s {
	case "", "blob", "container":
		return s, nil
	case "true": // the name of "container" before 2009-09-19, still sent by old tools
		return "container", nil
	default:
		return "", wire.InvalidHeader("x-ms-blob-public-access", s)
	}
}

// defaultScope reads the scope that a new container gives its blobs, "" for none, and whether they can have no other.
func (s *Service) defaultScope(c *call) (scope string, only bool, err error) {
	scope = c.Header("X-Ms-Default-Encryption-Scope")
	switch deny := c.Header("X-Ms-Deny-Encryption-Scope-Override"); deny {
	case "", "false":
	case "true":
		if only = true; scope == "" {
			return "", false, wire.MissingHeader("x-ms-default-encryption-scope")
		}
	default:
		return "", false, wire.InvalidHeader("x-ms-deny-encryption-scope-override", deny)
	}
	if scope == "" || scope == encryption.AccountScope {
		return "", only, nil
	}
	_, err = s.scopes.Cipher(c.Account, scope)
	return scope, only, err
}

// createContainer: https://learn.microsoft.com/rest/api/storageservices/create-container
func (s *Service) createContainer(c *call) error {
	metadata, err := c.Metadata()
	if err != nil {
		return err
	}
	access, err := c.publicAccess()
	if err != nil {
		return err
	}
	scope, only, err := s.defaultScope(c)
	if err != nil {
		return err
	}
	rec := Container{Scope: scope, OnlyScope: only, Changed: s.ticks.Next(c.Now), Metadata: metadata, Access: access, Immutable: s.managed(c).Immutability}
	err = s.db.Update(func(tx *store.Tx) error {
		key := containerKey(c.Account, c.container)
		if tx.Get(containersBucket, key) != nil {
			return errContainerAlreadyExists
		}
		rec := rec
		rec.generation = nextID(tx)
		tx.Put(containersBucket, key, rec.encode())
		return nil
	})
	if err != nil {
		return err
	}
	c.sendVersion(rec.Changed)
	return c.Status(http.StatusCreated)
}

// viewContainer reads the container for an operation that reads it, and checks the lease id if one was sent.
func (s *Service) viewContainer(c *call) (rec Container, err error) {
	id, err := c.leaseID("X-Ms-Lease-Id")
	if err != nil {
		return rec, err
	}
	err = s.db.View(func(tx *store.Tx) (err error) {
		rec, err = getContainer(tx, c.Account, c.container)
		return err
	})
	if err == nil {
		err = rec.Lease.checkRead(id, c.now(), &containerLeaseErrors)
	}
	return rec, err
}

// getContainerProperties: https://learn.microsoft.com/rest/api/storageservices/get-container-properties
func (s *Service) getContainerProperties(c *call) error {
	rec, err := s.viewContainer(c)
	if err != nil {
		return err
	}
	c.sendVersion(rec.Changed)
	c.SetMetadata(rec.Metadata)
	c.sendLease(rec.Lease)
	c.sendAccess(&rec)
	c.Set("x-ms-has-immutability-policy", "false")
	c.Set("x-ms-has-legal-hold", "false")
	if c.version() >= v20190202 {
		c.Set("x-ms-default-encryption-scope", encryption.ID{Scope: rec.Scope}.ScopeName())
		c.Set("x-ms-deny-encryption-scope-override", strconv.FormatBool(rec.OnlyScope))
	}
	if c.version() >= v20201002 {
		c.Set("x-ms-immutable-storage-with-versioning-enabled", strconv.FormatBool(rec.Immutable))
	}
	return c.Status(http.StatusOK)
}

func (c *call) sendAccess(rec *Container) {
	if rec.Access != "" {
		c.Set("x-ms-blob-public-access", rec.Access)
	}
}

// getContainerMetadata: https://learn.microsoft.com/rest/api/storageservices/get-container-metadata
func (s *Service) getContainerMetadata(c *call) error {
	rec, err := s.viewContainer(c)
	if err != nil {
		return err
	}
	c.sendVersion(rec.Changed)
	c.SetMetadata(rec.Metadata)
	return c.Status(http.StatusOK)
}

// containerConditions reads the conditional headers of an operation on a container, which knows only dates.
func (c *call) containerConditions() (p Preconditions, err error) {
	if p.Conditions, err = c.Conditions(); err != nil {
		return p, err
	}
	if p.IfMatch != "" || p.IfNoneMatch != "" {
		return p, errConditionHeadersNotSupported
	}
	p.LeaseID, err = c.leaseID("X-Ms-Lease-Id")
	return p, err
}

// errConditionHeadersNotSupported: a conditional header that the operation does not know.
var errConditionHeadersNotSupported = fail(http.StatusBadRequest, "ConditionHeadersNotSupported", "Condition headers are not supported.")

// updateContainer changes a container in one transaction. leased demands the lease id of a leased container, as Azure
// does for Delete Container alone; the others take none but refuse a wrong one.
func (s *Service) updateContainer(c *call, leased bool, change func(*store.Tx, *Container) error) error {
	p, err := c.containerConditions()
	if err != nil {
		return err
	}
	return s.db.Update(func(tx *store.Tx) error {
		rec, err := getContainer(tx, c.Account, c.container)
		if err != nil {
			return err
		}
		if err := p.CheckWrite(rec.Changed.HexETag(), rec.Changed.Time()); err != nil {
			return err
		}
		if leased {
			err = rec.Lease.checkWrite(p.LeaseID, c.now(), &containerLeaseErrors)
		} else {
			err = rec.Lease.checkRead(p.LeaseID, c.now(), &containerLeaseErrors)
		}
		if err != nil {
			return err
		}
		return change(tx, &rec)
	})
}

// setContainerMetadata: https://learn.microsoft.com/rest/api/storageservices/set-container-metadata
func (s *Service) setContainerMetadata(c *call) error {
	metadata, err := c.Metadata()
	if err != nil {
		return err
	}
	changed := s.ticks.Next(c.Now)
	err = s.updateContainer(c, false, func(tx *store.Tx, rec *Container) error {
		rec.Metadata, rec.Changed = metadata, changed
		putContainer(tx, c.Account, c.container, rec)
		return nil
	})
	if err != nil {
		return err
	}
	c.sendVersion(changed)
	return c.Status(http.StatusOK)
}

// deleteContainer: https://learn.microsoft.com/rest/api/storageservices/delete-container
// The record goes now, the contents in the background, or once the container can no longer be restored. The name can be
// used again at once; on Azure it is blocked for some time.
func (s *Service) deleteContainer(c *call) error {
	deleted := s.ticks.Next(c.Now)
	err := s.updateContainer(c, true, func(tx *store.Tx, rec *Container) error {
		if rec.Immutable {
			switch none, err := empty(tx, rec.generation); {
			case err != nil:
				return err
			case !none:
				return errContainerImmutable
			}
		}
		inter(tx, c.Account, c.container, *rec, deleted, int64(s.managed(c).ContainerDays))
		return nil
	})
	if err != nil {
		return err
	}
	s.freed(1)
	s.wakeCleaner()
	return c.Status(http.StatusAccepted)
}
