//go:build race

package recipe_test

// slow tells of the race detector, which makes everything ten times slower.
func slow() bool { return true }
