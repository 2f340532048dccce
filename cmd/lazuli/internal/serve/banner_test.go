package serve

import (
	"net/netip"
	"testing"
)

// Only a server that listens on every address has others to name; no loopback address is among them.
func TestMachineAddresses(t *testing.T) {
	for _, host := range []string{"", "127.0.0.1", "10.0.0.1", "localhost", "::1"} {
		if got := machineAddresses(host); len(got) > 0 {
			t.Errorf("%s: %q", host, got)
		}
	}
	for _, host := range []string{"0.0.0.0", "::"} {
		got := machineAddresses(host)
		if len(got) > shownAddresses+1 {
			t.Errorf("%s: %d addresses", host, len(got))
		}
		for _, text := range got {
			at, err := netip.ParseAddr(text)
			if text != "..." && (err != nil || at.IsLoopback() || host == "0.0.0.0" && at.Is6()) {
				t.Errorf("%s: %q", host, text)
			}
		}
	}
}
