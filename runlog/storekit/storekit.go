// Package storekit is for authors of stores: it holds what the stores of this module have in
// common. Each Open of theirs ends with [Protect], so that no program can forget to redact, and
// so does that of a store of your own. A [Watch] makes a store a [runlog.Waiter], a [Hold] is what a
// log knows of its hold on a run and makes appends to it one at a time, and a [Tail] encodes batches.
package storekit

import (
	"encoding/base64"
	"encoding/hex"
	"os"
	"strings"

	"github.com/superstep-dev/superstep/runlog"
	"github.com/superstep-dev/superstep/runlog/redact"
	"github.com/superstep-dev/superstep/runlog/seal"
)

// Protection describes how the records and titles of runs are protected in a store. The zero
// value redacts the secrets of the process's environment and does not encrypt.
type Protection struct {
	// Raw turns off redaction: records are stored unchanged, including secrets.
	Raw bool

	// Keys encrypt the store: the first one encrypts, each of them decrypts. Without a key,
	// nothing is written to a store whose runs are encrypted.
	Keys []seal.Key

	// Environ is the environment whose secrets are redacted, in the form of os.Environ. If
	// nil, it is that of the process.
	Environ []string

	// Address is the address of the store, which Open of a store of this module sets. A password
	// in it is redacted.
	Address string
}

// Protect wraps a store so that all data is redacted before it is written to raw, and encrypted if there is a key. The result has the optional abilities
// of raw, see [runlog.As]. The caller must close raw. Protect returns an error for an invalid key.
func Protect(raw runlog.Store, p *Protection) (runlog.Store, error) {
	store := seal.WithoutKey(raw)
	if len(p.Keys) > 0 {
		var err error
		if store, err = seal.New(raw, p.Keys...); err != nil {
			return nil, err
		}
	}
	if p.Raw {
		return store, nil
	}
	return redact.Store(store, redact.New(p.secrets()...)), nil
}

func (p *Protection) secrets() []redact.Secret {
	environ := p.Environ
	if environ == nil {
		environ = os.Environ()
	}
	secrets := redact.FromEnv(environ)
	if p.Address != "" {
		secrets = append(secrets, redact.FromEnv([]string{"STORE_URL=" + p.Address})...)
	}
	for _, k := range p.Keys {
		text := k.Encode()
		b, _ := hex.DecodeString(text) // which it is
		for _, spelling := range []string{text, strings.ToUpper(text), base64.RawStdEncoding.EncodeToString(b), base64.RawURLEncoding.EncodeToString(b)} {
			secrets = append(secrets, redact.Secret{Name: "STORE_KEY", Value: spelling})
		}
	}
	return secrets
}
