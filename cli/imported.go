package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/transcript"
	"github.com/superstep-dev/superstep/runlog"
)

// origin returns the mark of a run, nil if it was not imported.
func (a *app) origin(ctx context.Context, id string) (*host.Origin, error) {
	im, err := runlog.Origin(ctx, a.store, id)
	if err != nil || im == nil {
		return nil, err
	}
	return a.host().Origin(im)
}

// untrusted is the error of a command that would continue an imported run.
func (a *app) untrusted(id string) *Error {
	return &Error{
		Exit: ExitDenied, Code: "untrusted", Err: &superstep.UntrustedError{ID: id}, Message: (&superstep.UntrustedError{ID: id}).Error(),
		Next: []string{"see what it would execute, and decide: " + a.hint("runs", "trust", id),
			"trust it without being asked: " + a.hint("runs", "trust", id, "--yes")},
	}
}

// vouch returns an error unless a run may be continued: one that was imported is shown to the
// user, who is asked whether to trust it.
func (a *app) vouch(ctx context.Context, info runlog.Info) error {
	o, err := a.origin(ctx, info.ID)
	if err != nil || o == nil || o.Trusted {
		return err
	}
	if !a.asks() {
		return a.untrusted(info.ID)
	}
	return a.askTrust(ctx, info, o)
}

// askTrust shows what an imported run would execute, and asks whether to trust it.
func (a *app) askTrust(ctx context.Context, info runlog.Info, o *host.Origin) error {
	b, err := a.host().Claims(ctx, &info, o)
	if err != nil {
		return err
	}
	for _, l := range claimLines(b, a.set.verbose, a.hint("runs", "trust", info.ID, "-v")) {
		a.err.line(l)
	}
	_ = a.in.fresh(ctx) // what was typed before this is shown is no answer
	fmt.Fprint(a.err, "\nTrust it? What it executes runs with your rights, under your rules. [y/N] ")
	line, ok := a.in.line(ctx)
	if answer := strings.ToLower(strings.TrimSpace(line)); !ok || answer != "y" && answer != "yes" {
		a.err.line("nothing was changed")
		return &Error{Exit: ExitDenied, Code: "untrusted", Message: "not trusted", shown: true}
	}
	return a.host().TrustRun(o, true)
}

func (a *app) trustRunCommand() *cobra.Command {
	var yes, revoke bool
	cmd := &cobra.Command{
		Use: "trust ID", Short: "Show what an imported run would execute, and decide whether to trust it", Args: oneRun, ValidArgsFunction: a.ids,
		Long: `Show what an imported run would execute, and decide whether to trust it

An imported run is not resumed, answered or forked before you trust it. It works in the folder in which you imported
it, under your rules and with your models. What you trust is the content of the file, in that folder: a file with one
other byte, and the same file in another folder, is shown to you again.`,
		Example: examples(a.cfg.Name, "runs trust @last", "see it, and be asked", "runs trust 7f3a --yes", "without being asked",
			"runs trust 7f3a -o json", "all of it, for programs", "runs trust 7f3a --revoke", ""),
	}
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "trust it without being asked")
	cmd.Flags().BoolVar(&revoke, "revoke", false, "trust it no longer")
	acts(cmd, "yes", "revoke")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if yes && revoke {
			return usage("runs trust: --yes or --revoke, not both")
		}
		ctx := cmd.Context()
		_, info, err := a.find(ctx, args[0])
		if err != nil {
			return err
		}
		o, err := a.origin(ctx, info.ID)
		if err != nil {
			return err
		}
		if o == nil {
			return usage(fmt.Sprintf("run %s was not imported: there is nothing to decide", info.ID))
		}
		return a.decideRun(ctx, info, o, yes, revoke)
	}
	return cmd
}

func (a *app) decideRun(ctx context.Context, info runlog.Info, o *host.Origin, yes, revoke bool) error {
	if revoke {
		err := a.host().TrustRun(o, false)
		if err == nil {
			a.note("run " + info.ID + " is not trusted")
		}
		return err
	}
	if !o.Trusted && !yes && a.asks() {
		if err := a.askTrust(ctx, info, o); err != nil {
			return err
		}
		a.note("run " + info.ID + " is trusted")
		return nil
	}
	b, err := a.host().Claims(ctx, &info, o)
	if err != nil {
		return err
	}
	if yes && !o.Trusted {
		if err := a.host().TrustRun(o, true); err != nil {
			return err
		}
		b.Trusted = true
	}
	switch {
	case a.programs():
		if err := a.out.json(b, a.set.output == "json"); err != nil {
			return err
		}
	case !yes:
		for _, l := range claimLines(b, a.set.verbose, a.hint("runs", "trust", info.ID, "-v")) {
			a.out.line(l)
		}
	}
	if !b.Trusted {
		e := a.untrusted(info.ID)
		e.Exit, e.shown = ExitPaused, a.programs() // who reads "trusted" there
		return e
	}
	a.note("run " + info.ID + " is trusted")
	return nil
}

// claimLines are claims for people. Unless all is wanted, long parts are cut, and say so.
func claimLines(b *host.Claims, all bool, more string) []string {
	var out []string
	put := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	list := func(label string, values []string) {
		if len(values) > 0 {
			put("  %-10s %s", label, transcript.Line(strings.Join(values, ", ")))
		}
	}
	block := func(text string, most int) {
		lines := strings.Split(strings.TrimRight(transcript.Clean(text), "\n"), "\n")
		rest := len(lines) - most
		if !all && rest > 0 {
			lines = lines[:most]
		}
		for _, l := range lines {
			if !all {
				l = ansi.Truncate(l, 400, "… (cut: "+more+")")
			}
			put("    %s", l)
		}
		if !all && rest > 0 {
			put("    … %s: %s", plural(rest, "more line"), more)
		}
	}
	put("run %s  %s  imported %s, sha256 %s", b.Run, transcript.Line(b.Workflow), b.Time.Local().Format(time.DateTime), strings.TrimPrefix(b.Digest, "sha256:"))
	put("  works in   %s, under your rules and with your models", transcript.Line(b.Dir))
	list("not used", b.Dropped)
	limits := "none, as the file says"
	if b.Budget != nil {
		if raw, err := json.Marshal(b.Budget); err == nil {
			limits = string(raw) + ", as the file says"
		}
	}
	list("limits", []string{limits})
	list("tools", b.Tools)
	list("agents", b.Agents)
	list("workflows", b.Calls)
	list("made of", b.Parts)
	for _, f := range b.Recipes {
		put("\nrecipe %s:", transcript.Line(f.Name))
		block(f.Text, mostShown)
	}
	if len(b.Inputs) > 0 && string(b.Inputs) != "{}" {
		put("\ninputs:")
		text, err := prettyJSON(b.Inputs)
		if err != nil {
			text = string(b.Inputs)
		}
		block(text, mostShown/3)
	}
	claims := func(head string, claims []host.Claim) {
		if len(claims) == 0 {
			return
		}
		var lines []string
		for _, c := range claims {
			l := transcript.Line(strings.TrimSpace(c.Task + ": " + c.What + " " + c.With))
			if c.Outcome != "" {
				l += " -> " + transcript.Line(c.Outcome)
			}
			if all && c.Result != "" {
				l += ": " + transcript.Line(c.Result)
			}
			lines = append(lines, l)
		}
		put("\n%s", head)
		block(strings.Join(lines, "\n"), mostShown/3)
	}
	claims("effects, as the file claims (their outcomes are used and not checked):", b.Effects)
	claims("answers, as the file claims (none of them permits anything here):", b.Answers)
	claims("open questions:", b.Questions)
	return out
}

// twice is a file that can be read twice: r itself, or a copy of what comes through a pipe.
func twice(r io.Reader) (_ io.ReadSeeker, done func(), err error) {
	if s, ok := r.(io.ReadSeeker); ok {
		if _, err := s.Seek(0, io.SeekCurrent); err == nil {
			return s, func() {}, nil
		}
	}
	f, err := os.CreateTemp("", "import-*")
	if err != nil {
		return nil, nil, err
	}
	done = func() { _ = errors.Join(f.Close(), os.Remove(f.Name())) } // it is a copy
	if _, err = io.Copy(f, r); err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return f, done, nil
}
