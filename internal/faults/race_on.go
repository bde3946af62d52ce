//go:build race

package faults

// Raced reports that the race detector is on, which makes everything slow.
const Raced = true
