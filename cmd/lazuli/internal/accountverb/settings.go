package accountverb

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lazuli-storage/lazuli/cmd/lazuli/internal/console"
	"github.com/lazuli-storage/lazuli/internal/azure/accountprops"
	"github.com/lazuli-storage/lazuli/internal/azure/auth"
)

// settingsHelp lists the settings with their meanings, for help texts.
func settingsHelp() string {
	var b strings.Builder
	for _, s := range accountprops.BlobSettings {
		kind := s.Kind
		if kind == "" {
			kind = "true|false"
		}
		fmt.Fprintf(&b, "\n  %s=<%s>\n      %s\n", s.Name, kind, s.Usage)
	}
	return strings.TrimRight(b.String(), "\n")
}

func newSet(at *accountPlace) *cobra.Command {
	return &cobra.Command{
		Use:   "set NAME SETTING=VALUE ...",
		Short: "Set settings of an account, which override the server's",
		Long: `Sets options for one account. An option that is not set for the account has the
value of the server's option of the same name. On Azure, the resource provider sets
these ("az storage account blob-service-properties update").
` + settingsHelp(),
		Example: "  lazuli account set shop blob-versioning=true container-soft-delete-days=7 --file accounts",
		Args:    cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			asked, err := accountprops.ParseOverrides(args[1:])
			if err != nil {
				return console.Usage(err)
			}
			if at.server {
				wanted := map[string]*string{}
				for _, s := range asked {
					wanted[s.Name] = &s.Value
				}
				return setOfServer(cmd, at, args[0], wanted)
			}
			return editSettings(cmd, at.file, args[0], func(o accountprops.Overrides) (accountprops.Overrides, error) {
				for _, s := range asked {
					if o, err = o.With(s.Name, s.Value); err != nil {
						return nil, err
					}
				}
				return o, nil
			})
		},
	}
}

func newUnset(at *accountPlace) *cobra.Command {
	return &cobra.Command{
		Use:   "unset NAME SETTING ...",
		Short: "Remove settings of an account, so that the server's apply",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			for _, name := range args[1:] {
				if _, err := (accountprops.Overrides{}).Without(name); err != nil {
					return console.Usage(err)
				}
			}
			if at.server {
				unset := map[string]*string{}
				for _, name := range args[1:] {
					unset[name] = nil
				}
				return setOfServer(cmd, at, args[0], unset)
			}
			return editSettings(cmd, at.file, args[0], func(o accountprops.Overrides) (_ accountprops.Overrides, err error) {
				for _, name := range args[1:] {
					if o, err = o.Without(name); err != nil {
						return nil, err
					}
				}
				return o, nil
			})
		},
	}
}

// editSettings replaces the settings of an account, and says what they are now.
func editSettings(cmd *cobra.Command, file, name string,
	edit func(accountprops.Overrides) (accountprops.Overrides, error)) error {
	var now accountprops.Overrides
	err := editAccount(file, name, func(list []auth.StoredAccount, i int) (_ []auth.StoredAccount, err error) {
		if now, err = edit(list[i].Overrides); err != nil {
			return nil, err
		}
		list[i].Overrides = now
		return list, nil
	})
	if err != nil {
		return err
	}
	return printSettings(cmd, name, now)
}

// setOfServer is editSettings for an account of a running server; nil unsets a setting.
func setOfServer(cmd *cobra.Command, at *accountPlace, name string, settings map[string]*string) error {
	now, err := at.of(cmd).set(name, settings)
	if err != nil {
		return err
	}
	return printSettings(cmd, name, now)
}

func printSettings(cmd *cobra.Command, name string, now accountprops.Overrides) error {
	text := now.String()
	if text == "" {
		text = "no settings"
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", name, text)
	return err
}
