package main

import (
	"context"
	"os"
	"os/exec"
	"strings"

	"github.com/superstep-dev/superstep/internal/faults"
)

// skipped says what is skipped without a program of others, by its variable.
func skipped() map[string]string {
	return map[string]string{
		faults.Postgres: "runlog/postgres, and what crashes and hosts do on Postgres",
		faults.Redis:    "runlog/redis, and what crashes and hosts do on Redis",
		faults.Node:     "scripts of workflows, and agents of others that are programs of Node",
		faults.NPM:      "the servers of others that npm installs",
		faults.Chromium: "pictures, and the console in a browser",
	}
}

// servers says which programs of others are missing, and what is skipped for it. Root on Debian gets them first. Those that are there are named in the
// environment of what the check runs.
func (c *check) servers(ctx context.Context) error {
	values, missing, err := present()
	if len(missing) > 0 && err == nil {
		var names []string
		for _, p := range missing {
			names = append(names, p.Debian)
		}
		if c.install(ctx, names...) {
			values, missing, err = present()
		}
	}
	for _, p := range missing {
		c.out.printf("SKIPPED without %s (Debian: apt-get install %s): %s\n", p.Debian, p.Debian, skipped()[p.Variable])
	}
	c.env = append(c.env, values...)
	return err
}

// present returns the variables of the programs of others that are there, and the programs that are missing.
func present() (values []string, missing []faults.Program, err error) {
	for _, p := range faults.Programs() {
		value, err := p.Value()
		if err != nil {
			return nil, nil, err
		}
		if value == "" {
			missing = append(missing, p)
			continue
		}
		values = append(values, p.Variable+"="+value)
	}
	return values, missing, nil
}

// commands builds the command for the tests that start it, once, and returns the variables that name it.
func (c *check) commands() ([]string, error) {
	plain, err := faults.Build("")
	if err != nil {
		return nil, err
	}
	tagged, err := faults.Build("failpoint")
	return []string{faults.Binary + "=" + plain, faults.Failpoint + "=" + tagged}, err
}

// install lets Debian install packages, and reports whether it did.
func (c *check) install(ctx context.Context, names ...string) bool {
	apt, err := exec.LookPath("apt-get")
	if err != nil || os.Getuid() != 0 {
		return false
	}
	c.out.printf("installing %s\n", strings.Join(names, " "))
	for _, args := range [][]string{{"update"}, append([]string{"install", "-y", "--no-install-recommends"}, names...)} {
		if err := c.command(ctx, ".", []string{"DEBIAN_FRONTEND=noninteractive"}, apt, args...).Run(); err != nil {
			c.out.printf("apt-get %s: %v\n", args[0], err)
			return false
		}
	}
	return true
}

// compiler reports whether there is a C compiler for the race detector. Root on Debian gets one.
func (c *check) compiler(ctx context.Context) bool {
	works := func() bool {
		cc, err := c.command(ctx, ".", nil, "go", "env", "CC").Output()
		if err != nil || len(strings.Fields(string(cc))) == 0 {
			return false
		}
		cmd := c.command(ctx, ".", nil, strings.Fields(string(cc))[0], "-E", "-")
		cmd.Stdin = strings.NewReader("#include <stdlib.h>\n")
		return cmd.Run() == nil
	}
	return works() || c.install(ctx, "gcc", "libc6-dev") && works()
}
