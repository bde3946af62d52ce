package script

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/cover"
	"github.com/superstep-dev/superstep/internal/inside"
	"github.com/superstep-dev/superstep/internal/procgroup"
	"github.com/superstep-dev/superstep/tool"
)

// errChanged is the cause of a call that was refused since the files of a command are no longer
// those that were found.
var errChanged = errors.New("changed since it was trusted; look at it and trust it again")

func discoverCommand(root, path, base string, scope Scope) (*Found, []Problem) {
	b, err := readRegular(path, maxManifest)
	if err != nil {
		return nil, []Problem{{File: path, Text: err.Error()}}
	}
	m, problems := parseManifest(path, base, b)
	if m == nil {
		return nil, problems
	}
	sums := new(sums)
	d, err := digestCommand(root, path, b, m, sums)
	if err != nil {
		return nil, append(problems, Problem{File: path, Text: err.Error()})
	}
	return &Found{
		Kind: Command, Scope: scope, Names: []string{m.name}, Digest: d.digest, Files: d.files,
		Description: m.description, Command: slices.Clone(m.command), Env: slices.Clone(m.env), Needs: m.needs, Effect: m.effect,
		root: root, manifest: m, sums: sums,
	}, problems
}

// A digested is a command as it is in the files.
type digested struct {
	digest string
	files  []string // relative to the root, sorted
	argv   []string // with the paths of what lies beside the manifest
	lookup bool     // the first word is the name of a program on PATH
	sums   *sums
}

// digestCommand reads what a command would run, as far as its words name it: files beside the
// manifest, and of the folder to work in, with all that lies in their folders; and what a program
// that runs the folder where it works finds there. Words that name a file beside the manifest, and
// hold a dot or a slash, become its path.
func digestCommand(root, path string, manifestText []byte, m *manifest, sums *sums) (*digested, error) {
	dir, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	rel, ok := inside.Rel(root, filepath.Join(dir, filepath.Base(path)))
	if !ok {
		return nil, fmt.Errorf("lies outside of %s", root)
	}
	d := &digested{argv: slices.Clone(m.command), files: []string{rel}, sums: sums}
	work := filepath.Join(root, m.cwd)
	h := sha256.New()
	fmt.Fprintf(h, "superstep command 2\n%d %s\n%d\n", len(rel), rel, len(manifestText))
	h.Write(manifestText)
	for i, word := range m.command {
		beside, err := d.word(h, root, dir, i, word)
		if err != nil {
			return nil, err
		}
		if beside == "" && i > 0 {
			if _, err := d.word(h, root, work, i, word); err != nil {
				return nil, err
			}
		}
		if beside != "" && (i == 0 || strings.ContainsAny(word, "./")) {
			d.argv[i] = beside
		}
	}
	if first := m.command[0]; d.argv[0] == first {
		if strings.ContainsAny(first, `/\`) {
			return nil, fmt.Errorf("the command %s cannot be run: there is no file %s beside the manifest", commandText(m.command), clip(first))
		}
		d.lookup = true
	} else if why := notExecutable(d.argv[0]); why != "" {
		return nil, fmt.Errorf("the command %s cannot be run: %s", commandText(m.command), why)
	}
	c := cover.New(root, sums.of)
	if err = c.Command(dir, m.command); err == nil {
		err = c.Command(work, m.command)
	}
	if err == nil {
		err = c.Works(work, m.command)
	}
	if err != nil {
		return nil, fmt.Errorf("the command %s cannot be run: %w", commandText(m.command), err)
	}
	c.Write(h)
	d.files = slices.AppendSeq(d.files, maps.Keys(c.Files))
	slices.Sort(d.files)
	d.files = slices.Compact(d.files)
	d.digest = "sha256:" + hex.EncodeToString(h.Sum(nil))
	return d, nil
}

// word adds to the digest the file that a word names in a folder, as a whole or after "=". It
// returns the path if the whole word names it.
func (d *digested) word(h hash.Hash, root, dir string, i int, word string) (string, error) {
	_, value, assigned := strings.Cut(word, "=")
	for k, name := range []string{word, value} {
		if name == "" || k == 1 && !assigned {
			continue
		}
		path := filepath.FromSlash(name)
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		info, err := os.Stat(path)
		if err != nil || info.IsDir() {
			continue // it names no file
		}
		real, err := filepath.EvalSymlinks(path)
		if err != nil {
			return "", err
		}
		rel, ok := inside.Rel(root, real)
		if !ok {
			if filepath.IsAbs(filepath.FromSlash(name)) {
				continue // a file of the system
			}
			return "", fmt.Errorf("the command names %s, which is %s, outside of %s", clip(name), real, root)
		}
		if info.Size() > maxHashed {
			return "", fmt.Errorf("%s is larger than %d MiB", real, maxHashed>>20)
		}
		if !info.Mode().IsRegular() {
			return "", fmt.Errorf("%s is not a regular file", real)
		}
		sum, err := d.sums.of(real, info)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "\n%d %d %d %s %s", i, k, len(rel), rel, sum)
		d.files = append(d.files, rel)
		if k == 0 {
			return path, nil
		}
	}
	return "", nil
}

func commandText(argv []string) string {
	b, err := json.Marshal(argv)
	if err != nil {
		return "?"
	}
	return clean.Text(clip(string(b)))
}

// A commandTool is an executable that is ready to be called.
type commandTool struct {
	found Found
	opts  *Options
}

func loadCommand(f Found, o *Options) (*tool.Tool, error) {
	m := f.manifest
	if text := nameProblem(m.name, o.Reserved); text != "" {
		return nil, Problem{File: f.Path, Text: text}
	}
	c := &commandTool{found: f, opts: o}
	argv, err := c.argv()
	if err == nil {
		err = interpreter(argv[0], o)
	}
	if err != nil {
		return nil, Problem{File: f.Path, Text: err.Error()}
	}
	return &tool.Tool{Name: m.name, Description: m.description, Input: m.input, Output: m.output, Effect: m.effect, Network: len(m.needs.Network) > 0, Run: c.call}, nil
}

// argv returns the command line, after the files were compared with those that were found.
func (c *commandTool) argv() ([]string, error) {
	f := c.found
	b, err := readRegular(f.Path, maxManifest)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", errChanged, err)
	}
	d, err := digestCommand(f.root, f.Path, b, f.manifest, f.sums)
	if err != nil {
		return nil, fmt.Errorf("%w (%w)", errChanged, err)
	}
	if d.digest != f.Digest {
		return nil, fmt.Errorf("%w (it was %s, it is %s)", errChanged, f.Digest, d.digest)
	}
	if d.lookup {
		path, err := procgroup.Look(c.opts.Environ, d.argv[0])
		if err != nil {
			return nil, fmt.Errorf("the command %s cannot be run: %s is not installed, or not on PATH", commandText(f.Command), clip(d.argv[0]))
		}
		d.argv[0] = path
	}
	return d.argv, nil
}

// interpreter returns an error if a script names an interpreter that is missing.
func interpreter(path string, o *Options) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil // running it will tell
	}
	defer f.Close()
	line, _ := bufio.NewReaderSize(io.LimitReader(f, 256), 256).ReadString('\n')
	rest, ok := strings.CutPrefix(line, "#!")
	words := strings.Fields(rest)
	if !ok || len(words) == 0 {
		return nil
	}
	name := words[0]
	if filepath.Base(name) == "env" && len(words) > 1 {
		words = slices.DeleteFunc(words[1:], func(w string) bool { return strings.HasPrefix(w, "-") || strings.Contains(w, "=") })
		if len(words) == 0 {
			return nil
		}
		if _, err := procgroup.Look(o.Environ, words[0]); err == nil {
			return nil
		}
		name = words[0]
	} else if _, err := os.Stat(name); err == nil {
		return nil
	}
	return fmt.Errorf("the command %s cannot be run: there is no interpreter %s, which its first line asks for", path, clip(name))
}

func (c *commandTool) call(ctx context.Context, call *tool.Call) (string, error) {
	name := c.found.manifest.name
	text, err := c.run(ctx, call)
	if err != nil {
		return "", fmt.Errorf("tool %s failed: %w", name, err)
	}
	return text, nil
}

func (c *commandTool) run(ctx context.Context, call *tool.Call) (string, error) {
	m, o := c.found.manifest, c.opts
	timeout := cmp.Or(m.timeout, defaultTimeout)
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, tookTooLong(timeout))
	defer cancel()
	argv, err := c.argv()
	if err != nil {
		return "", err
	}
	stdin, err := c.stdin(call)
	if err != nil {
		return "", err
	}
	env := slices.Concat(procgroup.Base(o.Environ), pick(o.Environ, slices.Concat(o.Env, m.env)...), cover.Quiet(), variables(m.name, call, o))
	words := slices.Clone(m.command)
	if _, own := inside.Rel(c.found.root, argv[0]); !own {
		words[0] = argv[0]
	}
	bounds, env, err := o.within(c.found.Path, m.needs, words, env)
	if err != nil {
		return "", err
	}
	out, log := &head{limit: maxOutput}, &procgroup.Tail{Limit: maxLog}
	j := &job{
		sandbox: bounds, name: argv[0], args: argv[1:], dir: filepath.Join(o.Directory, m.cwd), stdin: stdin, stdout: into(out), stderr: into(log), env: env, refused: call.Refused,
	}
	state, err := j.do(ctx)
	switch {
	case err != nil && state == nil && ctx.Err() == nil:
		return "", fmt.Errorf("the command %s cannot be started in %s: %w", commandText(argv), j.dir, inside.Reason(err))
	case err != nil:
		return "", j.lacking(err, m.needs, c.found.Path)
	case !state.Success():
		said := strings.TrimSpace(log.Text(4000))
		if said == "" {
			end := &procgroup.Tail{Limit: 4000}
			_, _ = end.Write(out.kept)
			said = strings.TrimSpace(end.Text(4000))
		}
		return "", j.lacking(fmt.Errorf("%s: %s", stateText(state), clean.Text(said)), m.needs, c.found.Path)
	}
	return c.result(out), nil
}

func (c *commandTool) stdin(call *tool.Call) ([]byte, error) {
	args := call.Args
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	if !c.found.manifest.context {
		return args, nil
	}
	state, stateError := stateOf(call)
	return json.Marshal(struct {
		Args       json.RawMessage `json:"args"`
		Context    *callContext    `json:"context"`
		State      json.RawMessage `json:"state,omitempty"`
		StateError string          `json:"stateError,omitempty"`
	}{args, contextOf(call, c.opts), state, stateError})
}

func variables(name string, call *tool.Call, o *Options) []string {
	var out []string
	for _, v := range [][2]string{
		{"TOOL", name}, {"RUN", call.Run}, {"CALL", call.ID}, {"KEY", call.Key}, {"NODE", call.Node}, {"AGENT", call.Agent},
		{"DIRECTORY", o.Directory}, {"WORKTREE", o.Worktree},
	} {
		if v[1] != "" && !strings.ContainsRune(v[1], 0) {
			out = append(out, "SUPERSTEP_"+v[0]+"="+v[1])
		}
	}
	return out
}

// result returns the result of a command: the output of {"output": …}, or everything that it wrote.
func (c *commandTool) result(out *head) string {
	text := out.text()
	if out.dropped == 0 && strings.HasPrefix(strings.TrimSpace(text), "{") {
		var wrapped map[string]json.RawMessage
		if json.Unmarshal([]byte(text), &wrapped) == nil && wrapped["output"] != nil {
			text = string(wrapped["output"])
			var s string
			if c.found.manifest.output == nil && json.Unmarshal([]byte(text), &s) == nil {
				text = s
			}
		}
	}
	return text + omitted(out.dropped)
}
