// Package attack attacks the sandbox of this machine with a corpus of bypasses, against canaries in a temporary folder: single
// commands, two in a row, and three at once. After each the user's own Git works in the project.
package attack

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/internal/procgroup"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// A Case is commands that are run against the sandbox.
type Case struct {
	Name string
	Kind string   // "single", "pair" or "triple"
	Row  []string // scripts of bash that run one after the other
	At   []string // scripts that run at the same time as the last of them
}

// A Broken case is one in which the boundary did not hold.
type Broken struct {
	Case string `json:"case"`
	Why  string `json:"why"`
}

// A Report is what held.
type Report struct {
	Mode   sandbox.Mode   `json:"mode"`
	Held   map[string]int `json:"held"` // by kind
	Broken []Broken       `json:"broken,omitempty"`
}

// Cases returns the corpus: all singles, each pair of a change and an exploit, and triples of these with another change at
// the same time. Of pairs and triples it takes every nth, of all if n is 1.
func Cases(n int) []Case {
	var out []Case
	for _, s := range scripts("single") {
		out = append(out, Case{s.name, "single", []string{s.script}, nil})
	}
	all, i := scripts("change"), 0
	for a, change := range all {
		for b, exploit := range scripts("exploit") {
			if i++; i%n == 0 {
				out = append(out, Case{change.name + ", then " + exploit.name, "pair", []string{change.script, exploit.script}, nil})
			}
			beside := all[(a+b+1)%len(all)]
			if i%n == n/2 {
				out = append(out, Case{change.name + ", then " + exploit.name + " beside " + beside.name, "triple", []string{change.script, exploit.script}, []string{beside.script}})
			}
			if i%n == n/3 {
				out = append(out, Case{exploit.name + " beside " + change.name, "triple", []string{exploit.script}, []string{"sleep 0.02; " + change.script, beside.script}})
			}
		}
	}
	return append(out, races()...)
}

// Options of Run.
type Options struct {
	Mode    sandbox.Mode
	Temp    string   // where its folders are made; defaults to os.TempDir()
	Environ []string // of the user, for the toolchains and the user's Git
	Cases   []Case
	Workers int // cases at a time; defaults to 1
}

// Run runs cases by one mechanism. It changes nothing outside of its temporary folder. An error says that they could not be run.
func Run(ctx context.Context, opt *Options) (*Report, error) {
	base, err := os.MkdirTemp(opt.Temp, "superstep-attack-")
	if err != nil {
		return nil, err
	}
	defer removeAll(base)
	if base, err = filepath.EvalSymlinks(base); err != nil {
		return nil, err
	}
	l, err := listen(ctx)
	if err != nil {
		return nil, err
	}
	defer l.close()
	first := &world{dir: filepath.Join(base, "template"), ear: l, opt: opt}
	if err := first.make(ctx); err != nil {
		return nil, err
	}
	r := &Report{Mode: opt.Mode, Held: map[string]int{}}
	var mu sync.Mutex
	var work sync.WaitGroup
	var errs []error
	next := make(chan int)
	for range max(opt.Workers, 1) {
		work.Go(func() {
			for i := range next {
				c := opt.Cases[i]
				why, err := first.copyTo(filepath.Join(base, strconv.Itoa(i))).attack(ctx, &c)
				mu.Lock()
				switch {
				case err != nil:
					errs = append(errs, fmt.Errorf("%s: %w", c.Name, err))
				case why != "":
					r.Broken = append(r.Broken, Broken{c.Name, why})
				default:
					r.Held[c.Kind]++
				}
				mu.Unlock()
			}
		})
	}
	for i := range opt.Cases {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	work.Wait()
	return r, errors.Join(append(errs, context.Cause(ctx))...)
}

// An ear is a listener that counts who connects.
type ear struct {
	l    net.Listener
	done sync.WaitGroup
	mu   sync.Mutex
	n    int
}

func listen(ctx context.Context) (*ear, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &ear{l: l}
	e.done.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
			e.mu.Lock()
			e.n++
			e.mu.Unlock()
		}
	})
	return e, nil
}

func (e *ear) heard() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.n
}

func (e *ear) close() {
	_ = e.l.Close()
	e.done.Wait()
}

// A world is a folder with a project, a home folder and a folder of others, each with canaries.
type world struct {
	dir string
	ear *ear
	opt *Options
}

func (w *world) at(names ...string) string {
	return filepath.Join(append([]string{w.dir}, names...)...)
}

// zebra is in all secrets.
const zebra = "zebra-7788"

// make makes the first world.
func (w *world) make(ctx context.Context) error {
	for name, text := range map[string]string{
		"out/secret": zebra, "home/.ssh/id_rsa": zebra, "home/.bashrc": "# of the user\n", "project/.env": "KEY=" + zebra, "project/conf/.env": "KEY=" + zebra,
		"project/conf/deep/.env": "KEY=" + zebra, "project/key.pem": zebra, "project/.gitignore": ".env\n*.pem\n*.refused-*\n", "project/src/main.go": "package main\n",
		"project/hk": "#!/bin/sh\nunset LD_PRELOAD\necho ran >'" + "RAN" + "'\n", "project/sub/.vscode/tasks.json": "mine\n", "project/git.cfg": "", "project/tools/hooks/pre-push": "#!/bin/sh\nexit 0\n",
	} {
		if err := os.MkdirAll(filepath.Dir(w.at(name)), 0o755); err != nil { //nolint:gosec // as a user has it
			return err
		}
		if err := os.WriteFile(w.at(name), []byte(text), 0o755); err != nil { //nolint:gosec // some are programs
			return err
		}
	}
	for _, args := range [][]string{
		{"init", "-q", "-b", "main"}, {"config", "user.name", "ada"}, {"config", "user.email", "ada@example.org"}, {"config", "core.hooksPath", "tools/hooks"},
		{"config", "include.path", "../git.cfg"}, {"config", "http.https://example.org/.extraheader", "AUTHORIZATION: basic " + zebra}, {"config", "gc.auto", "0"},
		{"add", "-A"}, {"commit", "-qm", "one"},
	} {
		if out, err := w.git(ctx, "", args...); err != nil {
			return fmt.Errorf("git %s: %w: %s", args, err, out)
		}
	}
	return nil
}

// git runs the user's own Git.
func (w *world) git(ctx context.Context, dir string, args ...string) (string, error) {
	path, err := procgroup.Look(w.opt.Environ, "git")
	if err != nil {
		return "", err
	}
	c := exec.CommandContext(ctx, path, args...)
	c.Dir = w.at("project", dir)
	c.Env = append(slices.Clone(w.opt.Environ), "HOME="+w.at("home"), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_SYSTEM="+os.DevNull, "GIT_EDITOR=true", "GIT_TERMINAL_PROMPT=0", "RAN="+w.at("ran"))
	out, err := c.CombinedOutput()
	return string(out), err
}

// copyTo copies the world.
func (w *world) copyTo(dir string) *world { return &world{dir: dir, ear: w.ear, opt: w.opt} }

// attack runs a case in a new world, and returns how the boundary broke, "" if it held.
func (w *world) attack(ctx context.Context, c *Case) (why string, err error) {
	defer removeAll(w.dir)
	if err := os.CopyFS(w.dir, os.DirFS(filepath.Join(filepath.Dir(w.dir), "template"))); err != nil {
		return "", err
	}
	hook := "#!/bin/sh\nunset LD_PRELOAD\necho ran >'" + w.at("ran") + "'\n"
	if err := errors.Join(os.WriteFile(w.at("project/hk"), []byte(hook), 0o755), chmodPrograms(w.at("project"))); err != nil { //nolint:gosec // a program
		return "", err
	}
	outside, heard := w.canaries(), w.ear.heard()
	var said strings.Builder
	var closed error
	for i, script := range c.Row {
		s, err := w.sandbox()
		if err != nil {
			return "", err
		}
		scripts := []string{script}
		if i == len(c.Row)-1 {
			scripts = append(scripts, c.At...)
		}
		outs, errs := make([]string, len(scripts)), make([]error, len(scripts))
		var all sync.WaitGroup
		for k, script := range scripts {
			all.Go(func() { outs[k], errs[k] = w.command(ctx, s, script) })
		}
		all.Wait()
		for k := range scripts {
			said.WriteString(outs[k])
			if tool.Stops(errs[k]) {
				closed = errs[k]
			}
		}
		if err := s.Close(); err != nil {
			return "", err
		}
	}
	return w.judge(ctx, said.String(), outside, heard, closed), nil
}

// sandbox opens the sandbox as a process of Superstep does.
func (w *world) sandbox() (*sandbox.Sandbox, error) {
	root := w.at("project")
	p, err := permit.New(&permit.Options{Root: root, Home: w.at("home")})
	if err != nil {
		return nil, err
	}
	return sandbox.New(&sandbox.Options{
		Root: root, Home: w.at("home"), Environ: w.opt.Environ, Cache: w.at("cache"), Temp: w.opt.Temp, Mode: w.opt.Mode, Protect: p.Unwritable, Masks: p.Folders(),
		Hide: func(name string) bool {
			rel, err := filepath.Rel(root, name)
			return err == nil && p.Secret(filepath.ToSlash(rel)).Decision != tool.Allow
		},
	})
}

// command runs a command in the sandbox, and returns what it said.
func (w *world) command(ctx context.Context, s *sandbox.Sandbox, script string) (string, error) {
	bash, err := procgroup.Look(w.opt.Environ, "bash")
	if err != nil {
		return "", err
	}
	out, err := os.CreateTemp(w.opt.Temp, "superstep-attack-output-")
	if err != nil {
		return "", err
	}
	defer os.Remove(out.Name())
	defer out.Close()
	_, port, _ := net.SplitHostPort(w.ear.l.Addr().String())
	env := append(procgroup.Base(w.opt.Environ), "O="+w.at("out"), "H="+w.at("home"), "R="+w.at("project"), "T="+port)
	c := s.Command(ctx, env, bash, "--noprofile", "--norc", "-c", script)
	c.Dir, c.Stdout, c.Stderr = w.at("project"), out, out
	if err := c.Start(); err != nil {
		return "", err
	}
	err = c.Wait()
	text, rerr := os.ReadFile(out.Name())
	if rerr != nil {
		return "", rerr
	}
	return string(text), err
}

// judge has the user work on, and returns what must not be.
func (w *world) judge(ctx context.Context, said string, outside map[string]string, heard int, closed error) string {
	switch {
	case strings.Contains(said, zebra):
		return "a command read a secret"
	case w.ear.heard() != heard && w.opt.Workers <= 1:
		return "a command reached a port of this machine"
	}
	for name, was := range outside {
		if now := w.canaries()[name]; now != was {
			return name + " was changed"
		}
	}
	root := w.at("project")
	config, err := os.ReadFile(filepath.Join(root, ".git", "config"))
	if err != nil {
		allow(root) // what the user does who is told to
		config, err = os.ReadFile(filepath.Join(root, ".git", "config"))
	}
	if text := string(config); err != nil || !strings.Contains(text, "ada@example.org") || strings.Contains(text, "hk") {
		return "the configuration of the user's repository was changed or moved away"
	}
	allow(root)
	if b, err := os.ReadFile(filepath.Join(root, "sub", ".vscode", "tasks.json")); err != nil || string(b) != "mine\n" {
		return "the user's sub/.vscode/tasks.json was changed or moved away"
	}
	_ = os.WriteFile(filepath.Join(root, "work.txt"), []byte("more\n"), 0o600)
	for _, do := range [][]string{{"", "status"}, {"docs", "status"}, {"", "add", "work.txt"}, {"", "commit", "-qm", "two"}, {"", "rebase", "--continue"}, {"", "cherry-pick", "--continue"}, {"", "checkout", "-q", "-b", "other"}} {
		if _, err := os.Stat(w.at("project", do[0])); err == nil {
			_, _ = w.git(ctx, do[0], do[1:]...) // some fail
		}
	}
	if _, err := os.Lstat(w.at("ran")); err == nil {
		return "the user's Git ran a program of the command"
	}
	if closed != nil {
		return "" // and the user is told what to remove
	}
	return w.left(root)
}

// left returns which protected file a command has left in place, "" for none.
func (w *world) left(root string) (why string) {
	p, err := permit.New(&permit.Options{Root: root, Home: w.at("home")})
	if err != nil {
		return err.Error()
	}
	_ = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error { // what cannot be read is read by nobody else
		rel, _ := filepath.Rel(root, name)
		switch {
		case err != nil || name == root || why != "":
		case d.Name() == "node_modules" || d.Name() == ".git" || rel == "sub/.vscode":
			if d.IsDir() {
				return filepath.SkipDir
			}
		case p.Unwritable(name) && !slices.Contains([]string{"under/.vscode"}, rel):
			why = rel + " is protected, and a command left it in place"
		}
		return nil
	})
	return why
}

// canaries returns what must stay as it is outside of the project.
func (w *world) canaries() map[string]string {
	all := map[string]string{}
	for _, dir := range []string{"out", "home"} {
		_ = filepath.WalkDir(w.at(dir), func(name string, d fs.DirEntry, err error) error { // what is gone is missed
			if err != nil {
				return nil
			}
			rel, _ := filepath.Rel(w.dir, name)
			info, err := d.Info()
			if err != nil {
				return nil
			}
			text := info.Mode().String()
			if d.Type().IsRegular() {
				b, _ := os.ReadFile(name)
				text += string(b)
			} else if d.IsDir() {
				entries, _ := os.ReadDir(name)
				text += fmt.Sprint(len(entries))
			}
			all[rel] = text
			return nil
		})
	}
	return all
}

// chmodPrograms makes the programs of a copied project executable.
func chmodPrograms(root string) error {
	return errors.Join(os.Chmod(filepath.Join(root, "hk"), 0o755), os.Chmod(filepath.Join(root, "tools", "hooks", "pre-push"), 0o755)) //nolint:gosec // programs
}

// allow gives the user all rights on the folders of a tree.
func allow(dir string) {
	_ = os.Chmod(dir, 0o755) //nolint:gosec // a folder of the user
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if e.IsDir() {
			allow(filepath.Join(dir, e.Name()))
		}
	}
}

func removeAll(dir string) {
	if os.RemoveAll(dir) != nil {
		allow(dir)
		_ = os.RemoveAll(dir) // what is left is in the temporary folder
	}
}
