package cli

import (
	"bytes"
	"context"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"github.com/superstep-dev/superstep/host"
	"github.com/superstep-dev/superstep/internal/acptest"
	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/stores"
)

func TestMain(m *testing.M) {
	command := func() { os.Exit(Main(testConfig(os.Getenv), testOptions())) }
	testscript.Main(leaks{m}, map[string]func(){"superstep": command, "flows": command, "scripted": acpAgent, "nothing": func() { os.Exit(0) }}) // flows is what it is called beside the whole command
}

// acpAgent is an agent of another program, for scripts.
func acpAgent() {
	acptest.Main(map[string]*acptest.Script{
		"signed out": {NewError: -32000},
		"ours": {Prompt: func(a *acptest.Agent, text string) string {
			if a.Server().URL == "" {
				a.Say("I have my own.")
				return "end_turn"
			}
			if strings.Contains(text, "</instructions>\n\nlist") {
				a.Say(strings.Join(a.Tools(), " "))
			} else if strings.Contains(text, "</instructions>\n\nread") {
				a.Say(a.Call("c1", "read_file", map[string]string{"path": "a.txt"}))
			} else if strings.Contains(text, "This call of yours was made") {
				a.Say("I was told.")
			} else {
				a.Say(a.Call("c1", "write_file", map[string]string{"path": "b.txt", "content": "new\n"}))
			}
			return "end_turn"
		}},
		"second": {Modes: []string{"auto", "default"}, Prompt: func(a *acptest.Agent, text string) string {
			_, told, _ := strings.Cut(text, "</instructions>\n\n")
			told, _, _ = strings.Cut(told, "\n")
			a.Say(a.Mode() + ": " + told)
			return "end_turn"
		}},
		"plain": {Prompt: func(a *acptest.Agent, text string) string {
			if strings.Contains(text, "</instructions>\n\nmake") {
				a.Begin("c1", "make", "execute", map[string]string{"command": "make"})
				if a.Ask(map[string]any{"toolCallId": "c1", "rawInput": map[string]string{"command": "make"}}) == "yes" {
					a.End("c1", "made")
					a.Say("Made.")
				}
				return "end_turn"
			}
			a.Say("Done.")
			return "end_turn"
		}},
	})
}

// leaks finds goroutines, pipes, sockets and processes that the tests leave behind.
type leaks struct{ m *testing.M }

func (l leaks) Run() int {
	before := streams()
	code := l.m.Run()
	if left := len(streams()) - len(before); code == 0 && left > 0 {
		println("descriptors are left:", left, strings.Join(streams(), " "))
		return 1
	}
	if left := children(); code == 0 && left != "" {
		println("child processes are left:", left)
		return 1
	}
	if err := goleak.Find(); code == 0 && err != nil {
		println(err.Error())
		return 1
	}
	return code
}

// testConfig is that of a program with the workflows of flows_test.go, and without models.
func testConfig(env func(string) string) *host.Config {
	own, err := flows(env)
	if err != nil {
		panic(err)
	}
	cfg := &host.Config{Name: "superstep", Workflows: own, Stores: stores.All(), NoModels: true}
	for i := range cfg.Stores {
		cfg.Stores[i].Open = func(ctx context.Context, opt *runlog.OpenOptions) (runlog.Store, io.Closer, error) {
			if env("TEST_NO_STORE") != "" {
				panic("the store was opened")
			}
			return stores.Open(ctx, opt)
		}
	}
	return cfg
}

// valid ends the process at the first event that does not fit the schema.
type valid struct{ w io.Writer }

func (v valid) Write(p []byte) (int, error) {
	if bytes.HasPrefix(p, []byte(`{"v":`)) {
		c, err := checker()
		if err == nil {
			err = c.One(p)
		}
		if err != nil {
			println(err.Error())
			os.Exit(99)
		}
	}
	return v.w.Write(p)
}

func testOptions() *Options {
	opt := &Options{Version: "1.2.3"}
	if info, err := os.Stdout.Stat(); err == nil && info.Mode()&os.ModeCharDevice == 0 { // a terminal has to stay one
		opt.Stdout = valid{os.Stdout}
	}
	if d, err := time.ParseDuration(os.Getenv("TEST_HEARTBEAT")); err == nil {
		opt.heartbeat = d
	}
	if d, err := time.ParseDuration(os.Getenv("TEST_IDLE")); err == nil {
		opt.idle = d
	}
	return opt
}
