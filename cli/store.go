package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
	"github.com/superstep-dev/superstep/runlog/seal"
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
		a.noticed(look)
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
		Notice: func(line string) { a.notices = append(a.notices, line) },
	})
	if err == nil {
		if a.store, err = a.guarded(a.store); err != nil {
			err = errors.Join(err, a.closer.Close())
		}
	}
	if err != nil {
		a.store, a.closer = nil, nil
		var e *Error
		if errors.As(err, &e) {
			return e
		}
		return &Error{Exit: ExitFailed, Code: "store", Message: err.Error(), Err: err}
	}
	a.noticed(look)
	return nil
}

// noticed says once what is to be known of the store, to who does more than look.
func (a *app) noticed(look bool) {
	if look {
		return
	}
	for _, line := range a.notices {
		if !a.set.quiet {
			a.warn(line)
		}
	}
	a.notices = nil
}

// guarded has secrets taken out of what is written, and seals it if there is a key.
func (a *app) guarded(s runlog.Store) (runlog.Store, error) {
	text := a.opt.Env("SUPERSTEP_STORE_KEY")
	from := "SUPERSTEP_STORE_KEY"
	if a.set.keyFile != "" {
		b, err := os.ReadFile(a.set.keyFile)
		if err != nil {
			return nil, usage(fmt.Sprintf("--store-key-file: %v", err))
		}
		text, from = string(b), a.set.keyFile
	}
	for i, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		k, err := seal.ParseKey(word)
		if err != nil {
			return nil, usage(fmt.Sprintf("key %d of %s: %v", i+1, from, err))
		}
		a.keys = append(a.keys, k)
	}
	if len(a.keys) > 0 {
		var err error
		if s, err = seal.New(s, a.keys...); err != nil {
			return nil, err
		}
	} else if a.set.keyFile != "" {
		return nil, usage(fmt.Sprintf("%s has no key; make one with `openssl rand -hex 32`", from))
	}
	return redact.Store(s, a.redactor()), nil
}
