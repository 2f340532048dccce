package main

import (
	"fmt"
	"io"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/devcert"
)

// newCertCommand makes `lazuli cert`.
func newCertCommand() *cobra.Command {
	var dir string
	var hosts []string
	cmd := &cobra.Command{
		Use:   "cert",
		Short: "Create a local certificate authority and a certificate for https",
		Long: `Create a local certificate authority and a certificate signed by it, for localhost, 127.0.0.1,
::1 and the host names of accounts (*.blob.localhost and so on), in four files of one folder. Files that exist
and are valid are kept. Run the command again before the certificate expires, or to add a host.

Only the current user can read the private keys. The authority can sign for local names
and private addresses only, and for the hosts of accounts on Azure that --host names, such
as devstoreaccount1.dfs.core.windows.net; a further one makes a new authority.`,
		Args: cobra.NoArgs,
	}
	output := console.ReportOutput(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		// All hosts are checked before a file is written: an authority that is made again makes every client trust a new
		// one.
		for _, h := range hosts {
			if !devcert.Allowed(h) {
				return console.Usagef("--host %s is %s", h, devcert.NotAllowed)
			}
		}
		r, err := devcert.Make(dir, hosts, time.Now())
		if err != nil {
			return err
		}
		row := certRow{Authority: filepath.Join(r.Dir, devcert.AuthorityCert), NewAuthority: r.NewAuthority,
			Certificate: filepath.Join(r.Dir, devcert.ServerCert), NewCertificate: r.NewServer,
			Key: filepath.Join(r.Dir, devcert.ServerKey), Expires: r.NotAfter.UTC()}
		return output(row, row.write)
	}
	cmd.Flags().StringVar(&dir, "dir", "lazuli-certs", "Folder of the four files, created if absent")
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "Further host name or IP address; may be repeated")
	return cmd
}

// certRow is the JSON of `lazuli cert`: paths of files, and when the certificate expires.
type certRow struct {
	Authority      string    `json:"authority"`
	NewAuthority   bool      `json:"newAuthority"`
	Certificate    string    `json:"certificate"`
	NewCertificate bool      `json:"newCertificate"`
	Key            string    `json:"key"`
	Expires        time.Time `json:"expires"`
}

// write says what was done and what to do with it.
func (r certRow) write(w io.Writer) error {
	state := map[bool]string{true: "new", false: "kept"}
	ca, cert, key := r.Authority, r.Certificate, r.Key
	_, err := fmt.Fprintf(w, `authority    %s (%s)
certificate  %s (%s, until %s)
key          %s

Serve with it:   lazuli --cert %s --key %s
Trust it, in
  Go, curl       SSL_CERT_FILE=%s
  Python         REQUESTS_CA_BUNDLE=%s
  Node.js        NODE_EXTRA_CA_CERTS=%s
  Debian         sudo cp %s /usr/local/share/ca-certificates/lazuli.crt && sudo update-ca-certificates
  macOS          sudo security add-trusted-cert -d -k /Library/Keychains/System.keychain %s
  Windows        certutil -addstore -user Root %s
`, ca, state[r.NewAuthority], cert, state[r.NewCertificate], r.Expires.Format(time.DateOnly), key, cert, key, ca, ca,
		ca, ca, ca, ca)
	return err
}
