package builtin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/rogpeppe/go-internal/diff"

	"github.com/superstep-dev/superstep/tool"
)

// preview returns the change that make would make of a file. It makes neither files nor folders.
func (r *Root) preview(name string, make func(before string, exists bool) (after string, err error)) (*tool.Change, error) {
	r.writing.Lock()
	defer r.writing.Unlock()
	before, exists := "", false
	p, err := r.place(name, false)
	switch {
	case err == nil:
		defer p.dir.Close()
		exists = p.mode != 0
		if before, err = p.text(); err != nil {
			return nil, err
		}
	case !errors.Is(err, fs.ErrNotExist):
		return nil, err
	}
	after, err := make(before, exists)
	if err != nil {
		return nil, err
	}
	return changeOf(name, before, after, !exists), nil
}

// text returns the content of the file, a description if it is not a text, and "" if the file does not exist.
func (p *place) text() (string, error) {
	before, err := p.read()
	if _, ok := errors.AsType[*opaqueError](err); ok {
		return fmt.Sprintf("(%v)\n", err), nil
	}
	return before, err
}

// opaqueError is why the content of a file cannot be shown or edited.
type opaqueError struct{ why string }

func (e *opaqueError) Error() string { return e.why }

// changeOf compares two contents of a file.
func changeOf(name, before, after string, fresh bool) *tool.Change {
	c := &tool.Change{New: fresh}
	from := "a/" + name
	if fresh {
		from = "/dev/null"
	}
	// The first line names the files once more.
	_, text, _ := strings.Cut(string(diff.Diff(from, []byte(before), "b/"+name, []byte(after))), "\n")
	c.Diff = text
	sum := sha256.New()
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "@@ ") { // which says where, and that may move
			sum.Write([]byte(line))
		}
	}
	c.Sum = hex.EncodeToString(sum.Sum(nil))
	return c
}

// seen refuses a change that differs from the one the user has allowed. A call that changes nothing is always accepted, so that a call repeated after a
// crash finds its own success.
func seen(name, before, after string, fresh bool, approved string) error {
	if approved == "" || before == after && !fresh || changeOf(name, before, after, fresh).Sum == approved {
		return nil
	}
	return fmt.Errorf("path %s: the file is not as it was when this change was shown and allowed, so the permission does not hold; nothing was "+
		"written. Read the file and call again", name)
}
