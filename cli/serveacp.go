package cli

import (
	"context"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep"
	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/acpserve"
	"github.com/superstep-dev/superstep/internal/procgroup"
)

// serveACP serves an editor. Flags are those of the command that its runs have, too.
func serveACP(ctx context.Context, a *app, flags *pflag.FlagSet) error {
	switch {
	case procgroup.Inside(a.cfg.Environ):
		return &Error{Exit: ExitDenied, Code: superstep.CodeDenied, Message: errNested.Error(), Err: errNested}
	case !a.kept():
		return usage("--acp: this store keeps no runs, so no session could be loaded; choose another store")
	}
	ctx, done := a.stoppable(ctx, func() {})
	defer done()
	b := &terminalBackend{a: a, global: append(a.globalArgs(), a.absolute()...)}
	rules := a.runFlags(flags)
	var opened []*host.Host
	defer func() {
		for _, h := range opened {
			_ = h.Close() // nothing was written
		}
	}()
	err := acpserve.Serve(ctx, a.opt.Stdin, a.opt.Stdout, &acpserve.Options{
		Name: a.cfg.Name, Version: a.opt.Version,
		Engine: b.Engine,
		Open: func(dir string) (acpserve.Folder, error) { // by one caller at a time
			in := *a
			in.cfg.Dir = dir
			if in.open(); in.wrong != nil {
				return nil, in.wrong
			}
			opened = append(opened, in.opened)
			return &terminalBackend{a: &in, global: b.global, rules: rules, dir: dir}, nil
		},
	})
	if ctx.Err() != nil {
		return stopped(ctx, context.Cause(ctx))
	}
	return err
}

// absolute returns the global flags with paths that are relative to the folder of this process, for processes in other folders.
func (a *app) absolute() []string {
	out := []string{"--data-dir=" + a.host().DataDir()}
	if p, err := a.host().Place(); err == nil && p.Path != "" && a.set.store != "" {
		out = append(out, "--store="+p.String())
	}
	for flag, path := range map[string]string{"config": a.set.config, "store-key-file": a.set.keyFile} {
		if abs, err := filepath.Abs(path); err == nil && path != "" {
			out = append(out, "--"+flag+"="+abs)
		}
	}
	return out
}
