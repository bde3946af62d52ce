package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/internal/rundir"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/archive"
	"github.com/superstep-dev/superstep/runlog/redact"
	"github.com/superstep-dev/superstep/runlog/seal"
)

// exporting are the flags of `runs export`.
type exporting struct {
	file, dir  string
	unredacted bool
}

func (a storageCommands) exportCommand() *cobra.Command {
	var f exporting
	cmd := &cobra.Command{
		Use: "export ID", Short: "Write a run as one file of JSON Lines, or as a folder for people", Args: oneRun, ValidArgsFunction: a.ids,
		Long: `Write a run as one file of JSON Lines, or as a folder for people

Credentials are taken out of what is written. With --unredacted the file is the log as it is, which
can be imported elsewhere and replayed there.`,
		Example: examples(a.cfg.Name,
			"runs export @last > run.jsonl", "",
			"runs export 7f3a --file run.jsonl --unredacted", "as it is, to go on with it elsewhere",
			"runs export 7f3a --dir out", "run.json, agents, reports and logs"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.file != "" && f.dir != "" {
				return usage("runs export: --file or --dir, not both")
			}
			_, info, err := a.find(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.export(cmd.Context(), info, &f)
		},
	}
	cmd.Flags().StringVar(&f.file, "file", "", "write the log into this `file` (default: standard output)")
	cmd.Flags().StringVar(&f.dir, "dir", "", "write a folder for people into this `folder`")
	cmd.Flags().BoolVar(&f.unredacted, "unredacted", false, "take nothing out")
	acts(cmd, "file", "dir", "unredacted")
	return cmd
}

func (a storageCommands) export(ctx context.Context, info runlog.Info, f *exporting) error {
	r := a.host().Redactor()
	if f.dir != "" {
		err := rundir.Write(ctx, a.store, info.ID, f.dir, &rundir.Options{Redactor: r, Plain: f.unredacted, Log: true})
		if err != nil {
			return err
		}
		return a.wrote(info, f.dir)
	}
	if f.unredacted {
		r = nil
	}
	if f.file == "" {
		return archive.Export(ctx, a.store, info.ID, a.out, r)
	}
	if there, err := os.Lstat(f.file); err == nil && !there.Mode().IsRegular() {
		return a.exportInto(ctx, info, f.file, r)
	}
	t, err := os.CreateTemp(filepath.Dir(f.file), ".export-*")
	if err != nil {
		return usage(fmt.Sprintf("cannot write %s: %v", f.file, reason(err)))
	}
	defer func() { _ = os.Remove(t.Name()) }() // it is gone if all went well
	if err := errors.Join(archive.Export(ctx, a.store, info.ID, t, r), t.Sync(), t.Close()); err != nil {
		return err
	}
	if err := os.Rename(t.Name(), f.file); err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	return a.wrote(info, f.file)
}

// exportInto writes into what is there and is no plain file: a link, a pipe, a device.
func (a storageCommands) exportInto(ctx context.Context, info runlog.Info, path string, r *redact.Redactor) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return usage(fmt.Sprintf("cannot write %s: %v", path, reason(err)))
	}
	if err := errors.Join(archive.Export(ctx, a.store, info.ID, f, r), f.Close()); err != nil {
		return err
	}
	return a.wrote(info, path)
}

// wrote says where an export is.
func (a storageCommands) wrote(info runlog.Info, path string) error {
	if a.programs() {
		return a.out.value(map[string]string{"run": info.ID, "wrote": absolute(path)})
	}
	a.err.line("wrote " + near(absolute(path)))
	return nil
}

// reason is why something could not be done with a file, without the file.
func reason(err error) error {
	if path, ok := errors.AsType[*os.PathError](err); ok {
		return path.Err
	}
	return err
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

func (a storageCommands) importCommand() *cobra.Command {
	var as string
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Make a run of a file that was exported",
		Long: `Make a run of a file that was exported

No rights come with the file. The run works in this folder, under your rules and with your models, and it is marked
as imported. Before it is resumed, answered or forked you see what it would execute and decide whether to trust
it. What comes through a pipe is first copied into a temporary file.`,
		Example: examples(a.cfg.Name, "runs import run.jsonl", "", "runs import - --as 7f3a-again < run.jsonl", "under another ID"),
		Args:    nargs(1, 1, "runs import: name one file, - for standard input"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := a.opt.Stdin
			if args[0] == "-" && a.set.noInput {
				return usage("runs import: standard input is not read with --no-input; name a file")
			}
			if args[0] != "-" {
				f, err := os.Open(args[0])
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
			var err error
			if a.store, err = a.host().Store(cmd.Context(), false); err != nil {
				return err
			}
			file, done, err := twice(in)
			if err != nil {
				return usage(fmt.Sprintf("cannot read the file: %v", err))
			}
			defer done()
			info, err := archive.Import(cmd.Context(), a.store, file, &archive.ImportOptions{ID: as, Dir: a.host().Dir()})
			switch {
			case errors.As(err, new(*archive.FormatError)):
				return &Error{Exit: ExitUsage, Code: "format", Message: args[0] + ": " + err.Error(), Err: err}
			case errors.Is(err, runlog.ErrExists):
				return &Error{Exit: ExitUsage, Code: "exists", Message: err.Error(), Err: err,
					Next: []string{a.hint("runs", "import", quote(args[0]), "--as", "ANOTHER-ID")}}
			case err != nil:
				return err
			}
			im, err := a.origin(cmd.Context(), info.ID)
			if err != nil {
				return err
			}
			if a.programs() {
				return a.out.value(infoOf(&info, "", im))
			}
			a.err.line(fmt.Sprintf("run %s is imported, %s, with %s", info.ID, info.Status, plural(int(info.Head), "record")))
			if im != nil && !im.Trusted && !info.Status.Ended() {
				a.err.line("  Before it continues   " + a.hint("runs", "trust", info.ID))
			}
			a.out.line(info.ID)
			return nil
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "the `ID` of the new run (default: the one in the file)")
	acts(cmd, "as")
	return cmd
}

// folders are those of runs, for people and other tools.
type folders struct{ *app }

// upToDate brings the folder of a run up to date that nobody runs, such as one whose process was killed, and returns it.
func (a folders) upToDate(ctx context.Context, info *runlog.Info) string {
	dir, opt := a.host().Folder(info.ID)
	if _, sealed := seal.Sealed(*info); dir == "" || sealed {
		return ""
	}
	if info.Status != runlog.Running {
		if err := rundir.Write(ctx, a.store, info.ID, dir, opt); err != nil {
			a.late(info.ID, err)
		}
	}
	return dir
}

// late says that the folder of a run is not up to date.
func (a folders) late(id string, err error) {
	if err != nil {
		a.warn(fmt.Sprintf("the folder of run %s is not up to date: %v", id, err))
	}
}

// sweep removes the folder of a run that was removed.
func (a folders) sweep(id string) {
	if runlog.CheckID(id) != nil {
		return
	}
	for _, name := range []string{"results", "work"} { // what agents had there; see project.Options
		if err := os.RemoveAll(filepath.Join(a.host().RunDir(id), name)); err != nil {
			a.warn(fmt.Sprintf("the folder of run %s is still there: %v", id, err))
		}
	}
	if err := rundir.Remove(a.host().RunDir(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.warn(fmt.Sprintf("the folder of run %s is still there: %v", id, err))
	}
}
