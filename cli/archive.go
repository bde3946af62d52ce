package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/archive"
	"github.com/superstep-dev/superstep/runlog/redact"
	"github.com/superstep-dev/superstep/transcript/rundir"
)

// exporting are the flags of `runs export`.
type exporting struct {
	file, dir  string
	unredacted bool
}

func (a *app) exportCommand() *cobra.Command {
	var f exporting
	cmd := &cobra.Command{
		Use: "export ID", Short: "Write a run as one file of JSON Lines, or as a folder for people", Args: a.one, ValidArgsFunction: a.ids,
		Long: `Write a run as one file of JSON Lines, or as a folder for people

Credentials are taken out of what is written. With --unredacted the file is the log as it is, which
can be imported elsewhere and replayed there.`,
		Example: examples(a.opt.Name,
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

func (a *app) export(ctx context.Context, info runlog.Info, f *exporting) error {
	r := a.redactor()
	if f.dir != "" {
		err := rundir.Write(ctx, a.store, info.ID, f.dir, &rundir.Options{Redactor: r, Plain: f.unredacted, Log: true})
		if err != nil {
			return err
		}
		return a.wrote(info, f.dir)
	}
	opt := &archive.ExportOptions{Redactor: r}
	if f.unredacted {
		opt = nil
	}
	if f.file == "" {
		return archive.Export(ctx, a.store, info.ID, a.out, opt)
	}
	if there, err := os.Lstat(f.file); err == nil && !there.Mode().IsRegular() {
		return a.exportInto(ctx, info, f.file, opt)
	}
	t, err := os.CreateTemp(filepath.Dir(f.file), ".export-*")
	if err != nil {
		return usage(fmt.Sprintf("cannot write %s: %v", f.file, reason(err)))
	}
	defer func() { _ = os.Remove(t.Name()) }() // it is gone if all went well
	if err := errors.Join(archive.Export(ctx, a.store, info.ID, t, opt), t.Sync(), t.Close()); err != nil {
		return err
	}
	if err := os.Rename(t.Name(), f.file); err != nil {
		return fmt.Errorf("writing the export: %w", err)
	}
	return a.wrote(info, f.file)
}

// exportInto writes into what is there and is no plain file: a link, a pipe, a device.
func (a *app) exportInto(ctx context.Context, info runlog.Info, path string, opt *archive.ExportOptions) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		return usage(fmt.Sprintf("cannot write %s: %v", path, reason(err)))
	}
	if err := errors.Join(archive.Export(ctx, a.store, info.ID, f, opt), f.Close()); err != nil {
		return err
	}
	return a.wrote(info, path)
}

// wrote says where an export is.
func (a *app) wrote(info runlog.Info, path string) error {
	if a.programs() {
		return a.out.json(map[string]string{"run": info.ID, "wrote": absolute(path)}, a.set.output == "json")
	}
	a.err.line("wrote " + near(absolute(path)))
	return nil
}

// reason is why something could not be done with a file, without the file.
func reason(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
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

func (a *app) importCommand() *cobra.Command {
	var as string
	cmd := &cobra.Command{
		Use: "import FILE", Short: "Make a run of a file that was exported",
		Example: examples(a.opt.Name, "runs import run.jsonl", "", "runs import - --as 7f3a-again < run.jsonl", "under another ID"),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return usage("runs import: name one file, - for standard input")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			in := a.opt.Stdin
			if args[0] != "-" {
				f, err := os.Open(args[0])
				if err != nil {
					return usage(fmt.Sprintf("cannot read the file: %v", err))
				}
				defer func() { _ = f.Close() }()
				in = f
			}
			if as != "" && runlog.CheckID(as) != nil {
				return usage("--as: " + runlog.CheckID(as).Error())
			}
			if err := a.open(cmd.Context(), false); err != nil {
				return err
			}
			info, err := archive.Import(cmd.Context(), a.store, in, &archive.ImportOptions{ID: as})
			var format *archive.FormatError
			switch {
			case errors.As(err, &format):
				return &Error{Exit: ExitUsage, Code: "format", Message: args[0] + ": " + err.Error(), Err: err}
			case errors.Is(err, runlog.ErrExists):
				return &Error{Exit: ExitUsage, Code: "exists", Message: err.Error(), Err: err, Next: []string{a.hint("runs", "import", quote(args[0]), "--as", "ANOTHER-ID")}}
			case err != nil:
				return err
			}
			if a.programs() {
				return a.out.json(infoOf(&info, ""), a.set.output == "json")
			}
			a.err.line(fmt.Sprintf("run %s is here, %s, with %s", info.ID, info.Status, plural(int(info.Head), "record")))
			a.out.line(info.ID)
			return nil
		},
	}
	cmd.Flags().StringVar(&as, "as", "", "the `ID` of the new run (default: the one in the file)")
	acts(cmd, "as")
	return cmd
}

// redactor takes the secrets of this process's environment out of what is written, the
// password of the store, and the keys.
func (a *app) redactor() *redact.Redactor {
	if a.redacting == nil {
		secrets := redact.FromEnv(a.opt.Environ())
		if p, err := a.place(); err == nil {
			secrets = append(secrets, redact.FromEnv([]string{"STORE_URL=" + p.URL})...)
		}
		for _, k := range a.keys {
			secrets = append(secrets, redact.Secret{Name: "STORE_KEY", Value: k.Encode()})
		}
		for _, word := range a.keyWords {
			secrets = append(secrets, redact.Secret{Name: "STORE_KEY", Value: word})
		}
		a.redacting = redact.New(secrets...)
	}
	return a.redacting
}

// runDir is the folder of a run for people and other tools. Each store has its own.
func (a *app) runDir(id string) string {
	dir := a.dataDir()
	if p, err := a.place(); err == nil && a.set.store != "" {
		sum := sha256.Sum256([]byte(p.String()))
		dir = filepath.Join(dir, "stores", p.Kind+"-"+hex.EncodeToString(sum[:6]))
	}
	return filepath.Join(dir, "runs", id)
}

// leave brings the folder of a run up to date after an execution. A sealed run has none:
// what is in it would not be sealed.
func (a *app) leave(ctx context.Context, id string) {
	if a.opt.OpenStore == nil || len(a.keys) > 0 || id == "" {
		return
	}
	if p, err := a.place(); err != nil || p.Kind == "memory" {
		return
	}
	if err := rundir.Write(context.WithoutCancel(ctx), a.store, id, a.runDir(id), &rundir.Options{Redactor: a.redactor()}); err != nil {
		a.warn(fmt.Sprintf("the folder of run %s is not up to date: %v", id, err))
	}
}

// sweep removes the folder of a run that was removed.
func (a *app) sweep(id string) {
	if runlog.CheckID(id) != nil {
		return
	}
	for _, name := range []string{"results", "work"} { // what agents had there; see projectOptions
		if err := os.RemoveAll(filepath.Join(a.runDir(id), name)); err != nil {
			a.warn(fmt.Sprintf("the folder of run %s is still there: %v", id, err))
		}
	}
	if err := rundir.Remove(a.runDir(id)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		a.warn(fmt.Sprintf("the folder of run %s is still there: %v", id, err))
	}
}
