package sandbox

import (
	"net/netip"
	"slices"
)

// special lists networks that do not belong to the public internet although their addresses are global, from the registries of IANA (RFC 6890 and its
// successors), and the network through which a large cloud reaches its hosts.
func special() []netip.Prefix {
	var out []netip.Prefix
	for _, s := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24",
		"192.31.196.0/24", "192.52.193.0/24", "192.88.99.0/24", "192.168.0.0/16", "192.175.48.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32",
		"2001::/23", "2001:db8::/32", "2002::/16", "2620:4f:8000::/48", "3fff::/20",
	} {
		out = append(out, netip.MustParsePrefix(s))
	}
	return out
}

// Public reports whether an address belongs to the public internet. For IPv6 it accepts only the allocated range 2000::/3, and so no mapped, translated
// or local addresses.
func Public(a netip.Addr) bool {
	a = a.WithZone("")
	if a.Is4In6() || !a.IsValid() {
		return false
	}
	if a.Is6() && !netip.MustParsePrefix("2000::/3").Contains(a) {
		return false
	}
	return !slices.ContainsFunc(special(), func(p netip.Prefix) bool { return p.Contains(a) })
}
