package blobsvc

import (
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/endpoint"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	state "github.com/lazuli-storage/lazuli/internal/state/blob"
	"github.com/lazuli-storage/lazuli/internal/state/blob/record"
)

// deleteSnapshots reads what Delete Blob does with snapshots.
func deleteSnapshots(c *call) (state.DeleteSnapshots, error) {
	switch s, err := c.Headers().Word("X-Ms-Delete-Snapshots", "include", "only"); s {
	case "include":
		return state.IncludeSnapshots, nil
	case "only":
		return state.OnlySnapshots, nil
	default:
		return state.RefuseSnapshots, err
	}
}

// deleteBlob: https://learn.microsoft.com/rest/api/storageservices/delete-blob
func (s *Service) deleteBlob(c *call) error {
	at, err := endpoint.Address(c.Query)
	if err != nil {
		return err
	}
	mode, err := deleteSnapshots(c)
	if err != nil {
		return err
	}
	if mode != state.RefuseSnapshots {
		if at.Snapshot != 0 {
			return wire.InvalidHeader("x-ms-delete-snapshots", c.Header("X-Ms-Delete-Snapshots"))
		}
		if err := c.RefuseVersion(); err != nil {
			return err
		}
	}
	permanently := false
	switch kind := c.Query.Get("deletetype"); strings.ToLower(kind) { // .NET and Java write Permanent
	case "":
	case "permanent":
		permanently = true
	default:
		return endpoint.InvalidQuery("deletetype", kind)
	}
	if err := mayDelete(c, at, permanently); err != nil {
		return err
	}
	if permanently {
		w := c.NewUnconditionalWrite()
		w.At = at
		if err := s.state.Blobs.DeletePermanently(&w); err != nil {
			return err
		}
		sendPermanent(c, true)
		return c.Status(http.StatusAccepted)
	}
	w, err := c.NewWriteAt()
	if err != nil {
		return err
	}
	if w.If.TierModifiedSince, w.If.TierUnmodifiedSince, err = c.Headers().TierConditions(); err != nil {
		return err
	}
	kept, err := s.state.Blobs.Delete(&w, mode)
	if errors.Is(err, record.ErrBlobNotFound) && at.IsBase() && w.Policy.Versioning && w.Policy.RetentionDays > 0 {
		kept, err = true, s.state.BlockBlobs.DeleteUncommitted(&w) // recorded of an account with versions and soft delete
	}
	if err != nil {
		return err
	}
	// What the deletion has left to remove is removed in the background, now and not after the pause.
	s.background.Wake()
	if c.HTTP.Context().Value(endpoint.BatchVersion{}) != nil && w.Policy.RetentionDays == 0 {
		kept = false // a batch does not say that a version keeps the content, as the operation alone does (recorded)
	}
	sendPermanent(c, !kept)
	return c.Status(http.StatusAccepted)
}

// sendPermanent says whether a deletion keeps nothing, from version 2017-07-29 on (recorded).
func sendPermanent(c *call, permanent bool) {
	if c.EffectiveVersion() >= wire.V20170729 {
		c.Set("x-ms-delete-type-permanent", strconv.FormatBool(permanent))
	}
}

// mayDelete checks the permission for a deletion. That of a blob or snapshot, that of a version, and that of what was
// soft-deleted are three.
// https://learn.microsoft.com/rest/api/storageservices/create-service-sas#permissions-for-a-directory-container-or-blob
func mayDelete(c *call, at record.Address, permanently bool) error {
	need := auth.Need{On: auth.OnObject, All: "d"}
	if at.Version != 0 {
		need.All = "x"
	}
	if permanently && c.Identity.Mechanism == auth.SAS {
		need.All += "y"
	}
	return c.Holds(need)
}

// snapshotBlob: https://learn.microsoft.com/rest/api/storageservices/snapshot-blob
func (s *Service) snapshotBlob(c *call) error {
	metadata, err := metadata(c.Metadata())
	if err != nil {
		return err
	}
	w, err := c.NewWriteExisting()
	if err != nil {
		return err
	}
	at, result, err := s.state.Blobs.Snapshot(&w, metadata)
	if err != nil {
		return err
	}
	sendResult(c, &result)
	c.Set("x-ms-snapshot", at.ISO())
	// Without metadata nothing is written but a reference, except in a tree (recorded).
	c.Set("x-ms-request-server-encrypted", strconv.FormatBool(metadata != nil || s.storage.Hierarchical(c.Account)))
	return c.Status(http.StatusCreated)
}
