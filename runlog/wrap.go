package runlog

// Wrap gives the store outer, which hands what it is told on to inner, the optional
// abilities that inner has and no others: Waiter, Sizer and Reclaimer. None of them
// touches what records say. It is for stores that change records on their way.
func Wrap(outer, inner Store) Store {
	w, waits := inner.(Waiter)
	z, sizes := inner.(Sizer)
	r, reclaims := inner.(Reclaimer)
	switch {
	case waits && sizes && reclaims:
		return struct {
			Store
			Waiter
			Sizer
			Reclaimer
		}{outer, w, z, r}
	case waits && sizes:
		return struct {
			Store
			Waiter
			Sizer
		}{outer, w, z}
	case waits && reclaims:
		return struct {
			Store
			Waiter
			Reclaimer
		}{outer, w, r}
	case sizes && reclaims:
		return struct {
			Store
			Sizer
			Reclaimer
		}{outer, z, r}
	case waits:
		return struct {
			Store
			Waiter
		}{outer, w}
	case sizes:
		return struct {
			Store
			Sizer
		}{outer, z}
	case reclaims:
		return struct {
			Store
			Reclaimer
		}{outer, r}
	}
	return outer
}
