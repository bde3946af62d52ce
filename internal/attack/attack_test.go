//go:build linux && (amd64 || arm64)

package attack_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/attack"
	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/tool/sandbox"
)

// environ is the environment of the user in tests.
func environ(home string) []string {
	return []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
}

func run(t *testing.T, mode sandbox.Mode, cases []attack.Case) *attack.Report {
	t.Helper()
	temp := t.TempDir()
	r, err := attack.Run(t.Context(), &attack.Options{Mode: mode, Temp: temp, Environ: environ(temp), Cases: cases, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// The corpus gets nowhere, as an ordinary user: a sample of it, or all of it for ./check attack.
func TestCorpus(t *testing.T) {
	faults.Unraced(t) // the detector looks at the same code in tool/sandbox
	if os.Getuid() == 0 {
		asSomebody(t)
	}
	every := 29
	switch {
	case os.Getenv("SUPERSTEP_ATTACK") == "all":
		every = 1
	case testing.Short():
		every = 97
	}
	for _, mode := range []sandbox.Mode{sandbox.Namespaces, sandbox.Landlock} {
		t.Run(string(mode), func(t *testing.T) {
			s, err := sandbox.New(&sandbox.Options{Mode: mode, Temp: t.TempDir()})
			if err != nil {
				t.Skipf("SKIPPED: this system cannot confine commands so: %v", err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			r := run(t, mode, attack.Cases(every))
			for _, b := range r.Broken {
				t.Errorf("%s: %s", b.Case, b.Why)
			}
			t.Logf("held: %v", r.Held)
		})
	}
}

// Without a sandbox most of the single commands get out, or they prove nothing.
func TestControl(t *testing.T) {
	if os.Getuid() == 0 {
		return // TestCorpus runs it as somebody else: root would mount
	}
	single := slices.DeleteFunc(attack.Cases(1000), func(c attack.Case) bool { return c.Kind != "single" })
	r := run(t, sandbox.None, single)
	if len(r.Broken)*5 < len(single)*3 {
		t.Errorf("%d of %d got out: %v", len(r.Broken), len(single), r.Broken)
	}
}

func TestNumber(t *testing.T) {
	if n := 2 * len(attack.Cases(1)); n < 3000 {
		t.Errorf("%d combinations by both mechanisms, want 3,000", n)
	}
}

// asSomebody runs the tests again as an ordinary user.
func asSomebody(t *testing.T) {
	t.Helper()
	dir, err := os.MkdirTemp("", "attack-unprivileged-") //nolint:usetesting // that is below folders that are closed to others
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(dir+"/test", self, 0o755), os.Mkdir(dir+"/tmp", 0o755), os.Chmod(dir+"/tmp", 0o1777), os.Chmod(dir, 0o755)); err != nil { //nolint:gosec // for others
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Hour)
	defer cancel()
	args := []string{"-test.v", "-test.timeout", "3h"}
	if testing.Short() {
		args = append(args, "-test.short")
	}
	c := exec.CommandContext(ctx, filepath.Join(dir, "test"), args...)
	c.Dir, c.SysProcAttr = dir, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	c.Env = append(environ(dir+"/tmp"), "TMPDIR="+dir+"/tmp", "SUPERSTEP_ATTACK="+os.Getenv("SUPERSTEP_ATTACK"))
	out, err := c.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "PASS: TestControl") {
		t.Errorf("as an ordinary user: %v: %s", err, out)
	} else if testing.Verbose() {
		t.Log(string(out))
	}
}
