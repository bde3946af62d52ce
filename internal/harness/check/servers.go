package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A server is a program of others that tests start.
type server struct {
	names   []string // of which one is enough; with a slash it is a pattern of paths
	debian  string   // the packages that have it
	skipped string   // what is skipped without
}

func servers() []server {
	return []server{
		{[]string{"/usr/lib/postgresql/*/bin/postgres", "postgres"}, "postgresql", "runlog/postgres, and the crashes and the hosts on Postgres"},
		{[]string{"redis-server"}, "redis-server", "runlog/redis, and the crashes and the hosts on Redis"},
		{[]string{"node"}, "nodejs", "scripts of workflows, and agents of others that are programs of Node"},
		{[]string{"npm"}, "npm", "the servers of others that npm installs"},
		{[]string{"chromium-headless-shell"}, "chromium-headless-shell", "pictures and the console in a browser"},
	}
}

// servers says which servers there are not, and what is skipped for it. Root on Debian gets them first.
func (c *check) servers(ctx context.Context) {
	missing := absent()
	if len(missing) > 0 && os.Getuid() == 0 {
		var names []string
		for _, s := range missing {
			names = append(names, s.debian)
		}
		c.install(ctx, names...)
		missing = absent()
	}
	for _, s := range missing {
		c.out.printf("SKIPPED without %s (Debian: apt-get install %s): %s\n", s.names[len(s.names)-1], s.debian, s.skipped)
	}
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

// absent returns the servers that are not there.
func absent() (missing []server) {
	for _, s := range servers() {
		found := false
		for _, name := range s.names {
			if strings.Contains(name, "/") {
				paths, _ := filepath.Glob(name)
				found = found || len(paths) > 0
			} else if _, err := exec.LookPath(name); err == nil {
				found = true
			}
		}
		if !found {
			missing = append(missing, s)
		}
	}
	return missing
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
