// Package config defines the server's options and loads them from flags, the environment and a file.
//
// [Config] is the result. [Load] makes one from [Sources], in the order of precedence: flags, environment variables,
// the file, defaults. One table (options.go) has a row for each option, from which flags, variables, file keys and the
// reference page (docs/configuration.md) follow: an option cannot exist in one of them only.
//
// Names are written in kebab-case. camelCase works as well, so that Azurite's flags are taken as they are; azurite.go
// has the flags of Azurite that have another name here, that have no effect, and that are refused because Lazuli does
// not have the feature.
package config
