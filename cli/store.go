package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
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
		return p, usage(a.storeOrigin() + ": " + err.Error())
	}
	if p.Path != "" {
		p.Path = absolute(p.Path)
	}
	if p.Kind == "file" && p.Path == a.dataDir() {
		return p, usage(fmt.Sprintf("%s: %s is the data folder itself, which has other things in it; name a folder in it", a.storeOrigin(), p.Path))
	}
	return p, nil
}

// storeOrigin is where the name of the store comes from.
func (a *app) storeOrigin() string {
	if a.opt.Env("SUPERSTEP_STORE") == a.set.store {
		return "SUPERSTEP_STORE"
	}
	for _, s := range a.settings {
		if s.key == "store" && s.value == a.set.store {
			return fmt.Sprintf("%s:%d: store", a.configPath(), s.line)
		}
	}
	return "--store"
}

// storeName is the store for people.
func (a *app) storeName() string {
	p, err := a.place()
	if err != nil || a.opt.OpenStore == nil {
		return "memory"
	}
	return p.String()
}

// absent says, behind "no runs", that there is no store at all.
func (a *app) absent() string {
	if p, err := a.place(); err == nil && p.Path != "" && a.opt.OpenStore != nil {
		if _, err := os.Stat(p.Path); errors.Is(err, fs.ErrNotExist) {
			return ", which is not there yet"
		}
	}
	return ""
}

// open opens the store if it is not open. A file that is not there is not made by who
// only looks.
func (a *app) open(ctx context.Context, look bool) error {
	if a.store != nil {
		a.noticed(look)
		if !look {
			return a.refusePlain(ctx)
		}
		return nil
	}
	p, err := a.place()
	if err != nil {
		return err
	}
	if a.opt.OpenStore == nil {
		a.store = runlog.NewMemory(nil)
		a.notices = append(a.notices, "runs are kept in memory: nothing survives this process (the program has no OpenStore)")
		a.noticed(look)
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
	if p.Secret() && a.storeOrigin() == "--store" {
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
	if !look {
		return a.refusePlain(ctx)
	}
	return nil
}

// refusePlain refuses to write what everyone can read into a store that is sealed.
func (a *app) refusePlain(ctx context.Context) error {
	if len(a.keys) > 0 {
		return nil
	}
	newest, err := a.store.Runs(ctx, &runlog.Filter{Limit: 1})
	if err != nil {
		return err
	}
	for _, i := range newest {
		if key, ok := seal.Sealed(i); ok {
			return &Error{Exit: ExitUsage, Code: "sealed", Message: fmt.Sprintf("the runs in %s are sealed with key %s, and there is no key: what is written now would not be", a.storeName(), key), Next: a.remedies(&runlog.SealedError{})}
		}
	}
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
		if info, err := os.Stat(a.set.keyFile); err == nil && info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
			a.notices = append(a.notices, fmt.Sprintf("others on this machine may read the key in %s; run `chmod 600 %s`", a.set.keyFile, quote(a.set.keyFile)))
		}
		text, from = string(b), a.set.keyFile
	}
	for i, word := range strings.FieldsFunc(text, func(r rune) bool { return r == ',' || unicode.IsSpace(r) }) {
		k, err := seal.ParseKey(word)
		if err != nil {
			return nil, usage(fmt.Sprintf("key %d of %s: %v", i+1, from, err))
		}
		a.keys, a.keyWords = append(a.keys, k), append(a.keyWords, word)
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
