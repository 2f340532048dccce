package blobsvc_test

import (
	"flag"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
)

var update = flag.Bool("update", false, "write the answers that are given into testdata/errors_*.txt")

// TestErrorsOfRequests sends the requests of two files, each with what is wrong in one, and compares status and error
// code. A line is
//
//	METHOD PATH Header=value... body=... -> STATUS Code
//
// with values in quotes where they have spaces, {base} for the address of the account, and {x*512} for a text of 512
// letters. The requests of a file go to one server, in their order.
func TestErrorsOfRequests(t *testing.T) {
	t.Parallel()
	flat := managed(t, accountprops.Blob{})
	flat.do("PUT", "/box?restype=container", "", "x-ms-blob-public-access", "blob").want(t, 201, "")
	for name, headers := range map[string][]string{"src": {"BlockBlob"}, "b": {"BlockBlob"}, "srca": {"AppendBlob"},
		"a": {"AppendBlob"}, "srcp": {"PageBlob", "x-ms-blob-content-length", "1024"},
		"p": {"PageBlob", "x-ms-blob-content-length", "1024"}} {
		text := map[string]string{"src": "x", "b": "hello"}[name]
		flat.do("PUT", "/box/"+name, text, append([]string{"x-ms-blob-type"}, headers...)...).want(t, 201, "")
	}
	t.Run("blob", func(t *testing.T) { compareErrors(t, "testdata/errors_blob.txt", flat.base, flat.do) })

	tree := lake(t)
	tree.filesystem("files")
	for _, path := range []string{"f?resource=file", "g?resource=file", "d?resource=directory", "d/x?resource=file",
		"e?resource=directory"} {
		tree.lakeDo("PUT", "/files/"+path, "").want(t, 201, "")
	}
	t.Run("dfs", func(t *testing.T) { compareErrors(t, "testdata/errors_dfs.txt", tree.base, tree.lakeDo) })
}

// compareErrors sends the requests of a file.
func compareErrors(t *testing.T, path, base string, do func(method, path, content string, headers ...string) reply) {
	text := string(must(os.ReadFile(path))(t))
	var out strings.Builder
	for line := range strings.Lines(text) {
		request, want, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " -> ")
		if !ok {
			out.WriteString(line)
			continue
		}
		method, target, content, headers := parseRequestLine(t, request, base)
		r := do(method, target, content, headers...)
		got := strings.TrimSpace(strconv.Itoa(r.status) + " " + r.code())
		if got != want && !*update {
			t.Errorf("%s -> %s, want %s", request, got, want)
		}
		out.WriteString(request + " -> " + got + "\n")
	}
	if *update {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// repeated is a text and how often it is repeated.
var repeated = regexp.MustCompile(`\{([^{}]+)\*(\d+)\}`)

// parseRequestLine reads what stands before the arrow.
func parseRequestLine(t *testing.T, line, base string) (method, target, content string, headers []string) {
	line = strings.ReplaceAll(line, "{base}", base)
	line = repeated.ReplaceAllStringFunc(line, func(s string) string {
		part := repeated.FindStringSubmatch(s)
		return strings.Repeat(part[1], must(strconv.Atoi(part[2]))(t))
	})
	var fields []string
	for field := ""; line != ""; {
		end := strings.IndexAny(line, ` "`)
		switch {
		case end < 0:
			field, line = field+line, ""
		case line[end] == ' ':
			field, line = field+line[:end], line[end+1:]
		default:
			quoted := must(strconv.QuotedPrefix(line[end:]))(t)
			field += line[:end] + must(strconv.Unquote(quoted))(t)
			line = line[end+len(quoted):]
			if line != "" {
				continue
			}
		}
		fields, field = append(fields, field), ""
		line = strings.TrimLeft(line, " ")
	}
	for _, field := range fields[2:] {
		name, value, _ := strings.Cut(field, "=")
		if name == "body" {
			content = value
		} else {
			headers = append(headers, name, value)
		}
	}
	return fields[0], fields[1], content, headers
}
