package model

import (
	"cmp"
	"math"
)

// A Price is what a model charges, in US dollars for a million tokens.
type Price struct {
	In      float64 `json:"in"`
	Out     float64 `json:"out"`
	Cached  float64 `json:"cached,omitempty"`  // for tokens of the input that the provider had in its cache; 0 charges them like the others
	Written float64 `json:"written,omitempty"` // for tokens of the input that the provider put into its cache; 0 charges them like the others
}

// Of returns the cost of a usage in millionths of a US dollar, rounded up.
func (p Price) Of(u Usage) int64 {
	cached, written := cmp.Or(p.Cached, p.In), cmp.Or(p.Written, p.In)
	plain := u.In - u.Cached - u.Written
	return int64(math.Ceil(float64(plain)*p.In + float64(u.Cached)*cached + float64(u.Written)*written + float64(u.Out)*p.Out))
}

// Priced is a Model that may know its price. The cost of other models is not counted.
type Priced interface {
	Price() (p Price, known bool)
}
