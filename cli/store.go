package cli

import "fmt"

// storeOrigin names the source of the store URL: a flag, a variable or the configuration.
func storeOrigin(a *app) string {
	if a.cfg.Env("SUPERSTEP_STORE") == a.set.store {
		return "SUPERSTEP_STORE"
	}
	if s := a.config().Setting("store"); s != nil && s.Value == a.set.store {
		return fmt.Sprintf("%s:%d: store", a.config().Path, s.Line)
	}
	return "--store"
}

// storeName returns the name of the store as shown to users.
func storeName(a *app) string {
	p, err := a.host().Place()
	if err != nil {
		return "memory"
	}
	return p.String()
}

// absent returns an addition to "no runs" if there is no store at all.
func absent(a *app) string {
	if a.host().Absent() {
		return ", which is not there yet"
	}
	return ""
}
