package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/internal/frontmatter"
	"github.com/superstep-dev/superstep/internal/inside"
)

// Found holds the configurations of a project and its user.
type Found struct {
	Servers  []*Server // one for each name, sorted by name
	Own      []*Server // the same without those of the project
	Warnings []string
	Problems []error // files and servers that cannot be used
}

// Find reads all configurations there are, and does nothing else: no server is started. Of servers
// of one name the first counts: of the project .superstep/mcp.yaml, .superstep/mcp.json, .mcp.json,
// .vscode/mcp.json, opencode.json, then of the user superstep/mcp.yaml and superstep/mcp.json below
// $XDG_CONFIG_HOME (or ~/.config), and ~/.claude.json.
func Find(o *Options) *Found {
	d := o.defaults()
	out := new(Found)
	byName := map[string]*Server{}
	for _, p := range d.places() {
		data, err := readConfig(p.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			out.Problems = append(out.Problems, err)
			continue
		}
		c, err := parse(data, p.path, p.scope)
		if err != nil {
			out.Problems = append(out.Problems, split(err)...)
		}
		out.Warnings = append(out.Warnings, c.Warnings...)
		for _, s := range c.Servers {
			if s.Source.Scope == scopeUser && !slices.ContainsFunc(out.Own, func(o *Server) bool { return o.Name == s.Name }) {
				out.Own = append(out.Own, s)
			}
			if first := byName[s.Name]; first != nil {
				first.Overrides = append(first.Overrides, s.Source)
				continue
			}
			byName[s.Name] = s
			out.Servers = append(out.Servers, s)
		}
	}
	for _, list := range [][]*Server{out.Servers, out.Own} {
		slices.SortFunc(list, func(a, b *Server) int { return strings.Compare(a.Name, b.Name) })
	}
	return out
}

// configFile is a file that Find reads.
type configFile struct{ path, scope string }

// Places returns the files that Find reads, absolute, in the order of precedence.
func Places(o *Options) []string {
	var out []string
	for _, p := range o.defaults().places() {
		out = append(out, filepath.ToSlash(p.path))
	}
	return out
}

func (o *Options) places() []configFile {
	var places []configFile
	if o.Project != "" {
		for _, p := range []string{".superstep/mcp.yaml", ".superstep/mcp.yml", ".superstep/mcp.json", ".mcp.json", ".vscode/mcp.json",
			"opencode.json", "opencode.jsonc"} {
			places = append(places, configFile{filepath.Join(o.Project, filepath.FromSlash(p)), scopeProject})
		}
	}
	home, _ := o.Env("HOME")
	if home == "" {
		home, _ = o.Env("USERPROFILE")
	}
	config, _ := o.Env("XDG_CONFIG_HOME")
	if config == "" && home != "" {
		config = filepath.Join(home, ".config")
	}
	if filepath.IsAbs(config) {
		for _, p := range []string{"mcp.yaml", "mcp.yml", "mcp.json"} {
			places = append(places, configFile{filepath.Join(config, "superstep", p), scopeUser})
		}
	}
	if filepath.IsAbs(home) {
		places = append(places, configFile{filepath.Join(home, ".claude.json"), scopeUser})
	}
	return places
}

func split(err error) []error {
	if many, ok := err.(interface{ Unwrap() []error }); ok {
		return many.Unwrap()
	}
	return []error{err}
}

// readConfig reads a regular file of bounded size.
func readConfig(path string) ([]byte, error) {
	most := int64(maxConfig)
	if dialectOf(path).huge {
		most = 64 << 20 // others keep more in them
	}
	data, err := inside.ReadFile(path, most)
	switch {
	case err == nil || errors.Is(err, fs.ErrNotExist):
		return data, err
	case errors.Is(err, inside.ErrTooLarge):
		return nil, &ConfigError{File: path, Text: fmt.Sprintf("over %d MiB", most>>20)}
	case errors.Is(err, inside.ErrNotRegular), errors.Is(err, inside.ErrFolder):
		return nil, &ConfigError{File: path, Text: "is not a file"}
	}
	return nil, fmt.Errorf("cannot read %s: %w", path, err)
}

// onlyKey reads one key of a file. It only checks that the rest is JSON.
func onlyKey(data []byte, key string) (*node, *ConfigError) {
	fault := func(at int64, text string) (*node, *ConfigError) {
		line, col := position(data, int(min(at, int64(len(data)))))
		return nil, &ConfigError{Line: line, Col: col, Text: text}
	}
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return fault(0, "is not a JSON object")
	}
	root := &node{Line: 1, Col: 1, Kind: frontmatter.Map}
	for d.More() {
		name, err := d.Token()
		after := d.InputOffset()
		var raw json.RawMessage
		if err == nil {
			err = d.Decode(&raw)
		}
		start := d.InputOffset() - int64(len(raw))
		switch {
		case err != nil:
			return fault(d.InputOffset(), "is not JSON")
		case name != key:
			continue
		case len(root.Fields) > 0:
			return fault(after, clean.Quote(key)+" repeated")
		case len(raw) > maxConfig:
			return fault(start, clean.Quote(key)+" over 1 MiB")
		}
		// The offset of the value, so that positions refer to the whole file.
		line, col := position(data, int(start))
		value, bad := parseJSON(slices.Concat(bytes.Repeat([]byte("\n"), line-1), bytes.Repeat([]byte(" "), col-1), raw), false)
		if bad != nil {
			return nil, bad
		}
		root.Fields = append(root.Fields, field{Key: key, Line: value.Line, Col: value.Col, Value: value})
	}
	return root, nil
}
