package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// keySize is how many bytes a key has.
const keySize = 32

// A Key encrypts and decrypts. It prints as its ID, which is derived from the key and reveals
// nothing about it. The zero Key is no key.
type Key struct {
	secret [keySize]byte
	name   [4]byte
}

// NewKey creates a random key.
func NewKey() Key {
	var b [keySize]byte
	_, _ = rand.Read(b[:]) // never fails, by its documentation
	k, err := newKey(b[:])
	if err != nil {
		panic(err) // 32 random bytes that are all zero
	}
	return k
}

// parseKey reads a key of 32 bytes as 64 hexadecimal digits, or as base64 in any of its spellings.
// Surrounding space is ignored. The error never contains the input.
func parseKey(s string) (Key, error) {
	s = strings.TrimSpace(s)
	if len(s) == hex.EncodedLen(keySize) {
		if b, err := hex.DecodeString(s); err == nil {
			return newKey(b)
		}
	}
	plain := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(s, "="))
	if b, err := base64.RawStdEncoding.DecodeString(plain); err == nil && len(b) == keySize {
		return newKey(b)
	}
	return Key{}, fmt.Errorf("a key is %d bytes as %d hexadecimal digits or as base64, and this is neither; make one with `openssl rand -hex %d`",
		keySize, 2*keySize, keySize)
}

// ParseKeys parses keys with commas or space between them, each of 32 bytes as 64 hexadecimal digits, or as base64 in any of its
// spellings. There may be none. The error names the number of the key, and never contains it.
func ParseKeys(s string) (keys []Key, err error) {
	for i, word := range strings.FieldsFunc(s, func(c rune) bool { return c == ',' || unicode.IsSpace(c) }) {
		k, err := parseKey(word)
		if err != nil {
			return nil, fmt.Errorf("key %d: %w", i+1, err)
		}
		keys = append(keys, k)
	}
	return keys, nil
}

func newKey(b []byte) (Key, error) {
	var k Key
	copy(k.secret[:], b)
	if k.secret == [keySize]byte{} {
		return Key{}, errors.New("a key of zeros keeps nothing secret; make one with `openssl rand -hex 32`")
	}
	name, err := k.derive("name", "", len(k.name))
	copy(k.name[:], name)
	return k, err
}

// Encode returns the key as ParseKeys reads it. It is the secret itself.
func (k Key) Encode() string { return hex.EncodeToString(k.secret[:]) }

// ID returns the name of the key, which may be shown.
func (k Key) ID() string { return hex.EncodeToString(k.name[:]) }

// String returns the key's ID, so that a key that is printed by mistake stays secret.
func (k Key) String() string { return "key " + k.ID() }

// GoString is String.
func (k Key) GoString() string { return k.String() }

// MarshalText is String, for logs.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// derive derives a key from this one for a purpose and a run.
func (k Key) derive(purpose, run string, size int) ([]byte, error) {
	return hkdf.Key(sha256.New, k.secret[:], nil, "superstep seal 1\x00"+purpose+"\x00"+run, size)
}

// aead returns the cipher for a purpose and a run.
func (k Key) aead(purpose, run string) (cipher.AEAD, error) {
	sub, err := k.derive(purpose, run, keySize)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(sub)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
