package main

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/target"
	"github.com/lazuli-storage/lazuli/internal/cluster/peering"
	"github.com/lazuli-storage/lazuli/internal/printable"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
	"github.com/lazuli-storage/lazuli/internal/sdk/sdkerr"
	"github.com/lazuli-storage/lazuli/internal/server"
	"github.com/lazuli-storage/lazuli/internal/storage/datadir"
	"github.com/lazuli-storage/lazuli/internal/storage/secretfile"
)

// Exit codes. Work that a signal ended before it was done, and a second signal, exit with exitSignal plus the signal's
// number.
const (
	exitOK      = 0
	exitFailure = 1 // other errors; a check that found problems
	exitUsage   = 2 // the command line, the environment or the configuration file is wrong
	exitPort    = 3 // a port is taken
	exitData    = 4 // the data folder is in use, not one of ours, or not usable
	exitLoss    = 5 // a repair could not keep everything
	exitSignal  = 128
)

// errPortTaken is the error for an address that another process listens on.
var errPortTaken = server.ErrPortTaken

// exitCode maps an error to the process's exit code. This is the only place that does.
func exitCode(err error) int {
	var early *console.InterruptedError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &early):
		return exitSignal + int(early.Signal)
	case errors.As(err, new(console.UsageError)), errors.Is(err, secretfile.ErrExposed), errors.Is(err,
		peering.ErrShortSecret):
		return exitUsage
	case errors.Is(err, errPortTaken):
		return exitPort
	case errors.Is(err, datadir.ErrLocked), errors.Is(err, datadir.ErrFormat), errors.Is(err, datadir.ErrNotFound),
		errors.Is(err, datadir.ErrManifest), errors.Is(err, datadir.ErrShards), errors.Is(err, peering.ErrFormat),
		errors.As(err, new(*datadir.ContentError)), errors.As(err, new(*datadir.PathError)),
		errors.As(err, new(*server.FolderError)):
		return exitData
	case errors.Is(err, errLoss):
		return exitLoss
	default:
		return exitFailure
	}
}

// report prints err, if there is one, and returns its exit code. Errors quote names, keys of damaged files and answers
// of servers, of which a terminal must take nothing for commands.
func report(w io.Writer, err error) int {
	if err != nil {
		fmt.Fprintf(w, "lazuli: %s\n", printable.Text(explained(err)))
	}
	return exitCode(err)
}

// explained returns an error message for users. Of the SDK's errors, which are dumps of many lines, it keeps the
// service's message. For refused connections it adds what to do.
func explained(err error) string {
	text := sdkerr.Text(err)
	if errors.As(err, new(*target.NoProcessError)) {
		return text
	}
	if errors.Is(err, syscall.ECONNREFUSED) && errors.As(err, new(*url.Error)) {
		text += "; is Lazuli running there? To use another account, set --connection-string or $" + connstr.Variable
	}
	if errors.As(err, new(x509.UnknownAuthorityError)) {
		text += "; for a certificate of lazuli cert, set SSL_CERT_FILE to its ca.pem, such as SSL_CERT_FILE=certs/ca.pem"
	}
	return text + nameLength(err) + creation(err) + noHierarchy(err)
}

// nameLength says which names are allowed, where the service only says that the length of one is not.
func nameLength(err error) string {
	var r *azcore.ResponseError
	if !errors.As(err, &r) || r.ErrorCode != "OutOfRangeInput" || r.RawResponse == nil ||
		!strings.Contains(sdkerr.Text(err), "resource name length") {
		return ""
	}
	return " Names of queues, containers and tables have 3 to 63 characters."
}

// creation says how to create what a write has not found.
func creation(err error) string {
	verbs := map[string]string{
		string(aztables.TableNotFound): "table create TABLE",
		"QueueNotFound":                "queue create QUEUE",
		"ContainerNotFound":            "blob create CONTAINER",
	}
	var r *azcore.ResponseError
	if !errors.As(err, &r) || verbs[r.ErrorCode] == "" || r.RawResponse == nil ||
		r.RawResponse.Request.Method == http.MethodGet || r.RawResponse.Request.Method == http.MethodDelete {
		return ""
	}
	return " To create it: lazuli " + verbs[r.ErrorCode]
}

// noHierarchy says what else there is for a verb that an account without a hierarchical namespace refuses.
func noHierarchy(err error) string {
	var r *azcore.ResponseError
	if !errors.As(err, &r) || r.ErrorCode != "HierarchicalNamespaceNotEnabled" {
		return ""
	}
	return ": mv, acl, chmod and chown need an account with a hierarchical namespace; in others, cp and rm move a blob"
}
