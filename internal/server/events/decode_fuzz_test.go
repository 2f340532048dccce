package events

import (
	"errors"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/workbudget"
)

// FuzzDecode: any text is a subscription that is complete, or refused.
func FuzzDecode(f *testing.F) {
	f.Add(
		[]byte(
			`{"account":"devstoreaccount1","name":"orders","endpoint":"http://127.0.0.1:7071/","advancedFilters":[{"operatorType":"NumberInRange","key":"data.contentLength","values":[[1,2]]}]}`))
	f.Add([]byte(`{"name":"x","advancedFilters":[{"operatorType":"StringIn","key":"subject","values":[{}]}]} {}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer workbudget.Default.Start(t, len(text))()
		s, err := Decode(text)
		if err == nil {
			err = s.normalize()
		}
		if err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%v, want ErrInvalid", err)
		}
	})
}
