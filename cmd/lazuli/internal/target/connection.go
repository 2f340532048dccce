package target

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/sdk/connstr"
)

// AccountFlag adds --connection-string to a verb that is a client of an account, and returns how to read it: the flag,
// the variables of connstr.Variables in their order, the development account.
func AccountFlag(cmd *cobra.Command) func() (string, error) {
	flag := cmd.Flags().String("connection-string", "",
		"storage `account`; default: $"+strings.Join(connstr.Variables, ", $")+" or the development account")
	return func() (string, error) { return ChooseConnection(*flag) }
}

func ChooseConnection(flag string) (string, error) {
	text, source := flag, "--connection-string"
	if text == "" {
		text, source = connstr.FromEnvironment(os.Getenv)
	}
	if _, err := connstr.Parse(text); err != nil {
		return "", console.Usagef("%s: %w", source, err)
	}
	return text, nil
}

// OverrideFlag adds --connection-string to a verb that needs no account: the flag, or connstr.Variable, or nothing. The
// variables of other tools do not count: they may name an account that a demonstration must not touch.
func OverrideFlag(cmd *cobra.Command, meaning string) func() string {
	flag := cmd.Flags().String("connection-string", "",
		"storage `account`; default: $"+connstr.Variable+" or "+meaning)
	return func() string {
		if *flag != "" {
			return *flag
		}
		return os.Getenv(connstr.Variable)
	}
}
