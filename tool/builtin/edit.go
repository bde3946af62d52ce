package builtin

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/superstep-dev/superstep/internal/inside"
	"github.com/superstep-dev/superstep/tool"
)

const (
	mostEdits = 100     // in one call
	diffBytes = 8 << 10 // of what changed that are shown
)

type edit struct {
	Old string `json:"old_string" jsonschema:"the text to replace, exactly as it is in the file, without line numbers, and with enough around it to occur once; empty only to make a new file"`
	New string `json:"new_string" jsonschema:"the text to put there"`
}

// editFile returns the tool "edit_file", which replaces texts in a file below root. Each must occur exactly once; all are replaced or none is. Ends of
// lines stay as the file has them. The file is replaced atomically and durably, as by WriteFile. If the file already has the edits, the call changes
// nothing and reports it, so that a call repeated after a crash finds its own success.
func editFile(root *Root) *tool.Tool {
	type args struct {
		Path  string `json:"path" jsonschema:"the file, relative to the working folder"`
		Edits []edit `json:"edits" jsonschema:"the replacements, made one after the other; if one cannot be made, none is"`
	}
	t := made(tool.NewRaw("edit_file", "Replace texts in a file. Each old_string must occur exactly once in it. The output is what changed.",
		func(ctx context.Context, c *tool.Call, in args) (string, error) {
			return root.edit(ctx, in.Path, in.Edits, c.Approved)
		},
		&tool.Options{Effect: tool.Idempotent, Adjust: func(s *jsonschema.Schema) {
			s.Properties["edits"].Types, s.Properties["edits"].Type = nil, "array"
			s.Properties["edits"].MinItems = jsonschema.Ptr(1)
			s.Properties["edits"].MaxItems = jsonschema.Ptr(mostEdits)
		}}))
	t.Preview = func(_ context.Context, c *tool.Call) (*tool.Change, error) {
		var in args
		if err := json.Unmarshal(c.Args, &in); err != nil {
			return nil, err
		}
		if err := useful(in.Edits); err != nil {
			return nil, err
		}
		return root.preview(in.Path, func(before string, exists bool) (string, error) {
			after, _, err := root.revise(in.Path, before, exists, in.Edits)
			return after, err
		})
	}
	return t
}

// useful refuses edits that change nothing.
func useful(edits []edit) error {
	for i, e := range edits {
		if e.Old == e.New {
			return fmt.Errorf("edit %d: old_string and new_string are the same; nothing would change", i+1)
		}
	}
	return nil
}

// creates reports whether edits make a new file.
func creates(edits []edit) bool { return len(edits) == 1 && edits[0].Old == "" }

// revise applies edits to the content of a file. There are no hunks if they have been made before.
func (r *Root) revise(name, before string, exists bool, edits []edit) (after string, hunks []hunk, err error) {
	switch {
	case creates(edits) && exists && before != edits[0].New && before != "":
		return "", nil, fmt.Errorf("path %s in %s: exists; give an old_string that is in it, or use write_file to replace it whole", name, r.Dir())
	case creates(edits):
		return edits[0].New, []hunk{{1, "", edits[0].New}}, nil
	case !exists:
		return "", nil, r.missing(name)
	case applied(before, edits):
		return before, nil, nil
	}
	if after, hunks, err = apply(before, edits); err != nil {
		err = fmt.Errorf("path %s: %w; no edit was made", name, err)
	}
	return after, hunks, err
}

func (r *Root) edit(ctx context.Context, name string, edits []edit, approved string) (string, error) {
	if err := useful(edits); err != nil {
		return "", err
	}
	r.writing.Lock()
	defer r.writing.Unlock()
	p, err := r.place(name, creates(edits))
	if err != nil {
		return "", err
	}
	defer p.dir.Close()
	before, err := p.read()
	if err != nil {
		return "", err
	}
	after, hunks, err := r.revise(name, before, p.mode != 0, edits)
	switch {
	case err != nil:
		return "", err
	case hunks == nil:
		return fmt.Sprintf("%s holds the edits already; nothing was changed. To repeat a text, give old_string with more of what is around it.", name), nil
	case len(after) > largestWrite:
		return "", fmt.Errorf("path %s: would be over %d MiB; write less", name, largestWrite>>20)
	}
	if err := cmp.Or(seen(name, before, after, p.mode == 0, approved), ctx.Err()); err != nil {
		return "", err
	}
	if err := p.replace(after); err != nil {
		return "", err
	}
	return summary(name, hunks), nil
}

// read returns the content of the file, "" if there is none.
func (p *place) read() (string, error) {
	if p.mode == 0 {
		return "", nil
	}
	f, info, err := (&inside.Root{Root: p.dir}).Exact(p.base)
	if err != nil {
		return "", p.root.explain(p.name, err)
	}
	defer f.Close()
	b, err := inside.ReadAll(f, largestWrite)
	switch {
	case errors.Is(err, inside.ErrTooLarge):
		return "", &opaqueError{fmt.Sprintf("path %s in %s: %d bytes are over %d MiB; edit it by a command", p.name, p.root.Dir(), info.Size(), largestWrite>>20)}
	case err != nil:
		return "", p.root.explain(p.name, err)
	case bytes.IndexByte(b[:min(len(b), sniffed)], 0) >= 0:
		return "", &opaqueError{fmt.Sprintf("path %s in %s: is a binary file (%s, %d bytes); only text can be edited", p.name, p.root.Dir(),
			contentType(f), info.Size())}
	}
	return string(b), nil
}

// A hunk is one replacement, with the line where it begins.
type hunk struct {
	line     int
	old, new string
}

// apply applies the edits one after the other.
func apply(content string, edits []edit) (string, []hunk, error) {
	var hunks []hunk
	for i, e := range edits {
		start, end, n := locate(content, e.Old)
		switch {
		case e.Old == "":
			return "", nil, fmt.Errorf("edit %d: old_string is empty; give the text to replace", i+1)
		case n == 0:
			return "", nil, fmt.Errorf("edit %d: old_string is not in the file%s; read the file and copy the text exactly, without line numbers", i+1,
				nearly(content, e.Old))
		case n > 1:
			return "", nil, fmt.Errorf("edit %d: old_string occurs more than once; give more of what is around the place that is meant", i+1)
		}
		text := e.New
		if crlf(around(content, start, end)) {
			text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
		}
		hunks = append(hunks, hunk{1 + strings.Count(content[:start], "\n"), content[start:end], text})
		content = content[:start] + text + content[end:]
	}
	return content, hunks, nil
}

// around returns what decides how the lines of a replacement end: what it replaces, up to the end of its line if it has none itself, or else the file.
func around(content string, start, end int) string {
	if old := content[start:end]; strings.Contains(old, "\n") {
		return old
	}
	if at := strings.IndexByte(content[end:], '\n'); at >= 0 {
		return content[start : end+at+1]
	}
	return content
}

// crlf reports whether most lines of a text end in CR LF.
func crlf(s string) bool {
	n := strings.Count(s, "\r\n")
	return n > 0 && 2*n >= strings.Count(s, "\n")
}

// locate finds a text, treating both kinds of line end as equal, and returns the number of occurrences: 0, 1, or 2 for more.
func locate(content, old string) (start, end, n int) {
	if old == "" {
		return 0, 0, 0
	}
	if !strings.Contains(content, "\r\n") {
		return once(content, old)
	}
	// As a text with LF alone, and back to the offsets of the file.
	plain := strings.ReplaceAll(content, "\r\n", "\n")
	start, end, n = once(plain, strings.ReplaceAll(old, "\r\n", "\n"))
	if n != 1 {
		return 0, 0, n
	}
	return original(content, start), original(content, end), 1
}

func once(content, old string) (start, end, n int) {
	at := strings.Index(content, old)
	if at < 0 {
		return 0, 0, 0
	}
	if strings.Contains(content[at+1:], old) {
		return 0, 0, 2
	}
	return at, at + len(old), 1
}

// original returns the offset in a text of one in the same text with LF alone.
func original(content string, at int) int {
	i := 0
	for ; at > 0; at-- {
		if strings.HasPrefix(content[i:], "\r\n") {
			i++
		}
		i++
	}
	return i
}

// applied reports whether the edits have been made: taking them back in reverse and making them again
// gives the same text.
func applied(content string, edits []edit) bool {
	back := content
	for i := len(edits) - 1; i >= 0; i-- {
		start, end, n := locate(back, edits[i].New)
		if n != 1 {
			return false
		}
		old := edits[i].Old
		if crlf(around(back, start, end)) {
			old = strings.ReplaceAll(strings.ReplaceAll(old, "\r\n", "\n"), "\n", "\r\n")
		}
		back = back[:start] + old + back[end:]
	}
	again, _, err := apply(back, edits)
	return err == nil && again == content
}

// nearly suggests why a text is not in a file.
func nearly(content, old string) string {
	squash := func(s string) string { return strings.Join(strings.Fields(s), " ") }
	if s := squash(old); s != "" && len(content) < 1<<20 && strings.Contains(squash(content), s) {
		return " with this indentation and these line breaks"
	}
	return ""
}

// summary describes the change.
func summary(name string, hunks []hunk) string {
	var out strings.Builder
	minus, plus := 0, 0
	for _, h := range hunks {
		minus, plus = minus+countOf(h.old), plus+countOf(h.new)
	}
	fmt.Fprintf(&out, "edited %s: %d lines became %d\n", name, minus, plus)
	for _, h := range hunks {
		fmt.Fprintf(&out, "@@ line %d\n", h.line)
		side(&out, "-", h.old)
		side(&out, "+", h.new)
		if out.Len() > diffBytes {
			out.WriteString("[the rest is not shown]\n")
			break
		}
	}
	return out.String()
}

func countOf(s string) int {
	n := strings.Count(s, "\n")
	if s != "" && !strings.HasSuffix(s, "\n") {
		n++
	}
	return n
}

func side(out *strings.Builder, mark, text string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\r\n")
		if len(line) > lineBytes {
			line = strings.ToValidUTF8(line[:lineBytes], "") + "…"
		}
		fmt.Fprintf(out, "%s%s\n", mark, line)
		if out.Len() > diffBytes {
			return
		}
	}
}
