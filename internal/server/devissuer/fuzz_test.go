package devissuer

import (
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// FuzzAssertion: any client assertion is accepted or refused with a reason.
func FuzzAssertion(f *testing.F) {
	f.Add("eyJhbGciOiJSUzI1NiJ9.eyJpc3MiOiJhIiwic3ViIjoiYSIsImF1ZCI6InRva2VuIiwiZXhwIjoxfQ.x", "a")
	f.Add("..", "")
	f.Fuzz(func(t *testing.T, assertion, client string) {
		defer workbudget.Default.Start(t, len(assertion)+len(client))()
		_ = assertionFault(assertionType, assertion, client, time.Unix(0, 0))
	})
}
