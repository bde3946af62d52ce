package clean

import "strings"

const longestLink = 4096 // bytes of an address

// Links returns the addresses that stand in a text, each once and without its fragment. Punctuation and brackets around an address are not part of it.
func Links(text string) []string {
	var out []string
	seen := map[string]bool{}
	for {
		at := strings.Index(text, "http")
		if at < 0 {
			return out
		}
		text = text[at:]
		rest, ok := strings.CutPrefix(text, "https://")
		if !ok {
			if rest, ok = strings.CutPrefix(text, "http://"); !ok {
				text = text[len("http"):]
				continue
			}
		}
		end := extent(rest)
		address, more := text[:len(text)-len(rest)+end], rest[end:]
		text = more
		if end > 0 && len(address) <= longestLink && !seen[address] {
			seen[address] = true
			out = append(out, address)
		}
	}
}

// Link returns an address in the form of Links.
func Link(address string) string {
	address, _, _ = strings.Cut(strings.TrimSpace(address), "#")
	return address
}

// extent returns how many bytes of a text are the rest of an address.
func extent(s string) int {
	open := map[rune]int{}
	end := strings.IndexFunc(s, func(c rune) bool {
		switch c {
		case '(', '[':
			open[c]++
		case ')':
			open['(']--
			return open['('] < 0
		case ']':
			open['[']--
			return open['['] < 0
		}
		return c <= ' ' || c == 0x7f || strings.ContainsRune("<>\"`\\^{}|#", c)
	})
	if end < 0 {
		end = len(s)
	}
	return len(strings.TrimRight(s[:end], ".,;:!?'*_~"))
}
