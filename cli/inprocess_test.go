package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/procgroup"
	"github.com/superstep-dev/superstep/runlog/stores"
)

// A hosted is a command that scripts call: its host and its options in an environment.
type hosted func(env func(string) string) (*host.Config, *Options)

// testProgram is the command with the workflows of flows_test.go.
func testProgram(env func(string) string) (*host.Config, *Options) {
	opt := &Options{Version: "1.2.3"}
	if d, err := time.ParseDuration(env("TEST_HEARTBEAT")); err == nil {
		opt.heartbeat = d
	}
	return testConfig(env), opt
}

// wholeProgram is the command of cmd/superstep.
func wholeProgram(func(string) string) (*host.Config, *Options) {
	return &host.Config{Name: "superstep", Stores: stores.All()}, &Options{Demo: true}
}

// calls are how a script calls commands: in this process, with its own folder, environment and streams.
type calls struct {
	env      *testscript.Env
	programs map[string]hosted // by the names that scripts call them by
	names    []string          // the variables that the script sets
}

var setsVariable = regexp.MustCompile(`(?m)^(?:\[[^]]*\] *)*env +(\w+)=`)

// callInProcess lets a script of a folder call programs in this process. What they leave behind fails it. With SUPERSTEP_TEST_PROCESSES,
// a seed, a tenth of the scripts calls them as processes, so that both remain alike.
func callInProcess(e *testscript.Env, dir string, programs map[string]hosted) error {
	e.Defer(func() { left(e) }) // the first to be deferred is the last to be called
	name := strings.TrimPrefix(filepath.Base(e.WorkDir), "script-")
	if seed := os.Getenv("SUPERSTEP_TEST_PROCESSES"); seed != "" {
		h := fnv.New32a()
		fmt.Fprint(h, seed, dir, name)
		if h.Sum32()%10 == 0 {
			return nil
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, name+".txtar"))
	c := &calls{env: e, programs: programs}
	for _, m := range setsVariable.FindAllSubmatch(text, -1) {
		c.names = append(c.names, string(m[1]))
	}
	e.Values[callsKey{}] = c
	return err
}

type callsKey struct{}

// call runs a command line and returns its exit code and output: in this process, or as a process of its own if its first word is exec or no program
// of the script.
func call(ts *testscript.TestScript, args []string) (code int, out string) {
	c, _ := ts.Value(callsKey{}).(*calls)
	if args[0] == "exec" {
		args, c = args[1:], nil
	}
	if c == nil || c.programs[args[0]] == nil {
		err := ts.Exec(args[0], args[1:]...)
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return exit.ExitCode(), ts.ReadFile("stdout")
		}
		ts.Check(err)
		return 0, ts.ReadFile("stdout")
	}
	var environ []string
	for _, v := range c.env.Vars {
		name, _, _ := strings.Cut(v, "=")
		c.names = append(c.names, name)
	}
	slices.Sort(c.names)
	c.names = slices.Compact(c.names)
	for _, name := range c.names {
		if v := ts.Getenv(name); v != "" {
			environ = append(environ, name+"="+v)
		}
	}
	var text strings.Builder
	code = runHere(context.Background(), c.programs[args[0]], c.env.WorkDir, ts.MkAbs("."), environ, io.MultiWriter(ts.Stdout(), &text), ts.Stderr(), args)
	return code, text.String()
}

// runHere runs a program in this process. Its goroutines have a label.
func runHere(ctx context.Context, p hosted, label, dir string, environ []string, out, errs io.Writer, args []string) (code int) {
	env := func(name string) string { v, _ := procgroup.Variable(environ, name); return v }
	cfg, opt := p(env)
	cfg.Env, cfg.Environ, cfg.Dir = env, environ, dir
	opt.Args, opt.Stdin, opt.Stdout, opt.Stderr = args[1:], strings.NewReader(""), out, errs
	if file, err := procgroup.Look(environ, args[0]); err == nil {
		opt.Program = file
	} else {
		opt.Program = args[0]
	}
	pprof.Do(ctx, pprof.Labels("script", label), func(ctx context.Context) { code = Run(ctx, cfg, opt) })
	return code
}

// left fails a script that leaves anything behind: goroutines, open files, processes or temporary files.
func left(e *testscript.Env) {
	tb, ok := e.T().(interface {
		Failed() bool
		Errorf(format string, args ...any)
	})
	if !ok || tb.Failed() {
		return
	}
	if t, ok := http.DefaultTransport.(*http.Transport); ok {
		t.CloseIdleConnections() // they live as long as a process
	}
	for what, find := range map[string]func(workDir string) string{"goroutines": goroutines, "open files": openFiles, "processes": processes, "temporary files": temporary} {
		found := find(e.WorkDir)
		for start := time.Now(); found != "" && time.Since(start) < 10*time.Second; found = find(e.WorkDir) { // some need a moment to end
			time.Sleep(20 * time.Millisecond)
		}
		if found != "" {
			tb.Errorf("%s are left: %s", what, found)
		}
	}
}

func goroutines(label string) string {
	var b strings.Builder
	_ = pprof.Lookup("goroutine").WriteTo(&b, 1) // a strings.Builder takes all
	var out []string
	for _, g := range strings.Split(b.String(), "\n\n") {
		if strings.Contains(g, fmt.Sprintf("%q:%q", "script", label)) {
			out = append(out, g)
		}
	}
	return strings.Join(out, "\n\n")
}

// openFiles returns the files of a folder that this process has open, "" also where the system does not say.
func openFiles(dir string) string {
	var out []string
	for _, file := range descriptors() {
		if strings.HasPrefix(file, dir+string(filepath.Separator)) {
			out = append(out, file)
		}
	}
	return strings.Join(out, " ")
}

// descriptors returns what the descriptors of this process stand for, on Linux.
func descriptors() (out []string) {
	all, _ := os.ReadDir("/proc/self/fd")
	for _, fd := range all {
		if to, err := os.Readlink("/proc/self/fd/" + fd.Name()); err == nil {
			out = append(out, to)
		}
	}
	return out
}

// streams returns the pipes and sockets of this process, on Linux.
func streams() []string {
	return slices.DeleteFunc(descriptors(), func(to string) bool { return !strings.HasPrefix(to, "pipe:") && !strings.HasPrefix(to, "socket:") })
}

// processes returns other processes whose environment names a folder, on Linux.
func processes(dir string) string {
	var out []string
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil && bytes.Contains(b, []byte("="+dir)) { // others are those of other users, or gone
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			out = append(out, string(bytes.ReplaceAll(line, []byte{0}, []byte(" "))))
		}
	}
	return strings.Join(out, "\n")
}

// children returns the processes that this one has started and has not waited for, on Linux.
func children() string {
	var out []string
	files, _ := filepath.Glob("/proc/self/task/*/children")
	for _, file := range files {
		if b, err := os.ReadFile(file); err == nil {
			out = append(out, strings.Fields(string(b))...)
		}
	}
	return strings.Join(out, " ")
}

// temporary returns what is in the folder for temporary files, but for the folders of sandboxes of other processes: scripts kill some,
// and the next sandbox removes these.
func temporary(dir string) string {
	var out []string
	found, _ := os.ReadDir(filepath.Join(dir, ".tmp"))
	for _, f := range found {
		const sandbox = "superstep-sandbox-"
		if !strings.HasPrefix(f.Name(), sandbox) || strings.HasPrefix(f.Name(), fmt.Sprintf("%s%d-", sandbox, os.Getpid())) {
			out = append(out, f.Name())
		}
	}
	return strings.Join(out, " ")
}

// That a command of this process leaves something is noticed.
func TestLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if found := goroutines(dir) + openFiles(dir) + temporary(dir); found != "" {
		t.Fatal("found " + found)
	}
	end := make(chan struct{})
	defer close(end)
	pprof.Do(t.Context(), pprof.Labels("script", dir), func(context.Context) { go func() { <-end }() })
	if err := os.MkdirAll(filepath.Join(dir, ".tmp", "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(filepath.Join(dir, "open"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if goroutines(dir) == "" {
		t.Error("a goroutine is not found")
	}
	if temporary(dir) == "" {
		t.Error("a temporary folder is not found")
	}
	if len(descriptors()) > 0 && openFiles(dir) == "" {
		t.Error("an open file is not found")
	}
}
