//go:build race

package docindex

const raced = true // which makes SQLite, translated to Go, twenty times slower
