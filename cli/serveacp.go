package cli

import (
	"context"

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
	b := &terminalBackend{a: a, global: append(a.globalArgs(), a.fixFolders()...)}
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
			return &terminalBackend{a: &in, global: b.global, rules: rules}, nil
		},
	})
	if ctx.Err() != nil {
		return stopped(ctx, context.Cause(ctx))
	}
	return err
}

// fixFolders makes the paths of the global flags absolute, for work in other folders, and returns these flags for other processes.
func (a *app) fixFolders() []string {
	s, h := &a.set, a.host()
	out := []string{"--data-dir=" + h.DataDir()}
	if p, err := h.Place(); err == nil && p.Path != "" && s.store != "" {
		s.store = p.String()
		out = append(out, "--store="+s.store)
	}
	if s.dataDir != "" {
		s.dataDir = h.DataDir()
	}
	for flag, path := range map[string]*string{"config": &s.config, "store-key-file": &s.keyFile} {
		if *path != "" {
			*path = h.Abs(*path)
			out = append(out, "--"+flag+"="+*path)
		}
	}
	return out
}
