package agent

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/clean"
	"github.com/superstep-dev/superstep/tool"
)

// The bytes shown of a result that was moved to a file.
const (
	previewHead = 4000 // bytes
	previewTail = 1000
)

// tooLarge reports whether a result is more than a conversation should hold.
func tooLarge(t *tool.Tool, text string) bool {
	return len(text) > clean.MaxBytes || !t.Whole && strings.Count(text, "\n") > clean.MaxLines
}

// cut truncates a result, unless its tool must be shown in full.
func cut(t *tool.Tool, res tool.Result) tool.Result {
	if !t.Whole {
		res.Text, _ = clean.Truncate(res.Text)
	}
	return res
}

// spilled returns the text that the model sees for a result that was moved to a file, or could not be.
func spilled(t *tool.Tool, res tool.Result, path string, err error) tool.Result {
	if err != nil {
		res = cut(t, res)
		return res
	}
	head, tail := head(res.Text, previewHead), tail(res.Text, previewTail)
	left := len(res.Text) - len(head) - len(tail)
	res.Text = fmt.Sprintf("[%d bytes in %d lines, too much to show; all of it is in %s, read it there, a part at a time]\n%s\n[… %d bytes left out …]\n%s",
		len(res.Text), strings.Count(res.Text, "\n")+1, clean.Text(path), head, left, tail)
	return res
}

// head is the beginning of a text, up to the end of a line if one is near.
func head(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for most > 0 && !utf8.RuneStart(s[most]) {
		most--
	}
	s = s[:most]
	if i := strings.LastIndexByte(s, '\n'); i > most*3/4 {
		s = s[:i]
	}
	return s
}

// tail is the end of a text, from the beginning of a line if one is near.
func tail(s string, most int) string {
	if len(s) <= most {
		return s
	}
	at := len(s) - most
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	s = s[at:]
	if i := strings.IndexByte(s, '\n'); i >= 0 && i < most/4 {
		s = s[i+1:]
	}
	return s
}

// spillName names a result: for people by where it comes from, and uniquely.
func spillName(path, key, name string) string {
	id := path + "/" + key
	word := strings.Map(func(c rune) rune {
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || c == '.' || c == '_' {
			return c
		}
		return '-'
	}, id+"-"+name)
	if len(word) > 80 {
		word = word[len(word)-80:]
	}
	sum := sha256.Sum256([]byte(id))
	return strings.Trim(word, "-.") + "-" + hex.EncodeToString(sum[:4]) + ".txt"
}
