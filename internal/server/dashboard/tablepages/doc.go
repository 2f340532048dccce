// Package tablepages has the pages of tables, entities and partitions.
package tablepages
