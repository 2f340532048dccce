package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/lazuli-storage/lazuli/internal/auth"
	"github.com/lazuli-storage/lazuli/internal/config"
	"github.com/lazuli-storage/lazuli/internal/wire"
)

// banner is what a server says of itself once it is ready.
type banner struct {
	config  *config.Result
	backend backend
	admin   string // URL, "" for none
	took    time.Duration
}

var services = []struct {
	service wire.Service
	name    string
}{{wire.Blob, "Blob"}, {wire.Queue, "Queue"}, {wire.Table, "Table"}}

// writeBanner prints the banner; with --silent only the addresses that nobody can know otherwise.
func writeBanner(w io.Writer, b banner) {
	c := b.config
	account := c.Accounts[0].Name
	var out strings.Builder
	s := style{on: isTerminal(w)}
	if !c.Silent {
		fmt.Fprintf(&out, "%s %s\n\n", s.bold("Lazuli"), versionText())
	}
	picked := map[wire.Service]bool{wire.Blob: c.Blob.Port == 0, wire.Queue: c.Queue.Port == 0, wire.Table: c.Table.Port == 0}
	for _, svc := range services {
		if !c.Silent || picked[svc.service] {
			fmt.Fprintf(&out, "  %-7s%s\n", svc.name, s.blue(b.backend.URL(svc.service, account)))
		}
	}
	if b.admin != "" && (!c.Silent || c.Admin.Port == 0) {
		fmt.Fprintf(&out, "  %-7s%s  (/healthz, /readyz, /metrics)\n", "Admin", s.blue(b.admin))
	}
	if !c.Silent {
		fmt.Fprintf(&out, "  %-7s%s\n\n", "Data", dataText(b))
		writeConnection(&out, b)
		if names := c.Exposed(); names != "" {
			fmt.Fprintf(&out, "  %s other machines can reach %s, and the development account's key is public.\n\n", s.bold("Note:"), names)
		}
		fmt.Fprintf(&out, "Ready in %d ms. Ctrl-C stops.\n", b.took.Milliseconds())
	}
	_, _ = io.WriteString(w, out.String()) // a closed standard output does not keep the server from serving
}

func dataText(b banner) string {
	if b.config.InMemory {
		return "in memory: nothing is kept"
	}
	text := b.backend.Path()
	if b.config.Durability == config.Relaxed {
		text += "  (durability relaxed: a power failure may lose the latest writes)"
	}
	return text
}

// writeConnection prints the connection string: whole for the development account, whose key is public; without keys
// for others.
func writeConnection(out *strings.Builder, b banner) {
	accounts := b.config.Accounts
	out.WriteString("  Connection string")
	for i, a := range accounts {
		key := "<a key of " + a.Name + ">"
		if a.Name == auth.DevelopmentAccount {
			key = auth.DevelopmentKey
		}
		if i > 0 || len(accounts) > 1 {
			out.WriteString(" of " + a.Name)
		} else if usualPorts(b.config) && a.Name == auth.DevelopmentAccount {
			out.WriteString(" (UseDevelopmentStorage=true works as well)")
		}
		fmt.Fprintf(out, "\n  DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;", a.Name, key)
		for _, svc := range services {
			fmt.Fprintf(out, "%sEndpoint=%s;", svc.name, b.backend.URL(svc.service, a.Name))
		}
		if out.WriteString("\n\n"); i < len(accounts)-1 {
			out.WriteString("  Connection string")
		}
	}
}

// usualPorts reports whether SDKs find the services without being told where.
func usualPorts(c *config.Result) bool {
	return c.Blob.Port == 10000 && c.Queue.Port == 10001 && c.Table.Port == 10002
}

// style adds terminal colours, or nothing.
type style struct{ on bool }

func (s style) bold(text string) string { return s.wrap("1", text) }
func (s style) blue(text string) string { return s.wrap("34", text) }

func (s style) wrap(code, text string) string {
	if !s.on {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// isTerminal reports whether w is a terminal that wants colours.
// https://no-color.org
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}
