// Package workflowpages has the pages of task hubs, which ask the HTTP management API of durable workflows: instances
// with their histories, entities and scheduled tasks.
package workflowpages
