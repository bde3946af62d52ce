package runlog_test

import (
	"strings"
	"testing"

	"github.com/superstep-dev/superstep/runlog"
)

func TestParsePlace(t *testing.T) {
	for _, c := range []struct {
		in     string
		want   runlog.Place
		name   string
		secret bool
	}{
		{"memory", runlog.Place{Kind: "memory"}, "memory", false},
		{"memory:", runlog.Place{Kind: "memory"}, "memory", false},
		{"file:/var/runs", runlog.Place{Kind: "file", Path: "/var/runs"}, "file:/var/runs", false},
		{"file:///var/runs/", runlog.Place{Kind: "file", Path: "/var/runs"}, "file:/var/runs", false},
		{"file:runs", runlog.Place{Kind: "file", Path: "runs"}, "file:runs", false},
		{"sqlite:a b.db", runlog.Place{Kind: "sqlite", Path: "a b.db"}, "sqlite:a b.db", false},
		{"postgres://u@h/db", runlog.Place{Kind: "postgres", URL: "postgres://u@h/db"}, "postgres://u@h/db", false},
		{"postgresql://u:s3cr3t@h:5433/db?sslmode=disable", runlog.Place{Kind: "postgres", URL: "postgresql://u:s3cr3t@h:5433/db?sslmode=disable"}, "postgresql://u:xxxxx@h:5433/db?sslmode=disable", true},
		{"postgres://h/db?password=s3cr3t", runlog.Place{Kind: "postgres", URL: "postgres://h/db?password=s3cr3t"}, "postgres://h/db?password=xxxxx", true},
		{"rediss://:s3cr3t@h:6380/0", runlog.Place{Kind: "redis", URL: "rediss://:s3cr3t@h:6380/0"}, "rediss://:xxxxx@h:6380/0", true},
		{"postgres://h/db?sslpassword=s3cr3t", runlog.Place{Kind: "postgres", URL: "postgres://h/db?sslpassword=s3cr3t"}, "postgres://h/db?sslpassword=xxxxx", true},
		{"postgres://h/db?sslmode=disable&password=s3cr3t;b", runlog.Place{Kind: "postgres", URL: "postgres://h/db?sslmode=disable&password=s3cr3t;b"}, "postgres://h/db?xxxxx", true},
		{"postgres://h/db?password=s3cr3t%zz", runlog.Place{Kind: "postgres", URL: "postgres://h/db?password=s3cr3t%zz"}, "postgres://h/db?xxxxx", true},
		{"postgres://u:s3cr3t%2F%40@h/db", runlog.Place{Kind: "postgres", URL: "postgres://u:s3cr3t%2F%40@h/db"}, "postgres://u:xxxxx@h/db", true},
		{"postgres:///db?host=/run/postgresql", runlog.Place{Kind: "postgres", URL: "postgres:///db?host=/run/postgresql"}, "postgres:///db?host=/run/postgresql", false},
		{" memory\n", runlog.Place{Kind: "memory"}, "memory", false},
		{"\tsqlite:runs.db ", runlog.Place{Kind: "sqlite", Path: "runs.db"}, "sqlite:runs.db", false},
	} {
		got, err := runlog.ParsePlace(c.in)
		if err != nil || got != c.want || got.String() != c.name || got.Secret() != c.secret {
			t.Errorf("%q gave %+v, named %s, secret %t (%v)", c.in, got, got, got.Secret(), err)
		}
		if strings.Contains(got.String(), "s3cr3t") {
			t.Errorf("the name of %q tells the password", c.in)
		}
	}
	if got := (runlog.Place{Kind: "postgres", URL: "postgres://u:s3cr3t@h:pt"}); got.String() != "postgres://…" || !got.Secret() {
		t.Errorf("an address that cannot be read is named %s, secret %t", got, got.Secret())
	}
}

func TestParsePlaceRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                               "is no place",
		" ":                              "is no place",
		"s3cr3t":                         "is no place",
		"memori":                         `did you mean "memory"? Want memory`,
		"memory:s3cr3t":                  "has no place",
		"file:":                          "file: which directory",
		"file://":                        "file: which directory",
		"sqlite":                         "sqlite: which file",
		"mysql://u:s3cr3t@h/db":          `in "mysql"; want memory`,
		"MySQL://u:s3cr3t@h/db":          `in "mysql"; want memory`,
		"fil:s3cr3t":                     `in "fil"; did you mean "file"? Want memory`,
		"postgre://u:s3cr3t@h/db":        `in "postgre"; did you mean "postgres"? Want memory`,
		"POSTGRES://u:s3cr3t@h/db":       `did you mean "postgres"?`,
		":s3cr3t@h:6379":                 "is no place",
		"s3cr3t@h:5432":                  "is no place",
		"s3cr3t-that-is-all-letters:x":   "is no place",
		"postgres:s3cr3t":                "has no host",
		"postgres:/s3cr3t":               "has no host",
		"redis":                          "has no host",
		"postgres://u:s3cr3t@h:pt/x":     "cannot be read",
		"postgres://u:s3cr3t/x@h/db":     "must be percent-encoded, such as %2F for /",
		"postgres://u:12/s3cr3t@h/db":    "must be percent-encoded, such as %2F for /",
		"postgres://u:12?s3cr3t@h/db":    "must be percent-encoded",
		"redis://:12#s3cr3t@h":           "must be percent-encoded",
		"postgres://u:s3cr3t%@h/db":      "must be percent-encoded",
		"postgres://u:s3cr3t@h/\x7f":     "must be percent-encoded",
		"host=db password=s3cr3t":        "key=value pairs is not supported; want postgres://user:password@host:port/database",
		"password=s3cr3t:x host=db":      "key=value pairs is not supported",
		"  host = db password = s3cr3t ": "key=value pairs is not supported",
	} {
		_, err := runlog.ParsePlace(in)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%q gave %v, want %q", in, err, want)
		}
	}
}
