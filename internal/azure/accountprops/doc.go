// Package accountprops has the settings of a storage account that Azure keeps apart from the account's data: who manages accounts
// makes them, through Azure Resource Manager, and no request to the services reads or changes them. Here they are options of the
// process, which hold for all accounts, and an account may have its own in their place ([Overrides]).
//
// The table of settings, [BlobSettings], is the one place that knows their names: the options, the configuration file, the accounts
// file and `lazuli account set` follow from it.
//
// https://learn.microsoft.com/rest/api/storagerp/blob-services/set-service-properties
package accountprops
