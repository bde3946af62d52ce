// Tests of the console in a real browser, apart from the module that people use.
module github.com/superstep-dev/superstep/internal/e2e

go 1.26.0

replace github.com/superstep-dev/superstep => ../..

require (
	github.com/chromedp/cdproto v0.159.0
	github.com/chromedp/chromedp v0.23.0
	github.com/superstep-dev/superstep v0.0.0-00010101000000-000000000000
)

require (
	github.com/go-json-experiment/json v0.0.0-20260213210345-44df1a37e875 // indirect
	github.com/google/jsonschema-go v0.4.3 // indirect
)
