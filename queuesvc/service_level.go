package queuesvc

import (
	"net/http"
	"strings"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/budget"
)

// noCache sets the Cache-Control header of every answer to a read.
func (c *call) noCache() { c.Set("Cache-Control", "no-cache") }

// listQueues implements List Queues.
// https://learn.microsoft.com/rest/api/storageservices/list-queues1
func (s *Service) listQueues(c *call) error {
	most, err := c.number("maxresults", maxListed, 1, 1<<31-1)
	if err != nil {
		return err
	}
	withMetadata := false
	for item := range strings.SplitSeq(c.Query.Get("include"), ",") {
		switch strings.ToLower(strings.TrimSpace(item)) {
		case "metadata":
			withMetadata = true
		case "":
		default:
			return wire.InvalidQuery("include", c.Query.Get("include"), "Invalid query parameter value.")
		}
	}
	prefix, marker := c.Query.Get("prefix"), c.Query.Get("marker")
	owner := "/" + c.Account + "/" // markers are /<account>/<queue>
	from, ours := strings.CutPrefix(marker, owner)
	if marker != "" && !ours {
		return wire.ErrOutOfRangeInput // recorded: GetQueuesAsync_Error of the SDK for .NET
	}
	queues, next, err := s.state.List(c.Account, prefix, from, int(min(most, maxListed)), withMetadata)
	if err != nil {
		return err
	}

	x := wire.NewXML(256 + 64*len(queues))
	old := c.Version != 0 && c.Version < wire.V20130815
	if old {
		x.Open("EnumerationResults", "AccountName", c.Base+"/")
	} else {
		x.Open("EnumerationResults", "ServiceEndpoint", c.Base+"/")
	}
	x.Echo("Prefix", prefix).Echo("Marker", marker)
	if c.Query.Has("maxresults") {
		x.Int("MaxResults", most)
	}
	if len(queues) == 0 {
		x.Empty("Queues")
	} else {
		x.Open("Queues")
		for _, q := range queues {
			if len(x.Bytes()) > budget.Answer {
				// The page is full by its size. The next one begins with this queue, which is not written.
				next = q.Name
				break
			}
			x.Open("Queue").Text("Name", q.Name)
			if old {
				x.Text("Url", c.Base+"/"+q.Name)
			}
			if withMetadata {
				x.Metadata(toWire(q.Metadata))
			}
			x.Close("Queue")
		}
		x.Close("Queues")
	}
	if next != "" {
		next = owner + next
	}
	x.Text("NextMarker", next).Close("EnumerationResults")
	c.noCache()
	return c.XML(http.StatusOK, x)
}

// getServiceProperties implements Get Queue Service Properties.
// https://learn.microsoft.com/rest/api/storageservices/get-queue-service-properties
func (s *Service) getServiceProperties(c *call) error {
	c.noCache()
	if err := s.state.Current(); err != nil {
		return err
	}
	return s.properties.Get(c.Request, c.Version)
}

// setServiceProperties implements Set Queue Service Properties.
// https://learn.microsoft.com/rest/api/storageservices/set-queue-service-properties
func (s *Service) setServiceProperties(c *call) error {
	if err := s.properties.Set(c.Request); err != nil {
		return err
	}
	return c.Status(http.StatusAccepted)
}

// getServiceStats implements Get Queue Service Stats.
// https://learn.microsoft.com/rest/api/storageservices/get-queue-service-stats
func (s *Service) getServiceStats(c *call) error {
	c.noCache()
	return properties.Stats(c.Request)
}

// preflight implements Preflight Queue Request.
// https://learn.microsoft.com/rest/api/storageservices/preflight-queue-request
func (s *Service) preflight(c *call) error { return s.properties.Preflight(c.Request) }

// getUserDelegationKey implements Get User Delegation Key.
// https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key
func (s *Service) getUserDelegationKey(c *call) error {
	return auth.GetUserDelegationKey(c.Request, c.identity, s.common.Accounts)
}
