package tables_test

import (
	"os"
	"testing"

	"github.com/lazuli-storage/lazuli/internal/test/ownserver"
)

func TestMain(m *testing.M) { os.Exit(ownserver.Main{M: m}.Run()) }
