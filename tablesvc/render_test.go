package tablesvc

import "testing"

// Azure sends Cache-Control with some errors and not with others, as recorded exchanges show.
func TestCacheControlOfErrors(t *testing.T) {
	t.Parallel()
	f := start(t)
	f.table("people")
	for _, tc := range []struct{ name, method, path, want, cacheControl string }{
		{"malformed filter", "GET", "/people()?$filter=PartitionKey%20eq", "400 InvalidInput", ""},
		{"no entity", "GET", "/people(PartitionKey='p',RowKey='r')", "404 ResourceNotFound", "no-cache"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := f.send(tc.method, tc.path, nil, "").want(t, tc.want)
			if got := r.header.Get("Cache-Control"); got != tc.cacheControl {
				t.Errorf("Cache-Control %q, want %q", got, tc.cacheControl)
			}
		})
	}
}
