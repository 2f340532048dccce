package functions

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/lazuli-storage/lazuli/functions/internal/keys"
)

// Describe lists the functions as they are to be shown when listening at an address.
func (h *Host) Describe(address string) []string {
	var lines []string
	for _, f := range h.project.functions {
		line := f.name + ": " + f.trigger.kind
		switch f.trigger.kind {
		case kindHTTPTrigger:
			line = fmt.Sprintf("%s: [%s] http://%s/%s", f.name, f.allMethods(), address, h.pathOf(f))
			if h.keys != nil && f.authLevel != keys.Anonymous {
				line += " (key: " + f.authLevel + ")"
			}
		case kindEventTrigger:
			line += " http://" + address + webhookPath(extensionEvents, f.name)
		default:
			line = strings.TrimRight(line+" "+h.sourceOf(f), " ")
			if f.trigger.events {
				line += " http://" + address + webhookPath(extensionBlobs, blobFunctionPrefix+f.name)
			}
		}
		lines = append(lines, line)
	}
	for _, f := range h.project.disabled {
		if len(f.errs) > 0 {
			lines = append(lines, f.name+": cannot run: "+errors.Join(f.errs...).Error())
			continue
		}
		lines = append(lines, f.name+": disabled")
	}
	return lines
}

// allMethods lists the methods of an HTTP trigger.
func (f *function) allMethods() string {
	if len(f.methods) == 0 {
		return "any method"
	}
	return strings.Join(f.methods, ",")
}

// pathOf is an HTTP function's route below the prefix.
func (h *Host) pathOf(f *function) string {
	source := strings.TrimPrefix(f.route.Source, "/")
	if h.project.host.http.prefix == "" {
		return source
	}
	return h.project.host.http.prefix + "/" + source
}

// sourceOf describes what triggers a function.
func (h *Host) sourceOf(f *function) string {
	switch f.trigger.kind {
	case kindHTTPTrigger:
		return f.allMethods() + " /" + h.pathOf(f)
	case kindQueueTrigger, kindTableTrigger:
		return f.trigger.target.Source
	case kindBlobTrigger:
		return f.trigger.path
	case kindTimerTrigger:
		return f.trigger.schedule
	}
	return ""
}

// example returns an input with which the function can be run by hand; false for one that other code calls.
func (f *function) example() (string, bool) {
	switch f.trigger.kind {
	case kindHTTPTrigger:
		return `{"name": "Ada"}`, true
	case kindQueueTrigger:
		return `{"id": 1}`, true
	case kindBlobTrigger:
		return f.trigger.path, true // The path of a blob.
	case kindTableTrigger:
		return `{"Change": "insert", "PartitionKey": "p", "RowKey": "1", ` +
			`"Entity": {"PartitionKey": "p", "RowKey": "1"}}`, true
	case kindTimerTrigger, kindWarmup:
		return "", true
	case kindOrchestrationTrigger:
		return "null", true
	case kindEventTrigger:
		return `{"id": "1", "eventType": "Microsoft.Storage.BlobCreated", "subject": ` +
			`"/blobServices/default/containers/c/blobs/b", "eventTime": "2026-01-01T00:00:00Z", "dataVersion": "", ` +
			`"data": {}}`, true
	}
	return "", false
}

// functionNamed returns the function of a name, also one that is disabled, or an ErrNoFunction.
func (h *Host) functionNamed(name string) (*function, error) {
	all := slices.Concat(h.project.functions, h.project.disabled)
	at := slices.IndexFunc(all, func(f *function) bool { return strings.EqualFold(f.name, name) })
	if at < 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoFunction, name)
	}
	return all[at], nil
}
