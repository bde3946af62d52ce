package sandbox_test

import (
	"fmt"

	"github.com/superstep-dev/superstep/tool/sandbox"
)

func ExampleCheckHost() {
	for _, host := range []string{"example.org", "*.example.org:443", "https://example.org"} {
		fmt.Println(host, sandbox.CheckHost(host) == nil)
	}
	// Output:
	// example.org true
	// *.example.org:443 true
	// https://example.org false
}

func ExampleFetches() {
	fmt.Printf("%q %q\n", sandbox.Fetches([]string{"npx", "-y", "server"}), sandbox.Fetches([]string{"cat", "a.txt"}))
	// Output: "npm" ""
}
