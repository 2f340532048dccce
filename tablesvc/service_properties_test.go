package tablesvc

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/test/check"
)

// Requests read service properties from memory. Of concurrent Set Table Service Properties, memory must keep the one
// that the file keeps.
func TestConcurrentSetServicePropertiesKeepMemoryAndFileAlike(t *testing.T) {
	t.Parallel()
	const rounds, writers = 20, 8
	f := start(t)
	for round := range rounds {
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() {
				body := fmt.Sprintf("<StorageServiceProperties><Cors><CorsRule><AllowedOrigins>*</AllowedOrigins>"+
					"<AllowedMethods>GET</AllowedMethods><AllowedHeaders/><ExposedHeaders/><MaxAgeInSeconds>%d</MaxAgeInSeconds>"+
					"</CorsRule></Cors></StorageServiceProperties>", round*writers+i+1)
				r, err := f.try("PUT", "/?restype=service&comp=properties", nil, body)
				if err != nil || r.status != http.StatusAccepted {
					t.Errorf("set: status %d, %v", r.status, err)
				}
			})
		}
		wg.Wait()
		inMemory := f.svc.properties.Of(auth.DevelopmentAccount).CORS[0].MaxAgeInSeconds
		check.OK(t, f.svc.Close())
		f.open()
		if stored := f.svc.properties.Of(auth.DevelopmentAccount).CORS[0].MaxAgeInSeconds; inMemory != stored {
			t.Fatalf("round %d: memory has the rule with the age %d, the file %d", round, inMemory, stored)
		}
	}
}
