package words

import porterstemmer "github.com/blevesearch/go-porterstemmer"

// Stem reduces an English word to its stem; see [Bytes].
func Stem(word string) string { return string(Bytes([]byte(word))) }

// Bytes reduces an English word to its stem, after M. F. Porter, "An algorithm for
// suffix stripping", Program 14(3), 1980, with the two departures of the author's own
// C implementation (bli→ble, logi→log). Words shorter than three letters and words
// with anything but lower-case ASCII letters are returned as they are. The result may
// share memory with w, whose contents it changes.
func Bytes(w []byte) []byte {
	if len(w) < 3 {
		return w
	}
	letters := make([]rune, len(w))
	for i, c := range w {
		if c < 'a' || c > 'z' {
			return w
		}
		letters[i] = rune(c)
	}
	stem := porterstemmer.StemWithoutLowerCasing(letters)
	for i, r := range stem {
		w[i] = byte(r) //nolint:gosec // it is a lower-case ASCII letter
	}
	return w[:len(stem)]
}
