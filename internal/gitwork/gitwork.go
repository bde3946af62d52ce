// Package gitwork does the git work of runs: branches and linked worktrees of their own, commits and merges that a crash
// never doubles, and nothing lost. It runs the git command, version 2.38 or later.
//
// The user's checkout, index, HEAD, branches, stash and configuration are never written. All that is written lies in the folder
// of the worktrees, in objects, in refs/heads/superstep/, in refs/superstep/ and in the metadata of our worktrees.
//
// No hook, filter, driver, alias, helper or monitor of the repository or the user runs. Worktrees are untrusted: their .git file
// is written and never read.
//
// All methods may be called at any time from any goroutine and process; those that write wait for a lock of the repository.
package gitwork

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/superstep-dev/superstep/internal/procgroup"
)

// Where our refs are.
const (
	heads = "refs/heads/superstep/" // branches, see Branch
	bases = "refs/superstep/base/"  // where a branch began, by the name of the branch
	kepts = "refs/superstep/kept/"  // uncommitted changes that a reset saved, by the name of the branch
)

// Options of Open. Zero values mean the written defaults.
type Options struct {
	Data       string   // the data folder, which has the worktrees in its folder "worktrees". Required, absolute, and outside of the checkout
	Environ    []string // the environment, of which git gets paths and languages. The default is that of this process
	Name, Mail string   // the author of commits. The default is the user that git knows
}

// A Repo is the repository around a folder. Its fields must not be changed.
type Repo struct {
	Top    string // the root of the user's checkout
	Common string // the git directory that all worktrees share

	folder string  // of the worktrees of this repository
	git    command // on the user's checkout, for what only reads
	varied bool    // the configuration of a worktree may differ from that of the checkout
	ident  []string
}

// Open finds the repository of a folder and checks that it can be worked with. It writes nothing.
func Open(ctx context.Context, dir string, o *Options) (*Repo, error) {
	environ := o.Environ
	if environ == nil {
		environ = os.Environ()
	}
	program, err := procgroup.Look(environ, "git")
	if err != nil {
		return nil, fmt.Errorf("git is not in PATH: install git %s or later", oldest)
	}
	if dir, err = resolved(dir); err != nil {
		return nil, fmt.Errorf("the folder of the repository: %w", err)
	}
	c := command{git: program, environ: procgroup.Base(environ), work: dir}
	if err := c.checkVersion(ctx); err != nil {
		return nil, err
	}
	r := &Repo{git: c}
	settings, err := r.discover(ctx, dir, environ)
	if err != nil {
		return nil, err
	}
	if r.folder, err = treesFolder(o.Data, r); err != nil {
		return nil, err
	}
	// What the user configured for all repositories and is data, not code.
	for _, key := range []string{"core.excludesfile", "core.autocrlf", "core.eol"} {
		if v, ok := settings[key]; ok {
			r.git.config = append(r.git.config, key, v)
		}
	}
	name, mail := cmp.Or(o.Name, r.ident[0], "Superstep"), cmp.Or(o.Mail, r.ident[1], "superstep@localhost")
	r.ident = []string{"GIT_AUTHOR_NAME=" + name, "GIT_AUTHOR_EMAIL=" + mail, "GIT_COMMITTER_NAME=" + name, "GIT_COMMITTER_EMAIL=" + mail}
	return r, nil
}

const oldest = "2.38" // has merge-tree --write-tree

var versionText = regexp.MustCompile(`(\d+)\.(\d+)`)

func (c *command) checkVersion(ctx context.Context) error {
	out, err := c.line(ctx, nil, "version")
	if err != nil {
		return err
	}
	m := versionText.FindStringSubmatch(out)
	if m == nil {
		return fmt.Errorf("%s says %q: install git %s or later", c.git, out, oldest)
	}
	major, _ := strconv.Atoi(m[1]) // too large is new enough
	minor, _ := strconv.Atoi(m[2])
	if major < 2 || major == 2 && minor < 38 {
		return fmt.Errorf("%s is version %s: install git %s or later", c.git, m[0], oldest)
	}
	return nil
}

// discover finds the repository by the user's configuration, which is also asked for the author. It returns the user's settings.
func (r *Repo) discover(ctx context.Context, dir string, environ []string) (map[string]string, error) {
	c := r.git
	for _, name := range []string{"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "EMAIL"} {
		if v, ok := procgroup.Variable(environ, name); ok {
			c.environ = append(c.environ, name+"="+v)
		}
	}
	out, err := c.line(ctx, nil, "rev-parse", "--is-bare-repository", "--path-format=absolute", "--show-toplevel", "--absolute-git-dir", "--git-common-dir")
	bare, out, _ := strings.Cut(out, "\n")
	var e *Error
	switch errors.As(err, &e); {
	case bare == "true" || e != nil && strings.Contains(e.Stderr, "cannot use bare repository"):
		return nil, fmt.Errorf("%s is a bare repository, or in one: run this in a checkout of it", dir)
	case e != nil && strings.Contains(e.Stderr, "not a git repository"):
		return nil, fmt.Errorf("%s is not in a git repository: run `git init` there, or go to a repository", dir)
	case err != nil:
		return nil, err
	}
	lines := strings.Split(out, "\n")
	if len(lines) != 3 {
		return nil, fmt.Errorf("the path of the repository at %s has a newline: rename the folder", dir)
	}
	var paths [3]string
	for i, l := range lines {
		if paths[i], err = resolved(l); err != nil {
			return nil, fmt.Errorf("the repository of %s: %w", dir, err)
		}
	}
	r.Top, r.Common = paths[0], paths[2]
	settings, err := c.disarm(ctx)
	if err != nil {
		return nil, err
	}
	r.git.config = c.config // what it has of the user's own configuration, which later commands do not read, does no harm
	for key := range settings {
		r.varied = r.varied || strings.HasPrefix(key, "include") || key == "extensions.worktreeconfig"
	}
	if _, moved := settings["core.worktree"]; moved { // it could name any folder, such as the user's home
		if there, err := resolved(strings.TrimSpace(dotGit(r.Top))); err != nil || there != paths[1] {
			return nil, fmt.Errorf("%s: core.worktree names %s, which has no .git of this repository: unset core.worktree", r.Common, r.Top)
		}
	}
	r.git.gitDir, r.git.work = paths[1], r.Top
	r.ident = []string{"", ""}
	if who, err := c.line(ctx, nil, "var", "GIT_AUTHOR_IDENT"); err == nil { // else git knows nobody
		if name, rest, ok := strings.Cut(who, " <"); ok {
			r.ident[0] = name
			r.ident[1], _, _ = strings.Cut(rest, ">")
		}
	}
	return settings, nil
}

// dotGit returns the git directory that the .git of a folder is or names.
func dotGit(top string) string {
	name := filepath.Join(top, ".git")
	b, err := os.ReadFile(name)
	if err != nil {
		return name
	}
	target := strings.TrimSpace(strings.TrimPrefix(string(b), "gitdir:"))
	if !filepath.IsAbs(target) {
		target = filepath.Join(top, target)
	}
	return target
}

// resolved returns an absolute path without symbolic links.
func resolved(name string) (string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(name)
}

// treesFolder returns the folder for the worktrees of a repository. It need not exist.
func treesFolder(data string, r *Repo) (string, error) {
	if !filepath.IsAbs(data) {
		return "", fmt.Errorf("the folder of the worktrees, %q, is not absolute", data)
	}
	folder := filepath.Join(data, "worktrees")
	for at, rest := folder, ""; ; at, rest = filepath.Dir(at), filepath.Join(filepath.Base(at), rest) {
		if there, err := filepath.EvalSymlinks(at); err == nil {
			folder = filepath.Join(there, rest)
			break
		} else if at == filepath.Dir(at) {
			return "", err
		}
	}
	for _, taken := range []string{r.Top, r.Common} {
		if rel, err := filepath.Rel(taken, folder); err == nil && filepath.IsLocal(rel) {
			return "", fmt.Errorf("the folder of the worktrees, %s, is inside %s: choose one outside of it", folder, taken)
		}
	}
	sum := sha256.Sum256([]byte(r.Common))
	return filepath.Join(folder, slug(filepath.Base(r.Top))+"-"+hex.EncodeToString(sum[:4])), nil
}

var notSlug = regexp.MustCompile(`[^a-z0-9-]+`)

// slug returns a name for a file and a branch, different for different names, also where letters have no case.
func slug(name string) string {
	s := strings.Trim(notSlug.ReplaceAllString(strings.ToLower(name), "-"), "-")
	if s == name && len(s) <= 48 {
		return s
	}
	sum := sha256.Sum256([]byte(name))
	return strings.Trim(s[:min(len(s), 32)], "-") + "-" + hex.EncodeToString(sum[:4])
}

// name names the branch of a task, or of a run if task is "", below superstep/.
func name(run, task string) string {
	if task == "" {
		return slug(run)
	}
	return slug(run) + "_" + slug(task)
}

// Branch returns the branch of a task, superstep/RUN_TASK, or that of a run if task is "", superstep/RUN.
func Branch(run, task string) string { return "superstep/" + name(run, task) }

// A State describes the user's checkout.
type State struct {
	Head       string   // the commit, "" in an empty repository
	Branch     string   // its short name, "" if HEAD is detached
	Dirty      []Change // uncommitted changes, untracked files included
	InProgress string   // merge, rebase, cherry-pick, revert, bisect, or ""
}

// A Change is an uncommitted change of a file.
type Change struct {
	Status string // as `git status --porcelain` shows it: "??" is untracked, " M" modified, "UU" in conflict
	Path   string // relative to the top, with slashes
}

// State returns the state of the user's checkout.
func (r *Repo) State(ctx context.Context) (*State, error) {
	s := &State{}
	var err error
	if s.Head, err = r.git.commit(ctx, "HEAD"); err != nil && code(err) != 1 {
		return nil, err
	}
	ref, err := r.git.line(ctx, nil, "symbolic-ref", "-q", "HEAD")
	if err != nil && code(err) != 1 {
		return nil, err
	}
	s.Branch = strings.TrimPrefix(ref, "refs/heads/")
	for _, p := range [][2]string{
		{"rebase-merge", "rebase"}, {"rebase-apply", "rebase"}, {"MERGE_HEAD", "merge"}, {"CHERRY_PICK_HEAD", "cherry-pick"}, {"REVERT_HEAD", "revert"}, {"BISECT_LOG", "bisect"},
	} {
		if _, err := os.Lstat(filepath.Join(r.git.gitDir, p[0])); err == nil {
			s.InProgress = p[1]
			break
		}
	}
	s.Dirty, err = r.git.changes(ctx)
	return s, err
}

// changes returns the uncommitted changes of a working tree.
func (c *command) changes(ctx context.Context) ([]Change, error) {
	out, err := c.run(ctx, nil, "status", "--porcelain=v1", "-z", "--untracked-files=all", "--no-renames", "--ignore-submodules=all")
	if err != nil {
		return nil, err
	}
	var all []Change
	for _, f := range fields(out) {
		if len(f) > 3 {
			all = append(all, Change{Status: f[:2], Path: f[3:]})
		}
	}
	return all, nil
}

// commit returns the commit of a revision. If there is none, the error is an *Error with code 1.
func (c *command) commit(ctx context.Context, rev string) (string, error) {
	return c.line(ctx, nil, "rev-parse", "-q", "--verify", "--end-of-options", rev+"^{commit}")
}

// Resolve returns the commit that a revision names.
func (r *Repo) Resolve(ctx context.Context, rev string) (string, error) {
	sha, err := r.git.commit(ctx, rev)
	if err != nil {
		return "", fmt.Errorf("%q names no commit of %s; `git branch -a` lists its branches: %w", rev, r.Top, err)
	}
	return sha, nil
}

var usesFilter = regexp.MustCompile(`(?m)^[^#\n]*[ \t]filter=`)

// Unsupported returns what of a commit our worktrees do not carry out, as sentences: submodules, filters such as LFS, and
// objects that must be fetched first. Tell the user at the start.
func (r *Repo) Unsupported(ctx context.Context, rev string) ([]string, error) {
	var out []string
	list, err := r.git.run(ctx, nil, "ls-tree", "-r", "-z", rev)
	if err != nil {
		return nil, err
	}
	var modules []string
	for _, entry := range fields(list) {
		if name, ok := strings.CutPrefix(entry, "160000 "); ok {
			_, name, _ = strings.Cut(name, "\t")
			modules = append(modules, name)
		}
	}
	if len(modules) > 0 {
		out = append(out, "Submodules stay empty in worktrees: "+some(modules)+".")
	}
	where, err := r.git.run(ctx, nil, "grep", "-z", "-l", "-E", "^[^#]*[[:space:]]filter=", rev, "--", ":(glob)**/.gitattributes")
	if err != nil && code(err) != 1 { // 1 means none
		return nil, err
	}
	filtered := fields(where)
	for i, name := range filtered {
		filtered[i] = strings.TrimPrefix(name, rev+":")
	}
	if b, err := os.ReadFile(filepath.Join(r.Common, "info", "attributes")); err == nil && usesFilter.Match(b) {
		filtered = append(filtered, ".git/info/attributes")
	}
	if len(filtered) > 0 {
		out = append(out, "Filters such as LFS do not run, so their files keep the stored form: "+some(filtered)+".")
	}
	settings, err := r.git.configuration(ctx)
	if err != nil {
		return nil, err
	}
	if slices.ContainsFunc(settings, func(kv [2]string) bool {
		return kv[0] == "extensions.partialclone" || strings.HasPrefix(kv[0], "remote.") && strings.HasSuffix(kv[0], ".promisor") && kv[1] == "true"
	}) {
		out = append(out, "This is a partial clone, and missing objects are not fetched: run `git fetch --refetch --no-filter` first.")
	}
	return out, nil
}

// some joins the first of several names.
func some(names []string) string {
	if len(names) > 5 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:5], ", "), len(names)-5)
	}
	return strings.Join(names, ", ")
}

// Merged reports whether everything of a revision is in another one.
func (r *Repo) Merged(ctx context.Context, rev, into string) (bool, error) {
	return r.git.merged(ctx, rev, into)
}

func (c *command) merged(ctx context.Context, rev, into string) (bool, error) {
	_, err := c.run(ctx, nil, "merge-base", "--is-ancestor", rev, into)
	if code(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// Find returns the commits on the branches of a run that end in exactly these trailers, the newest first. See [Tree.Commit].
func (r *Repo) Find(ctx context.Context, run string, trailers []string) ([]string, error) {
	n := name(run, "")
	one := n[:len(n)-1] + "[" + n[len(n)-1:] + "]" // a pattern of that name alone, which need not exist
	return r.git.find(ctx, trailers, "--glob="+heads+one, "--glob="+heads+n+"_*", "--not", "--glob="+bases+one)
}

// Last returns what a run came to: the tip of its branch or, if that was removed, the newest commit with all these trailers that is in any branch, but
// not in the revision since, which may be "". It returns "" if there is neither.
func (r *Repo) Last(ctx context.Context, run string, trailers []string, since string) (string, error) {
	sha, err := r.git.commit(ctx, heads+name(run, ""))
	if code(err) != 1 {
		return sha, err
	}
	args := []string{"rev-list", "--max-count=1", "--topo-order", "--fixed-strings", "--all-match", "--all"}
	for _, t := range trailers {
		args = append(args, "--grep="+t)
	}
	if since != "" {
		args = append(args, "^"+since)
	}
	return r.git.line(ctx, nil, args...)
}

// find searches the commits that arguments of rev-list select.
func (c *command) find(ctx context.Context, trailers []string, revs ...string) ([]string, error) {
	end, err := ending(trailers)
	if err != nil {
		return nil, err
	}
	args := append([]string{"rev-list", "--fixed-strings", "--all-match", "--format=%x00%H%n%B%x00"}, revs...)
	for _, t := range trailers {
		args = append(args, "--grep="+t)
	}
	out, err := c.run(ctx, nil, args...)
	if err != nil {
		return nil, err
	}
	var found []string
	for i, part := range strings.Split(string(out), "\x00") { // "commit SHA\n", then the entry, then "\ncommit SHA\n", and so on
		if sha, message, ok := strings.Cut(part, "\n"); ok && i%2 == 1 && strings.HasSuffix(strings.TrimRight(message, "\n")+"\n", end) {
			found = append(found, sha)
		}
	}
	return found, nil
}

var trailerText = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]*: [^\s\pC](?:[^\pC]*[^\s\pC])?$`)

// ending returns the last paragraph of a commit message with these trailers, and what is before it.
func ending(trailers []string) (string, error) {
	if len(trailers) == 0 {
		return "", errors.New("a commit needs a trailer, such as \"Superstep-Task: 7\"")
	}
	for _, t := range trailers {
		if !trailerText.MatchString(t) {
			return "", fmt.Errorf("%q is no trailer: want one line \"Key: value\"", t)
		}
	}
	return "\n\n" + strings.Join(trailers, "\n") + "\n", nil
}

// message returns a commit message that ends in trailers.
func message(text string, trailers []string) (string, error) {
	end, err := ending(trailers)
	if err != nil {
		return "", err
	}
	text = strings.TrimSpace(strings.ToValidUTF8(strings.ReplaceAll(strings.ReplaceAll(text, "\x00", ""), "\r", ""), "\uFFFD"))
	if text == "" {
		return "", errors.New("a commit needs a message")
	}
	return text + end, nil
}

// locked runs do while this process has the lock of the repository. Processes that git still runs for a process that died have it, too.
func (r *Repo) locked(ctx context.Context, do func(lock *os.File) error) error {
	path := filepath.Join(r.Common, "superstep.lock")
	for {
		f, held, err := tryLock(path)
		if err != nil {
			return fmt.Errorf("locking the repository by %s: %w; check its permissions", path, err)
		}
		if held != nil {
			return errors.Join(do(f), held.Close())
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s is locked by another process of superstep or its git: %w", path, context.Cause(ctx))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// with returns a copy of the command that hands on a lock.
func (c command) with(lock *os.File) *command {
	c.lock = lock
	return &c
}

// exists reports whether there is a file, a folder or a link.
func exists(name string) bool {
	_, err := os.Lstat(name)
	return !errors.Is(err, fs.ErrNotExist)
}
