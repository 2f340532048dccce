package frame

import (
	"cmp"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
)

// Problem is an error for people: what failed and what helps.
type Problem struct {
	Status     int
	What, help string
}

// NewProblem makes a problem: the status of the response, what failed, and what helps, "" if that is not known.
func NewProblem(status int, what, help string) Problem { return Problem{status, what, help} }

// Error implements error.
func (p Problem) Error() string { return p.What }

// Help returns what helps; "" if that is not known.
func (p Problem) Help() string { return p.help }

// helps hold what helps against errors of the services, by their code.
var helps = map[string]string{
	"ContainerAlreadyExists": "Choose another name.", "QueueAlreadyExists": "Choose another name.",
	"TableAlreadyExists":               "Choose another name.",
	"EntityAlreadyExists":              "Edit the entity that is there, or choose other keys.",
	"LeaseIdMissing":                   "Break the lease first.",
	"LeaseNotPresentWithBlobOperation": "Break the lease first.",
	"ContainerBeingDeleted":            "The name is free again in a moment.",
	"QueueBeingDeleted":                "The name is free again in a moment.",
	"TableBeingDeleted":                "The name is free again in a moment.",
	"SnapshotsPresent":                 "Choose to delete the snapshots, too.",
	"InvalidResourceName": "Names have lower-case letters, digits and hyphens, 3 to 63 characters; tables " +
		"have letters and digits.",
	"OutOfRangeInput": "Names have 3 to 63 characters; keys of entities have none of / \\ # ? and no " +
		"control characters.",
	"UpdateConditionNotSatisfied": "The entity has changed meanwhile: reload it and try again.",
	"ConditionNotMet":             "It has changed meanwhile: reload the page and try again.",
	"InvalidInput":                "Compare the filter or the values with docs/tables.md.",
	"BlobImmutableDueToPolicy":    "An immutability policy or a legal hold protects the blob.",
	"BlobNotFound":                "It may have been deleted meanwhile; the container's page shows deleted blobs as well.",
	"ResourceNotFound":            "It may have been deleted meanwhile.",

	"PathAlreadyExists": "Choose another name.",
	"InvaldAccessControlList": "An entry is user::rwx, or user:ID:r-x; " +
		"default: before it is for what is made later.",
	"RenameDestinationParentPathNotFound": "Create the directory above the new name first.",
}

// Explain turns an error into a problem.
func Explain(err error) Problem {
	var p Problem
	var e *azcore.ResponseError
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &e):
		return Problem{e.StatusCode, e.ErrorCode + ": " + message(e), helps[e.ErrorCode]}
	case errors.As(err, &tooLarge):
		return Problem{http.StatusRequestEntityTooLarge, "The form is too large", ""}
	case errors.Is(err, context.Canceled):
		return Problem{499, "The browser has closed the connection", ""}
	}
	return Problem{http.StatusInternalServerError, err.Error(), "The log of the server says more."}
}

// message is the first line of the text of a service's error.
func message(e *azcore.ResponseError) string {
	if e.RawResponse == nil {
		return http.StatusText(e.StatusCode)
	}
	body, _ := io.ReadAll(io.LimitReader(e.RawResponse.Body, 64<<10))
	var doc struct{ Message string }
	var object struct {
		Error struct{ Message struct{ Value string } } `json:"odata.error"`
		Path  struct{ Message string }                 `json:"error"` // of the dfs endpoint
	}
	text := ""
	if xml.Unmarshal(body, &doc) == nil {
		text = doc.Message
	} else if json.Unmarshal(body, &object) == nil {
		text = cmp.Or(object.Error.Message.Value, object.Path.Message)
	}
	text, _, _ = strings.Cut(text, "\n")
	if text == "" {
		return http.StatusText(e.StatusCode)
	}
	return text
}

// errorPage holds an error.
type errorPage struct {
	Status     int
	What, Help string
}

func (errorPage) Template() string { return "error" }

// fail shows an error as a page, or as JSON to the script.
func (d *Site) fail(w http.ResponseWriter, r *http.Request, err error) {
	p := Explain(err)
	if p.Status >= 500 && p.Status != http.StatusServiceUnavailable {
		d.Log.Error("dashboard page failed", "path", r.URL.Path, "err", err)
	}
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		_ = WriteJSON(w, p.Status, map[string]string{"error": p.What, "help": p.help})
		return
	}
	if err := d.ShowStatus(w, r, p.Status, http.StatusText(p.Status), nil,
		errorPage{Status: p.Status, What: p.What, Help: p.help}); err != nil {
		http.Error(w, p.What, p.Status)
	}
}

// WriteJSON answers with a value as JSON.
func WriteJSON(w http.ResponseWriter, status int, v any) error {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	return json.NewEncoder(w).Encode(v)
}

// ErrAs is errors.As that takes nil.
func ErrAs[T error](err error, target *T) bool { return err != nil && errors.As(err, target) }
