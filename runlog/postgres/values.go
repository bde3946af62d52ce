package postgres

import (
	"encoding/binary"
	"strings"
	"time"
)

// The object identifiers of the types that are sent.
const (
	oidInt8  = 20
	oidInt4  = 23
	oidText  = 25
	oidBytea = 17
)

// millennium is the moment that Postgres counts from, 2000-01-01, as a Unix time.
const millennium = 946_684_800

// bigint returns a bigint in the binary form of Postgres.
func bigint(n int64) []byte { return binary.BigEndian.AppendUint64(nil, uint64(n)) }

func toInt(b []byte) int64 {
	switch len(b) {
	case 8:
		return int64(binary.BigEndian.Uint64(b))
	case 4:
		return int64(int32(binary.BigEndian.Uint32(b)))
	}
	return 0
}

func toBool(b []byte) bool { return len(b) == 1 && b[0] == 1 }

func toTime(b []byte) time.Time {
	return time.UnixMicro(toInt(b) + millennium*1e6).UTC()
}

// micros returns a duration in microseconds, the unit of the statements.
func micros(d time.Duration) []byte { return bigint(d.Microseconds()) }

// text returns s in a form that Postgres can store: zero bytes and invalid UTF-8 become the
// replacement character.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

func arrayHead(b []byte, oid uint32, n int) []byte {
	dims := uint32(1)
	if n == 0 {
		dims = 0
	}
	b = binary.BigEndian.AppendUint32(b, dims)
	b = binary.BigEndian.AppendUint32(b, 0) // no nulls
	b = binary.BigEndian.AppendUint32(b, oid)
	if n > 0 {
		b = binary.BigEndian.AppendUint32(b, uint32(n))
		b = binary.BigEndian.AppendUint32(b, 1) // where it begins
	}
	return b
}

// bigints returns an array of bigint: f of each element of list.
func bigints[T any](list []T, f func(T) int64) []byte {
	b := arrayHead(make([]byte, 0, 20+12*len(list)), oidInt8, len(list))
	for _, v := range list {
		b = binary.BigEndian.AppendUint32(b, 8)
		b = binary.BigEndian.AppendUint64(b, uint64(f(v)))
	}
	return b
}

func ints(list []int) []byte {
	b := arrayHead(make([]byte, 0, 20+8*len(list)), oidInt4, len(list))
	for _, v := range list {
		b = binary.BigEndian.AppendUint32(b, 4)
		b = binary.BigEndian.AppendUint32(b, uint32(v))
	}
	return b
}

func texts[T any](list []T, f func(T) string) []byte {
	return byteas(oidText, list, func(v T) []byte { return []byte(f(v)) })
}

// byteas returns an array of bytea, or of another type of bytes.
func byteas[T any](oid uint32, list []T, f func(T) []byte) []byte {
	b := arrayHead(nil, oid, len(list))
	for _, v := range list {
		s := f(v)
		b = binary.BigEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	return b
}
