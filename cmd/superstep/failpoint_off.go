//go:build !failpoint

package main

func failpoint() func(name string) { return nil }
