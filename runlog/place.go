package runlog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path/filepath"
	"strings"

	"github.com/superstep-dev/superstep/internal/suggest"
)

// A Place is the location of a store, as users write it.
type Place struct {
	Kind string // "memory", "file", "sqlite", "postgres" or "redis"
	Path string // of file and sqlite: the directory or file, as it was given
	URL  string // of postgres and redis, with any password
}

// A Driver opens the stores of one kind of place.
type Driver struct {
	Kind string // see Place
	// Open opens the store of a place, which the caller closes.
	Open func(ctx context.Context, opt *OpenOptions) (Store, io.Closer, error)
}

// places lists the forms of a place, for users.
const places = "memory, file:DIR, sqlite:PATH, postgres://… or redis://…"

// ParsePlace reads the name of a place: memory, file:DIR, sqlite:PATH, postgres://… or redis://…
// (rediss:// for TLS). Paths are as in file:/var/runs or sqlite:runs.db. Space around the name is
// ignored. The error for a refused name contains only the word before the colon, because any other
// part may be a password.
func ParsePlace(s string) (Place, error) {
	s = strings.TrimSpace(s)
	kind, rest, found := strings.Cut(s, ":")
	switch kind {
	case "memory":
		if rest != "" {
			return Place{}, errors.New("memory has no place; want " + places)
		}
		return Place{Kind: "memory"}, nil
	case "file", "sqlite":
		path := rest
		if p, ok := strings.CutPrefix(rest, "//"); ok { // as a URL: file:///var/runs
			path = p
		}
		if path == "" {
			return Place{}, fmt.Errorf("%s: which %s? Want %s", kind, map[string]string{"file": "directory", "sqlite": "file"}[kind], places)
		}
		return Place{Kind: kind, Path: filepath.Clean(path)}, nil
	case "postgres", "postgresql", "redis", "rediss":
		return parseAddress(kind, s)
	}
	return Place{}, noPlace(s, kind, found)
}

// parseAddress reads the URL of a server.
func parseAddress(kind, s string) (Place, error) {
	want := fmt.Sprintf("want %s://user:password@host:port/…", kind)
	rest, ok := strings.CutPrefix(s, kind+"://")
	if !ok {
		return Place{}, fmt.Errorf("the %s address has no host; %s", kind, want)
	}
	u, err := url.Parse(s)
	// A password such as 12/3 is parsed as a port and a path: the @ behind it reveals that.
	if i := strings.IndexAny(rest, "/?#"); err != nil || i >= 0 && strings.Contains(rest[i:], "@") {
		return Place{}, fmt.Errorf("the %s address cannot be read; special characters in a password must be percent-encoded, such as %%2F for / "+
			"and %%40 for @; %s", kind, want)
	}
	if k, ok := map[string]string{"postgresql": "postgres", "rediss": "redis"}[kind]; ok {
		kind = k
	}
	return Place{Kind: kind, URL: u.String()}, nil
}

// noPlace returns the error for a name of no known kind.
func noPlace(s, kind string, found bool) error {
	if key, _, ok := strings.Cut(s, "="); ok && key != "" && strings.Trim(key, "abcdefghijklmnopqrstuvwxyz_ ") == "" {
		return errors.New("a connection string of key=value pairs is not supported; want postgres://user:password@host:port/database")
	}
	const longest = 20
	kind = strings.ToLower(kind)
	word := kind != "" && len(kind) <= longest && strings.Trim(kind, "abcdefghijklmnopqrstuvwxyz0123456789+.-") == ""
	text := "the value is no place for runs; want "
	if word && found {
		text = fmt.Sprintf("runs cannot be kept in %q; want ", kind)
	}
	if c := suggest.Closest(kind, []string{"memory", "file", "sqlite", "postgres", "postgresql", "redis", "rediss"}); word && c != "" {
		text = fmt.Sprintf("%s; did you mean %q? Want ", strings.TrimSuffix(text, "; want "), c)
	}
	return errors.New(text + places)
}

// String returns the place as ParsePlace reads it, with the password masked.
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
	const mask = "xxxxx" // as that of url.URL.Redacted
	q, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		u.RawQuery = mask // what can be read of it is not all there is
	}
	for key := range q {
		if err == nil && secret(key) {
			q.Set(key, mask)
			u.RawQuery = q.Encode()
		}
	}
	return u.Redacted()
}

// secret reports whether the value of a URL's parameter is a secret.
func secret(key string) bool {
	key = strings.ToLower(key)
	for _, word := range []string{"password", "passwd", "pwd", "secret", "token"} {
		if strings.Contains(key, word) {
			return true
		}
	}
	return false
}

// Secret reports whether the place's name has a password in it, or may have one.
func (p Place) Secret() bool {
	u, err := url.Parse(p.URL)
	if err != nil {
		return true
	}
	if _, has := u.User.Password(); has {
		return true
	}
	q, err := url.ParseQuery(u.RawQuery)
	for key := range q {
		if secret(key) {
			return true
		}
	}
	return err != nil
}

// OpenOptions are the settings for opening a store, see runlog/stores.
type OpenOptions struct {
	Place Place
	// StateDir is the folder for local state about a remote store, such as its instance ID. If "",
	// nothing is stored.
	StateDir string
	// Look is set if runs are only read, so that a read-only store is accepted. By default it is
	// refused.
	Look bool
	// Volatile accepts a store that keeps nothing when its server stops. Defaults to refusing it.
	Volatile bool
	// Notice is called with notices about the store for the user, one line at a time. It may be
	// nil.
	Notice func(line string)
	// Raw turns redaction off. By default the secrets of Environ are redacted in everything
	// that is written.
	Raw bool
	// Keys encrypt what is written: one key or several, in the form of seal.ParseKeys. By
	// default the store is not encrypted.
	Keys string
	// Environ is the environment whose secrets are redacted, in the form of os.Environ. If
	// nil, it is that of the process.
	Environ []string
	// Failpoint is for crash tests. It may be nil.
	Failpoint func(name string)
}
