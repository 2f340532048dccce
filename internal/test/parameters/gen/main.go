// Command gen writes parameters.txt: what clients can send with each operation, read from the source of the Azure SDK
// for Go, whose zz_ files are generated from the OpenAPI specifications of the services.
//
//	go run ./internal/test/parameters/gen >internal/test/parameters/parameters.txt
//
// It downloads the modules below with the go command. They need not be those that go.mod requires.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
)

const sdk = "github.com/Azure/azure-sdk-for-go/sdk/"

// sources are the modules, and the folders in them with the generated code. A newer version of a module is put here.
var sources = []struct{ service, module, version, folder string }{
	{"blob", sdk + "storage/azblob", "v1.8.3", "internal/generated"},
	{"queue", sdk + "storage/azqueue/v2", "v2.1.2", "internal/generated"},
	{"table", sdk + "data/aztables", "v1.4.1", "internal"},
	{"dfs", sdk + "storage/azdatalake", "v1.5.0", "internal/generated"},
}

func main() {
	log.SetFlags(0)
	out := bufio.NewWriter(os.Stdout)
	fmt.Fprint(out, header)
	for _, s := range sources {
		dir, err := download(s.module + "@" + s.version)
		if err != nil {
			log.Fatal(err)
		}
		p, err := parse(filepath.Join(dir, s.folder))
		if err != nil {
			log.Fatalf("%s: %v", s.module, err)
		}
		fmt.Fprintf(out, "\nservice %s %s %s@%s\n", s.service, p.version, s.module, s.version)
		for _, o := range p.operations() {
			if s.service != "dfs" { // the other services have no scenes for their answers
				o.answers = nil
			}
			o.write(out)
		}
	}
	if err := out.Flush(); err != nil {
		log.Fatal(err)
	}
}

const header = `# What clients can send with each operation. Generated: go run ./internal/test/parameters/gen
#
# service NAME VERSION MODULE   begins a service: its newest service version, and the module that was read.
# NAME METHOD                   begins an operation, "client.method" of the SDK.
# header NAME [VALUES]          is a header; VALUES are those of an enumeration, or the only value that the SDK sends.
# query NAME [VALUES]           is a query parameter.
# answer NAME                   is a header of the answer that clients read.
# element PATH [VALUES]         is an element of the body in XML, below the outermost one, or a member of the body in JSON.
`

// download returns the folder of a module.
func download(module string) (string, error) {
	c := exec.Command("go", "mod", "download", "-json", module)
	c.Stderr = os.Stderr
	text, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("go mod download %s: %w", module, err)
	}
	var answer struct{ Dir string }
	if err := json.Unmarshal(text, &answer); err != nil {
		return "", fmt.Errorf("go mod download %s: %w", module, err)
	}
	return answer.Dir, nil
}
