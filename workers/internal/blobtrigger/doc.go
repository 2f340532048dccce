// Package blobtrigger finds new and changed blobs of a container, on one instance, and puts a message for each, which
// any instance handles.
package blobtrigger
