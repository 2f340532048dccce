package servertest

import (
	"os"
	"os/exec"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/aztables"

	"github.com/lazuli-storage/lazuli/lazulitest"
	"github.com/lazuli-storage/lazuli/tables"
)

// cosmosPython names a Python that has the package azure-cosmosdb-table 1.0.6; .ci/sdks sets it.
const cosmosPython = "LAZULI_TEST_COSMOS_PYTHON"

// Azure's own library reads what AzureCompatible writes, and the other way round.
func TestEncryptionWithAzuresLibraryForPython(t *testing.T) {
	t.Parallel()
	python := os.Getenv(cosmosPython)
	if python == "" {
		t.Skip("set " + cosmosPython + " to a Python with azure-cosmosdb-table 1.0.6; .ci/sdks does")
	}
	connection := lazulitest.Start(t).ConnectionString()
	service, err := aztables.NewServiceClientFromConnectionString(connection, nil)
	ok(t, err)
	table := newTable[letter](t, service, "Python",
		encrypted(tables.Encryption{Key: aesKey(t, "k1", 1), Mode: tables.AzureCompatible}))
	ctx := t.Context()
	ok(t, table.Insert(ctx, &letter{"p", "go", "plain", "from Go: Grüße 🙂"}))
	if out, err := exec.Command(python, "../../internal/test/sdktest/python/table_encryption.py", connection,
		"Python").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got, err := table.Get(ctx, tables.Key{PartitionKey: "p", RowKey: "python"})
	if want := (letter{"p", "python", "plain", "from Python: Grüße 🙂"}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}
