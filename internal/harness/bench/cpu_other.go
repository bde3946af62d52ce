//go:build !unix

package main

func cpuMs() float64 { return 0 }
