// Package functionpages has the pages of what runs functions: function apps, the workers of this process, and the
// processes that use an account.
package functionpages
