package workflow

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/klauspost/compress/s2"

	"github.com/superstep-dev/superstep/internal/encodable"
	"github.com/superstep-dev/superstep/vertex"
)

// packed is a snapshot of a vertex program as it is recorded: compressed, as the attachment of its record. Its step and aggregates stand beside it.
// As text, which older logs have, it is in base64.
//
//	version 1 | size | graph vertices | graph edges | changed | values | votes | to | counts | messages | edges: from, to, values
//
// Numbers are uvarints. A list is its length + 1, or 0 for nil, and its items: fixed-size ones as encoding/binary writes them in little-endian order,
// ascending indexes by how much each is more than the one before, and others as JSON after its length.
type packed[V, E, M any] struct {
	snapshot *vertex.Snapshot[V, E, M]
	bytes    []byte // of it, nil if nobody has needed them yet
}

const packVersion = 1

// pack returns a snapshot, which shares nothing with the run any more, and whether clean has changed anything in it. One of numbers is encoded later, while
// the run goes on.
func pack[V, E, M any](s *vertex.Snapshot[V, E, M], clean func(json.RawMessage) json.RawMessage) (p packed[V, E, M], changed bool, err error) {
	if p.snapshot = s; size[V]() >= 0 && size[E]() >= 0 && size[M]() >= 0 {
		return p, false, nil
	}
	if p.bytes, changed, err = encode(s, clean); err != nil {
		return p, false, err
	}
	own := packed[V, E, M]{}
	if err = own.UnmarshalBinary(p.bytes); err != nil && changed {
		err = fmt.Errorf("without the secrets in it: %w", err)
	}
	own.bytes = p.bytes
	return own, changed, err
}

// encode returns a snapshot as bytes. Clean is applied to lists that are JSON, if it is not nil.
func encode[V, E, M any](s *vertex.Snapshot[V, E, M], clean func(json.RawMessage) json.RawMessage) (b []byte, changed bool, err error) {
	room := 128 + len(s.Votes) + 2*len(s.Changed) + len(s.Values)*max(0, size[V]()) + 2*len(s.To) + 4*len(s.Counts) + len(s.Messages)*max(0, size[M]())
	w := &packer{b: append(make([]byte, 0, room), packVersion), clean: clean}
	for _, n := range []int{s.Size, s.GraphVertices, s.GraphEdges} {
		w.b = binary.AppendUvarint(w.b, uint64(n))
	}
	w.ascending(s.Changed)
	packList(w, s.Values)
	packList(w, s.Votes)
	w.ascending(s.To)
	packList(w, s.Counts)
	packList(w, s.Messages)
	edges := s.Edges
	if edges == nil {
		edges = &vertex.EdgeList[E]{}
	}
	w.ascending(edges.From)
	packList(w, edges.To)
	packList(w, edges.Values)
	if w.err != nil {
		return nil, false, w.err
	}
	return s2.Encode(nil, w.b), w.changed, nil
}

// MarshalBinary implements encoding.BinaryMarshaler.
func (p *packed[V, E, M]) MarshalBinary() (b []byte, err error) {
	if p.bytes == nil && p.snapshot != nil {
		p.bytes, _, err = encode(p.snapshot, nil)
	}
	return p.bytes, err
}

// MarshalText implements encoding.TextMarshaler.
func (p packed[V, E, M]) MarshalText() ([]byte, error) {
	b, err := p.MarshalBinary()
	return base64.StdEncoding.AppendEncode(nil, b), err
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *packed[V, E, M]) UnmarshalText(text []byte) error {
	small, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("a checkpoint: %w", err)
	}
	return p.UnmarshalBinary(small)
}

// UnmarshalBinary implements encoding.BinaryUnmarshaler.
func (p *packed[V, E, M]) UnmarshalBinary(small []byte) error {
	*p = packed[V, E, M]{}
	if len(small) == 0 {
		return nil
	}
	b, err := s2.Decode(nil, small)
	if err != nil {
		return fmt.Errorf("a checkpoint: %w", err)
	}
	if len(b) == 0 || b[0] != packVersion {
		return errors.New("a checkpoint: a newer version of the program wrote it")
	}
	r := &unpacker{b: b[1:]}
	s := &vertex.Snapshot[V, E, M]{}
	s.Size, s.GraphVertices, s.GraphEdges = r.number(), r.number(), r.number()
	s.Changed = r.ascending()
	s.Values = unpackList[V](r)
	s.Votes = unpackList[byte](r)
	s.To = r.ascending()
	s.Counts = unpackList[uint32](r)
	s.Messages = unpackList[M](r)
	edges := &vertex.EdgeList[E]{From: r.ascending(), To: unpackList[int32](r), Values: unpackList[E](r)}
	if edges.From != nil {
		s.Edges = edges
	}
	if r.err == nil && len(r.b) > 0 {
		r.err = errors.New("something follows it")
	}
	if r.err != nil {
		return fmt.Errorf("a checkpoint: %w", r.err)
	}
	p.snapshot = s
	return nil
}

// size returns how many bytes an item takes, -1 for one that is JSON.
func size[T any]() int {
	var zero T
	switch k := reflect.TypeFor[T]().Kind(); {
	case k == reflect.Slice, k == reflect.Pointer, k == reflect.Interface: // of which binary.Size gives what is in them
		return -1
	case reflect.TypeFor[T]() == reflect.TypeFor[int](): // of the size of the machine, and common
		return 8
	}
	return binary.Size(zero)
}

// encodes returns an error for a type of which a checkpoint would lose something.
func encodes[T any](what string) (err error) {
	t, n := reflect.TypeFor[T](), size[T]()
	if n < 0 {
		if problems := encodable.Check(t, what); len(problems) > 0 {
			return errors.New(strings.Join(problems, "; "))
		}
		return nil
	}
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("%s: %v has fields that are not exported, which no checkpoint can restore; export them", what, t)
		}
	}()
	_, _ = binary.Decode(make([]byte, n), binary.LittleEndian, make([]T, 1))
	return nil
}

type packer struct {
	b       []byte
	err     error
	clean   func(json.RawMessage) json.RawMessage
	changed bool
}

// length adds the length of a list.
func (w *packer) length(n int, isNil bool) {
	if isNil {
		n = -1
	}
	w.b = binary.AppendUvarint(w.b, uint64(n+1))
}

func (w *packer) ascending(list []int32) {
	w.length(len(list), list == nil)
	last := int32(0)
	for _, v := range list {
		w.b = binary.AppendUvarint(w.b, uint64(v-last))
		last = v
	}
}

func packList[T any](w *packer, list []T) {
	w.length(len(list), list == nil)
	if len(list) == 0 || w.err != nil {
		return
	}
	if ints, ok := any(list).([]int); ok {
		for _, i := range ints {
			w.b = binary.LittleEndian.AppendUint64(w.b, uint64(i))
		}
		return
	}
	if size[T]() >= 0 {
		w.b, w.err = binary.Append(w.b, binary.LittleEndian, list)
		return
	}
	items, err := json.Marshal(list)
	if w.clean != nil && err == nil {
		kept := w.clean(items)
		w.changed = w.changed || !bytes.Equal(kept, items)
		items = kept
	}
	w.b, w.err = append(binary.AppendUvarint(w.b, uint64(len(items))), items...), err
}

type unpacker struct {
	b   []byte
	err error
}

func (r *unpacker) number() int {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > 1<<40 {
		r.b, r.err = nil, errors.Join(r.err, errors.New("it is cut off"))
		return 0
	}
	r.b = r.b[size:]
	return int(n)
}

// take returns the next bytes, nil if there are fewer.
func (r *unpacker) take(n int) []byte {
	if n < 0 || n > len(r.b) {
		r.b, r.err = nil, errors.Join(r.err, errors.New("it is cut off"))
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

// length returns the length of a list, -1 for nil.
func (r *unpacker) length() int { return r.number() - 1 }

func (r *unpacker) ascending() []int32 {
	n := r.length()
	if n < 0 || n > len(r.b) {
		if n > 0 {
			r.take(n)
		}
		return nil
	}
	list, last := make([]int32, n), 0
	for i := range list {
		last += r.number()
		list[i] = int32(last)
	}
	return list
}

func unpackList[T any](r *unpacker) []T {
	n := r.length()
	if n <= 0 || r.err != nil {
		if n == 0 {
			return []T{}
		}
		return nil
	}
	size := size[T]()
	if size < 0 {
		var list []T
		if items := r.take(r.number()); items != nil {
			if err := json.Unmarshal(items, &list); err != nil {
				r.err = err
			}
		}
		if len(list) != n && r.err == nil {
			r.err = fmt.Errorf("%d items of %d", len(list), n)
		}
		return list
	}
	if size > 0 && n > len(r.b)/size {
		r.take(n * size)
		return nil
	}
	b, list := r.take(n*size), make([]T, n)
	if ints, ok := any(list).([]int); ok {
		for i := range ints {
			ints[i] = int(int64(binary.LittleEndian.Uint64(b[8*i:])))
		}
		return list
	}
	if _, err := binary.Decode(b, binary.LittleEndian, list); err != nil {
		r.err = err
	}
	return list
}
