package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/superstep-dev/superstep/host"
)

// configured runs the command with a configuration, and gives what it says and leaves there.
func configured(t *testing.T, text string, args ...string) (code int, out, after string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	code = Main(&host.Config{Name: "superstep", Env: func(k string) string {
		if k == "SUPERSTEP_CONFIG" {
			return path
		}
		return ""
	}}, &Options{Args: args, Stdin: strings.NewReader(""), Stdout: &b, Stderr: &b})
	left, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return code, b.String(), string(left)
}

// What text files are like elsewhere stays as it is.
func TestConfigSetKeepsBytes(t *testing.T) {
	for before, want := range map[string]string{
		"\ufeffmax-steps: 3\r\nquiet: true\r\n": "\ufeffmax-steps: 4\r\nquiet: true\r\n",
		"quiet: true\r\n":                       "quiet: true\r\nmax-steps: 4\r\n",
		"quiet: true":                           "quiet: true\nmax-steps: 4\n",
		"\ufeff":                                "\ufeffmax-steps: 4\n",
		"":                                      "max-steps: 4\n",
		"'max-steps' : 3\n\n\n":                 "max-steps: 4\n\n\n",
	} {
		if code, out, after := configured(t, before, "config", "set", "max-steps", "4"); code != ExitOK || after != want {
			t.Errorf("%q became %q (exit %d, %s), want %q", before, after, code, out, want)
		}
		if code, out, _ := configured(t, want, "config", "get", "max-steps"); code != ExitOK || out != "4\n" {
			t.Errorf("%q is read as %q (exit %d)", want, out, code)
		}
	}
}

func TestConfigTooLarge(t *testing.T) {
	large := "max-steps: 3\n#" + strings.Repeat("x", 64<<10)
	for _, args := range [][]string{{"runs", "list"}, {"config", "set", "max-steps", "4"}} {
		code, out, after := configured(t, large, args...)
		if code == ExitOK || !strings.Contains(out, "is over 64 KiB") || after != large {
			t.Errorf("%v: exit %d: %.200s", args, code, out)
		}
	}
}

func TestConfigMistakesTellNoPassword(t *testing.T) {
	for _, text := range []string{
		"store: >s3cr3t\n",
		"store: @s3cr3t\n",
		"store: 's3cr3t\n",
		"store: !s3cr3t x\n",
		"store: postgres://u:s3cr3t@h/db: x\n",
		"store: host=h password=s3cr3t\n",
		"store: postgres://u:s3cr3t/x@h/db\n",
		"postgres://u:s3cr3t@h/db: x\n",
		"postgres://u:s3cr3t@h/db\n",
	} {
		if code, out, _ := configured(t, text, "runs", "list"); code != ExitUsage || strings.Contains(out, "s3cr3t") || !strings.Contains(out, "config.yaml:1:") {
			t.Errorf("%q: exit %d: %s", text, code, out)
		}
	}
}

// Every flag of all commands, or of those that execute runs, can be configured unless it says what to do now; and no other.
func TestSettingsAreFlags(t *testing.T) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	a := newApp(&host.Config{Name: "superstep", Env: func(string) string { return "" }}, &Options{Args: []string{}})
	a.globals(f)
	(&running{}).add(f)
	f.String("model", "", "")
	f.Int("snapshot-every", 0, "")
	var names []string
	f.VisitAll(func(x *pflag.Flag) {
		if x.Value.Type() != "strings" && x.Name != "trust-project" && x.Name != "config" {
			names = append(names, x.Name)
		}
	})
	settings := slices.DeleteFunc(host.SettingNames(), func(name string) bool { return strings.HasPrefix(name, "terminal.") })
	if !slices.Equal(names, settings) {
		t.Errorf("the flags are %v, the settings %v", names, settings)
	}
}

// The keys and the settings of the terminal are settings like others, and a mistake in them has a place.
func TestTerminalSettings(t *testing.T) {
	for text, want := range map[string]string{
		"quiet: true\nkeys.grph: ctrl+y\n": "config.yaml:2: keys.grph: there is no such action; did you mean graph?",
		"keys.graph: ''\n":                 "config.yaml:1: keys.graph: want one or several keys",
		"keys:\n  graph: x\n":              "config.yaml:1:1: write each key on a line of its own, such as `keys.graph: ctrl+g`",
		"terminal.theme: pink\n":           "config.yaml:1:17: terminal.theme: want default, dark, light, contrast",
		"terminal.calm: often\n":           "config.yaml:1:16: terminal.calm: want true or false",
	} {
		if code, out, _ := configured(t, text, "runs", "list"); code != ExitUsage || !strings.Contains(out, want) {
			t.Errorf("%q: exit %d: %s", text, code, out)
		}
	}
	code, _, after := configured(t, "keys.graph: f2\n", "config", "set", "keys.help", "f1 ?")
	if code != ExitOK || after != "keys.graph: f2\nkeys.help: f1 ?\n" {
		t.Errorf("exit %d: %q", code, after)
	}
	if code, out, _ := configured(t, after, "config", "list", "--show-origin"); code != ExitOK || !strings.Contains(out, "keys.help: f1 ?") || !strings.Contains(out, ":2\n") {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out, _ := configured(t, after, "config", "set", "keys.hepl", "f1"); code != ExitUsage || !strings.Contains(out, "did you mean help?") {
		t.Errorf("exit %d: %s", code, out)
	}
}
