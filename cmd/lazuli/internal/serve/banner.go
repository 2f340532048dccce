package serve

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
	"github.com/lazuli-storage/lazuli/internal/azure/wire"
	"github.com/lazuli-storage/lazuli/internal/buildinfo"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/server/config"
)

// banner is the text that a server prints when it is ready.
type banner struct {
	config   *config.Result
	accounts []string // of the configuration
	added    int      // accounts that were added while a server ran
	backend  Backend
	admin    string // URL, "" for none
	login    string // URL with the token of the session, "" for none
	took     time.Duration
}

// Services are the services that Azurite has as well, with their names for people.
var Services = []struct {
	Service wire.Service
	Name    string
}{{wire.Blob, "Blob"}, {wire.Queue, "Queue"}, {wire.Table, "Table"}}

// writeBanner prints the banner; with --silent only the addresses of picked ports.
func writeBanner(w io.Writer, b banner) {
	c := b.config
	account := b.accounts[0]
	if c.Cluster.Front { // only the nodes know the accounts
		account = "<account>"
	}
	var out strings.Builder
	s := console.Style{On: console.IsTerminal(w)}
	if !c.Silent {
		fmt.Fprintf(&out, "%s %s\n\n", s.Bold("Lazuli"), buildinfo.Current().String())
	}
	picked := map[wire.Service]bool{wire.Blob: c.Blob.Port == 0, wire.Queue: c.Queue.Port == 0,
		wire.Table: c.Table.Port == 0}
	for _, svc := range Services {
		if c.Serves(svc.Service.String()) && (!c.Silent || picked[svc.Service]) {
			fmt.Fprintf(&out, "  %-7s%s\n", svc.Name, s.Blue(b.backend.URL(svc.Service, account)))
		}
	}
	if others := machineAddresses(c.Host); len(others) > 0 && !c.Silent {
		fmt.Fprintf(&out, "  %-7s%s  (the same ports)\n", "Also", strings.Join(others, ", "))
	}
	if url := b.backend.URL(wire.DataLake, account); url != "" && (!c.Silent || c.DataLake.Port == 0) {
		fmt.Fprintf(&out, "  %-7s%s  (Data Lake)\n", "Dfs", s.Blue(url))
	}
	if b.admin != "" && (!c.Silent || c.Admin.Port == 0) {
		fmt.Fprintf(&out, "  %-7s%s  (%s)\n", "Admin", s.Blue(b.admin), adminPaths(c))
	}
	if b.login != "" && !c.Silent {
		what := "Token"
		if c.Dashboard() {
			what = "Login"
		}
		fmt.Fprintf(&out, "  %-7s%s  (there are accounts with secret keys; for commands, set LAZULI_ADMIN_TOKEN to this "+
			"token)\n", what, s.Blue(b.login))
	}
	if m := b.backend.Events(); m != nil && !c.Silent {
		fmt.Fprintf(&out, "  %-7s%s\n", "Events", eventsText(b.admin, c.Dashboard(), len(m.List())))
	}
	if w, ok := b.backend.(*workerBackend); ok && w.durable != nil {
		fmt.Fprintf(&out, "  %-7s%s  (durable workflows, gRPC)\n", "Tasks", s.Blue(w.durable.Address))
	}
	if !c.Silent {
		fmt.Fprintf(&out, "  %-7s%s\n\n", "Data", dataText(b))
		if !c.Cluster.Front {
			writeConnection(&out, b)
		}
		if b.added > 0 {
			fmt.Fprintf(&out, "  Accounts that were added while a server ran: %d; lazuli account ls lists them.\n\n", b.added)
		}
		if names := c.Exposed(); names != "" && !c.Cluster.Front {
			fmt.Fprintf(&out, "  %s other machines can access %s, and the key of the development account is public.\n\n",
				s.Bold("Note:"), names)
		}
		fmt.Fprintf(&out, "Ready in %d ms. Ctrl-C stops.\n", b.took.Milliseconds())
		if !console.Screen(w) {
			b.writeListening(&out, account)
		}
	}
	_, _ = io.WriteString(w, out.String()) // a closed standard output does not keep the server from serving
}

// writeListening prints the lines for which programs wait that start Azurite, such as its module for Testcontainers in
// Node.js.
func (b banner) writeListening(out *strings.Builder, account string) {
	for _, svc := range Services {
		if b.config.Serves(svc.Service.String()) {
			fmt.Fprintf(out, "%s service is successfully listening at %s\n", svc.Name,
				strings.TrimSuffix(b.backend.URL(svc.Service, account), "/"+account))
		}
	}
}

// shownAddresses is the number of addresses that the banner shows: a host of containers has hundreds.
const shownAddresses = 4

// machineAddresses returns addresses under which other machines reach a server that listens on every address, 0.0.0.0
// or ::, those of IPv4 first. It returns nil for another host, or if the system does not say.
func machineAddresses(host string) (list []string) {
	ip, err := netip.ParseAddr(host)
	if err != nil || !ip.IsUnspecified() {
		return nil
	}
	found, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var six []string
	for _, a := range found {
		prefix, err := netip.ParsePrefix(a.String())
		// Addresses of the link are of use only with the name of an interface.
		if at := prefix.Addr(); err != nil || at.IsLoopback() || at.IsLinkLocalUnicast() {
			continue
		} else if at.Is4() {
			list = append(list, at.String())
		} else if ip.Is6() {
			six = append(six, at.String())
		}
	}
	if list = append(list, six...); len(list) > shownAddresses {
		list = append(list[:shownAddresses], "...")
	}
	return list
}

func adminPaths(c *config.Result) string {
	paths := "/healthz, /readyz, /metrics"
	if c.Dashboard() {
		paths = "dashboard, " + paths
	}
	if c.Pprof {
		paths += ", /debug/pprof/"
	}
	if c.OAuth.Development {
		paths += ", /oauth: tokens for everyone"
	}
	return paths
}

// eventsText says how many event subscriptions exist and where they are shown.
func eventsText(admin string, dashboard bool, subscriptions int) string {
	text := "no subscriptions; lazuli event create makes one"
	switch subscriptions {
	case 0:
	case 1:
		text = "1 subscription"
	default:
		text = strconv.Itoa(subscriptions) + " subscriptions"
	}
	if admin != "" && dashboard {
		return admin + "/ui/events  (" + text + ")"
	}
	return text
}

func dataText(b banner) string {
	if b.config.Cluster.Front {
		return "none: requests go to the nodes of the cluster"
	}
	if b.config.InMemory {
		return "in memory; lost when the process ends"
	}
	text := b.backend.Path()
	if n := b.backend.Shards(); n > 1 {
		text += fmt.Sprintf("  (%d shards)", n)
	}
	if b.config.Durability == config.Relaxed {
		text += "  (durability relaxed: a power failure may lose the latest writes)"
	}
	return text
}

// writeConnection prints the connection string: whole for the development account, whose key is public; without keys
// for others.
func writeConnection(out *strings.Builder, b banner) {
	for i, name := range b.accounts {
		key := "<a key of " + name + ">"
		if name == auth.DevelopmentAccount {
			key = auth.DevelopmentKey
		}
		out.WriteString("  Connection string")
		if i > 0 || len(b.accounts) > 1 {
			out.WriteString(" of " + name)
		} else if usualPorts(b.config) && name == auth.DevelopmentAccount {
			out.WriteString(" (UseDevelopmentStorage=true works as well)")
		}
		settings := connstr.Settings{Account: name, Key: connstr.NewSecret(key)}
		for svc, endpoint := range map[wire.Service]*string{wire.Blob: &settings.BlobEndpoint,
			wire.Queue: &settings.QueueEndpoint, wire.Table: &settings.TableEndpoint} {
			if b.config.Serves(svc.String()) {
				*endpoint = b.backend.URL(svc, name)
			}
		}
		settings.DFSEndpoint = b.backend.URL(wire.DataLake, name)
		fmt.Fprintf(out, "\n  %s\n\n", settings.Reveal())
	}
}

// usualPorts reports whether the services use the ports that SDKs assume by default.
func usualPorts(c *config.Result) bool {
	return c.Cert == "" && len(c.Services) == 0 && c.Blob.Port == 10000 && c.Queue.Port == 10001 && c.Table.Port == 10002
}
