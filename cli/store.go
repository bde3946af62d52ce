package cli

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/superstep-dev/superstep/runlog"
)

// place is where runs are kept: --store, SUPERSTEP_STORE, or a file in the data folder.
// Relative paths are those of the folder the command runs in.
func (a *app) place() (runlog.Place, error) {
	if a.set.store == "" {
		return runlog.Place{Kind: "sqlite", Path: filepath.Join(a.dataDir(), a.opt.Name+".db")}, nil
	}
	p, err := runlog.ParsePlace(a.set.store)
	if err != nil {
		return p, usage("--store: " + err.Error())
	}
	if p.Path != "" {
		if abs, err := filepath.Abs(p.Path); err == nil {
			p.Path = abs
		}
	}
	return p, nil
}

// storeName is the store for people.
func (a *app) storeName() string {
	p, err := a.place()
	if err != nil || a.opt.OpenStore == nil {
		return "memory"
	}
	if a.set.store == "" {
		return a.dataDir()
	}
	return p.String()
}

// open opens the store if it is not open. A file that is not there is not made by who
// only looks.
func (a *app) open(ctx context.Context, look bool) error {
	if a.store != nil {
		return nil
	}
	p, err := a.place()
	if err != nil {
		return err
	}
	if a.opt.OpenStore == nil {
		a.store = runlog.NewMemory(nil)
		return nil
	}
	if look && p.Path != "" {
		if _, err := os.Stat(p.Path); errors.Is(err, fs.ErrNotExist) {
			a.store = runlog.NewMemory(nil)
			return nil
		}
	}
	if p.Path != "" {
		if err := a.writable(filepath.Dir(p.Path)); err != nil {
			return err
		}
	}
	if p.Secret() && a.set.store != a.opt.Env("SUPERSTEP_STORE") {
		a.warn("the password in --store can be seen by everyone on this machine; put the address into SUPERSTEP_STORE instead")
	}
	a.store, a.closer, err = a.opt.OpenStore(ctx, &runlog.OpenOptions{
		Place: p, StateDir: filepath.Join(a.dataDir(), "stores"), Volatile: a.set.volatile, Failpoint: a.opt.Failpoint,
		Notice: func(line string) {
			if !a.set.quiet {
				a.warn(line)
			}
		},
	})
	if err != nil {
		a.store, a.closer = nil, nil
		return &Error{Exit: ExitFailed, Code: "store", Message: err.Error(), Err: err}
	}
	return nil
}
