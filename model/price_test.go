package model_test

import (
	"testing"

	"github.com/superstep-dev/superstep/model"
)

// Prices are in dollars for a million tokens, and costs in millionths of a dollar.
func TestPrice(t *testing.T) {
	for _, tc := range []struct {
		price model.Price
		usage model.Usage
		want  int64
	}{
		{model.Price{In: 2, Out: 8}, model.Usage{In: 1_000_000, Out: 500_000}, 6_000_000},
		{model.Price{In: 2, Out: 8, Cached: 0.5}, model.Usage{In: 1000, Out: 10, Cached: 800}, 400 + 400 + 80},
		{model.Price{In: 2, Out: 8}, model.Usage{In: 1000, Cached: 800}, 2000},
		{model.Price{In: 0.15}, model.Usage{In: 1}, 1}, // a fraction of a millionth is one
		{model.Price{}, model.Usage{In: 1000, Out: 1000}, 0},
	} {
		if got := tc.price.Of(tc.usage); got != tc.want {
			t.Errorf("%+v at %+v: %d, want %d", tc.usage, tc.price, got, tc.want)
		}
	}
}
