// Package frame is what all pages of the dashboard have in common. A [Site] has the frame around a page, the checks of
// a
// change and the clients of the services; a kind of pages adds its templates and addresses to it. An error of a handler
// is shown as a page that says what helps, see [Problem].
package frame
