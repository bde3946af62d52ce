package script

import (
	"fmt"
	"strings"
)

// maxDensity is how much nesting the text of one file may hold at most, however it is arranged.
// The bundler goes down one level of its stack for each, and a stack that is full ends the whole
// program: it takes more than 40,000 levels of any kind, and time that grows with their square.
const maxDensity = 40_000

// tooDense returns an error text if a file could be nested too deeply for the bundler, or else "".
// It counts everything that can open a level, even in strings and comments, so that nesting cannot
// be hidden.
func tooDense(text string) string {
	n := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '{':
			n += 4
		case '(', '[', '!', '~', '+', '-', '=', '?', ':', '.', '`', '<', '>', '*', '@', ',', '&', '|', '/', '%', '^':
			n++
		default:
			if !letter(c) {
				continue
			}
			start := i
			for i+1 < len(text) && letter(text[i+1]) {
				i++
			}
			if i-start < 11 && opens(text[start:i+1]) {
				n += 4
			}
		}
	}
	if n <= maxDensity {
		return ""
	}
	return fmt.Sprintf("holds so much nesting, or so many operators (%d, more than %d), that it is not safe to read; split the file", n, maxDensity)
}

func letter(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '$' || c >= 0x80
}

// opens reports whether a word can open a level without a sign in between.
func opens(word string) bool {
	switch word {
	case "if", "else", "do", "new", "typeof", "void", "delete", "await", "yield", "class", "switch", "for", "while", "with",
		"keyof", "readonly", "unique", "infer", "function", "async", "asserts", "abstract", "declare":
		return true
	}
	return false
}

// tooDenseData is tooDense for JSON.
func tooDenseData(text string) string {
	if n := strings.Count(text, "[") + strings.Count(text, "{"); n > maxDensity {
		return fmt.Sprintf("holds %d lists and objects, more than %d; read it when the tool runs instead of importing it", n, maxDensity)
	}
	return ""
}
