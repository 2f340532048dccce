// Package chart draws counts over time: lines in a plot, and bars in the time of a whole.
package chart
