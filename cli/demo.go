package cli

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// demoFiles are the folder that the demo works in, and the turns of its model.
//
//go:embed demo
var demoFiles embed.FS

const (
	demoPatience = 5 * time.Second // of a question that nobody answers
	demoFast     = 0.04            // of the time that a person needs to follow
)

func (a *app) demoCommand() *cobra.Command {
	var fast, keep bool
	cmd := &cobra.Command{
		Use: "demo", Short: "See a run of five agents killed and resumed: no key, no network, half a minute", Args: a.none,
		Long: `See a run of five agents killed and resumed: no key, no network, half a minute

The models' turns are scripted. The rest is real: the engine, the run log, the tools, the questions, and the SIGKILL. It works in a
temporary folder that is removed at the end, and writes nowhere else.`,
		Example: examples(a.cfg.Name, "demo", "", "demo --fast", "in three seconds, and it answers itself", "demo --keep", "and look into the run afterwards"),
	}
	cmd.Flags().BoolVar(&fast, "fast", false, "do not wait for people")
	cmd.Flags().BoolVar(&keep, "keep", false, "keep the folder with the run")
	acts(cmd, "fast", "keep")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if a.programs() {
			return usage("demo shows a run to people; leave out -o " + a.set.output)
		}
		return a.demo(cmd.Context(), fast, keep)
	}
	return cmd
}

// demo is one showing of it.
type demo struct {
	a     *app
	dir   string // temporary; the run works in a folder of it
	pace  float64
	asks  bool // a person may answer
	pal   palette
	store runlog.Store
	id    string         // of the run
	run   transcript.Run // as far as its log has it
	pid   int            // of the process that was killed
}

// demo shows the run, kills it, resumes it, and leaves nothing behind.
func (a *app) demo(ctx context.Context, fast, keep bool) error {
	d := &demo{a: a, pace: 1, asks: a.asks() && !fast, pal: palette(a.term.errColor)}
	if fast {
		d.pace = demoFast
	}
	var err error
	if d.dir, err = os.MkdirTemp("", "superstep-demo-"); err != nil {
		return &Error{Exit: ExitFailed, Code: "demo", Message: fmt.Sprintf("cannot make a temporary folder: %v; set TMPDIR to one that can be written", err),
			Err: err}
	}
	ctx, done := a.stoppable(ctx, func() {})
	defer done()
	err = stopped(ctx, d.show(ctx))
	if err != nil && a.term.live {
		d.say("") // below what a killed process has left
	}
	if err == nil && keep {
		d.next(true)
		return nil
	}
	if gone := os.RemoveAll(d.dir); err != nil || gone != nil {
		return errors.Join(err, gone)
	}
	d.next(false)
	return nil
}

func (d *demo) show(ctx context.Context) (err error) {
	work, err := fs.Sub(demoFiles, "demo/files")
	if err == nil {
		err = os.CopyFS(d.work(), work)
	}
	// The second makes the folder a project of its own.
	if err := errors.Join(err, os.Mkdir(filepath.Join(d.dir, "tmp"), 0o700), os.Mkdir(filepath.Join(d.work(), ".superstep"), 0o700)); err != nil {
		return err
	}
	runs, err := host.Open(ctx, &host.Config{
		Name: d.a.cfg.Name, Stores: d.a.cfg.Stores, Env: d.a.cfg.Env, Environ: d.a.cfg.Environ, Settled: true, Settings: host.Settings{DataDir: d.dir},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, runs.Close()) }()
	if d.store, err = runs.Store(ctx, false); err != nil {
		return err
	}
	d.say(d.pal.bold("DEMO · no key, no network, no model is called"))
	d.say("What the agents say is scripted. The rest is real: engine, tools, questions, kill.")
	d.say("Five agents find out why checkout failed. Midway, SIGKILL; then the run resumes.")
	if d.asks {
		d.say(fmt.Sprintf("You are asked twice. Answer, or wait: after %s the demo answers by itself.", duration(demoPatience)))
	}
	if err := d.child(ctx, true, "run incident.yaml --model "+demoName, "--on-ask wait --answer audience=engineers"); err != nil {
		return err
	}
	var done []string
	for _, t := range d.run.Tasks {
		if t.Agent != "" && t.State == transcript.Done {
			done = append(done, t.Node)
		}
	}
	d.say("\n" + d.pal.bold(d.pal.red("✗ SIGKILL")) + fmt.Sprintf(" · process %d is gone; the agent database was in mid-sentence.", d.pid))
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

// proof says what the run log has, after it has looked whether it has anything twice.
func (d *demo) proof(ctx context.Context, finished int) error {
	counts, seen := map[string]int{}, map[string]bool{}
	for rec, err := range runlog.Records(ctx, d.store, d.id, 0) {
		var s runlog.Settled
		switch {
		case err != nil:
			return err
		case rec.Kind != runlog.KindSettled || json.Unmarshal(rec.Data, &s) != nil:
		case seen[identity(rec.Path, s.Key)]:
			return fmt.Errorf("the run log has %s of %s twice", s.Key, rec.Path)
		default:
			counts[s.Kind]++
			seen[identity(rec.Path, s.Key)] = true
		}
	}
	d.say(fmt.Sprintf("\n%s %d agents finished before the kill, %d after it. Each of the %d turns and\n"+
		"  %d tool calls is in the run log once; only the cut sentence was said again.", d.pal.green("✓"), finished, counts["agent"]-finished,
		counts["model"], counts["tool"]))
	return nil
}

// say says something to the person, above and below the commands.
func (d *demo) say(text string) {
	if d.a.term.errTTY {
		text = d.a.term.broken(text)
	}
	_, _ = d.a.err.Write([]byte(text + "\n"))
}

func (d *demo) work() string { return filepath.Join(d.dir, "incident") }

// wait lets a person read.
func (d *demo) wait(ctx context.Context, human time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(time.Duration(float64(human) * d.pace)):
		return nil
	}
}

// child runs a command of this binary in the folder of the demo, and kills it in the middle if it is to. Unless a person may
// answer, answers are given ahead.
func (d *demo) child(ctx context.Context, kill bool, line, answers string) error {
	exe, err := os.Executable()
	if err := errors.Join(err, d.wait(ctx, time.Second)); err != nil {
		return err
	}
	if !d.asks {
		line += " " + answers
	}
	d.say("\n" + d.pal.bold("$ "+d.a.cfg.Name+" "+line))
	cmd := exec.CommandContext(ctx, exe, strings.Fields(line)...) // killed when ctx ends
	cmd.Args[0] = os.Args[0]
	cmd.Dir, cmd.Env = d.work(), d.environ(kill)
	cmd.Stdout, cmd.Stderr = d.a.opt.Stdout, d.a.opt.Stderr
	if d.asks {
		cmd.Stdin = d.a.opt.Stdin
	}
	if fd, ok := isTerminal(cmd.Stdin); ok { // a process that is killed leaves it as it was
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
	err = <-watched
	exit, exited := errors.AsType[*exec.ExitError](ended)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case kill && err != nil:
		return fmt.Errorf("the run of the demo ended before it could be killed: %w", errors.Join(ended, err))
	case !kill && exited: // the command has said why
		return &Error{Exit: exit.ExitCode(), Code: "demo", Message: ended.Error(), shown: true}
	}
	return nil
}

// environ is the environment of the commands: nothing of the user's configuration, and all that they write is below the folder.
func (d *demo) environ(hold bool) []string {
	env := slices.DeleteFunc(slices.Clone(d.a.cfg.Environ), func(v string) bool { return strings.HasPrefix(v, "SUPERSTEP_") })
	for _, name := range strings.Fields("HOME USERPROFILE XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME XDG_STATE_HOME") {
		env = append(env, name+"="+filepath.Join(d.dir, "home"))
	}
	for _, name := range strings.Fields("TMPDIR TMP TEMP") {
		env = append(env, name+"="+filepath.Join(d.dir, "tmp"))
	}
	s := &d.a.set
	return append(env, fmt.Sprintf("%s=%g %t", demoEnv, d.pace, hold), "SUPERSTEP_DATA_DIR="+d.dir, "SUPERSTEP_OFFLINE=true", "SUPERSTEP_MODEL="+demoName,
		"SUPERSTEP_COLOR="+s.color, fmt.Sprintf("SUPERSTEP_NO_COLOR=%t", s.noColor), fmt.Sprintf("SUPERSTEP_PLAIN=%t", s.plain),
		fmt.Sprintf("SUPERSTEP_NO_BELL=%t", s.noBell))
}

// killMidway kills a process once its run has come to the held turn.
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
			time.Sleep(2 * frameTime) // the live view shows it
			return errors.Join(d.wait(ctx, 1500*time.Millisecond), p.Kill())
		}
	}
	return errors.New("it came to its end")
}

// midway reports whether all that can be done beside the held turn is done, and that turn has begun.
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

// next says what to type next.
func (d *demo) next(kept bool) {
	n := strings.TrimSpace(d.a.hint())
	if kept {
		at := " @last --data-dir " + quote(d.dir)
		d.say("\nThe run is in " + d.dir + ", which is yours to remove. Look into it:\n" + examples(n,
			"runs show"+at, "what every agent did", "runs replay"+at, "again from the log, equal to the byte"))
	} else {
		d.say("\nThe demo's folder is removed. To look into the run: " + n + " demo --keep")
	}
	d.say("Next, in an empty folder:\n" + examples(n,
		"init", "a recipe to begin with", "run hello --model offline", "run it, without a key", "models list", "which language models you can use"))
}

// demoAnswer answers a question of the demo that no person answers in time.
func (k *asker) demoAnswer(rec *runlog.Record) {
	var q runlog.Question
	if k.screen.env(demoEnv) == "" || json.Unmarshal(rec.Data, &q) != nil || len(q.Options) == 0 {
		return
	}
	k.ahead.Go(func() {
		select {
		case <-k.until.Done():
			return
		case <-time.After(demoPatience):
		}
		if answer, err := fit(&q, q.Options[0]); err == nil { // a question that was answered meanwhile refuses it
			_ = k.give(k.until, rec.Path, &runlog.Answer{Key: q.Key, Value: answer, By: "the demo"})
		}
	})
}
