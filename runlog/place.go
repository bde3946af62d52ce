package runlog

import (
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// A Place is where runs are kept, as people name it.
type Place struct {
	Kind string // "memory", "file", "sqlite", "postgres" or "redis"
	Path string // of file and sqlite: the directory or file, as it was given
	URL  string // of postgres and redis, with any password
}

// ParsePlace reads the name of a place: memory, file:DIR, sqlite:PATH, postgres://… or
// redis://… (rediss:// for TLS). Paths are as in file:/var/runs or sqlite:runs.db.
func ParsePlace(s string) (Place, error) {
	const want = "want memory, file:DIR, sqlite:PATH, postgres://… or redis://…"
	kind, rest, found := strings.Cut(s, ":")
	switch kind {
	case "memory":
		if rest != "" {
			return Place{}, fmt.Errorf("%q: memory has no place; %s", s, want)
		}
		return Place{Kind: "memory"}, nil
	case "file", "sqlite":
		path := rest
		if p, ok := strings.CutPrefix(rest, "//"); ok { // as a URL: file:///var/runs
			path = p
		}
		if path == "" {
			return Place{}, fmt.Errorf("%q: which %s? %s", s, map[string]string{"file": "directory", "sqlite": "file"}[kind], want)
		}
		return Place{Kind: kind, Path: filepath.Clean(path)}, nil
	case "postgres", "postgresql", "redis", "rediss":
		u, err := url.Parse(s)
		if err != nil {
			return Place{}, fmt.Errorf("the %s address cannot be read (%w); want %s://user:password@host:port/…", kind, cause(err), kind)
		}
		if !strings.HasPrefix(rest, "//") {
			return Place{}, fmt.Errorf("the %s address has no host; want %s://user:password@host:port/…", kind, kind)
		}
		if k, ok := map[string]string{"postgresql": "postgres", "rediss": "redis"}[kind]; ok {
			kind = k
		}
		return Place{Kind: kind, URL: u.String()}, nil
	}
	if !found {
		return Place{}, fmt.Errorf("%q is no place for runs; %s", s, want)
	}
	return Place{}, fmt.Errorf("runs cannot be kept in %q; %s", kind, want)
}

// cause is err without the address that it is about.
func cause(err error) error {
	if u, ok := err.(*url.Error); ok { //nolint:errorlint // url.Parse gives just this
		return u.Err
	}
	return err
}

// String is the place as ParsePlace reads it, with the password masked.
func (p Place) String() string {
	if p.Kind == "memory" {
		return p.Kind
	}
	if p.URL == "" {
		return p.Kind + ":" + p.Path
	}
	u, err := url.Parse(p.URL)
	if err != nil {
		return p.Kind + "://…"
	}
	q := u.Query()
	for _, secret := range []string{"password", "sslpassword"} {
		if q.Has(secret) {
			q.Set(secret, "xxxxx")
			u.RawQuery = q.Encode()
		}
	}
	return u.Redacted()
}

// Secret reports whether the place's name has a password in it.
func (p Place) Secret() bool {
	u, err := url.Parse(p.URL)
	if err != nil {
		return false
	}
	_, has := u.User.Password()
	return has || u.Query().Has("password")
}

// OpenOptions say which store is to be opened, see runlog/stores.
type OpenOptions struct {
	Place Place
	// StateDir is where what must be remembered about a distant store is kept, such as which
	// instance it was. Defaults to nowhere.
	StateDir string
	// Volatile accepts a store that keeps nothing when its server stops. Defaults to refusing it.
	Volatile bool
	// Notice says what a person should know of the store, one line at a time. Defaults to nothing.
	Notice func(line string)
	// Failpoint is for crash tests. Defaults to nothing.
	Failpoint func(name string)
}
