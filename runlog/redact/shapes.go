package redact

import "bytes"

// A rule reports whether the anchor at i belongs to a credential, and returns its range, which
// never begins before i.
type rule func(s []byte, i int) (from, to int, ok bool)

// A shape describes the form of some credentials.
type shape struct {
	anchors []string // of at least three bytes
	rule    rule
}

// shapes returns the recognized forms of credentials: the prefixes their issuers document, private
// keys, tokens in headers and passwords in URLs.
func shapes() []shape {
	return []shape{
		{[]string{"sk-", "sk_live_", "sk_test_", "rk_live_", "xai-", "gsk_", "ya29."}, token(20, "-_.")},
		{[]string{"ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "npm_", "hf_"}, token(30, "_")},
		{[]string{"glpat-", "glptt-", "gldt-", "glrt-", "glcbt-", "glft-", "glimt-", "glagent-", "glsoat-", "gloas-"}, gitlab},
		{[]string{"xoxb-", "xoxp-", "xoxa-", "xoxr-", "xoxs-", "xoxe-", "xapp-"}, token(15, "-_.")},
		{[]string{"AKIA", "ASIA"}, token(20, "")},
		{[]string{"AIza"}, token(35, "-_")},
		{[]string{"eyJ"}, webToken},
		{[]string{"hooks.slack.com/services/", `hooks.slack.com\/services\/`, "discord.com/api/webhooks/", `discord.com\/api\/webhooks\/`}, webhook},
		{[]string{"earer "}, header("Bb", "")},
		{[]string{"asic "}, header("Bb", "uthorization")},
		{[]string{"://", `:\/\/`}, password},
		{[]string{"-----BEGIN "}, privateKey},
	}
}

func alnum(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// span returns where the run of letters, digits and other bytes that begins at i ends.
func span(s []byte, i int, others string) (end int, digit bool) {
	for ; i < len(s); i++ {
		c := s[i]
		if !alnum(c) && !contains(others, c) {
			break
		}
		digit = digit || c >= '0' && c <= '9'
	}
	return i, digit
}

func contains(set string, c byte) bool {
	for k := range len(set) {
		if set[k] == c {
			return true
		}
	}
	return false
}

// begins reports whether a word begins at i. The letters of an escape do not count.
func begins(s []byte, i int) bool {
	switch {
	case i == 0 || !alnum(s[i-1]) && s[i-1] != '_':
		return true
	case i >= 2 && s[i-2] == '\\' && contains("nrtbf", s[i-1]),
		i >= 3 && s[i-3] == '%',
		i >= 6 && s[i-6] == '\\' && s[i-5] == 'u':
		return true
	}
	return false
}

// token returns a rule for a word of a given length that contains a digit.
func token(least int, others string) rule {
	return func(s []byte, i int) (from, to int, ok bool) {
		if !begins(s, i) {
			return 0, 0, false
		}
		end, digit := span(s, i, others)
		return i, end, digit && end-i >= least
	}
}

// gitlab returns a token of GitLab: 20 bytes or more behind the prefix, which may all be letters.
// Words joined by dashes are not tokens.
func gitlab(s []byte, i int) (from, to int, ok bool) {
	if !begins(s, i) {
		return 0, 0, false
	}
	start := i
	for s[start] != '-' {
		start++
	}
	start++
	end, digit := span(s, start, "-_.")
	text := s[start:end]
	return i, end, len(text) >= 20 && (digit || !contains(string(text), '-') || bytes.ContainsAny(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
}

// webhook returns the address to which anybody may post who knows it.
func webhook(s []byte, i int) (from, to int, ok bool) {
	end, digit := span(s, i, "./\\-_")
	return i, end, digit && end-i >= 45
}

// webToken returns a JSON Web Token: three parts, the first of which begins like JSON.
func webToken(s []byte, i int) (from, to int, ok bool) {
	if !begins(s, i) {
		return 0, 0, false
	}
	end := i
	for part := range 3 {
		start := end
		end, _ = span(s, start, "-_")
		if end-start < 10 {
			return 0, 0, false
		}
		if part == 2 {
			break
		}
		if end == len(s) || s[end] != '.' {
			return 0, 0, false
		}
		end++
	}
	return i, end, true
}

// header returns what follows the name of a scheme, the first letter of which is one of those
// given, in a header of that name if there is one.
func header(first, name string) rule {
	return func(s []byte, i int) (from, to int, ok bool) {
		if i == 0 || !contains(first, s[i-1]) || !begins(s, i-1) {
			return 0, 0, false
		}
		if name != "" {
			near := false
			for k := i - 1; k >= max(0, i-len(name)-16); k-- {
				near = near || hasAt(s[:i], k, name)
			}
			if !near {
				return 0, 0, false
			}
		}
		from = i
		for from < len(s) && s[from] != ' ' {
			from++
		}
		from++
		end, digit := span(s, from, "-_.~+/=")
		return from, end, end-from >= 16 && (digit || name != "")
	}
}

// password matches the password of a URL: scheme://user:password@host.
func password(s []byte, i int) (from, to int, ok bool) {
	const most = 512
	k := i + len("://")
	if s[i+1] == '\\' {
		k = i + len(`:\/\/`)
	}
	for ; k < len(s) && k < i+most; k++ {
		switch c := s[k]; {
		case c == ':' && from == 0:
			from = k + 1
		case c == '@' && from > 0:
			return from, k, k > from && !hasAt(s, from, hidden[:len(hidden)-1])
		case c == '/' || c == '?' || c == '#' || c <= ' ' || c == '<' || c == '>' || c == '@',
			c == '"' && s[k-1] != '\\':
			return 0, 0, false
		}
	}
	return 0, 0, false
}

// privateKey returns a block of armour whose first line says that a private key is in it. If the
// end is missing, the block ends with the last line that looks like a key.
func privateKey(s []byte, i int) (from, to int, ok bool) {
	const dashes = "-----"
	line := i + len(dashes)
	for line < len(s) && line < i+80 && (s[line] >= 'A' && s[line] <= 'Z' || s[line] >= '0' && s[line] <= '9' || s[line] == ' ') {
		line++
	}
	if !hasAt(s, line, dashes) || !hasAt(s, line-len("PRIVATE KEY"), "PRIVATE KEY") && !hasAt(s, line-len("PRIVATE KEY BLOCK"), "PRIVATE KEY BLOCK") {
		return 0, 0, false
	}
	body := line + len(dashes)
	for k := body; k < len(s); k++ {
		if s[k] == '-' && hasAt(s, k, "-----END ") {
			k += len("-----END ")
			for k < len(s) && s[k] != '-' {
				k++
			}
			return i, min(len(s), k+len(dashes)), true
		}
		if hasAt(s, k, "-----BEGIN ") {
			break
		}
	}
	end, _ := span(s, body, "+/=\r\n\\")
	return i, end, end-body >= 32
}
