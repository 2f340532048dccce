// Package accountprops has the settings of a storage account that are set through Azure Resource Manager: no request to
// the services reads or changes them. In Lazuli they are options of the process that apply to all accounts, and an
// account may override them ([Overrides]).
//
// The table of settings, [BlobSettings], is the only place with their names: the options, the configuration file, the
// accounts file and `lazuli account set` are derived from it.
//
// https://learn.microsoft.com/rest/api/storagerp/blob-services/set-service-properties
package accountprops
