package main

import (
	"fmt"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/internal/devcert"
)

// newCertCommand makes `lazuli cert`.
func newCertCommand() *cobra.Command {
	var dir string
	var hosts []string
	cmd := &cobra.Command{
		Use:   "cert",
		Short: "Create a local certificate authority and a certificate for https",
		Long: `Creates a local certificate authority and a certificate signed by it, for localhost,
127.0.0.1, ::1 and the host names of accounts (*.blob.localhost and so on), in
four files of one folder. Files that exist and are valid are kept. Run the
command again before the certificate expires, or to add a host.

Only the current user can read the private keys. The authority can sign for local names
and private addresses only.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, h := range hosts {
				if !devcert.Allowed(h) {
					return usageError{fmt.Errorf("--host %s is not a local name or a private address", h)}
				}
			}
			r, err := devcert.Make(dir, hosts, time.Now())
			if err != nil {
				return err
			}
			return certReport(cmd, r)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "lazuli-certs", "Folder of the four files, created if absent")
	cmd.Flags().StringSliceVar(&hosts, "host", nil, "Further host name or IP address; may be repeated")
	return cmd
}

// certReport says what was done and what to do with it.
func certReport(cmd *cobra.Command, r devcert.Result) error {
	state := map[bool]string{true: "new", false: "kept"}
	ca := filepath.Join(r.Dir, devcert.AuthorityCert)
	cert, key := filepath.Join(r.Dir, devcert.ServerCert), filepath.Join(r.Dir, devcert.ServerKey)
	_, err := fmt.Fprintf(cmd.OutOrStdout(), `authority    %s (%s)
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
`, ca, state[r.NewAuthority], cert, state[r.NewServer], r.NotAfter.UTC().Format(time.DateOnly), key, cert, key, ca, ca,
		ca, ca, ca, ca)
	return err
}
