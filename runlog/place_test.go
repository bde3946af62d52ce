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
	} {
		got, err := runlog.ParsePlace(c.in)
		if err != nil || got != c.want || got.String() != c.name || got.Secret() != c.secret {
			t.Errorf("%q gave %+v, named %s, secret %t (%v)", c.in, got, got, got.Secret(), err)
		}
		if strings.Contains(got.String(), "s3cr3t") {
			t.Errorf("the name of %q tells the password", c.in)
		}
	}
	for in, want := range map[string]string{
		"":                           "is no place",
		"runs.db":                    "is no place",
		"memory:x":                   "has no place",
		"file:":                      "which directory",
		"sqlite:":                    "which file",
		"mysql://h/db":               `in "mysql"`,
		"postgres:h":                 "has no host",
		"postgres://u:s3cr3t@h:pt/x": "cannot be read",
	} {
		_, err := runlog.ParsePlace(in)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cr3t") {
			t.Errorf("%q gave %v, want %q", in, err, want)
		}
	}
}
