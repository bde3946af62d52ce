// Package seal encrypts the content of runs. It is a store over another: the data and path of every
// record, and the workflow, title and summary of every run, are encrypted and authenticated (AES-256-GCM)
// before the other store sees them.
//
// A sealed record opens only in its place: in its run, with its sequence number, epoch,
// kind and time. One that was changed, moved, or put there without the key is refused, and
// so is everything that is not sealed. Nothing is ever read unsealed.
//
// What stays readable is what stores work with: IDs, kinds, times, sizes, statuses and
// parents of runs. Nor does a seal show that a log was cut short or brought back whole as it
// was before: whoever can write to the store can do that, also by means of records
// that a run of the same ID had before it was deleted.
package seal

import (
	"context"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/superstep-dev/superstep/runlog"
)

// An UnauthenticatedError reports that something in the store was not sealed with any of its
// keys, or not for the place where it is. It wraps a *runlog.CorruptError, since nothing
// from there on can be trusted.
type UnauthenticatedError struct {
	ID    string // of the run
	Seq   uint64 // of the record, 0 for the run's title
	Plain bool   // it is not sealed at all
}

func (e *UnauthenticatedError) Error() string {
	what := "title"
	if e.Seq > 0 {
		what = fmt.Sprintf("record %d", e.Seq)
	}
	if e.Plain {
		return fmt.Sprintf("unauthenticated record rejected: the %s of run %s is not encrypted, and this store is opened with a key; if it was "+
			"written before there was one, export the run without the key and import it with the key", what, e.ID)
	}
	return fmt.Sprintf("unauthenticated record rejected: the %s of run %s was changed, or moved there from another place", what, e.ID)
}

func (e *UnauthenticatedError) Unwrap() error {
	return &runlog.CorruptError{ID: e.ID, Seq: max(e.Seq, 1), Good: max(e.Seq, 1) - 1, Why: "unauthenticated"}
}

const (
	version    = 1 // of a seal
	attached   = 2 // of that of a record with an attachment
	nonceSize  = 12
	tagSize    = 16
	headSize   = 2 + 4 // mark, version, name of the key
	overhead   = headSize + nonceSize + tagSize
	workflow   = "(sealed)" // in place of a run's workflow, for who has no key
	titleMark  = "sealed:"
	purposeRun = "run"
	purposeTop = "title"
)

// New returns a store that encrypts. The Keys of a backend's Options do so by themselves; New
// is for other stores. It seals what goes into the store with the first key, and opens what comes out of it with
// the one it was sealed with, which may be any of the keys. The result has
// the optional abilities of the store, see [runlog.As]. It leaves closing the store to the caller.
//
// A key may be dropped once no run in the store was made or written to under it. Runs that
// are not sealed are listed under a title that says so, and refused otherwise.
func New(store runlog.Store, keys ...Key) (runlog.Store, error) {
	if len(keys) == 0 {
		return nil, errors.New("encrypting a store takes a key")
	}
	s := &sealed{store: store, keys: map[[4]byte]Key{}, titles: map[[4]byte]cipher.AEAD{}, first: keys[0]}
	for i, k := range keys {
		if k == (Key{}) {
			return nil, fmt.Errorf("key %d is empty; make one with NewKey or ParseKeys", i+1)
		}
		if other, twice := s.keys[k.name]; twice && other != k {
			return nil, fmt.Errorf("two keys have the name %s; make another", k.ID())
		}
		titles, err := k.aead(purposeTop, "")
		if err != nil {
			return nil, err
		}
		s.keys[k.name], s.titles[k.name] = k, titles
	}
	return s, nil
}

type sealed struct {
	store  runlog.Store
	first  Key
	keys   map[[4]byte]Key
	titles map[[4]byte]cipher.AEAD
}

// Unwrap returns the store below, see [runlog.As].
func (s *sealed) Unwrap() runlog.Store { return s.store }

// seal appends the sealed form of plain to dst.
func seal(dst []byte, version byte, k *Key, a cipher.AEAD, plain, place []byte) []byte {
	dst = append(dst, runlog.SealMark, version)
	dst = append(dst, k.name[:]...)
	var nonce [nonceSize]byte
	_, _ = rand.Read(nonce[:]) // never fails, by its documentation
	dst = append(dst, nonce[:]...)
	return a.Seal(dst, nonce[:], plain, place)
}

// Why something sealed does not open.
var (
	errPlain   = errors.New("not encrypted")
	errChanged = errors.New("changed or moved")
)

// A keyError reports a missing key.
type keyError [4]byte

func (keyError) says() string { return "encrypted with key " }

func (e keyError) Error() string { return e.says() + hex.EncodeToString(e[:]) }

// open opens what seal made in that version, in place. The AEAD of a key comes from the function.
func open(data []byte, version byte, place []byte, key func(name [4]byte) (cipher.AEAD, error)) ([]byte, error) {
	switch {
	case len(data) == 0 || data[0] != runlog.SealMark:
		return nil, errPlain
	case len(data) < overhead || data[1] != version:
		return nil, errChanged
	}
	a, err := key([4]byte(data[2:headSize]))
	if err != nil {
		return nil, err
	}
	nonce, box := data[headSize:headSize+nonceSize], data[headSize+nonceSize:]
	plain, err := a.Open(box[:0], nonce, box, place)
	if err != nil {
		return nil, errChanged
	}
	return plain, nil
}

// explain says of which run and record something does not open.
func explain(err error, id string, seq uint64) error {
	var key keyError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &key):
		return &runlog.SealedError{ID: id, Key: hex.EncodeToString(key[:])}
	case errors.Is(err, errPlain), errors.Is(err, errChanged):
		return &UnauthenticatedError{ID: id, Seq: seq, Plain: errors.Is(err, errPlain)}
	}
	return fmt.Errorf("run %s: opening its seal: %w", id, err)
}

// place returns what a sealed record is bound to, beside its run, which is in the key. The version is that of its seal.
func place(dst []byte, id string, version byte, r *runlog.Record) []byte {
	dst = append(append(append(dst, "superstep record "...), '0'+version), 0)
	dst = binary.AppendUvarint(dst, uint64(len(id)))
	dst = append(dst, id...)
	dst = binary.AppendUvarint(dst, uint64(len(r.Kind)))
	dst = append(dst, r.Kind...)
	dst = binary.BigEndian.AppendUint64(dst, r.Seq)
	dst = binary.BigEndian.AppendUint64(dst, r.Epoch)
	return binary.BigEndian.AppendUint64(dst, uint64(r.Time.UnixNano()))
}

func summaryPlace(id string) []byte { return []byte("superstep summary 1\x00" + id) }

// openSummary puts back the summary of a run. One that does not open is left out: listings do without.
func (s *sealed) openSummary(info *runlog.Info) {
	if info.Summary == "" {
		return
	}
	plain, err := open([]byte(info.Summary), version, summaryPlace(info.ID), func(name [4]byte) (cipher.AEAD, error) {
		k, ok := s.keys[name]
		if !ok {
			return nil, keyError(name)
		}
		return k.aead(purposeRun, info.ID)
	})
	if info.Summary = string(plain); err != nil {
		info.Summary = ""
	}
}

func titlePlace(id string) []byte { return []byte("superstep title 1\x00" + id) }

// sealTitle returns what a store is told of a new run.
func (s *sealed) sealTitle(id string, run *runlog.NewRun) *runlog.NewRun {
	plain := binary.AppendUvarint(nil, uint64(len(run.Workflow)))
	plain = append(append(plain, run.Workflow...), run.Title...)
	box := seal(nil, version, &s.first, s.titles[s.first.name], plain, titlePlace(id))
	out := *run
	out.Workflow, out.Title = workflow, titleMark+base64.RawURLEncoding.EncodeToString(box)
	return &out
}

// openTitle puts back what sealTitle has hidden.
func (s *sealed) openTitle(info *runlog.Info) error {
	text, ok := strings.CutPrefix(info.Title, titleMark)
	box, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if !ok || err != nil || info.Workflow != workflow {
		return errPlain
	}
	plain, err := open(box, version, titlePlace(info.ID), func(name [4]byte) (cipher.AEAD, error) {
		if a := s.titles[name]; a != nil {
			return a, nil
		}
		return nil, keyError(name)
	})
	if err != nil {
		return err
	}
	name, rest, ok := part(plain)
	if !ok {
		return errChanged
	}
	info.Workflow, info.Title = string(name), string(rest)
	return nil
}

// Runs implements runlog.Store. A run that does not open has a title that says why, in
// brackets, and no workflow.
func (s *sealed) Runs(ctx context.Context, f *runlog.Filter) ([]runlog.Info, error) {
	infos, err := s.store.Runs(ctx, f)
	for i := range infos {
		if err := s.openTitle(&infos[i]); err != nil {
			infos[i].Workflow, infos[i].Title, infos[i].Summary = "", bracketed(err), ""
		}
		s.openSummary(&infos[i])
	}
	return infos, err
}

// Sealed reports, from how a run is listed, whether it is sealed with a key that is not there:
// by a store that was opened without any, or with others. KeyID is the name of that key, ""
// if the listing was damaged. A run that opens is listed as it was made, and gives false.
func Sealed(info runlog.Info) (keyID string, ok bool) {
	switch info.Workflow {
	case "":
		name, is := strings.CutPrefix(info.Title, "["+keyError{}.says())
		name, closed := strings.CutSuffix(name, "]")
		if id, err := hex.DecodeString(name); is && closed && err == nil && len(id) == len(keyError{}) {
			return name, true
		}
		return "", info.Title == bracketed(errChanged)
	case workflow:
		box, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(info.Title, titleMark))
		if err == nil && len(box) >= headSize && box[0] == runlog.SealMark {
			keyID = hex.EncodeToString(box[2:headSize])
		}
		return keyID, true
	}
	return "", false
}

// bracketed returns the title of a run that does not open.
func bracketed(err error) string { return "[" + err.Error() + "]" }

// Acquire implements runlog.Store. A run that does not open is refused as it is.
func (s *sealed) Acquire(ctx context.Context, id string, opt *runlog.AcquireOptions) (runlog.Log, runlog.Info, error) {
	if err := runlog.CheckID(id); err != nil {
		return nil, runlog.Info{}, err
	}
	if opt != nil && opt.Create != nil {
		hidden := *opt
		hidden.Create = s.sealTitle(id, opt.Create)
		opt = &hidden
	} else if err := s.admit(ctx, id); err != nil {
		return nil, runlog.Info{}, err
	}
	a, err := s.first.aead(purposeRun, id)
	if err != nil {
		return nil, runlog.Info{}, err
	}
	log, info, err := s.store.Acquire(ctx, id, opt)
	if err != nil {
		return nil, runlog.Info{}, err
	}
	if err := s.openTitle(&info); err != nil { // it is not the run that was admitted
		return nil, runlog.Info{}, errors.Join(explain(err, id, 0), log.Release(context.WithoutCancel(ctx)))
	}
	s.openSummary(&info)
	return &sealedLog{Log: log, key: s.first, aead: a, id: id, epoch: info.Epoch, head: info.Head}, info, nil
}

// admit refuses a run that does not open before anything is changed about it.
func (s *sealed) admit(ctx context.Context, id string) error {
	infos, err := s.store.Runs(ctx, &runlog.Filter{ID: id})
	if err != nil || len(infos) == 0 {
		return err // that it is not there the store will say
	}
	return explain(s.openTitle(&infos[0]), id, 0)
}

// Read implements runlog.Store. A record that does not open gives *UnauthenticatedError, or
// *runlog.SealedError if its key is not there, with the records before it.
func (s *sealed) Read(ctx context.Context, id string, from uint64, limit int) ([]runlog.Record, error) {
	recs, err := s.store.Read(ctx, id, from, limit)
	keys := map[[4]byte]cipher.AEAD{}
	key := func(name [4]byte) (cipher.AEAD, error) {
		if a := keys[name]; a != nil {
			return a, nil
		}
		k, ok := s.keys[name]
		if !ok {
			return nil, keyError(name)
		}
		a, err := k.aead(purposeRun, id)
		keys[name] = a
		return a, err
	}
	var scratch []byte
	for i := range recs {
		r := &recs[i]
		v := byte(version)
		if len(r.Data) > 1 && r.Data[1] == attached {
			v = attached
		}
		scratch = place(scratch[:0], id, v, r)
		if oerr := openRecord(r, v, scratch, key); oerr != nil {
			return recs[:i], explain(oerr, id, r.Seq)
		}
	}
	return recs, err
}

// openRecord puts back what a record was before it was sealed.
func openRecord(r *runlog.Record, version byte, place []byte, key func(name [4]byte) (cipher.AEAD, error)) error {
	if r.Path != "" || len(r.Attachment) > 0 {
		return errPlain
	}
	plain, err := open(r.Data, version, place, key)
	if err != nil {
		return err
	}
	path, rest, ok := part(plain)
	data := rest
	if ok && version == attached {
		data, r.Attachment, ok = part(rest)
	}
	if !ok {
		return errChanged
	}
	if r.Path, r.Data = string(path), nil; len(data) > 0 {
		r.Data = data[:len(data):len(data)]
	}
	return nil
}

// part splits off the first part of what was sealed, which begins with its length.
func part(plain []byte) (first, rest []byte, ok bool) {
	n, size := binary.Uvarint(plain)
	if size <= 0 || n > uint64(len(plain)-size) {
		return nil, nil, false
	}
	plain = plain[size:]
	return plain[:n:n], plain[n:], true
}

// RequestCancel implements runlog.Store.
func (s *sealed) RequestCancel(ctx context.Context, id string) error {
	return s.store.RequestCancel(ctx, id)
}

// Delete implements runlog.Store. It takes no key.
func (s *sealed) Delete(ctx context.Context, id string) error { return s.store.Delete(ctx, id) }

// A sealedLog knows the position of its next record, since no other process writes the run. It learns the position from the
// acquisition and from its own appends, which it makes one at a time.
type sealedLog struct {
	runlog.Log
	key   Key
	aead  cipher.AEAD
	id    string
	epoch uint64

	mu    sync.Mutex
	head  uint64
	lost  error // an append of unknown outcome, nil for none
	place []byte
	plain []byte
}

// Append implements runlog.Log. After runlog.ErrUnknown this hold writes no more: release
// it and acquire the run again.
func (l *sealedLog) Append(ctx context.Context, b *runlog.Batch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		return l.lost
	}
	hidden := runlog.Batch{Records: make([]runlog.Record, len(b.Records)), Status: b.Status}
	for i := range b.Records {
		if err := l.seal(&hidden.Records[i], b.Records[i], l.head+uint64(i)+1); err != nil {
			return err
		}
	}
	if b.Summary != "" {
		hidden.Summary = string(seal(nil, version, &l.key, l.aead, []byte(b.Summary), summaryPlace(l.id)))
	}
	if cap(l.plain) > 1<<20 {
		l.plain = nil // do not keep what one large record took
	}
	l.lost = fmt.Errorf("run %s: %w: something panicked in it", l.id, runlog.ErrUnknown) // until it returns
	err := l.Log.Append(ctx, &hidden)
	if l.lost = nil; errors.Is(err, runlog.ErrUnknown) {
		l.lost = err
	}
	if err != nil {
		return err
	}
	for i := range hidden.Records {
		r := &hidden.Records[i]
		if r.Seq != l.head+uint64(i)+1 || r.Epoch != l.epoch {
			l.lost = fmt.Errorf("run %s: record %d of epoch %d was stored as record %d of epoch %d, where it does not open: %w", l.id, l.head+uint64(i)+1,
				l.epoch, r.Seq, r.Epoch, runlog.ErrUnknown)
			return l.lost
		}
		b.Records[i].Seq, b.Records[i].Epoch = r.Seq, r.Epoch
	}
	l.head += uint64(len(hidden.Records))
	return nil
}

// seal returns the sealed form of a record. The caller holds mu.
func (l *sealedLog) seal(out *runlog.Record, r runlog.Record, seq uint64) error {
	if len(r.Path) > runlog.MaxPath {
		return fmt.Errorf("run %s: record %d (%s) has a path of %d bytes, at most %d are allowed", l.id, seq, r.Kind, len(r.Path), runlog.MaxPath)
	}
	r.Seq, r.Epoch = seq, l.epoch
	v := byte(version)
	l.plain = append(binary.AppendUvarint(l.plain[:0], uint64(len(r.Path))), r.Path...)
	if len(r.Attachment) > 0 {
		v = attached
		l.plain = binary.AppendUvarint(l.plain, uint64(len(r.Data)))
	}
	l.plain = append(append(l.plain, r.Data...), r.Attachment...)
	l.place = place(l.place[:0], l.id, v, &r)
	box := make([]byte, 0, overhead+len(l.plain))
	*out = runlog.Record{Kind: r.Kind, Time: r.Time, Data: seal(box, v, &l.key, l.aead, l.plain, l.place)}
	return nil
}
