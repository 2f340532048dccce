package auth

import (
	"slices"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/wire"
)

// A parameter that the kind of a token does not sign is refused, since anyone could add it. The lists are those of the
// strings to sign in the reference, and sr=q, which .NET sends and which says nothing.
func TestKindsRefuseWhatTheyDoNotSign(t *testing.T) {
	t.Parallel()
	const (
		times     = "sv sp st se sip spr sig "
		overrides = "rscc rscd rsce rscl rsct "
		user      = "skoid sktid skt ske sks skv saoid suoid scid skdutid sduoid "
	)
	all := strings.Fields(times + overrides + user + "ses ss srt si sr sdd tn spk srk epk erk srh srq")
	// The version of all tokens, the name of the table, and the partition key of each row key are there already.
	for _, tc := range []struct {
		name   string
		svc    wire.Service
		token  string
		signed string
	}{
		{"account SAS", wire.Blob, "ss=bqt&srt=sco", times + overrides + "ses ss srt"},
		{"account SAS for queues", wire.Queue, "ss=bqt&srt=sco", times + overrides + "ses ss srt"},
		{"service SAS of a container", wire.Blob, "sr=c", times + overrides + "ses si sr"},
		{"service SAS of a directory", wire.Blob, "sr=d", times + overrides + "ses si sr sdd"},
		{"user delegation SAS of a blob", wire.Blob, "sr=b&skoid=x", times + overrides + user + "ses sr srh srq"},
		{"user delegation SAS of a directory", wire.Blob, "sr=d&skoid=x",
			times + overrides + user + "ses sr sdd srh srq"},
		{"service SAS of a queue", wire.Queue, "", times + "si"},
		{"user delegation SAS of a queue", wire.Queue, "skoid=x", times + user + "sr"},
		{"service SAS of a table", wire.Table, "tn=t&spk=a&epk=b", times + "si tn spk srk epk erk"},
		{"user delegation SAS of a table", wire.Table, "skoid=x", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for _, name := range all {
				// A token without skoid is of another kind with it, and with ss or srt.
				if !strings.Contains(tc.token, "skoid") && name == "skoid" || !strings.Contains(tc.token, "ss=") &&
					(name == "ss" || name == "srt") {
					continue
				}
				query := "sv=2026-04-06&" + tc.token
				if !slices.ContainsFunc(strings.Split(query, "&"), func(p string) bool { return strings.HasPrefix(p, name+"=") }) {
					value := "1"
					if name == "sr" {
						value = "q"
					}
					query += "&" + name + "=" + value
				}
				r := parse(t, tc.svc, sasNow, "GET /"+DevelopmentAccount+"/c/b?"+query+" HTTP/1.1\nHost: h")
				want := slices.Contains(strings.Fields(tc.signed), name)
				if _, ok := readToken(r.Query, r.Service); ok != want {
					t.Errorf("%s: read %v, want %v", query, ok, want)
				}
			}
		})
	}
	for q, want := range map[string]bool{"sr=q&skoid=x": true, "sr=b&skoid=x": false, "sr=q": false, "sr=&sdd=": true} {
		r := parse(t, wire.Queue, sasNow, "GET /"+DevelopmentAccount+"/line?sv=2026-04-06&"+q+" HTTP/1.1\nHost: h")
		if _, ok := readToken(r.Query, r.Service); ok != want {
			t.Errorf("a queue with %s: read %v, want %v", q, ok, want)
		}
	}
}
