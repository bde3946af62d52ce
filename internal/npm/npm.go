// Package npm provides published npm packages to tests: programs to run against, and collections to
// read. Everything is pinned by its digest, kept in the user's cache, and installed without running
// install scripts.
package npm

import (
	"bytes"
	"crypto/sha256"
	"crypto/sha512"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/gofrs/flock"

	"github.com/superstep-dev/superstep/internal/faults"
)

//go:embed package.json package-lock.json .npmrc
var locked embed.FS

// Node returns the path of node. Without one the test is skipped.
func Node(tb testing.TB) string {
	tb.Helper()
	return faults.Need(tb, faults.Node)
}

// Modules returns a folder node_modules with the packages of package.json beside this file: MCP
// servers, a fake server of models, zod, a plugin package. It is shared: write nothing into it.
func Modules(tb testing.TB) string {
	tb.Helper()
	lock, err := locked.ReadFile("package-lock.json")
	if err != nil {
		tb.Fatal(err)
	}
	sum := sha256.Sum256(lock)
	dir := once(tb, "modules-"+hex.EncodeToString(sum[:8]), func(dir string) error {
		for _, name := range []string{"package.json", "package-lock.json", ".npmrc"} {
			b, err := locked.ReadFile(name)
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				return err
			}
		}
		return run(tb, dir, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--omit=optional")
	})
	return filepath.Join(dir, "node_modules")
}

// Package returns the folder of one package, without what it depends on. The digest is the
// integrity that npm tells of it, "sha512-…". It is shared: write nothing into it.
func Package(tb testing.TB, spec, integrity string) string {
	tb.Helper()
	sum := sha256.Sum256([]byte(spec + integrity))
	dir := once(tb, "package-"+hex.EncodeToString(sum[:8]), func(dir string) error {
		if err := run(tb, dir, "pack", "--silent", spec); err != nil {
			return err
		}
		files, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
		if err != nil || len(files) != 1 {
			return fmt.Errorf("npm pack %s made %q (%w)", spec, files, err)
		}
		b, err := os.ReadFile(files[0])
		if err != nil {
			return err
		}
		digest := sha512.Sum512(b)
		if got := "sha512-" + base64.StdEncoding.EncodeToString(digest[:]); got != integrity {
			return fmt.Errorf("%s has the digest %s, want %s", spec, got, integrity)
		}
		out, err := exec.CommandContext(tb.Context(), "tar", "-xzf", files[0], "-C", dir).CombinedOutput()
		if err != nil {
			return fmt.Errorf("tar: %w\n%s", err, out)
		}
		return os.Remove(files[0])
	})
	return filepath.Join(dir, "package")
}

// once creates a folder of the cache if it is missing. Concurrent calls, even from other processes,
// are safe.
func once(tb testing.TB, name string, make func(dir string) error) string {
	tb.Helper()
	faults.Need(tb, faults.NPM)
	cache, err := os.UserCacheDir()
	if err != nil {
		tb.Fatal(err)
	}
	root := filepath.Join(cache, "superstep", "npm")
	if err := os.MkdirAll(root, 0o700); err != nil {
		tb.Fatal(err)
	}
	dir := filepath.Join(root, name)
	lock := flock.New(dir + ".lock")
	if err := lock.Lock(); err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = lock.Close() }() // nothing was written to it
	if _, err := os.Stat(dir); err == nil {
		return dir
	} else if !errors.Is(err, os.ErrNotExist) {
		tb.Fatal(err)
	}
	making := dir + ".making"
	if err := errors.Join(os.RemoveAll(making), os.Mkdir(making, 0o700)); err != nil {
		tb.Fatal(err)
	}
	if err := make(making); err != nil {
		tb.Fatal(err)
	}
	if err := os.Rename(making, dir); err != nil {
		tb.Fatal(err)
	}
	return dir
}

func run(tb testing.TB, dir string, args ...string) error {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), faults.Need(tb, faults.NPM), args...)
	cmd.Dir = dir
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("npm %v: %w\n%s", args, err, &out)
	}
	return nil
}
