package sandbox

import (
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A name that leads to an address outside the public internet is refused, as web_fetch refuses it, unless that address is allowed by itself.
func TestProxyAddresses(t *testing.T) {
	t.Parallel()
	for _, address := range []string{
		"[fd00:ec2::254]:80", "100.100.100.200:80", "168.63.129.16:80", "192.0.0.192:80", "169.254.169.254:80", "[64:ff9b::a9fe:a9fe]:80", "[::ffff:169.254.169.254]:80",
		"10.0.0.5:443", "192.168.1.1:80", "127.0.0.1:80", "[::1]:80", "0.0.0.0:80", "[2002:a9fe:a9fe::]:80", "[fe80::1%1]:80",
	} {
		at := netip.MustParseAddrPort(address)
		if err := newProxy([]string{"example.org", "*.example.org"}, "").control("tcp", address, nil); err == nil {
			t.Errorf("%s is reached by a name", address)
		}
		ip := at.Addr().Unmap().WithZone("").String()
		if err := newProxy([]string{ip}, "").control("tcp", address, nil); err != nil {
			t.Errorf("%s, allowed by itself: %v", address, err)
		}
	}
	if err := newProxy([]string{"example.org"}, "").control("tcp", "93.184.215.14:443", nil); err != nil {
		t.Error(err)
	}
}

// A host can be allowed with one port.
func TestPorts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule, host, port string
		want             bool
	}{
		{"example.org:443", "example.org", "443", true}, {"example.org:443", "example.org", "80", false}, {"example.org", "example.org", "80", true},
		{"*.example.org:443", "a.example.org", "443", true}, {"*.example.org:443", "a.example.org", "22", false}, {"[::1]:80", "::1", "80", true}, {"[::1]:80", "::1", "81", false},
		{"::1", "::1", "81", true}, {"example.org:443", "example.org", "", true}, {"example.org:443", "example.com", "443", false},
	} {
		if err := CheckHost(c.rule); err != nil {
			t.Error(err)
		}
		if got := allowed([]string{c.rule}, c.host, c.port); got != c.want {
			t.Errorf("%s for %s, port %s: %v", c.rule, c.host, c.port, got)
		}
	}
	for _, bad := range []string{"example.org:0", "example.org:x", "example.org:70000", "example.org:", ":443", "*:443", "a b:443", "example.org:0443"} {
		if CheckHost(bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// Root reads nothing of the system that only its owner may read.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"open": 0o644, "secret": 0o600, "group": 0o640, "closed/in": 0o644} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil { //nolint:gosec // for others
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(dir, "closed"), 0o700); err != nil { //nolint:gosec // a folder
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // for others
		t.Fatal(err)
	}
	var got []string
	for _, name := range unreadable(dir) {
		got = append(got, filepath.Base(name))
	}
	if slices.Sort(got); strings.Join(got, " ") != "closed group secret" {
		t.Errorf("got %q", got)
	}
	if os.Geteuid() != 0 {
		return
	}
	s, err := New(&Options{Temp: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for _, name := range unreadable("/etc") {
		if !slices.ContainsFunc(s.shared.system.hide, func(h string) bool { return within(h, name) }) {
			t.Errorf("%s is readable", name)
		}
	}
}

// What logs in somewhere is taken out of a configuration of Git, and nothing else.
func TestWithoutCredentials(t *testing.T) {
	t.Parallel()
	for config, want := range map[string]string{
		"[remote \"o\"]\n\turl = https://x:zebra@example.org/a\n":                           "[remote \"o\"]\n\turl = https://example.org/a\n",
		"[url \"https://zebra@example.org/\"]\n\tinsteadOf = x:\n":                          "[url \"https://example.org/\"]\n\tinsteadOf = x:\n",
		"[remote \"o\"]\n\turl = ssh://git@example.org/a\n\tpushurl = git@x:a/b\n":          "[remote \"o\"]\n\turl = ssh://git@example.org/a\n\tpushurl = git@x:a/b\n",
		"[http \"https://a/\"]\n\textraheader = AUTHORIZATION: basic zebra\n[core]\n":       "[http \"https://a/\"]\n\t# a credential, which the sandbox keeps out\n[core]\n",
		"[http]\n\tExtraHeader = \"A: \\\nzebra\"\n\tx = y\n":                               "[http]\n\t# a credential, which the sandbox keeps out\n\tx = y\n",
		"[sendemail]\n\tsmtpPass = zebra\n[user]\n\tname = pass\n":                          "[sendemail]\n\t# a credential, which the sandbox keeps out\n[user]\n\tname = pass\n",
		"[credential]\n\thelper = \"!f() { echo password=zebra; }; f\"\n":                   "[credential]\n\t# a credential, which the sandbox keeps out\n",
		"[remote \"o\"]\n\turl = ssh://u:zebra@h/r\n\tpushurl = ssh://git@h/r\n":            "[remote \"o\"]\n\turl = ssh://h/r\n\tpushurl = ssh://git@h/r\n",
		"\turl = https://u:p@zebra@h/r\n\turl = \"https://u:a\\\"zebra@h/r\"\n":             "\turl = https://h/r\n\turl = \"https://h/r\"\n",
		"\turl = https://u:ze\\\nbra@h/r\n\tx = y\n":                                        "\turl = https://h/r\n\tx = y\n",
		"\turl = https://h/r?private_token=zebra\n\turl = https://h/r#access_token=zebra\n": "\turl = https://h/r?private_token=\n\turl = https://h/r#access_token=\n",
		"[core]\n\tsshCommand = sshpass -p zebra ssh\n\tpager = less\n":                     "[core]\n\t# a credential, which the sandbox keeps out\n\tpager = less\n",
		"[alias]\n\tp = -c http.extraHeader=\"Authorization: zebra\" push\n\ts = status\n":  "[alias]\n\t# a credential, which the sandbox keeps out\n\ts = status\n",
		"# the token is zebra\n# a remark\n":                                                "# a credential, which the sandbox keeps out\n# a remark\n",
	} {
		if got := withoutCredentials(config); got != want {
			t.Errorf("%q: got %q, want %q", config, got, want)
		}
	}
}
