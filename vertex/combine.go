package vertex

import "cmp"

// A Combiner combines two messages to the same vertex into one. It must not depend on anything else.
type Combiner[M any] struct {
	fold func(a, b M) M
	// The result of folding the slots of these vertices from the left. Being one loop, it is faster than a call of fold for every message.
	gather     func(slots []M, from []int32) M
	gatherSome func(slots []M, from []int32, said []uint64) (M, bool)
}

// CombineWith combines by a function of your own. Those that follow are faster.
func CombineWith[M any](fold func(a, b M) M) *Combiner[M] {
	return &Combiner[M]{
		fold: fold,
		gather: func(slots []M, from []int32) M {
			x := slots[from[0]]
			for _, u := range from[1:] {
				x = fold(x, slots[u])
			}
			return x
		},
		gatherSome: func(slots []M, from []int32, said []uint64) (x M, some bool) {
			for i, u := range from {
				if !hasBit(said, u) {
					continue
				}
				x = slots[u]
				for _, u := range from[i+1:] {
					if hasBit(said, u) {
						x = fold(x, slots[u])
					}
				}
				return x, true
			}
			return x, false
		},
	}
}

// CombineSum adds messages up, in order.
func CombineSum[M cmp.Ordered]() *Combiner[M] {
	c := CombineWith(func(a, b M) M { return a + b })
	c.gather = func(slots []M, from []int32) M {
		x := slots[from[0]]
		for _, u := range from[1:] {
			x += slots[u]
		}
		return x
	}
	return c
}

// CombineMin keeps the smallest message.
func CombineMin[M cmp.Ordered]() *Combiner[M] {
	c := CombineWith(func(a, b M) M { return min(a, b) })
	c.gather = func(slots []M, from []int32) M {
		x := slots[from[0]]
		for _, u := range from[1:] {
			x = min(x, slots[u])
		}
		return x
	}
	return c
}

// CombineMax keeps the largest message.
func CombineMax[M cmp.Ordered]() *Combiner[M] {
	c := CombineWith(func(a, b M) M { return max(a, b) })
	c.gather = func(slots []M, from []int32) M {
		x := slots[from[0]]
		for _, u := range from[1:] {
			x = max(x, slots[u])
		}
		return x
	}
	return c
}
