package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// grace is how long a command has to end when it is told to.
const grace = 5 * time.Second

// command returns a command of the check, in a process group of its own: when ctx ends, all of the group ends.
func (c *check) command(ctx context.Context, dir string, env []string, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, slices.Concat(c.env, env)
	group(cmd)
	cmd.WaitDelay = 2 * grace // for those that keep the pipes open
	return cmd
}

// run runs a command and writes what it says if it fails. What it said is returned as well.
func (c *check) run(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	var said bytes.Buffer
	cmd := c.command(ctx, dir, env, name, args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	err := cmd.Run()
	if err != nil {
		c.out.printf("%s", said.String())
		err = fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args[:min(len(args), 3)], " "), err)
	}
	return said.String(), err
}

// everywhere runs a command in each module, also after a failure in one.
func (c *check) everywhere(ctx context.Context, p *progress, name string, args ...string) error {
	var errs []error
	dirs := append([]string{"."}, apart()...)
	for i, dir := range dirs {
		p.at(i, len(dirs), "modules", "")
		if _, err := c.run(ctx, dir, nil, name, args...); err != nil {
			errs = append(errs, fmt.Errorf("in %s: %w", dir, err))
		}
	}
	return errors.Join(errs...)
}

// list returns the packages in a module's folder.
func (c *check) list(ctx context.Context, dir string, patterns ...string) ([]string, error) {
	cmd := c.command(ctx, dir, nil, "go", append([]string{"list"}, patterns...)...)
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w\n%s", err, said.String())
	}
	return strings.Fields(string(out)), nil
}

// stream runs a command, with what it writes to both of its outputs in the given writers.
func (c *check) stream(ctx context.Context, dir string, env []string, out, problems io.Writer, name string, args ...string) error {
	cmd := c.command(ctx, dir, env, name, args...)
	cmd.Stdout, cmd.Stderr = out, problems
	return cmd.Run()
}

// lines is a writer that calls a function for each line.
type lines struct {
	each func(string)
	part []byte
}

func (l *lines) Write(b []byte) (int, error) {
	l.part = append(l.part, b...)
	for {
		line, rest, ok := bytes.Cut(l.part, []byte("\n"))
		if !ok {
			return len(b), nil
		}
		l.each(string(line))
		l.part = rest
	}
}

// tool returns the path of the program of a package, PATH@VERSION, built once per version of it and of Go.
func (c *check) tool(ctx context.Context, pkg string) (string, error) {
	out, err := c.command(ctx, ".", nil, "go", "env", "GOVERSION").Output()
	if err != nil {
		return "", err
	}
	name, version, _ := strings.Cut(pkg, "@")
	dir := filepath.Join(cacheDir(), "tools", strings.TrimSpace(string(out)), version)
	program := filepath.Join(dir, filepath.Base(name))
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	c.out.printf("building %s, once per version of it and of Go\n", pkg)
	_, err = c.run(ctx, ".", []string{"GOBIN=" + dir, "GOFLAGS="}, "go", "install", pkg)
	return program, err
}

// cacheDir returns the folder of what the check keeps for the next time.
func cacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = os.TempDir()
	}
	return filepath.Join(dir, "superstep")
}
