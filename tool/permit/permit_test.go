package permit_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/superstep-dev/superstep/internal/faults"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const root, home = "/home/me/proj", "/home/me"

// rules reads lines such as "allow bash(git log *)".
func rules(t testing.TB, lines ...string) []permit.Rule {
	t.Helper()
	var out []permit.Rule
	for _, l := range lines {
		d, text, _ := strings.Cut(l, " ")
		r, err := permit.Parse(tool.Decision(d), text, "")
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

func policy(t testing.TB, lines ...string) *permit.Policy {
	t.Helper()
	p, err := permit.New(&permit.Options{Root: root, Home: home, Rules: map[permit.Layer][]permit.Rule{permit.User: rules(t, lines...)}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func call(name string, args map[string]any) (*tool.Tool, *tool.Call) {
	b, err := json.Marshal(args)
	if err != nil {
		panic(err)
	}
	return &tool.Tool{Name: name}, &tool.Call{Args: b}
}

func bash(p tool.Gate, command string) tool.Verdict {
	return p.Check(call("bash", map[string]any{"command": command}))
}

func file(p tool.Gate, name, path string) tool.Verdict {
	return p.Check(call(name, map[string]any{"path": path}))
}

var _ tool.Gate = (*permit.Policy)(nil)

func TestCommands(t *testing.T) {
	p := policy(t, "allow bash(echo*)", "allow bash(git log *)", "allow bash(go test *)", "allow bash(ls *)", "allow bash(find *)", "allow bash(test *)", "allow bash([ *)",
		"allow bash(printf *)", "allow bash(cd *)", "allow bash(bash *)", "allow bash(npx *)", "allow bash(exact command here)", "allow bash(cp *)", "allow bash(git -c *)",
		"allow bash(trap *)", "allow bash(eval *)", "allow bash(sudo *)", "allow bash(read *)", "allow bash(set *)", "allow bash(source *)", "allow bash(env *)", "allow bash(xargs *)",
		"allow write_file(out/**)", "deny bash(rm *)", "deny bash(git push *)", "ask bash(ls /secret*)")
	for _, tc := range []struct {
		command string
		want    tool.Decision
	}{
		{"echo hi", "allow"}, {"echo", "allow"}, {"echo 'a; rm b'", "ask"}, {`echo "a && b"`, "allow"}, {"git log", "allow"}, {"git log --oneline -3", "allow"},
		{"git log | ls", "allow"}, {"echo a; echo b\necho c && ls || echo d &", "allow"}, {"(echo a; ls)", "allow"}, {"{ echo a; }", "allow"},
		{"echo $(ls) `ls` \"$(ls -l)\"", "allow"}, {"if echo a; then ls; else echo b; fi", "allow"}, {"for f in *.go; do echo $f; done", "allow"}, {"while echo a; do ls; done", "allow"},
		{"f() { ls; }; echo x", "allow"}, {"echo <(ls)", "allow"}, {"exact command here", "allow"}, {"cat <<EOF\nhi\nEOF", "ask"}, {"ls <<EOF\n$(ls)\nEOF", "allow"},
		{"timeout 5 go test ./...", "ask"}, {"nice -n 5 timeout -k 1 5s nohup go test ./...", "ask"}, {"env LC_ALL=C go test .", "allow"}, {"CI=1 go test .", "allow"}, {"x=1; echo $x", "allow"},
		{"echo a > out/x", "allow"}, {"echo a > /dev/null 2>&1", "allow"}, {"ls < a.txt", "allow"}, {"ls <<< $x", "allow"}, {"time ls", "allow"}, {"! ls", "allow"}, {"[[ -f a ]] && ls", "allow"},
		{"bash -c 'ls; echo a'", "allow"}, {"sh -ec 'ls'", "ask"}, {"find . -name '*.go' -exec echo {} \\;", "allow"}, {"ls | xargs echo", "allow"}, {"ls | xargs -0 -n 1 go test", "allow"}, {"command ls", "ask"},
		{"echo x && rm y", "deny"}, {"echo x; rm y", "deny"}, {"echo x\nrm y", "deny"}, {"echo $(rm y)", "deny"}, {"echo `rm y`", "deny"}, {"echo x | rm y", "deny"}, {"echo x & rm y", "deny"},
		{"echo \"$(rm y)\"", "deny"}, {"echo <(rm y)", "deny"}, {"ls > >(rm y)", "deny"}, {"f() { rm y; }; echo x", "deny"}, {"ls <<EOF\n$(rm y)\nEOF", "deny"}, {"ls <<< $(rm y)", "deny"},
		{"/bin/rm y", "deny"}, {`\rm y`, "deny"}, {"'r'm y", "deny"}, {`r""m y`, "deny"}, {"r\\m y", "deny"}, {"sudo rm y", "ask"}, {"sudo -u root rm y", "ask"}, {"env -u A rm y", "ask"},
		{"timeout 5 rm y", "ask"}, {"xargs rm", "ask"}, {"find . -exec rm {} +", "ask"}, {"bash -c 'rm y'", "ask"}, {"eval 'rm y'", "ask"}, {"eval rm y", "ask"}, {"trap 'rm y' EXIT", "ask"}, {"bash -lc 'rm y'", "ask"},
		{"case x in x) rm y;; esac", "deny"}, {"for i in 1; do rm y; done", "deny"}, {"x=$(rm y)", "deny"}, {"echo ${x:-$(rm y)}", "deny"}, {"echo $((1 + $(rm y)))", "deny"}, {"git push origin", "deny"}, {"git push", "deny"}, {"git -C x push", "ask"}, {"git --no-pager -C x push y", "ask"}, {"git -C . -c a=b log", "ask"}, {"sudo git -C x push", "allow"}, {"timeout 5 git -P push", "ask"},
		{"rm", "deny"}, {"echo x > .git/hooks/pre-commit", "deny"}, {"echo x >> ~/.bashrc", "deny"}, {"echo x > ~/.ssh/authorized_keys", "deny"}, {"echo x >.git/hooks/$y", "deny"}, {"ls &> .mcp.json", "deny"}, {"echo x > ./a/../.claude/settings.json", "deny"},
		{"cat x", "ask"}, {"echo x && cat y", "ask"}, {"gitlog", "ask"}, {"git logs", "ask"}, {"echo x > a", "ask"}, {"echo x > $y", "ask"}, {"echo x > /etc/passwd", "ask"}, {"ls < /etc/passwd", "ask"},
		{"$x", "ask"}, {"$(echo rm) y", "ask"}, {"{rm,y}", "ask"}, {"r* y", "ask"}, {"eval ls", "allow"}, {"source a", "allow"}, {". a", "ask"}, {"alias ls=rm", "ask"}, {"LD_PRELOAD=x ls", "allow"}, {"PATH=x ls", "allow"}, {"PATH=x; ls", "allow"},
		{"export PATH=x; ls", "ask"}, {"for PATH in /tmp; do ls; done", "allow"}, {"read PATH; ls", "allow"}, {"read -r x; ls", "allow"}, {"bash -c \"$x\"", "allow"}, {"bash", "allow"}, {"ls | bash", "allow"}, {"bash -s", "allow"}, {"npx -c 'ls'", "allow"}, {"npx --call=ls", "allow"}, {"npx -yc ls", "allow"}, {"npx prettier .", "allow"},
		{"npx $x", "allow"}, {"sudo ls", "allow"}, {"env A=b ls", "allow"}, {"env -S 'ls'", "allow"}, {"find . $x", "allow"}, {"find . -fprint a", "allow"}, {"find . -exec $x {} +", "allow"}, {"xargs -I % % a", "allow"}, {"git -c core.pager=x log", "allow"}, {"git $x", "ask"},
		{"echo $((x))", "ask"}, {"((x))", "ask"}, {"let x", "ask"}, {"echo ${!x}", "ask"}, {"echo ${x@P}", "ask"}, {"echo ${a[$x]}", "ask"}, {"echo ${x:y}", "ask"}, {"[[ $x -eq 1 ]]", "ask"}, {"[[ -v $x ]]", "ask"}, {"test -v 'a[$(rm y)]'", "allow"}, {"printf -v 'a[$(id)]' x", "allow"}, {"printf $x", "allow"},
		{"echo ${PATH:=x}", "allow"}, {"echo {x}>out/x", "allow"}, {"ls {PATH}>out/x", "allow"}, {"coproc ls", "ask"}, {"echo 'unclosed", "ask"}, {"", "ask"}, {"# only", "ask"}, {"x=1", "ask"}, {"echo \x1b[2J", "ask"}, {"echo a\rb", "ask"}, {"echo \u202e", "ask"},
		{"cd /; echo x > out/y", "ask"}, {"cd sub && ls", "allow"}, {"cp a .git/config", "allow"}, {"cp a --target=.git/hooks", "allow"}, {"set -euo pipefail; ls", "allow"}, {"set -- a; ls", "allow"}, {"ls /secret", "ask"}, {"ls $x", "ask"},
		{"rm$x y", "ask"}, {"git $x origin", "ask"}, {"echo `ls \\`ls\\``", "ask"}, {"echo $(cat <<E\nE\n)", "ask"}, {"ls <<$'E'\nE\n", "ask"}, {"ls > /dev/tcp/1.2.3.4/80", "ask"}, {"echo a 2>&1 | ls", "allow"}, {"ls >& out/x", "allow"}, {"ls >&$x", "ask"},
		{"exec ls", "ask"}, {"enable -f x ls", "ask"}, {"hash -p /tmp/x ls; ls", "ask"}, {"bash script.sh", "allow"}, {"declare -x A=b", "ask"}, {"select x in a; do ls; done", "ask"}, {"unset 'a[$(id)]'", "ask"}, {"[ -n \"$x\" ]", "allow"}, {"[ $x $y ]", "allow"},
	} {
		if v := bash(p, tc.command); v.Decision != tc.want {
			t.Errorf("%q: %s, want %s (%s; rule %s)", tc.command, v.Decision, tc.want, v.Reason, v.Rule)
		}
	}
	for n, want := range map[int]tool.Decision{50: "allow", 51: "ask"} {
		if v := bash(p, strings.Repeat("ls;", n)); v.Decision != want {
			t.Errorf("%d commands: %+v", n, v)
		}
	}
}

func TestShells(t *testing.T) {
	p, err := permit.New(&permit.Options{Shell: "sh", Rules: map[permit.Layer][]permit.Rule{permit.User: rules(t, "allow bash(ls *)", "allow bash([[ *)", "deny bash(rm *)")}})
	if err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]tool.Decision{"ls": "allow", "((rm>y))": "deny", "[[ a > .bashrc ]]": "deny", "[[ a > b ]]": "ask", "ls &> x": "ask"} {
		if v := bash(p, command); v.Decision != want {
			t.Errorf("%q: %+v", command, v)
		}
	}
}

// TestChained decides on commands that are long or deep, fast and never with allow.
func TestChained(t *testing.T) {
	p := policy(t, "allow bash(echo *)", "allow bash(bash *)", "deny bash(rm *)", "deny bash(git push *)", "deny bash(* --force)")
	for name, command := range map[string]string{
		"and":       strings.Repeat("echo x && ", 9999) + "echo y",
		"semicolon": strings.Repeat("echo x;", 10000),
		"lines":     strings.Repeat("echo x\n", 10000),
		"pipe":      strings.Repeat("echo x|", 9999) + "echo y",
		"brackets":  strings.Repeat("(", 100000),
		"subshells": strings.Repeat("(", 3000) + "echo x" + strings.Repeat(")", 3000),
		"substs":    strings.Repeat("$(", 3000) + "echo x" + strings.Repeat(")", 3000),
		"quotes":    strings.Repeat(`"$(`, 3000) + "echo x" + strings.Repeat(`)"`, 3000),
		"not":       strings.Repeat("! ", 50000) + "echo x",
		"if":        strings.Repeat("if ", 20000),
		"while":     strings.Repeat("while echo x; do ", 5000) + strings.Repeat("done;", 5000),
		"words":     "echo " + strings.Repeat("$x ", 60000),
		"wrappers":  strings.Repeat("nohup ", 20000) + "echo x",
		"sudo":      "sudo " + strings.Repeat("$x ", 60000),
		"long":      "echo " + strings.Repeat("x", 1<<20),
		"word":      "echo " + strings.Repeat("$x-", 50000),
		"braces":    "echo " + strings.Repeat("{a,", 1000) + strings.Repeat("}", 1000) + ">x",
		"time":      strings.Repeat("time ", 30000) + "ls",
		"func":      strings.Repeat("f() ", 30000) + "echo",
	} {
		start := time.Now()
		v := bash(p, command)
		took := time.Since(start)
		if v.Decision == tool.Allow {
			t.Errorf("%s: allowed", name)
		}
		if took > faults.Bound(5*time.Second) {
			t.Errorf("%s: took %v", name, took)
		}
		t.Logf("%s: %v in %v: %.80s", name, v.Decision, took.Round(time.Millisecond), v.Reason)
	}
	if v := bash(p, strings.Repeat("echo x && ", 9999)+"rm y"); v.Decision != tool.Deny {
		t.Errorf("the last of 10,000: %+v", v)
	}
}

func BenchmarkChained(b *testing.B) {
	p := policy(b, "allow bash(echo *)", "deny bash(rm *)", "deny bash(git push *)")
	command := strings.Repeat("echo x && ", 9999) + "echo y"
	for b.Loop() {
		bash(p, command)
	}
}

// TestBypass runs what the policy allows of a list of attacks in a real shell: none may make the file.
func TestBypass(t *testing.T) {
	shell, err := exec.LookPath("bash")
	if err != nil {
		t.Skip(err)
	}
	p := policy(t, "allow bash(echo *)", "allow bash(test *)", "allow bash([ *)", "allow bash(printf *)", "allow bash(true *)", "allow bash(ls *)")
	ran := 0
	for _, c := range []string{
		"echo x && touch canary", "echo $(touch canary)", "echo `touch canary`", "echo x\ntouch canary", "echo x;touch canary", "echo x|touch canary", "echo x& touch canary",
		"echo <(touch canary)", "echo > canary", "echo x >| canary", "echo x <> canary", "echo x &> canary", "echo x >&canary", "echo ${x:-$(touch canary)}", "x='a[$(touch canary)]'; echo $((x))",
		"x='a[$(touch canary)]'; [[ $x -eq 1 ]]",
		"x='-v'; y='a[$(touch canary)]'; printf $x $y z", "x='$(touch canary)'; echo \"${x@P}\"", "x='a[$(touch canary)]'; echo ${!x}", "x='a[$(touch canary)]'; echo ${y:x}", "echo $[ $(touch canary) ]",
		"echo() { touch canary; }; echo x", "function ls { touch canary; }; ls", "trap 'touch canary' EXIT", "true() { echo x > canary; }; true", "echo x <<E\n$(touch canary)\nE", "echo <<<$(touch canary)", "{ echo x; } > canary",
		"for x in $(touch canary); do echo; done", "case $(touch canary) in x) echo;; esac", "while touch canary; do break; done", "echo x | while read x; do touch canary; done", "time touch canary", "! touch canary", "coproc touch canary",
		"PS4='$(touch canary)'; set -x; echo", "PROMPT_COMMAND='touch canary'; echo", "BASH_ENV=x echo", "e=touch; $e canary", "t{ou,}ch canary", "touc[h] canary", "${x:-touch} canary", "'touch' canary", "\\touch canary", "to\\\nuch canary",
		"echo \"\n$(touch canary)\n\"", "echo '\n'; touch canary # '", "echo # x\ntouch canary", "echo \\\ntouch canary", "echo a{b,$(touch canary)}", "echo ${x/a/$(touch canary)}", "echo \"${x/\"$(touch canary)\"/}\"", "a=(x $(touch canary)); echo", "a[$(touch canary)]=1; echo",
		"echo x |& touch canary", "((x=$(touch canary)))", "let 'a[$(touch canary)]=1'", "mapfile -C 'touch canary' -c 1 <<< x", "exec touch canary", "command touch canary", "builtin echo; touch canary", "enable -n echo; touch canary", "hash -p $(which touch) ls; ls canary",
		"declare -x x=$(touch canary)", "readonly x=$(touch canary)", "unset 'a[$(touch canary)]'", "read 'a[$(touch canary)]' <<< x", "wait 'a[$(touch canary)]'", "exec 3> canary", "exec {x}> canary", "echo ${x:=$(touch canary)}", "echo $'\\'; touch canary #'", "echo $\"$(touch canary)\"",
		"cat <<'E'\nE\ntouch canary", "echo <<\\E\n$(touch canary)\nE\ntouch canary", "if touch canary; then echo; fi", "(touch canary)", "f() { touch canary; }; f",
		"ls $(printf '%s' canary > canary)", "printf '%d' 'a[$(touch canary)]'", "[ 'a[$(touch canary)]' -eq 1 ]", "printf '%*d' 'a[$(touch canary)]' 1", "[[ 'a[$(touch canary)]' -gt 0 ]]", "echo ${a['$(touch canary)']}", "echo \"${a[`touch canary`]}\"", "[ x = x -o -v a[\\$(touch canary)] ]",
	} {
		if v := bash(p, c); v.Decision != tool.Allow {
			continue
		}
		ran++
		dir := t.TempDir()
		cmd := exec.CommandContext(t.Context(), shell, "--norc", "--noprofile", "-c", c)
		cmd.Dir = dir
		_ = cmd.Run()
		if _, err := os.Stat(filepath.Join(dir, "canary")); err == nil {
			t.Errorf("%q was allowed and made the file", c)
		}
	}
	t.Logf("%d were allowed", ran)
}

func TestPaths(t *testing.T) {
	p := policy(t, "allow edit_file(docs/**)", "allow write_file(/home/me/proj/out/*.txt)", "allow edit_file(~/notes/**)", "deny edit_file(docs/private/**)", "ask read_file(**/*.key)", "deny read_file(secret/**)", "allow write_file(**)", "allow edit_file(.claude/**)")
	for _, tc := range []struct {
		tool, path string
		want       tool.Decision
	}{
		{"read_file", "a", "allow"}, {"read_file", root + "/a", "allow"}, {"read_file", "../x", "ask"}, {"read_file", "/etc/passwd", "ask"}, {"read_file", "a.key", "ask"}, {"read_file", "d/e/a.KEY", "ask"},
		{"read_file", "secret/x", "deny"}, {"read_file", "SECRET/x", "deny"}, {"read_file", "./a/../secret/x", "deny"}, {"read_file", root + "/secret", "deny"}, {"read_file", "", "ask"}, {"read_file", "a\x00b", "ask"},
		{"ls", "", "allow"}, {"ls", "docs", "allow"}, {"ls", "..", "ask"}, {"grep", "docs", "allow"}, {"grep", "secret", "deny"}, {"grep", "a.key", "ask"}, {"ls", "secret", "deny"}, {"glob", "Secret/x", "deny"}, {"glob", "", "allow"},
		{"edit_file", "docs/a.md", "allow"}, {"edit_file", "docs/private/a", "deny"}, {"write_file", "docs/private/a", "deny"}, {"edit_file", "docs/../a", "ask"}, {"edit_file", "/home/me/notes/a", "allow"}, {"edit_file", "~/notes/a", "allow"}, {"write_file", "out/a.txt", "allow"},
		{"write_file", "x", "allow"}, {"write_file", "/x", "ask"}, {"write_file", ".git/hooks/x", "deny"}, {"write_file", "sub/.git/config", "deny"}, {"edit_file", ".claude/x", "deny"}, {"edit_file", ".Claude/x", "deny"}, {"edit_file", "a/.SUPERSTEP", "deny"},
		{"write_file", ".mcp.json", "deny"}, {"write_file", ".mcp.json ", "deny"}, {"write_file", ".g\u200cit/config", "deny"}, {"write_file", "git~1/config", "deny"}, {"write_file", ".git./config", "deny"}, {"write_file", ".vscode/tasks.json", "deny"}, {"write_file", "~/.zshrc", "deny"},
		{"write_file", "/home/me/.ssh/x", "deny"}, {"write_file", "..//.bashrc", "deny"}, {"write_file", ".github/x", "allow"}, {"write_file", ".gitignore", "allow"}, {"write_file", strings.Repeat("a/", 3000), "ask"},
	} {
		if v := file(p, tc.tool, tc.path); v.Decision != tc.want {
			t.Errorf("%s %.60q: %s %s, want %s", tc.tool, tc.path, v.Decision, v.Reason, tc.want)
		}
	}
	if v := p.Check(call("glob", map[string]any{"pattern": "/etc/*"})); v.Decision != tool.Ask {
		t.Errorf("%+v", v)
	}
	if v := p.Check(call("glob", map[string]any{"pattern": "../*", "path": "docs/.."})); v.Decision != tool.Ask {
		t.Errorf("%+v", v)
	}
}

func TestProtected(t *testing.T) {
	links := func(p string) string {
		return strings.Replace(p, root+"/link", root+"/.git", 1)
	}
	p, err := permit.New(&permit.Options{
		Root: root, Home: home, Resolve: links, Protected: []permit.Protected{{Path: "/data/trust.json"}, {Path: root + "/own"}}, Unprotect: []string{".husky/**"},
		Rules: map[permit.Layer][]permit.Rule{permit.User: rules(t, "allow write_file", "allow bash", "deny bash(rm *)"), permit.Granted: rules(t, "allow write_file(.git/**)")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]tool.Decision{
		"link/hooks/x": "deny", "link": "deny", "x": "allow", "/etc/x": "allow", "/data/trust.json": "deny", "/data/trust.json/x": "deny", "/data/trust.jsonx": "allow", "own/x": "deny", "own": "deny", ".husky/x": "allow", ".git/config": "deny",
	} {
		if v := file(p, "write_file", path); v.Decision != want {
			t.Errorf("%s: %+v", path, v)
		}
	}
	for command, want := range map[string]tool.Decision{
		"echo x > /etc/x": "allow", "echo x > .git/config": "deny", "echo x > link/config": "deny", "cat x": "allow", "rm x": "deny", "eval $x": "allow", "$x": "ask",
	} {
		if v := bash(p, command); v.Decision != want {
			t.Errorf("%s: %+v", command, v)
		}
	}
	if p.Protected("link/x") == "" || p.Protected("x") != "" {
		t.Error("Protected")
	}
	open := policy(t, "allow bash")
	for _, c := range []string{"eval $x", "$x", "rm -rf x", strings.Repeat("ls;", 1000)} {
		if v := bash(open, c); v.Decision != tool.Allow {
			t.Errorf("%.20s: %+v", c, v)
		}
	}
}

func TestOthers(t *testing.T) {
	p := policy(t, "allow web_fetch(domain:example.com)", "allow web_fetch(domain:*.go.dev)", "deny web_fetch(domain:evil.go.dev)", "allow mcp__github__get_*", "deny mcp__*__delete*", "deny skill(bad*)", "ask task(risky)")
	for _, tc := range []struct {
		tool, args string
		want       tool.Decision
	}{
		{"web_fetch", `{"url":"https://example.com/x"}`, "allow"}, {"web_fetch", `{"url":"https://EXAMPLE.com.:443/x"}`, "allow"}, {"web_fetch", `{"url":"https://example.com.evil.org"}`, "ask"}, {"web_fetch", `{"url":"https://x.example.com"}`, "ask"},
		{"web_fetch", `{"url":"https://pkg.go.dev"}`, "allow"}, {"web_fetch", `{"url":"https://go.dev"}`, "ask"}, {"web_fetch", `{"url":"https://evil.go.dev"}`, "deny"}, {"web_fetch", `{"url":"https://evilgo.dev"}`, "ask"}, {"web_fetch", `{"url":"https://example.com@evil.org"}`, "ask"},
		{"web_fetch", `{"url":"file:///etc/passwd"}`, "ask"}, {"web_fetch", `{"url":"https://example.com","url":"https://evil.org"}`, "ask"}, {"web_fetch", `{"url":"https://example.com","URL":"x"}`, "ask"}, {"web_fetch", `{`, "ask"}, {"web_fetch", `[]`, "ask"}, {"web_fetch", ``, "ask"},
		{"mcp__github__get_issue", `{}`, "allow"}, {"mcp__github__delete", `{}`, "deny"}, {"mcp__x__y", `{}`, "ask"}, {"script", `{}`, "ask"}, {"think", `{}`, "allow"}, {"todo", `{}`, "allow"}, {"skill", `{"name":"pdf"}`, "allow"}, {"skill", `{"name":"BADone"}`, "deny"}, {"skill", `{}`, "ask"},
		{"task", `{"agent":"risky"}`, "ask"}, {"task", `{"agent":"x"}`, "allow"}, {"web_search", `{"query":"x"}`, "allow"}, {"run_workflow", `{"workflow":"x"}`, "ask"}, {"read_file", `{"path":1}`, "ask"}, {"read_file", `{"path":null}`, "ask"}, {"bash", `{"command":["ls"]}`, "ask"},
	} {
		if v := p.Check(&tool.Tool{Name: tc.tool}, &tool.Call{Args: json.RawMessage(tc.args)}); v.Decision != tc.want {
			t.Errorf("%s %s: %+v, want %s", tc.tool, tc.args, v, tc.want)
		}
	}
	if v := p.Check(nil, nil); v.Decision != tool.Ask {
		t.Error(v)
	}
}

func TestLayers(t *testing.T) {
	o := &permit.Options{Root: root, Rules: map[permit.Layer][]permit.Rule{
		permit.User: rules(t, "ask bash", "deny edit_file(x)"), permit.Project: rules(t, "allow write_file(**)", "deny bash(go run *)"), permit.Run: rules(t, "allow bash(ls)"),
	}}
	p, err := permit.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if v := bash(p, "ls"); v.Decision != tool.Ask || v.Rule != "bash" || v.Origin != "user" {
		t.Errorf("ask wins over what a flag allows: %+v", v)
	}
	if v := bash(p, "go run x"); v.Decision != tool.Ask {
		t.Errorf("an untrusted project has no say: %+v", v)
	}
	o.TrustProject = true
	if p, err = permit.New(o); err != nil {
		t.Fatal(err)
	}
	if v := bash(p, "go run x"); v.Decision != tool.Deny || v.Origin != "project" {
		t.Errorf("%+v", v)
	}
	if v := file(p, "write_file", "a"); v.Decision != tool.Ask {
		t.Errorf("a project may not allow: %+v", v)
	}
	v := bash(p, "go test ./...")
	if v.Decision != tool.Ask || v.Always != "bash(go test *)" || v.Subject != "go test ./..." {
		t.Fatalf("%+v", v)
	}
	granted, err := p.With(permit.Granted, rules(t, "allow "+v.Always, "allow edit_file(**)", "allow bash(git *)")...)
	if err != nil {
		t.Fatal(err)
	}
	if v := bash(granted, "go test ./x && go test y"); v.Decision != tool.Allow || v.Origin != "run" {
		t.Errorf("an answer lifts the question: %+v", v)
	}
	if v := bash(p, "go test x"); v.Decision != tool.Ask {
		t.Errorf("With changed the policy: %+v", v)
	}
	if v := file(granted, "edit_file", "x"); v.Decision != tool.Deny {
		t.Errorf("an answer lifted a denial: %+v", v)
	}
	pushy, err := granted.With(permit.Agent, rules(t, "ask bash(git push *)")...)
	if err != nil {
		t.Fatal(err)
	}
	if v := bash(pushy, "git push x"); v.Decision != tool.Ask {
		t.Errorf("a wide answer lifted a narrow question: %+v", v)
	}
	o.ProjectMayAllow, o.Headless = true, true
	if p, err = permit.New(o); err != nil {
		t.Fatal(err)
	}
	if v := file(p, "write_file", "a"); v.Decision != tool.Allow {
		t.Errorf("%+v", v)
	}
	if v := bash(p, "go test ./..."); v.Decision != tool.Deny || v.Always != "" || !strings.Contains(v.Reason, "nobody can be asked") {
		t.Errorf("%+v", v)
	}
	ignored := 0
	for _, r := range p.List() {
		if r.Layer == "" {
			t.Errorf("%+v has no layer", r)
		}
		if r.Ignored != "" {
			ignored++
		}
	}
	if len(p.List()) != 5+len(permit.Defaults()) || ignored != 0 {
		t.Errorf("%d rules, %d ignored", len(p.List()), ignored)
	}
}

func TestAlways(t *testing.T) {
	p := policy(t)
	for _, tc := range []struct{ tool, key, arg, want string }{
		{"bash", "command", "go test ./...", "bash(go test *)"}, {"bash", "command", "go test a; go test b | go test c", "bash(go test *)"}, {"bash", "command", "go test a; ls", ""}, {"bash", "command", "go test a > x", ""}, {"bash", "command", "rm -rf x", "bash(rm -rf x)"},
		{"bash", "command", "python x.py", "bash(python x.py)"}, {"bash", "command", "cat x", "bash(cat *)"}, {"bash", "command", "cat $x", "bash(cat *)"}, {"bash", "command", "rm $x", ""}, {"bash", "command", "rm 'a b'", ""}, {"bash", "command", "eval x", "bash(eval x)"}, {"bash", "command", "timeout 9 go vet .", "bash(timeout 9 go vet .)"},
		{"edit_file", "path", "docs/a.md", "edit_file(docs/**)"}, {"edit_file", "path", "a.md", "edit_file(a.md)"}, {"edit_file", "path", "a*/b", ""}, {"edit_file", "path", ".git/x", ""}, {"read_file", "path", "/etc/x", "read_file(/etc/x)"}, {"web_fetch", "url", "https://a.b/c?d", "web_fetch(domain:a.b)"}, {"mcp__a__b", "x", "y", "mcp__a__b"}, {"run_workflow", "workflow", "w", "run_workflow(w)"},
	} {
		if v := p.Check(call(tc.tool, map[string]any{tc.key: tc.arg})); v.Always != tc.want {
			t.Errorf("%s %s: %q, want %q (%+v)", tc.tool, tc.arg, v.Always, tc.want, v)
		}
	}
	for _, command := range []string{ // these destroy, publish, start or change something elsewhere
		"kubectl delete pod x", "kubectl apply -f x.yaml", "kubectl exec web ls", "kubectl drain n1", "kubectl scale web --replicas=0", "kubectl rollout undo x", "docker run alpine", "docker rm x",
		"docker compose down -v", "docker container rm x", "docker system prune", "docker push a/b", "docker kill x", "git push origin main", "git push --force", "git -C x push",
		"git clean -fd", "git reset --hard", "git checkout .", "git branch -D x", "git stash drop", "git remote remove x", "git worktree remove x", "git restore .", "go run x.go",
		"go install a/b@latest", "npm run deploy", "npm publish", "npm unpublish x", "npx x", "cargo publish", "cargo install x", "gh repo delete x", "gh pr merge 5", "gh release create v1", "helm uninstall x",
		"terraform apply", "terraform destroy", "terraform state rm x", "pip uninstall x", "uv run x.py", "make deploy", "just deploy", "apt remove x", "brew uninstall x", "systemctl stop x", "dotnet run",
		"aws s3 rm x", "dropdb x", "make db:drop", "mvn deploy", "gradle publish",
	} {
		if v := p.Check(call("bash", map[string]any{"command": command})); v.Always != "bash("+command+")" {
			t.Errorf("%s: %q is offered, want the exact words", command, v.Always)
		}
	}
	for command, want := range map[string]string{
		"git log main": "git log *", "git status": "git status *", "kubectl get pods": "kubectl get *", "docker ps": "docker ps *", "npm test": "npm test *", "cargo build": "cargo build *",
		"terraform plan": "terraform plan *", "make test": "make test *",
	} {
		if v := p.Check(call("bash", map[string]any{"command": command})); v.Always != "bash("+want+")" {
			t.Errorf("%s: %q is offered, want %s", command, v.Always, want)
		}
	}
}

func TestMissing(t *testing.T) {
	p := policy(t)
	allowed, err := p.With(permit.Granted, rules(t, "allow bash(*)")...)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		p       *permit.Policy
		command string
		want    []string
	}{
		{p, "echo x >> f", []string{"bash(echo *)", "write_file(f)"}},
		{allowed, "echo x >> f", []string{"write_file(f)"}},
		{allowed, "echo x > a/f; echo y > a/g", []string{"write_file(a/**)"}},
		{p, "go test ./...", nil}, // a single rule is enough
		{p, "go test a; make b", []string{"bash(go test *)", "bash(make b *)"}},
		{p, "rm $x > f", nil},                  // no rule can tell what it does
		{allowed, "echo x > .git/config", nil}, // no rule allows it
		{allowed, "echo x > /dev/tcp/a/80", nil},
	} {
		v := bash(tc.p, tc.command)
		if !slices.Equal(v.Missing, tc.want) {
			t.Errorf("%s: %q, want %q (%+v)", tc.command, v.Missing, tc.want, v)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for _, tc := range []struct {
		text string
		col  int
		want string
	}{
		{"", 1, "is empty"}, {"bash()", 6, "the pattern is empty"}, {"bash(x", 7, "not closed"}, {"ba$h", 3, "cannot be in the name"}, {"Bash(ls)", 1, "called bash"}, {"web_fetch(example.com)", 11, "want domain:HOST"},
		{"web_fetch(domain:a/b)", 18, "is not a host"}, {"web_fetch(domain:*)", 18, "is not a host"}, {"web_fetch(domain:*.com)", 18, "is not a host"}, {"think(x)", 7, "takes no pattern"}, {"mcp__*(x)", 8, "has a wildcard"}, {"read_file(../x)", 11, ".. in it"}, {"read_file([)", 11, "valid pattern"},
		{"bash(a\nb)", 7, "control character"}, {"bash(" + strings.Repeat("*", 17) + ")", 6, "over 16"}, {strings.Repeat("a", 3000), 2049, "over 2048"}, {"(x)", 1, "cannot be in the name"}, {"bash ls", 5, "cannot be in the name"},
	} {
		_, err := permit.Parse(tool.Allow, tc.text, "")
		var e *permit.SyntaxError
		if !errors.As(err, &e) || e.Col != tc.col || !strings.Contains(e.Problem, tc.want) {
			t.Errorf("%.30q: %v, want column %d, %s", tc.text, err, tc.col, tc.want)
		}
	}
	if _, err := permit.Parse("alow", "bash", ""); err == nil || !strings.Contains(err.Error(), `did you mean "allow"?`) {
		t.Error(err)
	}
	bad := map[permit.Layer][]permit.Rule{permit.User: {{Decision: "allow", Tool: "red_file"}, {Decision: "no", Tool: "bash"}}, "me": nil}
	_, err := permit.New(&permit.Options{Rules: bad, Tools: []string{"mine"}, Shell: "bash", Unprotect: []string{"~/x"}})
	for _, want := range []string{`did you mean "read_file"?`, "want allow, ask or deny", `no layer "me"`, "no home folder"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v\nlacks %s", err, want)
		}
	}
}

func TestNamesOfOtherPrograms(t *testing.T) {
	for in, want := range map[string]string{"Read(x)": "no tool Read; here it is called read_file", "WebSearch": "here it is called web_search", "TodoWrite": "here it is called todo"} {
		if _, err := permit.Parse(tool.Allow, in, ""); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", in, err)
		}
	}
	if _, err := permit.New(&permit.Options{Rules: map[permit.Layer][]permit.Rule{permit.User: rules(t, "allow tavily_search")}, Tools: []string{"mine"}, Home: "/h"}); err == nil || !strings.Contains(err.Error(), `here it is called "web_search"`) {
		t.Error(err)
	}
}

// A rule that holds otherwise gives way to the patterns that were given with it.
func TestOtherwise(t *testing.T) {
	got := append(rules(t, "deny bash", "allow bash(git diff *)", "ask bash(git push)", "deny edit_file", "deny write_file"), rules(t, "deny read_file(*.env)")...)
	got[0].Otherwise = true
	p, err := policy(t, "allow bash(ls *)").With(permit.Agent, got...)
	if err != nil {
		t.Fatal(err)
	}
	for command, want := range map[string]tool.Decision{"git diff x": "allow", "git push": "ask", "ls": "deny", "git diff; ls": "deny", "rm x": "deny"} {
		if v := bash(p, command); v.Decision != want {
			t.Errorf("%s: %+v, want %s", command, v, want)
		}
	}
	child, err := p.With(permit.Agent, rules(t, "allow bash(ls *)")...)
	if err != nil {
		t.Fatal(err)
	}
	if v := bash(child, "ls"); v.Decision != tool.Deny {
		t.Errorf("a child freed itself: %+v", v)
	}
	if v := file(p, "write_file", "x"); v.Decision != tool.Deny {
		t.Errorf("%+v", v)
	}
	if v := file(p, "read_file", "x.env"); v.Decision != tool.Deny {
		t.Errorf("%+v", v)
	}
}

func TestTaint(t *testing.T) {
	var used []string
	g := permit.Taint(policy(t, "allow bash", "allow net(*)", "allow web_fetch", "allow mcp__*"), func(*tool.Call) []string { return used })
	check := func(when string, want map[string]tool.Decision) {
		for in, d := range want {
			name, arg, _ := strings.Cut(in, " ")
			args := map[string]any{"url": arg, "command": arg}
			if v := g.Check(call(name, args)); v.Decision != d {
				t.Errorf("%s: %s: %+v, want %s", when, in, v, d)
			}
		}
	}
	all := map[string]tool.Decision{"bash curl x": "allow", "web_fetch https://a.b/?x": "allow", "mcp__a__b ": "allow", "bash ls": "allow"}
	check("before", all)
	used = []string{"read_file", "think"}
	check("local", all)
	used = []string{"read_file", "mcp__x__y", "think"}
	check("after", map[string]tool.Decision{
		"bash curl x": "ask", "bash ls": "allow", "bash git status && ls": "ask", "bash git push": "ask", "bash eval x": "ask", "bash timeout 5 curl x": "ask", "bash ls $(curl x)": "ask", "bash echo x > /dev/tcp/a/1": "ask",
		"web_fetch https://a.b/?x": "ask", "web_fetch https://a.b/c": "ask", "web_fetch https://a.b": "ask", "web_fetch https://a.b/" + strings.Repeat("x", 300): "ask", "mcp__a__b ": "ask", "think ": "allow",
	})
}

// TestTaintNames: a rule allows a call of the tainted if it names where to.
func TestTaintNames(t *testing.T) {
	for _, c := range []struct {
		rules         []string
		name, arg     string
		network, asks bool
	}{
		{[]string{"allow web_fetch"}, "web_fetch", "https://a.b/c", false, true}, {[]string{"allow web_fetch(domain:a.b)"}, "web_fetch", "https://a.b/c", false, false},
		{[]string{"allow web_fetch(domain:*.b.c)"}, "web_fetch", "https://a.b.c/c", false, false},
		{[]string{"allow mcp__*"}, "mcp__a__b", "", false, true}, {[]string{"allow mcp__a*"}, "mcp__a__b", "", false, true}, {[]string{"allow mcp__a__*"}, "mcp__a__b", "", false, false},
		{[]string{"allow bash(curl *)", "allow net(a.b)"}, "bash", "curl a.b", false, false}, {[]string{"allow bash(curl *)", "allow net(*)"}, "bash", "curl a.b", false, true},
		{[]string{"allow bash(*)", "allow net(a.b)"}, "bash", "curl a.b", false, true},
		{[]string{"allow bash", "allow bash(git log *)", "allow net(a.b)"}, "bash", "git log x; curl a.b", false, true},
		{[]string{"allow *"}, "post", "", true, true}, {[]string{"allow post"}, "post", "", true, false}, {[]string{"allow *"}, "post", "", false, false},
	} {
		g := permit.Taint(policy(t, c.rules...), func(*tool.Call) []string { return []string{"recall"} })
		x, use := call(c.name, map[string]any{"url": c.arg, "command": c.arg})
		x.Network = c.network
		if v := g.Check(x, use); (v.Decision == tool.Ask) != c.asks {
			t.Errorf("%q: %s %s: %+v", c.rules, c.name, c.arg, v)
		}
		use.Stands = func(string) bool { return true }
		if v := g.Check(x, use); c.name == "web_fetch" && v.Decision != tool.Allow {
			t.Errorf("%q: an address that stands somewhere: %+v", c.rules, v)
		}
	}
}

// TestTaintBounded: where the sandbox alone allows commands, the net rules say where they may send something. One for every host says nothing.
func TestTaintBounded(t *testing.T) {
	seen := func(*tool.Call) []string { return []string{"web_fetch"} }
	for _, c := range []struct {
		rules   []string
		auto    bool
		command string
		want    tool.Decision
	}{
		{[]string{"allow net(a.b)"}, true, "curl a.b", "allow"}, {[]string{"allow net(*)"}, true, "curl a.b", "ask"},
		{[]string{"allow net(a.b)", "allow net(*)"}, true, "curl a.b", "ask"}, {nil, true, "curl a.b", "allow"},
		{[]string{"allow net(a.b)"}, false, "curl a.b", "ask"}, {[]string{"allow net(a.b)", "ask bash(curl *)"}, true, "curl a.b", "ask"},
	} {
		p := policy(t, c.rules...).Bounded(permit.Confined, c.auto)
		if v := bash(permit.Taint(p, seen), c.command); v.Decision != c.want || v.Bounded && v.Rule != "" {
			t.Errorf("%q: %+v, want %s", c.rules, v, c.want)
		}
		if v := permit.Taint(p, seen).Check(call("bash", map[string]any{"command": c.command, "unsandboxed": true})); v.Decision != tool.Ask {
			t.Errorf("%q, outside: %+v", c.rules, v)
		}
	}
	// A call that no rule and no sandbox allows names nothing, whatever gate says that it may be made.
	open := gate(func(*tool.Tool, *tool.Call) tool.Verdict {
		return tool.Verdict{Decision: tool.Allow, Origin: string(permit.User)}
	})
	if v := bash(permit.Taint(open, seen), "curl a.b"); v.Decision != tool.Ask {
		t.Errorf("%+v", v)
	}
}

type gate func(*tool.Tool, *tool.Call) tool.Verdict

func (g gate) Check(t *tool.Tool, c *tool.Call) tool.Verdict { return g(t, c) }

// TestTaintWithoutNetwork: a command that reaches nothing sends nothing.
func TestTaintWithoutNetwork(t *testing.T) {
	g := permit.Taint(policy(t, "allow bash"), func(*tool.Call) []string { return []string{"web_fetch"} })
	if v := bash(g, "curl x"); v.Decision != tool.Allow {
		t.Errorf("%+v", v)
	}
	if v := g.Check(call("bash", map[string]any{"command": "curl x", "unsandboxed": true})); v.Decision != tool.Ask {
		t.Errorf("outside: %+v", v)
	}
}

// TestCommandNames: a star stands for no part of a path in the command's own name.
func TestCommandNames(t *testing.T) {
	p := policy(t, "allow bash(ls*)", "allow bash(scripts/*)", "allow bash(/opt/*/bin/x *)", "deny bash(rm *)")
	for command, want := range map[string]tool.Decision{
		"ls": "allow", "lsx a/b": "allow", "ls a/../b": "allow", "lsx/../../../../usr/bin/touch F": "ask", "lsx/../evil.sh": "ask", "./ls": "ask", "/bin/ls": "ask",
		"scripts/a": "allow", "scripts/a b/c": "allow", "scripts/../a": "ask", "scripts/a/b": "ask", "/opt/a/bin/x y": "allow", "/opt/a/b/bin/x": "ask", "/opt/../bin/x": "ask", "/bin/rm y": "deny",
	} {
		if v := bash(p, command); v.Decision != want {
			t.Errorf("%q: %+v, want %s", command, v, want)
		}
	}
	if v := bash(policy(t, "allow bash(*)"), "./x"); v.Decision != tool.Ask {
		t.Errorf("bash(*): %+v", v)
	}
}

// TestUnconfined: where nothing bounds commands, each that does more than read is asked about, whatever the rules allow.
func TestUnconfined(t *testing.T) {
	of := func(c permit.Confinement, auto bool, lines ...string) *permit.Policy {
		p, err := permit.New(&permit.Options{Root: root, Home: home, Sandbox: c, Auto: auto, Rules: map[permit.Layer][]permit.Rule{permit.User: rules(t, lines...)}})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, tc := range []struct {
		p       *permit.Policy
		command string
		want    tool.Decision
	}{
		{of(permit.Unconfined, false, "allow bash"), "ls | grep x", "allow"},
		{of(permit.Unconfined, false, "allow bash"), "cat < a.txt", "allow"},
		{of(permit.Unconfined, false, "allow bash"), "go test .", "ask"},
		{of(permit.Unconfined, false, "allow bash", "allow bash(go test *)"), "go test .", "ask"},
		{of(permit.Unconfined, false, "allow bash"), "PATH=.; ls", "ask"},
		{of(permit.Unconfined, false, "allow bash"), "ls() { x; }; ls", "ask"},
		{of(permit.Unconfined, false, "allow bash"), "ls > x", "ask"},
		{of(permit.Unconfined, false, "allow bash"), "ls $(x)", "ask"},
		{of(permit.Unconfined, false, "deny bash"), "ls", "deny"},
		{of(permit.Exempt, false, "allow bash(go test *)"), "go test .", "allow"},
		{of(permit.Exempt, false), "go test .", "ask"},
		{of(permit.Confined, true), "go test .", "allow"},
		{of(permit.Unconfined, true), "go test .", "ask"},
		{of(permit.Exempt, true), "go test .", "ask"},
		{of(permit.Confined, true), "eval $x", "allow"},
		{of(permit.Confined, true, "ask bash(go *)"), "go test .", "ask"},
		{of(permit.Confined, true, "deny bash(go *)"), "ls; go test .", "deny"},
		{of(permit.Confined, true, "deny bash(go *)"), "env go test .", "ask"},
	} {
		if v := bash(tc.p, tc.command); v.Decision != tc.want {
			t.Errorf("%q: %+v, want %s", tc.command, v, tc.want)
		}
	}
	outside := func(p *permit.Policy, command string) tool.Verdict {
		return p.Check(call("bash", map[string]any{"command": command, "unsandboxed": true}))
	}
	for _, tc := range []struct {
		p       *permit.Policy
		command string
		want    tool.Decision
	}{
		{of(permit.Confined, true, "allow bash", "allow *"), "make deploy", "ask"},
		{of(permit.Confined, false, "allow unsandboxed(make deploy)"), "make deploy", "allow"},
		{of(permit.Confined, false, "allow unsandboxed(make *)"), "make deploy", "ask"},
		{of(permit.Confined, false, "allow unsandboxed(make deploy)"), "make deploy; id", "ask"},
		{of(permit.Confined, false, "allow unsandboxed(make deploy)", "deny bash(make *)"), "make deploy", "deny"},
		{of(permit.Confined, false, "allow unsandboxed(make deploy)", "ask bash(make *)"), "make deploy", "ask"},
	} {
		if v := outside(tc.p, tc.command); v.Decision != tc.want {
			t.Errorf("outside: %q: %+v, want %s", tc.command, v, tc.want)
		}
	}
	p := of(permit.Confined, false)
	if v := outside(p, "make deploy"); v.Decision != tool.Ask || v.Always != "" {
		t.Errorf("%+v", v)
	}
	for _, layer := range []permit.Layer{permit.Agent, permit.Granted} {
		more, err := p.With(layer, rules(t, "allow unsandboxed(make deploy)")...)
		if err != nil {
			t.Fatal(err)
		}
		if v := outside(more, "make deploy"); v.Decision != tool.Ask {
			t.Errorf("%s: %+v", layer, v)
		}
	}
}

func TestNetwork(t *testing.T) {
	for want, lines := range map[string][]string{
		"":                         {"allow bash", "allow *"},
		"a.org b.org":              {"allow net(b.org)", "allow net(a.org)", "allow net(a.org)"},
		"a.org":                    {"allow net(a.org)", "allow net(b.org)", "deny net(b.org)"},
		"*":                        {"allow net(*)"},
		"x.org":                    {"allow net(*)", "allow net(x.org)", "ask net(y.org)"},
		"d.org":                    {"allow net(d.org)", "allow net(*.a.org)", "deny net(evil.a.org)"},
		"c.org":                    {"allow net(c.org)", "allow net(b.a.org)", "deny net(*.a.org)"},
		"*.registry.example.org z": {"allow net(*.registry.example.org)", "allow net(z)"},
	} {
		if got := strings.Join(policy(t, lines...).Network(), " "); got != want {
			t.Errorf("%q: %q, want %q", lines, got, want)
		}
	}
	if got := policy(t, "allow net(a.org)", "deny net").Network(); len(got) != 0 {
		t.Error(got)
	}
	for _, bad := range []string{"net", "net(a b)", "net(https://a.org)", "net(*.org)", "net(a*)", "unsandboxed"} {
		if _, err := permit.Parse(tool.Allow, bad, ""); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

// TestDenyNeverAllows: more rules that deny never make a decision laxer.
func TestDenyNeverAllows(t *testing.T) {
	texts := []string{"bash", "bash(ls *)", "bash(echo*)", "bash(* x)", "bash(rm *)", "bash(*)", "read_file(**)", "write_file(a/**)", "edit_file(**/b)", "grep(a)", "web_fetch(domain:a.b)", "*", "mcp__*", "bash(git $x)"}
	layers := []permit.Layer{permit.User, permit.Project, permit.Agent, permit.Run, permit.Granted, permit.BuiltIn}
	calls := []string{"bash\tls", "bash\techo $x x", "bash\tls; rm x", "bash\techo $(ls) > a/b", "bash\ttimeout 5 ls x", "bash\teval x", "read_file\ta/b", "write_file\ta/b", "grep\ta", "grep\t.", "web_fetch\thttps://a.b", "mcp__x__y\t", "bash\tx=1 ls", "bash\tfind . -exec ls {} +"}
	order := map[tool.Decision]int{tool.Deny: 0, tool.Ask: 1, tool.Allow: 2}
	rapid.Check(t, func(r *rapid.T) {
		o := &permit.Options{Root: root, TrustProject: true, ProjectMayAllow: true, Rules: map[permit.Layer][]permit.Rule{}}
		one := func(d []tool.Decision, label string) permit.Rule {
			rule, err := permit.Parse(rapid.SampledFrom(d).Draw(r, label), rapid.SampledFrom(texts).Draw(r, label), "")
			if err != nil {
				r.Fatal(err)
			}
			rule.Otherwise = rapid.Bool().Draw(r, "otherwise")
			return rule
		}
		for range rapid.IntRange(0, 6).Draw(r, "n") {
			l := rapid.SampledFrom(layers).Draw(r, "layer")
			o.Rules[l] = append(o.Rules[l], one([]tool.Decision{tool.Allow, tool.Ask, tool.Deny}, "rule"))
		}
		before, err := permit.New(o)
		if err != nil {
			r.Fatal(err)
		}
		l := rapid.SampledFrom(layers).Draw(r, "layer of the denial")
		deny := one([]tool.Decision{tool.Deny}, "denial")
		deny.Otherwise = false
		o.Rules[l] = append(o.Rules[l], deny)
		after, err := permit.New(o)
		if err != nil {
			r.Fatal(err)
		}
		name, arg, _ := strings.Cut(rapid.SampledFrom(calls).Draw(r, "call"), "\t")
		tl, c := call(name, map[string]any{"path": arg, "command": arg, "url": arg})
		a, b := before.Check(tl, c), after.Check(tl, c)
		if order[b.Decision] > order[a.Decision] {
			r.Fatalf("%s %s: %+v became %+v with deny %s", name, arg, a, b, deny)
		}
	})
}

func Example() {
	r, err := permit.Parse(tool.Allow, "bash(git log *)", "config.yaml:3")
	if err != nil {
		panic(err)
	}
	p, err := permit.New(&permit.Options{Root: "/home/me/proj", Rules: map[permit.Layer][]permit.Rule{permit.User: {r}}})
	if err != nil {
		panic(err)
	}
	for _, command := range []string{"git log --oneline", "git log | wc -l", "git log $(rm -rf .)", "echo x > .git/config"} {
		v := p.Check(&tool.Tool{Name: "bash"}, &tool.Call{Args: json.RawMessage(fmt.Sprintf(`{"command":%q}`, command))})
		fmt.Printf("%s: %s\n", v.Decision, v.Reason)
	}
	// Output:
	// allow: allow by the rule bash(git log *) (user, config.yaml:3)
	// ask: no rule allows the command wc -l
	// ask: no rule allows the command rm -rf .
	// deny: .git/config is protected (configuration and hooks of Git), and no rule may allow writing it; only the user's own list of exceptions can
}

// TestProtectedPaths: where each form of a protected path holds, and which wins.
func TestProtectedPaths(t *testing.T) {
	rules := map[permit.Layer][]permit.Rule{permit.Run: rules(t, "allow write_file", "allow bash", "deny write_file(docs/CLAUDE.md)"), permit.Granted: rules(t, "allow write_file(AGENTS.md)", "allow write_file(**)")}
	o := &permit.Options{Root: "/work/.config/proj", Home: home, Rules: rules, Unprotect: []string{"open/**", "GEMINI.md"}, Protected: []permit.Protected{
		{Path: "skills/", Why: "skills"}, {Path: "**/open/", Why: "x"}, {Path: "**/.config/tool/", Why: "y"}, {Path: "**/.config/proj/", Why: "the root"}, {Path: "/state/", Why: "z"},
		{Path: "lib/a.ts", Ask: true}, {Path: "both", Ask: true}, {Path: "both/", Why: "both"},
	}}
	p, err := permit.New(o)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]tool.Decision{
		"skills": "deny", "skills/a/b": "deny", "SKILLS/a": "deny", "\u017fkills/a": "deny", "skills./a": "deny", "ski\u200blls/a": "deny", "sub/skills/a": "allow", "skillset": "allow", "/elsewhere/skills/a": "allow",
		"a/OPEN/b": "deny", "open/b": "allow", "../tool/x": "deny", "/x/.config/tool": "deny", "x": "allow", "a/.config/proj/x": "deny",
		"/state/x": "deny", "/State": "deny", "lib/a.ts": "ask", "lib/A.TS": "ask", "lib/b.ts": "allow", "both": "deny",
		"AGENTS.md": "ask", "sub/agents.md": "ask", "docs/CLAUDE.md": "deny", "GEMINI.md": "allow", "docs/GEMINI.md": "ask", "AGENTS.md.bak": "allow",
		"GIT~1/config": "deny", "git~12": "deny", "SUPERS~1/tools/x": "deny", "MCP~1.JSO": "deny", "gi~1": "allow", "git~x": "allow",
	} {
		if v := file(p, "write_file", path); v.Decision != want || v.Decision == tool.Ask && v.Always != "" {
			t.Errorf("%s: %+v, want %s", path, v, want)
		}
	}
	for command, want := range map[string]tool.Decision{"echo x >> AGENTS.md": "ask", "cat AGENTS.md": "allow", "ls skills": "allow"} {
		if v := bash(p, command); v.Decision != want {
			t.Errorf("%s: %+v, want %s", command, v, want)
		}
	}
	if p.Protected("AGENTS.md") != "" || p.Protected("skills") == "" {
		t.Error("Protected")
	}
	o.Headless = true
	if p, err = permit.New(o); err != nil {
		t.Fatal(err)
	}
	if v := file(p, "write_file", "AGENTS.md"); v.Decision != tool.Deny {
		t.Errorf("%+v", v)
	}
	for _, bad := range []string{"", "/", "**/", "a/../b", "**//abs"} {
		if _, err := permit.New(&permit.Options{Protected: []permit.Protected{{Path: bad}}}); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	for _, x := range append(permit.AlwaysProtected(), o.Protected[0]) {
		if name := strings.TrimSuffix(strings.TrimPrefix(x.Path, "**/"), "/"); !x.Ask && p.Protected(name) == "" {
			t.Errorf("%s is not protected", x.Path)
		}
	}
}

// TestCovers: what a worker takes from a run is no more than a rule of its own allows, and never what leaves the sandbox.
func TestCovers(t *testing.T) {
	for _, c := range []struct {
		own, brought string
		covers       bool
	}{
		{"bash", "bash(go test *)", true}, {"bash(go test *)", "bash(go test *)", true}, {"bash(go *)", "bash(go test *)", true}, {"bash(go test *)", "bash(go *)", false},
		{"bash(go test *)", "bash", false}, {"bash(*)", "bash(go test)", false}, {"mcp__*", "mcp__a__b", true}, {"mcp__a__*", "mcp__*", false}, {"edit_file(docs/**)", "edit_file(docs/**)", true},
		{"edit_file(docs/**)", "edit_file(**)", false}, {"edit_file", "edit_file(docs/**)", true}, {"net(a.b)", "net(a.b)", true}, {"net(a.b)", "net(c.b)", false}, {"net(*)", "net(*)", false},
		{"net(*)", "net(a.b)", false}, {"unsandboxed(make x)", "unsandboxed(make x)", false}, {"*", "web_fetch", true}, {"*", "*", false}, {"*", "un*", false},
	} {
		own, brought := rules(t, "allow "+c.own)[0], rules(t, "allow "+c.brought)[0]
		if got := own.Covers(brought); got != c.covers {
			t.Errorf("%s covers %s: %t", c.own, c.brought, got)
		}
	}
}
