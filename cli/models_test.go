package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/modeltest"
	"github.com/superstep-dev/superstep/model"
)

// whole returns the folder of the command with all providers, which the library does not name.
func whole(t *testing.T) string {
	t.Helper()
	faults.Unraced(t)
	return filepath.Dir(faults.Command(t))
}

// playTested answers as a model does that is tested, by its name.
func playTested(req *modeltest.ParsedRequest) modeltest.Reply {
	usage := model.Part{Kind: model.UsagePart, Usage: &model.Usage{In: 10, Out: 5}}
	reply := modeltest.Text("ready")
	switch {
	case req.Model == "denied":
		return modeltest.Reply{Status: http.StatusUnauthorized, Message: "the key " + strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ") + " is wrong"}
	case req.Model == "missing":
		return modeltest.Failure(http.StatusNotFound, "")
	case req.Model == "silent":
		return modeltest.Reply{Fault: modeltest.Silent}
	case len(req.Tools) > 0 && req.Model != "talker":
		reply = modeltest.Call(req.Tools[0].Name, `{"query": "ready"}`)
	}
	reply.Parts = append(reply.Parts, usage)
	return reply
}

// servers starts one server for each protocol and one that lists models as Ollama does, and
// names them in variables. Other servers on this machine are not to be found.
func servers(t *testing.T, set func(name, value string), end func(func())) {
	t.Helper()
	start := func(name string, wire modeltest.Wire) {
		s, err := modeltest.Start(playTested, &modeltest.Options{Wire: wire})
		if err != nil {
			t.Fatal(err)
		}
		end(s.Close)
		set(name, s.URL)
	}
	start("OPENAI", modeltest.OpenAI{})
	start("RESPONSES", modeltest.Responses{})
	start("ANTHROPIC", modeltest.Anthropic{})
	start("GEMINI", modeltest.Gemini{})
	ollama := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/api/tags" {
			_, _ = w.Write([]byte(`{"models": [{"name": "qwen3:8b"}]}`))
		}
	}))
	end(ollama.Close)
	set("OLLAMA", ollama.URL+"/v1")
	for _, name := range []string{"OLLAMA", "LMSTUDIO", "LLAMACPP", "VLLM"} {
		set(name+"_BASE_URL", "http://127.0.0.1:1/v1")
	}
}

func TestModels(t *testing.T) {
	bin := whole(t)
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/models",
		RequireExplicitExec: true,
		Condition:           scriptCondition,
		Setup: func(e *testscript.Env) error {
			if err := callInProcess(e, "testdata/models", map[string]hosted{"superstep": wholeProgram}); err != nil {
				return err
			}
			e.Setenv("PATH", bin+string(os.PathListSeparator)+e.Getenv("PATH"))
			e.Setenv("HOME", e.WorkDir+"/home")
			e.Setenv("XDG_CONFIG_HOME", e.WorkDir+"/conf")
			e.Setenv("XDG_CACHE_HOME", e.WorkDir+"/cache")
			e.Setenv("SUPERSTEP_DATA_DIR", e.WorkDir+"/data")
			servers(t, e.Setenv, e.Defer)
			return os.MkdirAll(e.WorkDir+"/conf/superstep", 0o700)
		},
		Cmds: scriptCommands(),
	})
}

var (
	fenced    = regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
	namedFile = regexp.MustCompile(`(?m)^# (\S+\.yaml)\n`)
)

// Every command in the page about models runs, in its order. The files that it shows are there.
func TestModelsDocumentation(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "models.md"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	env := append(os.Environ(), "HOME="+dir, "XDG_CONFIG_HOME="+dir+"/conf", "XDG_CACHE_HOME="+dir+"/cache", "SUPERSTEP_DATA_DIR="+dir+"/data",
		"PATH="+whole(t)+string(os.PathListSeparator)+os.Getenv("PATH"), "ANTHROPIC_API_KEY=none", "LAB_API_KEY=none", "LAB_TEAM=blue", "OPENAI_API_KEY=none")
	servers(t, func(name, value string) {
		env = append(env, name+"="+value)
		if name == "OPENAI" {
			env = append(env, "OPENAI_BASE_URL="+value)
		}
	}, t.Cleanup)
	if err := os.MkdirAll(filepath.Join(dir, "conf", "superstep"), 0o700); err != nil {
		t.Fatal(err)
	}
	commands, files := 0, 0
	for _, block := range fenced.FindAllStringSubmatch(string(text), -1) {
		if m := namedFile.FindStringSubmatch(block[2]); block[1] == "yaml" && m != nil {
			files++
			path := filepath.Join(dir, m[1])
			if m[1] == "providers.yaml" {
				path = filepath.Join(dir, "conf", "superstep", m[1])
			}
			if err := os.WriteFile(path, []byte(block[2]), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if block[1] != "console" {
			continue
		}
		for line := range strings.Lines(block[2]) {
			command, ok := strings.CutPrefix(strings.TrimSpace(line), "$ ")
			if !ok {
				continue
			}
			commands++
			cmd := exec.Command("sh", "-c", command)
			cmd.Dir, cmd.Env = dir, env
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", command, err, out)
			}
		}
	}
	if commands < 5 || files < 2 {
		t.Errorf("there are %d commands and %d files", commands, files)
	}
}
