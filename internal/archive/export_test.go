package archive

import "crypto/sha256"

// Sum is the digest of a file up to its last line.
func Sum(b []byte) string {
	h := sha256.New()
	h.Write(b)
	return digest(h)
}
