// Command behind runs a command behind a proxy for the hosts of Azure Storage: see azurehosts.
//
//	behind FOLDER COMMAND ARGUMENTS...
//
// FOLDER is the place of the certificate. LAZULI_CONNECTION_STRING names the server, IDENTITY_ENDPOINT its token
// issuer, which then answers for Microsoft Entra ID as well.
package main

import (
	"errors"
	"log"
	"net/url"
	"os"
	"os/exec"

	"github.com/lazuli-storage/lazuli/internal/test/clients/azurehosts"
)

func main() {
	log.SetFlags(0)
	if len(os.Args) < 3 {
		log.Fatal("usage: behind FOLDER COMMAND ARGUMENTS...")
	}
	proxy, err := azurehosts.StartProxy(azurehosts.ParseConnection(os.Getenv("LAZULI_CONNECTION_STRING")))
	if err != nil {
		log.Fatal(err)
	}
	if issuer, err := url.Parse(os.Getenv("IDENTITY_ENDPOINT")); err == nil {
		proxy.UseIssuer(issuer.Host)
	}
	env, err := proxy.Environment(os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	c := exec.Command(os.Args[2], os.Args[3:]...)
	c.Env, c.Stdin, c.Stdout, c.Stderr = env, os.Stdin, os.Stdout, os.Stderr
	err = c.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		os.Exit(exit.ExitCode())
	}
	if err != nil {
		log.Fatal(err)
	}
}
