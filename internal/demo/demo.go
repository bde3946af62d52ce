// Package demo shows a run of five agents that is killed and resumed. It starts commands of this
// program with a scripted model, and kills one of them. It writes only below a temporary folder.
package demo

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/internal/tui"
	"github.com/superstep-dev/superstep/runlog"
)

// files are the folder that the demo works in, and the turns of its model.
//
//go:embed demo
var files embed.FS

// Patience is how long a question waits before the demo answers it.
const Patience = 5 * time.Second

const fast = 0.04 // of the time that a person needs to follow

// Options are the settings of a demo.
type Options struct {
	Host     *host.Config  // the program's; its name, stores and environment are used
	Program  string        // its file, which the commands are started from
	Screen   *tui.Screen   // to say on what happens
	Settings *tui.Settings // of the commands that are started
	Stdin    io.Reader     // theirs, if a person may answer
	Stdout   io.Writer
	Stderr   io.Writer // and that of what the demo says itself
	Fast     bool      // wait for nobody
	Keep     bool      // keep the folder
	Ralph    bool      // show the workflow ralph in place of the agents that are killed
}

// An ExitError is the error of a command that failed and has printed why.
type ExitError struct{ Exit int }

func (e *ExitError) Error() string { return fmt.Sprintf("exit status %d", e.Exit) }

// demo is one demonstration.
type demo struct {
	*Options
	dir   string // temporary; the run works in a folder of it
	pace  float64
	asks  bool // a person may answer
	pal   tui.Palette
	store runlog.Store
	id    string         // of the run
	run   transcript.Run // as far as its log has it
	pid   int            // of the process that was killed
}

// Show starts a run, kills it and resumes it. It returns the ID of the run and the folder if that is kept; otherwise it
// removes everything.
func Show(ctx context.Context, opt *Options) (kept, run string, err error) {
	d := &demo{Options: opt, pace: 1, asks: opt.Screen.Asks() && !opt.Fast, pal: opt.Screen.Err}
	if opt.Fast {
		d.pace = fast
	}
	if d.dir, err = os.MkdirTemp(opt.Host.Env("TMPDIR"), "superstep-demo-"); err != nil {
		return "", "", &host.Error{Code: "demo", Message: fmt.Sprintf("cannot make a temporary folder: %v; set TMPDIR to one that can be written", err), Err: err}
	}
	if opt.Ralph {
		err = d.showRalph(ctx)
	} else {
		err = d.show(ctx)
	}
	if err != nil && opt.Screen.Live {
		d.say("") // below what a killed process has left
	}
	if err == nil && opt.Keep {
		return d.dir, d.id, nil
	}
	return "", "", errors.Join(err, os.RemoveAll(d.dir))
}

func (d *demo) show(ctx context.Context) (err error) {
	work, err := fs.Sub(files, "demo/files")
	if err == nil {
		err = os.CopyFS(d.work(), work)
	}
	// The second one makes the folder a separate project.
	if err := errors.Join(err, os.Mkdir(filepath.Join(d.dir, "tmp"), 0o700), os.Mkdir(filepath.Join(d.work(), ".superstep"), 0o700)); err != nil {
		return err
	}
	c := d.Host
	runs, err := host.Open(ctx, &host.Config{
		Name: c.Name, Stores: c.Stores, Env: c.Env, Environ: c.Environ, Settled: true, Settings: host.Settings{DataDir: d.dir},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runs.Close()) }()
	if d.store, err = runs.Store(ctx, false); err != nil {
		return err
	}
	d.say(d.pal.Bold("DEMO · no key, no network, no model is called"))
	d.say("What the agents say is scripted. The rest is real: engine, tools, questions, kill.")
	d.say("Five agents find out why checkout failed. Midway, SIGKILL; then the run resumes.")
	if d.asks {
		d.say(fmt.Sprintf("You are asked twice. Answer, or wait: after %s the demo answers by itself.", inwords.Duration(Patience)))
	}
	if err := d.child(ctx, true, "run incident.yaml --model "+Name, "--on-ask wait --answer audience=engineers"); err != nil {
		return err
	}
	var done []string
	for _, t := range d.run.Tasks {
		if t.Agent != "" && t.State == transcript.Done {
			done = append(done, t.Node)
		}
	}
	d.say("\n" + d.pal.Bold(d.pal.Red("✗ SIGKILL")) + fmt.Sprintf(" · process %d is gone; the agent database was in mid-sentence.", d.pid))
	d.say(fmt.Sprintf("  The run log has: %s finished (%d of 5 agents), one tool call\n  of database, the answer %q. None of that is done or asked again.",
		strings.Join(done, ", "), len(done), d.run.Questions[0].Answer))
	if err := d.wait(ctx, 3*time.Second); err != nil {
		return err
	}
	if err := d.child(ctx, false, "runs resume @last", "--answer report=once"); err != nil {
		return err
	}
	return d.proof(ctx, len(done))
}

// proof checks that the run log has no duplicates, and returns its content.
func (d *demo) proof(ctx context.Context, finished int) error {
	counts, seen := map[string]int{}, map[[2]string]bool{}
	for rec, err := range runlog.Records(ctx, d.store, d.id, 0) {
		var s runlog.Settled
		switch {
		case err != nil:
			return err
		case rec.Kind != runlog.KindSettled || json.Unmarshal(rec.Data, &s) != nil:
		case seen[[2]string{rec.Path, s.Key}]:
			return fmt.Errorf("the run log has %s of %s twice", s.Key, rec.Path)
		default:
			counts[s.Kind]++
			seen[[2]string{rec.Path, s.Key}] = true
		}
	}
	d.say(fmt.Sprintf("\n%s %d agents finished before the kill, %d after it. Each of the %d turns and\n"+
		"  %d tool calls is in the run log once; only the cut sentence was said again.", d.pal.Green("✓"), finished, counts["agent"]-finished,
		counts["model"], counts["tool"]))
	return nil
}

// say prints an explanation above or below a command.
func (d *demo) say(text string) {
	fmt.Fprintln(d.Stderr, d.Screen.Wrap(text))
}

func (d *demo) work() string {
	if d.Ralph {
		return filepath.Join(d.dir, "greet")
	}
	return filepath.Join(d.dir, "incident")
}

// showRalph has Ralph work on a small repository.
func (d *demo) showRalph(ctx context.Context) error {
	work, err := fs.Sub(files, "demo/ralph")
	if err == nil {
		err = os.CopyFS(d.work(), work)
	}
	check := filepath.Join(d.work(), "check.sh")
	if err := errors.Join(err, os.Chmod(check, 0o755), os.Mkdir(filepath.Join(d.dir, "tmp"), 0o700), os.Mkdir(filepath.Join(d.dir, "home"), 0o700)); err != nil {
		return err
	}
	d.say(d.pal.Bold("DEMO · no key, no network, no model is called"))
	d.say("What the agents say is scripted. The rest is real: git, worktrees, the check, the merges.")
	d.say("Ralph reads spec.md, plans three tasks, and works until two reviews find nothing.")
	git := func(out io.Writer, args ...string) error {
		cmd := exec.CommandContext(ctx, "git", args...)
		cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = d.work(), d.environment(false), out, d.Stderr
		return cmd.Run()
	}
	for _, args := range []string{"init -q -b main", "config user.name Demo", "config user.email demo@example.org", "add .", "commit -q -m greet"} {
		if err := git(nil, strings.Fields(args)...); err != nil {
			return &host.Error{Code: "demo", Message: fmt.Sprintf("git %s failed: %v; Ralph needs git 2.38 or later", args, err), Err: err}
		}
	}
	d.asks = false // nothing is asked
	if err := d.child(ctx, false, "run ralph spec.md --check ./check.sh --model "+Name, "--yes"); err != nil {
		return err
	}
	d.say("\n" + d.pal.Bold("$ git log --graph --oneline --all"))
	return git(d.Stdout, "log", "--graph", "--oneline", "--all")
}

// wait pauses to let the user read.
func (d *demo) wait(ctx context.Context, human time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Duration(float64(human) * d.pace)):
		return nil
	}
}

// child runs a command of this binary in the folder of the demo, and kills it midway if asked to.
// If no user can answer, the answers are passed in advance.
func (d *demo) child(ctx context.Context, kill bool, line, answers string) error {
	if err := d.wait(ctx, time.Second); err != nil {
		return err
	}
	if !d.asks {
		line += " " + answers
	}
	d.say("\n" + d.pal.Bold("$ "+d.Host.Name+" "+line))
	cmd := exec.CommandContext(ctx, d.Program, strings.Fields(line)...) // killed when ctx ends
	cmd.Args[0] = d.Host.Name
	cmd.Dir, cmd.Env = d.work(), d.environment(kill)
	cmd.Stdout, cmd.Stderr = d.Stdout, d.Stderr
	if d.asks {
		cmd.Stdin = d.Stdin
	}
	if f, ok := cmd.Stdin.(*os.File); ok { // a process that is killed leaves a terminal as it was
		fd := int(f.Fd())
		if was, err := term.GetState(fd); err == nil {
			defer func() { _ = term.Restore(fd, was) }()
		}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	d.pid = cmd.Process.Pid
	watching, stop := context.WithCancel(ctx)
	watched := make(chan error, 1)
	if kill {
		go func() { watched <- d.killMidway(watching, cmd.Process) }()
	} else {
		watched <- nil
	}
	ended := cmd.Wait()
	stop()
	err := <-watched
	exit, exited := errors.AsType[*exec.ExitError](ended)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case kill && err != nil:
		return fmt.Errorf("the run of the demo ended before it could be killed: %w", errors.Join(ended, err))
	case !kill && exited: // the command has said why
		return &ExitError{exit.ExitCode()}
	}
	return nil
}

// environment returns the environment of the commands: they see none of the user's configuration,
// and write only below the folder.
func (d *demo) environment(hold bool) []string {
	env := slices.DeleteFunc(slices.Clone(d.Host.Environ), func(v string) bool { return strings.HasPrefix(v, "SUPERSTEP_") })
	for _, name := range strings.Fields("HOME USERPROFILE XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME XDG_STATE_HOME") {
		env = append(env, name+"="+filepath.Join(d.dir, "home"))
	}
	for _, name := range strings.Fields("TMPDIR TMP TEMP") {
		env = append(env, name+"="+filepath.Join(d.dir, "tmp"))
	}
	s := d.Settings
	return append(env, fmt.Sprintf("%s=%g %t", environ, d.pace, hold), "SUPERSTEP_DATA_DIR="+d.dir, "SUPERSTEP_OFFLINE=true", "SUPERSTEP_MODEL="+Name,
		"SUPERSTEP_COLOR="+s.Color, fmt.Sprintf("SUPERSTEP_NO_COLOR=%t", s.NoColor), fmt.Sprintf("SUPERSTEP_PLAIN=%t", s.Plain),
		fmt.Sprintf("SUPERSTEP_NO_BELL=%t", s.NoBell))
}

// killMidway kills a process once its run has reached the held turn.
func (d *demo) killMidway(ctx context.Context, p *os.Process) error {
	for d.id == "" {
		infos, err := d.store.Runs(ctx, nil)
		if err := errors.Join(err, d.wait(ctx, 50*time.Millisecond)); err != nil {
			return err
		}
		if len(infos) > 0 {
			d.id = infos[0].ID
		}
	}
	for rec, err := range runlog.Follow(ctx, d.store, d.id, 0) {
		if err != nil {
			return err
		}
		if d.run.Apply(rec); d.midway() {
			time.Sleep(200 * time.Millisecond) // the live view shows it
			return errors.Join(d.wait(ctx, 1500*time.Millisecond), p.Kill())
		}
	}
	return errors.New("it came to its end")
}

// midway reports whether the held turn has begun and everything else that can run beside it is
// done.
func (d *demo) midway() bool {
	held := false
	for _, t := range d.run.Tasks {
		switch {
		case t.Node == "database":
			held = t.Tools > 0
		case !t.Ended():
			return false
		}
	}
	return held && len(d.run.Questions) > 0 && len(d.run.Open()) == 0
}
