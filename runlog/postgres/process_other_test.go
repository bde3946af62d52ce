//go:build !unix

package postgres

import "errors"

func worker(string) error { return errors.New("workers are for systems with signals") }
