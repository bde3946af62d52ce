package runlog

// As returns an optional ability of a store: a [Waiter], [Sizer] or [Reclaimer]. A store that changes
// records on their way has the abilities of the one that its method Unwrap() Store returns, since
// none of them touches what records say.
func As[T any](store Store) (ability T, ok bool) {
	for {
		if ability, ok = store.(T); ok {
			return ability, true
		}
		outer, wraps := store.(interface{ Unwrap() Store })
		if !wraps {
			return ability, false
		}
		store = outer.Unwrap()
	}
}
