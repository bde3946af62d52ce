package sandbox

import (
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Fetches returns the registry from which a command fetches the program that it runs: "npm", "PyPI"
// or "Go modules", or "" if there is none.
func Fetches(argv []string) string {
	if len(argv) == 0 {
		return ""
	}
	name := filepath.Base(filepath.ToSlash(argv[0]))
	words := slices.DeleteFunc(slices.Clone(argv[1:]), func(w string) bool { return strings.HasPrefix(w, "-") })
	verb := ""
	if len(words) > 0 {
		verb = words[0]
	}
	switch name {
	case "npx", "bunx", "pnpx":
		return "npm"
	case "uvx":
		return "PyPI"
	}
	switch name + " " + verb {
	case "pnpm dlx", "yarn dlx", "npm exec", "npm x", "bun x":
		return "npm"
	case "pipx run", "uv tool", "uv run":
		return "PyPI"
	case "go run":
		return "Go modules"
	}
	return ""
}

// launch returns the needs of a command that fetches the program it runs: the hosts of its
// registry, and the variables that select the registry and a writable cache. The registry is named
// by the environment of the command or the user, or by the user's configuration.
func (s *Sandbox) launch(argv, env []string) (hosts, vars []string) {
	setting := func(names ...string) string {
		for _, list := range [][]string{env, s.opt.Environ} {
			for _, name := range names {
				for _, v := range slices.Backward(list) {
					if value, ok := strings.CutPrefix(v, name+"="); ok && value != "" {
						return userinfo.ReplaceAllString(value, "//")
					}
				}
			}
		}
		return ""
	}
	cache := s.cacheDir()
	switch Fetches(argv) {
	case "npm":
		registry := setting("npm_config_registry", "NPM_CONFIG_REGISTRY")
		if registry == "" {
			registry = npmrcRegistry(s.opt.Home)
		}
		if registry == "" {
			registry = "https://registry.npmjs.org/"
		}
		vars = []string{"npm_config_registry=" + registry, "npm_config_update_notifier=false", "npm_config_store_dir=" + filepath.Join(cache, "pnpm-store"),
			"BUN_INSTALL_CACHE_DIR=" + filepath.Join(cache, "bun")}
		hosts = hostsOf(registry)
	case "PyPI":
		vars = []string{"UV_TOOL_DIR=" + filepath.Join(cache, "uv-tools"), "PIPX_HOME=" + filepath.Join(cache, "pipx"),
			"PIPX_BIN_DIR=" + filepath.Join(cache, "pipx", "bin")}
		index := setting("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
		if index == "" {
			return []string{"pypi.org", "files.pythonhosted.org"}, vars
		}
		hosts, vars = hostsOf(index), append(vars, "UV_DEFAULT_INDEX="+index, "PIP_INDEX_URL="+index)
	case "Go modules":
		proxy := setting("GOPROXY")
		if proxy == "" {
			proxy = "https://proxy.golang.org,direct"
		}
		hosts = append(hostsOf(proxy), "sum.golang.org")
		if !slices.ContainsFunc(argv, func(w string) bool { return strings.Contains(w, "@") }) {
			modules := setting("GOMODCACHE")
			if paths := filepath.SplitList(setting("GOPATH")); modules == "" && len(paths) > 0 {
				modules = filepath.Join(paths[0], "pkg", "mod")
			}
			if modules == "" {
				modules = filepath.Join(s.opt.Home, "go", "pkg", "mod")
			}
			// Packages in the user's cache are not fetched again.
			proxy = (&url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(modules, "cache", "download"))}).String() + "," + proxy
		}
		vars = []string{"GOMODCACHE=" + filepath.Join(cache, "go-mod"), "GOPROXY=" + proxy}
	}
	return hosts, vars
}

// hostsOf returns the hosts of addresses that are separated by commas or bars.
func hostsOf(addresses string) []string {
	var out []string
	for _, a := range strings.FieldsFunc(addresses, func(r rune) bool { return r == ',' || r == '|' }) {
		if u, err := url.Parse(strings.TrimSpace(a)); err == nil && (u.Scheme == "http" || u.Scheme == "https") && CheckHost(u.Hostname()) == nil &&
			u.Hostname() != "*" {
			out = append(out, u.Hostname())
		}
	}
	return out
}

// npmrcRegistry returns the registry that the user's .npmrc names, "" for none.
func npmrcRegistry(home string) string {
	if home == "" {
		return ""
	}
	b, err := os.ReadFile(filepath.Join(home, ".npmrc"))
	if err != nil {
		return ""
	}
	registry := ""
	for text := range strings.Lines(string(b)) {
		key, value, ok := strings.Cut(text, "=")
		if ok && strings.TrimSpace(key) == "registry" {
			registry = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	if strings.Contains(registry, "${") {
		return ""
	}
	return userinfo.ReplaceAllString(registry, "//")
}

// userinfo matches a user or password in an address, which is removed.
var userinfo = regexp.MustCompile(`//[^/@,|]*@`)
