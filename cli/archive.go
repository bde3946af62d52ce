package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/archive"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/inwords"
	"github.com/superstep-dev/superstep/runlog"
)

func runsExport(a *app) *cobra.Command {
	f := host.ExportOptions{Out: a.out}
	var otlp string
	var asCase bool
	cmd := &cobra.Command{
		Use: "export ID", Short: "Export a run as JSON Lines, as a folder to read, or as a case", ValidArgsFunction: a.ids,
		Long: `Export a run as JSON Lines, as a folder to read, or as a case

Credentials are taken out of what is written. With --unredacted the file is the log as it is, which
can be imported elsewhere and replayed there.`,
		Example: examples(a.cfg.Name,
			"runs export @last > run.jsonl", "",
			"runs export 7f3a --file run.jsonl --unredacted", "as it is, to go on with it elsewhere",
			"runs export 7f3a --dir out", "run.json, agents, reports and logs",
			"runs export 7f3a --case --file brief.eval.yaml", "add a case for eval, with its inputs and its output",
			"runs export 7f3a --otlp", "its spans, to OTEL_EXPORTER_OTLP_ENDPOINT"),
		RunE: a.onRun(func(ctx context.Context, _ *superstep.Engine, info runlog.Info, args []string) error {
			if len(args) > 1 {
				otlp = args[1]
			}
			if f.File != "" && f.Dir != "" {
				return usage("runs export: --file or --dir, not both")
			}
			if otlp != "" {
				return a.sendSpans(ctx, info.ID, otlp, f.File != "" || f.Dir != "")
			}
			if asCase {
				if f.Dir != "" || f.Unredacted {
					return usage("runs export: --case goes with --file alone")
				}
				return a.exportCase(ctx, &info, f.File)
			}
			wrote := cmp.Or(f.Dir, f.File)
			if err := a.host().Export(ctx, info.ID, &f); err != nil || wrote == "" {
				return err
			}
			return a.tell(map[string]string{"run": info.ID, "wrote": a.host().Abs(wrote)}, "wrote "+a.near(a.host().Abs(wrote)))
		}),
	}
	cmd.Flags().StringVar(&f.File, "file", "", "write the log into this `file` (default: standard output)")
	cmd.Flags().StringVar(&f.Dir, "dir", "", "write a folder for people into this `folder`")
	cmd.Flags().BoolVar(&f.Unredacted, "unredacted", false, "take nothing out")
	cmd.Flags().BoolVar(&asCase, "case", false, "write a case for eval; with --file, add it to the cases there")
	cmd.Flags().StringVar(&otlp, "otlp", "", "send the spans of the run to a collector, by `url`; none for the one of the environment")
	cmd.Flags().Lookup("otlp").NoOptDefVal = environment
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if otlp == environment && len(args) == 2 { // the address is a word of its own
			return nil
		}
		return oneRun(cmd, args)
	}
	return cmd
}

// environment stands for the collector that the environment names.
const environment = "environment"

func (a *app) sendSpans(ctx context.Context, id, to string, files bool) error {
	switch {
	case files:
		return usage("runs export: --otlp writes no file; leave --file and --dir out")
	case to == environment:
		to = ""
	}
	n, err := a.host().SendSpans(ctx, id, to)
	if err != nil {
		return &Error{Exit: ExitFailed, Code: "telemetry", Err: err, Message: err.Error()}
	}
	return a.tell(map[string]any{"run": id, "spans": n}, "sent "+inwords.Plural(n, "span"))
}

func runsImport(a *app) *cobra.Command {
	var as string
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Import a run from an exported file",
		Long: `Import a run from an exported file

No rights come with the file. The run works in this folder, under your rules and with your models, and it is marked
as imported. Before it is resumed, answered or forked you see what it would execute and decide whether to trust
it. What comes through a pipe is first copied into a temporary file.`,
		Example: examples(a.cfg.Name, "runs import run.jsonl", "", "runs import - --as 7f3a-again < run.jsonl", "under another ID"),
		Args:    nargs(1, 1, "runs import: name one file, - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := a.opt.Stdin
			if args[0] == "-" && a.set.NoInput {
				return usage("runs import: standard input is not read with --no-input; name a file")
			}
			if args[0] != "-" {
				f, err := os.Open(a.host().Abs(args[0]))
				if err != nil {
					return usage(fmt.Sprintf("cannot read the file: %v", err))
				}
				if info, err := f.Stat(); err == nil && info.IsDir() {
					return errors.Join(usage(args[0]+" is a directory; name a file that `runs export` wrote"), f.Close())
				}
				defer func() { _ = f.Close() }()
				in = f
			}
			if as != "" && runlog.CheckID(as) != nil {
				return usage("--as: " + runlog.CheckID(as).Error())
			}
			info, err := a.host().Import(cmd.Context(), in, as)
			switch {
			case errors.As(err, new(*archive.FormatError)):
				return &Error{Exit: ExitUsage, Code: "format", Message: args[0] + ": " + err.Error(), Err: err}
			case errors.Is(err, runlog.ErrExists):
				return &Error{Exit: ExitUsage, Code: "exists", Message: err.Error(), Err: err,
					Next: []string{a.hint("runs", "import", clean.Shell(args[0]), "--as", "ANOTHER-ID")}}
			case err != nil:
				return err
			}
			im, err := a.host().OriginOf(cmd.Context(), info.ID)
			if err != nil {
				return err
			}
			if a.programs() {
				return a.out.value(host.NewRunItem(&info, nil, im))
			}
			a.err.line(fmt.Sprintf("run %s is imported, %s, with %s", info.ID, info.Status, inwords.Plural(int(info.Head), "record")))
			if im != nil && !im.Trusted && !info.Status.Ended() {
				a.err.line("  Before it continues   " + a.hint("runs", "trust", info.ID))
			}
			a.out.line(info.ID)
			return nil
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "the `ID` of the new run (default: the one in the file)")
	return cmd
}

// upToDate updates the files in the folder of a run and returns the folder, "" if there is none.
func upToDate(ctx context.Context, a *app, info *runlog.Info) string {
	dir, err := a.host().UpdateFolder(ctx, info)
	warnLate(a, info.ID, err)
	return dir
}

// warnLate records that the folder of a run is not up to date.
func warnLate(a *app, id string, err error) {
	if err != nil {
		a.tty.Warn(fmt.Sprintf("the folder of run %s is not up to date: %v", id, err))
	}
}
