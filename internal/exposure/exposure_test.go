package exposure

import (
	"net"
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		address, secret string
		ok              bool
	}{
		{"127.0.0.1:1", "", true}, {"127.9.9.9:1", "", true}, {"[::1]:1", "", true}, {"localhost:1", "", true},
		{"[::ffff:127.0.0.1]:1", "", true}, {":1", "", false}, {"", "", false}, {"0.0.0.0:1", "", false},
		{"10.0.0.1:1", "", false}, {"[::]:1", "", false}, {"intranet.example:1", "", false},
		{"localhost.example:1", "", false}, {"10.0.0.1:1", "x", true},
	} {
		err := Check("--admin", tc.address, tc.secret, "set a token")
		if (err == nil) != tc.ok || !tc.ok && !strings.Contains(err.Error(), "--admin is open to everyone who can reach "+
			Host(tc.address)+", which is not a loopback address: set a token") {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}

func TestLocalCaller(t *testing.T) {
	t.Parallel()
	end, _ := net.Pipe()
	for remote, want := range map[string]bool{"127.0.0.1:9": true, "[::1]:9": true, "[::ffff:127.0.0.1]:9": true,
		"10.0.0.1:9": false, "[2001:db8::1]:9": false, end.RemoteAddr().String(): true} {
		if LocalCaller(remote) != want {
			t.Errorf("%q: %t", remote, !want)
		}
	}
}
