package accounts

import "errors"

// The errors of a [Manager]. After each of them nothing has changed.
var (
	// ErrInvalid: a name, key or setting is not valid.
	ErrInvalid = errors.New("invalid account")
	// ErrExists: there is an account of the name.
	ErrExists = errors.New("the account exists")
	// ErrNotFound: there is no account of the name.
	ErrNotFound = errors.New("no such account")
	// ErrConfigured: the account is one of the configuration.
	ErrConfigured = errors.New("the account comes from the configuration of the server: change it in accounts or " +
		"accounts-file")
	// ErrRemoving: the account was removed, and its name is not free yet.
	ErrRemoving = errors.New("the account is being removed: its name is free once its data is deleted, at the earliest " +
		"a minute after the removal")
	// ErrHasData: the account has data, whose deletion was not asked for.
	ErrHasData = errors.New("the account has data")
	// ErrInUse: the data of the account was to be deleted, and it is not being removed any more.
	ErrInUse = errors.New("the account is in use: its data is not deleted")
	// ErrTooMany: there are MaxAccounts accounts.
	ErrTooMany = errors.New("there are as many accounts as a server can have")
	// ErrUnreadable: the record of the account cannot be read.
	ErrUnreadable = errors.New("the record of the account cannot be read")
)
