package blobsvc

import (
	"net/http"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/blobsvc/internal/state"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// The Blob endpoint of an account with a hierarchical namespace: the same operations on the same data, except for the
// features that such accounts do not have.
// https://learn.microsoft.com/azure/storage/blobs/storage-feature-support-in-storage-accounts

// errNotInTree: a feature that accounts with a hierarchical namespace do not have.
var errNotInTree = fail(http.StatusConflict, "FeatureNotYetSupportedForHierarchicalNamespaceAccounts",
	"This feature is not yet supported for hierarchical namespace accounts.")

// flatOnly are the values of comp whose operations exist in flat accounts alone.
var flatOnly = []string{"tags", "incrementalcopy", "page", "pagelist", "immutabilitypolicies", "legalhold"}

// inTree refuses what an account with a hierarchical namespace does not have, and makes the path canonical.
func (c *call) inTree() (err error) {
	switch {
	case c.Comp == "tags": // https://github.com/Azure/azure-sdk-for-net/issues/39388
		return wire.InvalidQuery("comp", c.Comp, "")
	case slices.Contains(flatOnly, c.Comp), c.Header("X-Ms-Tags") != "", c.Header("X-Ms-If-Tags") != "",
		c.Comp == "" && c.HTTP.Method == put && strings.EqualFold(c.Header(blobTypeHeader), state.PageBlob.String()):
		return errNotInTree
	}
	if err := c.refuseVersion(); err != nil {
		return err
	}
	c.blob, err = cleanPath(c.blob)
	return err
}
