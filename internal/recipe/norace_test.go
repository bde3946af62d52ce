//go:build !race

package recipe_test

func slow() bool { return false }
