package console_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"

	"github.com/superstep-dev/superstep/console"
	"github.com/superstep-dev/superstep/host"
)

// A program serves the console of its own host. Who has no token gets nothing.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	h, err := host.Open(ctx, &host.Config{Name: "brief", Settled: true, NoModels: true})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer h.Close()
	handler, err := console.Handler(ctx, h, &console.Options{Hosts: []string{"example.com"}, Operator: "operators", Viewer: "viewers"})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, token := range []string{"", "viewers"} {
		r := httptest.NewRequestWithContext(ctx, http.MethodGet, "http://example.com/api/v1/runs", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		fmt.Println(w.Code)
	}
	// Output:
	// 401
	// 200
}
