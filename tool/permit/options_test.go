package permit_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
)

// TestOptions: options that run programs or write files are asked about under patterns for commands that read.
func TestOptions(t *testing.T) {
	p := policy(t, "allow bash(*)", "allow write_file(out/**)")
	for _, c := range []string{
		"git grep -O'touch pwn #' foo", "git grep -nO'touch pwn' foo", "git grep --open-files-in-pager=x foo", "git grep --op=x foo", "git grep --open foo", "git -C . grep -Ox foo", "git grep -e -- -Ox", "/usr/bin/git grep -Ox foo", "timeout 5 git grep -Ox foo", "bash -c 'git grep -Ox foo'",
		`git ls-remote --upload-pack="touch pwn;" .`, "git ls-remote --upl=x .", "git ls-remote --exec=x .", "git fetch --upload-pack=x .", "git fetch --upload-pack x .", "git pull --upload-pack=x", "git clone -u x . y", "git clone -qu x . y", "git clone -c a=b . y", "git clone --config=a=b . y", "git clone --template=x . y", "git init --template=x",
		"git push --receive-pack=x .", "git push --exec=x .", "git push --ex=x .", "git log --output=F", "git log --outp=F", "git diff --output F", "git show --output=out/x", "git diff --ext-diff", "git log --textconv", "git archive -o x HEAD", "git archive --remote=x --exec=y HEAD", "git format-patch -o x",
		"git bisect run x", "git rebase --exec x", "git rebase -x x", "git rebase -ix x", "git submodule foreach x", "git submodule --quiet foreach x", "git filter-branch x", "git difftool", "git difftool -x y", "git mergetool", "git hook run x", "git maintenance run", "git config alias.x '!y'", "git fetch ext::x", "git clone 'ext::sh -c x'", "git remote add a ext::x", "git push foo::x", "git log $x", "git log \"$x\"", "git log -$x", "x='a --output=F'; git log HEAD$x", "git log --format=$x", "sort a$x", "awk -v a=$x 1", "sed p a$x", "git --git-dir=x log",
		"sort -o F x", "sort -ro F x", "sort --output=F x", "sort --compress-program=x y", "sort --comp=x y", "sort $x", "tree -o F", "tree -ao F", "shuf -oF", "split --filter=x y", "file -C -m x", "date -s x", "date --set=x", "find . -delete", "find . -fprint F", "find . -exec $x \\;", "rg --pre x y", "rg --pre=x y", "rg --hostname-bin=x y",
		"sed -i s/a/b/ x", "sed -i.bak s/a/b/ x", "sed -ni p x", "sed --in-place s/a/b/ x", "sed 'w F' x", "sed -n 's/a/b/w F' x", "sed 's/a/b/e' x", "sed e x", "sed '1e touch pwn' x", "sed -e p -e 'w F' x", "sed -f F x", "sed -ne 'w F' x", "sed $x y", "sed '/a/w F' x", "sed -n '/[/]/w F' x", "sed 's,a,b,;w F' x", "sed p -i x", "sed --expression='w F' x", "sed 'r F' x",
		`awk 'BEGIN { system("x") }'`, `awk '{ print > "F" }' x`, `awk '{ print | "x" }' y`, `awk 'BEGIN { "x" | getline }'`, "awk -f F x", "awk $x y", "gawk -i inplace p x", "awk -v a=b 'BEGIN{system(a)}'", "awk -F: '{print>$1}' x",
		"tar -xf a --to-command=x", "tar --to-com=x -xf a", "tar -cf a --checkpoint-action=exec=x b", "tar -I x -xf a", "tar -xIx -f a", "tar xIf x a", "tar --use-compress-program=x -xf a", "less +!x y", "less -oF x", "man -P x y", "man --pager=x y", "curl -o F x", "curl -sSo F x", "curl -K F", "curl -O x", "curl --output F x", "curl -w '%output{F}' x", "wget -O F x", "wget -qO F x", "wget -e x=y z",
		"go test -exec x ./...", "go test --exec=x", "go vet -toolexec=x .", "go build -toolexec x .", "go vet -vettool=x", "go env -w A=b", "go build '-ldflags=-extld=x'", "go build -ldflags '-extld x'", "go build $x", "npm --prefix x test", "npm config set a b", "npm exec x", "npm run --script-shell=x y", "pip --python x list", "docker run -v /:/x y", "docker run --privileged y", "rsync -e x a b", "rsync -ae x a b", "rsync --rsh=x a b", "scp -S x a b", "scp -oProxyCommand=x a b", "zip -T -TT x a b", "zip -T --unzip-command=x a b", "ssh -o ProxyCommand=x y", "cargo --config x build",
	} {
		if v := bash(p, c); v.Decision != tool.Ask {
			t.Errorf("%q: %+v", c, v)
		}
		if v := bash(policy(t), c); v.Decision == tool.Allow || v.Always != "" && strings.HasSuffix(v.Always, "*)") {
			t.Errorf("%q offers %q", c, v.Always)
		}
	}
	for _, c := range []string{
		"git grep foo", "git grep -n -e foo -- '*.go'", "git log --oneline -5 -- $x", "git log --format=%H --text", "git log -S'foo::bar'", "git status", "git commit -c HEAD", "git log -c", "git push origin main", "git fetch", "git clone https://a.b/c", "git config --get user.name", "git bisect start", "git submodule status", "git clean -x", "git diff -- a.go",
		"sort -k 2 -t o x", "sort -n", "sort -to x", "tree -L 2", "date +%s", "find . -name x", "rg foo", "sed -n '1,5p' x", "sed 's/a/b/g' x", "sed -n -e '/a/,/b/p' x", "sed 's|a|b|; s/c/d/2' x", "sed '/a/d' x", "awk '{ print $1 }' x", "awk -F: '$1 == 2 || $3 >= 4' x", "tar -tf a.tar", "tar tf a", "curl -s https://a.b", "curl -H 'o: K' x",
		"go test -run X ./...", "go test $x", "go vet ./...", "go env GOPATH", "go build ./...", "npm run test", "npm test", "pip list", "docker ps", "docker run x", "rsync -a a b", "zip -r a b",
	} {
		if v := bash(p, c); v.Decision != tool.Allow {
			t.Errorf("%q: %+v", c, v)
		}
	}
	for _, c := range []string{"git log --output=.git/hooks/pre-commit", "git log --output .mcp.json", "sort -o ~/.bashrc x", "curl -o.git/config x"} {
		if v := bash(policy(t, "allow bash"), c); v.Decision == tool.Allow {
			t.Errorf("%q: %+v", c, v)
		}
	}
	if v := bash(policy(t), "git grep foo"); v.Always != "bash(git grep *)" {
		t.Errorf("%+v", v)
	}
}

// TestProtectedArgs: no rule lets a command that may write have a protected path unasked.
func TestProtectedArgs(t *testing.T) {
	o := &permit.Options{Root: root, Home: home, Unprotect: []string{".husky/**"}, Protected: []string{"/state"}, Rules: map[permit.Layer][]permit.Rule{permit.Run: rules(t, "allow bash")},
		Resolve: func(p string) string { return strings.Replace(p, root+"/link", root+"/.git", 1) }}
	p, err := permit.New(o)
	if err != nil {
		t.Fatal(err)
	}
	o.Headless = true
	alone, err := permit.New(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []string{
		"cp x ~/.config/superstep/permissions.yaml", "echo a | tee .superstep/config.yaml", "cd .git/hooks && cp a b", "cp x $HOME/.config/superstep/permissions.yaml", `cp x "$PWD/.git/hooks/a"`, "cd ~/.config && cp x superstep/permissions.yaml", "cd ~ && cd .config; echo x > superstep/a", "pushd .git; touch x",
		"dd if=x of=.git/config", "cp -t.git/hooks x", "cp --target-directory=.git/hooks x", "timeout 5 cp x .git/config", "sudo cp x .git/config", "bash -c 'cp x .git/config'", "bash -c 'cp x $1' _ .git/config", "find . -name x -exec cp {} .git/hooks \\;", "find .git -delete", "ls | xargs cp -t .git/hooks", "eval 'cp x .git/config'", "$x .git/config", "rm -rf .git", "ln -s .git/hooks foo",
		"sed -i s/a/b/ .git/config", "sed -n 'w .git/hooks/x' y", "sort -o x .npmrc", "cp x link/hooks/y", "cp x /state/y", "python x.py .mcp.json", "mkdir -p .superstep", "chmod +x .git/hooks/x", "git -C .git config a b", strings.Repeat("nohup ", 30) + "cp x .git/config", "cp x .GIT/config", "(cp x .git/config)", "x=$(cp x .git/config)",
	} {
		if v := bash(p, c); v.Decision != tool.Ask || v.Always != "" {
			t.Errorf("%q: %+v", c, v)
		}
		if v := bash(alone, c); v.Decision != tool.Deny {
			t.Errorf("%q: %+v", c, v)
		}
		if permitted := p.Grants("bash", &tool.Tool{Name: "bash"}, &tool.Call{Args: json.RawMessage(`{"command":"cp x .git/config"}`)}); permitted {
			t.Fatal("granted")
		}
	}
	for _, c := range []string{
		"cat .git/config", "timeout 5 cat .git/config", "ls -la .git", "grep -r x .superstep", "diff .mcp.json x", "find .git -name x", "git diff .mcp.json", "git add .mcp.json", "cp x .husky/y", "cp a b", "cd sub && cp a b", "cp $x $y", "git commit -m 'about .npmrc'", "git clone $x/repo.git", "sed -n 1p .mcp.json", "echo x > a; cd .. && ls", "cat ~/.ssh/config",
	} {
		if v := bash(p, c); v.Decision != tool.Allow {
			t.Errorf("%q: %+v", c, v)
		}
	}
}

var _ tool.Granter = (*permit.Policy)(nil)

func TestGrants(t *testing.T) {
	p := policy(t, "deny bash(git push *)", "ask bash(go *)")
	for _, tc := range []struct {
		rule, command string
		want          bool
	}{
		{"bash(git log *)", "git log -3", true}, {"bash(git log *)", "git log; rm x", false}, {"bash(git log *)", "git log --output=x", false}, {"bash(git *)", "git push", false}, {"bash", "git push", false}, {"bash(go *)", "go test", true}, {"bash", "go test", false}, {"bash(", "ls", false}, {"ba$h", "ls", false},
	} {
		tl, c := call("bash", map[string]any{"command": tc.command})
		if got := p.Grants(tc.rule, tl, c); got != tc.want {
			t.Errorf("%s %s: %v", tc.rule, tc.command, got)
		}
	}
	used := []string{"read_file"}
	g, ok := permit.Taint(p, func(*tool.Call) []string { return used }).(tool.Granter)
	if !ok {
		t.Fatal("the taint gate is no Granter")
	}
	tl, c := call("bash", map[string]any{"command": "curl x"})
	if !g.Grants("bash(curl *)", tl, c) {
		t.Error("before")
	}
	used = []string{"web_fetch"}
	if g.Grants("bash(curl *)", tl, c) {
		t.Error("after")
	}
	if tl, c = call("bash", map[string]any{"command": "ls"}); !g.Grants("bash(ls *)", tl, c) || g.Grants("bash(ls *)", nil, nil) {
		t.Error("local")
	}
}

func TestTaintOptions(t *testing.T) {
	g := permit.Taint(policy(t, "allow bash"), func(*tool.Call) []string { return []string{"web_fetch"} })
	for c, want := range map[string]tool.Decision{
		"git grep -O'curl x #' foo": "ask", "git log --output=x": "ask", "git ls-remote --upload-pack=x .": "ask", "git commit -m x": "ask", "git fetch": "ask", "git -C . push": "ask", "git log --ext-diff": "ask", "git rebase -x y": "ask", "sort -o x": "ask", "tree -o x": "ask",
		"git grep foo": "allow", "git -C sub log": "allow", "git diff": "allow", "ls": "allow", "git add x": "allow",
	} {
		if v := bash(g, c); v.Decision != want {
			t.Errorf("%q: %+v", c, v)
		}
	}
}

func TestKeyFiles(t *testing.T) {
	p := policy(t)
	for path, want := range map[string]tool.Decision{
		".env": "ask", "a/.env": "ask", ".env.local": "ask", "a/.ENV.production": "ask", ".env.example": "allow", "a/.env.sample": "allow", ".env.template": "allow", ".envrc": "allow", "x/.aws/credentials": "ask", ".ssh/config": "ask", ".gnupg/x": "ask", ".netrc": "ask", ".npmrc": "ask", ".pypirc": "ask",
		"a.pem": "ask", "b/c.key": "ask", "id_rsa": "ask", "id_rsa.pub": "ask", "x/id_ed25519": "ask", "credentials.json": "ask", ".config/gcloud/x": "ask", ".kube/config": "ask", "keys.go": "allow", "a.go": "allow",
	} {
		for _, name := range []string{"read_file", "grep"} {
			if v := file(p, name, path); v.Decision != want {
				t.Errorf("%s %s: %+v", name, path, v)
			}
		}
	}
	for _, path := range []string{"", ".", "docs"} {
		if v := file(p, "grep", path); v.Decision != tool.Allow {
			t.Errorf("grep %q: %+v", path, v)
		}
	}
	if v := file(policy(t, "allow read_file(**/.env)"), "read_file", "a/.env"); v.Decision != tool.Allow {
		t.Errorf("%+v", v)
	}
	v := file(p, "read_file", "certs/a.pem")
	if v.Decision != tool.Ask || v.Always == "" || !p.Grants(v.Always, &tool.Tool{Name: "read_file"}, &tool.Call{Args: json.RawMessage(`{"path":"certs/a.pem"}`)}) {
		t.Errorf("%+v", v)
	}
}
