// Package timertrigger runs timers, and puts the messages of schedules, on one instance at a time.
package timertrigger
