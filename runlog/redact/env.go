package redact

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// FromEnv picks the secrets of an environment, as os.Environ returns it: the values of
// variables whose names end like MY_TOKEN, and the passwords of those that hold the address
// of something. They are sorted by name. A variable that ends in _STORE_KEY may have several keys.
//
// Values of fewer than 12 lower-case letters and nothing else, such as "postgres" or
// "changeme", are left out: they are words, and a log without them does not tell what
// happened any more. In the address of something they are redacted all the same, by their
// place. The names *_AUTH, *_COOKIE and *_DATA are used for other things than secrets too:
// addresses, paths, and values of up to 20 bytes that are made of words, such as
// "scram-sha-256", are left out.
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
		case ends(upper, "_API_KEY", "_APIKEY", "_ACCESS_KEY", "_SECRET_KEY", "_PRIVATE_KEY", "_SEAL_KEY", "_TOKEN", "_SECRET", "PASSWORD", "PASSWD",
			"_PWD", "_PASSPHRASE", "_CREDENTIALS",
			"_PAT", "_SK", "_JWT", "_AUTHTOKEN", "_ENCRYPTION_KEY", "_SIGNING_KEY"):
			add(name, value)
		case ends(upper, "_AUTH", "_COOKIE", "_DATA"):
			add(name, hiddenIn(value)...)
		case ends(upper, "_STORE_KEY"):
			add(name, strings.FieldsFunc(value, func(c rune) bool { return c == ',' || unicode.IsSpace(c) })...)
		case ends(upper, "_HEADERS"): // such as OTEL_EXPORTER_OTLP_HEADERS
			for pair := range strings.SplitSeq(value, ",") {
				_, v, _ := strings.Cut(pair, "=")
				plain, _ := url.PathUnescape(v)
				_, credential, _ := strings.Cut(plain, " ") // after Basic or Bearer
				add(name, v, plain, credential)
			}
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

// hiddenIn returns the secrets in a value that may have several forms: the value itself, the
// password of name:password, and the values of cookies.
func hiddenIn(value string) []string {
	const phrase = 20
	switch v := strings.TrimSpace(value); {
	case strings.Contains(v, "://"):
		return passwords(v)
	case isPath(v), len(v) <= phrase && isWords(v):
		return nil
	}
	out := []string{value}
	for _, field := range strings.Split(value, ";") {
		if _, part, ok := strings.Cut(field, "="); ok && !isWords(part) {
			out = append(out, part)
		}
	}
	if name, password, ok := strings.Cut(value, ":"); ok && !strings.ContainsAny(name, "{ \n") && !isWords(password) {
		out = append(out, password)
	}
	return out
}

// isPath reports whether a value is the absolute path of a file, or one from a folder that
// it names.
func isPath(v string) bool {
	first, _, _ := strings.Cut(strings.TrimPrefix(v, "/"), "/")
	return v != "" && v[0] == '/' && isWords(first) || strings.HasPrefix(v, "./") || strings.HasPrefix(v, "../") || strings.HasPrefix(v, "~") ||
		len(v) > 2 && alnum(v[0]) && v[1] == ':' && v[2] == '\\'
}

// word is one, or some of them written together, perhaps with a number: camelCase, sha256.
var word = regexp.MustCompile(`^(?:[A-Z]*[a-z]{2,}|[A-Z]+)(?:[A-Z][a-z]{2,})*[0-9]{0,4}$|^[0-9]{1,12}$`)

// isWords reports whether all letters and digits of a text are words, as in "eu-west-1".
func isWords(s string) bool {
	const short, longest = 5, 20
	for _, w := range strings.FieldsFunc(s, func(c rune) bool { return c < utf8.RuneSelf && !alnum(byte(c)) }) {
		if len(w) > longest || len(w) > short && !word.MatchString(w) {
			return false
		}
	}
	return true
}

func ends(name string, with ...string) bool {
	return slices.ContainsFunc(with, func(end string) bool { return strings.HasSuffix(name, end) })
}

// passwords returns the passwords in an address: in a URL, both encoded and decoded, or in a list
// of key=value.
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
