package parameters

import (
	"bufio"
	"net/http"
	"os"
	"strings"
	"testing"
)

// operation is one operation of parameters.txt.
type operation struct {
	service, name, method string
	parameters            []parameter
	answers               []string // headers of the answer, as net/http writes them
}

// parameter is a header or a query parameter of an operation.
type parameter struct {
	name   string   // "header If-Match", "query marker", "element Cors>CorsRule>AllowedHeaders"
	values []string // of the enumeration, or the only value; nil for any
}

// load reads parameters.txt.
func load(t *testing.T) []operation {
	t.Helper()
	f, err := os.Open("parameters.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var list []operation
	service := ""
	for lines := bufio.NewScanner(f); lines.Scan(); {
		line := lines.Text()
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || words[0] == "#":
		case words[0] == "service":
			service = words[1]
		case line[0] != ' ':
			list = append(list, operation{service: service, name: words[0], method: words[1]})
		case words[0] == "answer":
			o := &list[len(list)-1]
			o.answers = append(o.answers, http.CanonicalHeaderKey(words[1]))
		default:
			o := &list[len(list)-1]
			p := parameter{name: words[0] + " " + words[1]}
			if len(words) > 2 {
				p.values = strings.Split(words[2], "|")
			}
			o.parameters = append(o.parameters, p)
		}
	}
	if len(list) < 90 {
		t.Fatalf("parameters.txt has %d operations", len(list))
	}
	return list
}
