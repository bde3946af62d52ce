package cassette

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/superstep-dev/superstep/model"
)

// A tape is a cassette that was read.
type tape struct {
	header line
	pieces map[string]*piece
	turns  []*recordation
}

// read reads a cassette. It checks everything: a turn that no model could have produced is an
// error, and so is a request with a wrong digest.
func read(r io.Reader) (*tape, int, error) {
	t := &tape{pieces: map[string]*piece{}}
	lines := bufio.NewReaderSize(r, 64<<10)
	size := 0
	for n := 1; ; n++ {
		raw, err := readLine(lines)
		if size += len(raw); size > maxCassette {
			return nil, n, fmt.Errorf("the cassette is larger than %d MiB; record less on each", maxCassette>>20)
		}
		if errors.Is(err, io.EOF) && len(raw) == 0 {
			if n == 1 {
				return nil, n, errors.New(`it is empty; the first line of a cassette is {"cassette":1,"model":"…"}`)
			}
			return t, 0, nil
		}
		if err == nil || errors.Is(err, io.EOF) {
			err = t.take(raw, n == 1, err == nil)
		}
		if err != nil {
			return nil, n, err
		}
	}
}

// readLine reads a line of bounded length, without its end.
func readLine(r *bufio.Reader) ([]byte, error) {
	var out []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(out)+len(part) > maxLine+1 {
			return nil, fmt.Errorf("the line is longer than %d MiB", maxLine>>20)
		}
		out = append(out, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return bytes.TrimRight(out, "\r\n"), err
		}
	}
}

func (t *tape) take(raw []byte, first, ended bool) error {
	if len(bytes.TrimSpace(raw)) == 0 && !first {
		return nil
	}
	var l line
	var head struct {
		Cassette *int `json:"cassette"`
	}
	if first {
		if err := json.Unmarshal(raw, &head); err != nil || head.Cassette == nil {
			return errors.New(`it is no cassette: the first line of one is {"cassette":1,"model":"…"}`)
		}
		if *head.Cassette != version {
			return fmt.Errorf("it has version %d of the format, and this program knows version %d; record it again, or use a newer program", *head.Cassette, version)
		}
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&l); err != nil {
		if !ended {
			return fmt.Errorf("the last line is cut off (%w); take it out or record again", err)
		}
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something after the object")
	}
	header := l.Cassette != 0 || l.Model != "" || l.Price != nil || l.Window != 0
	switch {
	case first && (l.Piece != nil || l.Turn != nil):
		return errors.New("the first line is the header and nothing else")
	case first && l.Model == "":
		return errors.New("the header names no model")
	case first:
		t.header = l
		return nil
	case header:
		return errors.New("a second header; each cassette is a file of its own")
	case l.Piece != nil && l.Turn == nil:
		return t.takePiece(l.Piece)
	case l.Turn != nil && l.Piece == nil:
		return t.takeTurn(l.Turn)
	}
	return errors.New("the line is neither a piece nor a turn")
}

func (t *tape) takePiece(p *piece) error {
	if p.ID == "" {
		return errors.New("the piece has no id")
	}
	t.pieces[p.ID] = p
	return nil
}

func (t *tape) takeTurn(turn *recordation) error {
	ids := append([]string{turn.Request.System, turn.Request.Schema}, turn.Request.Messages...)
	for _, id := range append(ids, turn.Request.Tools...) {
		if id != "" && t.pieces[id] == nil {
			return fmt.Errorf("the request has the piece %q, which no line before has", clip(id, 40))
		}
	}
	if got := turn.Request.digest(); got != turn.Digest {
		return fmt.Errorf("the digest of the request is %s, not %q; record the turn again rather than change it", got, clip(turn.Digest, 80))
	}
	if err := turn.check(); err != nil {
		return fmt.Errorf("the turn is none: %w", err)
	}
	t.turns = append(t.turns, turn)
	return nil
}

// errFailed stands for the recorded failure of a turn that is being checked.
var errFailed = errors.New("the recorded failure")

// check reports whether a model could have produced a turn.
func (r *recordation) check() error {
	for i := range r.Parts {
		if r.Parts[i].MS < 0 {
			return errors.New("a part took less than no time")
		}
	}
	_, err := model.Collect(r.stream(), nil)
	if r.Failure != nil && errors.Is(err, errFailed) {
		return nil
	}
	return err
}

func (r *recordation) stream() iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		for i := range r.Parts {
			if !yield(r.Parts[i].decode(), nil) {
				return
			}
		}
		if r.Failure != nil {
			yield(model.Part{}, errFailed)
		}
	}
}
