package host

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/catalog"
	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/internal/inside"
	"github.com/superstep-dev/superstep/internal/suggest"
	"github.com/superstep-dev/superstep/tool"
	"github.com/superstep-dev/superstep/tool/permit"
)

// A project may set the model and the denied actions of its agents in .superstep/config.yaml. A
// user may deny actions for all projects in superstep/permissions.yaml:
//
//	allow: ["bash(go test *)"]
//	ask: [web_fetch]
//	deny: ["read_file(**/.env)"]
//	unprotect: [".github/**"]
//
// The user's file may also say what bounds commands; see sandboxSettings. In a project's file the lists are below "permissions".

const maxSettings = 1 << 20

// settings holds the settings of the project and of the user.
type settings struct {
	project  *file // nil if there is none
	broken   *file // the project's, if it has mistakes
	user     *file
	problems []catalog.Problem
}

// file is the content of one settings file.
type file struct {
	path   string
	digest string
	model  string
	rules  []permit.Rule

	modelLine int // where the model is
	// unprotect are patterns of paths that agents may write although they are protected; the user's only.
	unprotect []string
	sandbox   sandboxSettings // the user's only
	workers   workerSettings  // the user's only
}

func (f *file) detail() string {
	var parts []string
	if f.model != "" {
		parts = append(parts, "model "+f.model)
	}
	for _, r := range f.rules {
		parts = append(parts, string(r.Decision)+" "+r.String())
	}
	return strings.Join(parts, "; ")
}

func projectSettings(dir string) string { return filepath.Join(dir, ".superstep", "config.yaml") }

func userSettings(config string) string { return filepath.Join(config, "permissions.yaml") }

// readSettings reads the settings of the project in a folder and those in the user's own folder.
// Without a project, the folder is "".
func readSettings(dir, config string) (*settings, error) {
	s := &settings{}
	if dir != "" {
		s.project = s.read(projectSettings(dir), true)
	}
	before := len(s.problems)
	s.user = s.read(userSettings(config), false)
	if len(s.problems) > before { // a rule that is misspelled must not be one that is not there
		return nil, &settingsError{s.problems[before:]}
	}
	return s, nil
}

// A settingsError describes a mistake in the user's own rules, which keeps anything from running
// under them.
type settingsError struct{ Problems []catalog.Problem }

func (e *settingsError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// FailureCode returns the code of runs that fail with the error.
func (e *settingsError) FailureCode() string { return "usage" }

// read reads a file. A file with a mistake is ignored.
func (s *settings) read(path string, nested bool) *file {
	if other := strings.TrimSuffix(path, "yaml") + "yml"; exists(other) {
		s.problems = append(s.problems, catalog.Problem{Kind: "settings", File: other, Text: "is not read; name it " + filepath.Base(path)})
	}
	b, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		s.problems = append(s.problems, catalog.Problem{Kind: "settings", File: path, Text: err.Error()})
		return nil
	}
	sum := sha256.Sum256(b)
	r := &reader{f: &file{path: path, digest: "sha256:" + hex.EncodeToString(sum[:])}}
	r.read(b, nested)
	if len(r.problems) > 0 {
		s.problems = append(s.problems, r.problems...)
		if nested {
			s.broken = r.f
		}
		return nil
	}
	return r.f
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

func readFile(path string) ([]byte, error) {
	b, err := inside.ReadFile(path, maxSettings)
	switch {
	case errors.Is(err, inside.ErrNotRegular), errors.Is(err, inside.ErrFolder):
		return nil, errors.New("is not a file")
	case errors.Is(err, inside.ErrTooLarge):
		return nil, errors.New("is over 1 MiB")
	}
	return b, err
}

// reader reads one file.
type reader struct {
	f        *file
	problems []catalog.Problem
}

func (r *reader) wrong(line, col int, format string, args ...any) {
	r.problems = append(r.problems, catalog.Problem{Kind: "settings", File: r.f.path, Line: line, Col: col, Text: fmt.Sprintf(format, args...)})
}

func (r *reader) read(b []byte, nested bool) {
	fields, err := frontmatter.YAML(b, clean.Text)
	var bad *frontmatter.Error
	if errors.As(err, &bad) {
		r.wrong(bad.Line, bad.Col, "%s", bad.Text)
		return
	}
	if nested {
		r.project(fields)
	} else {
		r.permissions(fields, true)
	}
}

func (r *reader) project(fields []frontmatter.Field) {
	known := []string{"model", "permissions"}
	for _, f := range fields {
		switch {
		case f.Key == "model" && f.Value.Kind == frontmatter.Text:
			r.f.model, r.f.modelLine = f.Value.Text, f.Line
		case f.Key == "model":
			r.wrong(f.Value.Line, f.Value.Col, "model: want a name such as openai/gpt-5.4-mini")
		case f.Key == "permissions" && f.Value.Kind == frontmatter.Map:
			r.permissions(f.Value.Fields, false)
		case f.Key == "permissions":
			r.wrong(f.Value.Line, f.Value.Col, "permissions: want lists: allow, ask, deny")
		default:
			r.wrong(f.Line, f.Col, "unknown setting %q%s; a project can set: %s", f.Key, suggest.Hint(f.Key, known), strings.Join(known, ", "))
		}
	}
}

func (r *reader) permissions(fields []frontmatter.Field, own bool) {
	lists := []string{"allow", "ask", "deny"}
	if own {
		lists = append(lists, "unprotect", "sandbox", "workers")
	}
	for _, f := range fields {
		switch {
		case own && f.Key == "workers":
			r.workers(f)
			continue
		case own && f.Key == "sandbox":
			r.sandbox(f)
			if s := r.f.sandbox; s.auto && s.mode == sandboxOff {
				r.wrong(f.Line, f.Col, "sandbox: auto lets commands run unasked that stay in the sandbox, and mode off has none")
			}
			continue
		case !slices.Contains(lists, f.Key):
			r.wrong(f.Line, f.Col, "unknown list %q%s; there are: %s", f.Key, suggest.Hint(f.Key, lists), strings.Join(lists, ", "))
			continue
		case f.Value.Kind != frontmatter.List:
			r.wrong(f.Value.Line, f.Value.Col, `%s: want a list such as ["bash(go test *)"]`, f.Key)
			continue
		}
		for _, v := range f.Value.Items {
			if v.Kind != frontmatter.Text {
				r.wrong(v.Line, v.Col, "%s: want a text in quotes, such as \"bash(go test *)\"", f.Key)
				continue
			}
			if f.Key == "unprotect" {
				r.f.unprotect = append(r.f.unprotect, v.Text)
				continue
			}
			rule, err := permit.Parse(tool.Decision(f.Key), v.Text, clean.Place(r.f.path, v.Line, v.Col))
			if err != nil {
				r.wrong(v.Line, v.Col, "%v", err)
				continue
			}
			r.f.rules = append(r.f.rules, rule)
		}
	}
}
