// Package funcapp makes the folders of function apps from templates, and watches them for changes.
package funcapp
