package mcp_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/internal/npm"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/mcp"
)

// published is a server that others have published.
func published(t *testing.T, name string, args ...string) *mcp.Server {
	t.Helper()
	node := npm.Node(t)
	main := filepath.Join(npm.Modules(t), "@modelcontextprotocol", "server-"+name, "dist", "index.js")
	return &mcp.Server{Name: name, Source: mcp.Source{Scope: "user"}, Transport: mcp.Stdio, Command: node, Args: append([]string{main}, args...)}
}

func TestEverything(t *testing.T) {
	t.Parallel()
	s := published(t, "everything", "stdio")
	o, warned := options(t)
	o.Project = t.TempDir()
	c := connect(t, s, o)
	everything(t, set(t, c), o.Project)
	if c.Instructions() == "" {
		t.Error("no instructions")
	}
	if len(c.Warnings()) > 0 {
		t.Errorf("warnings %q, %s", c.Warnings(), warned.all())
	}
	g := mcp.ConnectAll(t.Context(), []*mcp.Server{s}, o)
	t.Cleanup(g.Close)
	if list, err := g.Prompts(t.Context()); err != nil || len(list) < 2 {
		t.Errorf("prompts %+v, %v", list, err)
	} else if text, err := list[slices.IndexFunc(list, func(p mcp.Prompt) bool { return p.Name == "mcp__everything__args-prompt" })].Text(t.Context(), "Paris", "state=Texas"); err != nil || !strings.Contains(text, "Paris") || !strings.Contains(text, "Texas") {
		t.Errorf("%q, %v", text, err)
	}
	p := &person{answer: says(`{"decision":"accept","name":"Ada"}`)}
	if r := set(t, c).Call(t.Context(), "mcp__everything__trigger-elicitation-request", &tool.Call{Ask: p.ask}); r.Error || !strings.Contains(r.Text, "Ada") {
		t.Errorf("%+v, asked %q", r, p.asked)
	}
}

func everything(t *testing.T, tools *tool.Set, project string) {
	t.Helper()
	for _, c := range []struct {
		tool, args string
		want       []string
		fails      bool
	}{
		{"echo", `{"message":"hello \"you\""}`, []string{`hello "you"`}, false},
		{"get-sum", `{"a":2,"b":40}`, []string{"42"}, false},
		{"get-sum", `{"a":"two","b":40}`, []string{"/a"}, true}, // found by us
		{"get-tiny-image", `{}`, []string{"[image image/png, ", "not shown]"}, false},
		{"get-structured-content", `{"location":"New York"}`, []string{`"temperature"`}, false},
		{"get-resource-links", `{"count":2}`, []string{"[link to the resource demo://"}, false},
		{"get-resource-reference", `{"resourceType":"Text","resourceId":1}`, []string{"[resource demo://"}, false},
		{"get-annotated-message", `{"messageType":"error","includeImage":true}`, []string{"Error", "[image "}, false},
		{"get-env", `{}`, []string{"PATH"}, false},
		{"trigger-long-running-operation", `{"duration":0.3,"steps":3}`, []string{"completed"}, false},
		{"resources", `{}`, []string{"[link to the resource demo://", "template: [link to the resource demo://resource/dynamic/text/{"}, false},
		{"resources", `{"uri":"demo://resource/dynamic/text/1"}`, []string{"[resource demo://resource/dynamic/text/1]\n", "1"}, false},
		{"resources", `{"uri":"demo://none"}`, []string{"not found"}, true},
		{"trigger-elicitation-request", `{}`, []string{"declined"}, false}, // nobody is asked
	} {
		r := call(t, tools, "mcp__everything__"+c.tool, c.args)
		if r.Error != c.fails {
			t.Errorf("%s(%s): %+v", c.tool, c.args, r)
		}
		for _, want := range c.want {
			if !strings.Contains(r.Text, want) {
				t.Errorf("%s(%s) gave %q without %q", c.tool, c.args, r.Text, want)
			}
		}
	}
	if project != "" {
		if r := call(t, tools, "mcp__everything__get-roots-list", `{}`); !strings.Contains(r.Text, project) {
			t.Errorf("roots: %+v", r)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	r := tools.Call(ctx, "mcp__everything__trigger-long-running-operation", &tool.Call{Args: []byte(`{"duration":60,"steps":2}`)})
	if d := time.Since(begin); !r.Error || d > faults.Bound(20*time.Second) {
		t.Errorf("a cancelled call gave %+v after %v", r, d)
	}
	if r := call(t, tools, "mcp__everything__echo", `{"message":"still here"}`); r.Error {
		t.Errorf("after a cancelled call: %s", r.Text)
	}
}

func TestFilesystem(t *testing.T) {
	t.Parallel()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	o, _ := options(t)
	o.Project = dir
	s := published(t, "filesystem", dir)
	s.TrustAnnotations = true
	tools := set(t, connect(t, s, o))
	if read, _ := tools.Get("mcp__filesystem__read_text_file"); read == nil || read.Effect != tool.Pure {
		t.Errorf("read_text_file: %+v", read)
	}
	if write, _ := tools.Get("mcp__filesystem__write_file"); write == nil || write.Effect == tool.Pure {
		t.Errorf("write_file: %+v", write)
	}
	path := filepath.Join(dir, "a.txt")
	if r := call(t, tools, "mcp__filesystem__write_file", fmt.Sprintf(`{"path":%q,"content":"one\ntwo\n"}`, path)); r.Error {
		t.Fatal(r.Text)
	}
	if b, err := os.ReadFile(path); err != nil || string(b) != "one\ntwo\n" {
		t.Errorf("%q, %v", b, err)
	}
	if r := call(t, tools, "mcp__filesystem__read_text_file", fmt.Sprintf(`{"path":%q}`, path)); r.Error || r.Text != "one\ntwo\n" {
		t.Errorf("%+v", r)
	}
	if r := call(t, tools, "mcp__filesystem__read_text_file", `{"path":"/etc/passwd"}`); !r.Error || strings.Contains(r.Text, "root:") {
		t.Errorf("outside: %+v", r)
	}
	if r := call(t, tools, "mcp__filesystem__list_directory", fmt.Sprintf(`{"path":%q}`, dir)); !strings.Contains(r.Text, "a.txt") {
		t.Errorf("%+v", r)
	}
}

func TestMemory(t *testing.T) {
	t.Parallel()
	o, _ := options(t)
	s := published(t, "memory")
	s.Env = mcp.Values{"MEMORY_FILE_PATH": filepath.Join(t.TempDir(), "memory.json")}
	tools := set(t, connect(t, s, o))
	if r := call(t, tools, "mcp__memory__create_entities", `{"entities":[{"name":"Ada","entityType":"person","observations":["wrote programs"]}]}`); r.Error {
		t.Fatal(r.Text)
	}
	if r := call(t, tools, "mcp__memory__search_nodes", `{"query":"programs"}`); r.Error || !strings.Contains(r.Text, "Ada") {
		t.Errorf("%+v", r)
	}
}

// listening starts server-everything on a port, and stops it at the end or when stop is called.
func listening(t *testing.T, mode string, port int) (stop func()) {
	t.Helper()
	s := published(t, "everything", mode)
	cmd := exec.Command(s.Command, s.Args...)
	cmd.Env = append(os.Environ(), fmt.Sprint("PORT=", port))
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for in := bufio.NewScanner(out); in.Scan(); {
		}
		_ = cmd.Wait()
	}()
	stop = func() {
		_ = cmd.Process.Kill()
		<-ended
	}
	t.Cleanup(stop)
	for range 200 {
		if conn, err := net.DialTimeout("tcp", fmt.Sprint("127.0.0.1:", port), time.Second); err == nil {
			conn.Close()
			return stop
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal("the server does not listen")
	return nil
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func TestEverythingByHTTP(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	stop := listening(t, "streamableHttp", port)
	o, _ := options(t)
	s := &mcp.Server{Name: "everything", Source: mcp.Source{Scope: "user"}, Transport: mcp.HTTP, URL: fmt.Sprintf("http://127.0.0.1:%d/mcp", port)}
	tools := set(t, connect(t, s, o))
	everything(t, tools, "")
	// The server starts again: the session is gone, and a new one is made.
	stop()
	listening(t, "streamableHttp", port)
	if r := call(t, tools, "mcp__everything__echo", `{"message":"again"}`); r.Error || !strings.Contains(r.Text, "again") {
		t.Errorf("after a new start: %+v", r)
	}
}

func TestEverythingBySSE(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	listening(t, "sse", port)
	o, _ := options(t)
	s := &mcp.Server{Name: "everything", Source: mcp.Source{Scope: "user"}, Transport: mcp.SSE, URL: fmt.Sprintf("http://127.0.0.1:%d/sse", port)}
	everything(t, set(t, connect(t, s, o)), "")
	s.Transport = mcp.HTTP // the wrong type for it
	_, err := mcp.Connect(t.Context(), s, o)
	var e *mcp.Error
	if !errors.As(err, &e) || !strings.Contains(err.Error(), "sse") {
		t.Error(err)
	}
}
