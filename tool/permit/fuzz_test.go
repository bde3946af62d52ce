package permit_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
)

// naive reports whether the words of a command match an allow rule, by other means than the policy's. None of the rules
// here names a command by a path.
func naive(words []string, allowed []*regexp.Regexp) bool {
	return !strings.Contains(words[0], "/") && slices.ContainsFunc(allowed, func(re *regexp.Regexp) bool { return re.MatchString(strings.Join(words, " ")) })
}

// simple returns the words of a simple command in a text that no rule allows, nil if there is none.
func simple(command string, allowed []*regexp.Regexp) (bad []string) {
	file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return []string{err.Error()}
	}
	syntax.Walk(file, func(n syntax.Node) bool {
		c, ok := n.(*syntax.CallExpr)
		if !ok || len(c.Args) == 0 || bad != nil {
			return true
		}
		var words []string
		for _, w := range c.Args {
			s, err := expand.Literal(&expand.Config{Env: expand.ListEnviron(), CmdSubst: func(io.Writer, *syntax.CmdSubst) error { return nil }, ProcSubst: func(*syntax.ProcSubst) (string, error) { return "/x", nil }}, w)
			if err != nil {
				s = "?"
			}
			words = append(words, s)
		}
		if !naive(words, allowed) {
			bad = words
		}
		return true
	})
	return bad
}

// FuzzCommands: what the policy allows is, by the interpreter of the parser's library, nothing but
// commands that a rule allows.
func FuzzCommands(f *testing.F) {
	for _, c := range []string{
		"echo x", "echox/../evil a", "echo $(ls)", "ls | echo a && ls -l", "x=a; echo $x", "for i in a b; do echo $i; done", "timeout 5 ls", "bash -c 'ls; echo'", "find . -exec echo {} \\;", "ls <<E\n$(echo)\nE", "echo a{b,c}", "e'ch'o x", "f() { ls; }; echo", "echo \"${x:-`ls`}\"", "[[ -f x ]] && ls", "case a in *) ls;; esac",
		"echo x; rm y", "$x", "r* y", "env LC_ALL=C ls", "ls | xargs echo", "command ls", "echo ${x/a/b}", "echo $'a\\'; rm y'", "echo <(ls)", "! ls", "time ls", "if ls; then echo; fi", "(ls)", "{ ls; }", "ls &", "echo \\\nx", "nice -n 1 echo", "x=$(ls) echo", "set -e; ls", "read x; ls", "test -f x", "ls # x\nrm y", "nohup nohup ls", "CI=1 ls", "sh -c ''", "sh -c 'ls; echo'", "find\\", "ls; bash -c '#'",
	} {
		f.Add(c)
	}
	p, err := permit.New(&permit.Options{Rules: map[permit.Layer][]permit.Rule{permit.User: rules(f, "allow bash(echo*)", "allow bash(ls *)", "allow bash(find *)", "allow bash(test *)", "allow bash(read *)", "allow bash(set *)", "allow bash(bash *)", "allow bash(printf *)")}})
	if err != nil {
		f.Fatal(err)
	}
	allowed := []*regexp.Regexp{regexp.MustCompile(`(?s)^(echo.*|(ls|find|test|read|set|bash|printf)( .*)?)$`)}
	f.Fuzz(func(t *testing.T, command string) {
		if !utf8.ValidString(command) {
			return // JSON has no such texts
		}
		v := bash(p, command)
		if v.Decision != tool.Allow {
			return
		}
		if bad := simple(command, allowed); bad != nil {
			t.Fatalf("%q is allowed and holds %q", command, bad)
		}
		file, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
		if err != nil {
			t.Fatal(err)
		}
		for n := range syntax.Preorder(file) {
			if _, ok := n.(*syntax.ProcSubst); ok {
				return // the interpreter does not wait for what it starts for them
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		defer cancel()
		errStop := errors.New("stop")
		var steps atomic.Int32 // both sides of a pipe count
		r, err := interp.New(interp.Env(expand.ListEnviron("PATH=/none", "HOME=/none")), interp.StdIO(nil, io.Discard, io.Discard), interp.Params("--"),
			interp.OpenHandler(func(_ context.Context, name string, flag int, _ os.FileMode) (io.ReadWriteCloser, error) {
				if flag&(os.O_WRONLY|os.O_RDWR) != 0 && !strings.HasPrefix(path.Clean(name), "/dev/") {
					t.Errorf("%q is allowed and writes %s", command, name)
				}
				return nil, os.ErrNotExist
			}),
			interp.CallHandler(func(_ context.Context, args []string) ([]string, error) {
				if steps.Add(1) > 500 {
					return nil, errStop
				}
				if !naive(args, allowed) {
					t.Errorf("%q is allowed and runs %q", command, args)
				}
				return []string{"true"}, nil
			}))
		if err != nil {
			t.Fatal(err)
		}
		_ = r.Run(ctx, file)
	})
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"bash(git log *)", "Bash(git:*)", "Read(./src/**)", "WebFetch(domain:x)", "mcp__a__*", "edit_file(/etc/**)", "read_file({a,b}/[x])", "bash(", "x(y)", "web_fetch(domain:[::1])", "Edit(~/x)", "read_file(**/**/**)", "bash(\\)"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := permit.Parse(tool.Allow, s, "")
		var e *permit.SyntaxError
		if err != nil && (!errors.As(err, &e) || e.Col < 1 || e.Col > len([]rune(s))+1) {
			t.Fatalf("%q: %v", s, err)
		}
		if err == nil {
			again, err := permit.Parse(tool.Allow, r.String(), "")
			if err != nil || again != r {
				t.Fatalf("%q became %+v, then %+v %v", s, r, again, err)
			}
			if _, err := permit.New(&permit.Options{Home: "/h", Rules: map[permit.Layer][]permit.Rule{permit.User: {r}}}); err != nil {
				t.Fatalf("%q parses and cannot be used: %v", s, err)
			}
		}
	})
}

func FuzzPaths(f *testing.F) {
	for _, s := range []string{"a", "docs/x", "docs/../.git/config", "/etc/passwd", "~/x", ".g\u200cit/x", "./.MCP.json", "docs//private/x", "docs/./a", "\\.git\\x", "docs/..", "//x", "docs/private", ".git\x00"} {
		f.Add(s)
	}
	p := policy(f, "allow edit_file(docs/**)", "deny edit_file(docs/private/**)", "allow write_file")
	f.Fuzz(func(t *testing.T, s string) {
		b, err := json.Marshal(map[string]string{"path": s})
		if err != nil {
			return
		}
		var back struct{ Path string }
		if err := json.Unmarshal(b, &back); err != nil {
			return
		}
		s = back.Path
		v := p.Check(&tool.Tool{Name: "edit_file"}, &tool.Call{Args: b})
		clean := s
		switch {
		case s == "~" || strings.HasPrefix(s, "~/"):
			clean = path.Join(home, s[1:])
		case !path.IsAbs(s):
			clean = path.Join(root, s)
		}
		clean = path.Clean(clean)
		if v.Decision == tool.Allow && clean != root+"/docs" && !strings.HasPrefix(clean, root+"/docs/") {
			t.Fatalf("%q (%s) is allowed", s, clean)
		}
		if v.Decision == tool.Allow && (clean == root+"/docs/private" || strings.HasPrefix(clean, root+"/docs/private/")) {
			t.Fatalf("%q (%s) is allowed and denied", s, clean)
		}
		if v := p.Check(&tool.Tool{Name: "write_file"}, &tool.Call{Args: b}); v.Decision == tool.Allow && strings.Contains(strings.ToLower(clean)+"/", "/.git/") {
			t.Fatalf("%q (%s) is not protected", s, clean)
		}
	})
}
