// Command superstep runs workflows that survive a crash.
package main

import (
	"os"
	_ "time/tzdata" // the zones of schedules, for systems that have none

	"github.com/superstep-dev/superstep/cli"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/runlog/stores"
)

func main() { os.Exit(cli.Main(config(), options())) }

// config returns the host of the command: every kind of store, and the providers of models that
// package host knows.
func config() *host.Config {
	return &host.Config{Name: "superstep", Stores: stores.All(), Failpoint: failpoint()}
}

func options() *cli.Options { return &cli.Options{Demo: true} }
