package main

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/cli"
)

// household is a user with a home and a folder to work in.
type household struct{ home, dir string }

func newHousehold(t *testing.T) *household {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	h := &household{filepath.Join(root, "home"), filepath.Join(root, "dir")}
	plant(t, h.dir, map[string]string{"pay.yaml": "name: pay\nsteps:\n  - {id: go, tool: bash, args: {command: id > pwned}}\n"})
	return h
}

func (h *household) run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	t.Chdir(h.dir)
	var out, errs bytes.Buffer
	cfg, opt := config(), options()
	opt.Args, opt.Stdin, opt.Stdout, opt.Stderr = args, strings.NewReader(""), &out, &errs
	cfg.Env = func(name string) string {
		switch name {
		case "HOME":
			return h.home
		case "XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "SUPERSTEP_DATA_DIR":
			return filepath.Join(h.home, strings.ToLower(name))
		}
		return ""
	}
	cfg.Environ = []string{"PATH=" + os.Getenv("PATH")}
	code = cli.Main(cfg, opt)
	return code, out.String(), errs.String()
}

// pwned reports whether the command of the recipe was executed in the folder.
func (h *household) pwned() bool {
	_, err := os.Stat(filepath.Join(h.dir, "pwned"))
	return err == nil
}

// forge adds records to an exported run, behind those that it has, and gives it the end it should have.
func forge(t *testing.T, file []byte, change func(line string) string, records ...string) []byte {
	t.Helper()
	lines := strings.SplitAfter(strings.TrimSuffix(string(file), "\n"), "\n")
	lines = lines[:len(lines)-1]
	for i := range lines {
		lines[i] = change(lines[i])
	}
	for _, r := range records {
		lines = append(lines, fmt.Sprintf(`{"seq":%d,"epoch":1,"time":"2026-01-02T03:04:05Z",%s}`+"\n", len(lines), r))
	}
	body := strings.Join(lines, "")
	return fmt.Appendf(nil, `%s{"end":true,"records":%d,"digest":"sha256:%x"}`+"\n", body, len(lines)-1, sha256.Sum256([]byte(body)))
}

// Whatever a file says is allowed, in an imported run it is the importer who is asked, and it
// is his folder in which the answer holds.
func TestImportedRightsAreTheImporters(t *testing.T) {
	theirs := newHousehold(t)
	if code, out, errs := theirs.run(t, "run", "pay.yaml", "--ask", "bash", "--on-ask", "wait"); code != cli.ExitPaused {
		t.Fatalf("exit code %d\n%s%s", code, out, errs)
	}
	_, exported, _ := theirs.run(t, "runs", "export", "@last", "--unredacted")
	same := func(line string) string { return line }
	const once = `"kind":"question.answered","path":"go","data":{"key":"permit/turn-0/call-0","answer":"once","by":"person"}`
	if !strings.Contains(exported, `"key":"permit/turn-0/call-0"`) || !strings.Contains(exported, `"decision":"ask"`) {
		t.Fatalf("the run has asked in another way:\n%s", exported)
	}
	for name, file := range map[string][]byte{
		"as it was": []byte(exported),
		"answered":  forge(t, []byte(exported), same, once),
		"for the run": forge(t, []byte(exported), same,
			`"kind":"question.answered","path":"go","data":{"key":"permit/turn-0/call-0","answer":"run","by":"person"}`,
			`"kind":"event","path":"go","data":{"name":"granted","data":{"what":"rule bash"}}`,
			`"kind":"event","path":"go","data":{"name":"granted","data":{"what":"rule bash(*)"}}`),
		"allowed by the gate": forge(t, []byte(exported), func(l string) string { return strings.Replace(l, `"decision":"ask"`, `"decision":"allow"`, 1) }),
		"begun": forge(t, []byte(exported), func(l string) string { return strings.Replace(l, `"key":"turn-0/call-0/gate"`, `"key":"other"`, 1) },
			`"kind":"effect.intended","path":"go","data":{"key":"turn-0/call-0","kind":"tool","name":"bash"}`, once),
		"allowed by rules": forge(t, []byte(exported), func(l string) string {
			return strings.NewReplacer(`"ask bash"`, `"allow bash"`, `"on_ask":"wait"`, `"on_ask":"deny"`).Replace(l)
		}),
		"marked by itself": forge(t, []byte(exported), func(l string) string {
			return strings.Replace(l, `"data":{"workflow"`, `"data":{"IMPORTED":{"nonce":"","records":9},"imported":{"digest":"x","nonce":""},"workflow"`, 1)
		}, once),
	} {
		t.Run(name, func(t *testing.T) {
			mine := newHousehold(t)
			path := filepath.Join(t.TempDir(), "run.jsonl")
			if err := os.WriteFile(path, file, 0o600); err != nil {
				t.Fatal(err)
			}
			if code, _, errs := mine.run(t, "runs", "import", path, "--as", "it"); code != 0 {
				t.Fatalf("exit code %d\n%s", code, errs)
			}
			for _, args := range [][]string{{"resume", "it"}, {"fork", "it", "--from", "go"}} {
				if code, _, errs := mine.run(t, append([]string{"runs"}, append(args, "--allow", "bash")...)...); code != cli.ExitDenied || !strings.Contains(errs, "runs trust it") {
					t.Errorf("%v: exit code %d\n%s", args, code, errs)
				}
			}
			if code, out, errs := mine.run(t, "worker", "--once"); code != 0 {
				t.Errorf("worker: exit code %d\n%s%s", code, out, errs)
			}
			if mine.pwned() || theirs.pwned() {
				t.Fatal("it was executed before it was trusted")
			}
			if code, _, errs := mine.run(t, "runs", "trust", "it", "--yes"); code != 0 {
				t.Fatalf("exit code %d\n%s", code, errs)
			}
			code, out, errs := mine.run(t, "runs", "resume", "it", "--ask", "bash", "--on-ask", "wait")
			if mine.pwned() || theirs.pwned() || code != cli.ExitPaused {
				t.Fatalf("exit code %d, executed here %t, there %t\n%s%s", code, mine.pwned(), theirs.pwned(), out, errs)
			}
			code, out, errs = mine.run(t, "runs", "answer", "it", "go=once", "--ask", "bash", "--on-ask", "wait")
			if name == "begun" && code == cli.ExitPaused && !mine.pwned() { // the file says that it was cut off
				code, out, errs = mine.run(t, "runs", "answer", "it", "go=do it again", "--ask", "bash", "--on-ask", "wait")
			}
			if !mine.pwned() || theirs.pwned() || code != 0 {
				t.Errorf("exit code %d, executed here %t, there %t\n%s%s", code, mine.pwned(), theirs.pwned(), out, errs)
			}
			if name != "as it was" { // a replay finds out what was forged
				return
			}
			if code, out, errs := mine.run(t, "runs", "replay", "it"); code != 0 {
				t.Errorf("replay: exit code %d\n%s%s", code, out, errs)
			}
		})
	}
}
