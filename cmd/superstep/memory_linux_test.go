package main_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
)

// mostMemory is the most memory that the command may ever have resident, whatever it is sent.
const mostMemory = 200 << 20

// A measured run is one of the built binary.
type measured struct {
	code   int
	output string // standard output and standard error
	peak   int64  // bytes: the most that was ever resident
	took   time.Duration
}

// measure runs the binary in a folder until it ends.
func measure(t *testing.T, binary, dir string, env []string, stdin string, args ...string) measured {
	t.Helper()
	cmd := exec.Command(binary, append(args, "--data-dir", filepath.Join(dir, "data"))...)
	cmd.Dir = dir
	home := filepath.Join(dir, "home")
	cmd.Env = append([]string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "XDG_CONFIG_HOME=" + home, "XDG_CACHE_HOME=" + home}, env...)
	if stdin != "" {
		f, err := os.Open(stdin)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		cmd.Stdin = f
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// The usage that wait4 returns counts what this process had before it became that one; VmHWM does not.
	// It never falls, so what it was last is enough. The first look is here, since a busy machine may begin a goroutine too late.
	var err error
	ended, peak := make(chan struct{}), highWater(cmd.Process.Pid)
	go func() {
		err = cmd.Wait()
		close(ended)
	}()
	for tick := time.NewTicker(2 * time.Millisecond); ; {
		select {
		case <-ended:
			tick.Stop()
		case <-tick.C:
			peak = max(peak, highWater(cmd.Process.Pid))
			continue
		}
		break
	}
	m := measured{output: out.String(), peak: peak, took: time.Since(start)}
	if exit, ok := err.(*exec.ExitError); ok {
		m.code = exit.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	return m
}

// highWater is the most memory that a process ever had resident, in bytes; 0 once it has ended.
func highWater(pid int) int64 {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(raw), "VmHWM:")
	line, _, _ := strings.Cut(rest, "kB")
	kb, _ := strconv.ParseInt(strings.TrimSpace(line), 10, 64)
	return kb << 10
}

// bounded fails the test unless the run stayed within its memory.
func (m measured) bounded(t *testing.T) {
	t.Helper()
	t.Logf("%d MiB, %s, exit code %d", m.peak>>20, m.took.Round(time.Millisecond), m.code)
	if m.peak == 0 || m.peak > mostMemory {
		t.Errorf("the process had %d MiB, the limit is %d", m.peak>>20, mostMemory>>20)
	}
}

// says fails the test unless the run failed and said all of these.
func (m measured) says(t *testing.T, code int, words ...string) {
	t.Helper()
	if m.code != code {
		t.Errorf("exit code %d, want %d", m.code, code)
	}
	flat := strings.Join(strings.Fields(m.output), " ")
	for _, word := range words {
		if !strings.Contains(flat, word) {
			t.Errorf("%q is missing in:\n%.3000s", word, m.output)
		}
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const askRecipe = "name: ask\nsteps:\n  - id: tell\n    subagent: reviewer\n    prompt: Tell me.\n"

// Whatever a server of a model sends, the command ends with an error that names the step and the
// limit, and within its memory.
func TestMemoryHostileServers(t *testing.T) {
	if testing.Short() {
		t.Skip("sends gigabytes")
	}
	binary := faults.Command(t)
	said := model.Part{Kind: model.Text, Text: strings.Repeat("word ", 200)}
	for wire, w := range map[string]modeltest.Wire{"openai": modeltest.OpenAI{}, "anthropic": modeltest.Anthropic{}, "gemini": modeltest.Gemini{}} {
		for _, c := range []struct {
			name  string
			reply modeltest.Reply
			flags []string
			want  string
		}{
			{"text for ever", modeltest.Reply{Parts: []model.Part{said, said}, Fault: modeltest.Infinite, At: 2}, nil, "the turn says more than 2 MiB"},
			{"comments for ever", modeltest.Reply{Raw: []byte(":" + strings.Repeat("x", 1000) + "\n"), Fault: modeltest.Infinite, At: 1}, nil, "the stream is larger than"},
			{"one line", modeltest.Reply{Fault: modeltest.LongLine}, nil, "a line of the stream is longer than 4 MiB"},
			{"one event", modeltest.Reply{Fault: modeltest.LongEvent}, nil, "an event of the stream is larger than 4 MiB"},
			{"one body", modeltest.Reply{Fault: modeltest.LongBody}, nil, "an event of the stream is larger than 4 MiB"},
			{"gzip", modeltest.Reply{Fault: modeltest.GzipBomb}, nil, "compressed"},
			{"empty deltas", modeltest.Reply{Parts: []model.Part{said, {Kind: model.Text}}, Fault: modeltest.Infinite, At: 2, Pause: 50 * time.Millisecond}, []string{"--turn-timeout", "1s"}, "made no progress for 500ms"},
			{"an error", modeltest.Reply{Status: 400, Fault: modeltest.Infinite}, nil, "400"},
		} {
			t.Run(wire+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				server := modeltest.NewServer(t, modeltest.Sequence(c.reply), &modeltest.Options{Wire: w})
				dir := t.TempDir()
				write(t, filepath.Join(dir, "ask.yaml"), askRecipe)
				env := []string{strings.ToUpper(wire) + "_API_KEY=sk-test", strings.ToUpper(wire) + "_BASE_URL=" + server.URL}
				m := measure(t, binary, dir, env, "", append([]string{"run", "./ask.yaml", "--model", wire + "/test"}, c.flags...)...)
				m.bounded(t)
				m.says(t, 7, "step tell failed", c.want)
			})
		}
	}
}

// Large inputs are refused before they are copied, and those within the limits are bounded.
func TestMemoryLargeInputs(t *testing.T) {
	binary := faults.Command(t)
	dir := t.TempDir()
	inputs := func(name string, topic any) {
		raw, err := json.Marshal(map[string]any{"topic": topic})
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, name), string(raw))
	}
	inputs("large.json", strings.Repeat("x", 52<<20))
	inputs("most.json", strings.Repeat("x", 3<<20))
	inputs("fifteenth.json", strings.Repeat("x", 500<<10))
	long := strings.Repeat("x", 1_000_000)
	inputs("list.json", []string{long, long, long, long})
	step := "    subagent: reviewer\n    prompt: "
	write(t, filepath.Join(dir, "fifteen.yaml"), "name: fifteen\ninputs: [topic]\nsteps:\n  - id: tell\n"+step+"\""+strings.Repeat("{{inputs.topic}} ", 15)+"\"\n")
	write(t, filepath.Join(dir, "each.yaml"), "name: each\ninputs: [{name: topic, type: list}]\nsteps:\n  - id: all\n    foreach:\n      in: \"{{inputs.topic}}\"\n      steps:\n        - id: tell\n          subagent: reviewer\n          prompt: \"{{item}}\"\n")
	server := modeltest.NewServer(t, modeltest.Sequence(modeltest.Text("ok")), nil)
	env := []string{"OPENAI_API_KEY=sk-test", "OPENAI_BASE_URL=" + server.URL}
	for _, c := range []struct {
		name, stdin string
		args        []string
		code        int
		want        []string
	}{
		{"a file", "", []string{"./fifteen.yaml", "--inputs", "large.json"}, 2, []string{"large.json: it is over 4 MiB", "pass a file's path"}},
		{"standard input", filepath.Join(dir, "large.json"), []string{"./fifteen.yaml", "--inputs", "-"}, 2, []string{"standard input: it is over 4 MiB"}},
		{"in a prompt", "", []string{"./fifteen.yaml", "--inputs", "most.json"}, 7, []string{"step tell failed", "prompt: {{inputs.topic}}: with these 3.0 MiB", "limit of 1 MiB"}},
		{"fifteen times", "", []string{"./fifteen.yaml", "--inputs", "fifteenth.json"}, 7, []string{"step tell failed", "limit of 1 MiB"}},
		{"foreach", "", []string{"./each.yaml", "--inputs", "list.json"}, 0, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := measure(t, binary, dir, env, c.stdin, append([]string{"run", "--model", "openai/test"}, c.args...)...)
			m.bounded(t)
			m.says(t, c.code, c.want...)
		})
	}
}
