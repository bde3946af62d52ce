package host

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/unlisted"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
	"github.com/superstep-dev/superstep/runlog/seal"
)

// Place returns where runs are kept: the store of the settings, or a file in the data folder. Relative paths are relative to
// the folder to work in.
func (h *Host) Place() (runlog.Place, error) {
	switch {
	case len(h.cfg.Stores) == 0:
		return runlog.Place{Kind: "memory"}, nil
	case h.cfg.Store == "" && h.homeless():
		return runlog.Place{}, mistaken(errors.New("there is no home folder to keep runs in (HOME is not set)"), "set HOME, --data-dir or --store")
	case h.cfg.Store == "":
		return runlog.Place{Kind: "sqlite", Path: filepath.Join(h.DataDir(), h.cfg.Name+".db")}, nil
	}
	p, err := runlog.ParsePlace(h.cfg.Store)
	if err != nil {
		return p, mistake(h.cfg.Origin + ": " + err.Error())
	}
	if p.Path != "" {
		p.Path = h.Abs(p.Path)
	}
	if p.Kind == "file" && p.Path == h.DataDir() {
		return p, mistake(fmt.Sprintf("%s: %s is the data folder itself, which has other things in it; name a folder in it", h.cfg.Origin, p.Path))
	}
	return p, nil
}

// Kept reports whether runs are still there once the process has ended.
func (h *Host) Kept() bool {
	p, err := h.Place()
	return err == nil && p.Kind != "memory"
}

// Absent reports whether the store is a file that is not there yet.
func (h *Host) Absent() bool {
	p, err := h.Place()
	if err != nil || p.Path == "" {
		return false
	}
	_, err = os.Stat(p.Path)
	return errors.Is(err, fs.ErrNotExist)
}

// Store opens the store if it is not open. Everything written to it is redacted, and encrypted if a key is configured. A
// caller that only reads does not create a missing file. Only callers that also write receive the notices about the store.
func (h *Host) Store(ctx context.Context, look bool) (runlog.Store, error) {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	if h.all.store == nil {
		if err := h.openStore(ctx, look); err != nil {
			return nil, err
		}
	}
	if !look {
		for _, line := range h.all.notices {
			h.cfg.Warn(line)
		}
		h.all.notices = nil
	}
	return h.all.store, nil
}

func (h *Host) openStore(ctx context.Context, look bool) error {
	p, err := h.Place()
	if err != nil {
		return err
	}
	all := h.all
	if len(h.cfg.Stores) == 0 {
		all.store = runlog.NewMemory(nil)
		all.notices = append(all.notices, "runs are kept in memory: nothing survives this process (the program has no Stores)")
		return nil
	}
	if look && h.Absent() {
		all.store = runlog.NewMemory(nil)
		return nil
	}
	if p.Path != "" && !(look && p.Kind == "sqlite") { // which may be read where it cannot be written
		if err := writable(filepath.Dir(p.Path)); err != nil {
			return err
		}
	}
	if p.Secret() && h.cfg.Origin == "--store" {
		h.cfg.Warn("the password in --store can be seen by everyone on this machine; put the address into SUPERSTEP_STORE instead")
	}
	if all.keys, err = h.storeKeys(); err != nil {
		return err
	}
	i := slices.IndexFunc(h.cfg.Stores, func(d runlog.Driver) bool { return d.Kind == p.Kind })
	if i < 0 {
		return &Error{Code: "store", Message: fmt.Sprintf("this program has no stores of the kind %q", p.Kind)}
	}
	all.stores.Add(1)
	store, closer, err := h.cfg.Stores[i].Open(ctx, &runlog.OpenOptions{
		Place: p, StateDir: filepath.Join(h.DataDir(), "stores"), Look: look, Volatile: h.cfg.Volatile, Failpoint: h.cfg.Failpoint,
		Keys: all.keys, Environ: h.cfg.Environ,
		Notice: func(line string) { all.notices = append(all.notices, line) },
	})
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			return e
		}
		text := err.Error()
		if full, ok := errors.AsType[*runlog.StorageError](err); ok { // no run was begun or resumed yet
			text = fmt.Sprintf("store %s can take no more (%v); nothing was lost: see to that, then repeat the command", full.Store, full.Err)
		}
		return &Error{Code: "store", Message: text, Err: err}
	}
	all.store = unlisted.Visible(store, h.removeFolder) // the folder of a run is disk space, too
	all.closer, all.limits = closer, unlisted.NewLimits(store, time.Now)
	return nil
}

// writable creates a directory if needed, and checks that it can be written.
func writable(dir string) error {
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = tryWrite(dir, 0)
	}
	if err == nil {
		return nil
	}
	return &Error{
		Code: "data_dir", Err: err,
		Message: fmt.Sprintf("cannot write %s: %v; set --data-dir (or SUPERSTEP_DATA_DIR) to a folder that can be written, or --store to another place", dir, pathless(err)),
	}
}

// tryWrite writes a file of a size into a directory, and removes it.
func tryWrite(dir string, size int) error {
	f, err := os.CreateTemp(dir, ".write-*")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, size))
	return errors.Join(err, f.Close(), os.Remove(f.Name()))
}

// pathless returns the cause of an error about a path.
func pathless(err error) error {
	var path *os.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

// storeKeys returns the checked text of the store's keys, read from the key file or from SUPERSTEP_STORE_KEY.
func (h *Host) storeKeys() (string, error) {
	text, from, file := h.cfg.Env("SUPERSTEP_STORE_KEY"), "SUPERSTEP_STORE_KEY", h.cfg.KeyFile
	if file != "" {
		b, err := os.ReadFile(h.Abs(file))
		if err != nil {
			return "", mistake(fmt.Sprintf("--store-key-file: %v", err))
		}
		if info, err := os.Stat(h.Abs(file)); err == nil && info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
			h.all.notices = append(h.all.notices, fmt.Sprintf("others on this machine may read the key in %s; run `chmod 600 %s`", file, clean.Shell(file)))
		}
		text, from = string(b), file
	}
	keys, err := seal.ParseKeys(text)
	switch {
	case err != nil:
		return "", mistake(from + ": " + err.Error())
	case len(keys) > 0:
		return text, nil
	case file != "":
		return "", mistake(fmt.Sprintf("%s has no key; make one with `openssl rand -hex 32`", from))
	}
	return "", nil
}

// Sealed reports whether the store encrypts its data: a key is set.
func (h *Host) Sealed() bool {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	return h.all.keys != "" || h.cfg.KeyFile != "" || strings.TrimSpace(h.cfg.Env("SUPERSTEP_STORE_KEY")) != "" // those are read when it is opened
}

// Redactor returns what redacts that which is written elsewhere than to the store: the secrets of this process's environment,
// the password of the store, and its keys.
func (h *Host) Redactor() *redact.Redactor {
	h.all.mu.Lock()
	defer h.all.mu.Unlock()
	if h.all.redactor == nil {
		environ := append(slices.Clone(h.cfg.Environ), "STORE_KEY="+h.all.keys)
		if p, err := h.Place(); err == nil {
			environ = append(environ, "STORE_URL="+p.URL)
		}
		h.all.redactor = redact.New(redact.FromEnv(environ)...)
	}
	return h.all.redactor
}

// Folder returns the folder in which the files of a run are kept up to date while it executes. If the files are not kept, it
// returns "". An encrypted run has no such folder, because the files in it would not be encrypted. The second result redacts them.
func (h *Host) Folder(id string) (dir string, redactor *redact.Redactor) {
	if id == "" || !h.Kept() || h.Sealed() {
		return "", nil
	}
	return h.RunDir(id), h.Redactor()
}
