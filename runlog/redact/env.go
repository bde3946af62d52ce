package redact

import (
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// FromEnv picks the secrets of an environment, as os.Environ gives it: the values of
// variables whose names say so, and the passwords of those that hold the address of
// something. They are sorted by name. A variable that ends in _STORE_KEY may have several keys.
//
// Left out are values of fewer than 12 lower-case letters and nothing else, such as
// "postgres" or "changeme": they are words, and a log that has them taken out of it does not
// say what happened any more. In the address of something they are taken out all the same,
// by their place.
func FromEnv(environ []string) []Secret {
	var out []Secret
	add := func(name string, values ...string) {
		for _, v := range values {
			if !isPlainWord(strings.TrimSpace(v)) {
				out = append(out, Secret{name, v})
			}
		}
	}
	for _, entry := range environ {
		name, value, ok := strings.Cut(entry, "=")
		if !ok || value == "" {
			continue
		}
		switch upper := "_" + strings.ToUpper(name); {
		case upper == "_PWD": // where the shell is
		case ends(upper, "_API_KEY", "_APIKEY", "_ACCESS_KEY", "_SECRET_KEY", "_PRIVATE_KEY", "_SEAL_KEY", "_TOKEN", "_SECRET", "PASSWORD", "PASSWD", "_PWD", "_PASSPHRASE", "_CREDENTIALS"):
			add(name, value)
		case ends(upper, "_STORE_KEY"):
			add(name, strings.FieldsFunc(value, func(c rune) bool { return c == ',' || unicode.IsSpace(c) })...)
		case ends(upper, "_DSN", "_URL", "_URI", "_STORE", "_CONNECTION_STRING"):
			add(name, passwords(value)...)
		}
	}
	slices.SortStableFunc(out, func(a, b Secret) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// isPlainWord reports whether a value is more likely a word in a text than a secret.
func isPlainWord(s string) bool {
	const most = 11
	return len(s) <= most && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz") == ""
}

func ends(name string, with ...string) bool {
	return slices.ContainsFunc(with, func(end string) bool { return strings.HasSuffix(name, end) })
}

// passwords are those in an address: of a URL, as it is written and as it is meant, or of a
// list of key=value.
func passwords(address string) []string {
	if _, rest, ok := strings.Cut(address, "://"); ok {
		authority, _, _ := strings.Cut(rest, "/")
		at := strings.LastIndexByte(authority, '@')
		if at < 0 { // a password may have a slash in it, and what looks like one may be a port
			_, port, colon := strings.Cut(authority, ":")
			if at = strings.LastIndexByte(rest, '@'); at < 0 || !colon || port != "" && strings.Trim(port, "0123456789") == "" {
				return nil
			}
			authority = rest
		}
		_, written, ok := strings.Cut(authority[:at], ":")
		if !ok || written == "" {
			return nil
		}
		out := []string{written}
		if meant, err := url.PathUnescape(written); err == nil && meant != written {
			out = append(out, meant)
		}
		return out
	}
	var out []string
	for _, field := range strings.FieldsFunc(address, func(c rune) bool { return c == ' ' || c == ';' }) {
		name, value, _ := strings.Cut(field, "=")
		if value = strings.Trim(value, `'"`); strings.EqualFold(name, "password") && value != "" || strings.EqualFold(name, "pwd") && value != "" {
			out = append(out, value)
		}
	}
	return out
}
