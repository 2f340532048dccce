package languageworker

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lazuli-storage/lazuli/functions"
	"github.com/lazuli-storage/lazuli/internal/test/check"
	"github.com/lazuli-storage/lazuli/lazulitest"
)

// javaVar names a folder with Microsoft's worker for Java in worker, its end-to-end app in endtoend, and the app of
// testdata/java in own; .ci/functions sets it.
const javaVar = "LAZULI_TEST_JAVA"

// javaConfig copies a built app, and returns the configuration that runs it.
func javaConfig(t testing.TB, connection, app string, environ ...string) functions.Config {
	t.Helper()
	folder := folderOf(t, javaVar, "the worker for Java and apps")
	return builtConfig(t, folder, connection, app, append(environ, "FUNCTIONS_WORKER_RUNTIME=java",
		"languageWorkers__java__workerDirectory="+filepath.Join(folder, "worker"))...)
}

// TestJavaEndToEndApp runs the app of the tests of Microsoft's worker, with what these tests expect.
func TestJavaEndToEndApp(t *testing.T) {
	t.Parallel()
	c := javaConfig(t, lazulitest.Start(t).ConnectionString(), "endtoend",
		"AzureFunctionsJobHost__extensions__queues__maxPollingInterval=00:00:00.200")
	cases := readCases(t, filepath.Join("testdata", "java", "cases-endtoend.json"), "", "")
	options, err := otherSite(t, "httpstat.us")
	if err != nil {
		// The function HttpTriggerJava asks this site, in each of its calls.
		t.Logf("SKIPPED: the cases of HttpTriggerJava: there is no stand-in for the site httpstat.us: %v", err)
		cases = slices.DeleteFunc(cases, func(c testCase) bool { return c.Function == "HttpTriggerJava" })
	}
	c.Environ = append(c.Environ, "JAVA_OPTS="+options)
	r := run(t, c)
	r.runCases(t, cases)
	// What needs other services is left out, each function with a line.
	lines := strings.Join(r.Describe("localhost:1"), "\n")
	for _, name := range []string{"EventHubOutput", "KafkaTriggerAndKafkaOutput", "CosmosDBInputId", "AddProduct",
		"ServiceBusQueueTrigger", "EventGridOutputBindingJava"} {
		if !strings.Contains(lines, name+": cannot run: ") {
			t.Errorf("the start does not say that %s cannot run", name)
		}
	}
}

// otherSite serves a site on this machine, and returns the options with which Java finds and trusts it.
func otherSite(t *testing.T, name string) (options string, err error) {
	t.Helper()
	// Java's own configuration of names leaves the port as it is.
	l, err := net.Listen("tcp", "127.0.0.73:443")
	if err != nil {
		return "", err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name},
		DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour)}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{certificate}, PrivateKey: key}}}}
	served := make(chan error, 1)
	go func() { served <- server.ServeTLS(l, "", "") }()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	dir := t.TempDir()
	hosts, file, store := filepath.Join(dir, "hosts"), filepath.Join(dir, "site.pem"), filepath.Join(dir, "trusted")
	if err := os.WriteFile(hosts, []byte("127.0.0.73 "+name+"\n127.0.0.1 localhost\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})
	if err := os.WriteFile(file, encoded, 0o600); err != nil {
		t.Fatal(err)
	}
	const password = "changeit"
	if out, err := exec.CommandContext(t.Context(), "keytool", "-importcert", "-noprompt", "-alias", "site", "-file", file,
		"-keystore", store, "-storepass", password).CombinedOutput(); err != nil {
		t.Fatalf("keytool: %v\n%s", err, out)
	}
	return fmt.Sprintf("-Djdk.net.hosts.file=%s -Djavax.net.ssl.trustStore=%s -Djavax.net.ssl.trustStorePassword=%s", hosts,
		store, password), nil
}

// TestJavaCases runs all cases of the app of testdata/java on an empty account.
func TestJavaCases(t *testing.T) {
	t.Parallel()
	r := run(t, javaConfig(t, lazulitest.Start(t).ConnectionString(), "own", "OWN_SETTING=a value"))
	r.runCases(t, readCases(t, filepath.Join("testdata", "java", "cases-own.json"), r.url, filepath.ToSlash(r.dir)))
}

// TestJavaKills kills processes of a Java app while it has messages and workflows: nothing is lost, and there is no
// result twice.
func TestJavaKills(t *testing.T) {
	t.Parallel()
	const messages, workflows, kills = 100, 10, 3
	c := javaConfig(t, lazulitest.Start(t).ConnectionString(), "own", "FUNCTIONS_WORKER_PROCESS_COUNT=2",
		// A message that each kill meets is not to be poisoned.
		"AzureFunctionsJobHost__extensions__queues__maxDequeueCount="+strconv.Itoa(kills+1))
	r := run(t, c)
	var sent []string
	for i := range messages {
		sent = append(sent, fmt.Sprint("message ", i))
	}
	ctx, stop := context.WithTimeout(t.Context(), 2*patience)
	defer stop()
	killed := make(chan error, 1)
	go func() {
		for n := range kills {
			before := strings.Count(r.log.String(), "Executing 'Functions.")
			if err := until(ctx, func() error {
				if strings.Count(r.log.String(), "Executing 'Functions.") < before+10 || !r.killWorker(n) {
					return fmt.Errorf("no process to kill after %d kills", n)
				}
				return nil
			}); err != nil {
				killed <- err
				return
			}
		}
		killed <- nil
	}()
	put(t, r, "java-text", sent...)
	for i := range workflows {
		id := fmt.Sprint("kill-", i)
		check.Eventually(t, func() bool {
			status, _ := r.get(t, "/api/flows/FanOut?id="+id, "")
			// A process that is killed may have started the workflow before.
			started, _ := r.read(t, "/api/flow/"+id)
			return status.StatusCode == http.StatusAccepted || started == http.StatusOK
		}, "the start of %s", id)
	}
	got := map[string]int{}
	check.Eventually(t, func() bool {
		takeSome(t, r, "java-text-out", func(_, message string) { got[message]++ })
		return len(got) == messages
	}, "%d results", messages)
	for i := range workflows {
		id := fmt.Sprint("kill-", i)
		check.Eventually(t, func() bool {
			status, body := r.read(t, "/api/flow/"+id)
			return status == http.StatusOK && strings.Contains(body, `"status":"COMPLETED","output":"385"`)
		}, "the end of %s", id)
	}
	if err := <-killed; err != nil {
		t.Error(err)
	}
	takeSome(t, r, "java-text-out", func(_, message string) { got[message]++ })
	for message, n := range got {
		if n != 1 {
			t.Errorf("%s: %d results", message, n)
		}
	}
}
