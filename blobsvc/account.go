package blobsvc

import (
	"encoding/json"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/properties"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/storage/store"
)

// supported are the service properties that are honoured; turning on another is refused.
func (s *Service) supported() properties.Features {
	can := s.features
	can.DeleteRetention, can.StaticWebsite = true, true
	return can
}

// settingsCache holds the service properties of all accounts, for CORS asks for them with every request.
type settingsCache struct {
	mu  sync.Mutex // guards changes: transaction and cache together
	set atomic.Pointer[map[string]*properties.Properties]
}

func (s *settingsCache) load(db *store.DB) error {
	set := map[string]*properties.Properties{}
	err := db.View(func(tx *store.Tx) error {
		cur := tx.Cursor(accountsBucket)
		for k, v := cur.Seek(nil); k != nil; k, v = cur.Next() {
			p := new(properties.Properties)
			if err := json.Unmarshal(v, p); err != nil {
				return err
			}
			set[string(k)] = p
		}
		return nil
	})
	s.set.Store(&set)
	return err
}

// of returns the properties of an account; nobody changes what it returns.
func (s *settingsCache) of(account string) *properties.Properties {
	if p := (*s.set.Load())[account]; p != nil {
		return p
	}
	return new(properties.Properties)
}

func (s *settingsCache) put(account string, p *properties.Properties) {
	set := maps.Clone(*s.set.Load())
	set[account] = p
	s.set.Store(&set)
}

// before sets CORS headers, and the version of a request that names none: that of its batch, or the default.
func (s *Service) before(r *wire.Request) {
	batched(r)
	if len(*s.settings.set.Load()) == 0 {
		return
	}
	p := s.settings.of(r.Account)
	if len(p.CORS) > 0 {
		properties.SetCORS(r, p.CORS)
	}
	if r.Version == 0 && p.DefaultVersion != "" {
		r.Version, _ = wire.ParseVersion(p.DefaultVersion)
	}
}

// getServiceProperties: https://learn.microsoft.com/rest/api/storageservices/get-blob-service-properties
func (s *Service) getServiceProperties(c *call) error {
	return c.XML(http.StatusOK, s.settings.of(c.Account).XML(wire.Blob, c.version()))
}

// setServiceProperties: https://learn.microsoft.com/rest/api/storageservices/set-blob-service-properties
func (s *Service) setServiceProperties(c *call) error {
	body, err := c.ReadBody(properties.MaxBody)
	if err != nil {
		return err
	}
	s.settings.mu.Lock()
	defer s.settings.mu.Unlock()
	p, err := s.settings.of(c.Account).Update(wire.Blob, body, s.supported())
	if err != nil {
		return err
	}
	value, err := json.Marshal(p)
	if err != nil {
		return err
	}
	changed := s.ticks.Next(c.Now)
	err = s.db.Update(func(tx *store.Tx) error {
		tx.Put(accountsBucket, []byte(c.Account), value)
		if key := containerKey(c.Account, webContainer); p.StaticWebsite.Enabled && tx.Get(containersBucket, key) == nil {
			rec := containerRecord{gen: nextID(tx), changed: changed}
			tx.Put(containersBucket, key, rec.encode())
		}
		return nil
	})
	if err != nil {
		return err
	}
	s.settings.put(c.Account, &p)
	return c.Status(http.StatusAccepted)
}

// preflight: https://learn.microsoft.com/rest/api/storageservices/preflight-blob-request
func (s *Service) preflight(c *call) error {
	if err := properties.Preflight(c.Request, s.settings.of(c.Account).CORS); err != nil {
		return err
	}
	return c.Status(http.StatusOK)
}

// getAccountInformation: https://learn.microsoft.com/rest/api/storageservices/get-account-information
func (s *Service) getAccountInformation(c *call) error {
	c.Set("x-ms-sku-name", "Standard_RAGRS")
	c.Set("x-ms-account-kind", "StorageV2")
	if c.version() >= v20190707 {
		c.Set("x-ms-is-hns-enabled", "false")
	}
	return c.Status(http.StatusOK)
}

const v20190707 wire.Version = 20190707

// getServiceStats: https://learn.microsoft.com/rest/api/storageservices/get-blob-service-stats
// There is one copy of the data: the secondary endpoint reads what the primary wrote, so it is never behind.
func (s *Service) getServiceStats(c *call) error {
	if !c.Secondary {
		return invalidQuery("comp", c.Comp)
	}
	x := wire.NewXML(256).Open("StorageServiceStats").Open("GeoReplication").Text("Status", "live").
		Text("LastSyncTime", wire.FormatRFC1123(c.Now)).Close("GeoReplication").Close("StorageServiceStats")
	return c.XML(http.StatusOK, x)
}

// getUserDelegationKey: https://learn.microsoft.com/rest/api/storageservices/get-user-delegation-key
func (s *Service) getUserDelegationKey(c *call) error {
	return auth.GetUserDelegationKey(c.Request, c.identity, s.accounts)
}
