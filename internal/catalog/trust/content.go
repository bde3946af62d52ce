package trust

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/superstep-dev/superstep/internal/clean"
)

const (
	mostText       = 64 << 10 // bytes of text of an item that are kept
	mostFiles      = 1200     // of an item
	longestContent = 4 << 20  // bytes, encoded
)

// A File is a text of an item, such as a file, stored so that later changes can be shown.
type File struct {
	Name   string `json:"name"`
	Text   string `json:"text,omitempty"`
	Digest string `json:"digest"` // of all of it, in whatever form; "" for that of Text
	Bare   bool   `json:"bare,omitempty"`
}

// Content returns the value of Item.Content for files: their texts, up to room bytes in total (64
// KiB for 0, 2 MiB at most), and only the digests of the rest. Characters that could deceive are
// made visible, such as <U+202E>. A file whose Text must not be stored is Bare.
func Content(files []File, room int) string {
	room = min(cmp.Or(room, mostText), 2<<20)
	if len(files) == 0 {
		return ""
	}
	out := make([]File, 0, min(len(files), mostFiles+1))
	rest := sha256.New()
	for i, f := range files {
		if f.Digest == "" {
			sum := sha256.Sum256([]byte(f.Text))
			f.Digest = "sha256:" + hex.EncodeToString(sum[:])
		}
		if len(files) > mostFiles && i >= mostFiles {
			fmt.Fprintf(rest, "%q %q\n", f.Name, f.Digest)
			continue
		}
		f.Name = strings.ReplaceAll(visible(f.Name), "\n", "<U+000A>")
		if len(f.Name) > 4096 {
			f.Name = strings.ToValidUTF8(f.Name[:4096], "")
		}
		if f.Text = visible(f.Text); f.Bare || len(f.Text) > room {
			f.Text, f.Bare = "", true
		}
		room -= len(f.Text)
		out = append(out, f)
	}
	if n := len(files) - mostFiles; n > 0 {
		out = append(out, File{Name: fmt.Sprintf("(%d more)", n), Digest: "sha256:" + hex.EncodeToString(rest.Sum(nil)), Bare: true})
	}
	b, err := json.Marshal(out)
	if err != nil || len(b) > longestContent {
		return ""
	}
	return string(b)
}

// Files returns the files of a content, or nil if the content is invalid.
func Files(content string) []File {
	if content == "" || len(content) > longestContent {
		return nil
	}
	var out []File
	if json.Unmarshal([]byte(content), &out) != nil {
		return nil
	}
	for i := range out {
		out[i].Name, out[i].Text = strings.ReplaceAll(clean.Text(out[i].Name), "\n", " "), clean.Text(out[i].Text)
	}
	return out
}

// visible returns a text with the characters that clean.Text would remove made visible.
func visible(s string) string {
	s = strings.ReplaceAll(s, "\r\n", "\n")
	if clean.Text(s) == s {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch c := s[i : i+n]; {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, "<%02X>", s[i])
		case clean.Text(c) != c:
			fmt.Fprintf(&b, "<U+%04X>", r)
		default:
			b.WriteString(c)
		}
		i += n
	}
	return clean.Text(b.String())
}

// A change is the difference between two versions of files.
type change struct {
	text           string // the unified difference, file by file
	names          string // which files came, went and differ, on a line each
	added, removed int    // lines
}

// compare returns the changes between two contents.
func compare(before, after []File) change {
	old, now := map[string]File{}, map[string]File{}
	var names []string
	for _, f := range before {
		old[f.Name] = f
		names = append(names, f.Name)
	}
	for _, f := range after {
		if _, twice := old[f.Name]; !twice {
			names = append(names, f.Name)
		}
		now[f.Name] = f
	}
	var out change
	for _, name := range names {
		was, had := old[name]
		is, has := now[name]
		if had && has && was.Digest == is.Digest {
			continue
		}
		from, to, mark := name, name, "~"
		if !had {
			from, mark = "/dev/null", "+"
		}
		if !has {
			to, mark = "/dev/null", "-"
		}
		out.names += mark + " " + name + "\n"
		out.text += "--- " + from + "\n+++ " + to + "\n"
		switch {
		case was.Bare:
			out.text += "contents differ; what it was is no text, or too long, and was not kept\n"
		case is.Bare:
			out.text += "contents differ; what it is now is no text, or too long, and was not kept\n"
		case was.Text == is.Text && had && has:
			out.text += "contents differ in nothing that can be shown, such as ends of lines\n"
		default:
			text, added, removed := unified(was.Text, is.Text)
			out.text, out.added, out.removed = out.text+text, out.added+added, out.removed+removed
		}
	}
	return out
}
