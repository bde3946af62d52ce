package tui

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2/maybe"
)

const (
	mostTyped   = 1000        // lines of the history that are kept
	longTyped   = 32 << 10    // bytes of a text that the history keeps
	mostHistory = 8 << 20     // bytes of the file that are read, its last ones
	mostDraft   = 1 << 20     // bytes of a draft that is read
	draftAge    = 30 * 24     // hours that a draft is kept
	draftGap    = time.Second // between two writings of drafts
)

// typedLine is a line of the file of the history.
type typedLine struct {
	Text string `json:"text"`
}

// A history is what was typed before, here and in earlier sessions: the oldest first, each text once.
type history struct {
	file string // "" for none
	list []string
}

// readHistory reads the file of a history. Lines that make no sense are skipped; a file that has grown too long is written again.
func readHistory(file string) *history {
	h := &history{file: file}
	f, err := os.Open(file)
	if file == "" || err != nil {
		return h
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		if info.Mode().Perm()&0o077 != 0 {
			_ = f.Chmod(0o600) // add does it again
		}
		if info.Size() > mostHistory {
			_, _ = f.Seek(-mostHistory, io.SeekEnd)
		}
	}
	lines := 0
	in := bufio.NewScanner(f)
	in.Buffer(nil, 4*longTyped)
	for in.Scan() {
		var l typedLine
		if lines++; json.Unmarshal(in.Bytes(), &l) == nil {
			h.remember(l.Text)
		}
	}
	if lines > 2*mostTyped {
		var b bytes.Buffer
		for _, text := range h.list {
			_ = json.NewEncoder(&b).Encode(typedLine{text}) // a string encodes
		}
		_ = maybe.WriteFile(file, b.Bytes(), 0o600) // else it is read again the next time
	}
	return h
}

func (h *history) remember(text string) {
	if text == "" || len(text) > longTyped {
		return
	}
	h.list = append(slices.DeleteFunc(h.list, func(s string) bool { return s == text }), text)
	h.list = h.list[max(0, len(h.list)-mostTyped):]
}

// add adds a text, and returns what writes it to the file.
func (h *history) add(text string) (write func() error) {
	h.remember(text)
	return func() error {
		if h.file == "" || text == "" || len(text) > longTyped {
			return nil
		}
		line, err := json.Marshal(typedLine{text})
		if err == nil {
			err = os.MkdirAll(filepath.Dir(h.file), 0o700)
		}
		if err != nil {
			return err
		}
		f, err := os.OpenFile(h.file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		if err = f.Chmod(0o600); err == nil {
			_, err = f.Write(append(line, '\n'))
		}
		return errors.Join(err, f.Close())
	}
}

// find returns the newest text before index that has query in it, -1 if there is none. Case does not matter.
func (h *history) find(query string, before int) int {
	query = strings.ToLower(query)
	for i := min(before, len(h.list)) - 1; i >= 0; i-- {
		if strings.Contains(strings.ToLower(h.list[i]), query) {
			return i
		}
	}
	return -1
}

// A draft is what was typed for a run and is not in its log yet.
type draft struct {
	Text    string    `json:"text,omitempty"`
	Parts   []string  `json:"parts,omitempty"`   // what was pasted into it, see composer.parts
	Sending []sending `json:"sending,omitempty"` // messages on their way, the oldest first
}

// sending is a message that was sent to a run and that its log does not have yet.
type sending struct {
	Text  string `json:"text"`
	After uint64 `json:"after,omitempty"` // the run's last record at that time
	here  bool   // this terminal waits to hear that it has arrived
}

func (d draft) empty() bool { return strings.TrimSpace(d.Text) == "" && len(d.Sending) == 0 }

// drafts are the drafts of all runs, by run; "" is the one for the next chat.
type drafts struct {
	dir   string // "" keeps them in memory only
	all   map[string]draft
	dirty map[string]bool
}

// readDrafts reads the folder of drafts, and removes old ones.
func readDrafts(dir string, now time.Time) *drafts {
	d := &drafts{dir: dir, all: map[string]draft{}, dirty: map[string]bool{}}
	entries, err := os.ReadDir(dir)
	if dir == "" || err != nil {
		return d
	}
	for _, e := range entries {
		run, ok := strings.CutSuffix(e.Name(), ".json")
		info, err := e.Info()
		if !ok || err != nil || !info.Mode().IsRegular() || info.Size() > mostDraft {
			continue
		}
		name := filepath.Join(dir, e.Name())
		if now.Sub(info.ModTime()) > draftAge*time.Hour {
			_ = os.Remove(name)
			continue
		}
		var one draft
		if b, err := os.ReadFile(name); err != nil || json.Unmarshal(b, &one) != nil {
			continue
		}
		if run == newChat { // whether a chat began is for the user to see
			run = ""
			for _, s := range slices.Backward(one.Sending) {
				one.Text = strings.TrimRight(s.Text+"\n"+one.Text, "\n")
			}
			one.Sending = nil
		}
		d.all[run] = one
	}
	return d
}

// newChat is the name of the draft for the next chat. No run has that ID.
const newChat = "next_chat"

var draftName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$`)

func (d *drafts) set(run string, one draft) {
	if one.empty() {
		delete(d.all, run)
	} else {
		d.all[run] = one
	}
	d.dirty[run] = true
}

// save returns what writes the drafts that have changed.
func (d *drafts) save() (write func() error) {
	todo := map[string]draft{}
	for run := range d.dirty {
		todo[run] = d.all[run]
	}
	clear(d.dirty)
	dir := d.dir
	return func() error {
		var errs []error
		for run, one := range todo {
			if run == "" {
				run = newChat
			}
			name := filepath.Join(dir, run+".json")
			switch {
			case dir == "" || !draftName.MatchString(run):
			case one.empty():
				if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
					errs = append(errs, err)
				}
			default:
				b, err := json.Marshal(one)
				if err == nil {
					err = os.MkdirAll(dir, 0o700)
				}
				if err == nil {
					err = maybe.WriteFile(name, b, 0o600)
				}
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}
}
