//go:build failpoint

package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
)

// failpoint reads SUPERSTEP_FAILPOINT: "name:n" kills the process at the n-th hit of that point,
// "any:n" at the n-th hit of any point, and "random:seed" at one of the first hundred hits of any
// point.
func failpoint() func(name string) {
	v := os.Getenv("SUPERSTEP_FAILPOINT")
	if v == "" {
		return nil
	}
	i := strings.LastIndexByte(v, ':')
	n, err := strconv.ParseUint(v[i+1:], 10, 63)
	if i < 1 || err != nil {
		fmt.Fprintf(os.Stderr, "error: SUPERSTEP_FAILPOINT=%s: use name:n, any:n or random:seed\n", v)
		os.Exit(2)
	}
	at := v[:i]
	if at == "random" {
		at, n = "any", 1+rand.New(rand.NewPCG(n, n)).Uint64N(100)
	}
	var hits atomic.Uint64
	return func(name string) {
		if (at == "any" || at == name) && hits.Add(1) == n {
			if self, err := os.FindProcess(os.Getpid()); err == nil {
				_ = self.Kill() // SIGKILL: nothing is tidied up
			}
			select {} // until it arrives
		}
	}
}
