// Package config defines the server's options and loads them from flags, the environment and a file.
//
// [Config] is the result. [Load] makes one from [Sources]; what is nearer to the caller wins: a flag over an
// environment variable, that over the file, that over the default. One table (options.go) has a row for each option,
// from which flags, variables, file keys and the reference page (docs/configuration.md) follow: an option cannot exist
// in one of them only.
//
// Names are written in kebab-case. camelCase works as well, so that Azurite's flags are taken as they are; azurite.go
// has those that are called otherwise here, that have nothing to do here, and that are refused because Lazuli lacks
// what they ask for.
package config
