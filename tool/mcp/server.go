package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Values are named values that may be secrets. They do not show when they are printed, logged or
// encoded.
type Values map[string]string

func (v Values) String() string { return fmt.Sprintf("%q", slices.Sorted(maps.Keys(v))) }

// GoString is String.
func (v Values) GoString() string { return v.String() }

// LogValue is the names.
func (v Values) LogValue() slog.Value { return slog.StringValue(v.String()) }

// MarshalJSON gives the names.
func (v Values) MarshalJSON() ([]byte, error) { return json.Marshal(slices.Sorted(maps.Keys(v))) }

const workspace = "workspaceFolder"

var reference = regexp.MustCompile(`\$\{([^{}]*)\}`)

// variable is what a reference refers to: NAME, env:NAME or NAME:-default.
func variable(ref string) (name, def string, ok bool) {
	name, def, _ = strings.Cut(strings.TrimPrefix(ref, "env:"), ":-")
	return name, def, envName.MatchString(name) && ref != workspace
}

// expandable are the texts in which variables are replaced, and workspaceFolder with them.
func (s *Server) expandable() []string {
	out := append(slices.Clone(s.Args), s.URL)
	for _, m := range []Values{s.Env, s.Headers} {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			out = append(out, m[k])
		}
	}
	return out
}

// Variables are the names of the variables that the server is given the values of, sorted.
func (s *Server) Variables() []string {
	var out []string
	for _, text := range s.expandable() {
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			if name, _, ok := variable(m[1]); ok {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// CommandLine is what would run, or be spoken to, for people: as it is configured, quoted where
// something could be hidden.
func (s *Server) CommandLine() string {
	if s.Transport != Stdio {
		return s.Transport + " " + word(s.URL)
	}
	words := []string{word(s.Command)}
	for _, a := range s.Args {
		words = append(words, word(a))
	}
	return strings.Join(words, " ")
}

var bare = regexp.MustCompile(`^[A-Za-z0-9@%+=:,./_~?&${}-]+$`)

func word(s string) string {
	if bare.MatchString(s) {
		return s
	}
	return strconv.Quote(s)
}

// Review is all of a server that somebody who is asked to trust it should see, on several lines. The
// values of env and headers show where they come from a project: nothing of the user's is among them.
func (s *Server) Review() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n  from %s\n", s.Name, s.CommandLine(), s.Source)
	for _, o := range s.Overrides {
		fmt.Fprintf(&b, "  instead of that of %s\n", o)
	}
	if s.Dir != "" {
		fmt.Fprintf(&b, "  in %s\n", word(s.Dir))
	}
	for _, part := range []struct {
		what   string
		values Values
	}{{"env", s.Env}, {"header", s.Headers}} {
		for _, k := range slices.Sorted(maps.Keys(part.values)) {
			value := "…"
			if s.Source.Scope == Project {
				value = word(part.values[k])
			}
			fmt.Fprintf(&b, "  %s %s=%s\n", part.what, k, value)
		}
	}
	if names := s.Variables(); len(names) > 0 {
		fmt.Fprintf(&b, "  reads the variables %s\n", strings.Join(names, ", "))
	}
	return b.String()
}

// An unsetError says which variables a server needs that have no value.
type unsetError []string

func (e unsetError) Error() string { return "needs the variables " + strings.Join(e, ", ") }

// expand replaces what a server refers to. The secrets are the values that were put in or are
// written down, which must not show.
func (s *Server) expand(project string, env func(string) (string, bool)) (out *Server, secrets []string, err error) {
	c := *s
	var unset unsetError
	text := func(in string) string {
		return reference.ReplaceAllStringFunc(in, func(ref string) string {
			ref = ref[2 : len(ref)-1]
			if ref == workspace {
				return project
			}
			name, def, ok := variable(ref)
			if !ok {
				return "${" + ref + "}"
			}
			value, ok := env(name)
			switch {
			case ok && (value != "" || !strings.Contains(ref, ":-")):
				secrets = append(secrets, value)
				return value
			case strings.Contains(ref, ":-"):
				return def
			}
			if !slices.Contains(unset, name) {
				unset = append(unset, name)
			}
			return ""
		})
	}
	all := func(in Values) Values {
		out := make(Values, len(in))
		for _, k := range slices.Sorted(maps.Keys(in)) {
			out[k] = text(in[k])
			secrets = append(append(secrets, out[k]), strings.Fields(out[k])...)
		}
		return out
	}
	c.Command, c.Dir = strings.ReplaceAll(s.Command, "${"+workspace+"}", project), strings.ReplaceAll(s.Dir, "${"+workspace+"}", project)
	c.Args = nil
	for _, a := range s.Args {
		c.Args = append(c.Args, text(a))
	}
	c.URL, c.Env, c.Headers = text(s.URL), all(s.Env), all(s.Headers)
	if len(unset) > 0 {
		return nil, nil, unset
	}
	return &c, secrets, nil
}

// Digest is the identity of all that would run: the command, arguments, environment, url and
// headers as they are configured, and the contents of every file inside the project that the
// command, an argument or a value of env names. It does not cover what those files load in turn, nor
// programs outside of the project.
func (s *Server) Digest(o *Options) (string, error) {
	d := o.defaults()
	files, err := s.files(d)
	if err != nil {
		return "", err
	}
	b, err := json.Marshal(struct {
		Format                        int
		Name, Transport, Command, Dir string
		Args                          []string
		Env                           map[string]string
		URL                           string
		Headers                       map[string]string
		Annotations                   bool
		Files                         []digestedFile
	}{1, s.Name, s.Transport, s.Command, s.Dir, s.Args, s.Env, s.URL, s.Headers, s.TrustAnnotations, files})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:]), nil
}

type digestedFile struct{ Named, Is, Sum string }

// files are the files inside the project that a server names.
func (s *Server) files(d *Options) ([]digestedFile, error) {
	if s.Transport != Stdio || d.Project == "" {
		return nil, nil
	}
	project, err := realDir(d.Project)
	if err != nil {
		return nil, fmt.Errorf("project %s: %w", d.Project, err)
	}
	full, _, err := s.expand(d.Project, d.Env)
	if err != nil { // it cannot run, but people may look at it
		full = s
	}
	var candidates []string
	for _, text := range append([]string{full.Command}, full.Args...) {
		candidates = append(candidates, text)
		if _, after, ok := strings.Cut(text, "="); ok {
			candidates = append(candidates, after)
		}
	}
	for _, text := range full.Env {
		candidates = append(candidates, strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t=,;"+string(filepath.ListSeparator), r) })...)
	}
	slices.Sort(candidates)
	var out []digestedFile
	var errs []error
	for _, c := range slices.Compact(candidates) {
		c = strings.TrimPrefix(c, "file://")
		if c == "" || len(c) > 4096 {
			continue
		}
		path := c
		if !filepath.IsAbs(path) {
			path = filepath.Join(full.dir(d.Project), path)
		}
		f, ok, err := sumFile(project, d.Project, path)
		if err != nil {
			errs = append(errs, fmt.Errorf("read %s: %w", quoted(c), err))
		} else if ok {
			f.Named = c
			out = append(out, f)
		}
	}
	return out, errors.Join(errs...)
}

// dir is where a server is started.
func (s *Server) dir(project string) string {
	switch {
	case s.Dir == "":
		return project
	case filepath.IsAbs(s.Dir):
		return s.Dir
	}
	return filepath.Join(project, s.Dir)
}

func realDir(dir string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(abs)
}

// sumFile digests a file if its name or what it leads to lies in the project.
func sumFile(real, project, path string) (digestedFile, bool, error) {
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return digestedFile{}, false, nil // there is no such file; it may be no path at all
	}
	if !inside(real, target) && !inside(real, path) && !inside(project, path) {
		return digestedFile{}, false, nil
	}
	info, err := os.Stat(target)
	if err != nil || !info.Mode().IsRegular() {
		return digestedFile{}, false, nil
	}
	out := digestedFile{Is: target}
	if rel, err := filepath.Rel(real, target); err == nil && inside(real, target) {
		out.Is = rel
	}
	f, err := os.Open(target)
	if errors.Is(err, fs.ErrPermission) {
		return digestedFile{}, false, err
	}
	if err != nil {
		return digestedFile{}, false, nil
	}
	defer f.Close()
	const most = 256 << 20
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, most+1))
	if err == nil && n > most {
		err = errors.New("over 256 MiB")
	}
	out.Sum = hex.EncodeToString(h.Sum(nil))
	return out, true, err
}

func inside(dir, path string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && filepath.IsLocal(rel)
}

// private says whether a host is this machine or one of its neighbours, as far as its name tells.
func private(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".local") || strings.HasSuffix(host, ".internal") || !strings.Contains(host, ".") && !strings.Contains(host, ":") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && (ip.IsLoopback() || ip.IsPrivate() || ip.IsLinkLocalUnicast())
}
